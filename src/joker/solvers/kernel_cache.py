"""Rows of the kernel matrix that are kept between steps, in host memory.

Blocks return to the same rows again and again: those that are neither at a bound nor far from it. Their kernel with
all rows is computed once and kept, as many rows as the memory allows; the row that was used longest ago makes room.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from joker.data import Rows
from joker.ops.triton_support import round_up
from joker.runtime.devices import share

GATHERED = 32  # cached rows that are gathered at a time, in a copy that stays in the cache; also the sums of a block
MOST_SUMMED = 2  # columns of a product that sums rows without a copy; with more, a product of matrices is faster
ROUNDED_ROWS = 64  # new rows are computed in multiples of so many
WIDTH = 2_048  # columns of cached rows that a thread multiplies at a time: always the same, as is the rounding then
TILE = 512  # rows of x whose kernel with others is computed at a time, where it is used at once
LONG_TILE = 1_024  # the same where it is kept: threads that compute shorter tiles wait for each other's Python calls
PARTIAL_SUMS = 4  # sums of (n, t) float64 numbers that threads add up side by side; their order is always the same


class KernelFunction(Protocol):
    """A kernel, with the constant of an intercept; `joker.kernels.Kernel` says what its members return."""

    @property
    def constant(self) -> float: ...
    @property
    def without_constant(self) -> KernelFunction: ...
    def __call__(self, x: Tensor, z: Tensor, /) -> Tensor: ...  # (b, d), (c, d) -> (b, c)
    def diag(self, x: Tensor, /) -> Tensor: ...  # (b, d) -> (b,)
    def digest(self) -> tuple[float, ...]: ...
    def work_bytes(self, b: int, c: int, d: int, itemsize: int, /) -> int: ...


def cache_bytes(n: int, count: int, itemsize: int) -> int:
    """Return the bytes that ``count`` cached rows of n entries take, with the memory in which they are used."""
    return itemsize * n * (count + GATHERED) + 16 * n + 16 * count if count else 0


def sum_bytes(n: int, t: int) -> int:
    """Return the bytes of the partial sums of a product with the whole kernel matrix."""
    return 8 * PARTIAL_SUMS * n * t


def cached_rows(n: int, b: int, room: int, itemsize: int, width: int | None = None) -> int:
    """Return the number of rows, of n, that ``room`` bytes hold; none where a block of b rows does not fit.

    A row has ``width`` entries, by default n; fewer where several processes share the kernel matrix.
    """
    width = width or n
    count = min(n, (room - cache_bytes(width, 1, itemsize)) // (itemsize * width + 16))
    return count if count >= min(n, 2 * b) else 0


class KernelCache:
    """At most ``count`` rows of the kernel matrix of x, which is in host memory.

    This process has the columns ``own`` of the matrix, by default all; ``budget`` are the bytes of scratch space.
    """

    def __init__(self, x: Rows, kernel: KernelFunction, count: int, budget: int, own: slice | None = None) -> None:
        n = len(x)
        # The constant of an intercept is left out: its product is a sum, which is computed in float64.
        self.x, self.kernel, self.constant, self.budget = x, kernel.without_constant, kernel.constant, budget
        self.columns = x if own is None else x.part(own)
        self.square = len(self.columns) == n
        # NumPy asks for huge pages: fewer page faults than those of torch.
        self._entries = np.empty((count, len(self.columns)), dtype=str(x.dtype).removeprefix("torch."))
        self.memory = torch.from_numpy(self._entries)  # the same memory
        self.slot = torch.full((n,), -1)  # where the kernel of a row is; -1 where it is not kept
        self.row = torch.full((count,), -1)  # the row in each slot
        self.used = torch.full((count,), -1)  # the use of each slot, by number
        self.filled = self.uses = 0
        self._gathered = torch.empty(GATHERED, len(self.columns), dtype=x.dtype)

    def fill(self) -> None:
        """Compute every row of the kernel matrix that is not kept; there must be room for all of them."""
        for rows in (self.slot < 0).nonzero()[:, 0].split(TILE):
            self._slots(rows, self.x[rows])

    def add_product(self, rows: Tensor, x: Tensor, v: Tensor, out: Tensor) -> None:  # (b,), (b, d), (b, t), (n, t)
        """Add K[own, rows] v to ``out``, where ``x`` are the inputs of the rows."""
        for at in range(0, len(rows), len(self.row)):  # all of them at once unless fewer are kept
            part = slice(at, at + len(self.row))
            self._add(self._slots(rows[part], x[part]), v[part], out)
        self._add_constant(v, out)

    def add_whole_product(self, v: Tensor, out: Tensor) -> None:  # (n, t), (n, t)
        """Add K[own] v to ``out``. Rows where v is 0 are left out; the others are kept if there is room."""
        moved = v.any(1)
        for rows in (moved & (self.slot < 0)).nonzero()[: len(self.row) - self.filled, 0].split(TILE):
            self._slots(rows, self.x[rows])
        kept = (moved & (self.slot >= 0)).nonzero()[:, 0]
        self._add_kept(v, kept, out)
        missing = (moved & (self.slot < 0)).nonzero()[:, 0]
        first = len(kept)
        rest = self.square and len(missing) == len(self.x) - first
        if rest and torch.equal(kept, torch.arange(first)) and self._in_first_slots(kept):
            self._add_rest(v, first, slice(0, first), out)
        else:
            for rows in missing.split(TILE):
                self._add_computed(self.x[rows], v[rows], out)
        self._add_constant(v, out)

    def add_share(self, v: Tensor, out: Tensor, count: int, rank: int, size: int) -> None:  # (n, t), (n, t)
        """Add the share of a process in K v: the sum over all ``size`` processes is the product.

        Each process keeps ``count`` other rows. Of the kernel among the rows that none keeps, each entry is computed
        once, by one process.
        """
        n = len(self.x)
        own = slice(min(rank * count, n), min((rank + 1) * count, n))
        rows = torch.arange(own.start, own.stop)
        for new in rows[self.filled :].split(TILE):
            self._slots(new, self.x[new])
        self._add_kept(v, rows, out)
        self._add_rest(v, min(size * count, n), own, out, rank, size)
        if rank == 0:
            self._add_constant(v, out)

    def _add_constant(self, v: Tensor, out: Tensor) -> None:  # (k, t), (n, t)
        if self.constant:
            out += self.constant * v.sum(0, dtype=torch.float64)

    def _in_first_slots(self, rows: Tensor) -> bool:  # (k,)
        """Return whether the rows are in the first slots, in their order."""
        return torch.equal(self.slot[rows], torch.arange(len(rows)))

    def _add_rest(self, v: Tensor, first: int, own: slice, out: Tensor, rank: int = 0, size: int = 1) -> None:
        """Add the products with the rows from ``first``. All rows before are kept; this process keeps those of ``own``.

        K is symmetric: the kernel of cached rows with these rows is in memory. Of the kernel among these rows each
        entry is computed once, by one of the processes.
        """
        n = len(self.x)
        tiles = [slice(i, min(i + TILE, n)) for i in range(first, n, TILE)][rank::size]
        totals = torch.zeros(PARTIAL_SUMS, *out.shape, dtype=torch.float64)

        def above(slots: slice) -> None:
            slots = slice(slots.start, min(slots.stop, own.stop - own.start))
            out[own][slots] += self.memory[slots, first:] @ v[first:]

        def among(number: int) -> None:
            total = totals[number]
            for rows in tiles[number::PARTIAL_SUMS]:
                x = self.x[rows]
                for i in range(rows.start, n, TILE):
                    others = slice(i, min(i + TILE, n))
                    kernel = self.kernel(x, self.x[others])
                    total[rows] += kernel @ v[others]
                    if i > rows.start:
                        total[others] += kernel.T @ v[rows]

        share(above, [tile for tile in self._tiles(TILE) if tile.start < own.stop - own.start])
        share(among, range(PARTIAL_SUMS), self._threads(TILE))
        out += totals.sum(0)

    def _add_kept(self, v: Tensor, rows: Tensor, out: Tensor) -> None:  # (n, t), (k,), (n, t)
        """Add the products with cached rows, in the order of the rows, so that the sums do not depend on their slots.

        One sum of n products in float32 would be less precise than sums of parts. With few columns the transposed
        product is faster on a CPU.
        """
        slots, in_order = self.slot[rows], self._in_first_slots(rows)
        step = TILE if in_order else GATHERED

        def add(columns: slice) -> None:
            total = torch.zeros(out[columns].shape, dtype=torch.float64)
            for i in range(0, len(rows), step):
                part = slice(i, min(i + step, len(rows)))
                kept = self.memory[part, columns] if in_order else self.memory[slots[part], columns]
                total += (v[rows[part]].T @ kept).T
            out[columns] += total

        share(add, self._tiles(WIDTH))

    def _add_computed(self, z: Tensor, v: Tensor, out: Tensor) -> None:  # (k, d), (k, t), (n, t)
        def add(tile: slice) -> None:
            out[tile].addmm_(self.kernel(self.columns[tile], z), v)

        share(add, self._tiles(TILE), self._threads(len(z)))

    def _tiles(self, rows: int) -> list[slice]:
        n = len(self.columns)
        return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]

    def _threads(self, k: int, tile: int = TILE) -> int:
        """Return the number of threads that may compute tiles of k columns at a time; at least one."""
        return max(1, self.budget // self._work_bytes(k, tile))

    def _work_bytes(self, k: int, tile: int) -> int:
        """Return the bytes that a thread needs for a tile of k columns."""
        return self.kernel.work_bytes(tile, k, self.x.shape[1], self.x.dtype.itemsize) + tile * self.x.row_bytes

    def _slots(self, rows: Tensor, x: Tensor) -> Tensor:  # (b,)
        """Return the slots of some rows, whose kernel is computed where it is not kept."""
        self.uses += 1
        slots = self.slot[rows]
        self.used[slots[slots >= 0]] = self.uses
        missing = (slots < 0).nonzero()[:, 0]
        if len(missing):
            free = self._free(len(missing))
            self.row[free], self.slot[rows[missing]], self.used[free] = rows[missing], free, self.uses
            slots = self.slot[rows]
            self._compute(x[missing], free)
        return slots

    def _free(self, k: int) -> Tensor:  # (k,)
        """Return k slots: those that are empty, else those that were used longest ago."""
        empty = torch.arange(self.filled, min(self.filled + k, len(self.row)))
        self.filled += len(empty)
        if len(empty) == k:
            return empty
        self.used[empty] = self.uses
        oldest = self.used.topk(k - len(empty), largest=False).indices
        self.slot[self.row[oldest]] = -1
        return torch.cat([empty, oldest])

    def _compute(self, z: Tensor, slots: Tensor) -> None:  # (k, d), (k,)
        """Compute the kernel of new rows with all rows, in their slots."""
        # A matrix product of few rows may round differently: rows are then repeated, so that the kernel of a row does
        # not depend on the rows that are computed with it.
        k, whole = len(z), round_up(len(z), ROUNDED_ROWS)
        z = z if k == whole else torch.cat([z, z[:1].expand(whole - k, -1)])
        tile_rows = LONG_TILE if self._work_bytes(whole, LONG_TILE) <= self.budget else TILE
        places = slots.numpy()

        def fill(tile: slice) -> None:
            self._entries[places, tile] = self.kernel(z, self.columns[tile])[:k].numpy()  # faster than torch here

        share(fill, self._tiles(tile_rows), self._threads(whole, tile_rows))

    def _add(self, slots: Tensor, v: Tensor, out: Tensor) -> None:  # (b,), (b, t), (n, t)
        """Add the product with cached rows: weighted sums of a few rows each, or of rows that are gathered first."""
        if v.shape[1] <= MOST_SUMMED:
            self._add_sums(slots, v, out)
            return

        def add(columns: slice) -> None:
            gathered = self._gathered[:, columns]
            for part, values in zip(slots.split(GATHERED), v.split(GATHERED), strict=True):
                kernel = torch.index_select(self.memory[:, columns], 0, part, out=gathered[: len(part)])
                out[columns] += (values.T @ kernel).T

        share(add, self._tiles(WIDTH))

    def _add_sums(self, slots: Tensor, v: Tensor, out: Tensor) -> None:  # (b,), (b, t), (n, t)
        """Add the product as at most `GATHERED` sums of rows, so that its rounding is not that of one long sum."""
        length = max(GATHERED, -(-len(slots) // GATHERED))
        parts = [slice(i, i + length) for i in range(0, len(slots), length)]
        sums = self._gathered[: len(parts)]
        for column, values in enumerate(v.T.contiguous()):

            def add(i: int, values: Tensor = values) -> None:
                rows = slots[None, parts[i]]
                sums[i] = embedding_bag(rows, self.memory, per_sample_weights=values[None, parts[i]], mode="sum")[0]

            share(add, range(len(parts)))
            out[:, column] += sums.sum(0)
