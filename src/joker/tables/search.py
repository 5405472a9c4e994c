"""The search for members: `joker.tune` on several encodings of a table, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from joker import kernels
from joker.callbacks import Callback, Run
from joker.data.array_rows import pick
from joker.distributed import current
from joker.estimators import resolve
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
MOST_TIMES = 5.0  # times its limit that a fit with random blocks may take until its model is usable
MOST_TIMES_OF_OTHERS = 2.0  # the same for other methods; random blocks then take their place
RANDOM_EPOCHS = 40  # at most; with enough time a fit ends at its tolerance
COMPILED_STEPS = 8  # the first ones on a GPU, which compile and capture what the others only run


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
    the optimum. The fit ends in any case after `MOST_TIMES` or `MOST_TIMES_OF_OTHERS` as long as it should take.

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

    def start(self, run: Run) -> None:
        self._judged_from = (0.0, 0.0)  # seconds and epoch

    def step(self, run: Run) -> str | None:
        if self.least_epochs > 0 and self._is_too_slow(run):
            return Reason.TIME.value
        random = run.training.descent.settings.method == RANDOM
        times = MOST_TIMES_OF_OTHERS if not random else MOST_TIMES if run.epoch < 1 else 1
        return Reason.TIME.value if run.seconds >= times * self.seconds else None

    def epoch(self, run: Run) -> str | None:
        near = run.record is not None and run.record.relative_gap <= FAR
        return Reason.TIME.value if near and run.seconds >= self.seconds else None

    def _is_too_slow(self, run: Run) -> bool:
        """Whether the first steps, which take a part of the time, leave no hope for the epochs."""
        descent = run.training.descent
        if descent.state.alpha.is_cuda and descent.steps <= COMPILED_STEPS:
            self._judged_from = (run.seconds, run.epoch)
            return False
        seconds, epochs = run.seconds - self._judged_from[0], run.epoch - self._judged_from[1]
        if seconds <= PROBE_SHARE * self.seconds or epochs <= 0 or run.epoch >= 1:
            return False
        slow = self.least_epochs * seconds > epochs * self.seconds
        self.epoch_seconds = seconds / epochs if slow else None
        return slow


def fit_while_fast(model: Any, x: Any, y: Array, seconds: float, least_epochs: float) -> float | None:
    """Fit a model for about so many seconds. Return the seconds of an epoch where it is too slow, else None."""
    watch = EnoughTime(max(1.0, seconds), least_epochs)
    model.set_params(max_time=float("inf"), callbacks=[watch]).fit_sample((x, y, None))
    model.set_params(callbacks=None)
    return watch.epoch_seconds


def fit_in_time(model: Any, x: Any, y: Array, seconds: float) -> Any:
    """Fit a model for about so many seconds, and return it, or one with random blocks in its place."""
    fit_while_fast(model, x, y, seconds, 0.0)
    return usable(model, x, y, seconds)


def usable(model: Any, x: Any, y: Array, seconds: float) -> Any:
    """Return a fitted model, or one with random blocks in its place if its fit ended far from the optimum.

    The predictions of such a last iterate may be useless, however well the same settings do on fewer rows.
    """
    if model.gap_ <= FAR or model.method == RANDOM:
        return model
    return fit_in_time(clone(model).set_params(**random_blocks(model, *x.shape)), x, y, seconds)


def random_blocks(model: Any, n: int, d: int) -> dict[str, Any]:
    """Return the settings of a fit with random blocks, which has a usable model after one epoch.

    With the kernel itself, momentum lowers their gap faster.
    """
    exact = resolve.n_features(model.n_features, model.features, kernels.get(model.kernel), n, d) is None
    settings = {"max_epochs": RANDOM_EPOCHS, "method": RANDOM}
    return settings | ({"momentum": True} if exact else {})


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
    seconds = max(1.0, FIT_SHARE * limit)
    model = clone(estimator).set_params(callbacks=[EnoughTime(seconds)])
    result = tune(x, y, estimator=model, max_time=SEARCH_SHARE * limit, random_state=seed, scoring=scoring, **search)
    started = clock.spent
    best = usable(result.estimator.set_params(callbacks=None), x, y, seconds)
    return Found(best, result.table, clock.spent - started if best.method == RANDOM else result.fit_seconds)


def held_out_values(
    found: Any,
    inputs: list[Any],  # of all rows, for each fold
    y: Array,
    folds: list[Fold],
    values: Callable[[Any, Any], Array],
    max_time: float,
) -> tuple[Array, list[Any]]:
    """Fit a model with the settings of ``found`` on each fold, and return its values on held-out rows, fold by fold."""
    parts, models = [], []
    for fold, x in zip(folds, inputs, strict=True):
        model = fit_in_time(clone(found), pick(x, fold.train), y[fold.train], max_time / len(folds))
        parts.append(values(model, pick(x, fold.held)))
        models.append(model)
    return np.concatenate(parts), models
