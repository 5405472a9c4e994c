"""From Arrow's columns to rows: numbers are cast, categories become 0/1 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Column, Schema, listed
from joker.data.sources.base import Batch
from joker.data.sources.checks import refuse_missing
from joker.errors import InvalidData, MissingPackage

MOST_LEVELS = 1000


def need_pyarrow(source: str) -> Any:
    """Return pyarrow, or say how to install it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingPackage(
            f"{source}: tables as text, Parquet or Arrow need pyarrow, which is not installed. "
            "Run pip install joker[tables]."
        ) from error
    return pyarrow


def is_number(kind: Any) -> bool:
    """Whether a column of this Arrow type holds numbers; true and false are 1 and 0."""
    types = need_pyarrow("").types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def is_text(kind: Any) -> bool:
    """Whether a column of this Arrow type holds text, perhaps with a dictionary."""
    types = need_pyarrow("").types
    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
    return any(test(kind) for test in tests)


def cut(batch: Any, rows: int) -> Iterator[Any]:
    """Return a batch in parts of at most so many rows."""
    for first in range(0, batch.num_rows, rows):
        yield batch.slice(first, rows)


def to_batch(
    columns: list[Any],  # the inputs, then the target if there is one: Arrow arrays of k entries
    schema: Schema,
    dtype: np.dtype[Any],
    first: int,
    source: str,
    has_target: bool,
) -> Batch:
    """Return rows from Arrow's columns."""
    inputs = columns[: len(schema.inputs)]
    x = np.zeros((len(inputs[0]), schema.width), dtype)
    place = 0
    for column, values in zip(schema.inputs, inputs, strict=True):
        _put(x[:, place : place + len(column.names)], column, values, first, source)
        place += len(column.names)
    y = _target(columns[-1], schema, first, source) if has_target else None
    return Batch(x, y, first)


def _put(out: NDArray[Any], column: Column, values: Any, first: int, source: str) -> None:
    """Write a column, or the columns of a category's levels."""
    check_present(values, first, column.name, source)
    if column.levels is None:
        out[:, 0] = numbers(values)
        return
    codes = _codes(column, values, first, source)
    out[np.arange(len(codes)), codes] = 1


def numbers(values: Any) -> NDArray[Any]:  # (k,)
    """Return an Arrow array of numbers as NumPy's."""
    pyarrow = need_pyarrow("")
    if pyarrow.types.is_decimal(values.type):
        values = values.cast(pyarrow.float64())
    out: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return out


def texts(values: Any) -> Any:
    """Return an Arrow array of text without a dictionary."""
    return values.cast(need_pyarrow("").string())


def check_present(values: Any, first: int, column: str, source: str) -> None:
    """Refuse missing values; in text an empty field is one."""
    if values.null_count:
        refuse_missing(source, first + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))), column)


def _codes(column: Column, values: Any, first: int, source: str) -> NDArray[Any]:  # (k,)
    """Return the number of the level of each entry."""
    import pyarrow.compute

    pyarrow = need_pyarrow(source)
    levels = column.levels or ()
    found = pyarrow.compute.index_in(texts(values), value_set=pyarrow.array(levels, pyarrow.string()))
    if found.null_count:
        row = int(np.argmax(found.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidData(
            f"{source}: column {column.name!r} must have the levels of the training data, {listed(levels)}; found "
            f"{texts(values)[row].as_py()!r} at row {first + row}. Leave such rows out, or train with that level."
        )
    codes: NDArray[Any] = found.to_numpy()
    return codes


def _target(values: Any, schema: Schema, first: int, source: str) -> NDArray[Any]:  # (k,)
    name = schema.target or "y"
    check_present(values, first, name, source)
    if not schema.text_target and is_number(values.type):
        return numbers(values)
    return np.array(texts(values).to_pylist(), dtype=np.str_)


class Levels:
    """The levels of a category, collected as its column goes by."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source
        self._found: set[str] = set()

    def add(self, values: Any, first: int) -> None:
        """Take note of the levels of more rows."""
        check_present(values, first, self.name, self.source)
        self._found.update(texts(values).unique().to_pylist())
        if len(self._found) > MOST_LEVELS:
            raise InvalidData(
                f"{self.source}: a category may have at most {MOST_LEVELS} levels; column {self.name!r} has more. "
                "Leave it out with columns=, or turn it into numbers."
            )

    @property
    def column(self) -> Column:
        """The column, its levels in alphabetical order."""
        return Column(self.name, tuple(sorted(self._found)))
