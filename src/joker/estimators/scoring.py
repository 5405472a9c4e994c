"""Scores of fitted machines on rows that they are not trained on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Real
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, get_scorer_names
from torch import Tensor

from joker.data import Rows
from joker.errors import InvalidParameter
from joker.estimators.training_set import LabelledRows, Sample
from joker.losses import Loss, RowLoss
from joker.models import Machine
from joker.planning import Plan

Scorer = Callable[[Any, Any, Any], float]  # estimator, X, y


@dataclass(frozen=True, eq=False)
class Predicted:
    """The prediction function of some rows, which was computed before.

    An estimator whose ``_predicted`` is set takes the values from here when it is given ``rows`` itself, the same
    object. It computes the predictions of any other rows.
    """

    rows: Any  # (n, d)
    values: NDArray[Any]  # (n, t)


class Scorable(Protocol):
    """The parts of an estimator that scoring uses."""

    plan_: Plan
    _machine: Machine
    _offset: NDArray[np.float64]
    _target_scale: NDArray[np.float64]
    _predicted: Predicted | None

    def _take(self, machine: Machine, lams: list[float], i: int, t: int) -> Self: ...
    def _evaluate(self, machine: Machine, x: Any) -> Tensor: ...
    def _rows(self, x: Any, machine: Machine) -> Rows: ...
    def _decide(self, X: Any) -> NDArray[Any]: ...
    def _sample(self, X: Any, y: NDArray[Any], w: NDArray[np.float64] | None) -> Sample: ...
    def _decoded(self, y: NDArray[Any]) -> NDArray[Any]: ...
    def _columns(self, y: NDArray[Any], repeats: int, like: Tensor) -> Tensor: ...
    def _loss_of_columns(self, repeats: int, place: torch.device) -> Loss: ...


EstimatorT = TypeVar("EstimatorT", bound=Scorable)


def with_predictions(model: EstimatorT, X: Any, values: NDArray[Any] | None = None) -> EstimatorT:
    """Return a copy of a fitted estimator that computes the predictions of ``X`` only once, here.

    ``values`` is the prediction function of ``X``, of shape (n, t), where it is known already.
    """
    ready = copy.copy(model)
    ready._predicted = Predicted(X, model._decide(X) if values is None else values)
    return ready


def scorer_of(early_stopping: object) -> Scorer | None:
    """Return the scorer that ``early_stopping`` names; None stands for the loss."""
    if isinstance(early_stopping, bool | np.bool_):
        return None
    if callable(early_stopping) and not isinstance(early_stopping, type):
        return early_stopping
    names = get_scorer_names()
    if early_stopping in names:
        scorer: Scorer = get_scorer(early_stopping)
        return scorer
    close = get_close_matches(str(early_stopping), names, n=1)
    raise InvalidParameter(
        "early_stopping must be False, True (the loss), the name of a scikit-learn scorer or a function of estimator, "
        f"X and y; got {early_stopping!r}. " + (f"Did you mean {close[0]!r}?" if close else "Use True.")
    )


class HeldOutScorer:
    """Scores the machine of all λ on held-out rows with one prediction; higher is better.

    Parameters
    ----------
    model : KernelEstimator
        The estimator that is being fitted.
    held : Sample
        The held-out rows.
    lams : list of float
        The values of λ. The machine has as many columns for each of them as the sample has.
    scorer : callable, optional
        A function of a fitted estimator, the held-out rows with a positive weight, and their targets. The default is
        minus the weighted mean of the loss.
    """

    def __init__(self, model: Scorable, held: Sample, lams: list[float], scorer: Scorer | None) -> None:
        self.model, self.lams, self.scorer = model, lams, scorer
        self.held = held if scorer is None else held.of_positive_weight()
        self.targets = None if scorer is None else model._decoded(self.held.y)

    def __call__(self, machine: Machine) -> list[float]:
        """Return the score of each λ."""
        if self.scorer is None:
            return self._losses(machine)
        f = self.model._evaluate(machine, self.held.x).double().cpu().numpy()
        return [self._score(self.scorer, machine, i, f) for i in range(len(self.lams))]

    def _losses(self, machine: Machine) -> list[float]:
        """Minus the mean loss of each λ. Predictions are computed tile by tile and are never all in memory."""
        rows = self.model._rows(self.held.x, machine)
        sums, w = np.zeros(len(self.lams)), self.held.w
        for tile, f in machine.stream(rows, self.model.plan_.scratch):
            part = Sample(None, self.held.y[tile], None if w is None else w[tile])
            share = len(part.y) if part.w is None else part.w.sum()
            if share:
                sums += share * np.array(mean_losses(self.model, part, len(self.lams), f.double().cpu()))
        total = len(self.held.y) if w is None else w.sum()
        return [-float(loss) / total for loss in sums]

    def _score(self, scorer: Scorer, machine: Machine, i: int, f: NDArray[Any]) -> float:
        t = self.held.y.shape[1]
        fitted = copy.copy(self.model)._take(machine, self.lams, i, t)
        values = f[:, i * t : (i + 1) * t] * fitted._target_scale + fitted._offset
        model = with_predictions(fitted, self.held.x, values)
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # the checked rows have no names, and scikit-learn would warn
        score = scorer(model, self.held.x, self.targets)
        if not isinstance(score, Real):
            raise InvalidParameter(
                f"early_stopping must be a scorer that returns a number; got {type(score).__name__}. "
                "Use one value, such as a mean."
            )
        return float(score)


def mean_losses(
    model: Scorable,
    held: Sample,
    repeats: int,
    f: Tensor,  # (n, t · repeats)
) -> list[float]:
    """Return the weighted mean of the loss for each λ."""
    y = model._columns(held.y, repeats, f).to(f.dtype)
    loss = model._loss_of_columns(repeats, f.device)
    means = np.average(loss.value(y.expand_as(f), f).numpy(), axis=0, weights=held.w)
    # Each column of a group has an equal part of the loss of a row.
    return [float(mean) for mean in loss.group * means.reshape(repeats, -1).mean(axis=1)]


def mean_loss_at_zero(
    model: Scorable,
    targets: Tensor,  # (n, t)
) -> float:
    """Return the mean loss of an estimator, fitted or not, that predicts 0 for these targets.

    A loss that couples several classes is replaced by the one that it is for two classes.
    """
    loss = model._loss_of_columns(1, targets.device)
    loss = loss.two_classes if isinstance(loss, RowLoss) else loss
    return float(loss.value(targets, torch.zeros_like(targets)).mean())


def score_path(
    models: Sequence[Scorable], held: LabelledRows, scorer: Callable[..., float]
) -> tuple[list[float], list[float]]:
    """Return the mean loss of each model of a path and its score on the same rows, with one prediction for all.

    Weights are passed to the scorer as ``sample_weight``, and only where rows have weights.
    """
    X, y, w = held
    first, *others = (model._machine for model in models)
    f = models[0]._evaluate(first.joined(others), X).double().cpu()
    parts = [part * models[0]._target_scale + models[0]._offset for part in np.split(f.numpy(), len(models), axis=1)]
    weights = {} if w is None else {"sample_weight": w}
    ready = (with_predictions(model, X, part) for model, part in zip(models, parts, strict=True))
    losses = mean_losses(models[0], models[0]._sample(X, y, w), len(models), f)
    return losses, [float(scorer(model, X, y, **weights)) for model in ready]
