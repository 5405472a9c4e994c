"""From what users call data to what the library does: arrays, sparse matrices and tensors into rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.data import (
    HostRows,
    Rows,
    Scaling,
    SparseRows,
    StoreRows,
    TensorRows,
    as_rows,
    scaled,
    scaling_of,
    sparse_rows,
)
from joker.runtime import chunks, free_bytes, parse_device
from joker.runtime.upload import Upload

HALF = 0.5  # of what is free on a card: larger X stays on the host and is copied block by block
FLOATS = [np.float64, np.float32]
# Types that are kept as they are and cast as rows are handed out; what is none of them becomes the first.
INPUT_DTYPES = [*FLOATS, np.float16, np.uint8, np.int16]


@dataclass(frozen=True, eq=False)
class RowSubset:
    """Some rows of an array or a CSR matrix, which is not copied."""

    whole: Any  # (n, d)
    rows: NDArray[np.intp]  # (k,)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and inputs."""
        return len(self.rows), self.whole.shape[1]

    @property
    def dtype(self) -> Any:
        """The type that the rows are kept in."""
        return self.whole.dtype


def as_array(data: Any) -> Any:
    """A tensor as an array, or as a sparse matrix where it is sparse; anything else as it is."""
    if not isinstance(data, Tensor):
        return data
    data = data.detach().cpu()
    data = data.float() if data.dtype == torch.bfloat16 else data  # NumPy has no such type
    return data.numpy() if data.layout == torch.strided else _matrix(as_rows(data))


def place_of(X: Any, device: str | torch.device | None) -> torch.device:
    """Where to compute: as told, else where a tensor lies, else on the CPU."""
    return X.device if device is None and isinstance(X, Tensor) else parse_device(device)


def rows_of(
    x: Any,
    dtype: torch.dtype,
    device: torch.device,
    *,
    copy: bool,
    scaling: Scaling | None = None,
    host: bool = False,
) -> Rows:
    """Rows of a checked array or CSR matrix, or of a part of it, to be handed out in ``dtype``.

    With ``copy`` what becomes of the user's data does not change them; else they are views where that is possible.
    With ``scaling`` inputs are z-scores, or divided by their bandwidths, in float64 where the data are that; sparse
    rows stay sparse where they are only divided. With ``host`` dense rows stay in the memory of the host even where
    a card has room for them.
    """
    if scaling is not None and not scaling.moves and is_sparse(x):
        return rows_of(_divided(x, scaling, dtype), dtype, device, copy=copy)
    if scaling is not None:
        wide = torch.float64 if stored_type(x) == np.float64 else dtype
        return scaled(rows_of(x, wide, device, copy=copy, host=host), scaling, dtype)
    if isinstance(x, RowSubset):
        if copy:
            return rows_of(x.whole[x.rows], dtype, device, copy=False, host=host)
        return rows_of(x.whole, dtype, device, copy=False, host=host).some(torch.from_numpy(x.rows))
    if isinstance(x, StoreRows):
        return _dense(x.array(slice(None)), dtype, device, False, host) if copy else x.like(dtype, device)
    return _sparse(x, dtype, device, copy) if sp.issparse(x) else _dense(x, dtype, device, copy, host)


def whole_of(x: Any) -> Any:
    """What a part is of, or else the data itself."""
    return x.whole if isinstance(x, RowSubset) else x


def is_sparse(x: Any) -> bool:
    """Whether data are a CSR matrix, or a part of one."""
    return bool(sp.issparse(whole_of(x)))


def parts_of(x: Any) -> tuple[Any, ...]:
    """The arrays that an array or a CSR matrix consists of, without what SciPy remembers of them, and its shape."""
    if isinstance(x, RowSubset):
        return (*parts_of(x.whole), x.rows)
    if isinstance(x, StoreRows):
        return x.section.checksums, x.start, x.stop
    return (x.indptr, x.indices, x.data, x.shape) if sp.issparse(x) else (x,)


def stored_type(x: Any) -> np.dtype[Any]:
    """The type that data are kept in, in memory or on a disk."""
    return x.section.dtype if isinstance(x, StoreRows) else x.dtype


def figures_of(x: Any, w: NDArray[np.float64] | None) -> Scaling:
    """The mean and the deviation of each input; those of a whole store are known."""
    if w is None and isinstance(x, StoreRows) and x.scaling is not None:
        return x.scaling
    rows = rows_of(x, torch.float64, torch.device("cpu"), copy=False)
    return scaling_of(rows, None if w is None else torch.from_numpy(w))


def pick(x: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows, as an array or a CSR matrix of their own."""
    return x.array(rows) if isinstance(x, StoreRows) else x[rows]


def copied_bytes(given: Any, checked: Any) -> int:
    """The bytes of the copy that checking the rows has made, where it has made one."""
    if isinstance(checked, Rows):
        return 0
    before, after = (getattr(data, "data", None) if sp.issparse(data) else data for data in (as_array(given), checked))
    if isinstance(before, np.ndarray) and np.may_share_memory(before, after):
        return 0
    assert after is not None  # a dictionary of keys has no such array, but it has become a CSR matrix
    return int(after.nbytes + (checked.indices.nbytes if sp.issparse(checked) else 0))


def materialised(x: Any) -> Any:
    """The data as an array or a CSR matrix: a part of it as a copy."""
    return x.whole[x.rows] if isinstance(x, RowSubset) else x


def dense_row_bytes(x: Any) -> int:
    """The bytes of a row that has to be made dense or to be cast, at most; 0 where it is handed out as it is."""
    whole = x.whole if isinstance(x, RowSubset) else x
    return 8 * x.shape[1] if sp.issparse(whole) or x.dtype not in FLOATS else 0


def _dense(x: NDArray[Any], dtype: torch.dtype, device: torch.device, copy: bool, host: bool) -> Rows:
    """Rows in the type they have, or in ``dtype`` where that is smaller and they are copied anyway."""
    kept = _tensor(x)
    if copy or device.type != "cpu":
        smaller = kept.element_size() < dtype.itemsize
        large = x.size * min(dtype.itemsize, kept.element_size()) > HALF * free_bytes(device)
        if large or (host and device.type != "cpu"):
            return HostRows(kept.clone() if copy else kept, Upload(device), dtype)
        kept = kept.to(device, kept.dtype if smaller else dtype, copy=copy).contiguous()
    return TensorRows(kept, None if kept.dtype == dtype else dtype)


def _sparse(x: Any, dtype: torch.dtype, device: torch.device, copy: bool) -> Rows:
    starts, columns, values = (_tensor(part).to(device, copy=copy) for part in (x.indptr, x.indices, x.data))
    return sparse_rows(starts, columns, values.to(dtype), x.shape[1])


def _divided(x: Any, scaling: Scaling, dtype: torch.dtype) -> Any:
    """A CSR matrix, or a part of one, with each column divided: its places are those of the original."""
    if isinstance(x, RowSubset):
        return RowSubset(_divided(x.whole, scaling, dtype), x.rows)
    factor = scaling.factor(torch.float64).numpy()
    values = np.empty(len(x.data), dtype=str(dtype).removeprefix("torch."))
    for few in chunks(len(values)):
        values[few] = x.data[few] * factor[x.indices[few]]
    return sp.csr_array((values, x.indices, x.indptr), shape=x.shape)


def _tensor(x: NDArray[Any]) -> Tensor:
    """A view of an array; a copy where torch cannot view it, such as one that is turned around."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to it here
        try:
            return torch.from_numpy(x)
        except (TypeError, ValueError):
            return torch.from_numpy(x.copy())


def _matrix(rows: Rows) -> Any:
    assert isinstance(rows, SparseRows)
    parts = (rows.values.numpy(), rows.columns.numpy(), rows.starts.numpy())
    return sp.csr_array(parts, shape=rows.shape)
