"""The expected time of a step on up to 64 GPUs, from measured steps of one GPU and stated speeds of links. A model.

    python benchmarks/step_model.py     # writes the table of docs/distributed.md

A step of one GPU takes a fixed time (the block solve, which every process repeats) and a time for each feature, which
the processes share. Both follow from two measured steps in benchmarks/results/step.json that differ in the number of
features only. To them is added the sum of the b² + b·t numbers over the processes, in a ring. Nothing here was
measured on several GPUs. A test compares the page with the output of this script.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import common
from cells import table

RESULTS = common.RESULTS / "step.json"
PAGE = common.ROOT / "docs" / "distributed.md"
MARKS = "<!-- the table of benchmarks/step_model.py -->", "<!-- end of the table -->"
# Two measured steps with a block of 512 rows and one column, in which no next block is prepared, as with several GPUs.
MEASURED = {50_000: "1 column, m 50,000, alone", 100_000: "squared_hinge, mixed, alone"}
BLOCK, COLUMNS, ITEMSIZE = 512, 1, 4
GPUS = (1, 2, 4, 8, 16, 32, 64)
FEATURES = (100_000, 400_000, 1_000_000, 4_000_000)
GPUS_OF_A_MACHINE = 8


@dataclass(frozen=True)
class Link:
    """A link between two GPUs."""

    bytes_per_second: float  # in one direction
    seconds: float  # from the start of a message to its arrival


NVLINK = Link(450e9, 5e-6)  # fourth generation: 900 GB/s in both directions together
NETWORK = Link(50e9, 10e-6)  # 400 Gb/s for each GPU


def step_parts(results: dict[str, Any]) -> tuple[float, float]:
    """Return the seconds of a step of one GPU that do not depend on the features, and those for each feature."""
    (few, short), (many, long) = ((m, results["cases"][name]["ms"] / 1e3) for m, name in MEASURED.items())
    each = (long - short) / (many - few)
    return short - few * each, each


def sum_seconds(p: int) -> float:
    """Return the seconds in which p GPUs sum the numbers of a step; the slowest link of the ring decides its speed."""
    if p == 1:
        return 0.0
    inside = min(p, GPUS_OF_A_MACHINE)
    slowest = NVLINK if p <= GPUS_OF_A_MACHINE else NETWORK
    messages = 2 * (math.log2(inside) * NVLINK.seconds + math.log2(p / inside) * NETWORK.seconds)
    sent = ITEMSIZE * (BLOCK * BLOCK + BLOCK * COLUMNS) * 2 * (p - 1) / p
    return messages + sent / slowest.bytes_per_second


def step_seconds(results: dict[str, Any], m: int, p: int) -> float:
    """Return the modelled seconds of a step with m features on p GPUs."""
    fixed, each = step_parts(results)
    return fixed + each * m / p + sum_seconds(p)


def page(text: str, results: dict[str, Any]) -> str:
    """Return the text of the page with the table of these results between its marks."""
    head, _, rest = text.partition(MARKS[0])
    _, _, tail = rest.partition(MARKS[1])
    fixed, each = step_parts(results)
    rows = [
        *([f"m = {m:,}", *(f"{1e3 * step_seconds(results, m, p):.2f}" for p in GPUS)] for m in FEATURES),
        ["of these, the sum", *(f"{1e3 * sum_seconds(p):.2f}" for p in GPUS)],
    ]
    machine = results["machine"]
    note = (
        f"Modelled, not measured. Milliseconds of a step with b = {BLOCK}, t = {COLUMNS}, d = 28. Measured on one "
        f"{machine['card']} ({machine['date']}): {1e3 * fixed:.3f} ms for the parts that every process repeats, and "
        f"{1e9 * each:.2f} ms for each million features. Assumed: {GPUS_OF_A_MACHINE} GPUs in a machine, "
        f"{NVLINK.bytes_per_second / 1e9:g} GB/s and {1e6 * NVLINK.seconds:g} µs between two of them, "
        f"{NETWORK.bytes_per_second / 1e9:g} GB/s for each GPU and {1e6 * NETWORK.seconds:g} µs between machines. "
        "The measured steps are captured in a CUDA graph, those of several processes are not: the time to start their "
        "operations comes on top of small steps. `python benchmarks/step_model.py` computes the table."
    )
    heading = ["", *("1 GPU" if p == 1 else f"{p} GPUs" for p in GPUS)]
    return f"{head}{MARKS[0]}\n{table(heading, rows)}\n\n{note}\n{MARKS[1]}{tail}"


def main() -> None:
    """Write the table of the page."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
