"""How much longer than its `max_time` a table fit takes, on twelve shapes.

    python benchmarks/brake.py                                # about ten minutes on a quiet computer
    python benchmarks/brake.py --shapes words,classes --limits 2,10
    python benchmarks/brake.py --cpu                          # on a busy computer: a clock of CPU seconds
    python benchmarks/brake.py --summary                      # shows the results file, and runs nothing

A fit that is ended by `max_time` should take at most 1.2 times the limit and a second, and predict: that is checked on
some training rows. With ``--cpu`` the clock of the fit is the CPU time of its process, so that other processes do not
count; such results have a place of their own in the file. Every fit has a process of its own, and the effort is 5, so
that only the brake ends it. Its first fit, of a tiny table, is not measured: it loads what is loaded once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import common
import numpy as np
import process

LIMITS = (2.0, 10.0)  # seconds
FACTOR, SECONDS = 1.2, 1.0  # a fit may take FACTOR times its limit and SECONDS
EFFORT = 5
LONGEST = 600.0  # seconds, after which a process is ended
PREDICTED = 500  # rows
CLOCKS = ("seconds", "CPU seconds")
Shape = tuple[Any, Any, dict[str, Any]]  # inputs, targets, parameters
WORDS = np.array([f"{a}{b}" for a in "bcdfgklmnprst" for b in ("al", "en", "ir", "os", "um")])


def numbers(rows: int, inputs: int, classes: int = 0) -> Shape:
    """Normal inputs; the target is a wave and a product, or its quantile as a class."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, inputs)).astype(np.float32)
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2 % inputs] + 0.1 * rng.normal(size=rows)
    if classes:
        y = np.searchsorted(np.quantile(y, np.linspace(0, 1, classes + 1)[1:-1]), y)
    return x, y, {}


def words(rows: int, columns: int, levels: int) -> Shape:
    """Columns of words, of two columns with so many levels and others with few; the target is a sum of levels."""
    import pandas as pd

    rng = np.random.default_rng(0)
    codes = [rng.integers(0, levels if j < 2 else 4 + 3 * j, rows) for j in range(columns)]
    frame = pd.DataFrame({f"w{j}": np.char.add(WORDS[c % 65], (c // 65).astype(str)) for j, c in enumerate(codes)})
    y = sum(rng.normal(size=c.max() + 1)[c] for c in codes) + 0.1 * rng.normal(size=rows)
    return frame, y, {}


def mixed(rows: int) -> Shape:
    """Words, dates, numbers with missing values, and text that is different in every row."""
    import pandas as pd

    frame, y, _ = words(rows, 4, 300)
    rng = np.random.default_rng(1)
    frame["day"] = (np.datetime64("2020-01-01") + rng.integers(0, 900, rows).astype("timedelta64[D]")).astype(str)
    frame["note"] = [f"note {j} of {k}" for j, k in enumerate(rng.integers(0, 10**6, rows))]
    frame["size"] = np.where(rng.random(rows) < 0.1, np.nan, rng.lognormal(size=rows))
    return frame, pd.Series(np.where(y > 0, "yes", "no")), {}


def sparse(rows: int, inputs: int) -> Shape:
    """A sparse matrix of counts."""
    import scipy.sparse as sp

    x = sp.random(rows, inputs, density=0.01, random_state=0, format="csr", dtype=np.float32)
    return x, np.asarray(x[:, :50].sum(axis=1)).ravel(), {}


def grouped(rows: int, groups: int) -> Shape:
    """Rows of persons, which are held out together."""
    x, y, _ = numbers(rows, 10)
    group = np.random.default_rng(2).integers(0, groups, rows)
    return x, y + np.random.default_rng(3).normal(size=groups)[group], {"groups": group}


SHAPES: dict[str, Callable[[], Shape]] = {
    "small": lambda: numbers(1_000, 10),
    "classes": lambda: numbers(20_000, 20, 808),
    "few rows of many classes": lambda: numbers(3_000, 20, 200),
    "many rows": lambda: numbers(100_000, 20),
    "many rows of classes": lambda: numbers(100_000, 20, 10),
    "very many rows": lambda: numbers(1_000_000, 10),
    "words": lambda: words(200_000, 8, 2_000),
    "mixed": lambda: mixed(50_000),
    "columns": lambda: numbers(500, 20_000),
    "more columns": lambda: numbers(4_000, 3_000, 2),
    "sparse": lambda: sparse(20_000, 5_000),
    "groups": lambda: grouped(20_000, 400),
}


def work(send: process.Send, name: str, limit: float, cpu: bool) -> None:
    """Fit one shape with a limit, and send the seconds that it took."""
    if cpu:
        time.perf_counter = time.process_time
    import joker

    warnings.simplefilter("ignore")
    tiny, target, _ = numbers(60, 3)
    joker.JokerRegressor(effort=1, random_state=0).fit(tiny, target)
    inputs, y, parameters = SHAPES[name]()
    send({"limit": limit})
    kind = joker.JokerClassifier if np.asarray(y).dtype.kind in "iOU" else joker.JokerRegressor
    model = kind(effort=EFFORT, max_time=limit, random_state=0, **parameters)
    started, cpu_started = time.perf_counter(), time.process_time()
    model.fit(inputs, y)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    few = (
        inputs[:PREDICTED] if isinstance(inputs, np.ndarray) or not hasattr(inputs, "iloc") else inputs.iloc[:PREDICTED]
    )
    score = model.score(few, np.asarray(y)[:PREDICTED])
    held_out = model.held_out_score_
    send(
        {
            "seconds": round(seconds, 2),
            "cpu_seconds": round(cpu_seconds, 2),
            "stopped": model.stopped_by_time_,
            "members": len(model.members_),
            "held_out_score": None if held_out is None else round(held_out, 4),
            "score_on_training_rows": round(score, 4),
        }
    )


def in_time(found: dict[str, Any]) -> bool:
    """Whether a fit took at most so many seconds as it may."""
    return found.get("seconds", LONGEST) <= FACTOR * found["limit"] + SECONDS


def line(name: str, found: dict[str, Any]) -> str:
    """Return a result as a line of text."""
    if "seconds" not in found:
        return f"{name:26s} {found}"
    ratio, verdict = found["seconds"] / found["limit"], "in time" if in_time(found) else "LATE"
    scores = f"held out {found['held_out_score']}, training {found['score_on_training_rows']}"
    seconds = f"limit {found['limit']:5g} s  actual {found['seconds']:7.2f} s  ratio {ratio:5.2f}"
    return f"{name:26s} {seconds}  {verdict}  {scores}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit the chosen shapes with the chosen limits, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(SHAPES), help="with commas")
    parser.add_argument("--limits", default=",".join(f"{limit:g}" for limit in LIMITS), help="seconds, with commas")
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds of the process, not those of a clock")
    parser.add_argument("--summary", action="store_true", help="show the results file")
    parser.add_argument("--out", type=Path, default=common.RESULTS / "brake.json", help="the results file")
    options = parser.parse_args(arguments)
    results = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {}
    if options.summary:
        for clock in (key for key in CLOCKS if key in results):
            print(f"{clock}:")
            for name, limits in results[clock].items():
                for found in limits.values():
                    print(line(name, found))
        return
    clock = CLOCKS[options.cpu]
    for name in options.shapes.split(","):
        for limit in options.limits.split(","):
            found = {"limit": float(limit)} | process.apart(work, (name, float(limit), options.cpu), LONGEST)
            results.setdefault(clock, {}).setdefault(name, {})[limit] = found
            print(line(name, found), flush=True)
            results["machine"] = common.machine(0)
            common.write_json(options.out, results)


if __name__ == "__main__":
    main(sys.argv[1:])
