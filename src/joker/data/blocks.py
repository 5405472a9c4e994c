"""The partition of the rows into blocks, and the order in which blocks are visited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
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

    If the rows are already ``shuffled``, a block is a run of consecutive rows, and no array of length n is stored.

    The order of an epoch depends on ``seed`` and on the number of the epoch only, so that a fit can be continued from
    any step:

    - ``"shuffled"``: every block once, in an order drawn for the epoch;
    - ``"random"``: one draw with replacement for each block (the order of the paper);
    - ``"cyclic"``: every block once, always in the same order.
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

    @cached_property
    def permutation(self) -> Tensor:  # (n,)
        """The order of the rows from which blocks are cut, in int32 if that is large enough."""
        small = torch.int32 if self.n <= torch.iinfo(torch.int32).max else torch.int64
        return torch.randperm(self.n, generator=generator(self.seed, "blocks"), dtype=small)

    def span(self, k: int) -> tuple[int, int]:
        """Return the start and the end of block k in the permutation."""
        return k * self.n // self.count, (k + 1) * self.n // self.count

    def rows(self, k: int) -> Tensor:  # (b,)
        """Return the rows of block k."""
        return torch.arange(*self.span(k)) if self.shuffled else self.permutation[slice(*self.span(k))].long()

    def between(self, k: int, stop: int) -> slice | Tensor:
        """Return the rows of the blocks from k to ``stop``, without ``stop``; a slice if the rows are shuffled."""
        run = slice(self.span(k)[0], self.span(stop)[0])
        return run if self.shuffled else self.permutation[run]

    def runs(self, rows: int) -> Iterator[tuple[int, int]]:
        """Yield consecutive blocks of about ``rows`` rows in total, as pairs of the first block and the end."""
        step = max(1, rows // self.size)
        return ((k, min(k + step, self.count)) for k in range(0, self.count, step))

    def lengths(self) -> Tensor:  # (count,)
        """Return the number of rows of each block."""
        return torch.arange(1, self.count + 1) * self.n // self.count - torch.arange(self.count) * self.n // self.count

    def visit(self, step: int) -> int:
        """Return the block of the step with number ``step``, counted from 0."""
        return int(_visits(self.count, self.seed, self.order, step // self.count)[step % self.count])


@lru_cache(maxsize=4)
def _visits(count: int, seed: int, order: str, epoch: int) -> NDArray[np.int64]:
    """Return the blocks of an epoch in order. The arguments are numbers, as a cached Blocks would stay in memory."""
    draw = generator(seed, f"order/{epoch}")
    if order == "shuffled":
        return torch.randperm(count, generator=draw).numpy()
    if order == "random":
        return torch.randint(count, (count,), generator=draw).numpy()
    return np.arange(count)
