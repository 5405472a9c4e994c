"""The memory of a fit: block size, feature chunks, tiles, and the bytes of everything that is held."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from joker.distributed import current
from joker.errors import BudgetTooSmall
from joker.features import FeatureMap
from joker.kernels.matvec import LONGEST
from joker.planning.fit_spec import FitSpec, RowReading
from joker.planning.plan import (
    AFTER_LAYOUT,
    END,
    EVALUATION,
    LAYOUT,
    SMALL_ITEMS,
    STEP,
    TIMES,
    Item,
    Plan,
    gaps,
    least_tile,
    without_gaps,
)
from joker.runtime import format_bytes, tile_bytes
from joker.solvers.conjugate_gradients import CG_VECTORS
from joker.solvers.feature_chunks import (
    Chunking,
    choose_chunking,
    feature_step_bytes,
    gap_bytes,
    solve_bytes,
    two_blocks_bytes,
)
from joker.solvers.gram_gradients import GRAM_VECTORS, gram_bytes
from joker.solvers.kept_kernel_rows import kept_bytes, kept_rows, sum_bytes
from joker.solvers.nystrom import landmarks, nystrom_bytes
from joker.solvers.settings import CONJUGATE_GRADIENTS, GREEDY, RANDOM

SEEN_BYTES = 4  # of the step at which the average of a row was updated
GREEDY_ROW_BYTES = 24  # of the order of equal gains, their directions, and the search for the largest ones
GAIN_COPIES = 8  # numbers of a row: the kernel with itself, the gain, and what is computed from it
BLOCK_ORDER_BYTES = 48  # bytes of the visiting order, for each block: a Python list of integers


@dataclass(frozen=True)
class KernelMemory:
    """What a fit with the kernel itself keeps of the kernel matrix between steps."""

    rows: int = 0  # kept rows of the kernel matrix
    landmarks: int = 0  # of a preconditioner
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, eq=False)
class FitMemory:
    """The bytes that a fit takes.

    Parameters
    ----------
    spec : FitSpec
        The decisions of the fit.
    reading : RowReading
        What reading its rows takes.
    data : tuple of Item
        What the caller holds: copies of rows, targets, weights.
    """

    spec: FitSpec
    reading: RowReading
    data: tuple[Item, ...] = ()

    @property
    def features(self) -> FeatureMap | None:
        """The feature map without its numbers; None with the kernel itself."""
        return self.spec.outline[0]

    @cached_property
    def held(self) -> tuple[Item, ...]:
        """Everything except tiles and the features of a block."""
        spec, itemsize = self.spec, self.spec.dtype.itemsize
        exact, (features, drawing) = self.features is None, self.spec.outline
        alpha = itemsize * spec.rows * spec.columns
        image = itemsize * (spec.rows if features is None else features.n_features) * spec.columns
        items = [*self.data, Item(f"α and {'predictions' if exact else 'θ'}", alpha + image, AFTER_LAYOUT)]
        state = alpha + image
        if spec.settings.method == GREEDY:
            row_bytes = GAIN_COPIES * itemsize + GREEDY_ROW_BYTES
            items.append(Item("gain of each row", spec.rows * row_bytes, AFTER_LAYOUT))
        elif spec.settings.method == CONJUGATE_GRADIENTS and features is not None:
            items.append(Item("direction and residual", GRAM_VECTORS * (image + alpha), AFTER_LAYOUT))
            items.append(Item("Gram matrix of the features", gram_bytes(features.n_features, itemsize), AFTER_LAYOUT))
            state += 2 * image
        elif spec.settings.method == CONJUGATE_GRADIENTS:
            items.append(Item("direction and residual", CG_VECTORS * alpha, AFTER_LAYOUT))
            state += alpha
        else:
            order = self.reading.order_bytes + BLOCK_ORDER_BYTES * -(-spec.rows // spec.block_rows)
            items.append(Item("order of rows and blocks", order, AFTER_LAYOUT))
        if spec.averages:
            mean = alpha + image + SEEN_BYTES * spec.rows
            items.append(Item("their average", mean, AFTER_LAYOUT))
            state += mean
        if spec.settings.momentum:
            items.append(Item("momentum", alpha + image, AFTER_LAYOUT))
            state += alpha + image
        if features is not None:
            items.append(Item("feature map", features.nbytes))
            items.append(Item("drawing it", 0 if spec.on_gpu else drawing, (LAYOUT,)))
        items.append(Item("a block and its kernel matrix", self._block_bytes(), (STEP,)))
        if exact:
            changes = 2 if spec.settings.momentum else 1
            items.append(Item("change of the predictions", changes * image, (STEP,)))
        machines = 1 + (spec.n_lams if spec.scored else 0)
        return (
            *items,
            # α of the point that is evaluated, its image, and the image computed again.
            Item("the point that is returned", alpha + 2 * image, (EVALUATION, END)),
            Item("copies of the state", state * spec.saved_states, (EVALUATION,)),
            Item("the best machine so far", image * spec.saved_machines, (EVALUATION, END)),
            Item("the machine", image * machines // spec.n_lams, (END,)),
            Item("the state, for the next fit", state if spec.keeps_state else 0, (END,)),
            Item("small items", SMALL_ITEMS),
        )

    def kernel_memory(self, room: int) -> KernelMemory:
        """Return what of the kernel matrix a solve keeps between its steps in ``room`` bytes."""
        spec, itemsize = self.spec, self.spec.dtype.itemsize
        chosen, items = 0, []
        if self.features is not None:
            return KernelMemory()
        if spec.settings.method == CONJUGATE_GRADIENTS:
            chosen = landmarks(spec.rows, room // 2, itemsize)
            taken = nystrom_bytes(spec.rows, chosen, itemsize)
            items.append(Item("preconditioner", taken, AFTER_LAYOUT))
            room -= taken
        rows = 0
        if spec.settings.method in (GREEDY, CONJUGATE_GRADIENTS) and not spec.on_gpu:
            sums = sum_bytes(spec.rows, spec.columns) if spec.settings.method == CONJUGATE_GRADIENTS else 0
            # Processes share the columns of kept rows that blocks use, and the rows that are used as a whole.
            part, shares_rows = current().part(spec.rows), spec.settings.method == CONJUGATE_GRADIENTS
            width = spec.rows if shares_rows else part.stop - part.start
            rows = kept_rows(spec.rows, spec.block_rows, room - sums, itemsize, width)
            rows = min(rows, -(-spec.rows // current().size)) if shares_rows else rows
            taken = kept_bytes(width, rows, itemsize) + (sums if rows else 0)
            items.append(Item("kept kernel rows", taken, AFTER_LAYOUT))
        return KernelMemory(rows, chosen, tuple(items))

    def divide(self, scratch: int) -> tuple[int, int]:
        """Return the part of ``scratch`` for tiles, and the part in which the kernel matrix may be kept."""
        if self.features is not None or self.spec.settings.method == RANDOM:
            return scratch, 0
        tile = max(self.least_scratch, scratch // 2) if self.spec.on_gpu else self.tile_bytes(self.tile_rows(scratch))
        return tile, max(0, scratch - tile)

    def _block_bytes(self) -> int:
        """Return what a block takes beside the features that the state plans for itself."""
        spec, b, itemsize = self.spec, self.spec.block_rows, self.spec.dtype.itemsize
        momentum = spec.settings.momentum
        rows = b * self.reading.row_bytes
        if self.features is not None:
            return rows + (itemsize * b * b if momentum else 0)
        gram = spec.full_kernel.work_bytes(b, b, spec.inputs, itemsize)
        return rows + itemsize * b * spec.inputs + max(solve_bytes(b, spec.columns, itemsize, momentum), gram)

    @property
    def least_scratch(self) -> int:
        """The smallest scratch space that is sufficient."""
        tile = least_tile(self.tile_bytes, self.spec.rows)
        return max(self._tiles_of_a_step * tile, self._step_bytes(0))

    @property
    def _tiles_of_a_step(self) -> int:
        """Tiles that a step holds: a pass over the features has one in float32 and one in float64."""
        return 2 if self.features is not None and self.spec.settings.method == CONJUGATE_GRADIENTS else 1

    def _step_bytes(self, scratch: int) -> int:
        """Return what the features of a block take within ``scratch``, or in the smallest chunks."""
        if self.features is None:
            return 0
        how = self.chunking(scratch)
        chunk = self.features if how.size == self.features.n_features else self.features.slice(0, how.size)
        return feature_step_bytes(chunk, *self._step_shape, how, self.spec.dtype.itemsize)

    def chunking(self, scratch: int) -> Chunking:
        """Return how the features of a block are computed within ``scratch``."""
        assert self.features is not None
        spec = self.spec
        return choose_chunking(
            self.features,
            *self._step_shape,
            scratch,
            mixed=spec.mixed and spec.on_gpu,
            ahead=spec.on_gpu and spec.rows > spec.block_rows,
            itemsize=spec.dtype.itemsize,
        )

    @property
    def _step_shape(self) -> tuple[int, int, int, int]:
        assert self.features is not None
        return self.spec.block_rows, self.spec.inputs, self.features.n_features, self.spec.columns

    def _prepared_blocks(self, scratch: int) -> int:
        """Return what of ``scratch`` two blocks take, where one is prepared while the other is solved."""
        if self.features is None or not self.chunking(scratch).ahead:
            return 0
        return two_blocks_bytes(self.spec.block_rows, self.features.n_features, self.spec.dtype.itemsize)

    def tile_bytes(self, rows: int) -> int:
        """Return what evaluating the gap takes for a tile: of the average and of the last iterate."""
        spec, itemsize = self.spec, self.spec.dtype.itemsize
        columns = spec.columns * (2 if spec.averages else 1)
        terms = gap_bytes(rows, columns)
        if self.features is None:
            side = min(rows, spec.rows)
            work = spec.full_kernel.work_bytes(side, side, spec.inputs, itemsize)
            return max(terms, work + 2 * side * self.reading.row_bytes)
        features = max(self.features.apply_bytes(rows, columns), self.features.work_bytes(rows))
        return max(terms, features + rows * self.reading.row_bytes + itemsize * rows * columns)

    def tile_rows(self, scratch: int) -> int:
        """Return the approximate number of rows of a tile within ``scratch``."""
        spec = self.spec
        longest = LONGEST if self.features is None and not spec.on_gpu else spec.rows
        most = scratch if self.features is None else tile_bytes(scratch - self._prepared_blocks(scratch), spec.device)
        return max(1, bisect_right(range(1, min(spec.rows, longest) + 1), most, key=self.tile_bytes))

    def at(self, time: str) -> int:
        """Return the bytes held at a time, without scratch space."""
        return sum(item.at(time) for item in self.held)

    @property
    def least(self) -> int:
        """The smallest budget that is sufficient."""
        least = self.least_scratch + gaps(self.least_scratch, self.spec.device)
        scratch = {STEP: least, EVALUATION: least}
        return max(self.at(time) + scratch.get(time, 0) for time in TIMES)

    def room(self, budget: int) -> int:
        """Return the scratch space that a budget leaves."""
        return without_gaps(budget - max(self.at(STEP), self.at(EVALUATION)), self.spec.device)

    def items(self, scratch: int, kernel: KernelMemory) -> tuple[Item, ...]:
        """Return everything, with tiles and chunks as large as ``scratch`` allows, and what ``kernel`` keeps."""
        tile, prepared = self.tile_bytes(self.tile_rows(scratch)), self._prepared_blocks(scratch)
        step = tile if self.features is None else max(self._step_bytes(scratch), self._tiles_of_a_step * tile - tile)
        name = "a tile of the kernel matrix" if self.features is None else "features of a block"
        between = gaps(max(step, tile + prepared), self.spec.device)
        return (
            *self.held,
            *kernel.items,
            Item("two blocks, one prepared ahead", prepared, (STEP, EVALUATION)),
            Item(name, step - prepared, (STEP,)),
            Item("a tile of predictions", tile, (EVALUATION,)),
            Item("gaps between pieces of memory", between, (STEP, EVALUATION)),
        )


def plan_fit(candidates: Iterable[FitMemory], budget: int | None, scratch: int, room: int = 0) -> tuple[FitSpec, Plan]:
    """Return the first candidate that keeps the budget, and its plan.

    Parameters
    ----------
    candidates : iterable of FitMemory
        The possible fits, the best first.
    budget : int or None
        The bytes allowed; None takes the first candidate.
    scratch : int
        The scratch space where there is no budget.
    room : int
        The bytes in which the kernel matrix may be kept where there is no budget.

    Raises
    ------
    BudgetTooSmall
        If no candidate keeps it. The message names the smallest budget that one of them keeps.
    """
    first, tried = None, []
    for memory in candidates:
        first = first or memory
        if budget is None:
            return memory.spec, _plan(memory, first, None, scratch_beside_block(memory, scratch), room)
        if memory.least <= budget:
            return memory.spec, _plan(memory, first, budget, *memory.divide(memory.room(budget)))
        tried.append(memory)
    assert budget is not None
    smallest = min(tried, key=lambda memory: memory.least)
    largest = max(smallest.held, key=lambda item: item.bytes)
    raise BudgetTooSmall(
        f"memory must hold everything that the fit needs; {format_bytes(budget)} is given and it takes at least "
        f"{format_bytes(smallest.least)}, most of it for {largest.name}, {format_bytes(largest.bytes)}. "
        f"Use memory={smallest.least} (bytes) or more."
    )


def scratch_beside_block(memory: FitMemory, scratch: int) -> int:
    """Return the scratch space for tiles beside the rows of a block, where those have to be made dense first.

    Raises
    ------
    BudgetTooSmall
        If the rows of a block and one row of a tile do not fit.
    """
    spec, row = memory.spec, memory.reading.row_bytes
    if memory.features is None:
        least = spec.full_kernel.work_bytes(1, 1, spec.inputs, spec.dtype.itemsize) + 2 * row
        what = f"one entry of the {spec.full_kernel.name} kernel matrix with {spec.inputs} inputs"
    else:
        least, what = memory.features.work_bytes(1) + row, "one row of features"
    block = spec.block_rows * row
    if block + least > scratch:
        rule = f"the {spec.block_rows} rows of a block as a dense tensor, and a tile" if block else f"at least {what}"
        raise BudgetTooSmall(
            f"memory must hold {rule}; {format_bytes(scratch)} is given and {format_bytes(block + least)} are needed. "
            f"Use memory={block + least} (bytes) or more{', or a smaller block_size' if block else ''}."
        )
    return scratch - block


def _plan(memory: FitMemory, first: FitMemory, budget: int | None, scratch: int, room: int) -> Plan:
    spec, reading = memory.spec, memory.reading
    m = None if memory.features is None else memory.features.n_features
    part = 0 if m is None else memory.chunking(scratch).size
    tile, kernel = memory.tile_rows(scratch), memory.kernel_memory(room)
    return Plan(
        title=_title(spec, m),
        choice=_choice(memory, first, m, part, tile),
        items=memory.items(scratch, kernel),
        device=spec.device,
        dtype=spec.dtype,
        budget=budget,
        scratch=scratch,
        block_size=spec.settings.block_size,
        part=part,
        tile=tile,
        kept_rows=kernel.rows,
        landmarks=kernel.landmarks,
        rows_place=reading.place,
        alpha_place="in GPU memory" if spec.on_gpu else "in memory",
    )


def _title(spec: FitSpec, m: int | None) -> str:
    kind = str(spec.dtype).removeprefix("torch.")
    with_ = "the kernel itself" if m is None else f"{m:,} features"
    return (
        f"fit of {spec.rows:,} rows of {spec.inputs:,} inputs, columns: {spec.columns:,}, with {with_}, "
        f"in {kind} on {spec.device}"
    )


def _choice(memory: FitMemory, first: FitMemory, m: int | None, part: int, tile: int) -> str:
    b, wanted = memory.spec.block_rows, first.spec.block_rows
    blocks = "one block" if b == memory.spec.rows else f"blocks of {b:,} rows"
    if memory.spec.settings.block_size != first.spec.settings.block_size:
        blocks += f" (not {wanted:,}, to keep the budget)"
    features = "" if m is None else ", their features " + ("all at once" if part >= m else f"{part:,} at a time")
    if memory.spec.settings.method == CONJUGATE_GRADIENTS:
        return f"Rows stay {memory.reading.place}; conjugate gradients; tiles of {tile:,} rows."
    return f"Rows stay {memory.reading.place}; {blocks}{features}; tiles of {tile:,} rows."
