"""The partition of the rows into blocks, and the order in which blocks are visited."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.errors import InvalidParameter, UnknownName
from joker.runtime import generator

ORDERS = ("shuffled", "random", "cyclic")


@dataclass(frozen=True)
class Blocks:
    """A partition of n rows into blocks of at most ``size`` rows, whose lengths differ by at most one.

    Blocks depend on ``seed`` and on the number of the step only, so that a fit can be continued from any step:

    - ``"shuffled"``: every row once in an epoch, in blocks that are drawn anew for each epoch, so that all pairs of
      rows are solved together from time to time;
    - ``"random"``: one partition, and one draw of a block with replacement for each step (the order of the paper);
    - ``"cyclic"``: one partition, and its blocks always in the same order.

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
    order : str
        A name of `ORDERS`.
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
    order: str = "shuffled"
    shuffled: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.size, Integral) or isinstance(self.size, bool) or self.size < 1:
            raise InvalidParameter(f"block_size must be a whole number of at least 1; got {self.size!r}. Use 512.")
        if self.order not in ORDERS:
            raise UnknownName.among("order", self.order, ORDERS)

    @property
    def count(self) -> int:
        """Number of blocks."""
        return -(-self.n // self.size)

    def place(self, step: int) -> tuple[int, slice]:
        """Return the number of the permutation from which the block of a step is cut, and its place there."""
        epoch, j = divmod(step, self.count)
        if self.order == "shuffled":
            return epoch, _span(j, self.n, self.count)
        return 0, _span(int(_draws(self.count, self.seed, self.order, epoch)[j]), self.n, self.count)

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
        half = self.size // 2
        if self.order != "shuffled" or self.count == 1 or self.size % 2:
            numbers, count = _draws(self.count, self.seed, self.order, epoch)[j : j + 1], self.count
        else:
            count = -(-self.n // half)
            numbers = _draws(count, self.seed, self.order, epoch)[2 * j : 2 * j + 2]
        return tuple(_span(int(number), self.n, count) for number in numbers)


def _span(k: int, n: int, count: int) -> slice:
    """Return the k-th of ``count`` parts of n rows."""
    return slice(k * n // count, (k + 1) * n // count)


@lru_cache(maxsize=4)
def _draws(count: int, seed: int, order: str, epoch: int) -> NDArray[np.int64]:
    """Return the parts of an epoch in order. The arguments are numbers, as a cached Blocks would stay in memory."""
    draw = generator(seed, f"order/{epoch}")
    if order == "shuffled":
        return torch.randperm(count, generator=draw).numpy()
    if order == "random":
        return torch.randint(count, (count,), generator=draw).numpy()
    return np.arange(count)
