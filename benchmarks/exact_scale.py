"""Exact kernels on hundreds of thousands and millions of rows of a GPU: test error, seconds, gap and memory.

    JOKER_DATA=... python benchmarks/exact_scale.py                 # all parts, about twenty minutes on an H200
    JOKER_DATA=... python benchmarks/exact_scale.py --only "hepc|mnist"  # parts with these names

The table estimators have their defaults, and choose the exact kernel themselves. LightGBM (1,000 trees of 255 leaves)
and scikit-learn's HistGradientBoosting fit the same rows with all cores of the same machine. The split is random with a
fixed seed: 80/20 for covtype, 90/10 for hepc, the official one for mnist. RMSE is in deviations of the test targets.
The curves are the test error after each epoch of a fit with the encoding and the bandwidth that JokerRegressor has
chosen, with the exact Matérn kernel of order ½ and with random features of it; seconds are those of the steps.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch

import joker
from joker.callbacks import Callback, Run
from joker.tables.table import read_table

SEED, DEVICE = 7, "cuda"
HELD_OUT = {"covtype": 0.2, "hepc": 0.1}
HINGE_ROWS, HINGE_INPUTS, HINGE_EPOCHS = 8_800_000, 28, 3
TREES, LEAVES = 1_000, 255
# Of the curves: random features (None: the exact kernel), λ and the epochs at most.
CURVES = {
    "the exact kernel, λ = 0.1": (None, 0.1, 8),
    "the exact kernel, λ = 0.01": (None, 0.01, 16),
    "4,000 features": (4_000, 0.01, 40),
    "16,000 features": (16_000, 0.01, 20),
    "60,000 features": (60_000, 0.01, 8),
}
fitted: dict[str, Any] = {}  # the table models of this run


def halves(name: str) -> tuple[Any, Any, Any, Any]:
    """Return training and test rows."""
    X, y = common.arrays(name)
    order = np.random.default_rng(SEED).permutation(len(X))
    test, train = np.split(order, [round(HELD_OUT[name] * len(X))])
    return X[train], y[train], X[test], y[test]


def measured(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run a fit, with its seconds and the peak memory of the GPU."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    facts = run()
    seconds = facts.pop("fit_seconds", time.perf_counter() - started)
    return {"seconds": round(seconds, 1), **facts, "gpu_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2)}


def score(y: Any, found: Any, regression: bool) -> dict[str, float]:
    """Return the RMSE in deviations of the targets, or the accuracy."""
    if regression:
        return {"rmse": round(float(np.sqrt(np.mean((found - y) ** 2)) / y.std()), 5)}
    return {"accuracy": round(float(np.mean(found == y)), 5)}


def table(name: str, effort: int | None = None) -> dict[str, Any]:
    """Fit the table estimator with its defaults."""
    regression = name == "hepc"
    X, y, X_test, y_test = halves(name)
    kind = joker.JokerRegressor if regression else joker.JokerClassifier
    model = kind(random_state=0, verbose=1, **({} if effort is None else {"effort": effort}))
    started = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - started
    found, fitted[name] = model.predict(X_test), model
    members = [
        {key: str(value) for key, value in member.items()} if isinstance(member, dict) else str(member)
        for member in model.members_
    ]
    print(model, flush=True)
    return {"fit_seconds": seconds, **score(y_test, found, regression), "members": members}


def boosted(name: str, which: str) -> dict[str, Any]:
    """Fit boosted trees with all cores."""
    regression = name == "hepc"
    X, y, X_test, y_test = halves(name)
    if which == "lightgbm":
        import lightgbm

        kind = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
        model = kind(n_estimators=TREES, num_leaves=LEAVES, verbose=-1)
    else:
        from sklearn import ensemble

        kind = ensemble.HistGradientBoostingRegressor if regression else ensemble.HistGradientBoostingClassifier
        model = kind(max_iter=TREES, max_leaf_nodes=LEAVES, early_stopping=False)
    started = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - started
    return {"fit_seconds": seconds, **score(y_test, model.predict(X_test), regression)}


def hinge() -> dict[str, Any]:
    """Fit an exact hinge machine on generated rows in host memory."""
    draw = np.random.default_rng(SEED)
    x = draw.standard_normal((HINGE_ROWS, HINGE_INPUTS), dtype=np.float32)
    y = np.where(x[:, 0] * x[:, 1] + np.sin(x[:, 2]) > 0, 1, -1)
    started = time.perf_counter()
    model = joker.KernelSVC(
        loss="hinge", lam=1.0, bandwidth=float(HINGE_INPUTS) ** 0.5, n_features=None, device="cuda", memory="3GB",
        method="random_blocks", momentum=True, max_epochs=HINGE_EPOCHS, standardize=False, random_state=0, verbose=1,
    ).fit(x, y)  # fmt: skip
    seconds = time.perf_counter() - started
    return {
        "fit_seconds": seconds, "gap": float(np.max(model.gap_)), "epochs": model.n_iter_,
        "seconds_of_epoch": round(seconds / model.n_iter_, 1), "dtype": str(model.plan_.dtype),
    }  # fmt: skip


class Curve(Callback):
    """Notes the seconds of a fit and its test error after each epoch."""

    def __init__(self, X: Any, y: Any) -> None:
        self.X, self.y = X, y
        self.points: list[list[float]] = []

    def epoch(self, run: Run) -> None:
        found = run.model().predict(self.X)
        self.points.append([round(run.seconds, 2), round(float(np.sqrt(np.mean((found - self.y) ** 2))), 5)])


def curves() -> dict[str, Any]:
    """Fit the inputs of the table estimator with the exact kernel and with random features."""
    if "hepc" not in fitted:
        table("hepc")
    X, y, X_test, y_test = halves("hepc")
    ensemble = fitted["hepc"].ensemble
    member = max(ensemble.members, key=lambda one: one.weight)
    encoding = ensemble.encodings[member.encoding]
    x, x_test = (np.asarray(encoding.transform(read_table(part))) for part in (X, X_test))
    y, y_test = (y - y.mean()) / y_test.std(), (y_test - y.mean()) / y_test.std()
    found = {}
    for name, (n_features, lam, epochs) in CURVES.items():
        curve = Curve(x_test, y_test)
        joker.KernelRidge(
            kernel="matern12", bandwidth=member.model.bandwidth_, lam=lam, n_features=n_features, device=DEVICE,
            precision="float32", method="random_blocks", momentum=n_features is None, max_epochs=epochs, tol=1e-3,
            standardize=False, random_state=0, callbacks=[curve],
        ).fit(x, y)  # fmt: skip
        found[name] = curve.points
        print(name, curve.points, flush=True)
    return {"curves": found}


def mnist() -> dict[str, Any]:
    """Fit ten classes of 784 pixels to the tolerance."""
    (X, y), (X_test, y_test) = common.arrays("mnist", "train"), common.arrays("mnist", "test")
    started = time.perf_counter()
    model = joker.KernelSVC(n_features=None, device="cuda", random_state=0).fit(X, y)
    seconds = time.perf_counter() - started
    facts = {"gap": float(np.max(model.gap_)), "epochs": model.n_iter_}
    return {"fit_seconds": seconds, **facts, **score(y_test, model.predict(X_test), regression=False)}


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "mnist": mnist,
    "hepc": lambda: table("hepc"),
    "hepc, curves": curves,
    "covtype": lambda: table("covtype"),
    "hinge, 8.8 million rows": hinge,
    "hepc, LightGBM": lambda: boosted("hepc", "lightgbm"),
    "covtype, LightGBM": lambda: boosted("covtype", "lightgbm"),
    "hepc, HistGradientBoosting": lambda: boosted("hepc", "sklearn"),
    "covtype, HistGradientBoosting": lambda: boosted("covtype", "sklearn"),
}


def main() -> None:
    """Run the parts, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of parts, separated by |")
    parser.add_argument("--out", type=Path, default=common.RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only.split("|") if options.only else PARTS:
        found[name] = measured(PARTS[name])
        print(name, found[name], flush=True)
        facts = {"machine": common.machine(SEED) | common.gpu("cuda"), "parts": found}
        common.write_json(options.out / "exact_scale.json", facts)


if __name__ == "__main__":
    main()
