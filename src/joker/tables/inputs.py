"""X and y as a user passes them: checked inputs, a table of columns or a matrix, and one column of targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, column_or_1d

from joker.data import Store
from joker.data.array_rows import as_array
from joker.errors import InvalidData
from joker.tables.frames import RawTable, is_matrix, read_table
from joker.tables.targets import present_targets
from joker.tables.text_values import written_numbers

Array = NDArray[Any]


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


def labelled_inputs(X: Any, y: Any, estimator: str, *, numbers: bool) -> tuple[Any, Array]:
    """Return inputs and targets without the rows that have no target; ``estimator`` is its name in messages.

    With ``numbers``, targets such as ``$1,234`` are read as numbers.
    """
    if y is None and isinstance(X, Store):
        y = X.y
    if y is None:
        raise InvalidData(f"{estimator} requires y to be passed, but the target y is None. Give the target.")
    inputs, labels = as_inputs(X), _labels(y)
    if numbers and labels.dtype.kind not in "biuf" and (written := written_numbers(labels)) is not None:
        labels = written
    rows, width = shape_of(inputs)
    if rows < 2 or not width:
        what = f"{width} feature(s) (shape=({rows}, {width}))" if not width else f"{rows} sample(s)"
        least = 1 if not width else 2
        raise InvalidData(f"found {what} while a minimum of {least} is required (n_samples = {rows}). Add some.")
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
    return inputs, labels


def in_the_form_of(inputs: Any, as_table: bool) -> Any:
    """Return inputs as the table or the matrix that a model was fitted on, where a user passes the other one."""
    if as_table and not isinstance(inputs, RawTable):
        return read_table(inputs.toarray() if sp.issparse(inputs) else inputs[:].numpy())
    if isinstance(inputs, RawTable) and not as_table:
        return np.column_stack([column.values.astype(np.float64) for column in inputs.columns])
    return inputs


def _labels(y: Any) -> Array:
    """Return y as one column."""
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
    return column
