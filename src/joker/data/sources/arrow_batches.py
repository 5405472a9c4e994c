"""Record batches of Arrow as batches of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Column, Schema
from joker.data.sources.base import Batch, TableSource
from joker.data.sources.column_selection import ColumnSelection
from joker.data.sources.one_hot import Levels, assemble, refuse_level
from joker.data.sources.validation import refuse_missing
from joker.errors import MissingPackage


def need_pyarrow(source: str) -> Any:
    """Return pyarrow; raise MissingPackage if it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingPackage(
            f"{source}: tables as text, Parquet or Arrow need pyarrow, which is not installed. "
            "Run pip install 'joker-kernels[tables]'."
        ) from error
    return pyarrow


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is numeric; booleans are 1 and 0."""
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text or a dictionary."""
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
    return any(test(kind) for test in tests)


def arrow_schema(selection: ColumnSelection, kinds: Mapping[str, Any], one_hot: bool) -> Schema:
    """Return the schema of the selected columns, from the Arrow type of each; empty levels are collected later."""
    inputs = tuple(Column(name, () if one_hot and is_text(kinds[name]) else None) for name in selection.names)
    target = selection.target_name
    return Schema(inputs, target, target is not None and not is_number(kinds[target]))


def sliced(record_batches: Iterable[Any], rows: int) -> Iterator[tuple[list[Any], int]]:
    """Yield the columns of at most ``rows`` rows of record batches, with the number of the first row."""
    first = 0
    for whole in record_batches:
        for start in range(0, whole.num_rows, rows):
            part = whole.slice(start, rows)
            yield part.columns, first
            first += part.num_rows


def to_batches(source: TableSource, record_batches: Iterable[Any], rows: int) -> Iterator[Batch]:
    """Yield batches of at most ``rows`` rows from record batches of the inputs, then the target if it is read."""
    for columns, first in sliced(record_batches, rows):
        yield _batch(columns, source.schema, source.dtype, first, source.name)


def with_levels(schema: Schema, names: Sequence[str], record_batches: Iterable[Any], source: str) -> Schema:
    """Return the schema with the levels of its categories, which are read from the columns ``names`` of the file."""
    levels = [Levels(column.name, source) for column in schema.inputs if column.levels is not None]
    first = 0
    for batch in record_batches:
        for each, name, values in zip(levels, names, batch.columns, strict=True):
            check_present(values, first, name, source)
            each.add(texts(values).unique().to_pylist())
        first += batch.num_rows
    columns = {each.name: each.column for each in levels}
    return replace(schema, inputs=tuple(columns.get(column.name, column) for column in schema.inputs))


def check_present(values: Any, first: int, column: str, source: str) -> None:
    """Raise InvalidData if a value is missing."""
    if values.null_count:
        refuse_missing(source, first + _first_null(values), column)


def texts(values: Any) -> Any:
    """Return values as an Arrow array of text, without a dictionary."""
    import pyarrow

    if pyarrow.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values.cast(pyarrow.string())


def _batch(columns: list[Any], schema: Schema, dtype: np.dtype[Any], first: int, source: str) -> Batch:
    # The columns may be followed by the target.
    inputs = [_values(column, values, first, source) for column, values in zip(schema.inputs, columns, strict=False)]
    y = _target(columns[-1], schema, first, source) if len(columns) > len(inputs) else None
    return Batch(assemble(schema, inputs, dtype), y, first)


def _values(column: Column, values: Any, first: int, source: str) -> NDArray[Any]:  # (k,)
    """Return the numbers of a column, or the level numbers of a category."""
    check_present(values, first, column.name, source)
    return _numbers(values) if column.levels is None else _codes(column, column.levels, values, first, source)


def _numbers(values: Any) -> NDArray[Any]:  # (k,)
    import pyarrow

    if pyarrow.types.is_decimal(values.type):
        values = values.cast(pyarrow.float64())
    out: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return out


def _codes(column: Column, levels: tuple[str, ...], values: Any, first: int, source: str) -> NDArray[Any]:  # (k,)
    import pyarrow
    from pyarrow import compute

    indices = compute.index_in(texts(values), value_set=pyarrow.array(levels, pyarrow.string()))
    if indices.null_count:
        row = _first_null(indices)
        refuse_level(source, column, texts(values)[row].as_py(), first + row)
    codes: NDArray[Any] = indices.to_numpy()
    return codes


def _target(values: Any, schema: Schema, first: int, source: str) -> NDArray[Any]:  # (k,)
    check_present(values, first, schema.target or "y", source)
    if is_number(values.type) and not schema.text_target:
        return _numbers(values)
    return np.array(texts(values).to_pylist(), dtype=np.str_)


def _first_null(values: Any) -> int:
    return int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
