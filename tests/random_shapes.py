"""Random estimators and shapes of data, for tests of the memory budget."""

from __future__ import annotations

from typing import Any

import numpy as np


def random_case(rng: np.random.Generator) -> tuple[str, dict[str, Any], dict[str, Any], float]:
    """A random estimator, its settings, the shape of its data, and the budget as a multiple of the smallest one."""
    classes = int(rng.choice([0, 0, 2, 3, 7]))
    kinds = (
        ["KernelSVC", "KernelLogistic"] if classes else ["KernelRidge", "KernelHuber", "KernelSVR", "KernelQuantile"]
    )
    sparse = rng.random() < 0.15
    exact = rng.random() < 0.3
    n = int(10 ** rng.uniform(2.5, 3.6 if exact else 5.0))
    d = int(10 ** rng.uniform(0, 1.7 if n > 20_000 else 2.3))
    settings: dict[str, Any] = {"n_features": None if exact else int(10 ** rng.uniform(1, 3))}
    settings["kernel"] = str(rng.choice(["gaussian", "matern12", "laplacian", "cauchy"]))
    settings["precision"] = str(rng.choice(["auto", "float32", "float64"]))
    if rng.random() < 0.3:
        settings["lam"] = [0.1, 1.0, 10.0]
    if rng.random() < 0.2:
        settings["early_stopping"] = True
    if rng.random() < 0.2:
        settings["standardize"] = bool(rng.random() < 0.5)
    shape: dict[str, Any] = {"n": n, "d": d, "classes": classes, "dtype": str(rng.choice(["float32", "float64"]))}
    if sparse:
        shape |= {"d": int(10 ** rng.uniform(2, 3.3)), "density": 0.01}
    elif rng.random() < 0.3:
        shape["scales"] = 1.1
    if classes and rng.random() < 0.4:
        shape["labels"] = str(rng.choice(["category", "text"]))
    return str(rng.choice(kinds)), settings, shape, float(rng.choice([1.0, 1.2, 2.0]))
