"""Rows of inputs, in host memory, on a GPU or on disk; they are read in parts, as dense tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.errors import InvalidData, InvalidParameter
from joker.runtime import chunks, generator
from joker.runtime.cuda_graphs import Upload


def check_tensor(x: object, what: str) -> None:
    """Raise InvalidData if ``x`` is not a dense tensor.

    Parameters
    ----------
    x : Tensor
        The values.
    what : str
        The name of the values in messages.

    Examples
    --------
    >>> import torch
    >>> from joker.data import check_tensor
    >>> check_tensor(torch.zeros(3, 2), "X")  # nothing is wrong
    """
    if not isinstance(x, Tensor):
        raise InvalidData(f"{what} must be a torch tensor; got {type(x).__name__}. Use torch.as_tensor({what}).")
    if x.layout != torch.strided:
        kind = str(x.layout).removeprefix("torch.")
        raise InvalidData(f"{what} must be a dense tensor; got layout {kind}. Use {what}.to_dense().")


def check_floating(x: Tensor, what: str) -> None:
    """Raise InvalidData if ``x`` is neither float32 nor float64.

    Parameters
    ----------
    x : Tensor
        The values.
    what : str
        The name of the values in messages.

    Examples
    --------
    >>> import torch
    >>> from joker.data import check_floating
    >>> check_floating(torch.zeros(3, 2), "X")  # nothing is wrong
    """
    if x.dtype not in (torch.float32, torch.float64):
        kind = str(x.dtype).removeprefix("torch.")
        raise InvalidData(
            f"{what} must be float32 or float64; got {kind}. Convert it first, for example with "
            f"{what}.to(torch.float32)."
        )


def check_finite(x: Tensor, what: str, first: int = 0) -> None:
    """Raise InvalidData for the first NaN or infinite value; rows are counted from ``first``.

    Parameters
    ----------
    x : Tensor
        The values.
    what : str
        The name of the values in messages.
    first : int
        The number of the first row in messages.

    Examples
    --------
    >>> import torch
    >>> from joker.data import check_finite
    >>> check_finite(torch.zeros(3, 2), "X")  # nothing is wrong
    """
    for rows in chunks(len(x), x[:1].numel()):
        bad = ~x[rows].isfinite()
        if bool(bad.any()):
            place = bad.nonzero()[0].tolist()
            place[0] += rows.start
            refuse_value(what, float(x[tuple(place)]), [place[0] + first, *place[1:]])


def refuse_value(what: str, value: float, place: list[int]) -> None:
    """Raise InvalidData for a value that is not finite; ``place`` is its row, or its row and column."""
    where = ", ".join(f"{axis} {index}" for axis, index in zip(("row", "column"), place, strict=False))
    raise InvalidData(
        f"{what} must be finite; found {value} at {where}. Remove or impute such values, "
        "for example with sklearn.impute.SimpleImputer."
    )


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
            "the exact kernel needs all rows in every process, and each of these processes has a part of them; "
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
    """Rows that are read from others, in their type and on their device."""

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

    @property
    def index_device(self) -> torch.device:
        return self.whole.index_device


@dataclass(frozen=True, eq=False)
class PartOfRows(RowsOfOthers):
    """Consecutive rows of others."""

    rows: slice

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.whole.shape[1]

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


class WideRows(RowsOfOthers):
    """Rows of others in float64: the same numbers, so that what is computed from them rounds less."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.whole.shape

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64

    @property
    def row_bytes(self) -> int:
        return self.whole.row_bytes + torch.float64.itemsize * self.whole.shape[1]

    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        return self.whole.take(rows).double()

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        return self.whole.tile(rows).double()


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
    >>> from joker.runtime.cuda_graphs import Upload
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
    def row_bytes(self) -> int:
        return max(self.whole.row_bytes, self.dtype.itemsize * self.shape[1])

    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        return self.whole.take(self.rows[rows.to(self.rows.device)])

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        return self.whole.take(self.rows[rows])

    def check(self, what: str) -> None:
        self.whole.check(what)


HASHED_ENTRIES = 2**16  # of the rows that are hashed at a time


def distinct(x: Rows) -> Tensor:  # (k,)
    """Return the number of one row of each group of equal rows; their order does not depend on the order of the rows.

    Rows are compared by a hash of 64 bits. Two different rows with the same hash are taken to be equal; the probability
    is negligible for statistics over many rows.

    Parameters
    ----------
    x : Rows
        The rows.

    Returns
    -------
    Tensor
        The numbers of the rows.

    Examples
    --------
    >>> import torch
    >>> from joker.data import as_rows, distinct
    >>> len(distinct(as_rows(torch.tensor([[1.0], [2.0], [1.0]]))))
    2
    """
    if len(x) == 0:
        return torch.zeros(0, dtype=torch.int64, device=x.device)
    factors = torch.randint(-(2**63), 2**63 - 1, (x.shape[1],), generator=generator(0, "distinct")) | 1
    factors = factors.to(x.device)
    step = max(1, HASHED_ENTRIES // x.shape[1])
    hashes = torch.empty(len(x), dtype=torch.int64, device=x.device)
    for start in range(0, len(x), step):
        hashes[start : start + step] = _hash(x[start : start + step], factors)
    unique, group = torch.unique(hashes, return_inverse=True)
    numbers = torch.arange(len(x), device=x.device)
    return torch.zeros_like(unique).scatter_reduce_(0, group, numbers, "amin", include_self=False)


def _hash(x: Tensor, factors: Tensor) -> Tensor:  # (b, d), (d,) -> (b,)
    """Return Σ_j factor_j · bits of x_j modulo 2⁶⁴ for each row, which is exact in any order of summation."""
    bits = (x.double() + 0.0).view(torch.int64)  # + 0.0 turns -0.0 into 0.0
    return (bits ^ (bits >> 32) ^ (bits >> 52)).mul_(factors).sum(1)


@dataclass(frozen=True)
class Blocks:
    """A partition of n rows into blocks of at most ``size`` rows, whose lengths differ by at most one.

    Every row is visited once in an epoch, in blocks that are drawn anew for each epoch, so that all pairs of rows are
    solved together from time to time. Blocks depend on ``seed`` and on the number of the step only, so that a fit can
    be continued from any step.

    If the rows are already ``shuffled``, a block is a run of consecutive rows, or two runs of half its size that are
    paired anew for each epoch. No array of length n is then stored.

    Parameters
    ----------
    n : int
        The number of rows.
    size : int
        The largest number of rows in a block.
    seed : int
        The seed of the blocks.
    shuffled : bool
        Whether the rows are stored in random order.

    Examples
    --------
    >>> from joker.data import Blocks
    >>> Blocks(n=10, size=4).count
    3
    """

    n: int
    size: int
    seed: int = 0
    shuffled: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.size, Integral) or isinstance(self.size, bool) or self.size < 1:
            raise InvalidParameter(f"block_size must be a whole number of at least 1; got {self.size!r}. Use 512.")

    @property
    def count(self) -> int:
        """Number of blocks."""
        return -(-self.n // self.size)

    def place(self, step: int) -> tuple[int, slice]:
        """Return the number of the permutation from which the block of a step is cut, and its place there."""
        epoch, j = divmod(step, self.count)
        return epoch, span(j, self.n, self.count)

    def permutation(self, number: int) -> Tensor:  # (n,)
        """Return an order of the rows from which blocks are cut, in int32 if that is large enough."""
        small = torch.int32 if self.n <= torch.iinfo(torch.int32).max else torch.int64
        return torch.randperm(self.n, generator=generator(self.seed, f"blocks/{number}"), dtype=small)

    def rows(self, step: int) -> Tensor:  # (b,)
        """Return the rows of the block of a step."""
        if self.shuffled:
            return torch.cat([torch.arange(run.start, run.stop) for run in self.runs(step)])
        drawn, place = self.place(step)
        return self.permutation(drawn)[place].long()

    def runs(self, step: int) -> tuple[slice, ...]:
        """Return the runs of consecutive rows that are the block of a step, where the rows are shuffled."""
        epoch, j = divmod(step, self.count)
        if self.count == 1 or self.size % 2:
            numbers, count = _order(self.count, self.seed, epoch)[j : j + 1], self.count
        else:
            count = -(-self.n // (self.size // 2))
            numbers = _order(count, self.seed, epoch)[2 * j : 2 * j + 2]
        return tuple(span(int(number), self.n, count) for number in numbers)


def span(k: int, n: int, count: int) -> slice:
    """Return the k-th of ``count`` parts of n rows."""
    return slice(k * n // count, (k + 1) * n // count)


@lru_cache(maxsize=4)
def _order(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the parts of an epoch in order. The arguments are numbers, as a cached Blocks would stay in memory."""
    return torch.randperm(count, generator=generator(seed, f"order/{epoch}")).numpy()
