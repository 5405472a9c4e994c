"""Scores of fitted machines on rows that they are not trained on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import check_scoring, get_scorer_names
from torch import Tensor

from joker.data.arrays import materialised
from joker.errors import InvalidParameter
from joker.estimators.inputs import LabelledRows, TrainingSet
from joker.estimators.model import FittedModel, bound
from joker.estimators.resolve import Scorer
from joker.losses import LogLinkLoss, Loss, RowLoss
from joker.models import Machine

SMALL = 1e-100  # whose squares, and sums of them, are far from the smallest positive number
SCORERS = {  # names in other libraries
    "auc": "roc_auc",
    "auroc": "roc_auc",
    "prauc": "average_precision",
    "aucpr": "average_precision",
    "acc": "accuracy",
    "logloss": "neg_log_loss",
    "log_loss": "neg_log_loss",
    "cross_entropy": "neg_log_loss",
    "brier": "neg_brier_score",
    "mse": "neg_mean_squared_error",
    "mean_squared_error": "neg_mean_squared_error",
    "rmse": "neg_root_mean_squared_error",
    "root_mean_squared_error": "neg_root_mean_squared_error",
    "mae": "neg_mean_absolute_error",
    "mean_absolute_error": "neg_mean_absolute_error",
    "mape": "neg_mean_absolute_percentage_error",
    "r2_score": "r2",
}


def check_scorer(model: Any, scoring: Any) -> Callable[..., float]:
    """Return the scorer that ``scoring`` names; an error for an unknown name says the closest ones."""
    try:
        return check_scoring(model, scoring)  # type: ignore[no-any-return]
    except (ValueError, TypeError) as error:
        raise InvalidParameter(
            "scoring must be the name of a scikit-learn scorer, such as 'accuracy', a callable or None; "
            f"got {scoring!r}. {_remedy(scoring)}"
        ) from error


def _remedy(scoring: Any) -> str:
    if not isinstance(scoring, str):
        return "sklearn.metrics.get_scorer_names() lists the names."
    key = scoring.lower().replace("-", "_").replace(" ", "_")
    close = [SCORERS[key]] if key in SCORERS else get_close_matches(key, get_scorer_names(), n=3)
    if not close:
        return "sklearn.metrics.get_scorer_names() lists the names."
    return f"Did you mean {' or '.join(map(repr, close))}?"


ModelT = TypeVar("ModelT", bound=FittedModel)


def with_predictions(model: ModelT, X: Any, values: NDArray[Any] | None = None) -> ModelT:
    """Return a copy of a fitted estimator that computes the predictions of ``X`` only once, here.

    ``values`` is the prediction function of ``X``, of shape (n, t), where it is known already.
    """
    ready = copy.copy(model)
    ready._predicted = X, model._decide(X) if values is None else values
    return ready


class HeldOutScorer:
    """Scores the machine of all λ on held-out rows with one prediction; higher is better.

    ``loss`` is the loss of the columns of one λ. The score is minus its weighted mean, or that of ``scorer``: a
    function of a fitted estimator, the held-out rows with a positive weight, and their targets.
    """

    def __init__(
        self, model: FittedModel, loss: Loss, held: TrainingSet, lams: list[float], scorer: Scorer | None
    ) -> None:
        self.model, self.loss, self.lams, self.scorer = model, loss, lams, scorer
        self.held = held if scorer is None else _in_an_array(held.of_positive_weight())
        self.targets = None if scorer is None else model._decoded(self.held.y)

    def __call__(self, machine: Machine) -> list[float]:
        """Return the score of each λ."""
        if self.scorer is None:
            return self._losses(machine)
        f = self.model._evaluate(machine, self.held.x).double().cpu().numpy()
        return [self._score(self.scorer, machine, i, f) for i in range(len(self.lams))]

    def _losses(self, machine: Machine) -> list[float]:
        """Minus the mean loss of each λ. Predictions are computed tile by tile and are never all in memory."""
        machine, x = bound(machine, self.held.x)
        rows = self.model._rows(x, machine)
        sums, w = np.zeros(len(self.lams)), self.held.w
        for tile, f in machine.stream(rows, self.model.plan_.scratch):
            part = TrainingSet(None, self.held.y[tile], None if w is None else w[tile])
            share = len(part.y) if part.w is None else part.w.sum()
            if share:
                sums += share * np.array(mean_losses(self.model, self.loss, part, len(self.lams), f.double().cpu()))
        total = len(self.held.y) if w is None else w.sum()
        return [-float(loss) / total for loss in sums]

    def _score(self, scorer: Scorer, machine: Machine, i: int, f: NDArray[Any]) -> float:
        t = self.held.y.shape[1]
        fitted = copy.copy(self.model)._set_machine(machine, self.lams, i, t)
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


def _in_an_array(held: TrainingSet) -> TrainingSet:
    """Return rows in an array or a matrix of their own, which the scorer of a user can read."""
    return replace(held, x=materialised(held.x))


def mean_losses(model: FittedModel, loss: Loss, held: TrainingSet, repeats: int, f: Tensor) -> list[float]:
    """Return the weighted mean of the loss for each λ; f has the shape (n, t · repeats)."""
    y = model._columns(held.y, repeats, f).to(f.dtype)
    loss = model._loss_of_columns(loss, repeats, f.device)
    means = np.average(loss.value(y.expand_as(f), f).numpy(), axis=0, weights=held.w)
    # Each column of a group has an equal part of the loss of a row.
    return [float(mean) for mean in loss.group * means.reshape(repeats, -1).mean(axis=1)]


def log_link_of(model: FittedModel) -> LogLinkLoss | None:
    """Return the loss of an estimator, fitted or not, whose prediction function is the logarithm of the mean."""
    loss = model._named_loss()
    return loss if isinstance(loss, LogLinkLoss) else None


def mean_loss_at_zero(model: FittedModel, targets: Tensor) -> float:  # (n, t)
    """Return the mean loss of an estimator, fitted or not, that predicts 0 for these targets.

    A loss that couples several classes is replaced by the one that it is for two classes.
    """
    loss = model._loss_of_columns(model._loss(), 1, targets.device)
    loss = loss.two_classes if isinstance(loss, RowLoss) else loss
    return float(loss.value(targets, torch.zeros_like(targets)).mean())


def unit_of_squares(y: Any) -> NDArray[Any]:  # (), or (t,)
    """Return what to divide numbers by before they are squared: 1, unless squares are no finite positive numbers."""
    values = np.asarray(y)
    if values.dtype.kind != "f" or not values.size:
        return np.ones(())
    size = np.abs(values).max(axis=0).astype(np.float64)
    return np.where((size > 0) & ((size < SMALL) | (size > 1 / SMALL)) & np.isfinite(size), size, 1.0)


def score_path(
    models: Sequence[FittedModel], held: LabelledRows, scorer: Callable[..., float]
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
    losses = mean_losses(models[0], models[0]._loss(), models[0]._sample(X, y, w), len(models), f)
    return losses, [float(scorer(model, X, y, **weights)) for model in ready]
