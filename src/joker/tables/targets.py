"""Targets of a table: classes as codes, or numbers on one scale, perhaps after a log or cube-root transform."""

from __future__ import annotations

import datetime
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from joker.data import Store
from joker.data.arrays import as_array
from joker.errors import InvalidData
from joker.estimators.inputs import check_target_size
from joker.runtime.warning_filters import ignoring
from joker.tables.parsing import parse_numbers
from joker.tables.table import LARGEST_NUMBER, RawTable, is_matrix, is_missing, read_table, split_target

Array = NDArray[Any]
IDENTITY, LOG, CUBE_ROOT = "identity", "log", "cube root"
MAX_SKEW = 2.0  # the absolute skewness above which target transforms are tried
NEAR_ZERO = 0.2  # share of the mean: counts and costs have targets below it
MAX_EXPONENT = 700.0  # exponentials of larger numbers are not finite
RESIDUALS = 64  # quantiles of the residuals that a smearing estimate averages over


@dataclass(frozen=True, eq=False)
class NumberTarget:
    """A target transform: a model is fitted to (transform(y) − mean) / deviation."""

    form: str  # the transform: IDENTITY, LOG or CUBE_ROOT
    mean: float
    deviation: float
    low: float  # of the training targets; predictions after another transform than the identity stay near them
    high: float

    def encode(self, y: Array) -> Array:
        """Return the numbers that a model is fitted to."""
        return (_transformed(y, self.form) - self.mean) / self.deviation

    def decode(self, f: Array, residuals: Array | None = None) -> Array:
        """Return predictions in the unit of y: the smearing estimate (Duan, 1983) of the inverse transform.

        It is the mean of the inverse over the ``residuals``. The identity needs none.
        """
        if self.form == IDENTITY:
            return f * self.deviation + self.mean
        spread = np.zeros(1) if residuals is None else residuals
        total = np.zeros(len(f))
        for residual in spread:
            y = _inverse((f + residual) * self.deviation + self.mean, self.form)
            total += np.clip(y, *self.limits)  # a power or an exponential of a wrong value may be huge
        return total / len(spread)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest prediction after another transform than the identity."""
        margin = self.high - self.low
        return self.low - margin, self.high + margin


@dataclass(frozen=True, eq=False)
class Trend:
    """A linear function of encoded inputs; far from the training data it ends at limits."""

    encoding: int  # index, of an encoding without feature weights
    coefficients: Array  # (d,)
    intercept: float
    low: float
    high: float

    def values(self, x: Array) -> Array:  # (n, d) -> (n,)
        """Return the trend on the scale of the fit."""
        values: Array = np.clip(x.astype(np.float64) @ self.coefficients + self.intercept, self.low, self.high)
        return values


def fit_number_target(y: Array, transform: str) -> NumberTarget:
    """Learn the scale of a target after a transform."""
    transformed = _transformed(y, transform)
    deviation = float(transformed.std())
    return NumberTarget(
        transform, float(transformed.mean()), deviation if deviation > 0 else 1.0, float(y.min()), float(y.max())
    )


def transforms_to_try(y: Array) -> list[str]:
    """Return the transforms that may suit a target: others than the identity if it is heavy-tailed."""
    deviation = y.std()
    if len(y) < 2 or deviation == 0:
        return [IDENTITY]
    skew = float(np.mean(((y - y.mean()) / deviation) ** 3))
    if abs(skew) <= MAX_SKEW:
        return [IDENTITY]
    return [IDENTITY, LOG] if (y > 0).all() else [IDENTITY, CUBE_ROOT]


def unscaled_target(y: Array) -> NumberTarget:
    """Return the target of a model of the log of the mean, which scales its targets itself."""
    return NumberTarget(IDENTITY, 0.0, 1.0, float(y.min()), float(y.max()))


def mean_loss_to_try(y: Array) -> str | None:
    """Return the loss of the log of the mean that may suit a target: of counts, or of costs with heavy tails."""
    if len(y) < 2 or y.min() < 0 or y.min() > NEAR_ZERO * y.mean() or y.std() == 0:
        return None
    if (y == np.round(y)).all():
        return "poisson" if y.max() > 1 else None
    if transforms_to_try(y) == [IDENTITY]:
        return None
    return "gamma" if y.min() > 0 else "tweedie"


def residual_quantiles(residuals: Array) -> Array:
    """Return the residuals of a smearing estimate."""
    return np.quantile(residuals, (np.arange(RESIDUALS) + 0.5) / RESIDUALS)


def _transformed(y: Array, transform: str) -> Array:
    if transform == LOG:
        return np.log(y)
    return np.cbrt(y) if transform == CUBE_ROOT else y


def _inverse(f: Array, transform: str) -> Array:
    if transform == LOG:
        return np.exp(np.minimum(f, MAX_EXPONENT))
    return f**3 if transform == CUBE_ROOT else f


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
    with ignoring(category=UserWarning):  # many classes are no mistake of a classifier's user
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


def as_inputs(X: Any) -> Any:
    """Return a table of columns, or a matrix: a sparse one, or the rows of a store."""
    X = X.x if isinstance(X, Store) else X
    inputs = X if is_matrix(X) else read_table(X)
    if sp.issparse(inputs):
        inputs = check_array(inputs, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X")
    return inputs


def shape_of(inputs: Any) -> tuple[int, int]:
    """Return the numbers of rows and of columns."""
    return (inputs.rows, len(inputs.columns)) if isinstance(inputs, RawTable) else (inputs.shape[0], inputs.shape[1])


def labelled_inputs(X: Any, y: Any, estimator: str, *, numbers: bool) -> tuple[Any, Array, Array]:
    """Return inputs and targets without the rows that have no target, and which of all rows have one.

    ``estimator`` is its name in messages.

    With ``numbers``, targets such as ``$1,234`` are read as numbers.
    """
    if y is None and isinstance(X, Store):
        y = X.y
    if y is None:
        raise InvalidData(f"{estimator} requires y to be passed, but the target y is None. Give the target.")
    X, y = with_target(X, y, numbers=numbers)
    inputs, labels = as_inputs(X), _labels(y, numbers=numbers)
    rows, width = shape_of(inputs)
    if rows < 2 or not width:
        what = f"{width} feature(s) (shape=({rows}, {width}))" if not width else f"{rows} sample(s)"
        least = 1 if not width else 2
        remedy = "Give X at least one column." if not width else "Add rows."
        raise InvalidData(f"found {what} while a minimum of {least} is required (n_samples = {rows}). {remedy}")
    if len(labels) != rows:
        raise InvalidData(f"X and y must have equal lengths; X has {rows} rows and y has {len(labels)}. Check them.")
    present = present_targets(labels, rows)
    if not present.all():
        kept = np.flatnonzero(present)
        inputs = inputs.some(kept) if isinstance(inputs, RawTable) else inputs[kept]
        labels = labels[kept]
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InvalidData(
            "Input y contains infinity or a value too large for dtype('float64'): targets must be finite. Leave "
            "such rows out."
        )
    if numbers and labels.dtype.kind == "f":
        check_target_size(labels, LARGEST_NUMBER)
    return inputs, labels, present


def as_fitted_on(inputs: Any, as_table: bool) -> Any:
    """Return inputs as the table or the matrix that a model was fitted on, where a user passes the other one."""
    if as_table and not isinstance(inputs, RawTable):
        return read_table(inputs.toarray() if sp.issparse(inputs) else inputs[:].numpy())
    if isinstance(inputs, RawTable) and not as_table:
        return np.column_stack([column.values.astype(np.float64) for column in inputs.columns])
    return inputs


def with_target(X: Any, y: Any, *, numbers: bool) -> tuple[Any, Any]:
    """Return inputs and targets where ``y`` may be the name of a column of X, which is no input then."""
    if not isinstance(y, str):
        return X, y
    X, y = split_target(X, y)
    return X, _labels(y, numbers=numbers)


def _labels(y: Any, *, numbers: bool) -> Array:
    """Return y as one column; with ``numbers``, text such as ``$1,234`` is read as numbers."""
    y = as_array(y)
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    labels = np.asarray(y)
    if labels.dtype.kind == "c":
        raise InvalidData("Complex data not supported: y must be real numbers or classes. Use real numbers.")
    if labels.ndim == 2 and labels.shape[1] > 1:
        raise InvalidData(
            f"y must be one column; got {labels.shape[1]} columns. Fit a model for each, or use KernelRidge for all."
        )
    column: Array = column_or_1d(labels, warn=True)
    _refuse_dates(column, numbers)
    if numbers and column.dtype.kind not in "biuf" and (written := parse_numbers(column)) is not None:
        return written
    return column


def _refuse_dates(y: Array, numbers: bool) -> None:
    first = next((value for value in y.tolist() if not is_missing(value)), None) if y.dtype == object else None
    if y.dtype.kind not in "mM" and not isinstance(first, datetime.date | datetime.timedelta | np.datetime64):
        return
    what = "numbers" if numbers else "classes"
    remedy = (
        "Use a number, such as the days since a date: (y - y.min()) / pandas.Timedelta('1D')"
        if numbers
        else "Use y.astype(str), or JokerRegressor with a number, such as the days since a date"
    )
    raise InvalidData(f"y must be {what}; got dates or durations. {remedy}.")
