"""Tables that are arrays: inputs of one type, and the target as a second array or as one of the columns."""

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
from joker.data.sources.column_selection import Choice, Table, choose
from joker.data.sources.dtypes import handed_out
from joker.data.sources.read_options import Wish
from joker.data.sources.validation import refuse_empty
from joker.errors import InvalidData


class Array(ABC):
    """An array, wherever it is kept, whose first dimension is read from front to back."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        """Return all of it, ``rows`` at a time."""


@dataclass(frozen=True, eq=False)
class ArraySource(CheckedSource):
    """Rows of an array; what has more than two dimensions is flattened row by row."""

    name: str
    schema: Schema
    dtype: np.dtype[Any]
    rows: int | None
    x: Array
    y: Array | None
    choice: Choice

    def read(self, rows: int) -> Iterator[Batch]:
        first = 0
        targets = None if self.y is None else self.y.chunks(rows)
        for chunk in self.x.chunks(rows):
            whole = chunk.reshape(len(chunk), -1)  # (k, columns)
            y = self._column(whole) if targets is None else next(targets)
            yield Batch(self._inputs(whole), y, first)
            first += len(chunk)

    def _inputs(self, whole: NDArray[Any]) -> NDArray[Any]:  # (k, width)
        if self.choice.inputs != tuple(range(whole.shape[1])):
            whole = whole[:, list(self.choice.inputs)]
        return np.ascontiguousarray(whole, self.dtype)

    def _column(self, whole: NDArray[Any]) -> NDArray[Any] | None:  # (k,)
        return None if self.choice.target is None else whole[:, self.choice.target].copy()


def array_source(
    wish: Wish,
    x: Array,  # (n, d) or (n, ...)
    y: Array | None = None,  # (n,) or (n, t)
    y_name: str = "y",
) -> ArraySource:
    """Return the source of an array of inputs; without ``y`` the target is one of its columns, if there is one."""
    wish.without("header", "delimiter")
    _check_inputs(wish.name, x)
    if y is not None:
        _check_target(wish.name, x, y)
    table = Table(wish.name, unnamed(prod(x.shape[1:])), named=False)
    choice = choose(table, wish.target if y is None else None, wish.columns, wish.schema)
    schema = _schema(table, choice, y, y_name) if wish.schema is None else wish.schema
    if not schema.is_numeric:
        raise InvalidData(
            f"{wish.name}: the columns must be those of the training data, which have categories; an array has none. "
            "Use a table with names."
        )
    return ArraySource(wish.name, schema, handed_out([x.dtype], wish.dtype), x.shape[0], x, y, choice)


def _schema(table: Table, choice: Choice, y: Array | None, y_name: str) -> Schema:
    names = [table.names[j] for j in choice.inputs]
    if y is not None:
        return Schema.numbers(names, y_name, y.dtype.kind in "US")
    return Schema.numbers(names, None if choice.target is None else table.names[choice.target])


def _check_inputs(name: str, x: Array) -> None:
    if x.dtype.kind not in "fiub":
        raise InvalidData(f"{name}: inputs must be numbers; {x.name} has type {x.dtype}. Convert it to float32.")
    if len(x.shape) < 2:
        raise InvalidData(
            f"{name}: inputs must have two or more dimensions, rows first; {x.name} has shape {x.shape}. "
            "Use x[:, None] for one input."
        )
    if 0 in x.shape:
        refuse_empty(name, f"{x.name} has shape {x.shape}")


def _check_target(name: str, x: Array, y: Array) -> None:
    if y.dtype.kind not in "fiubUS":
        raise InvalidData(f"{name}: a target must be numbers or text; {y.name} has type {y.dtype}. Convert it.")
    if len(y.shape) not in (1, 2) or y.shape[0] != x.shape[0]:
        raise InvalidData(
            f"{name}: a target must be (n,) or (n, t) with as many rows as the inputs, {x.shape[0]}; {y.name} has "
            f"shape {y.shape}. Check which arrays belong together."
        )
