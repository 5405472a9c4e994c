"""joker and oneDAL (scikit-learn-intelex) with 1, 4 and 16 threads: seconds to a relative duality gap of 1e-3.

    python benchmarks/many_cores.py                          # all cells that the results file does not have yet
    python benchmarks/many_cores.py --only kin40k            # cells whose name contains this; others keep results
    python benchmarks/many_cores.py --threads 1 2            # other numbers of threads
    python benchmarks/many_cores.py --seconds 560            # begin no cell that may not end within this time
    python benchmarks/many_cores.py --quick                  # shows that it runs, on a few generated rows

A cell is a problem, a program and a number of threads, in a process of its own that may use as many cores as it has
threads; cells of one thread run side by side if ``--beside`` allows it. A problem is a data set, its first rows in a
random order, a loss, a Gaussian kernel exp(-γ|x - z|²) and C = 1/λ, as in ``same_problem.py``. joker has no intercept.
oneDAL has one; its gap is that of its own problem, computed from its solution, and its tolerance is the first of a few
that reaches the gap, or else the last. Seconds of prediction are those of 10,000 rows, the least of three.
``profile`` are the parts of an exact fit: calls, seconds, and seconds of the main thread, for each number of threads.
The efficiency is the time with one thread, divided by the number of threads and by the time with them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import cells
import common
import numpy as np
import same_problem
from same_problem import AS_THEY_ARE, SEED, Problem

GAP = 1e-3
THREADS = (1, 4, 16)
PROFILE_THREADS = (1, 2, 4, 8, 16)
TOLERANCES = (1e-1, 1e-2, 1e-3)  # of oneDAL
TEST_ROWS, REPEATS = 10_000, 3
MEMORY, CACHE_MB = "16GB", 16_000
CELL_SECONDS = 200.0  # at most
JOKER, ONEDAL, PROFILE = "joker", "oneDAL", "profile"
QUICK_ROWS, FEATURES, QUICK_FEATURES, EPOCHS = 400, 4_000, 50, 3
RIDGE, LOGISTIC = "squared", "logistic"  # ridge with the exact kernel; logistic with random features


def problems() -> list[Problem]:
    """Return the problems, the shorter ones first."""
    return [
        Problem("a9a", "hinge", 1, 0.03, 30_000),
        Problem("mnist", "hinge", 10, 0.02, 10_000),
        Problem("kin40k", "epsilon_insensitive", 10, 0.125, 30_000),
        Problem("covtype", "hinge", 32, 0.1, 50_000),
        Problem("kin40k", RIDGE, 333, 0.125, 30_000),
        Problem("covtype", LOGISTIC, 32, 0.1, 100_000),
    ]


def profiled() -> list[Problem]:
    """Return the problems of the profiles."""
    return [Problem("a9a", "hinge", 1, 0.03, 15_000), Problem("kin40k", "epsilon_insensitive", 10, 0.125, 15_000)]


@dataclass(frozen=True)
class Cell:
    """What one process does."""

    problem: Problem
    program: str
    threads: int

    @property
    def name(self) -> str:
        """The name in the results."""
        return f"{self.problem.name}/{self.program}/{self.threads}"


def chosen(threads: Sequence[int], only: str) -> list[Cell]:
    """Return the cells in the order of their importance: profiles, then many threads before few."""
    found = [Cell(p, PROFILE, k) for p in profiled() for k in sorted({*PROFILE_THREADS, *threads}) if k <= max(threads)]
    for count in sorted(threads, reverse=True):
        for problem in problems():
            found += [Cell(problem, program, count) for program in programs(problem)]
    return [cell for cell in found if only in cell.name]


def programs(problem: Problem) -> list[str]:
    """Return the programs that solve a problem."""
    return [JOKER, ONEDAL] if problem.loss in ("hinge", "epsilon_insensitive") else [JOKER]


def rows(problem: Problem, quick: bool) -> tuple[Any, Any, Any]:
    """Return training inputs, targets and test inputs."""
    if quick:
        kind = common.REGRESSION if problem.data == "kin40k" else common.CLASSIFICATION
        x, y = (part.numpy() for part in common.generated(kind, 2 * QUICK_ROWS, SEED))
        return x[:QUICK_ROWS], y[:QUICK_ROWS], x[QUICK_ROWS:]
    available = len(common.arrays(problem.data, *(("train",) if problem.data in AS_THEY_ARE else ()))[0])
    both = min(available, problem.n + TEST_ROWS)
    x, y = same_problem.rows(Problem(problem.data, problem.loss, problem.C, problem.gamma, both))
    return x[: problem.n], y[: problem.n], x[-TEST_ROWS:]


def joker_model(problem: Problem, quick: bool) -> Any:
    """Return an estimator that stops at the gap; that with features makes a few epochs."""
    import joker

    exact = {"tol": GAP, "max_epochs": 100_000, "n_features": None}
    features = {"tol": 0.0, "max_epochs": EPOCHS, "n_features": QUICK_FEATURES if quick else FEATURES}
    kind = joker.KernelRegressor if problem.data == "kin40k" else joker.KernelClassifier
    return kind(
        loss=problem.loss,
        kernel="gaussian",
        bandwidth=(2 * problem.gamma) ** -0.5,
        lam=1 / problem.C,
        fit_intercept=False,
        standardize=False,
        memory=MEMORY,
        random_state=SEED,
        **({"scale_target": False} if problem.data == "kin40k" else {}),
        **(features if problem.loss == LOGISTIC else exact),
    )


def run_joker(problem: Problem, data: tuple[Any, Any, Any], quick: bool) -> dict[str, Any]:
    """Fit and predict with joker, in float32."""
    x, y, test = data[0].astype(np.float32), data[1], data[2].astype(np.float32)
    joker_model(problem, quick).set_params(max_epochs=1).fit(x[:2_000], y[:2_000])  # imports what a fit needs
    model = joker_model(problem, quick)
    seconds = timed(lambda: model.fit(x, y))
    return {"seconds": seconds, "gap": model.gap_, "predict": predict_seconds(model, test), "epochs": model.n_iter_}


def run_onedal(problem: Problem, data: tuple[Any, Any, Any], threads: int) -> dict[str, Any]:
    """Fit and predict with oneDAL, with the first tolerance that reaches the gap."""
    import daal4py
    from sklearnex.svm import SVC, SVR

    daal4py.daalinit(threads)
    x, y, test = (part.astype(np.float32) for part in data)
    found: dict[str, Any] = {}
    for tol in TOLERANCES:
        settings = {"C": problem.C, "gamma": problem.gamma, "tol": tol, "cache_size": CACHE_MB}
        model = SVC(**settings) if problem.loss == "hinge" else SVR(**settings, epsilon=0.1)
        seconds = timed(lambda model=model: model.fit(x, y))
        found = {"seconds": seconds, "gap": gap_of(model, problem, x, y), "tol": tol}
        if found["gap"] <= GAP:
            break
    return {**found, "predict": predict_seconds(model, test)}


def gap_of(model: Any, problem: Problem, x: Any, y: Any) -> float:
    """Return the relative duality gap of a support vector machine, from its solution."""
    hinge = problem.loss == "hinge"
    f = np.asarray(model.decision_function(x) if hinge else model.predict(x), dtype=np.float64).ravel()
    alpha = np.zeros(len(x))
    alpha[np.asarray(model.support_)] = np.asarray(model.dual_coef_, dtype=np.float64).ravel()
    square = float(alpha @ (f - float(np.ravel(model.intercept_)[0])))  # α·Kα
    if hinge:
        loss, dual = np.maximum(0, 1 - y * f).sum(), np.abs(alpha).sum()
    else:
        loss, dual = np.maximum(0, np.abs(y - f) - 0.1).sum(), alpha @ y - 0.1 * np.abs(alpha).sum()
    primal = square / 2 + problem.C * float(loss)
    return float((primal - (float(dual) - square / 2)) / primal)


def run_profile(problem: Problem, data: tuple[Any, Any, Any], quick: bool) -> dict[str, Any]:
    """Return the parts of an exact fit of joker: calls, seconds, and seconds that the main thread computed."""
    from joker.solvers import kernel_cache, state
    from joker.solvers.block import trust_region
    from joker.solvers.methods import greedy_blocks

    parts: dict[str, list[float]] = {}
    for owner, name, part in (
        (kernel_cache.KernelCache, "_compute", "kernel rows"),
        (kernel_cache.KernelCache, "_add", "sums"),
        (kernel_cache.KernelCache, "add_whole_product", "product with the whole matrix"),
        (greedy_blocks.GreedyBlocks, "_working_set", "choice"),
        (state.ExactState, "open", "kernel of the block"),
        (trust_region.BlockSolver, "solve", "block solve"),
        (greedy_blocks.GreedyBlocks, "step", "whole step"),
    ):
        setattr(owner, name, watched(getattr(owner, name), parts.setdefault(part, [0, 0.0, 0.0])))
    found = run_joker(problem, data, quick)
    return found | {"parts": {part: [round(value, 3) for value in values] for part, values in parts.items()}}


def watched(work: Callable[..., Any], total: list[float]) -> Callable[..., Any]:
    """Return a function that also counts its calls, its seconds and those of its thread."""

    def call(*given: Any, **named: Any) -> Any:
        started, own = time.perf_counter(), time.thread_time()
        try:
            return work(*given, **named)
        finally:
            total[0] += 1
            total[1] += time.perf_counter() - started
            total[2] += time.thread_time() - own

    return call


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that ``work`` takes."""
    started = time.perf_counter()
    work()
    return round(time.perf_counter() - started, 3)


def predict_seconds(model: Any, test: Any) -> float:
    """Return the seconds in which rows are predicted."""
    return min(timed(lambda: model.predict(test)) for _ in range(REPEATS))


def solve(sender: Connection, cell: Cell, data: tuple[Any, Any, Any], cores: Sequence[int], quick: bool) -> None:
    """Do what a cell says, in a process of its own on some cores, and send the result."""
    import torch
    from threadpoolctl import threadpool_limits

    warnings.simplefilter("ignore")
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(0, cores)
    torch.set_num_threads(cell.threads)
    threadpool_limits(cell.threads)
    try:
        if cell.program == JOKER:
            found = run_joker(cell.problem, data, quick)
        elif cell.program == PROFILE:
            found = run_profile(cell.problem, data, quick)
        else:
            found = run_onedal(cell.problem, data, cell.threads)
    except Exception as error:
        found = {"failed": f"{type(error).__name__}: {error}"[:300]}
    sender.send(found)


def run_together(some: Sequence[Cell], data: Callable[[Problem], Any], limit: float, quick: bool) -> list[Any]:
    """Run some cells side by side, each on cores of its own, and return their results in order."""
    fork = multiprocessing.get_context("fork")  # the data are in memory, and no thread was started
    cores, started = iter(sorted(available_cores())), time.monotonic()
    running = []
    for cell in some:
        receiver, sender = fork.Pipe(duplex=False)
        own = [core for _, core in zip(range(cell.threads), cores, strict=False)]
        process = fork.Process(target=solve, args=(sender, cell, data(cell.problem), own, quick))
        process.start()
        sender.close()
        running.append((process, receiver))
    results = []
    for process, receiver in running:
        found: Any = {"did_not_finish_in_seconds": round(limit)}
        if wait([receiver], max(0.0, started + limit - time.monotonic())):
            with suppress(EOFError):
                found = receiver.recv()
            found = found if "did_not_finish_in_seconds" not in found else {"failed": "the process ended"}
        process.kill()
        process.join()
        results.append(found)
    return results


def available_cores() -> set[int]:
    """Return the cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def groups(wanted: Sequence[Cell], beside: int) -> Iterator[list[Cell]]:
    """Yield the cells one by one, and cells of one thread together, those of one program for a problem each."""
    single = [cell for cell in wanted if cell.threads == 1 and cell.program != PROFILE and beside > 1]
    for cell in wanted:
        if cell not in single:
            yield [cell]
    for first in range(0, len(single), beside):
        yield single[first : first + beside]


def show(results: dict[str, Any]) -> str:
    """Return the results as tables in Markdown."""
    found = results["cells"]
    counts = sorted({int(name.rsplit("/", 1)[1]) for name in found if f"/{PROFILE}/" not in name})
    head = ["problem", "program", *(f"{k} threads: fit (gap) · predict" for k in counts), "efficiency"]
    lines = []
    for problem in problems():
        for program in programs(problem):
            some = {k: found.get(f"{problem.name}/{program}/{k}", {}) for k in counts}
            lines.append([problem.name, program, *(_cell(one) for one in some.values()), _efficiency(some)])
    texts = [cells.table(head, lines)]
    for problem in profiled():
        some = {k: found[name] for k in PROFILE_THREADS if (name := f"{problem.name}/{PROFILE}/{k}") in found}
        some = {k: one for k, one in some.items() if "parts" in one}
        if some:
            names = next(iter(some.values()))["parts"]
            lines = [[name, *(_part(one["parts"][name]) for one in some.values())] for name in names]
            lines.append(["fit", *(f"{one['seconds']:.2f} s" for one in some.values())])
            texts.append(cells.table([problem.name, *(f"{k} threads" for k in some)], lines))
    return "\n\n".join(texts)


def _cell(found: dict[str, Any]) -> str:
    if "seconds" not in found:
        return str(found.get("failed", "")) or ("too long" if found else "")
    return f"{found['seconds']:.2f} s ({found['gap']:.1e}) · {found['predict']:.3f} s"


def _part(values: Sequence[float]) -> str:
    calls, seconds, own = values
    return f"{seconds:.2f} s, {own:.2f} of the main thread" if calls else ""


def _efficiency(some: dict[int, dict[str, Any]]) -> str:
    base = some.get(1, {}).get("seconds")
    return (
        ""
        if base is None
        else ", ".join(
            f"{base / k / one['seconds']:.2f} ({k})" for k, one in some.items() if k > 1 and one.get("seconds")
        )
    )


def main() -> None:
    """Run the cells that are asked for, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--threads", type=int, nargs="+", default=THREADS)
    parser.add_argument("--beside", type=int, default=1, help="cells of one thread that run at the same time")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time for all cells")
    parser.add_argument("--again", action="store_true", help="measure cells that have results too")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    path = given.out / ("many_cores_quick.json" if given.quick else "many_cores.json")
    results = json.loads(path.read_text()) if path.exists() else {"cells": {}}
    results["machine"] = common.machine(SEED)
    loaded: dict[Problem, Any] = {}

    def data(problem: Problem) -> Any:
        if problem not in loaded:
            loaded[problem] = rows(problem, given.quick)
        return loaded[problem]

    import joker  # noqa: F401  # once, before the processes are forked

    wanted = [
        c for c in chosen(given.threads, given.only) if given.again or "seconds" not in results["cells"].get(c.name, {})
    ]
    for some in groups(wanted, given.beside):
        for cell in some:
            data(cell.problem)
        left = end - time.monotonic()
        if left < 1:
            print("the time limit is reached; a second run measures the other cells", flush=True)
            break
        found = run_together(some, data, min(CELL_SECONDS, left), given.quick)
        for cell, one in zip(some, found, strict=True):
            results["cells"][cell.name] = one
            print(cell.name, one, flush=True)
        common.write_json(path, results)
    print(show(results))


if __name__ == "__main__":
    main()
