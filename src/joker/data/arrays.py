"""Rows of arrays, sparse matrices and tensors, as users pass them to an estimator."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.data.rows import HostRows, Rows, TensorRows, refuse_shared
from joker.data.scaling import Moments, Scaling, gather, moments, scaled, scaling_of
from joker.data.sparse import SparseRows, as_rows, dense_row_bytes, sparse_rows
from joker.data.store import StoreRows
from joker.runtime import chunks, free_bytes, parse_device
from joker.runtime.cuda_graphs import Upload
from joker.runtime.warning_filters import ignoring

GPU_SHARE = 0.5  # share of the free GPU memory that X may take; a larger X stays in host memory
FLOATS = [np.float64, np.float32]
# X keeps these types and is cast block by block; any other type becomes the first of them.
INPUT_DTYPES = [*FLOATS, np.float16, np.uint8, np.int16]


@dataclass(frozen=True, eq=False)
class RowSubset:
    """Some rows of an array or a CSR matrix, which is not copied."""

    whole: Any  # (n, d)
    rows: NDArray[np.intp]  # (k,)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of inputs."""
        return len(self.rows), self.whole.shape[1]

    @property
    def dtype(self) -> Any:
        """The stored type."""
        return self.whole.dtype

    def array(self, rows: slice | NDArray[Any]) -> Any:  # (b, d)
        """Return some rows as an array or a CSR matrix of their own."""
        return self.whole[self.rows[rows]]


def as_array(data: Any) -> Any:
    """Return a tensor as an array, or as a sparse matrix where it is sparse; return anything else unchanged."""
    if not isinstance(data, Tensor):
        return data
    data = data.detach().cpu()
    data = data.float() if data.dtype == torch.bfloat16 else data  # NumPy has no such type
    if data.layout == torch.strided:
        return data.numpy()
    rows = as_rows(data)
    assert isinstance(rows, SparseRows)
    from scipy.sparse import csr_array

    return csr_array((rows.values.numpy(), rows.columns.numpy(), rows.starts.numpy()), shape=rows.shape)


def device_of(X: Any, device: str | torch.device | None) -> torch.device:
    """Return the device to compute on: the one named, else that of a tensor, else the CPU."""
    return X.device if device is None and isinstance(X, Tensor) else parse_device(device)


def rows_of(
    x: Any, dtype: torch.dtype, device: torch.device, *, copy: bool, scaling: Scaling | None = None, host: bool = False
) -> Rows:
    """Return rows of a checked array, CSR matrix, subset of one, or row store, which are read in ``dtype``.

    With ``copy`` later changes of the user's data do not change them; else they are views where that is possible.
    With ``scaling`` inputs are shifted and divided, in float64 where the data are float64; sparse rows stay
    sparse where they are only divided. With ``host`` dense rows stay in host memory even where a GPU has room.
    """
    if scaling is not None and not scaling.moves and is_sparse(x):
        return rows_of(_divided(x, scaling, dtype), dtype, device, copy=copy)
    if scaling is not None:
        wide = _scaling_dtype(x, dtype)
        return scaled(rows_of(x, wide, device, copy=copy, host=host), scaling, dtype)
    narrowed = stored_type(x).itemsize > dtype.itemsize
    if copy and isinstance(x, StoreRows | RowSubset):
        x, copy = _gathered(x, dtype), False
    if isinstance(x, StoreRows):
        return x.like(dtype, device)
    if isinstance(x, RowSubset):
        return rows_of(x.whole, dtype, device, copy=False, host=host).some(torch.from_numpy(x.rows))
    if not _is_csr(x):
        return _dense(x, dtype, device, copy, host, narrowed)
    starts, columns, values = (_tensor(part).to(device, copy=copy) for part in (x.indptr, x.indices, x.data))
    return sparse_rows(starts, columns, values.to(dtype), x.shape[1])


def wide_rows(x: Any, dtype: torch.dtype, device: torch.device, scaling: Scaling | None) -> Rows | None:
    """Return the rows in float64 where rows that are read in ``dtype`` lose digits; None where they lose none."""
    if dtype == torch.float64 or (scaling is None and stored_type(x).itemsize <= dtype.itemsize):
        return None
    return rows_of(x, torch.float64, device, copy=False, scaling=scaling, host=True)


def row_bytes_of(
    x: Any, dtype: torch.dtype, device: torch.device, *, copy: bool, scaling: Scaling | None = None, host: bool = False
) -> int:
    """Return the ``row_bytes`` of the rows that `rows_of` makes, before anything is copied."""
    d, stored = x.shape[1], stored_type(x)
    if scaling is not None and (scaling.moves or not is_sparse(x)):
        wide = _scaling_dtype(x, dtype)
        cast = 0 if wide == dtype else dtype.itemsize
        return row_bytes_of(x, wide, device, copy=copy, host=host) + int(d * (wide.itemsize + cast))
    if isinstance(x, StoreRows) and not copy:
        return x.like(dtype, torch.device("cpu")).row_bytes
    if isinstance(x, RowSubset) and not copy:
        return max(row_bytes_of(x.whole, dtype, device, copy=False, host=host), int(d * dtype.itemsize))
    whole = whole_of(x)
    if _is_csr(whole):
        return dense_row_bytes(d, int(np.diff(whole.indptr).max(initial=0)), dtype.itemsize)
    on_gpu, same = device.type != "cpu", stored == str(dtype).removeprefix("torch.")
    if host and on_gpu:
        is_view = False
    elif copy or on_gpu:
        is_view = stored.itemsize >= dtype.itemsize  # larger numbers are cast as they are copied
    else:
        is_view = same and whole.flags.c_contiguous
    return 0 if is_view else int(d * (dtype.itemsize + stored.itemsize))


def whole_of(x: Any) -> Any:
    """Return the data that a subset is of, or the data itself."""
    return x.whole if isinstance(x, RowSubset) else x


def numbered_rows(x: Any) -> tuple[Tensor, NDArray[np.float64]]:  # (n, d), (k, 1)
    """Return the array that checked rows are of, as a tensor without a copy, and the number of each row in it."""
    numbers = x.rows if isinstance(x, RowSubset) else np.arange(x.shape[0])
    return _tensor(whole_of(x)), numbers[:, None].astype(np.float64)


def _is_csr(x: Any) -> bool:
    """Whether the data are a sparse matrix of SciPy; `import joker` must not load SciPy, and such a matrix has."""
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(x))


def is_sparse(x: Any) -> bool:
    """Whether the data are a CSR matrix, or a subset of one."""
    return _is_csr(whole_of(x))


def arrays_of(x: Any) -> tuple[Any, ...]:
    """Return the arrays that identify the data, without what SciPy caches on a matrix, and its shape."""
    if isinstance(x, RowSubset):
        return (*arrays_of(x.whole), x.rows)
    if isinstance(x, StoreRows):
        return x.section.checksums, x.start, x.stop
    return (x.indptr, x.indices, x.data, x.shape) if _is_csr(x) else (x,)


def stored_type(x: Any) -> np.dtype[Any]:
    """Return the type in which the data are stored, in memory or on disk."""
    return x.section.dtype if isinstance(x, StoreRows) else x.dtype


def input_statistics(x: Any, w: NDArray[np.float64] | None) -> Scaling:
    """Return the mean and the standard deviation of each input; a whole store has them in its header."""
    if w is None and isinstance(x, StoreRows) and x.scaling is not None:
        return x.scaling
    rows = rows_of(x, torch.float64, torch.device("cpu"), copy=False)
    return scaling_of(rows, None if w is None else torch.from_numpy(w))


def pick(x: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows as an array or a CSR matrix of their own."""
    return x.array(rows) if isinstance(x, RowSubset | StoreRows) else x[rows]


def copied_bytes(given: Any, checked: Any) -> int:
    """Return the bytes of the copy that validation has made; 0 where it has made none."""
    if isinstance(checked, Rows):
        return 0
    before, after = (getattr(data, "data", None) if _is_csr(data) else data for data in (as_array(given), checked))
    if isinstance(before, np.ndarray) and np.may_share_memory(before, after):
        return 0
    assert after is not None  # a dictionary-of-keys matrix has no such array, but it has become a CSR matrix
    return int(after.nbytes + (checked.indices.nbytes if _is_csr(checked) else 0))


def materialised(x: Any) -> Any:
    """Return the data as an array or a CSR matrix: a subset as a copy."""
    return x.array(slice(None)) if isinstance(x, RowSubset) else x


def cast_row_bytes(x: Any) -> int:
    """Return the bytes of a row that has to be made dense or cast, at most; 0 where it is read as it is."""
    return 8 * x.shape[1] if is_sparse(x) or x.dtype not in FLOATS else 0


def _scaling_dtype(x: Any, dtype: torch.dtype) -> torch.dtype:
    """Return the type to scale in: a float32 z-score of float64 data is computed in float64."""
    return torch.float64 if stored_type(x) == np.float64 else dtype


def _gathered(x: RowSubset | StoreRows, dtype: torch.dtype) -> Any:
    """Return a subset, or a store, as an array of its own, in ``dtype`` where that is smaller."""
    if isinstance(whole := whole_of(x), StoreRows):
        refuse_shared(whole)
    if is_sparse(x) or stored_type(x).itemsize <= dtype.itemsize:
        return x.array(slice(None))
    gathered = np.empty(x.shape, dtype=str(dtype).removeprefix("torch."))
    for few in chunks(*x.shape):
        with np.errstate(over="ignore"):  # _finite finds the values that are infinite now
            gathered[few] = x.array(few)
    return gathered


def _dense(x: NDArray[Any], dtype: torch.dtype, device: torch.device, copy: bool, host: bool, narrowed: bool) -> Rows:
    """Return rows in their stored type, or in ``dtype`` where that is smaller and they are copied anyway."""
    stored = _tensor(x)
    if copy or device.type != "cpu":
        smaller = stored.element_size() < dtype.itemsize
        large = x.size * min(dtype.itemsize, stored.element_size()) > GPU_SHARE * free_bytes(device)
        if large or (host and device.type != "cpu"):
            return _finite(HostRows(stored.clone() if copy else stored, Upload(device), dtype), narrowed)
        stored = stored.to(device, stored.dtype if smaller else dtype, copy=copy).contiguous()
    return _finite(TensorRows(stored, None if stored.dtype == dtype else dtype), narrowed)


def _finite(rows: HostRows | TensorRows, narrowed: bool) -> Rows:
    """Return rows that need no further check; a finite float64 may be infinite in float32."""
    if narrowed:
        rows.check("X")
    return replace(rows, checked=True)


def _divided(x: Any, scaling: Scaling, dtype: torch.dtype) -> Any:
    """Return a CSR matrix, or a subset of one, with each column divided; the indices are shared."""
    if isinstance(x, RowSubset):
        return RowSubset(_divided(x.whole, scaling, dtype), x.rows)
    factor = scaling.factor(torch.float64).numpy()
    values = np.empty(len(x.data), dtype=str(dtype).removeprefix("torch."))
    for few in chunks(len(values)):
        values[few] = x.data[few] * factor[x.indices[few]]
    from scipy.sparse import csr_array

    return csr_array((values, x.indices, x.indptr), shape=x.shape)


def _tensor(x: NDArray[Any]) -> Tensor:
    """Return a view of an array, or a copy where torch has no view of it, such as with negative strides."""
    with ignoring("The given NumPy array is not writable"):  # nobody writes to it here
        try:
            return torch.from_numpy(x)
        except (TypeError, ValueError):
            return torch.from_numpy(x.copy())


# The constants separate the sets of benchmarks/standardize.py on which z-scores help from those on which they do harm.
MAX_DEVIATION_RATIO = 3.0  # largest deviation over the smallest one
MIN_RANGE = 0.5  # share of the largest range that the range of an input has, where inputs have a common range
MIN_INPUTS = 0.9  # share of inputs that have it: some pixels of images are almost always 0
SAMPLE_ROWS = 65_536  # the decision is made on at most so many rows


def have_common_scale(x: Any, w: NDArray[np.float64] | None) -> bool:  # (n, d), (n,)
    """Whether checked rows are sparse, or their inputs have about the same deviation or about the same range.

    Constant inputs, and rows of weight 0, do not count. Of many rows, an evenly spaced sample decides; rows of a store
    are in random order, and its first ones decide.
    """
    if is_sparse(x):
        return True
    n, d = x.shape
    rows = np.arange(min(n, SAMPLE_ROWS))
    if not isinstance(x, StoreRows):
        rows = rows * n // len(rows)
    found = gather((_moments(x, w, rows[few]) for few in chunks(len(rows), d)), d)
    varies = found.low < found.high
    deviation, span = found.deviation[varies], (found.high - found.low)[varies]
    if len(span) < 2:
        return True
    same_range = (span >= MIN_RANGE * span.max()).double().mean() >= MIN_INPUTS
    return bool(same_range or deviation.max() <= MAX_DEVIATION_RATIO * deviation.min())


def _moments(x: Any, w: NDArray[np.float64] | None, rows: NDArray[np.intp]) -> Moments:
    some = pick(x, rows).astype(np.float64)
    return moments(torch.from_numpy(some), None if w is None else torch.from_numpy(w[rows]))
