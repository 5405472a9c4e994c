"""Rows that a fitted model predicts in a second, for 1, 1,000 and 100,000 rows at a time, and the seconds of one row.

    python benchmarks/prediction.py                  # a few minutes; --only joker: models whose name contains this
    python benchmarks/prediction.py --quick          # shows that it runs, on a few generated rows

Models are trained on 10,000 rows of covtype, class 2 against the others, with inputs scaled to deviation 1: kernel
machines with the exact kernel and with 4,000 features, table models on arrays and on frames, SVC of scikit-learn and of
oneDAL (scikit-learn-intelex), and LightGBM with 500 trees. One row of a frame with 1,000 columns, half of them numbers,
the others text, categories and dates, is predicted by a table model trained on 300 rows. All use the threads that they
choose by themselves. A time is the least of several, so that other programs of a computer disturb it little.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cells
import common
import numpy as np

SEED, TRAIN = 0, 10_000
COUNTS = (1, 1_000, 100_000)
REPEATS, ENOUGH = 50, 2.0  # calls, and seconds after which no further call is made
C, GAMMA = 1.0, 0.1
WIDE, WIDE_ROWS = 1_000, 300  # columns and training rows


def data(quick: bool) -> tuple[Any, Any, Any]:
    """Return training inputs, classes, and rows to predict."""
    if quick:
        x, y = (part.numpy() for part in common.generated(common.CLASSIFICATION, 600, SEED))
        return x[:200], y[:200], x[200:]
    x, y = common.arrays("covtype")
    order = np.random.default_rng(SEED).permutation(len(x))
    x, y = x[order].astype(np.float64), np.where(y[order] == common.COVTYPE_POSITIVE, 1.0, -1.0)
    spread = x.std(0)
    x = (x - x.mean(0)) / np.where(spread > 0, spread, 1)
    return x[:TRAIN], y[:TRAIN], x[TRAIN : TRAIN + max(COUNTS)]


def models(quick: bool) -> dict[str, Callable[[], Any]]:
    """Return functions that build the models, by name."""
    import joker

    kernel = {"kernel": "gaussian", "bandwidth": (2 * GAMMA) ** -0.5, "lam": 1 / C, "random_state": SEED}
    found: dict[str, Callable[[], Any]] = {
        "joker.KernelSVC, exact": lambda: joker.KernelSVC(n_features=None, **kernel),
        "joker.KernelSVC, features": lambda: joker.KernelSVC(n_features=50 if quick else 4_000, **kernel),
        "joker.JokerClassifier": lambda: joker.JokerClassifier(effort=1, random_state=SEED),
        "scikit-learn SVC": lambda: _imported("sklearn.svm", "SVC", C=C, gamma=GAMMA),
    }
    if find_spec("sklearnex"):
        found["oneDAL SVC"] = lambda: _imported("sklearnex.svm", "SVC", C=C, gamma=GAMMA)
    if find_spec("lightgbm"):
        found["LightGBM"] = lambda: _imported("lightgbm", "LGBMClassifier", n_estimators=500, verbose=-1)
    return found


def _imported(module: str, name: str, **parameters: Any) -> Any:
    from importlib import import_module

    return getattr(import_module(module), name)(**parameters)


def wide_frame(quick: bool) -> tuple[Any, Any]:
    """Return a frame of columns of several kinds, and its targets."""
    import pandas as pd

    rng, n, groups = np.random.default_rng(SEED), 60 if quick else WIDE_ROWS, (20 if quick else WIDE) // 20
    columns: dict[str, Any] = {}
    for j in range(groups):
        columns |= {f"number {j}.{k}": rng.normal(size=n) for k in range(10)}
        columns |= {f"text {j}.{k}": rng.choice(["red", "green", "blue", "white"], n) for k in range(4)}
        columns |= {f"category {j}.{k}": pd.Categorical(rng.choice(["low", "high"], n)) for k in range(3)}
        days = [pd.to_timedelta(rng.integers(0, 900, n), unit="D") for _ in range(3)]
        columns |= {f"date {j}.{k}": pd.Timestamp("2024-01-01") + days[k] for k in range(3)}
    frame = pd.DataFrame(columns)
    return frame, frame["number 0.0"] + (frame["text 0.0"] == "red") + 0.1 * rng.normal(size=n)


def least_seconds(work: Callable[[], Any]) -> float:
    """Return the least seconds of some calls, after a first one."""
    work()
    found: list[float] = []
    while len(found) < REPEATS and sum(found) < ENOUGH:
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def main() -> None:
    """Measure the models that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    x, y, test = data(given.quick)
    lines, results = [], []
    for name, build in models(given.quick).items():
        if given.only not in name:
            continue
        model = build().fit(x, y)
        seconds = {k: least_seconds(lambda model=model, k=k: model.predict(test[:k])) for k in COUNTS if k <= len(test)}
        results.append({"model": name, "seconds": {str(k): float(f"{s:.4g}") for k, s in seconds.items()}})
        lines.append([name, f"{1e3 * seconds[1]:.2f} ms", *(f"{k / s:,.0f}" for k, s in seconds.items())])
        print(lines[-1], flush=True)
    if given.only in "wide frame":
        import joker

        frame, target = wide_frame(given.quick)
        model = joker.JokerRegressor(effort=1, random_state=SEED).fit(frame, target)
        row = frame[:1]
        one = least_seconds(lambda: model.predict(row))
        results.append({"model": f"wide frame, {frame.shape[1]} columns", "seconds": {"1": float(f"{one:.4g}")}})
        lines.append([results[-1]["model"], f"{1e3 * one:.2f} ms", f"{1 / one:,.0f}"])
    if not given.only:
        common.write_json(given.out / "prediction.json", {"machine": common.machine(SEED), "models": results})
    head = ["model", "one row", *(f"rows/s, {k:,} at a time" for k in COUNTS)]
    print(cells.table(head, [[*line, *[None] * (len(head) - len(line))] for line in lines]))


if __name__ == "__main__":
    main()
