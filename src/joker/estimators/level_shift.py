"""Quantile levels that are shifted until they have the right share of held-out rows below them."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray


class Levels(Protocol):
    """The parts of a fitted quantile machine that a shift uses."""

    _levels: NDArray[Any]
    _offset: NDArray[np.float64]
    intercept_: Any

    def _decide(self, X: Any) -> NDArray[Any]: ...
    def _shaped(self, columns: NDArray[Any]) -> NDArray[Any]: ...


LevelsT = TypeVar("LevelsT", bound=Levels)


def level_residuals(
    model: Levels,
    X: Any,
    y: NDArray[Any],  # (n,)
) -> NDArray[np.float64]:  # (n, levels)
    """Return the targets minus the prediction of each level."""
    residuals: NDArray[np.float64] = np.asarray(y, dtype=np.float64)[:, None] - model._decide(X)
    return residuals


def shift_levels(
    model: LevelsT,
    residuals: NDArray[np.float64],  # (n, levels)
    w: NDArray[np.float64] | None = None,  # (n,)
) -> LevelsT:
    """Add to each level the quantile of its residuals on rows that the model was not trained on.

    This is split conformal prediction of each level (Romano, Patterson and Candès, 2019).
    """
    levels = np.broadcast_to(model._levels, residuals.shape[1:])
    shift = np.array([_quantile(r, float(tau), w) for r, tau in zip(residuals.T, levels, strict=True)])
    model._offset = model._offset + shift
    model.intercept_ = model.intercept_ + model._shaped(shift[None])[0]
    return model


def _quantile(values: NDArray[np.float64], level: float, w: NDArray[np.float64] | None) -> float:
    """Return the quantile; at a level above a half the next larger value, else the next smaller, as coverage needs."""
    order = np.argsort(values)
    weights = np.ones(len(values)) if w is None else w[order]
    total = float(weights.sum())
    # One more row, the new one, may be anywhere among the others.
    wanted = level * total * (1 + 1 / len(values)) - (0.0 if level >= 0.5 else total / len(values))
    place = int(np.searchsorted(np.cumsum(weights), wanted - 1e-9 * total))
    return float(values[order][min(place, len(values) - 1)])
