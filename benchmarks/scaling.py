"""Growth of time and memory with rows, features, inputs and columns: slopes on logarithmic scales.

    python benchmarks/scaling.py                    # under three minutes on two cores
    python benchmarks/scaling.py --device cuda      # up to ten million rows and a million features; under 90 s
    python benchmarks/scaling.py --only n           # one axis; its results replace the old ones
    python benchmarks/scaling.py --quick            # shows that it runs

Rows are generated, the loss is the squared hinge, the kernel Gaussian, and blocks have 512 rows. Against n the time is
that of one epoch with its evaluation of the gap; against the other axes it is the median time of a step. Memory is the
peak of GPU memory, with the rows, or the growth of resident memory on the CPU. The slope is that of a straight line
through the logarithms of the upper half of the points: 1 is linear. The theoretical slope holds where its term
dominates; for small sizes other terms do, and the slope is smaller.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import common
import process
import torch

from joker.prepare import Training, prepare
from joker.solvers import Settings

SEED = 0
BLOCK = 512
WARM = 8  # steps until a captured step is replayed


@dataclass(frozen=True)
class Size:
    """A problem."""

    n: int
    m: int
    d: int
    t: int
    steps: int | None  # None: a whole epoch


@dataclass(frozen=True)
class Axis:
    """The quantity that varies, the other sizes, and the theoretical slopes."""

    name: str
    what: str
    values: tuple[int, ...]
    base: Size
    time_slope: float
    memory_slope: float

    def sizes(self) -> list[Size]:
        """Return the problems of the axis."""
        return [replace(self.base, **{self.name: value}) for value in self.values]


def axes(device: str, quick: bool) -> list[Axis]:
    """Return the four axes, with sizes for the device."""
    if quick:
        small = Size(n=2_000, m=64, d=8, t=1, steps=2)
        values = {"n": (1_000, 2_000, 4_000), "m": (32, 64, 128), "d": (8, 16, 32), "t": (1, 2, 4)}
        epoch = replace(small, steps=None)
        bases = {"n": epoch, "m": small, "d": small, "t": small}
    elif device == "cuda":
        values = {
            "n": (10**4, 10**5, 10**6, 10**7),
            "m": (10**3, 10**4, 10**5, 10**6),
            "d": (8, 32, 128, 512, 2_048, 4_096),
            "t": (1, 3, 10, 30, 100),
        }
        step = Size(n=100_000, m=10_000, d=28, t=1, steps=30)
        bases = {"n": Size(0, 1_000, 28, 1, None), "m": step, "d": replace(step, n=50_000), "t": step}
    else:
        values = {
            "n": (5_000, 10_000, 20_000, 40_000, 80_000),
            "m": (1_000, 2_000, 4_000, 8_000, 16_000, 32_000),
            "d": (8, 32, 128, 512, 2_048, 4_096),
            "t": (1, 3, 10, 30, 100),
        }
        step = Size(n=10_000, m=2_000, d=28, t=1, steps=8)
        bases = {"n": Size(0, 1_000, 28, 1, None), "m": step, "d": replace(step, n=4_000), "t": step}
    return [
        Axis("n", "rows; seconds of an epoch", values["n"], bases["n"], 1.0, 1.0),
        Axis("m", "features; seconds of a step", values["m"], bases["m"], 1.0, 1.0),
        Axis("d", "inputs; seconds of a step", values["d"], bases["d"], 1.0, 1.0),
        Axis("t", "columns; seconds of a step", values["t"], bases["t"], 1.0, 1.0),
    ]


def lay(size: Size, device: str) -> Training:
    """Generate rows and prepare a fit."""
    draw = torch.Generator(device).manual_seed(SEED)
    x = torch.randn(size.n, size.d, generator=draw, device=device)
    y = torch.where(x[:, 0] * x[:, 1] + x[:, 2].sin() > 0, 1.0, -1.0)
    columns = (
        y[:, None] if size.t == 1 else y[:, None] * torch.where(torch.arange(size.t, device=device) % 2 > 0, -1, 1)
    )
    return prepare(
        x,
        columns,
        loss="squared_hinge",
        lam=1.0,
        kernel="gaussian",
        bandwidth=math.sqrt(size.d),
        n_features=size.m,
        memory="1GB" if device == "cuda" else "200MB",
        mixed=device == "cuda",
        settings=Settings(block_size=BLOCK, max_epochs=1, tol=0.0, seed=SEED),
    )


def measure(size: Size, device: str) -> dict[str, Any]:
    """Return seconds and bytes of one problem."""
    before = _start(device)
    training = lay(size, device)
    seconds = _epoch(training) if size.steps is None else _steps(training, size.steps)
    return {**asdict(size), "seconds": float(f"{seconds:.4g}"), "peak_bytes": _peak(device, before)}


def _epoch(training: Training) -> float:
    """Return the seconds of one epoch with its evaluation of the gap, without the first steps, which set things up."""
    descent = training.descent
    warm = min(WARM, descent.method.blocks.count - 1)
    for _ in range(warm):
        descent.step()
    descent.method.statistics.counts.sum().item()  # waits for the device
    started = time.perf_counter()
    descent.run()
    return (time.perf_counter() - started) * descent.method.blocks.count / (descent.method.blocks.count - warm)


def _steps(training: Training, steps: int) -> float:
    """Return the median seconds of a step, without the first steps, which set things up."""
    warm = WARM if training.descent.method.schedule.replay else 2
    times = []
    for number in range(steps + warm):
        started = time.perf_counter()
        training.descent.step()
        training.descent.method.statistics.counts.sum().item()  # waits for the device
        if number >= warm:
            times.append(time.perf_counter() - started)
    return median(times)


def _start(device: str) -> int | None:
    gc.collect()  # frees the last problem, with its captured steps
    if device != "cuda":
        return process.forget_peak()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return None


def _peak(device: str, before: int | None) -> int | None:
    return torch.cuda.max_memory_allocated() if device == "cuda" else process.growth(before)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of a least-squares line through logarithms, over the upper half of the points (at least two)."""
    upper = sorted(points)[len(points) // 2 if len(points) > 3 else 0 :]
    logs = [(math.log(a), math.log(max(b, 1e-12))) for a, b in upper]
    mean_a, mean_b = (sum(part) / len(logs) for part in zip(*logs, strict=True))
    across = sum((a - mean_a) ** 2 for a, _ in logs)
    return round(sum((a - mean_a) * (b - mean_b) for a, b in logs) / across, 3)


def run(axis: Axis, device: str) -> dict[str, Any]:
    """Measure all points of an axis, and their slopes."""
    points = []
    for size in axis.sizes():
        points.append(measure(size, device))
        found = points[-1]
        memory = found["peak_bytes"]
        shown = "?" if memory is None else f"{memory / 1e6:.1f} MB"
        print(f"{axis.name} = {getattr(size, axis.name):>10,}  {found['seconds']:.5f} s  {shown}", flush=True)
    held = [(point[axis.name], point["peak_bytes"]) for point in points if point["peak_bytes"]]
    entry = {
        "what": axis.what,
        "points": points,
        "time_slope": slope([(point[axis.name], point["seconds"]) for point in points]),
        "memory_slope": slope(held) if len(held) > 2 else None,
        "theory": {"time": axis.time_slope, "memory": axis.memory_slope},
    }
    print(f"{axis.name}: slope of time {entry['time_slope']}, of memory {entry['memory_slope']}; at most 1 in theory")
    return entry


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, fit slopes, and add the results of this device to the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", choices=("n", "m", "d", "t"), help="one axis")
    parser.add_argument("--quick", action="store_true", help="small problems")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    options = parser.parse_args(arguments)
    file = options.out / "scaling.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    found = before.get(options.device, {}).get("axes", {}) if options.only else {}
    started = time.perf_counter()
    measure(replace(axes(options.device, True)[0].base, n=1_000), options.device)  # starts the device
    for axis in axes(options.device, options.quick):
        if options.only in (None, axis.name):
            found[axis.name] = run(axis, options.device)
    machine = common.machine(SEED) | common.gpu(options.device)
    entry = {"machine": machine, "axes": found, "seconds": round(time.perf_counter() - started, 1)}
    common.write_json(file, before | {options.device: entry})


if __name__ == "__main__":
    main()
