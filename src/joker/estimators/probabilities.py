"""Probabilities from the decision functions of several classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker import kernels
from joker.data.arrays import RowSubset, numbered_rows, pick, whole_of
from joker.estimators.inputs import TrainingSet
from joker.estimators.model import bound
from joker.losses import Loss, RowLoss
from joker.runtime import chunks

SLOPE_ROWS = 2_048  # training rows on which the slope is chosen, at most
PROBABILITY_ENTRIES = 2**19  # rows times classes on which probabilities are chosen, at most: some 4 MB of float64
LOG_SLOPES = (-4.0, 5.0)  # limits of the logarithm of a slope
OFFSETS = (-20.0, 20.0)
OFFSET_PENALTY = 2.0  # of the squared offsets, in rows: keeps classes with few rows near offset 0
DEFAULT_SLOPE = 2.0

Array = NDArray[Any]


def two_classes(f: Array) -> Array:  # (n, 1) -> (n, 2)
    """Return the probabilities of both classes: the sigmoid of f for the second."""
    p: Array = torch.from_numpy(f).sigmoid().numpy()
    return np.hstack([1 - p, p])


def softmax(f: Array, slope: float) -> Array:  # (n, classes)
    """Return the softmax of ``slope · f``."""
    p: Array = torch.from_numpy(slope * f).softmax(dim=1).numpy()
    return p


def normalised_sigmoids(f: Array) -> Array:  # (n, classes)
    """Return the sigmoids of f, divided by their sum; models of earlier versions predict these."""
    p: Array = torch.from_numpy(f).sigmoid().numpy()
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])


def choose_slopes(models: Sequence[Any], sample: TrainingSet) -> None:
    """Choose the slope of the softmax of each model of a path, which is at least 1.

    λ shrinks the decision functions, and the softmax of shrunk ones is underconfident. The slope has the smallest log
    loss on training rows, whose own share in f is left out: ``α_i k(x_i, x_i)``, where ``α_i = y_i σ(−y_i f_i) / λ`` at
    the optimum, of one copy of a row. That is a lower bound on ``y_i f(x_i)`` of a machine without the row (Jaakkola
    and Haussler, 1999). So the slope does not make probabilities overconfident, and no rows need to be held out. Where
    the bound is loose, the slope is 1. With the softmax, ``α_ij = (1[j = y_i] − p_ij) / λ``.
    """
    rows = _rows(sample)
    y = sample.y[rows]
    w = np.ones(len(rows)) if sample.w is None else sample.w[rows]
    f, diagonal = _decisions(models, sample.x, rows)
    for model, own in zip(models, np.split(f, len(models), axis=1), strict=True):
        share = (np.minimum(w, 1) * diagonal)[:, None] * _dual_point(model._loss(), y, own) / model.lam_
        model._slope = max(1.0, fit_calibration(own - share, y.argmax(axis=1), w, offsets=False).slope)


def _dual_point(loss: Loss, y: Array, f: Array) -> Array:  # (k, t)
    """Return λ α at the optimum, of rows of weight 1."""
    signs, decisions = torch.from_numpy(y), torch.from_numpy(f)
    point = loss.best(signs, decisions) if isinstance(loss, RowLoss) else signs * (-signs * decisions).sigmoid()
    alpha: Array = point.numpy()
    return alpha


def _rows(sample: TrainingSet) -> NDArray[np.intp]:
    """Evenly spaced rows of positive weight."""
    n = len(sample.y)
    few = min(n, SLOPE_ROWS, max(1, PROBABILITY_ENTRIES // sample.y.shape[1]))
    rows: NDArray[np.intp] = np.arange(few) * n // few
    return rows if sample.w is None else rows[sample.w[rows] > 0]


def _decisions(models: Sequence[Any], x: Any, rows: NDArray[np.intp]) -> tuple[Array, Array]:  # (k, t·models), (k,)
    """Return f of all models on some rows, and k(x, x), a few rows at a time."""
    first = models[0]
    machine = first._machine.joined([model._machine for model in models[1:]])
    kernel = kernels.get(first.kernel, None if np.ndim(first.bandwidth_) else first.bandwidth_)
    if machine.precomputed:
        kernel = kernel.reading(numbered_rows(x)[0])
    parts, diagonals = [], []
    for few in chunks(len(rows), whole_of(x).shape[1]):
        part = RowSubset(x, rows[few]) if machine.precomputed else pick(x, rows[few])
        reader, part = bound(machine, part)
        some = first._rows(part, machine)
        for tile, f in reader.stream(some, first.plan_.scratch):
            parts.append(f.double().cpu().numpy())
            diagonals.append(kernel.diag(some[tile].double()).cpu().numpy())
    return np.concatenate(parts), np.concatenate(diagonals)


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


def fit_calibration(
    f: Array, codes: Array, w: Array | None, wrong_rows: float = 0.0, *, offsets: bool = True
) -> Calibration:
    """Minimise the log loss of held-out rows over slope and offsets, with a small penalty on the offsets.

    ``f`` (n, classes) are decision values, ``codes`` (n,) the classes and ``w`` (n,) the weights of the rows.
    ``wrong_rows`` is the weight, in rows, of classes drawn at random: where every row is right, the slope would have no
    bound otherwise; one row is Platt's correction (Advances in Large Margin Classifiers, 1999). Without ``offsets``
    only the slope is fitted (temperature scaling).
    """
    from scipy.optimize import minimize

    classes = f.shape[1]
    f = f.astype(np.float64)
    weights = np.ones(len(f)) if w is None else w
    noise = wrong_rows / (weights.sum() + wrong_rows)
    onehot = np.full(f.shape, noise / classes)
    onehot[np.arange(len(f)), codes] += 1 - noise

    def objective(parameters: Array) -> tuple[float, Array]:
        slope, shifts = np.exp(parameters[0]), parameters[1:]
        z = slope * f + shifts
        z -= z.max(axis=1, keepdims=True)
        e = np.exp(z)
        total = e.sum(axis=1)
        log_p = np.sum(onehot * z, axis=1) - np.log(total)
        difference = (e / total[:, None] - onehot) * weights[:, None]
        gradient = np.concatenate([[np.sum(difference * f) * slope], difference.sum(axis=0) + OFFSET_PENALTY * shifts])
        return float(-np.sum(weights * log_p) + OFFSET_PENALTY / 2 * np.sum(shifts**2)), gradient

    start = np.concatenate([[np.log(DEFAULT_SLOPE)], np.zeros(classes)])
    bounds = [LOG_SLOPES, *[OFFSETS if offsets else (0.0, 0.0)] * classes]
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return Calibration(float(np.exp(found.x[0])), found.x[1:])
