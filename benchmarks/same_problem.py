"""joker, LIBSVM and a dense Cholesky factorisation on the same problem: seconds to a relative duality gap.

    python benchmarks/same_problem.py                        # tens of minutes on one core
    python benchmarks/same_problem.py --only covtype/10000   # problems whose name contains this; others keep results

Every program has one thread and runs in a process of its own. A problem is a data set, its first n rows in a random
order, a loss, a Gaussian kernel exp(-γ|x - z|²) and C = 1/λ; inputs are z-scores, but those of a9a and mnist are as
they are. joker solves it without an intercept, in one run to 1e-4 with 8 GB of memory. LIBSVM (scikit-learn's SVC and
SVR) has an intercept, a cache that holds the kernel matrix, and is run with two tolerances; its gap is that of its own
problem, computed from its solution. Ten classes are ten problems, one-vs-rest: columns of one run of
joker, and ten runs of LIBSVM. Work is the number of kernel evaluations, divided by n². scikit-learn's KernelRidge
factorises the kernel matrix in float64. Seconds are those of the fit, with the evaluation of the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEVELS = (1e-2, 1e-3, 1e-4)
SEED, LIMIT, MEMORY, CACHE_MB = 0, 300.0, "8GB", 8_000
TOLERANCES = (1e-1, 1e-3)  # of LIBSVM
TEN_CLASSES = "mnist, ten classes"
AS_THEY_ARE = ("a9a", "mnist", TEN_CLASSES)  # sets with a training file, whose inputs are not scaled


@dataclass(frozen=True)
class Problem:
    """A data set, a loss and its parameters."""

    data: str
    loss: str
    C: float
    gamma: float
    n: int

    @property
    def name(self) -> str:
        """The name in the results."""
        return f"{self.data}/{self.n}/{self.loss}/C={self.C:g}"


def problems() -> list[Problem]:
    """Return the problems, the smaller ones first."""
    small = [
        ("a9a", "hinge", 1, 0.03), ("a9a", "squared_hinge", 1, 0.03), ("a9a", "logistic", 1, 0.03),
        ("covtype", "hinge", 1, 0.1), ("covtype", "hinge", 32, 0.1), ("covtype", "squared_hinge", 32, 0.1),
        ("covtype", "logistic", 32, 0.1), ("mnist", "hinge", 10, 0.02), (TEN_CLASSES, "hinge", 10, 0.02),
        ("kin40k", "epsilon_insensitive", 1, 0.125), ("kin40k", "epsilon_insensitive", 10, 0.125),
        ("kin40k", "huber", 10, 0.125), ("kin40k", "squared", 10, 0.125), ("kin40k", "squared", 333, 0.125),
        ("protein", "epsilon_insensitive", 10, 0.2), ("protein", "squared", 10, 0.2),
    ]  # fmt: skip
    large = [
        ("a9a", "hinge", 1, 0.03), ("covtype", "hinge", 32, 0.1), ("mnist", "hinge", 10, 0.02),
        ("kin40k", "epsilon_insensitive", 10, 0.125), ("kin40k", "squared", 333, 0.125),
        ("protein", "epsilon_insensitive", 10, 0.2),
    ]  # fmt: skip
    return [Problem(*p, 10_000) for p in small] + [Problem(*p, 30_000) for p in large]


def programs(problem: Problem) -> list[str]:
    """Return the programs that solve a problem."""
    if problem.loss in ("hinge", "epsilon_insensitive"):
        return ["joker", *(f"LIBSVM, tol {tol:g}" for tol in TOLERANCES)]
    if problem.loss == "squared" and problem.n <= 10_000:
        return ["joker", "KernelRidge"]
    return ["joker"]


def rows(problem: Problem) -> tuple[Any, Any]:
    """Return the inputs and the targets, (n,) or (n, 10), of a problem in float64."""
    import common
    import numpy as np

    x, y = common.arrays(problem.data.split(",")[0], *(("train",) if problem.data in AS_THEY_ARE else ()))
    order = np.random.default_rng(SEED).permutation(len(x))[: problem.n]
    x, y = x[order].astype(np.float64), y[order].astype(np.float64)
    if problem.data not in AS_THEY_ARE:
        spread = x.std(0)
        x = (x - x.mean(0)) / np.where(spread > 0, spread, 1)
    if problem.data == "covtype":
        y = np.where(y == common.COVTYPE_POSITIVE, 1.0, -1.0)
    elif problem.data == "mnist":
        y = np.where(y < 5, 1.0, -1.0)
    elif problem.data == TEN_CLASSES:
        y = np.where(y[:, None] == np.arange(10), 1.0, -1.0)
    elif problem.data == "a9a":
        y = np.where(y > 0, 1.0, -1.0)
    else:
        y = (y - y.mean()) / y.std()
    return x, y


def run_joker(problem: Problem, x: Any, y: Any) -> dict[str, Any]:
    """Solve a problem with joker, in float32, and return the seconds at each level of the gap."""
    import torch

    import joker
    from joker.solvers import Settings

    warm_up = torch.randn(3_000, x.shape[1]), torch.randn(3_000).sign()
    joker.prepare(*warm_up, loss=problem.loss, settings=Settings(block_size=1_024, max_epochs=1)).run()
    inputs, targets = torch.from_numpy(x).float(), torch.from_numpy(y).float()
    started = time.perf_counter()
    training = joker.prepare(
        inputs, targets, loss=problem.loss, lam=1 / problem.C, kernel="gaussian",
        bandwidth=(2 * problem.gamma) ** -0.5, memory=MEMORY,
        settings=Settings(block_size=1_024, max_epochs=1_000, tol=LEVELS[-1], max_time=LIMIT),
    )  # fmt: skip
    before = time.perf_counter() - started
    evaluations = count_evaluations(training.descent.state)
    _, report = training.run()
    reached = {}
    for record in report.records:
        for level in LEVELS:
            if record.relative_gap <= level and f"{level:g}" not in reached:
                reached[f"{level:g}"] = round(before + record.seconds, 2)
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "gap": report.relative_gap,
        "reached": reached,
        "epochs": report.records[-1].epoch,
        "work": round(evaluations() / problem.n**2, 2),
        "method": training.descent.settings.method,
    }


def count_evaluations(state: Any) -> Callable[[], int]:
    """Count the kernel evaluations of a solve with one thread from now on; return what returns their number."""
    kernel, counts = state.kernel, [0]

    class Counted:
        diag, work_bytes = kernel.diag, kernel.work_bytes

        def __call__(self, x: Any, z: Any) -> Any:
            counts[0] += len(x) * len(z)
            return kernel(x, z)

    state.kernel = Counted()
    if state.kept is not None:
        state.kept.kernel = state.kernel
    return lambda: counts[0]


def run_libsvm(problem: Problem, x: Any, y: Any, tol: float) -> dict[str, Any]:
    """Solve a problem, or one for each column of y, with LIBSVM, and return the largest gap of a solution."""
    if y.ndim == 2:
        found = [run_libsvm(problem, x, column, tol) for column in y.T]
        seconds, gap = sum(part["seconds"] for part in found), max(part["gap"] for part in found)
        return {"seconds": round(seconds, 2), "gap": gap, "reached": _reached(seconds, gap)}
    import numpy as np
    from sklearn.svm import SVC, SVR

    settings = {"C": problem.C, "gamma": problem.gamma, "tol": tol, "cache_size": CACHE_MB}
    model = SVC(**settings) if problem.loss == "hinge" else SVR(**settings, epsilon=0.1)
    started = time.perf_counter()
    model.fit(x, y)
    seconds = time.perf_counter() - started
    f, alpha = model.decision_function(x) if problem.loss == "hinge" else model.predict(x), np.zeros(len(x))
    alpha[model.support_] = model.dual_coef_[0]
    square = float(alpha @ (f - model.intercept_[0]))  # α·Kα
    if problem.loss == "hinge":
        loss, dual = np.maximum(0, 1 - y * f).sum(), np.abs(alpha).sum()
    else:
        loss, dual = np.maximum(0, np.abs(y - f) - 0.1).sum(), alpha @ y - 0.1 * np.abs(alpha).sum()
    primal = square / 2 + problem.C * loss
    gap = float((primal - (dual - square / 2)) / primal)
    return {"seconds": round(seconds, 2), "gap": gap, "reached": _reached(seconds, gap)}


def run_ridge(problem: Problem, x: Any, y: Any) -> dict[str, Any]:
    """Solve a squared loss by the Cholesky factorisation of scikit-learn."""
    from sklearn.kernel_ridge import KernelRidge

    started = time.perf_counter()
    KernelRidge(alpha=1 / problem.C, kernel="rbf", gamma=problem.gamma).fit(x, y)
    seconds = time.perf_counter() - started
    return {"seconds": round(seconds, 2), "gap": 0.0, "reached": _reached(seconds, 0.0)}


def _reached(seconds: float, gap: float) -> dict[str, float]:
    return {f"{level:g}": round(seconds, 2) for level in LEVELS if gap <= level}


def solve(problem: Problem, program: str) -> dict[str, Any]:
    """Solve a problem in this process."""
    import torch

    torch.set_num_threads(1)
    x, y = rows(problem)
    before = _peak_megabytes(reset=True)
    if program == "joker":
        found = run_joker(problem, x, y)
    elif program == "KernelRidge":
        found = run_ridge(problem, x, y)
    else:
        found = run_libsvm(problem, x, y, float(program.rsplit(maxsplit=1)[-1]))
    return {**found, "megabytes": _peak_megabytes() - before}


def _peak_megabytes(reset: bool = False) -> int:
    """Return the peak memory of this process, on Linux; ``reset`` sets the peak to the present memory first."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def main() -> None:
    """Run the cells that are asked for, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--program", default="", help="programs whose name contains this")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "results")
    given = parser.parse_args()
    if given.cell:
        (problem,) = (p for p in problems() if p.name == given.cell[0])
        print(json.dumps(solve(problem, given.cell[1])))
        return
    import common

    path = given.out / "same_problem.json"
    results = json.loads(path.read_text()) if path.exists() else {"cells": {}}
    results["machine"] = common.machine(SEED)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for problem in problems():
        for program in programs(problem):
            if given.only not in problem.name or given.program not in program:
                continue
            command = [sys.executable, __file__, "--cell", problem.name, program]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"error": done.stderr[-300:]}
            results["cells"].setdefault(problem.name, {})[program] = found
            print(problem.name, program, found, flush=True)
            path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
