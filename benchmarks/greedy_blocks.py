"""The choices of greedy blocks, one changed at a time: seconds and steps to a relative duality gap of 1e-3.

    python benchmarks/greedy_blocks.py                # about ten minutes on one core
    python benchmarks/greedy_blocks.py --only protein

Every choice solves the same problems with one thread: the first rows of a training part, the exact kernel with a
Gaussian kernel and no intercept, 4 GB of memory, at most 120 s. The bandwidth is that of same_problem.py, or the median
distance ("wide"), with which the kernel is nearly a constant. "default" is what joker does: half of the new rows of a
block rise, blocks are solved to 0.05 of their gradient, and the gap is checked eight times in an epoch. The last table
compares one block with blocks of 1,024 rows, both by the default fit of an estimator with two threads.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import common
import numpy as np
import sets
import torch

import joker
from joker.runtime.devices import one_thread
from joker.solvers import Settings, loop
from joker.solvers.methods.choice import greedy_blocks

ROWS, FEW, LIMIT, TOL, MEMORY = 10_000, 2_000, 120.0, 1e-3, 4 * 10**9
GAMMAS = {"a9a": 0.03, "covtype-50k": 0.1, "mnist-10k": 0.02, "kin40k": 0.125, "protein": 0.2}
Problem = tuple[str, str, float, bool, int]  # a data set, a loss, λ, whether the kernel is wide, and rows
PROBLEMS: tuple[Problem, ...] = (
    ("covtype-50k", "hinge", 1 / 32, True, ROWS),
    ("covtype-50k", "hinge", 1 / 32, False, ROWS),
    ("covtype-50k", "squared_hinge", 1 / 32, True, ROWS),
    ("covtype-50k", "logistic", 1 / 32, True, ROWS),
    ("a9a", "hinge", 1.0, False, ROWS),
    ("mnist-10k", "hinge", 0.1, False, ROWS),
    ("kin40k", "epsilon_insensitive", 0.1, False, ROWS),
    ("protein", "epsilon_insensitive", 0.1, False, ROWS),
    ("protein", "huber", 0.01, True, ROWS),
    ("covtype-50k", "hinge", 1 / 32, True, 3 * ROWS),
)
CHOICES = ("default", "rows of the largest gain", "blocks to 0.2", "both", "gap once in an epoch")


@contextmanager
def changed(choice: str) -> Iterator[None]:
    """Solve with a choice that is not the default."""
    gains = greedy_blocks.GreedyBlocks._gains

    def of_one_direction(method: Any) -> tuple[torch.Tensor, torch.Tensor]:
        gain, rising = gains(method)
        return gain, torch.ones_like(rising)

    one_direction = choice in ("rows of the largest gain", "both")
    tol = 0.2 if choice in ("blocks to 0.2", "both") else greedy_blocks.ONE_COLUMN_TOL
    checks = 1 if choice == "gap once in an epoch" else loop.CHECKS
    with (
        mock.patch.object(greedy_blocks.GreedyBlocks, "_gains", of_one_direction if one_direction else gains),
        mock.patch.object(greedy_blocks, "ONE_COLUMN_TOL", tol),
        mock.patch.object(loop, "CHECKS", checks),
    ):
        yield


def rows(name: str, n: int) -> tuple[Any, Any]:
    """Return the first rows of a training part; mnist is 0 to 4 against 5 to 9."""
    parts = sets.split(sets.SETS[name]).first(n)
    return parts.x[:n], np.where(parts.y < 5, 1, -1)[:n] if name.startswith("mnist") else parts.y[:n]


def solve(problem: Problem, choice: str) -> dict[str, Any]:
    """Solve a problem with a choice."""
    name, loss, lam, wide, n = problem
    x, y = (torch.from_numpy(np.asarray(part, dtype=np.float32)) for part in rows(name, n))
    bandwidth = "median" if wide else (2 * GAMMAS[name]) ** -0.5
    settings = Settings(block_size=1_024, max_epochs=10**6, tol=TOL, max_time=LIMIT, seed=sets.SEED)
    options = {"lam": lam, "kernel": "gaussian", "bandwidth": bandwidth, "memory": MEMORY, "settings": settings}
    with changed(choice), one_thread():
        training = joker.prepare(x, y, loss=loss, **options)
        started = time.perf_counter()
        report = training.descent.run()
        seconds = time.perf_counter() - started
    return {"seconds": round(seconds, 2), "steps": training.descent.steps, "gap": report.relative_gap}


def small_fits() -> dict[str, Any]:
    """Return the seconds of default fits of few rows in one block and in blocks of 1,024 rows."""
    found: dict[str, Any] = {}
    for name, lam in (("covtype-50k", 1 / 32), ("a9a", 1.0), ("mnist-10k", 0.1), ("kin40k", 0.1), ("protein", 0.1)):
        x, y = rows(name, FEW)
        kinds = ("KernelSVR", "KernelHuber") if sets.SETS[name].regression else ("KernelSVC", "KernelLogistic")
        for kind in kinds:
            for label, size in (("one block", FEW), ("blocks of 1,024", 1_024)):
                model = getattr(joker, kind)(lam=lam, block_size=size, standardize=False, random_state=sets.SEED)
                times = []
                for _ in range(3):
                    started = time.perf_counter()
                    model.fit(x, y)
                    times.append(time.perf_counter() - started)
                cell = {"seconds": round(sorted(times)[1], 3), "gap": model.gap_}
                found.setdefault(f"{name}, {kind}", {})[label] = cell
            print(name, kind, found[f"{name}, {kind}"], flush=True)
    return found


def main() -> None:
    """Run the problems that are asked for, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="problems whose name contains this; 'few' is the table of few rows")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    given = parser.parse_args()
    path = given.out / "greedy_blocks.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"problems": {}, "few": {}}
    results["machine"] = common.machine(sets.SEED)
    solve((*PROBLEMS[0][:4], FEW), "default")  # loads what is loaded once
    for problem in PROBLEMS:
        name, loss, lam, wide, n = problem
        label = f"{name}, {loss}, λ = {lam:g}, {n:,} rows{', wide' if wide else ''}"
        if given.only in label:
            results["problems"][label] = {choice: solve(problem, choice) for choice in CHOICES}
            print(label, results["problems"][label], flush=True)
            common.write_json(path, results)
    if given.only in "few":
        results["few"] = small_fits()
        common.write_json(path, results)


if __name__ == "__main__":
    main()
