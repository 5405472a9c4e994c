"""What a table estimator learns, and the loss that judges it on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from joker.errors import InvalidParameter
from joker.estimators.probabilities import fit_calibration
from joker.estimators.regression import mean_deviance
from joker.estimators.scoring import log_link_of
from joker.tables.ensemble import decision_values
from joker.tables.table import RawTable
from joker.tables.targets import NumberTarget, residual_quantiles
from joker.tuning.halving import TimeBudget
from joker.tuning.splits import strata
from joker.tuning.validation import Validation, make_validation

Array = NDArray[Any]


def _column(inputs: Any, given: Any, what: str) -> tuple[str | None, Any]:
    """Return the name and the values of a column of the table, or no name and what is given."""
    if not isinstance(given, str):
        return None, given
    names = inputs.names if isinstance(inputs, RawTable) else ()
    if given not in names:
        known = f"The columns are {', '.join(map(repr, names[:20]))}." if names else "X has no names of columns."
        raise InvalidParameter(f"{what} must name a column of X, or be an array; got {given!r}. {known}")
    return given, inputs.columns[names.index(given)].values


def validation_of(inputs: Any, y: Array, classes: int, cv: Any, groups: Any, time: Any) -> Validation:
    """Return how rows of a table are held out; ``groups`` and ``time`` may name columns."""
    of_groups, of_time = _column(inputs, groups, "groups"), _column(inputs, time, "time")
    return make_validation(y, classes, cv, of_groups[1], of_time[1], (of_groups[0], of_time[0]))


@dataclass(frozen=True, eq=False)
class TableProblem:
    """What is learnt: columns or a matrix, targets, and the settings of the fit."""

    inputs: Any  # a RawTable, a sparse matrix or rows of a store
    y: Array  # (n,) codes of classes, or numbers
    classes: int
    estimator: Any  # unfitted
    seed: int = 0
    clock: TimeBudget = field(default_factory=TimeBudget)
    scoring: Any = None
    columns: Mapping[str, str] | None = None
    sample_weight: Array | None = None  # (n,), as the user gives it
    row_weights: Array | None = None  # (n,): these, times the weights of classes
    validation: Validation = field(default_factory=Validation)
    gpu: Any = None  # the device of a fit on many rows; None: that of the estimator

    @cached_property
    def codes(self) -> Array:  # (n,)
        """The codes by which splits are stratified."""
        return strata(self.y, self.classes)

    def targets(self, target: NumberTarget | None) -> Array:  # (n,)
        """Return what a model is fitted to: codes of classes, or transformed numbers."""
        return self.y if target is None else target.encode(self.y)

    def values(self, model: Any, x: Any) -> Array:  # (n, d) -> (n, t)
        """Return decision values of all classes, or predictions on the scale of the fit."""
        if self.classes:
            return decision_values(model, x, self.classes)
        return np.asarray(model.predict(x))[:, None]

    def decoded(self, values: Array, rows: Array, target: NumberTarget | None) -> tuple[Array, Array | None]:
        """Return the values of held-out rows, with their trend, in the unit of y, and quantiles of their residuals."""
        if target is None:
            return values, None
        residuals = residual_quantiles(target.encode(self.y)[rows] - values[:, 0])
        return target.decode(values[:, 0], residuals)[:, None], residuals

    def given_weights(self, rows: Array) -> Array | None:
        """Return the weights that the user gives some rows; None if there are none."""
        return None if self.sample_weight is None else self.sample_weight[rows]

    def weights(self, rows: Array) -> Array | None:
        """Return the weights of some rows; None if all are equal."""
        return None if self.row_weights is None else self.row_weights[rows]

    def loss(self, rows: Array) -> Callable[[Array], float]:
        """Return the loss of values of some rows: the squared error, a deviance, or the log loss of probabilities."""
        y, w = self.y[rows], self.weights(rows)
        if (deviance := log_link_of(self.estimator)) is not None:
            return lambda f: mean_deviance(deviance, y, f[:, 0], w)
        if not self.classes:
            return lambda f: float(np.average((f[:, 0] - y) ** 2, weights=w))
        labels = np.arange(self.classes)
        return lambda f: log_loss(y, fit_calibration(f, y, w).probabilities(f), sample_weight=w, labels=labels)
