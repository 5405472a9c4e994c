"""Row stores as the data of an estimator: their rows, targets and column names."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array, validate_data

from joker.data import Labels, Schema, Store, StoreRows
from joker.data.array_rows import as_array
from joker.errors import InvalidData

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
