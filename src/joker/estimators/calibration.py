"""Probabilities from decision values: a softmax whose slope and offsets are fitted on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
OFFSET_PENALTY = 2.0  # of the squared offsets, in rows: keeps classes with few rows near offset 0
DEFAULT_SLOPE = 2.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """``softmax(slope · f + offsets)`` with one decision value for each class."""

    slope: float
    offsets: Array  # (classes,)

    def probabilities(self, f: Array) -> Array:  # (n, classes) -> (n, classes)
        """Return probabilities that sum to 1."""
        z = self.slope * f.astype(np.float64) + self.offsets
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z)
        return p / p.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def fit_calibration(f: Array, codes: Array, w: Array | None, wrong_rows: float = 0.0) -> Calibration:
    """Minimise the log loss over slope and offsets, with a small penalty on the offsets.

    Parameters
    ----------
    f : array of shape (n, classes)
        Decision values of held-out rows.
    codes : array of shape (n,)
        The indices of their classes.
    w : array of shape (n,), optional
        Their weights.
    wrong_rows : float
        The weight, in rows, of classes drawn at random. Where every held-out row is right, the slope would otherwise
        have no bound; one row is Platt's correction (Advances in Large Margin Classifiers, 1999).
    """
    from scipy.optimize import minimize

    classes = f.shape[1]
    f = f.astype(np.float64)
    weights = np.ones(len(f)) if w is None else w
    noise = wrong_rows / (weights.sum() + wrong_rows)
    onehot = (1 - noise) * np.eye(classes)[codes] + noise / classes

    def objective(parameters: Array) -> tuple[float, Array]:
        slope, offsets = np.exp(parameters[0]), parameters[1:]
        z = slope * f + offsets
        z -= z.max(axis=1, keepdims=True)
        e = np.exp(z)
        total = e.sum(axis=1)
        log_p = np.sum(onehot * z, axis=1) - np.log(total)
        difference = (e / total[:, None] - onehot) * weights[:, None]
        gradient = np.concatenate([[np.sum(difference * f) * slope], difference.sum(axis=0) + OFFSET_PENALTY * offsets])
        return float(-np.sum(weights * log_p) + OFFSET_PENALTY / 2 * np.sum(offsets**2)), gradient

    start = np.concatenate([[np.log(DEFAULT_SLOPE)], np.zeros(classes)])
    bounds = [(-4.0, 5.0), *[(-20.0, 20.0)] * classes]
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return Calibration(float(np.exp(found.x[0])), found.x[1:])


def log_loss(p: Array, codes: Array, w: Array | None) -> float:
    """Return the mean of −log p of the class of each row."""
    values = -np.log(np.maximum(p[np.arange(len(p)), codes], 1e-15))
    return float(np.average(values, weights=w))
