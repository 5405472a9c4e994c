"""Rows of inputs, wherever and however they are kept: handed out a few at a time, as dense tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from joker.data.validation import check_finite
from joker.runtime import chunks
from joker.runtime.upload import Upload


class Rows(ABC):
    """n rows of d inputs, handed out in one floating-point type on one device.

    ``x[rows]`` is a dense tensor, for a tensor of row numbers (on any device) or a slice. That is
    all that solvers, kernels and machines ask of their rows; none of them holds all n as one tensor.
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The numbers n of rows and d of inputs."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The type of what is handed out."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where it is handed out."""

    @property
    def index_device(self) -> torch.device:
        """Where ``take`` wants its row numbers."""
        return self.device

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """The bytes that handing out one more row of a slice takes: they count in a memory budget."""

    @property
    def shuffled(self) -> bool:
        """Whether the rows are in random order as they are, so that a run of them is as good as a draw."""
        return False

    @abstractmethod
    def take(
        self,
        rows: Tensor,  # (b,)
    ) -> Tensor:  # (b, d)
        """Return the rows of these numbers, in their order."""

    @abstractmethod
    def tile(self, rows: slice) -> Tensor:  # (k, d)
        """Return a run of rows: a view where there is something to view."""

    def expect(self, rows: slice) -> None:  # noqa: B027  # most have nothing to fetch
        """Be told of the run that is asked for next: rows on a disk can be fetched meanwhile."""

    def check(self, what: str) -> None:
        """Refuse NaN and infinite values, naming the first."""
        for rows in chunks(*self.shape):
            check_finite(self.tile(rows), what, rows.start)

    def some(
        self,
        rows: Tensor,  # (k,)
    ) -> Rows:
        """Return the rows of these numbers as rows of their own; nothing is copied yet."""
        return SomeRows(self, rows.to(self.index_device))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        return self.tile(rows) if isinstance(rows, slice) else self.take(rows)


@dataclass(frozen=True, eq=False)
class TensorRows(Rows):
    """Rows that lie in memory as one dense tensor, of any type: they are cast when they are handed out."""

    x: Tensor  # (n, d)
    floating: torch.dtype | None = None  # None: that of x
    checked: bool = False  # whether the values are known to be finite, in this type too

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.x.shape
        return n, d

    @property
    def dtype(self) -> torch.dtype:
        return self.floating or self.x.dtype

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def row_bytes(self) -> int:
        if self.x.dtype == self.dtype and self.x.is_contiguous():
            return 0  # a tile is a view
        return self.shape[1] * (self.dtype.itemsize + self.x.element_size())

    def take(
        self,
        rows: Tensor,  # (b,)
    ) -> Tensor:  # (b, d)
        return self.x[rows].to(self.dtype).contiguous()

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        return self.x[rows].to(self.dtype).contiguous()

    def check(self, what: str) -> None:
        if self.x.is_floating_point() and not self.checked:
            super().check(what)


@dataclass(frozen=True, eq=False)
class HostRows(Rows):
    """Rows in the memory of the host, handed out on a card.

    They are copied to page-locked buffers and from there to the card while it works on something
    else, in the type they are kept in, such as uint8 or float16, and cast there.
    """

    x: Tensor  # (n, d) on the CPU
    upload: Upload
    floating: torch.dtype = torch.float32
    checked: bool = False  # whether the values are known to be finite, in this type too

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.x.shape
        return n, d

    @property
    def dtype(self) -> torch.dtype:
        return self.floating

    @property
    def device(self) -> torch.device:
        return self.upload.device

    @property
    def index_device(self) -> torch.device:
        return self.x.device

    @property
    def row_bytes(self) -> int:
        return self.shape[1] * (self.floating.itemsize + self.x.element_size())

    def take(
        self,
        rows: Tensor,  # (b,)
    ) -> Tensor:  # (b, d)
        rows = rows.to(self.x.device)
        shape = (len(rows), self.shape[1])
        return self.upload(shape, self.x.dtype, lambda out: torch.index_select(self.x, 0, rows, out=out)).to(self.dtype)

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        part = self.x[rows]
        return self.upload(part.shape, part.dtype, lambda out: out.copy_(part)).to(self.dtype)

    def check(self, what: str) -> None:
        TensorRows(self.x, self.floating, self.checked).check(what)


@dataclass(frozen=True, eq=False)
class SomeRows(Rows):
    """Some rows of others, by their numbers."""

    whole: Rows
    rows: Tensor  # (k,), where the others want them

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.whole.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        return self.whole.dtype

    @property
    def device(self) -> torch.device:
        return self.whole.device

    @property
    def index_device(self) -> torch.device:
        return self.rows.device

    @property
    def row_bytes(self) -> int:
        return max(self.whole.row_bytes, self.dtype.itemsize * self.shape[1])

    def take(
        self,
        rows: Tensor,  # (b,)
    ) -> Tensor:  # (b, d)
        return self.whole.take(self.rows[rows.to(self.rows.device)])

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        return self.whole.take(self.rows[rows])

    def check(self, what: str) -> None:
        self.whole.check(what)
