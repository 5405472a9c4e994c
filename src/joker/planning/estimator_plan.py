"""The memory of a fit or a prediction of an estimator: what its data take beside the solver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from joker.data import Rows, Scaling
from joker.data.array_rows import row_bytes_of, stored_type, whole_of
from joker.models import Machine
from joker.planning.fit import FitMemory, plan_fit
from joker.planning.fit_spec import ORDER_BYTES, FitSpec, RowReading
from joker.planning.plan import LAYOUT, Item, Plan
from joker.planning.predict import PredictMemory, plan_predict

CPU_LIBRARIES = 38 * 10**6  # bytes of code and buffers that torch, NumPy and BLAS load at their first use, measured
GPU_LIBRARIES = 72 * 10**6  # bytes: two work spaces of cuBLAS, 32 MiB each on a Hopper GPU
READING = 12 * 10**6  # bytes: rows and targets are checked in chunks, and a bandwidth is chosen on a sample
SPLIT_BYTES = 80  # bytes a row that scikit-learn takes to choose the held-out rows
ENTRY_CHECK_BYTES = 18  # bytes an entry that checking the order of a sparse matrix takes
_LAST_PLANS: WeakKeyDictionary[Machine, tuple[tuple[object, ...], Plan]] = WeakKeyDictionary()  # of predictions


class TrainingData(Protocol):
    """The rows of a fit with their targets, as an estimator encodes them."""

    @property
    def x(self) -> Any:
        """Rows (n, d): an array, a CSR matrix, a subset of one, or rows of a store."""

    @property
    def y(self) -> NDArray[Any]:
        """Encoded targets (n, t)."""

    @property
    def w(self) -> NDArray[Any] | None:
        """Weights (n,)."""

    @property
    def copied(self) -> int:
        """Bytes of the copy that validation has made."""

    @property
    def held_out(self) -> int:
        """Rows of the same data that are held out."""

    @property
    def label_bytes(self) -> int:
        """Bytes of a class label; 0 where targets are numbers."""


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
        rows_place(x, spec.device, exact, host),
    )
    return FitMemory(spec, reading, _on_gpu(spec, data) if spec.on_gpu else _in_memory(spec, data))


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
    items = [_libraries(on_gpu)]
    if not on_gpu:
        items.append(Item("rows, as they are checked", copied))
        items.append(Item("copy of the rows", _cast_bytes(x, machine.dtype) + _check_bytes(x)))
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


def _in_memory(spec: FitSpec, data: TrainingData) -> tuple[Item, ...]:
    """Return what the data of a fit take on the CPU."""
    x, n, itemsize, exact = data.x, spec.rows, spec.dtype.itemsize, spec.n_features is None
    all_rows = n + data.held_out
    held_out = 0 if isinstance(x, Rows) else data.held_out  # a store holds out its last rows without a copy
    row_numbers = 8 * n if held_out else 0
    encoding = all_rows * (2 * data.label_bytes + 10 + spec.targets) if data.label_bytes else 0
    items = [
        _libraries(on_gpu=False),
        Item("rows, as they are checked", data.copied),
        Item("copy of the rows", _copy_bytes(x, spec.dtype) if exact else _cast_bytes(x, spec.dtype)),
        Item("targets", _target_bytes(spec, data) + (all_rows if data.label_bytes else 0)),
        Item("reading the data", READING + _check_bytes(x) + encoding, (LAYOUT,)),
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
        _libraries(on_gpu=True),
        Item("targets", n * columns * (1 if data.y.itemsize == 1 else itemsize)),
    ]
    reading = READING
    if not (spec.rows_on_host or isinstance(x, Rows)):
        dense = whole.shape[0] * whole.shape[1] * _copied_itemsize(whole, spec.dtype)
        items.append(Item("rows", _copy_bytes(whole, spec.dtype) if sp.issparse(whole) else dense))
        reading += _check_bytes(whole)
    if data.held_out and not spec.rows_on_host:
        items.append(Item("numbers of the training rows", 8 * n))
    if data.w is not None:
        items.append(Item("weights", itemsize * n))
    return (*items, Item("reading the data", reading, (LAYOUT,)))


def _libraries(on_gpu: bool) -> Item:
    if on_gpu:
        return Item("work space of cuBLAS", GPU_LIBRARIES)
    return Item("libraries, at their first use", CPU_LIBRARIES)


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
    if sp.issparse(whole):
        return int(whole.nnz * (whole.dtype.itemsize + whole.indices.itemsize) / max(1, whole.shape[0])) + 9
    return int(whole.shape[1] * whole.dtype.itemsize)


def _copy_bytes(x: Any, dtype: torch.dtype) -> int:
    """Return the bytes of a copy of the rows, in their own type where that is smaller."""
    whole = whole_of(x)
    if sp.issparse(whole):
        return int(whole.nnz * (whole.indices.itemsize + whole.dtype.itemsize + dtype.itemsize) + 8 * (x.shape[0] + 1))
    copies = 1 if isinstance(whole, Rows) or whole.flags.c_contiguous else 2
    return int(copies * x.shape[0] * x.shape[1] * _copied_itemsize(whole, dtype))


def _cast_bytes(x: Any, dtype: torch.dtype) -> int:
    """Return the bytes of the values of a sparse matrix in the computing type; dense rows are cast in tiles."""
    whole = whole_of(x)
    return int(whole.nnz * dtype.itemsize + 8 * (whole.shape[0] + 1)) if sp.issparse(whole) else 0


def _check_bytes(x: Any) -> int:
    whole = whole_of(x)
    return int(ENTRY_CHECK_BYTES * whole.nnz + 16 * whole.shape[0]) if sp.issparse(whole) else 0
