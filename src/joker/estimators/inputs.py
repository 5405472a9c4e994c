"""From what users call data to what the library does: arrays, sparse matrices and tensors into rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from joker.data import HostRows, Rows, SparseRows, TensorRows, as_rows, sparse_rows
from joker.runtime import Upload, free_bytes, parse_device

HALF = 0.5  # of what is free on a card: larger X stays on the host and is copied block by block


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


def rows_of(x: Any, dtype: torch.dtype, device: torch.device, *, copy: bool) -> Rows:
    """Rows of a checked array or CSR matrix; with ``copy`` what becomes of the user's data does not change them."""

    def tensor(part: Any, kind: torch.dtype | None = None) -> Tensor:
        if copy:
            return torch.tensor(part, dtype=kind, device=device)
        return torch.from_numpy(np.require(part, requirements="W")).to(device, kind)  # torch takes no read-only array

    if not sp.issparse(x) and x.size * dtype.itemsize > HALF * free_bytes(device):
        return HostRows(torch.tensor(x, dtype=dtype), Upload(device), dtype)
    if sp.issparse(x):
        return sparse_rows(tensor(x.indptr), tensor(x.indices), tensor(x.data, dtype), x.shape[1])
    return TensorRows(tensor(x, dtype))


def parts_of(x: Any) -> tuple[Any, ...]:
    """The arrays that an array or a CSR matrix consists of, without what SciPy remembers of them, and its shape."""
    return (x.indptr, x.indices, x.data, x.shape) if sp.issparse(x) else (x,)


def dense_row_bytes(x: Any) -> int:
    """The bytes of a row that has to be made dense, at most; 0 where it is."""
    return 8 * x.shape[1] if sp.issparse(x) else 0


def _matrix(rows: Rows) -> Any:
    assert isinstance(rows, SparseRows)
    parts = (rows.values.numpy(), rows.columns.numpy(), rows.starts.numpy())
    return sp.csr_array(parts, shape=rows.shape)
