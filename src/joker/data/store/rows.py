"""Rows of a store, which are read from the file when they are used.

The file is not mapped into memory, because mapped pages count as resident memory of the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.data.rows import UploadedRows
from joker.data.scaling import Scaling
from joker.data.store.header import Section
from joker.data.store.positional_file import RowFile, as_bytes
from joker.runtime.upload import Upload

MAX_GAP_BYTES = 2**13  # between two rows that one call reads: a second call takes longer
WINDOW_BYTES = 2**20  # that one call reads, at most, for rows that are not consecutive


@dataclass(frozen=True, eq=False)
class StoreRows(UploadedRows):
    """Consecutive rows of a store, which are in random order.

    Parameters
    ----------
    file : RowFile
        The open file.
    section : Section
        The part of the file that has the inputs.
    start, stop : int
        The first row, and the row after the last one.
    floating : torch.dtype
        The type in which rows are read.
    upload : Upload
        The buffers and the device that rows are copied to.
    scaling : Scaling, optional
        What inputs are shifted and divided by.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from joker.data import as_source, convert
    >>> X, y = np.arange(20.0).reshape(10, 2), np.linspace(0, 1, 10)
    >>> with TemporaryDirectory() as folder:
    ...     store = convert(as_source(X, y), f"{folder}/numbers.rows", task="regression")
    ...     len(store.x)
    10
    """

    file: RowFile
    section: Section
    start: int
    stop: int
    floating: torch.dtype = torch.float32
    upload: Upload = field(default_factory=lambda: Upload(torch.device("cpu")))
    scaling: Scaling | None = None  # of these rows, if it is known

    @property
    def shape(self) -> tuple[int, int]:
        return self.stop - self.start, self.section.shape[1]

    @property
    def stored(self) -> torch.dtype:
        """The type in the file."""
        return torch.from_numpy(np.empty(0, self.section.dtype)).dtype

    @property
    def row_bytes(self) -> int:
        cast = 0 if self.stored == self.floating else self.floating.itemsize
        return self.section.row_bytes + self.shape[1] * cast

    @property
    def shuffled(self) -> bool:
        return True

    def like(self, dtype: torch.dtype, device: torch.device) -> StoreRows:
        """Return the same rows, read in ``dtype`` on ``device``."""
        return replace(self, floating=dtype, upload=Upload(device))

    def run(self, start: int, stop: int) -> StoreRows:
        """Return the rows from ``start`` to ``stop``, without ``stop``, as StoreRows."""
        whole = (start, stop) == (0, len(self))
        return self if whole else replace(self, start=self.start + start, stop=self.start + stop, scaling=None)

    def array(self, rows: slice | NDArray[Any]) -> NDArray[Any]:  # (b, d)
        """Return some rows as an array, in the type of the file."""
        plain = replace(self, floating=self.stored, upload=Upload(torch.device("cpu")))
        return plain[rows if isinstance(rows, slice) else torch.from_numpy(rows)].numpy()

    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        numbers = rows.cpu().numpy()
        return self._uploaded(len(numbers), lambda out: self._gather(out.numpy(), numbers))

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        start, stop, _ = rows.indices(len(self))
        return self._uploaded(max(0, stop - start), lambda out: self._read(out.numpy(), start))

    def expect(self, rows: slice) -> None:
        start, stop, _ = rows.indices(len(self))
        self.file.advise(max(0, stop - start) * self.section.row_bytes, self._place(start))

    def check(self, what: str) -> None:
        """Do nothing: `convert` has checked the values."""

    def _uploaded(self, k: int, fill: Any) -> Tensor:
        return self.upload((k, self.shape[1]), self.stored, fill).to(self.floating)

    def _place(self, row: int) -> int:
        return self.section.offset + (self.start + row) * self.section.row_bytes

    def _read(self, out: NDArray[Any], start: int) -> None:
        """Fill ``out`` with the rows from ``start``."""
        if out.size:
            self.file.fill(as_bytes(out), self._place(start))

    def _gather(self, out: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Read the rows with these numbers; one call reads rows that are close to each other."""
        order = np.argsort(numbers, kind="stable")
        for group in self._groups(numbers[order]):
            places = order[group]
            first, last = int(numbers[places[0]]), int(numbers[places[-1]])
            buffer = np.empty((last - first + 1, self.shape[1]), self.section.dtype)
            self._read(buffer, first)
            out[places] = buffer[numbers[places] - first]

    def _groups(self, numbers: NDArray[np.int64]) -> Iterator[slice]:
        """Yield slices of sorted numbers, cut where a gap is large and at multiples of WINDOW_BYTES."""
        far = np.diff(numbers) > max(1, MAX_GAP_BYTES // self.section.row_bytes)
        window = np.diff(numbers // max(1, WINDOW_BYTES // self.section.row_bytes)) > 0
        ends = [*(np.flatnonzero(far | window) + 1).tolist(), len(numbers)]
        return (slice(start, stop) for start, stop in zip([0, *ends], ends, strict=False) if stop > start)
