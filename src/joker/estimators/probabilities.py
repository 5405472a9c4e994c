"""Probabilities from the decision functions of several classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from joker import kernels
from joker.data import Rows
from joker.data.array_rows import pick, whole_of
from joker.estimators.training_set import Sample
from joker.kernels import Kernel
from joker.losses import Loss, RowLoss
from joker.models import Machine
from joker.planning import Plan
from joker.runtime import chunks

SLOPE_ROWS = 2_048  # training rows on which the slope is chosen, at most
PROBABILITY_ENTRIES = 2**19  # rows times classes on which probabilities are chosen, at most: some 4 MB of float64
MAX_LOG_SLOPE = 5.0
STEPS = 40  # of the golden section, which leaves an interval of 1e-8 of the first one

Array = NDArray[Any]


class Logistic(Protocol):
    """The parts of a fitted classifier with the logistic loss or the softmax that the slope depends on."""

    kernel: str | Kernel
    bandwidth_: Any
    plan_: Plan
    lam_: float
    _machine: Machine
    _slope: float | None

    def _rows(self, x: Any, machine: Machine) -> Rows: ...
    def _loss(self) -> Loss: ...


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


def choose_slopes(models: Sequence[Logistic], sample: Sample) -> None:
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
        model._slope = max(1.0, _best_slope(own - share, y.argmax(axis=1), w))


def _dual_point(loss: Loss, y: Array, f: Array) -> Array:  # (k, t)
    """Return λ α at the optimum, of rows of weight 1."""
    signs, decisions = torch.from_numpy(y), torch.from_numpy(f)
    point = loss.best(signs, decisions) if isinstance(loss, RowLoss) else signs * (-signs * decisions).sigmoid()
    alpha: Array = point.numpy()
    return alpha


def _rows(sample: Sample) -> NDArray[np.intp]:
    """Evenly spaced rows of positive weight."""
    n = len(sample.y)
    few = min(n, SLOPE_ROWS, max(1, PROBABILITY_ENTRIES // sample.y.shape[1]))
    rows: NDArray[np.intp] = np.arange(few) * n // few
    return rows if sample.w is None else rows[sample.w[rows] > 0]


def _decisions(
    models: Sequence[Logistic], x: Any, rows: NDArray[np.intp]
) -> tuple[Array, Array]:  # (k, t·models), (k,)
    """Return f of all models on some rows, and k(x, x), a few rows at a time."""
    first = models[0]
    machine = first._machine.joined([model._machine for model in models[1:]])
    kernel = kernels.get(first.kernel, None if np.ndim(first.bandwidth_) else first.bandwidth_)
    parts, diagonals = [], []
    for few in chunks(len(rows), whole_of(x).shape[1]):
        some = first._rows(pick(x, rows[few]), machine)
        for tile, f in machine.stream(some, first.plan_.scratch):
            parts.append(f.double().cpu().numpy())
            diagonals.append(kernel.diag(some[tile].double()).cpu().numpy())
    return np.concatenate(parts), np.concatenate(diagonals)


def _best_slope(f: Array, codes: Array, w: Array) -> float:
    """Return the slope with the smallest log loss, by golden section: the loss is convex in the slope."""
    scores = torch.from_numpy(f)
    chosen, weights = torch.from_numpy(codes), torch.from_numpy(w)

    def loss(log_slope: float) -> float:
        log_p = (float(np.exp(log_slope)) * scores).log_softmax(dim=1)
        return -float(weights @ log_p.gather(1, chosen[:, None])[:, 0])

    low, high, ratio = -MAX_LOG_SLOPE, MAX_LOG_SLOPE, (5**0.5 - 1) / 2
    for _ in range(STEPS):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if loss(a) <= loss(b) else (a, high)
    return float(np.exp((low + high) / 2))
