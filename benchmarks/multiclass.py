"""Several classes: one-vs-rest, softmax, Crammer–Singer, and LIBSVM's pairs, with one kernel.

    python benchmarks/multiclass.py                    # about an hour on one core
    python benchmarks/multiclass.py --jobs 12          # so many cells at once, each with one thread
    python benchmarks/multiclass.py --only Satellite   # sets whose name contains this; others keep their results

All models have the Gaussian kernel with the same bandwidth, half the median distance of z-scored inputs, and are exact.
Each is fitted for every λ = 1/C of a grid, and the λ with the smallest log loss on held-out rows is kept.
Losses without probabilities are calibrated on the held-out rows: those of joker by `calibrate=True`, LIBSVM's by
scikit-learn's CalibratedClassifierCV. Accuracy, log loss and expected calibration error (of the largest probability, in
15 bins) are those of test rows; the difference of a log loss to that of the softmax has its standard error over those
rows. Seconds are those of one fit with the chosen λ; every program has one thread and runs in a process of its own, and
a fit of joker ends after 30 s. The last table has the seconds of an epoch with features and ten classes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SEED = 0
LAMS = tuple(10 ** (k / 2) for k in range(-10, 2))
BINS = 15
LIMIT = 30.0  # seconds of a fit of joker
ROWS = 4_000  # training rows, at most; a quarter as many are held out, and as many are tested on
LETTERS = 26
SETS = ("mnist", "covtype", "Satellite", "income", "hpc_data", "letters")
MODELS = {
    "softmax": ("KernelLogistic", {"multi_class": "softmax"}),
    "softmax, calibrated": ("KernelLogistic", {"multi_class": "softmax", "calibrate": True}),
    "logistic, one-vs-rest": ("KernelLogistic", {"multi_class": "ovr"}),
    "Crammer–Singer, calibrated": ("KernelSVC", {"multi_class": "crammer_singer", "calibrate": True}),
    "squared hinge, one-vs-rest, calibrated": ("KernelSVC", {"calibrate": True}),
    "LIBSVM, pairs, calibrated": ("SVC", {}),
}
PRICE_ROWS, PRICE_FEATURES, PRICE_EPOCHS, PRICE_LAM = 10_000, 2_000, 3, 0.1


def rows(name: str) -> tuple[Any, Any]:
    """Return the inputs and the classes of a set, in random order."""
    import common
    import numpy as np

    if name == "letters":
        rng = np.random.default_rng(SEED)
        y = rng.integers(LETTERS, size=2 * ROWS + ROWS // 4)
        means = rng.normal(size=(2 * LETTERS, 16))  # a letter has two shapes
        return means[y + LETTERS * rng.integers(2, size=len(y))] + 0.9 * rng.normal(size=(len(y), 16)), y
    if name in ("mnist", "covtype"):
        x, y = common.arrays(name, *(("train",) if name == "mnist" else ()))
    else:
        import pandas as pd
        import table_sets

        frame, y, _ = table_sets.load(name)
        x = pd.get_dummies(frame, dummy_na=True).astype(float)
        x = x.fillna(x.median()).to_numpy()
    order = np.random.default_rng(SEED).permutation(len(y))
    return np.asarray(x)[order].astype(np.float64), np.unique(np.asarray(y)[order], return_inverse=True)[1]


def parts(name: str) -> tuple[Any, ...]:
    """Return training, held-out and test rows, z-scored by the training rows; pixels are only divided by 255."""
    import numpy as np

    x, y = rows(name)
    n = min(ROWS, len(y) // 2)
    cuts = (slice(n), slice(n, n + n // 4), slice(n + n // 4, 2 * n + n // 4))
    if name == "mnist":
        x = x / max(1.0, x.max())
    else:
        spread = x[:n].std(0)
        x = (x - x[:n].mean(0)) / np.where(spread > 0, spread, 1)
    kept = np.isin(y, np.unique(y[:n]))  # a rare class may be missing in the training rows
    return tuple(part for cut in cuts for part in (x[cut][kept[cut]], y[cut][kept[cut]]))


def sigma(x: Any) -> float:
    """Return half the median distance of two rows."""
    import numpy as np

    some = x[np.random.default_rng(SEED).permutation(len(x))[:1_000]]
    square = (some**2).sum(1)
    distance = np.sqrt(np.maximum(square[:, None] + square - 2 * some @ some.T, 0))
    return float(np.median(distance[np.triu_indices(len(some), 1)])) / 2


def model(kind: str, given: dict[str, Any], bandwidth: float, lam: float) -> Any:
    """Return an unfitted model."""
    import joker

    if kind == "SVC":
        from sklearn.svm import SVC

        return SVC(C=1 / lam, gamma=1 / (2 * bandwidth**2), cache_size=2_000)
    return getattr(joker, kind)(
        lam=lam, bandwidth=bandwidth, standardize=False, n_features=None, random_state=SEED, max_time=LIMIT, **given
    )


def fitted(kind: str, unfitted: Any, train: tuple[Any, Any], held: tuple[Any, Any]) -> tuple[Any, float]:
    """Return the fitted model, with probabilities, and the seconds of the fit."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    started = time.perf_counter()
    if kind == "SVC":
        machine = unfitted.fit(*train)
        found = CalibratedClassifierCV(FrozenEstimator(machine), method="sigmoid").fit(*held)
    else:
        found = unfitted.fit(*train, eval_set=held if unfitted.calibrate else None)
    return found, time.perf_counter() - started


def row_losses(found: Any, x: Any, y: Any) -> Any:
    """Return -log p of the class of each row."""
    import numpy as np

    p = found.predict_proba(x)[np.arange(len(y)), np.searchsorted(found.classes_, y)]
    return -np.log(np.maximum(p, 1e-15))


def calibration_error(p: Any, right: Any) -> float:
    """Return the mean difference of confidence and accuracy over bins of the confidence."""
    import numpy as np

    confidence = p.max(axis=1)
    bins = np.minimum((BINS * confidence).astype(int), BINS - 1)
    used = [bins == k for k in range(BINS) if (bins == k).any()]
    return float(sum(abs(confidence[b].mean() - right[b].mean()) * b.mean() for b in used))


def measure(name: str, label: str) -> dict[str, Any]:
    """Choose λ on held-out rows, and return the scores on test rows."""
    import numpy as np
    import torch

    torch.set_num_threads(1)
    kind, given = MODELS[label]
    x, y, x_held, y_held, x_test, y_test = parts(name)
    bandwidth, best = sigma(x), None
    fitted(kind, model(kind, given, bandwidth, 1.0), (x[:500], y[:500]), (x_held, y_held))  # loads what is loaded once
    for lam in LAMS:
        found, seconds = fitted(kind, model(kind, given, bandwidth, lam), (x, y), (x_held, y_held))
        loss = row_losses(found, x_held, y_held).mean()
        if best is None or loss < best[0]:
            best = (loss, lam, found, seconds)
    assert best is not None
    _, lam, found, seconds = best
    p = found.predict_proba(x_test)
    right = found.classes_[p.argmax(axis=1)] == y_test
    return {
        "classes": len(found.classes_),
        "rows": len(y),
        "lam": lam,
        "accuracy": float(np.mean(found.predict(x_test) == y_test)),
        "row_losses": row_losses(found, x_test, y_test).tolist(),
        "calibration_error": calibration_error(p, right),
        "seconds": round(seconds, 2),
    }


def summarised(models: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of a set: the mean loss replaces those of rows, with its difference to the softmax."""
    import numpy as np

    losses = {label: np.asarray(found.pop("row_losses")) for label, found in models.items() if "row_losses" in found}
    for label, loss in losses.items():
        models[label]["log_loss"] = float(loss.mean())
        if "softmax" in losses and label != "softmax":
            more = loss - losses["softmax"]
            models[label]["more_than_softmax"] = [float(more.mean()), float(more.std() / len(more) ** 0.5)]
    return models


def price() -> dict[str, Any]:
    """Return the seconds of an epoch with features, for ten classes of mnist."""
    import common
    import torch

    import joker

    torch.set_num_threads(1)
    x, y = common.arrays("mnist", "train")
    x, y = x[:PRICE_ROWS] / max(1.0, x.max()), y[:PRICE_ROWS]
    found = {}
    for label, (kind, given) in MODELS.items():
        if kind == "SVC" or label == "softmax, calibrated":
            continue
        settings = {**given, "calibrate": False, "n_features": PRICE_FEATURES, "max_epochs": PRICE_EPOCHS, "tol": 0.0}
        one = getattr(joker, kind)(lam=PRICE_LAM, bandwidth=8.0, standardize=False, random_state=SEED, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one.fit(x, y)
        found[label.removesuffix(", calibrated")] = {
            "seconds": round(one.history_[-1]["seconds"] / PRICE_EPOCHS, 3),
            "gap": one.gap_,
        }
    return found


def main() -> None:
    """Run the cells that are asked for, and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="sets whose name contains this; 'price' is the time of an epoch")
    parser.add_argument("--jobs", type=int, default=1, help="cells that run at once; the price of an epoch runs alone")
    parser.add_argument("--cell", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "results")
    given = parser.parse_args()
    if given.cell:
        warnings.simplefilter("ignore")
        print(json.dumps(price() if given.cell[0] == "price" else measure(*given.cell)))
        return
    import common

    path = given.out / "multiclass.json"
    results = json.loads(path.read_text()) if path.exists() else {"cells": {}}
    results["machine"] = common.machine(SEED)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    def run(cell: tuple[str, str]) -> dict[str, Any]:
        command = [sys.executable, __file__, "--cell", *cell]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"error": done.stderr[-300:]}
        print(*cell, {key: value for key, value in found.items() if key != "row_losses"}, flush=True)
        return found

    names = [name for name in SETS if given.only in name]
    with ThreadPoolExecutor(given.jobs) as pool:
        running = {name: {label: pool.submit(run, (name, label)) for label in MODELS} for name in names}
        for name, cells in running.items():
            results["cells"][name] = summarised({label: cell.result() for label, cell in cells.items()})
            common.write_json(path, results)
    if given.only in "price":
        results["price"] = run(("price", ""))
        common.write_json(path, results)


if __name__ == "__main__":
    main()
