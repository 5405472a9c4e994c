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
from joker.data.sources.arrays import StreamedArray, array_source
from joker.data.sources.base import Batch, CheckedSource, Source
from joker.data.sources.column_selection import Name, TableColumns, select_columns
from joker.data.sources.dtypes import batch_dtype, check_categories, check_dtype
from joker.data.sources.frame import frame_source
from joker.data.sources.read_options import ReadOptions
from joker.errors import InvalidData

TABLE_NAME = Path("X")  # the name in messages of a table without a file


@dataclass(frozen=True, eq=False)
class MemoryArray(StreamedArray):
    """An array in memory, or a tensor on any device."""

    values: Any

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        for first in range(0, self.shape[0], rows):
            yield _as_numpy(self.values[first : first + rows])


@dataclass(frozen=True, eq=False)
class CsrSource(CheckedSource):
    """The rows of a CSR matrix."""

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
        The inputs. Rows of several dimensions are flattened. Only one batch is copied at a time.
    y : array, optional
        The targets. Without it, ``target`` may name one of the columns.
    target, columns, categories, schema, dtype
        As for :func:`open_source`.

    Returns
    -------
    Source
        The source.

    Examples
    --------
    >>> import numpy as np
    >>> from joker.data import as_source
    >>> source = as_source(np.arange(6.0).reshape(3, 2), [0, 1, 0])
    >>> [batch.x.shape for batch in source.batches(2)]
    [(2, 2), (1, 2)]
    """
    if isinstance(x, Source):
        return x
    one_hot, kind = check_categories(categories), check_dtype(dtype)
    options = ReadOptions(TABLE_NAME, target=target, columns=columns, one_hot=one_hot, schema=schema, dtype=kind)
    if hasattr(x, "iloc") and hasattr(x, "columns"):
        return frame_source(options, x, None if y is None else _array(y, "y"))
    if hasattr(x, "tocsr"):
        return _csr(options, x.tocsr(), y)
    return array_source(options, _array(x, "X"), None if y is None else _array(y, "y"))


def _csr(options: ReadOptions, x: Any, y: Any) -> CsrSource:
    table = TableColumns(options.name, unnamed(x.shape[1]), named=False)
    selection = select_columns(table, None, options.columns, options.schema)
    if options.target is not None:
        raise InvalidData(f"X: the target of a sparse matrix must be a separate array; got {options.target!r}. Use y=.")
    if selection.inputs != tuple(range(x.shape[1])):
        x = x[:, list(selection.inputs)]
    targets = None if y is None else _as_numpy(y)
    if targets is not None and len(targets) != x.shape[0]:
        raise InvalidData(
            f"y must have as many rows as X, {x.shape[0]}; it has {len(targets)}. Check that they belong together."
        )
    schema = options.schema or Schema.numbers(selection.names, None if y is None else "y")
    return CsrSource(options.name, schema, batch_dtype([x.dtype], options.dtype), x.shape[0], x, targets)


def _array(values: Any, name: str) -> MemoryArray:
    if not hasattr(values, "shape") or not hasattr(values, "dtype") or hasattr(values, "iloc"):
        values = np.asarray(values)
    if isinstance(values, np.ndarray) and values.dtype == object and name == "y":
        values = values.astype(np.str_) if all(isinstance(value, str) for value in values.flat) else values
    return MemoryArray(name, tuple(values.shape), _as_numpy(values[:0]).dtype, values)


def _as_numpy(values: Any) -> NDArray[Any]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        return np.asarray((values.float() if values.dtype == torch.bfloat16 else values).numpy())
    return np.asarray(values)
