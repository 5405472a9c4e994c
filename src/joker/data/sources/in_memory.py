"""Tables in memory as sources: arrays, tensors, CSR matrices and data frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data.schema import Schema, unnamed
from joker.data.sources.arrays import Array, array_source
from joker.data.sources.base import Batch, CheckedSource, Source
from joker.data.sources.column_selection import Name, Table, choose
from joker.data.sources.dtypes import check_categories, check_dtype, handed_out
from joker.data.sources.frame import frame_source
from joker.data.sources.read_options import Wish
from joker.errors import InvalidData

NAME = Path("X")  # what messages call a table that has no file


@dataclass(frozen=True, eq=False)
class MemoryArray(Array):
    """An array, or a tensor on any device."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    values: Any

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        for first in range(0, self.shape[0], rows):
            yield _as_numpy(self.values[first : first + rows])


@dataclass(frozen=True, eq=False)
class CsrSource(CheckedSource):
    """Rows of a CSR matrix."""

    name: str
    schema: Schema
    dtype: np.dtype[Any]
    rows: int | None
    x: Any  # (n, width), a csr_array
    y: NDArray[Any] | None  # (n,)

    def read(self, rows: int) -> Iterator[Batch]:
        for first in range(0, self.x.shape[0], rows):
            part = slice(first, first + rows)
            yield Batch(self.x[part].astype(self.dtype, copy=False), None if self.y is None else self.y[part], first)


def as_source(
    x: Any,  # (n, d)
    y: Any = None,  # (n,) or (n, t)
    *,
    target: Name | None = None,
    columns: Sequence[Name] | None = None,
    categories: str = "refuse",
    schema: Schema | None = None,
    dtype: Any = None,
) -> Source:
    """Return a table in memory as a source.

    Parameters
    ----------
    x : array, tensor, sparse matrix, data frame or Source
        The inputs. An array of more than two dimensions is flattened row by row. Nothing is copied but
        the batch that is handed out.
    y : array, optional
        The targets. Without it ``target`` may name one of the columns.
    target, columns, categories, schema, dtype
        As for :func:`open_source`.

    Examples
    --------
    >>> source = as_source(np.arange(6.0).reshape(3, 2), [0, 1, 0])
    >>> [batch.x.shape for batch in source.batches(2)]
    [(2, 2), (1, 2)]
    """
    if isinstance(x, Source):
        return x
    one_hot, kind = check_categories(categories), check_dtype(dtype)
    wish = Wish(NAME, target=target, columns=columns, one_hot=one_hot, schema=schema, dtype=kind)
    if hasattr(x, "iloc") and hasattr(x, "columns"):
        return frame_source(wish, x, None if y is None else _array(y, "y"))
    if hasattr(x, "tocsr"):
        return _csr(wish, x.tocsr(), y)
    return array_source(wish, _array(x, "X"), None if y is None else _array(y, "y"))


def _csr(wish: Wish, x: Any, y: Any) -> CsrSource:
    table = Table(wish.name, unnamed(x.shape[1]), named=False)
    choice = choose(table, None, wish.columns, wish.schema)
    if wish.target is not None:
        raise InvalidData(f"X: the target of a sparse matrix must be an array of its own; got {wish.target!r}. Use y=.")
    if choice.inputs != tuple(range(x.shape[1])):
        x = x[:, list(choice.inputs)]
    targets = None if y is None else _as_numpy(y)
    if targets is not None and len(targets) != x.shape[0]:
        raise InvalidData(
            f"y must have as many rows as X, {x.shape[0]}; it has {len(targets)}. Check where they are from."
        )
    schema = wish.schema or Schema.numbers([table.names[j] for j in choice.inputs], None if y is None else "y")
    return CsrSource(wish.name, schema, handed_out([x.dtype], wish.dtype), x.shape[0], x, targets)


def _array(values: Any, name: str) -> MemoryArray:
    if not hasattr(values, "shape") or not hasattr(values, "dtype") or hasattr(values, "iloc"):
        values = np.asarray(values)
    if isinstance(values, np.ndarray) and values.dtype == object and name == "y":
        values = values.astype(np.str_) if all(isinstance(value, str) for value in values.flat) else values
    kind = _as_numpy(values[:0]).dtype
    return MemoryArray(name, tuple(values.shape), kind, values)


def _as_numpy(values: Any) -> NDArray[Any]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        return np.asarray((values.float() if values.dtype == torch.bfloat16 else values).numpy())
    return np.asarray(values)
