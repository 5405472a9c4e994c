"""Data frames of pandas as sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Column, Schema
from joker.data.sources.arrays import StreamedArray
from joker.data.sources.base import Batch, CheckedSource
from joker.data.sources.column_selection import ColumnSelection, TableColumns, select_columns
from joker.data.sources.dtypes import batch_dtype
from joker.data.sources.one_hot import Levels, assemble, refuse_level
from joker.data.sources.read_options import ReadOptions
from joker.data.sources.validation import refuse_empty, refuse_missing, refuse_text
from joker.errors import InvalidData


@dataclass(frozen=True, eq=False)
class FrameSource(CheckedSource):
    """The rows of a data frame."""

    inputs: Any  # a data frame of the inputs, in order
    y: Any  # a Series of targets, or None

    def read(self, rows: int) -> Iterator[Batch]:
        for first in range(0, len(self.inputs), rows):
            part = self.inputs.iloc[first : first + rows]
            y = None if self.y is None else self._target(self.y.iloc[first : first + rows], first)
            columns = [self._values(column, part.iloc[:, j], first) for j, column in enumerate(self.schema.inputs)]
            yield Batch(assemble(self.schema, columns, self.dtype), y, first)

    def _values(self, column: Column, values: Any, first: int) -> NDArray[Any]:  # (k,)
        """Return the numbers of a column, or the level numbers of a category."""
        _check_present(self.name, column.name, values, first)
        return _numbers(values) if column.levels is None else self._codes(column, column.levels, values, first)

    def _codes(self, column: Column, levels: tuple[str, ...], values: Any, first: int) -> NDArray[Any]:  # (k,)
        from pandas import Index

        codes = np.asarray(Index(levels).get_indexer(values.astype(str)))
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            refuse_level(self.name, column, str(values.iloc[row]), first + row)
        return codes

    def _target(self, values: Any, first: int) -> NDArray[Any]:  # (k,)
        _check_present(self.name, self.schema.target or "y", values, first)
        return np.asarray(values.astype(str), np.str_) if self.schema.text_target else _numbers(values)


def frame_source(options: ReadOptions, frame: Any, y: StreamedArray | None) -> FrameSource:
    """Return the source of a data frame; ``y`` are targets that are not one of its columns."""
    if 0 in frame.shape:
        refuse_empty(options.name, f"the frame has shape {frame.shape}")
    table = TableColumns(options.name, tuple(str(name) for name in frame.columns))
    selection = select_columns(table, None if y is not None else options.target, options.columns, options.schema)
    target = _series(frame, selection, y)
    inputs = frame.iloc[:, list(selection.inputs)]
    schema = options.schema or _schema(options, selection, inputs, target)
    kinds = [inputs.dtypes.iloc[j] for j, column in enumerate(schema.inputs) if column.levels is None]
    _check_kinds(options.name, schema, inputs)
    return FrameSource(options.name, schema, batch_dtype(map(_numpy, kinds), options.dtype), len(frame), inputs, target)


def _series(frame: Any, selection: ColumnSelection, y: StreamedArray | None) -> Any:
    if y is None:
        return None if selection.target is None else frame.iloc[:, selection.target]
    from pandas import Series

    if y.shape != (len(frame),):
        raise InvalidData(
            f"y must have shape ({len(frame)},), one target for each row of X; it has shape {y.shape}. Reshape it."
        )
    return Series(next(y.chunks(len(frame))))


def _schema(options: ReadOptions, selection: ColumnSelection, inputs: Any, target: Any) -> Schema:
    columns = tuple(_column(options, name, inputs.iloc[:, j]) for j, name in enumerate(selection.names))
    label = None if target is None else selection.target_name or "y"
    return Schema(columns, label, target is not None and not _is_number(target.dtype))


def _column(options: ReadOptions, name: str, values: Any) -> Column:
    if not options.one_hot or _is_number(values.dtype):
        return Column(name)
    _check_present(options.name, name, values, 0)
    levels = Levels(name, options.name)
    levels.add(str(value) for value in values.unique())
    return levels.column


def _check_kinds(source: str, schema: Schema, inputs: Any) -> None:
    for j, column in enumerate(schema.inputs):
        if column.levels is None and not _is_number(inputs.dtypes.iloc[j]):
            refuse_text(source, inputs.iloc[0, j], 0, column.name)


def _check_present(source: str, column: str, values: Any, first: int) -> None:
    missing = np.asarray(values.isna())
    if missing.any():
        refuse_missing(source, first + int(np.argmax(missing)), column)


def _is_number(kind: Any) -> bool:
    from pandas.api import types

    return bool(types.is_numeric_dtype(kind) or types.is_bool_dtype(kind)) and not types.is_complex_dtype(kind)


def _numpy(kind: Any) -> np.dtype[Any]:
    """Return the NumPy type of a column, also for the nullable types of pandas."""
    dtype = getattr(kind, "numpy_dtype", kind)
    return dtype if isinstance(dtype, np.dtype) else np.dtype(object)


def _numbers(values: Any) -> NDArray[Any]:  # (k,)
    return np.asarray(values.to_numpy(dtype=_numpy(values.dtype)))
