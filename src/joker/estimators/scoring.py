"""How well a machine does on rows that it is not trained on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, get_scorer_names
from torch import Tensor

from joker.errors import InvalidParameter
from joker.estimators.training_set import Sample
from joker.models import Machine

if TYPE_CHECKING:
    from joker.estimators.base import KernelEstimator

Scorer = Callable[[Any, Any, Any], float]  # estimator, X, y


def scorer_of(early_stopping: object) -> Scorer | None:
    """Return what is to score; None is the loss."""
    if isinstance(early_stopping, bool | np.bool_):
        return None
    if callable(early_stopping) and not isinstance(early_stopping, type):
        return early_stopping
    names = get_scorer_names()
    if early_stopping in names:
        found: Scorer = get_scorer(early_stopping)
        return found
    close = get_close_matches(str(early_stopping), names, n=1)
    raise InvalidParameter(
        "early_stopping must be False, True (the loss), the name of a scikit-learn scorer or a function of estimator, "
        f"X and y; got {early_stopping!r}. " + (f"Did you mean {close[0]!r}?" if close else "Use True.")
    )


class Judge:
    """Scores the machine of all λ on held-out rows with one prediction; higher is better.

    Parameters
    ----------
    model : KernelEstimator
        Whose machine it is.
    held : Sample
        The held-out rows.
    lams : list of float
        The values of λ, each with as many columns of the machine as the sample has.
    scorer : callable, optional
        Gets a fitted estimator, the held-out rows that have a weight, and their targets. The default is
        minus the weighted mean of the loss.
    """

    def __init__(self, model: KernelEstimator, held: Sample, lams: list[float], scorer: Scorer | None) -> None:
        self.model, self.lams, self.scorer = model, lams, scorer
        self.held = held if scorer is None else held.of_positive_weight()
        self.targets = None if scorer is None else model._decoded(self.held.y)

    def __call__(self, machine: Machine) -> list[float]:
        """Return the score of each λ."""
        if self.scorer is None:
            return self._losses(machine)
        f = self.model._evaluate(machine, self.held.x).double().cpu().numpy()
        return [self._score(machine, i, f) for i in range(len(self.lams))]

    def _losses(self, machine: Machine) -> list[float]:
        """Minus the mean losses, of predictions that are never there all at once."""
        rows = self.model._rows(self.held.x, machine)
        sums, w = np.zeros(len(self.lams)), self.held.w
        for tile, f in machine.stream(rows, self.model.plan_.scratch):
            part = Sample(None, self.held.y[tile], None if w is None else w[tile])
            share = len(part.y) if part.w is None else part.w.sum()
            if share:
                sums += share * np.array(mean_losses(self.model, part, len(self.lams), f.double().cpu()))
        total = len(self.held.y) if w is None else w.sum()
        return [-float(loss) / total for loss in sums]

    def _score(self, machine: Machine, i: int, f: NDArray[Any]) -> float:
        assert self.scorer is not None
        t = self.held.y.shape[1]
        model = copy.copy(self.model)._take(machine, self.lams, i, t)
        model.__dict__.pop("feature_names_in_", None)  # the rows have lost theirs
        others, known = model._results, f[:, i * t : (i + 1) * t] + self.model._offset
        model.__dict__["_results"] = lambda X, decode: decode(known.copy()) if X is self.held.x else others(X, decode)
        score = self.scorer(model, self.held.x, self.targets)
        if not isinstance(score, Real):
            raise InvalidParameter(
                f"early_stopping must be a scorer that returns a number; got {type(score).__name__}. "
                "Use one value, such as a mean."
            )
        return float(score)


def mean_losses(
    model: KernelEstimator,
    held: Sample,
    repeats: int,
    f: Tensor,  # (n, t · repeats)
) -> list[float]:
    """Return the weighted mean of the loss for each λ."""
    y = model._columns(held.y, repeats, f).to(f.dtype)
    loss = model._loss_of_columns(repeats, f.device)
    means = np.average(loss.value(y.expand_as(f), f).numpy(), axis=0, weights=held.w)
    return [float(mean) for mean in means.reshape(repeats, -1).mean(axis=1)]


def score_path(
    models: Sequence[KernelEstimator],
    held: Sample,
    score: Callable[[KernelEstimator], float],
) -> tuple[list[float], list[float]]:
    """Return the mean loss of each model of a path, and its score on the same rows, with one prediction for all."""
    first, *others = (model._machine for model in models)
    f = models[0]._evaluate(first.joined(others), held.x).double().cpu()
    parts = np.split(f.numpy() + np.tile(models[0]._offset, len(models)), len(models), axis=1)
    ready = (_knowing(model, part) for model, part in zip(models, parts, strict=True))
    return mean_losses(models[0], held, len(models), f), [float(score(model)) for model in ready]


def _knowing(model: KernelEstimator, f: NDArray[Any]) -> KernelEstimator:
    """A model that has its predictions at hand, and is asked for no others."""
    ready = copy.copy(model)
    ready.__dict__["_results"] = lambda X, decode: decode(f.copy())
    return ready
