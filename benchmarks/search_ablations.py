"""Ablations of the search: one of its constants changed at a time, scored on held-out rows.

    python benchmarks/search_ablations.py             # about half an hour on one core
    python benchmarks/search_ablations.py --jobs 8    # so many runs at once, each with one thread

The rows of a set are those of its training part in benchmarks/tables.py, split 0: four fifths are fitted and the rest
is scored, so no test row is read. "tune" is `joker.tune` on columns encoded by hand, and "table" is JokerClassifier or
JokerRegressor with the default effort. The error is the RMSE in units of the deviation of the target, or
the share of wrong classes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import common
import process

SEED, HELD_SHARE = 0, 0.2
TUNED = ("kin40k", "protein", "diamonds")
FITTED = ("kin40k", "covtype-50k", "diamonds", "protein")
SETTLED = ("higgs33k", "a9a", "covtype-50k", "kin40k")
MANY_ROWS = ("higgs33k", "protein", "covtype-50k", "a9a", "diamonds", "CPS1988", "kin40k")
WEIGHTED = ("higgs33k", "protein", "covtype-50k", "a9a", "diamonds", "hpc_data", "mlc_churn")


def _same_rows(rows: Any, count: int, seed: int) -> Iterator[Any]:
    """Draw rows once, and return them for ever; in place of `joker.tuning.ard.minibatches`."""
    import numpy as np

    return itertools.repeat(np.random.RandomState(seed).permutation(rows)[:count])


def _no_fits(*given: Any) -> list[Any]:
    """Plan no fit on more rows than the search has; in place of `joker.tables.plan._refits`."""
    return []


# The first choice of each axis is the present code; a value replaces the constant of the module.
AXES: dict[str, dict[str, tuple[str, str, Any] | None]] = {
    "tune: epochs of a trial, squared loss": {
        "40": None,
        "12": ("joker.tuning.trials", "SQUARED_TRIAL_EPOCHS", 12),
    },
    "table: fit on many rows": {
        "epochs of the plan": None,
        "half of them": ("joker.tables.plan", "REFIT_ENTRIES", {1: 1e9, 2: 3e9, 3: 6e9, 4: 1.2e10, 5: 2.5e10}),
        "the rows of the search": ("joker.tables.plan", "_refits", _no_fits),
    },
    "table: settings of the fit on many rows": {
        "λ and bandwidth tried again": None,
        "the λ of the search": ("joker.tables.refit", "SMALLER_LAMBDAS", (1.0,)),
        "the bandwidth of the search": ("joker.tables.refit", "MAX_NARROWER", 0),
        "a gap of 0.1%": ("joker.tables.refit", "TOL_OF_MANY_ROWS", 1e-3),
    },
    "table: rows that the weights of inputs are fitted on": {
        "others in each step": None,
        "the same in each step": ("joker.tables.search", "minibatches", _same_rows),
    },
    "table: kernels of many rows": {
        "gaussian, matern12": None,
        "and laplacian": ("joker.tables.refit", "KERNELS_OF_MANY_ROWS", ("gaussian", "matern12", "laplacian")),
    },
}


def rows(name: str) -> tuple[Any, ...]:
    """Return fitted rows and held-out rows of the training part, and whether the target is a number."""
    import numpy as np
    import table_sets

    part = table_sets.part(name, SEED)
    order = np.random.default_rng(SEED).permutation(len(part.frame))
    cut = round(HELD_SHARE * len(order))
    held, train = order[:cut], order[cut:]
    frames = (part.frame.iloc[chosen].reset_index(drop=True) for chosen in (train, held))
    targets = (part.y.iloc[chosen].reset_index(drop=True) for chosen in (train, held))
    return *frames, *targets, part.task == "regression"


def measure(axis: str, choice: str, name: str) -> dict[str, float]:
    """Return the error of one choice on one set, and the CPU seconds of its fit."""
    import importlib

    import numpy as np
    import table_models
    import torch

    torch.set_num_threads(1)
    change = AXES[axis][choice]
    if change is not None:
        module, constant, value = change
        assert hasattr(importlib.import_module(module), constant)
        setattr(importlib.import_module(module), constant, value)
    frame, held, y, y_held, regression = rows(name)
    model = table_models.MODELS["joker.tune" if axis.startswith("tune") else "joker"]
    fitted = model("regression" if regression else "classification", table_models.Budget())
    started = process.cpu_seconds()
    fitted.fit(frame, y)
    predicted = np.asarray(fitted.predict(held))
    seconds = process.cpu_seconds() - started
    if regression:
        error = float(np.sqrt(np.mean((predicted - y_held) ** 2)) / np.std(y_held))
    else:
        error = float(np.mean(predicted != y_held))
    return {"error": round(error, 5), "cpu_seconds": round(seconds, 1)}


def sets(axis: str) -> tuple[str, ...]:
    """Return the sets that the choices of an axis are compared on."""
    if axis.startswith("tune"):
        return TUNED
    if "settings" in axis:
        return SETTLED
    return MANY_ROWS if "kernels" in axis else WEIGHTED if "weights" in axis else FITTED


def ratio(choice: dict[str, Any], default: dict[str, Any]) -> float:
    """Return the geometric mean of the errors, relative to those of the default."""
    shared = [name for name in default if "error" in choice.get(name, {}) and "error" in default[name]]
    return math.exp(sum(math.log(choice[name]["error"] / default[name]["error"]) for name in shared) / len(shared))


def main() -> None:
    """Run every choice of every axis, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="axes whose name contains this; the others keep their results")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    given = parser.parse_args()
    if given.cell:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(*given.cell)))
        return
    path = given.out / "search_ablations.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"axes": {}}
    results["axes"] = {axis: found for axis, found in results["axes"].items() if axis in AXES}
    results["machine"] = common.machine(SEED)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    def run(cell: tuple[str, str, str]) -> dict[str, Any]:
        command = [sys.executable, __file__, "--cell", *cell]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"failed": done.stderr[-300:]}
        print(*cell, found, flush=True)
        return found

    axes = {axis: choices for axis, choices in AXES.items() if given.only in axis}
    cells = [(axis, choice, name) for axis, choices in axes.items() for choice in choices for name in sets(axis)]
    with ThreadPoolExecutor(given.jobs) as pool:
        found = dict(zip(cells, pool.map(run, cells), strict=True))
    for axis, choices in axes.items():
        curves = {
            one: {name: found[axis, one, name] for a, c, name in cells if (a, c) == (axis, one)} for one in choices
        }
        default = next(iter(curves.values()))
        ratios = {one: round(ratio(errors, default), 4) for one, errors in curves.items()}
        results["axes"][axis] = {"choices": curves, "error_ratio": ratios}
    common.write_json(path, results)


if __name__ == "__main__":
    main()
