"""A seeded partition of the rows into blocks, and the order in which blocks are visited."""

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
    """n rows in blocks of at most ``size`` that differ in length by at most one.

    Where the rows are ``shuffled`` as they are, a block is a run of them, and nothing of size n is kept.

    The order of an epoch depends on ``seed`` and the number of the epoch alone, so that
    a run can be continued from anywhere:

    - ``"shuffled"``: every block once, in an order drawn for the epoch;
    - ``"random"``: as many draws with replacement as there are blocks (the paper's order);
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
        """The rows in the order in which blocks are cut from them, in the smaller type that holds them."""
        small = torch.int32 if self.n <= torch.iinfo(torch.int32).max else torch.int64
        return torch.randperm(self.n, generator=generator(self.seed, "blocks"), dtype=small)

    def span(self, k: int) -> tuple[int, int]:
        """Where block k begins and ends in the permutation."""
        return k * self.n // self.count, (k + 1) * self.n // self.count

    def rows(self, k: int) -> Tensor:  # (b,)
        """The rows of block k."""
        return torch.arange(*self.span(k)) if self.shuffled else self.permutation[slice(*self.span(k))].long()

    def between(self, k: int, stop: int) -> slice | Tensor:
        """The rows of block k up to before block ``stop``, as one run where they are one."""
        run = slice(self.span(k)[0], self.span(stop)[0])
        return run if self.shuffled else self.permutation[run]

    def runs(self, rows: int) -> Iterator[tuple[int, int]]:
        """Runs of blocks, from one up to before another, of about ``rows`` rows in all."""
        step = max(1, rows // self.size)
        return ((k, min(k + step, self.count)) for k in range(0, self.count, step))

    def lengths(self) -> Tensor:  # (count,)
        """The number of rows of each block."""
        return torch.arange(1, self.count + 1) * self.n // self.count - torch.arange(self.count) * self.n // self.count

    def visit(self, step: int) -> int:
        """The block that step number ``step``, counted from 0, visits."""
        return int(_visits(self.count, self.seed, self.order, step // self.count)[step % self.count])


@lru_cache(maxsize=4)
def _visits(count: int, seed: int, order: str, epoch: int) -> NDArray[np.int64]:
    """The blocks of an epoch, in turn. A cache that knew the blocks themselves would keep their rows."""
    draw = generator(seed, f"order/{epoch}")
    if order == "shuffled":
        return torch.randperm(count, generator=draw).numpy()
    if order == "random":
        return torch.randint(count, (count,), generator=draw).numpy()
    return np.arange(count)
