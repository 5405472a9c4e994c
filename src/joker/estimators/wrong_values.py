"""Values that no estimator takes, found and named after a check has failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidData, JokerError

ENCODE = "Encode text as numbers first, for example with sklearn.preprocessing.OneHotEncoder, or leave the column out."
DATES = "Replace times by numbers, such as the year and the day of the year, or leave the column out."


@contextmanager
def naming_columns(X: Any) -> Iterator[None]:
    """Replace an error about text or times among the inputs by one that names the column and the value."""
    try:
        yield
    except JokerError:
        raise
    except (TypeError, ValueError) as error:
        for name, column in _columns(X):
            if (found := _wrong(column)) is not None:
                row, value, remedy = found
                raise InvalidData(
                    f"X must have numbers only; found {value!r} in column {name!r}, row {row}. {remedy}"
                ) from error
        raise


def check_numbers(y: Any) -> None:
    """Refuse text and times as targets of a regression."""
    values = np.asarray(y)
    if values.dtype.kind in "OUSMm" and (found := _wrong(values.ravel())) is not None:
        row, value, _ = found
        raise InvalidData(
            f"y must be numbers for a regressor; found {value!r} in row {row // max(1, values.size // len(values))}. "
            "Convert it to numbers, or use a classifier, such as KernelSVC, for classes."
        )


def _columns(X: Any) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Yield the name and the values of each column that may hold something else than numbers."""
    if hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray):
        for place, name in enumerate(X.columns):
            values = np.asarray(X.iloc[:, place] if hasattr(X, "iloc") else X[name])
            if values.dtype.kind not in "biufc":
                yield name, values
        return
    values = np.asarray(X) if isinstance(X, np.ndarray | list | tuple) else np.empty((0, 0))
    if values.ndim == 2 and values.dtype.kind in "OUSMm":
        yield from enumerate(values.T)


def _wrong(values: NDArray[Any]) -> tuple[int, Any, str] | None:
    """Return the row of the first text or time, the value, and the remedy; None if there is none."""
    if values.dtype.kind in "Mm" and len(values):
        text = np.datetime_as_string(values[0], unit="auto") if values.dtype.kind == "M" else values[0]
        return 0, str(text), DATES
    for row, value in enumerate(values.tolist()):
        if isinstance(value, str | bytes) and not _is_number(value):
            return row, value, ENCODE
        if hasattr(value, "isoformat"):
            return row, value.isoformat(), DATES
    return None


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
