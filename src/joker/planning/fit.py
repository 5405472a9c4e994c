"""The memory of a fit: feature chunks, tiles, and the bytes of everything that is held."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from numpy.typing import NDArray

from joker.data import Rows
from joker.data.arrays import is_sparse, row_bytes_of, stored_type, whole_of
from joker.errors import BudgetTooSmall
from joker.features import FeatureMap
from joker.kernels.kernel import LONGEST
from joker.planning.plan import (
    ORDER_BYTES,
    SMALL_ITEMS,
    FitSpec,
    Plan,
    RowReading,
    cast_bytes,
    check_bytes,
    gaps,
    least_tile,
    libraries,
    rows_place,
    without_gaps,
)
from joker.runtime import format_bytes, format_least, tile_bytes
from joker.solvers.feature_state import Chunking, choose_chunking, feature_step_bytes, two_blocks_bytes
from joker.solvers.methods.method import (
    AFTER_LAYOUT,
    END,
    EVALUATION,
    LAYOUT,
    STEP,
    TIMES,
    Item,
    KernelMemory,
)
from joker.solvers.report import certificate_bytes
from joker.solvers.state import gap_bytes, solve_bytes

READING = 12 * 10**6  # bytes: rows and targets are checked in chunks, and a bandwidth is chosen on a sample
SPLIT_BYTES = 80  # bytes a row that scikit-learn takes to choose the held-out rows


@dataclass(frozen=True, eq=False)
class FitMemory:
    """The bytes that a fit takes."""

    spec: FitSpec
    reading: RowReading
    data: tuple[Item, ...] = ()  # what the caller holds: copies of rows, targets, weights

    @property
    def features(self) -> FeatureMap | None:
        """The feature map without its numbers; None with the exact kernel."""
        return self.spec.outline[0]

    @cached_property
    def held(self) -> tuple[Item, ...]:
        """Everything except tiles and the features of a block."""
        spec, size, (features, drawing) = self.spec, self.spec.size, self.spec.outline
        exact, alpha, image = features is None, size.alpha_bytes, size.image_bytes
        state = alpha + image + spec.method.saved_bytes(size)
        items = [
            *self.data,
            Item(f"α and {'predictions' if exact else 'θ'}", alpha + image, AFTER_LAYOUT),
            *spec.method.memory(size, self.reading.order_bytes),
        ]
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
            Item(
                "the gap without rounding errors",
                certificate_bytes(spec.columns, image, spec.dtype.itemsize),
                (EVALUATION,),
            ),
            Item("copies of the state", state * spec.saved_states, (EVALUATION,)),
            Item("the best machine so far", image * spec.saved_machines, (EVALUATION, END)),
            Item("the machine", image * machines // spec.n_lams, (END,)),
            Item("the state, for the next fit", state if spec.keeps_state else 0, (END,)),
            Item("small items", SMALL_ITEMS),
        )

    def divide(self, scratch: int) -> tuple[int, int]:
        """Return the part of ``scratch`` for tiles, and the part in which the kernel matrix may be kept."""
        if not self.spec.method.keeps_kernel:
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
        return max(self.spec.method.tiles_of_a_step * tile, self._step_bytes(0))

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
        columns = spec.columns * (2 if spec.method.averages(spec.size) else 1)
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
        more_tiles = (self.spec.method.tiles_of_a_step - 1) * tile
        step = tile if self.features is None else max(self._step_bytes(scratch), more_tiles)
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
    """Return the first candidate that keeps the budget, the best standing first, and its plan.

    Without a budget it is the first, with ``scratch`` bytes for tiles and ``room`` bytes for the kernel matrix. Raises
    BudgetTooSmall if no candidate keeps the budget; the message names the smallest that one of them keeps.
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
    raise BudgetTooSmall.naming(
        smallest.least,
        f"everything that the fit needs; {format_bytes(budget)} is given and it takes at least "
        f"{format_least(smallest.least)}, most of it for {largest.name}, {format_bytes(largest.bytes)}",
    )


def scratch_beside_block(memory: FitMemory, scratch: int) -> int:
    """Return the scratch space for tiles beside the rows of a block, where those have to be made dense first.

    Raises BudgetTooSmall if the rows of a block and one row of a tile do not fit.
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
        raise BudgetTooSmall.naming(
            block + least,
            f"{rule}; {format_bytes(scratch)} is given and {format_least(block + least)} are needed",
            ", or a smaller block_size" if block else "",
        )
    return scratch - block


def _plan(memory: FitMemory, first: FitMemory, budget: int | None, scratch: int, room: int) -> Plan:
    spec, reading = memory.spec, memory.reading
    m = None if memory.features is None else memory.features.n_features
    part = 0 if m is None else memory.chunking(scratch).size
    tile, kernel = memory.tile_rows(scratch), spec.method.kernel_memory(spec.size, room)
    return Plan(
        title=_title(spec, m),
        choice=_choice(memory, first, m, part, tile),
        items=memory.items(scratch, kernel),
        device=spec.device,
        dtype=spec.dtype,
        why_dtype=spec.why_dtype,
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
    with_ = "the exact kernel" if m is None else f"{m:,} features"
    rows = "a precomputed kernel" if spec.kernel.precomputed else f"{spec.inputs:,} inputs"
    return f"fit of {spec.rows:,} rows of {rows}, columns: {spec.columns:,}, with {with_}, in {kind} on {spec.device}"


def _choice(memory: FitMemory, first: FitMemory, m: int | None, part: int, tile: int) -> str:
    b, wanted = memory.spec.block_rows, first.spec.block_rows
    blocks = "one block" if b == memory.spec.rows else f"blocks of {b:,} rows"
    if memory.spec.settings.block_size != first.spec.settings.block_size:
        blocks += f" (not {wanted:,}, to keep the budget)"
    features = "" if m is None else ", their features " + ("all at once" if part >= m else f"{part:,} at a time")
    how = f"{blocks}{features}" if memory.spec.method.in_blocks else memory.spec.method.name.replace("_", " ")
    kind, why = str(memory.spec.dtype).removeprefix("torch."), memory.spec.why_dtype
    return f"Rows stay {memory.reading.place}; {how}; tiles of {tile:,} rows{f'; {kind}: {why}' if why else ''}."


class TrainingData(Protocol):
    """The rows of a fit with their targets, as an estimator encodes them."""

    @property
    def x(self) -> Any: ...  # rows (n, d): an array, a CSR matrix, a subset of one, or rows of a store
    @property
    def y(self) -> NDArray[Any]: ...  # encoded targets (n, t)
    @property
    def w(self) -> NDArray[Any] | None: ...  # weights (n,)
    @property
    def copied(self) -> int: ...  # bytes of the copy that validation has made
    @property
    def held_out(self) -> int: ...  # rows of the same data that are held out
    @property
    def label_bytes(self) -> int: ...  # of a class label; 0 where targets are numbers


def plan_estimator_fit(
    specs: Iterable[FitSpec], data: TrainingData, budget: int | None, scratch: int, room: int
) -> tuple[FitSpec, Plan]:
    """Return the first spec that keeps the budget, and its plan; see `plan_fit`."""
    return plan_fit((_fit_memory(spec, data) for spec in specs), budget, scratch, room)


def _fit_memory(spec: FitSpec, data: TrainingData) -> FitMemory:
    x, exact, host = data.x, spec.n_features is None, spec.rows_on_host
    reading = RowReading(
        row_bytes_of(x, spec.dtype, spec.device, copy=exact, host=host, scaling=spec.scaling),
        0 if isinstance(x, Rows) else ORDER_BYTES * spec.rows,
        "in your own kernel matrix" if spec.kernel.precomputed else rows_place(x, spec.device, exact, host),
    )
    return FitMemory(spec, reading, _on_gpu(spec, data) if spec.on_gpu else _in_memory(spec, data))


def _in_memory(spec: FitSpec, data: TrainingData) -> tuple[Item, ...]:
    """Return what the data of a fit take on the CPU."""
    x, n, itemsize, exact = data.x, spec.rows, spec.dtype.itemsize, spec.n_features is None
    all_rows = n + data.held_out
    held_out = 0 if isinstance(x, Rows) else data.held_out  # a store holds out its last rows without a copy
    row_numbers = 8 * n if held_out else 0
    encoding = all_rows * (2 * data.label_bytes + 10 + spec.targets) if data.label_bytes else 0
    items = [
        libraries(on_gpu=False),
        Item("rows, as they are checked", data.copied),
        Item("copy of the rows", _copy_bytes(x, spec.dtype) if exact else cast_bytes(x, spec.dtype)),
        Item("targets", _target_bytes(spec, data) + (all_rows if data.label_bytes else 0)),
        Item("reading the data", READING + check_bytes(x) + encoding, (LAYOUT,)),
    ]
    if held_out:
        held_bytes = held_out * (_stored_row_bytes(x) + spec.targets * data.y.itemsize)
        items.append(Item("numbers of the training rows", row_numbers))
        items.append(Item("rows held out", held_bytes))
        items.append(Item("choosing the rows held out", all_rows * SPLIT_BYTES, (LAYOUT,)))
    if data.w is not None:
        items.append(Item("weights", 8 * all_rows + row_numbers + itemsize * n))
    return tuple(items)


def _on_gpu(spec: FitSpec, data: TrainingData) -> tuple[Item, ...]:
    """Return what the data of a fit take in GPU memory."""
    x, n, itemsize, whole = data.x, spec.rows, spec.dtype.itemsize, whole_of(data.x)
    columns = 1 if spec.targets == 1 else spec.columns
    items = [
        libraries(on_gpu=True),
        Item("targets", n * columns * (1 if data.y.itemsize == 1 else itemsize)),
    ]
    reading = READING
    if not (spec.rows_on_host or isinstance(x, Rows)):
        dense = whole.shape[0] * whole.shape[1] * _copied_itemsize(whole, spec.dtype)
        items.append(Item("rows", _copy_bytes(whole, spec.dtype) if is_sparse(whole) else dense))
        reading += check_bytes(whole)
    if data.held_out and not spec.rows_on_host:
        items.append(Item("numbers of the training rows", 8 * n))
    if data.w is not None:
        items.append(Item("weights", itemsize * n))
    return (*items, Item("reading the data", reading, (LAYOUT,)))


def _target_bytes(spec: FitSpec, data: TrainingData) -> int:
    """Return the bytes of the encoded targets, of the training rows and of all, and of the columns of every λ."""
    n, t, itemsize = spec.rows, spec.targets, data.y.itemsize
    encoded = itemsize * t * (n + (n + data.held_out if data.held_out else 0))
    shared = t == 1 or spec.n_lams == 1
    if itemsize == 1:  # signs stay in int8
        return encoded + (0 if shared else n * spec.columns)
    return encoded + spec.dtype.itemsize * n * (t if shared else spec.columns + t)


def _copied_itemsize(x: Any, dtype: torch.dtype) -> int:
    """Return the bytes of a number in a copy: the smaller of the stored and the computing type."""
    return min(int(stored_type(x).itemsize), dtype.itemsize)


def _stored_row_bytes(x: Any) -> int:
    """Return the bytes of a row as it is stored; the mean of a sparse matrix."""
    whole = whole_of(x)
    if is_sparse(whole):
        return int(whole.nnz * (whole.dtype.itemsize + whole.indices.itemsize) / max(1, whole.shape[0])) + 9
    return int(whole.shape[1] * whole.dtype.itemsize)


def _copy_bytes(x: Any, dtype: torch.dtype) -> int:
    """Return the bytes of a copy of the rows, in their own type where that is smaller."""
    whole = whole_of(x)
    if is_sparse(whole):
        return int(whole.nnz * (whole.indices.itemsize + whole.dtype.itemsize + dtype.itemsize) + 8 * (x.shape[0] + 1))
    copies = 1 if isinstance(whole, Rows) or whole.flags.c_contiguous else 2
    return int(copies * x.shape[0] * x.shape[1] * _copied_itemsize(whole, dtype))
