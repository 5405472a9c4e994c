"""Training from a disk within a memory budget, compared with the same fit from memory.

    python benchmarks/out_of_core.py                   # 5,000,000 x 28 rows: ten minutes or more, 1.3 GB of disk
    python benchmarks/out_of_core.py --rows 50000      # shows that it runs

Rows with the shape of HIGGS are generated and converted to a row store; the squared hinge is then fitted for one epoch
with m = 1,024 features and blocks of 512, from the store and from the same rows in memory. Every step runs in its own
process. Memory is the growth of the peak resident memory over that of the process after importing joker. Before the fit
from the disk the file is removed from the page cache of the system.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch

import joker
from joker.data import Batch, Schema, Source, convert, open_store
from joker.runtime import parse_bytes

SEED, WIDTH = 0, 28  # the number of inputs is that of HIGGS
BATCH = 2**16  # rows generated at a time; fixed, so that the rows do not depend on the batch size of the reader
TEST_ROWS = 50_000
SLOWEST = 1.25  # the limit on the time from the disk, in units of the time from memory


class Generated(Source):
    """Rows with skewed inputs, and two classes that depend on products of inputs."""

    name = "generated"

    def __init__(self, rows: int, seed: int = SEED) -> None:
        self.rows, self.seed, self.dtype = rows, seed, np.dtype(np.float32)
        self.schema = Schema.numbers([f"x{j}" for j in range(WIDTH)], "signal")

    def batches(self, rows: int) -> Iterator[Batch]:
        assert self.rows is not None
        for first in range(0, self.rows, BATCH):
            x, y = generated(min(BATCH, self.rows - first), self.seed + first // BATCH)
            for start in range(0, len(x), rows):
                yield Batch(x[start : start + rows], y[start : start + rows], first + start)


def generated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return generated rows and their classes."""
    rng = np.random.default_rng([SEED, seed])
    x = rng.standard_normal((n, WIDTH), dtype=np.float32)
    f = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) * x[:, 3] + 0.5 * x[:, 4] + 0.5 * rng.standard_normal(n)
    x[:, ::4] = np.exp(0.5 * x[:, ::4])
    return x, (f > 0).astype(np.int64)


def model(m: int, memory: str) -> joker.KernelSVC:
    """Build the machine of both fits."""
    settings: dict[str, Any] = {"lam": 1.0, "bandwidth": 6.0, "standardize": True, "random_state": SEED, "tol": 0.0}
    return joker.KernelSVC(n_features=m, block_size=512, max_epochs=1, memory=memory, **settings)


def resident(field: str) -> int:
    """Return the bytes of resident memory: the present value (VmRSS) or the peak (VmHWM)."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) * 1024


def idle() -> int:
    """Reset the peak, and return the present resident memory."""
    with suppress(OSError):  # without permission the peak of the imports counts too
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return resident("VmRSS")


def measured(work: Callable[[], Any], report: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return the seconds of ``work``, the growth of the memory peak, and ``report`` of its result."""
    before, started, worked = idle(), time.perf_counter(), time.process_time()
    found = work()
    seconds = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - worked}
    return {**seconds, "growth_bytes": resident("VmHWM") - before, **report(found)}


def converting(path: Path, rows: int, m: int, memory: str) -> dict[str, Any]:
    """Write the store."""
    return measured(
        lambda: convert(Generated(rows), path, memory=memory), lambda store: {"store_bytes": store.header.end}
    )


def from_disk(path: Path, rows: int, m: int, memory: str) -> dict[str, Any]:
    """Fit from the store."""
    forget(path)
    return measured(lambda: model(m, memory).fit(open_store(path, verify=False)), accuracy)


def from_memory(path: Path, rows: int, m: int, memory: str) -> dict[str, Any]:
    """Fit from the same rows in memory; reading them is not timed."""
    store = open_store(path, verify=False)
    x, y = store.x.array(slice(None)), store.y
    return measured(lambda: model(m, memory).fit(x, y), accuracy)


STEPS = {"convert": converting, "disk": from_disk, "memory": from_memory}


def accuracy(fitted: joker.KernelSVC) -> dict[str, Any]:
    """Return the accuracy on new rows, and the duality gap."""
    return {"accuracy": fitted.score(*generated(TEST_ROWS, 10**9)), "gap": fitted.gap_}


def forget(path: Path) -> None:
    """Remove a file from the page cache of the system."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def apart(step: str, path: Path, rows: int, m: int, memory: str) -> dict[str, Any]:
    """Run a step in its own process."""
    command = [sys.executable, __file__, "--step", step, "--store", str(path), "--rows", str(rows)]
    done = subprocess.run(
        [*command, "-m", str(m), "--memory", memory], stdout=subprocess.PIPE, text=True, check=True, timeout=3600
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def summary(results: dict[str, Any]) -> str:
    """Return the results as a table."""
    lines = ["| step | seconds | CPU seconds | growth of memory | accuracy |", "| --- | --- | --- | --- | --- |"]
    for step in STEPS:
        entry = results[step]
        shown = f"{entry['accuracy']:.4f}" if "accuracy" in entry else ""
        seconds = f"{entry['seconds']:.1f} | {entry['cpu_seconds']:.1f}"
        lines.append(f"| {step} | {seconds} | {entry['growth_bytes'] / 1e6:.0f} MB | {shown} |")
    return "\n".join([*lines, f"disk / memory: {results['ratio']:.2f}; within the budget: {results['inside_budget']}"])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("-m", type=int, default=1024, help="random features")
    parser.add_argument("--memory", default="300MB")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    parser.add_argument("--folder", type=Path, help="folder of the store; by default a temporary folder")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step:
        print(json.dumps(STEPS[options.step](options.store, options.rows, options.m, options.memory)))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        shape = (Path(folder) / "train.rows", options.rows, options.m, options.memory)
        results = {step: apart(step, *shape) for step in STEPS}
    problem = {
        "rows": options.rows,
        "inputs": WIDTH,
        "features": options.m,
        "memory": options.memory,
        "generated": True,
    }
    report = {
        "machine": common.machine(SEED),
        "problem": problem,
        **results,
        "ratio": results["disk"]["seconds"] / results["memory"]["seconds"],
        "inside_budget": results["disk"]["growth_bytes"] <= parse_bytes(options.memory),
        "fast_enough": results["disk"]["seconds"] <= SLOWEST * results["memory"]["seconds"],
    }
    common.write_json(options.out / "out_of_core.json", report)
    print(summary(report))


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    main()
