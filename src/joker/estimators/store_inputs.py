"""Row stores as the data of an estimator: their rows, targets and column names."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array, validate_data

from joker.data import Labels, Schema, Store, StoreRows, as_source
from joker.data.array_rows import as_array
from joker.errors import InvalidData

FRAME_ROWS = 2**16  # rows of a frame that are converted at a time
MAX_NAMES = 8  # column names that a message lists


def is_stored(X: Any) -> bool:
    """Whether the data are a row store, or rows of one."""
    return isinstance(X, Store | StoreRows)


def classes_of(X: Any, y: Any) -> Any:
    """Return the classes of the rows: those given, or those of a store."""
    if y is not None:
        return as_array(y)
    _check_given(X)
    if X.classes is None:
        raise InvalidData(
            f"y must be classes for a classifier; {X.path} has numbers. Convert the data with task='classification', "
            "or use a regressor."
        )
    return X.labels


def numbers_of(X: Any, y: Any) -> Any:
    """Return the numeric targets of the rows: those given, or those of a store."""
    if y is not None:
        return as_array(y)
    _check_given(X)
    if X.classes is not None and X.classes.dtype.kind == "U":
        raise InvalidData(f"y must be numbers for a regressor; {X.path} has classes of text. Use a classifier.")
    return X.y


def _check_given(X: Any) -> None:
    if not isinstance(X, Store):
        raise InvalidData(
            f"fit requires y to be passed, but the target y is None: only a row store has its own, and X is of type "
            f"{type(X).__name__}. Give y."
        )


def columns_by_name(model: Any, X: Any) -> Any:
    """Return the columns of a frame in the order of the table that a model was fitted on; other data unchanged.

    A model that was fitted on a table of a file or a store knows the names of its columns.
    """
    schema: Schema | None = getattr(model, "schema_", None)
    names = getattr(X, "columns", None)
    if schema is None or names is None or not hasattr(X, "iloc"):
        return X
    if list(map(str, names)) == list(schema.names):  # as the inputs are named, with one column for each level
        return X.to_numpy()
    batches = [batch.dense for batch in as_source(X, schema=schema).batches(FRAME_ROWS)]
    return batches[0] if len(batches) == 1 else np.concatenate(batches)


def check_stored(model: BaseEstimator, X: Store | StoreRows, y: Any, reset: bool = True, **checks: Any) -> Any:
    """Check rows of a store and their targets, as arrays are checked."""
    if isinstance(X, Store):
        if not reset:
            check_columns(model, X.schema)
        X = X.x
    validate_data(model, X, reset=reset, skip_check_array=True)
    if isinstance(y, str):
        return X
    if not isinstance(y, Labels):
        y = check_array(y, ensure_2d=False, dtype="numeric" if checks else None, input_name="y")
    check_consistent_length(X, y)
    return X, y


def check_columns(model: BaseEstimator, schema: Schema) -> None:
    """Refuse rows whose columns are not those of the training rows; name those that differ."""
    known = getattr(model, "schema_", None)
    if known is None or known.names == schema.names:
        return
    missing, unknown = ([n for n in a.names if n not in set(b.names)] for a, b in ((known, schema), (schema, known)))
    differences = [
        f"{what} {', '.join(map(repr, names[:MAX_NAMES]))}{' and more' if len(names) > MAX_NAMES else ''}"
        for what, names in (("lacks", missing), ("has the unknown", unknown))
        if names
    ]
    raise InvalidData(
        "X must have the columns of the training rows, in their order; it "
        f"{' and '.join(differences) or 'has them in another order'}. Convert the data with schema=model.schema_."
    )
