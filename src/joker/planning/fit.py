"""The plan of a fit: from the sizes of a problem to block size, parts, tiles and the bytes of everything."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch

from joker.errors import BudgetTooSmall
from joker.features import FeatureMap
from joker.kernels import Kernel
from joker.kernels.matvec import LONGEST
from joker.planning.plan import END, LATER, LAYOUT, LOOK, STEP, TIMES, Item, Plan, gaps, least_tile, without_gaps
from joker.runtime import format_bytes, tile_bytes
from joker.solvers.feature_chunks import (
    Chunking,
    choose_chunking,
    feature_step_bytes,
    gap_bytes,
    solve_bytes,
    two_blocks_bytes,
)

VISIT = 48  # bytes that the order of blocks takes for each block
ROUND = 2**18  # bytes: what is too small to be listed


@dataclass(frozen=True, eq=False)
class FitLayout:
    """The sizes of a fit with blocks of a certain size.

    Parameters
    ----------
    rows, inputs, columns : int
        n, d and t, all λ counted.
    kept_columns : int
        Columns of all machines that come out, those of a path and of the best λ.
    block_size : int
        Rows in a block, at most.
    dtype, device : torch.dtype, torch.device
        What is computed in, and where.
    kernel : Kernel
        The kernel, its constant included.
    features : FeatureMap or None
        The map, or an outline of it; None for the kernel itself.
    draw_bytes : int
        What drawing the map holds beside it, where that is in the memory that counts.
    low : bool
        Whether features are there in bfloat16 as well.
    row_bytes : int
        What handing out a row takes.
    order_bytes : int
        What the order of the rows takes.
    averaging, momentum : bool
        What the solver keeps beside α.
    copies, kept : int
        How many copies of the state, and of the weights of a machine, are made while the gap is looked at.
    left : bool
        Whether a copy of the state is left at the end.
    own : tuple of Item
        What the caller holds: copies of rows, targets, weights.
    rows_place : str
        Where the rows are, in words.
    host : bool
        Whether a card is to leave them in the memory of the host.
    """

    rows: int
    inputs: int
    columns: int
    kept_columns: int
    block_size: int
    dtype: torch.dtype
    device: torch.device
    kernel: Kernel
    features: FeatureMap | None
    draw_bytes: int
    low: bool
    row_bytes: int
    order_bytes: int
    averaging: bool
    momentum: bool
    copies: int
    kept: int
    left: bool
    own: tuple[Item, ...]
    rows_place: str
    host: bool = False

    @property
    def b(self) -> int:
        """Rows in a block."""
        return min(self.block_size, self.rows)

    @property
    def alpha_bytes(self) -> int:
        """The bytes of α."""
        return self.dtype.itemsize * self.rows * self.columns

    @property
    def image_bytes(self) -> int:
        """The bytes of its image: θ, or the predictions."""
        m = self.rows if self.features is None else self.features.n_features
        return self.dtype.itemsize * m * self.columns

    @cached_property
    def held(self) -> tuple[Item, ...]:
        """Everything but tiles and the features of a block."""
        alpha, image, blocks = self.alpha_bytes, self.image_bytes, -(-self.rows // self.b)
        exact, state = self.features is None, (alpha + image) * (1 + self.averaging + self.momentum)
        predictions = "predictions" if exact else "θ"
        kept = image * self.kept_columns // self.columns
        return (
            *self.own,
            Item("order of rows and blocks", self.order_bytes + VISIT * blocks, LATER),
            Item(f"α and {predictions}", alpha + image, LATER),
            Item("their average", (alpha + image) * self.averaging, LATER),
            Item("momentum", (alpha + image) * self.momentum, LATER),
            *self._map(),
            Item("a block and its kernel matrix", self._block_bytes(), (STEP,)),
            Item("change of the predictions", image * (1 + self.momentum) * exact, (STEP,)),
            # α of the point that is looked at, its image, and the image computed afresh.
            Item("the point that is returned", alpha + 2 * image, (LOOK, END)),
            Item("copies of the state", state * self.copies, (LOOK,)),
            Item("the best machine so far", image * self.kept, (LOOK, END)),
            Item("the machine", kept, (END,)),
            Item("the state, for the next fit", state * self.left, (END,)),
            Item("small things", ROUND),
        )

    def _map(self) -> tuple[Item, ...]:
        if self.features is None:
            return ()
        return (Item("feature map", self.features.nbytes), Item("drawing it", self.draw_bytes, (LAYOUT,)))

    def _block_bytes(self) -> int:
        """What a block takes beside what the state plans for itself."""
        b, s = self.b, self.dtype.itemsize
        rows = b * self.row_bytes
        if self.features is not None:
            return rows + s * b * b * self.momentum
        gram = self.kernel.work_bytes(b, b, self.inputs, s)
        return rows + s * b * self.inputs + max(solve_bytes(b, self.columns, s, self.momentum), gram)

    @property
    def least_scratch(self) -> int:
        """The smallest scratch space that will do."""
        return max(least_tile(self._tile_bytes, self.rows), self._step_bytes(smallest=True))

    def _step_bytes(self, smallest: bool = False, scratch: int = 0) -> int:
        """What the features of a block take within ``scratch``, or at least."""
        if self.features is None:
            return 0
        how = self.parts(0 if smallest else scratch)
        return feature_step_bytes(self._part(how.size), *self._step_shape, how, self.dtype.itemsize)

    def parts(self, scratch: int) -> Chunking:
        """Return how the features of a block are made."""
        assert self.features is not None
        ahead, itemsize = self.device.type == "cuda" and self.rows > self.b, self.dtype.itemsize
        return choose_chunking(
            self.features, *self._step_shape, scratch, mixed=self.low, ahead=ahead, itemsize=itemsize
        )

    def _rooms(self, scratch: int) -> int:
        """What of ``scratch`` is kept for two blocks, of which one is made ahead."""
        if self.features is None or not self.parts(scratch).ahead:
            return 0
        return two_blocks_bytes(self.b, self.features.n_features, self.dtype.itemsize)

    @property
    def _step_shape(self) -> tuple[int, int, int, int]:
        assert self.features is not None
        return self.b, self.inputs, self.features.n_features, self.columns

    def _part(self, size: int) -> FeatureMap:
        assert self.features is not None
        return self.features if size == self.features.n_features else self.features.slice(0, size)

    def _tile_bytes(self, rows: int) -> int:
        """What a tile of some rows takes: of a look at the gap, of the average and of the last iterate."""
        columns, s = self.columns * (1 + self.averaging), self.dtype.itemsize
        terms = gap_bytes(rows, columns)
        if self.features is None:
            side = min(rows, self.rows)
            return max(terms, self.kernel.work_bytes(side, side, self.inputs, s) + 2 * side * self.row_bytes)
        features = max(self.features.apply_bytes(rows, columns), self.features.work_bytes(rows))
        return max(terms, features + rows * self.row_bytes + s * rows * columns)

    def tile_rows(self, scratch: int) -> int:
        """Return the rows of a tile within ``scratch``, about."""
        longest = LONGEST if self.features is None and self.device.type != "cuda" else self.rows
        most = scratch if self.features is None else tile_bytes(scratch - self._rooms(scratch), self.device)
        return max(1, bisect_right(range(1, min(self.rows, longest) + 1), most, key=self._tile_bytes))

    def at(self, time: str) -> int:
        """Return what is held at a time, without scratch space."""
        return sum(item.at(time) for item in self.held)

    @property
    def least(self) -> int:
        """The smallest budget that will do."""
        least = self.least_scratch + gaps(self.least_scratch, self.device)
        scratch = {STEP: least, LOOK: least}
        return max(self.at(time) + scratch.get(time, 0) for time in TIMES)

    def room(self, budget: int) -> int:
        """Return the scratch space that a budget leaves."""
        return without_gaps(budget - max(self.at(STEP), self.at(LOOK)), self.device)

    def items(self, scratch: int) -> tuple[Item, ...]:
        """Everything, with tiles and parts as large as ``scratch`` lets them be."""
        tile = self._tile_bytes(self.tile_rows(scratch))
        step, rooms = tile if self.features is None else self._step_bytes(scratch=scratch), self._rooms(scratch)
        name = "a tile of the kernel matrix" if self.features is None else "features of a block"
        between = gaps(max(step, tile + rooms), self.device)
        return (
            *self.held,
            Item("two blocks, one made ahead", rooms, (STEP, LOOK)),
            Item(name, step - rooms, (STEP,)),
            Item("a tile of predictions", tile, (LOOK,)),
            Item("gaps between pieces of memory", between, (STEP, LOOK)),
        )


def plan_fit(layouts: Iterable[FitLayout], budget: int | None, scratch: int) -> Plan:
    """Return the plan of the first layout that keeps the budget.

    Parameters
    ----------
    layouts : iterable of FitLayout
        What may be done, the best first.
    budget : int or None
        The bytes allowed; None takes the first layout.
    scratch : int
        The scratch space where there is no budget.

    Raises
    ------
    BudgetTooSmall
        If none of them keeps it. The message names the smallest that one would.
    """
    first, tried = None, []
    for layout in layouts:
        first = first or layout
        if budget is None or layout.least <= budget:
            room = scratch if budget is None else layout.room(budget)
            return _plan(layout, first, budget, room)
        tried.append(layout)
    assert budget is not None
    smallest = min(tried, key=lambda layout: layout.least)
    raise BudgetTooSmall(
        f"memory must hold everything that the fit needs; {format_bytes(budget)} is given and it takes "
        f"{format_bytes(smallest.least)} at least, most of it {_largest(smallest)}. "
        f"Use memory={smallest.least} (bytes) or more."
    )


def _largest(layout: FitLayout) -> str:
    largest = max(layout.held, key=lambda item: item.bytes)
    return f"for {largest.name}, {format_bytes(largest.bytes)}"


def _plan(layout: FitLayout, first: FitLayout, budget: int | None, scratch: int) -> Plan:
    m = None if layout.features is None else layout.features.n_features
    block = layout.b * layout.row_bytes
    scratch = max(scratch - block, 0) if budget is None else scratch  # the rows of a block are taken from it
    part = 0 if m is None else layout.parts(scratch).size
    tile = layout.tile_rows(scratch)
    return Plan(
        title=_title(layout, m),
        choice=_choice(layout, first, m, part, tile),
        items=layout.items(scratch),
        device=layout.device,
        dtype=layout.dtype,
        budget=budget,
        scratch=scratch + block,
        block_size=layout.block_size,
        part=part,
        tile=tile,
        rows_place=layout.rows_place,
        host=layout.host,
        alpha_place="in the memory of the card" if layout.device.type == "cuda" else "in memory",
    )


def _title(layout: FitLayout, m: int | None) -> str:
    kind = str(layout.dtype).removeprefix("torch.")
    with_ = "the kernel itself" if m is None else f"{m:,} features"
    return (
        f"fit of {layout.rows:,} rows of {layout.inputs:,} inputs, columns: {layout.columns:,}, with {with_}, "
        f"in {kind} on {layout.device}"
    )


def _choice(layout: FitLayout, first: FitLayout, m: int | None, part: int, tile: int) -> str:
    blocks = "one block" if layout.b == layout.rows else f"blocks of {layout.b:,} rows"
    if first.block_size != layout.block_size:
        blocks += f" (not {first.b:,}, to keep the budget)"
    features = "" if m is None else ", their features " + ("all at once" if part >= m else f"{part:,} at a time")
    return f"Rows stay {layout.rows_place}; {blocks}{features}; tiles of {tile:,} rows."
