"""Targets of a table: classes as codes, or numbers on one scale, perhaps in the form of a logarithm or a power."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from joker.errors import InvalidData
from joker.tables.frames import is_missing

Array = NDArray[Any]
IDENTITY, LOG, CUBE_ROOT = "identity", "log", "cube root"
MAX_SKEW = 2.0  # the absolute skewness above which other forms of a target are tried
MAX_EXPONENT = 700.0  # exponentials of larger numbers are not finite
RESIDUALS = 64  # quantiles of the residuals over which a prediction is averaged when its form is undone


@dataclass(frozen=True, eq=False)
class NumberTarget:
    """A form of the target, its mean and its deviation: a model is fitted to (form(y) − mean) / deviation."""

    form: str
    mean: float
    deviation: float
    low: float  # of the training targets; predictions of another form than the identity stay near the training targets
    high: float

    def encode(self, y: Array) -> Array:
        """Return the numbers that a model is fitted to."""
        return (_formed(y, self.form) - self.mean) / self.deviation

    def decode(self, f: Array, residuals: Array | None = None) -> Array:
        """Return predictions in the unit of y; the mean over ``residuals`` where the form is not the identity."""
        if self.form == IDENTITY:
            return f * self.deviation + self.mean
        spread = np.zeros(1) if residuals is None else residuals
        total = np.zeros(len(f))
        for residual in spread:
            y = _unformed((f + residual) * self.deviation + self.mean, self.form)
            total += np.clip(y, *self.limits)  # a power or an exponential of a wrong value may be huge
        return total / len(spread)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest prediction of another form than the identity."""
        margin = self.high - self.low
        return self.low - margin, self.high + margin


def fit_number_target(y: Array, form: str) -> NumberTarget:
    """Learn the scale of a target in one form."""
    formed = _formed(y, form)
    deviation = float(formed.std())
    return NumberTarget(form, float(formed.mean()), deviation if deviation > 0 else 1.0, float(y.min()), float(y.max()))


def forms_to_try(y: Array) -> list[str]:
    """Return the forms of a target that may suit it: others than the identity if it is heavy-tailed."""
    deviation = y.std()
    if len(y) < 2 or deviation == 0:
        return [IDENTITY]
    skew = float(np.mean(((y - y.mean()) / deviation) ** 3))
    if abs(skew) <= MAX_SKEW:
        return [IDENTITY]
    return [IDENTITY, LOG] if (y > 0).all() else [IDENTITY, CUBE_ROOT]


def residual_quantiles(residuals: Array) -> Array:
    """Return the residuals over which predictions are averaged."""
    return np.quantile(residuals, (np.arange(RESIDUALS) + 0.5) / RESIDUALS)


def _formed(y: Array, form: str) -> Array:
    if form == LOG:
        return np.log(y)
    return np.cbrt(y) if form == CUBE_ROOT else y


def _unformed(f: Array, form: str) -> Array:
    if form == LOG:
        return np.exp(np.minimum(f, MAX_EXPONENT))
    return f**3 if form == CUBE_ROOT else f


def present_targets(y: Any, rows: int) -> Array:
    """Return which rows have a target; a warning says the number of rows without one."""
    present: Array
    values: Array = np.asarray(y) if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    if values.dtype == object:
        present = np.array([not is_missing(value) for value in values.ravel()]).reshape(values.shape)
    elif values.dtype.kind == "f":
        present = ~np.isnan(values)
    else:
        return np.ones(rows, dtype=bool)
    present = np.asarray(present.reshape(len(values), -1).all(axis=1))
    if not present.any():
        raise InvalidData("y must have a target for some rows; all are missing. Check the column of the target.")
    if not present.all():
        warnings.warn(
            f"{np.sum(~present):,} of {len(present):,} rows have no target; they are left out.",
            UserWarning,
            stacklevel=5,
        )
    return present


def class_codes(y: Array) -> tuple[Array, Array]:
    """Return the classes and the code of each row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # many classes are no mistake of a classifier's user
        check_classification_targets(y)
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise InvalidData(
            "classes must be of one type, so that they can be sorted; y mixes text and numbers. Use y.astype(str)."
        ) from error
    if len(classes) < 2:
        raise InvalidData(
            f"Classifier can't train when only one class is present: y must have at least two classes; got one class, "
            f"{classes.tolist()[0]!r}. Add rows."
        )
    return classes, codes.ravel()
