"""The decisions of a fit, and a plan: what a fit or a prediction holds in memory, when, and the total."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from joker import features as feature_maps
from joker.data import Rows, Scaling
from joker.data.arrays import is_sparse, row_bytes_of, whole_of
from joker.distributed import current
from joker.errors import BudgetTooSmall, InvalidParameter
from joker.features import FeatureMap
from joker.features.feature_map import FeaturesWithConstant
from joker.kernels import Kernel
from joker.kernels.kernel import KernelWithConstant
from joker.losses import Loss
from joker.models import Machine
from joker.runtime import format_bytes, format_least, tile_bytes
from joker.solvers import Method, ProblemSize, Settings
from joker.solvers.methods.method import TIMES, Item

MIN_TILE_ROWS, ENOUGH_TILE_ROWS = 16, 256  # with fewer rows in a tile, a pass over the data takes long
MAX_SMALL_TILE = 4 * 10**6  # bytes of the smallest planned tile, where it has more than MIN_TILE_ROWS rows
MIN_GAPS, MAX_GAPS = 8 * 10**6, 32 * 10**6  # bytes, measured with the GNU C library
ORDER_BYTES = 8  # of the random orders of an epoch and of the next one, for each row
SMALL_ITEMS = 2**18  # bytes for everything that is too small to be listed


OWN_FIELDS = {"device", "why_dtype"}  # processes have a GPU each, and a reason may have a number that is rounded


@dataclass(frozen=True, eq=False, kw_only=True)
class FitSpec:
    """What a fit was asked for, with every "auto" resolved: the plan and `prepare` read it and decide nothing else."""

    rows: int  # training rows n
    inputs: int  # d
    targets: int  # columns for one λ
    device: torch.device
    dtype: torch.dtype
    kernel: Kernel  # without the constant of an intercept; its bandwidth is final once rows exist
    loss: Loss
    method: type[Method]
    settings: Settings  # of the solve, its block size included
    why_dtype: str = ""  # the reason for ``dtype``, in words
    rank: int | None = None  # of the kernel matrix of some rows; None where it is not low
    scale: float = 0.0  # the largest value of the kernel, over the smallest λ / w
    entries: int | None = None  # of sparse rows whose features are their inputs
    mixed: bool = False  # whether the kernel matrix of a block may be computed in low precision
    n_features: int | None = None  # None uses the exact kernel
    features: str | None = None  # their kind
    intercept: bool = False  # whether a constant feature is added
    scaling: Scaling | None = None  # what inputs are shifted and divided by
    rows_on_host: bool = False  # whether the rows stay in host memory while a GPU computes
    n_lams: int = 1  # values of λ
    scored: bool = False  # whether rows are held out, so that every λ gets a model of its own
    saved_states: int = 0  # copies of the state that callbacks make at an evaluation of the gap
    saved_machines: int = 0  # the same of the weights
    keeps_state: bool = False  # whether a copy of the state is kept for a warm start

    def __post_init__(self) -> None:
        if not self.kernel.external:
            return
        rule = f"a {self.kernel.name} kernel, which is a matrix or a function of the user's in host memory,"
        if self.device.type != "cpu":
            raise InvalidParameter(f"{rule} must be used on the CPU; the device is {self.device}. Use device='cpu'.")
        if current().size > 1:
            raise InvalidParameter(
                f"{rule} must be used in one process; there are {current().size}. Fit in one process, or use a kernel "
                "of joker.kernels."
            )

    @property
    def facts(self) -> dict[str, Any]:
        """All decisions that processes which fit one model must have in common."""
        common = [field.name for field in fields(self) if field.name not in OWN_FIELDS]
        return {**{name: getattr(self, name) for name in common}, "device": self.device.type}

    @property
    def columns(self) -> int:
        """The number t of columns, those of every λ included."""
        return self.targets * self.n_lams

    @property
    def block_rows(self) -> int:
        """The number b of rows in a block, at most."""
        return min(self.settings.block_size, self.rows)

    @cached_property
    def size(self) -> ProblemSize:
        """The size of the problem, with the constant among its features."""
        features = self.outline[0]
        return ProblemSize(
            loss=self.loss,
            rows=self.rows,
            columns=self.columns,
            n_features=None if features is None else features.n_features,
            block_size=self.settings.block_size,
            one_penalty=self.n_lams == 1,
            rank=self.rank,
            scale=self.scale,
            entries=self.entries,
            averaging=self.settings.averaging,
            momentum=self.settings.momentum,
            itemsize=self.dtype.itemsize,
            on_gpu=self.on_gpu,
            kernel_in_memory=self.kernel.precomputed,
        )

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU computes."""
        return self.device.type == "cuda"

    @property
    def full_kernel(self) -> Kernel:
        """The kernel with the constant of the intercept."""
        return KernelWithConstant(self.kernel) if self.intercept else self.kernel

    @cached_property
    def outline(self) -> tuple[FeatureMap | None, int]:
        """The feature map without its numbers, and the bytes that drawing it takes beside it."""
        if self.n_features is None:
            return None, 0
        size = (self.inputs, self.n_features)
        plain, drawing = feature_maps.outline(self.kernel, self.features, *size, dtype=self.dtype, device=self.device)
        return self._with_constant(plain), drawing

    def draw(self) -> FeatureMap | None:
        """Draw the feature map; None where the exact kernel is used."""
        if self.n_features is None:
            return None
        size, seed = (self.inputs, self.n_features), self.settings.seed
        return self._with_constant(
            feature_maps.draw(self.kernel, self.features, *size, seed, dtype=self.dtype, device=self.device)
        )

    def _with_constant(self, plain: FeatureMap) -> FeatureMap:
        return FeaturesWithConstant(plain, self.dtype.itemsize) if self.intercept else plain


@dataclass(frozen=True)
class RowReading:
    """What reading training rows takes."""

    row_bytes: int = 0  # that reading one row takes; 0 where a tile is a view
    order_bytes: int = 0  # of the random order of the rows; 0 where they are stored in random order
    place: str = "where they are"  # in words

    @classmethod
    def of(cls, x: Rows) -> RowReading:
        """Return what reading these rows takes."""
        return cls(x.row_bytes, 0 if x.shuffled else ORDER_BYTES * len(x))


def gaps(scratch: int, device: torch.device) -> int:
    """Return the freed scratch space that the C library cannot reuse at once; torch reuses all GPU memory.

    Pieces of more than 32 MB are returned to the system at once.
    """
    return 0 if device.type == "cuda" else min(max(scratch, MIN_GAPS), MAX_GAPS)


def without_gaps(free: int, device: torch.device) -> int:
    """Return the scratch space that, with its gaps, takes ``free`` bytes."""
    return free if device.type == "cuda" else free - min(max(free // 2, MIN_GAPS), MAX_GAPS)


def least_tile(work: Callable[[int], int], n: int) -> int:
    """Return the bytes of the smallest tile of n rows that is planned; ``work`` returns the bytes of any tile."""
    rows = bisect_right(range(1, ENOUGH_TILE_ROWS + 1), MAX_SMALL_TILE, key=work)
    return work(min(max(rows, MIN_TILE_ROWS), max(n, 1)))


@dataclass(frozen=True)
class Plan:
    """What a fit or a prediction holds in memory; ``print(plan)`` shows it as a table."""

    title: str  # the fit or prediction that is planned
    choice: str  # what was chosen, in a sentence or two
    items: tuple[Item, ...]
    device: torch.device  # whose memory is counted
    dtype: torch.dtype  # of the computation
    why_dtype: str = field(default="", kw_only=True)  # the reason for it
    budget: int | None  # bytes that the user allows; None without a budget
    scratch: int  # bytes that tiles and the features of a block may take
    block_size: int = 0  # rows in a block; 0 for a prediction
    part: int = 0  # features of a block that are held at a time; 0 with the exact kernel
    tile: int = 0  # rows of a tile
    kept_rows: int = 0  # of the kernel matrix, between steps
    landmarks: int = 0  # of a preconditioner
    rows_place: str = "where they are"
    alpha_place: str = ""  # where the dual variables α are
    host: bool = False  # whether the rows stay in host memory while a GPU computes

    def at(self, time: str) -> int:
        """Return the bytes held at a time."""
        return sum(item.at(time) for item in self.items)

    @cached_property
    def peak(self) -> str:
        """The time at which the most is held."""
        return max(TIMES, key=self.at)

    @cached_property
    def total(self) -> int:
        """The most bytes held at any time."""
        return self.at(self.peak)

    @property
    def is_small(self) -> bool:
        """Whether freed memory may stay with the process: it is little, and taking it again costs time."""
        return self.budget is None and self.total <= SMALL_BYTES

    @property
    def facts(self) -> dict[str, int | str | None]:
        """The plan as plain numbers and words, without its items."""
        sizes = ("block_size", "part", "tile", "kept_rows", "landmarks")
        names = (*sizes, "rows_place", "alpha_place", "scratch", "budget", "total")
        return {**{name: getattr(self, name) for name in names}, "dtype": f"{self.dtype}: {self.why_dtype}"}

    def __str__(self) -> str:
        lines = [(item.name, format_bytes(item.bytes), item.when) for item in self.items if item.bytes]
        most = self.peak if any(item.times for item in self.items) else ""
        lines.append(("in all, at most", format_bytes(self.total), most))
        lines.append(("memory", "auto" if self.budget is None else format_bytes(self.budget), ""))
        wide, long = (max(len(line[k]) for line in lines) for k in (0, 1))
        table = [f"  {name:<{wide}}  {size:>{long}}  {when}".rstrip() for name, size, when in lines]
        return "\n".join([self.title, *table, self.choice])


SMALL_BYTES = 2 * 10**8  # of a plan
CPU_LIBRARIES = 38 * 10**6  # bytes of code and buffers that torch, NumPy and BLAS load at their first use, measured
GPU_LIBRARIES = 72 * 10**6  # bytes: two work spaces of cuBLAS, 32 MiB each on a Hopper GPU
ENTRY_CHECK_BYTES = 18  # bytes an entry that checking the order of a sparse matrix takes
_LAST_PLANS: WeakKeyDictionary[Machine, tuple[tuple[object, ...], Plan]] = WeakKeyDictionary()  # of predictions
DECODING_BYTES = 32  # bytes held for each number while predictions become classes or probabilities


@dataclass(frozen=True, eq=False)
class PredictMemory:
    """The bytes that a prediction takes."""

    rows: int  # to predict
    inputs: int
    columns: int  # of the machine
    machine: Machine
    device: torch.device  # where it computes
    row_bytes: int  # that reading one row takes
    result_bytes: int  # of the result for one row
    data: tuple[Item, ...]  # what the caller holds: copies of rows
    rows_place: str  # in words
    host: bool = False  # whether the rows stay in host memory while a GPU computes

    @property
    def held(self) -> tuple[Item, ...]:
        """Everything except a tile."""
        result = Item("the result", self.rows * self.result_bytes)
        return (*self.data, result, Item("small items", SMALL_ITEMS))

    def tile_bytes(self, rows: int) -> int:
        """Return what a tile of some rows and its results take."""
        done = rows * (DECODING_BYTES * self.columns + self.result_bytes)
        return self.machine.tile_bytes(rows, self.row_bytes) + done

    @property
    def least(self) -> int:
        """The smallest budget that is sufficient."""
        tile = least_tile(self.tile_bytes, self.rows)
        return sum(item.bytes for item in self.held) + tile + gaps(tile, self.device)


def plan_predict(memory: PredictMemory, budget: int | None, scratch: int) -> Plan:
    """Return the plan of a prediction, or raise BudgetTooSmall with the smallest sufficient budget."""
    if budget is not None and memory.least > budget:
        raise BudgetTooSmall.naming(
            memory.least,
            f"everything that the prediction needs; {format_bytes(budget)} is given and it takes at least "
            f"{format_least(memory.least)}",
            ", or predict fewer rows at a time",
        )
    free = 0 if budget is None else budget - sum(item.bytes for item in memory.held)
    room = scratch if budget is None else without_gaps(free, memory.device)
    most = tile_bytes(room, memory.device)
    tile = max(1, bisect_right(range(1, memory.rows + 1), most, key=memory.tile_bytes))
    kind = str(memory.machine.dtype).removeprefix("torch.")
    return Plan(
        title=f"prediction of {memory.rows:,} rows of {memory.inputs:,} inputs, columns: {memory.columns:,}, "
        f"in {kind} on {memory.device}",
        choice=f"Rows stay {memory.rows_place}; tiles of {tile:,} rows.",
        items=(
            *memory.held,
            Item("a tile of rows", memory.tile_bytes(tile)),
            Item("gaps between pieces of memory", gaps(memory.tile_bytes(tile), memory.device)),
        ),
        device=memory.device,
        dtype=memory.machine.dtype,
        budget=budget,
        scratch=room,
        tile=tile,
        rows_place=memory.rows_place,
        host=memory.host,
    )


def plan_estimator_predict(
    machine: Machine,
    x: Any,
    result: NDArray[Any],
    *,
    copied: int,
    scaling: Scaling | None,
    budget: int | None,
    scratch: int,
) -> Plan:
    """Return the plan of a prediction whose result for one row is like ``result``.

    Dense batches of the same size and layout share one plan.
    """
    if not isinstance(x, np.ndarray):  # the plan of sparse rows depends on their entries
        return plan_predict(_predict_memory(machine, x, result, copied, scaling, budget), budget, scratch)
    key = (x.shape, x.dtype, x.flags.c_contiguous, result.shape, result.dtype, copied, budget, scratch, scaling is None)
    last = _LAST_PLANS.get(machine)
    if last is None or last[0] != key:
        memory = _predict_memory(machine, x, result, copied, scaling, budget)
        last = _LAST_PLANS[machine] = (key, plan_predict(memory, budget, scratch))
    return last[1]


def _predict_memory(
    machine: Machine, x: Any, result: NDArray[Any], copied: int, scaling: Scaling | None, budget: int | None
) -> PredictMemory:
    device = machine.constant.device
    on_gpu = device.type == "cuda"
    host = on_gpu and budget is not None
    items = [libraries(on_gpu)]
    if not on_gpu:
        items.append(Item("rows, as they are checked", copied))
        items.append(Item("copy of the rows", cast_bytes(x, machine.dtype) + check_bytes(x)))
    return PredictMemory(
        rows=x.shape[0],
        inputs=x.shape[1],
        columns=len(machine.constant),
        machine=machine,
        device=device,
        row_bytes=row_bytes_of(x, machine.dtype, device, copy=False, host=host, scaling=scaling),
        result_bytes=0 if on_gpu else result.nbytes,
        data=tuple(items),
        rows_place=rows_place(x, device, False, host),
        host=host,
    )


def rows_place(x: Any, device: torch.device, copied: bool, host: bool) -> str:
    """Return where the rows are during a computation, in words."""
    if isinstance(x, Rows) and not copied:
        return "in their file"
    if device.type == "cuda":
        return "in host memory" if host else "in GPU memory"
    return "in a copy that the machine keeps" if copied else "where they are, in your own array"


def libraries(on_gpu: bool) -> Item:
    """Return what libraries load at their first use."""
    return (
        Item("work space of cuBLAS", GPU_LIBRARIES) if on_gpu else Item("libraries, at their first use", CPU_LIBRARIES)
    )


def cast_bytes(x: Any, dtype: torch.dtype) -> int:
    """Return the bytes of the values of a sparse matrix in the computing type; dense rows are cast in tiles."""
    whole = whole_of(x)
    return int(whole.nnz * dtype.itemsize + 8 * (whole.shape[0] + 1)) if is_sparse(whole) else 0


def check_bytes(x: Any) -> int:
    """Return the bytes that checking the order of a sparse matrix takes."""
    whole = whole_of(x)
    return int(ENTRY_CHECK_BYTES * whole.nnz + 16 * whole.shape[0]) if is_sparse(whole) else 0
