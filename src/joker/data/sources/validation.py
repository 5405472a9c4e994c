"""Errors for files, values, rows and columns of tables that cannot be used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Schema, listed, repeated
from joker.errors import InvalidData, InvalidFile, MissingFile
from joker.runtime.atomic_file import parse_path


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return a path of data. Opening a pipe would wait for ever, and reading a device may never end."""
    place = parse_path(path, "train.csv")
    if not place.exists():
        raise MissingFile(f"a file of data must exist; {place} does not. Check the path.")
    if not (place.is_file() or place.is_dir()):
        raise InvalidFile(
            f"a file of data must be a regular file or a folder, since it is read more than once; {place} is a pipe or "
            "a device. Copy the data to a file first."
        )
    return place


def check_values(x: Any, y: NDArray[Any] | None, first: int, schema: Schema, source: str) -> None:
    """Raise InvalidData for the first NaN or infinite value, with its row and column.

    The inputs x are an array or a csr_array of shape (k, width); the targets y have shape (k,) or (k, t).
    """
    values = x if isinstance(x, np.ndarray) else x.data
    if not _finite(values):
        row, column, value = _first_of(x)
        refuse_value(source, value, first + row, schema.names[column])
    if y is not None and not _finite(y):
        row, column, value = _first_of(y.reshape(len(y), -1))
        refuse_value(source, value, first + row, schema.target or "y")


def refuse_value(source: str, value: object, row: int, column: str) -> NoReturn:
    """Raise InvalidData for a value that is not finite."""
    raise InvalidData(
        f"{source}: values must be finite; found {value} at row {row}, column {column!r}. Leave such rows out, or "
        "replace such values, for example by the median of the column."
    )


def refuse_missing(source: str, row: int, column: str) -> NoReturn:
    """Raise InvalidData for a missing value."""
    raise InvalidData(
        f"{source}: no value may be missing; one is at row {row}, column {column!r}. Leave such rows out, or fill in "
        "values, for example the median of the column."
    )


def refuse_text(source: str, value: object, row: int, column: str) -> NoReturn:
    """Raise InvalidData for text in a column of numbers."""
    raise InvalidData(
        f"{source}: inputs must be numbers; found {value!r} at row {row}, column {column!r}. Use "
        'categories="one-hot" if the whole column is text, choose others with columns=, or correct the value.'
    )


@contextmanager
def decoding(kind: str, errors: tuple[type[Exception], ...], path: object) -> Iterator[None]:
    """Raise InvalidFile for these errors of the library that reads a kind of file."""
    try:
        yield
    except errors as error:
        message = str(error).partition("\n")[0]
        raise InvalidFile(
            f"{path} must be a valid {kind}; reading it failed ({message}). Write or copy it again."
        ) from error


def check_names(source: object, names: Iterable[str]) -> None:
    """Raise InvalidData for a table with two columns of one name."""
    if twice := repeated(names):
        raise InvalidData(
            f"{source}: names of columns must differ; {listed(twice)} occurs more than once. Rename the others."
        )


def refuse_empty(source: str, found: str) -> NoReturn:
    """Raise InvalidData for a table without rows or columns."""
    raise InvalidData(f"{source}: a table must have at least one row and one input; {found}. Add data.")


def _finite(values: NDArray[Any]) -> bool:
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def _first_of(x: Any) -> tuple[int, int, object]:
    """Return the row, the column and the value of the first entry that is not finite."""
    if isinstance(x, np.ndarray):
        row, column = np.argwhere(~np.isfinite(x))[0]
        return int(row), int(column), x[row, column]
    entry = int(np.flatnonzero(~np.isfinite(x.data))[0])
    row = int(np.searchsorted(x.indptr, entry, side="right")) - 1
    return row, int(x.indices[entry]), x.data[entry]
