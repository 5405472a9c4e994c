"""The base class of tables that are read in order, a batch of rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Schema
from joker.data.sources.validation import check_values
from joker.errors import InvalidParameter

Matrix = Any  # an ndarray or a scipy.sparse.csr_array


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive rows of a source.

    Parameters
    ----------
    x : array or sparse matrix of shape (k, d)
        The inputs.
    y : array of shape (k,) or None
        The targets.
    first : int
        The number of the first row in the source.

    Examples
    --------
    >>> import numpy as np
    >>> from joker.data import as_source
    >>> [batch.first for batch in as_source(np.zeros((5, 2))).batches(2)]
    [0, 2, 4]
    """

    x: Matrix  # (k, width), an array or a csr_array
    y: NDArray[Any] | None  # (k,) numbers or text, or (k, t)
    first: int  # the number of the first row in the source, counted from 0

    def __len__(self) -> int:
        return int(self.x.shape[0])

    @property
    def dense(self) -> NDArray[Any]:  # (k, width)
        """The inputs as a dense array."""
        return self.x if isinstance(self.x, np.ndarray) else np.asarray(self.x.toarray())


class Source(ABC):
    """A table whose rows are read in order and in bounded memory, as often as needed.

    Write a subclass for your own data: it sets the four attributes and has one method, ``batches``.

    Attributes
    ----------
    name : str
        The name in messages, for example the path of a file.
    schema : Schema
        The names and kinds of the columns.
    dtype : numpy.dtype
        The type of the inputs in batches: uint8, int16, float16, float32 or float64.
    rows : int or None
        The number of rows; None if it is not known before all rows are read.

    Examples
    --------
    >>> import numpy as np
    >>> from joker.data import as_source
    >>> source = as_source(np.zeros((5, 2)), np.arange(5))
    >>> source.rows, source.schema.names
    (5, ('x0', 'x1'))
    """

    name: str
    schema: Schema
    dtype: np.dtype[Any]
    rows: int | None
    checked: bool = False  # whether ``batches`` itself raises an error for values that are not finite

    @abstractmethod
    def batches(self, rows: int) -> Iterator[Batch]:
        """Yield all rows in order, in batches of at least one and at most ``rows`` rows."""


@dataclass(frozen=True, eq=False)
class TableSource(Source):
    """A source whose attributes are given to its constructor."""

    name: str
    schema: Schema
    dtype: np.dtype[Any]
    rows: int | None

    def batches(self, rows: int) -> Iterator[Batch]:
        if not isinstance(rows, Integral) or rows < 1:
            raise InvalidParameter(f"rows must be a whole number of at least 1; got {rows!r}. Use 10000.")
        return self.read(int(rows))

    @abstractmethod
    def read(self, rows: int) -> Iterator[Batch]:
        """Yield the batches without checking their values."""


class CheckedSource(TableSource):
    """A source that raises InvalidData for values that are not finite."""

    checked = True

    def batches(self, rows: int) -> Iterator[Batch]:
        return map(self._check, super().batches(rows))

    def _check(self, batch: Batch) -> Batch:
        check_values(batch.x, batch.y, batch.first, self.schema, self.name)
        return batch
