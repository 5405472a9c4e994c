"""Tables in arrays: inputs of one type, and the target as a second array or as one of the columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Schema, unnamed
from joker.data.sources.base import Batch, CheckedSource
from joker.data.sources.column_selection import ColumnSelection, TableColumns, select_columns
from joker.data.sources.dtypes import batch_dtype
from joker.data.sources.read_options import ReadOptions
from joker.data.sources.validation import refuse_empty
from joker.errors import InvalidData


@dataclass(frozen=True, eq=False)
class StreamedArray(ABC):
    """An array in memory or in a file, which is read in order along its first dimension."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        """Yield the whole array, ``rows`` rows at a time."""


@dataclass(frozen=True, eq=False)
class ArraySource(CheckedSource):
    """The rows of an array; rows of several dimensions are flattened."""

    x: StreamedArray
    y: StreamedArray | None
    selection: ColumnSelection

    def read(self, rows: int) -> Iterator[Batch]:
        first = 0
        targets = None if self.y is None else self.y.chunks(rows)
        for chunk in self.x.chunks(rows):
            whole = chunk.reshape(len(chunk), -1)  # (k, columns)
            column = None if self.selection.target is None else whole[:, self.selection.target].copy()
            y = column if targets is None else next(targets)
            if self.selection.inputs != tuple(range(whole.shape[1])):
                whole = whole[:, list(self.selection.inputs)]
            yield Batch(np.ascontiguousarray(whole, self.dtype), y, first)
            first += len(chunk)


def array_source(
    options: ReadOptions,
    x: StreamedArray,  # (n, d) or (n, ...)
    y: StreamedArray | None = None,  # (n,) or (n, t)
    y_name: str = "y",
) -> ArraySource:
    """Return the source of an array of inputs; without ``y`` the target is one of its columns, or absent."""
    options.without("header", "delimiter")
    _check_inputs(options.name, x)
    if y is not None:
        _check_target(options.name, x, y)
    table = TableColumns(options.name, unnamed(prod(x.shape[1:])), named=False)
    selection = select_columns(
        table, options.target if y is None else None, options.columns, options.schema, options.drop
    )
    found = (selection.target_name, False) if y is None else (y_name, y.dtype.kind in "US")
    schema = options.schema or Schema.numbers(selection.names, *found)
    if not schema.is_numeric:
        raise InvalidData(
            f"{options.name}: the columns must be those of the training data, which have categories; an array has no "
            "categories. Use a table with names."
        )
    return ArraySource(options.name, schema, batch_dtype([x.dtype], options.dtype), x.shape[0], x, y, selection)


def _check_inputs(name: str, x: StreamedArray) -> None:
    if x.dtype.kind not in "fiub":
        raise InvalidData(f"{name}: inputs must be numbers; {x.name} has type {x.dtype}. Convert it to float32.")
    if len(x.shape) < 2:
        raise InvalidData(
            f"{name}: inputs must have two or more dimensions, rows first; {x.name} has shape {x.shape}. "
            "Use x[:, None] for one input."
        )
    if 0 in x.shape:
        refuse_empty(name, f"{x.name} has shape {x.shape}")


def _check_target(name: str, x: StreamedArray, y: StreamedArray) -> None:
    if y.dtype.kind not in "fiubUS":
        raise InvalidData(f"{name}: a target must be numbers or text; {y.name} has type {y.dtype}. Convert it.")
    if len(y.shape) not in (1, 2) or y.shape[0] != x.shape[0]:
        raise InvalidData(
            f"{name}: a target must be (n,) or (n, t) with as many rows as the inputs, {x.shape[0]}; {y.name} has "
            f"shape {y.shape}. Check that the arrays belong together."
        )
