"""The search for members: `joker.tune` on several encodings of a table, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from joker.callbacks import Callback, Run
from joker.data.array_rows import pick
from joker.distributed import current
from joker.solvers import Reason
from joker.solvers.settings import RANDOM
from joker.tables.validation import Fold
from joker.tuning import tune
from joker.tuning.trial_runner import MIN_TUNING_ROWS

Array = NDArray[Any]
SEARCH_SHARE = 0.35  # of the time of an encoding: for its trials
FIT_SHARE = 0.35  # of the time of an encoding: for the fit after its trials
FAR = 0.1  # relative gap above which a last iterate is not usable
PROBE_SHARE = 0.1  # of the time of a fit: its speed is judged after it
MOST_TIMES = 5.0  # times its limit that a fit may take until its model is usable


@dataclass
class Clock:
    """The time limit of a fit."""

    limit: float
    started: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, self.limit - self.spent)

    def after(self, share: float) -> Callable[[], bool]:
        """Return a function that says whether a share of the limit has passed since this call."""
        end = self.spent + share * self.limit
        return lambda: self.spent > end

    @property
    def spent(self) -> float:
        """The seconds since the start."""
        return current().numbers(time.perf_counter() - self.started)[0]


class EnoughTime(Callback):
    """Ends a fit after a time, but not before its model is usable.

    With random blocks a model is usable after one epoch. Other methods return their last iterate, which must be near
    the optimum. A fit never takes more than `MOST_TIMES` as long as it should.

    Parameters
    ----------
    seconds : float
        The time.
    least_epochs : float
        Epochs of random blocks that the time must allow. A fit that is too slow for them ends after a part of the
        time, and ``epoch_seconds`` says how long one of its epochs takes.
    """

    def __init__(self, seconds: float, least_epochs: float = 0.0) -> None:
        self.seconds, self.least_epochs = seconds, least_epochs
        self.epoch_seconds: float | None = None  # of a fit that is too slow

    def step(self, run: Run) -> str | None:
        if self._is_too_slow(run):
            self.epoch_seconds = run.seconds / run.epoch
            return Reason.TIME.value
        random = run.training.descent.settings.method == RANDOM and run.epoch >= 1
        limit = self.seconds * (1 if random else MOST_TIMES)
        return Reason.TIME.value if run.seconds >= limit else None

    def epoch(self, run: Run) -> str | None:
        near = run.record is not None and run.record.relative_gap <= FAR
        return Reason.TIME.value if near and run.seconds >= self.seconds else None

    def _is_too_slow(self, run: Run) -> bool:
        """Whether the first steps, which take a part of the time, leave no hope for the epochs."""
        judged = self.least_epochs > 0 and PROBE_SHARE * self.seconds < run.seconds and 0 < run.epoch < 1
        return judged and self.least_epochs * run.seconds > run.epoch * self.seconds


def fit_in_time(model: Any, x: Any, y: Array, seconds: float, least_epochs: float = 0.0) -> float | None:
    """Fit a model for about so many seconds. Return the seconds of an epoch where it is too slow, else None."""
    watch = EnoughTime(max(1.0, seconds), least_epochs)
    model.set_params(max_time=float("inf"), callbacks=[watch]).fit(x, y)
    model.set_params(callbacks=None)
    return watch.epoch_seconds


@dataclass(frozen=True, eq=False)
class Found:
    """A tuned model on all rows, and its trials."""

    model: Any
    trials: list[dict[str, Any]]
    fit_seconds: float


def tuned(
    x: Any,
    y: Array,  # (n,) codes of classes, or scaled numbers
    estimator: Any,
    clock: Clock,
    seed: int,
    scoring: Any,
    share: float = 1.0,
    **search: Any,
) -> Found:
    """Return the best model that `joker.tune` finds; with very few rows, or one of each class, the default one."""
    limit = share * clock.left
    if x.shape[0] < MIN_TUNING_ROWS or (is_classifier(estimator) and len(np.unique(y)) == len(y)):
        return Found(clone(estimator).fit(x, y), [], 0.0)
    model = clone(estimator).set_params(callbacks=[EnoughTime(max(1.0, FIT_SHARE * limit))])
    result = tune(x, y, estimator=model, max_time=SEARCH_SHARE * limit, random_state=seed, scoring=scoring, **search)
    best = result.estimator.set_params(callbacks=None)
    return Found(best, result.table, result.fit_seconds)


def held_out_values(
    found: Any, x: Any, y: Array, folds: list[Fold], values: Callable[[Any, Any], Array], max_time: float
) -> tuple[Array, list[Any]]:
    """Fit a model with the settings of ``found`` on each fold, and return its values on held-out rows, fold by fold."""
    parts, models = [], []
    for fold in folds:
        model = clone(found)
        fit_in_time(model, pick(x, fold.train), y[fold.train], max_time / len(folds))
        parts.append(values(model, pick(x, fold.held)))
        models.append(model)
    return np.concatenate(parts), models
