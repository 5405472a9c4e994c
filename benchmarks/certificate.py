"""The gap that a fit reports, against an independent computation of the true one, over random problems.

    python benchmarks/certificate.py --count 2000                            # float32 and float64, about an hour
    python benchmarks/certificate.py --count 400 --estimators                # precision and method of the estimators
    python benchmarks/certificate.py --count 500 --device cuda --jobs 8      # mixed precision
    python benchmarks/certificate.py --count 2000 --part 1/4                 # a quarter; the parts add up in the file

The problems are those of ``tests/random_problems.py``: every loss and kernel, random features, weights from 1e-3 to
1e5, inputs with clusters, duplicates, heavy tails and a distant mean, narrow and wide bandwidths, λ from 1e-6 to 100.
The seed decides everything about a problem. The reference has its own kernels, losses and conjugates, and computes
both objectives from the dual variables alone, in float64, and in more digits where those are too few.

A gap is wrong where the true one exceeds it by more than 1%, and by more than 1e-9: a sum of 2,000 terms in float64
has a relative error of up to 2e-13, and its terms may be a thousand times the objective. ``largest_excess`` has the
largest difference of the true gap and 1.01 times the reported one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import TimeoutError, get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import common
import numpy as np
import torch
from random_problems import EXCESS, MULTICLASS, SMALLEST, Outcome, RandomProblem, estimator_outcome, outcome_of

ROWS = {"cpu": (150, 1_000), "cuda": (150, 1_000)}
ESTIMATOR_ROWS = (600, 2_000)  # more than one block, so that float32 is a choice
EPOCHS, EPOCHS_OF_CLASSES, LIMIT = 12, 6, 6.0  # a solve of so many seconds is stopped
LONGEST = 3_600.0  # seconds of one problem
WRITTEN_EVERY = 10.0  # seconds between two writes of the file
FIELDS = ("loss", "kernel", "features", "dtype", "n", "reported", "true", "end", "seconds", "wrong")


def solved(seed: int, device: str, estimators: bool) -> tuple[int, list[Any], str]:
    """Solve the problem with this seed; return the seed, its line in the results, and its name."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    least, most = ESTIMATOR_ROWS if estimators else ROWS[device]
    problem = RandomProblem.draw(seed, device, most, least)
    if device == "cuda":
        problem = replace(problem, dtype=torch.float32, mixed=True)
    started = time.perf_counter()
    try:
        if estimators:
            found = estimator_outcome(seed, most, least, LIMIT)
        else:
            epochs = EPOCHS_OF_CLASSES if problem.loss in MULTICLASS else EPOCHS
            found = outcome_of(problem, device, max_epochs=epochs, max_time=LIMIT)
    except Exception as error:  # whatever leaves a fit is a result
        found = Outcome(problem.name, np.zeros(1), np.full(1, np.inf), f"raised: {type(error).__name__}: {error}"[:200])
    return seed, line(problem, found, time.perf_counter() - started), found.name


def line(problem: RandomProblem, found: Outcome, seconds: float) -> list[Any]:
    """Return the ``FIELDS`` of a problem, with the gaps of its worst column."""
    excess = np.where(np.isposinf(found.reported), -np.inf, found.true - EXCESS * found.reported)
    excess = np.nan_to_num(excess, nan=np.inf)
    worst = int(np.argmax(excess))
    loss = found.name.rsplit(" as ", 1)[1].split(",")[0] if " as " in found.name else problem.loss
    return [
        loss,
        problem.kernel,
        problem.n_features,
        str(problem.dtype).removeprefix("torch."),
        len(problem.x),
        *(_number(gaps[worst]) for gaps in (found.reported, found.true)),
        found.reason,
        round(seconds, 2),
        found.wrong,
    ]


def _number(value: Any) -> float | str:  # JSON has no infinity
    return float(f"{float(value):.6g}") if np.isfinite(value) else str(float(value))


def summary(lines: list[list[Any]]) -> dict[str, Any]:
    """Return the number of wrong gaps, and the shares of the ends."""
    columns = dict(zip(FIELDS, zip(*lines, strict=True), strict=True))
    ends, count = Counter(columns["end"]), len(lines)
    refused = sum(number for end, number in ends.items() if end.startswith("refused"))
    pairs = [(float(a), float(b)) for a, b in zip(columns["reported"], columns["true"], strict=True)]
    return {
        "problems": count,
        "wrong": sum(columns["wrong"]),
        "limit": f"true gap > {EXCESS} x reported gap, and > reported gap + {SMALLEST:g}",
        "largest_excess": _number(max(true - EXCESS * reported for reported, true in pairs if reported < np.inf)),
        "share_at_tolerance": round(ends["TOLERANCE"] / count, 4),
        "share_refused": round(refused / count, 4),
        "ends": dict(ends.most_common()),
        **{name: dict(sorted(Counter(columns[name]).items())) for name in ("dtype", "loss", "kernel")},
        "with_random_features": sum(value is not None for value in columns["features"]),
        "seconds": round(sum(columns["seconds"]), 1),
        "most_seconds": max(columns["seconds"]),
    }


def campaign(seeds: list[int], jobs: int, work: Any, seconds: float) -> Iterator[tuple[int, list[Any], str]]:
    """Solve the problems of some seeds in so many processes; yield them as they end, in at most so many seconds."""
    ends = time.perf_counter() + seconds
    if jobs == 1:
        for seed in seeds:
            if time.perf_counter() > ends:
                return
            yield work(seed)
        return
    with get_context("spawn").Pool(jobs) as pool:
        found = pool.imap_unordered(work, seeds)
        with suppress(StopIteration, TimeoutError):
            while True:  # at the end the processes are stopped, also within a problem
                yield found.next(min(max(0.0, ends - time.perf_counter()), LONGEST))


def main() -> None:
    """Solve the problems, and write the results file as they end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first problem")
    parser.add_argument("--part", default="1/1", help="k/n: the k-th of n parts of the seeds")
    parser.add_argument("--only", default="", help="seeds, with commas between")
    parser.add_argument("--device", default="cpu", choices=list(ROWS))
    parser.add_argument("--estimators", action="store_true", help="fit estimators")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="solve no more after so many seconds")
    parser.add_argument("--fresh", action="store_true", help="forget earlier problems of this kind in the file")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "certificate.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    part, parts = (int(number) for number in options.part.split("/"))
    seeds = list(range(options.first, options.first + options.count))[part - 1 :: parts]
    seeds = [int(seed) for seed in options.only.split(",")] if options.only else seeds
    kind = f"{options.device}, estimators" if options.estimators else options.device
    known = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    if not (options.fresh or options.only):  # an interrupted run goes on
        seeds = [seed for seed in seeds if str(seed) not in known.get(kind, {}).get("seeds", {})]
    lines: dict[str, list[Any]] = {}

    def write(fresh: bool = False) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
        earlier = {} if fresh else content.get(kind, {}).get("seeds", {})  # other parts may be at work
        lines.update({seed: found for seed, found in earlier.items() if seed not in lines})
        if not lines:
            raise SystemExit("No problem has ended. Use more --seconds.")
        ordered = {str(seed): lines[str(seed)] for seed in sorted(map(int, lines))}
        content[kind] = {
            "machine": {**common.machine(options.first), **common.gpu(options.device)},
            **summary(list(ordered.values())),
            "fields": list(FIELDS),
            "seeds": ordered,
        }
        common.write_json(options.out, content)
        written: dict[str, Any] = content[kind]
        return written

    begun, written = False, time.perf_counter()
    work = partial(solved, device=options.device, estimators=options.estimators)
    for seed, found, name in campaign(seeds, options.jobs, work, options.seconds):
        lines[str(seed)] = found
        if found[FIELDS.index("wrong")]:
            print(f"{name}: {found}", flush=True)
        now = time.perf_counter()
        if now - written > WRITTEN_EVERY:
            write(options.fresh and not begun)
            begun, written = True, now
    print(
        json.dumps(
            {
                name: value
                for name, value in write(options.fresh and not begun).items()
                if name not in ("seeds", "fields")
            }
        )
    )


if __name__ == "__main__":
    main()
