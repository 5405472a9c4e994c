"""Rows of inputs, in host memory, on a GPU or on disk; they are read in parts, as dense tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from joker.data.validation import check_finite
from joker.errors import InvalidParameter
from joker.runtime import chunks
from joker.runtime.upload import Upload


class Rows(ABC):
    """n rows of d inputs, which are read in one floating-point type on one device.

    ``x[rows]`` is a dense tensor, for a tensor of row numbers (on any device) or a slice. Solvers, kernels and machines
    read rows in this way only; none of them has all n rows in one tensor.

    Examples
    --------
    >>> import torch
    >>> from joker.data import as_rows
    >>> rows = as_rows(torch.arange(6.0).reshape(3, 2))
    >>> rows.shape, rows[torch.tensor([2, 0])].tolist()
    ((3, 2), [[4.0, 5.0], [0.0, 1.0]])
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The numbers n of rows and d of inputs."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The type in which rows are read."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device on which rows are read."""

    @property
    def index_device(self) -> torch.device:
        """The device on which ``take`` uses row numbers."""
        return self.device

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """The temporary memory in bytes for each row of a slice that is read; it counts in a memory budget."""

    @property
    def shuffled(self) -> bool:
        """Whether the rows are stored in random order, so that consecutive rows are a random sample."""
        return False

    @property
    def shared(self) -> bool:
        """Whether several processes have a part of the rows each, and must read the same rows at the same time."""
        return False

    @abstractmethod
    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        """Return the rows with these numbers, in this order."""

    @abstractmethod
    def tile(self, rows: slice) -> Tensor:  # (k, d)
        """Return consecutive rows, as a view where that is possible."""

    def expect(self, rows: slice) -> None:  # noqa: B027  # rows in memory have nothing to prefetch
        """Prefetch the rows that are read next, if they are on a disk."""

    def check(self, what: str) -> None:
        """Raise InvalidData for the first NaN or infinite value; rows that were checked before are not read again."""
        for rows in chunks(*self.shape):
            check_finite(self.tile(rows), what, rows.start)

    def some(self, rows: Tensor) -> Rows:  # (k,) -> (k, d)
        """Return the rows with these numbers as Rows, without a copy."""
        return SomeRows(self, rows.to(self.index_device))

    def part(self, rows: slice) -> Rows:
        """Return consecutive rows as Rows, without a copy."""
        return self if (rows.start, rows.stop) == (0, len(self)) else PartOfRows(self, rows)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        return self.tile(rows) if isinstance(rows, slice) else self.take(rows)


def refuse_shared(x: Rows) -> None:
    """Raise InvalidParameter if several processes have a part of the rows each, where a process needs all of them."""
    if x.shared:
        raise InvalidParameter(
            "the kernel itself needs all rows in every process, and each of these processes has a part of them; "
            "n_features is None, or 'auto' has chosen so. Use random features, for example n_features=20_000."
        )


@dataclass(frozen=True, eq=False)
class TensorRows(Rows):
    """Rows in one dense tensor, of any type; they are converted when they are read.

    Parameters
    ----------
    x : Tensor of shape (n, d)
        The rows.
    floating : torch.dtype, optional
        The type in which rows are read; that of x by default.
    checked : bool
        Whether the values are known to be finite.

    Examples
    --------
    >>> import torch
    >>> from joker.data import TensorRows
    >>> TensorRows(torch.tensor([[1, 2]], dtype=torch.uint8), torch.float32)[0:1]
    tensor([[1., 2.]])
    """

    x: Tensor  # (n, d)
    floating: torch.dtype | None = None  # the type in which rows are read; None is that of x
    checked: bool = False  # the values are known to be finite, also in this type

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
            return 0  # a slice is a view
        return self.shape[1] * (self.dtype.itemsize + self.x.element_size())

    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        return self.x[rows].to(self.dtype).contiguous()

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        return self.x[rows].to(self.dtype).contiguous()

    def part(self, rows: slice) -> Rows:
        return TensorRows(self.x[rows], self.floating, self.checked)

    def check(self, what: str) -> None:
        if self.x.is_floating_point() and not self.checked:
            super().check(what)


@dataclass(frozen=True, eq=False)
class RowsOfOthers(Rows):
    """Some rows of others, in their type and on their device."""

    whole: Rows

    @property
    def shared(self) -> bool:
        return self.whole.shared

    @property
    def dtype(self) -> torch.dtype:
        return self.whole.dtype

    @property
    def device(self) -> torch.device:
        return self.whole.device


@dataclass(frozen=True, eq=False)
class PartOfRows(RowsOfOthers):
    """Consecutive rows of others."""

    rows: slice

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.whole.shape[1]

    @property
    def index_device(self) -> torch.device:
        return self.whole.index_device

    @property
    def row_bytes(self) -> int:
        return self.whole.row_bytes

    @property
    def shuffled(self) -> bool:
        return self.whole.shuffled

    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        return self.whole.take(rows + self.rows.start)

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        start, stop, _ = rows.indices(len(self))
        return self.whole.tile(slice(self.rows.start + start, self.rows.start + stop))


class UploadedRows(Rows):
    """Rows in host memory or on disk, which are copied to a device in their stored type and converted there."""

    upload: Upload
    floating: torch.dtype  # the type in which rows are read

    @property
    def dtype(self) -> torch.dtype:
        return self.floating

    @property
    def device(self) -> torch.device:
        return self.upload.device

    @property
    def index_device(self) -> torch.device:
        return torch.device("cpu")


@dataclass(frozen=True, eq=False)
class HostRows(UploadedRows):
    """Rows in host memory that are read on a GPU.

    They are copied through page-locked buffers while the GPU computes, in their stored type, such as uint8 or float16.

    Parameters
    ----------
    x : Tensor of shape (n, d)
        The rows, in host memory.
    upload : Upload
        The buffers and the GPU that rows are copied to.
    floating : torch.dtype
        The type in which rows are read.
    checked : bool
        Whether the values are known to be finite.

    Examples
    --------
    >>> import torch
    >>> from joker.data import HostRows
    >>> from joker.runtime.upload import Upload
    >>> HostRows(torch.ones(2, 3), Upload(torch.device("cpu"))).shape
    (2, 3)
    """

    x: Tensor  # (n, d) on the CPU
    upload: Upload
    floating: torch.dtype = torch.float32
    checked: bool = False  # the values are known to be finite, also in this type

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.x.shape
        return n, d

    @property
    def row_bytes(self) -> int:
        return self.shape[1] * (self.floating.itemsize + self.x.element_size())

    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        rows = rows.to(self.x.device)
        shape = (len(rows), self.shape[1])
        return self.upload(shape, self.x.dtype, lambda out: torch.index_select(self.x, 0, rows, out=out)).to(self.dtype)

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        part = self.x[rows]
        return self.upload(part.shape, part.dtype, lambda out: out.copy_(part)).to(self.dtype)

    def check(self, what: str) -> None:
        TensorRows(self.x, self.floating, self.checked).check(what)


@dataclass(frozen=True, eq=False)
class SomeRows(RowsOfOthers):
    """A subset of other rows, by their numbers."""

    rows: Tensor  # (k,), on the index_device of whole

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.whole.shape[1]

    @property
    def index_device(self) -> torch.device:
        return self.rows.device

    @property
    def row_bytes(self) -> int:
        return max(self.whole.row_bytes, self.dtype.itemsize * self.shape[1])

    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        return self.whole.take(self.rows[rows.to(self.rows.device)])

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        return self.whole.take(self.rows[rows])

    def check(self, what: str) -> None:
        self.whole.check(what)
