"""Prediction intervals of JokerRegressor whose width follows the data, against those of one width.

    python benchmarks/intervals.py                       # all seven sets of numbers, 1,500 rows each: ten minutes
    python benchmarks/intervals.py --sets wine --splits 1

Each fit has a random part of the rows of a set, and the intervals are judged on other rows. The intervals of one width
are those of the same fit: its held-out errors without their scale. The conditional coverage is that of the rows in each
third of the widths. No choice uses a test row. The results are written after every fit.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any
from unittest.mock import patch

import common
import numpy as np
import table_sets

import joker
from joker.tables import estimator, spread
from joker.tables.ensemble import Residuals, make_residuals

SETS = ("diamonds", "txhousing", "wine", "check_times", "CPS1988", "kin40k", "protein")
ROWS, TEST_ROWS, EFFORT, SPLITS = 1_500, 5_000, 1, 2
COVERAGE = 0.9
RESULTS = common.RESULTS / "intervals.json"


def measured(name: str, seed: int, rows: int, effort: int) -> dict[str, Any]:
    """Fit a set once, and return coverage and width of both kinds of intervals on test rows."""
    part = table_sets.part(name, seed)
    train, y = part.frame.iloc[:rows], np.asarray(part.y.iloc[:rows], dtype=float)
    test, truth = part.test_frame.iloc[:TEST_ROWS], np.asarray(part.test_y.iloc[:TEST_ROWS], dtype=float)
    same: list[Residuals] = []

    def watched(fitted: Any, problem: Any) -> Any:
        same.append(make_residuals(fitted.residuals))
        return spread.spread_of(fitted, problem)

    with warnings.catch_warnings(), patch.object(estimator, "spread_of", watched):
        warnings.simplefilter("ignore")
        model = joker.JokerRegressor(effort=effort, random_state=seed).fit(train, y)
        adaptive = model.predict_interval(test, COVERAGE)
    low, high = same[0].limits(COVERAGE)
    plain = model.predict(test)[:, None] + np.array([low, high])
    return {
        "rows": len(train),
        "test_rows": len(test),
        "r2": model.score(test, truth),
        "follows": model.spread is not None,
        "by_inputs": model.spread is not None and model.spread.inputs,
        "one_width": facts(plain, truth),
        "adaptive": facts(adaptive, truth),
    }


def facts(interval: Any, truth: Any) -> dict[str, Any]:
    """Return the coverage, the mean width, the interval score, and the coverage in each third of the widths."""
    low, high = interval.T
    inside = (low <= truth) & (truth <= high)
    missed = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    thirds = np.array_split(np.argsort(high - low, kind="stable"), 3)
    return {
        "coverage": float(inside.mean()),
        "width": float((high - low).mean()),
        "score": float((high - low + 2 / (1 - COVERAGE) * missed).mean()),
        "thirds": [float(inside[third].mean()) for third in thirds],
    }


def main() -> None:
    """Measure the sets that are asked for, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--effort", type=int, default=EFFORT)
    asked = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text(encoding="utf-8"))["sets"]
    for name in asked.sets.split(","):
        found[name] = []
        for seed in range(asked.splits):
            found[name].append(measured(name, seed, asked.rows, asked.effort))
            common.write_json(
                RESULTS, {"machine": common.machine(0), "effort": asked.effort, "coverage": COVERAGE, "sets": found}
            )
        print(line(name, found[name]), flush=True)


def line(name: str, runs: list[dict[str, Any]]) -> str:
    """Return the means over the splits of a set."""
    one, adaptive = (
        {key: np.mean([run[kind][key] for run in runs], axis=0) for key in runs[0][kind]} for kind in KINDS
    )
    thirds = " ".join(f"{third:.3f}" for third in adaptive["thirds"])
    return (
        f"{name:12} coverage {one['coverage']:.3f} -> {adaptive['coverage']:.3f}, width x "
        f"{adaptive['width'] / one['width']:.3f}, score x {adaptive['score'] / one['score']:.3f}, thirds {thirds}, "
        f"follows the data in {sum(run['follows'] for run in runs)} of {len(runs)}"
    )


KINDS = ("one_width", "adaptive")

if __name__ == "__main__":
    main()
