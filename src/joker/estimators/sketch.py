"""Rows that tell how data will be handed out before any of it is copied: what a plan asks."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from joker.data import HostRows, Rows, ScaledRows, Scaling, SparseRows, StoreRows, TensorRows
from joker.estimators.inputs import RowSubset, is_sparse, stored_type
from joker.runtime.upload import Upload

_CPU = torch.device("cpu")


def sketch_of(
    x: Any, dtype: torch.dtype, device: torch.device, *, copy: bool, host: bool, scaling: Scaling | None
) -> Rows:
    """Rows with the ``row_bytes`` of those that :func:`joker.estimators.inputs.rows_of` makes; not to be read.

    With ``host`` they are those that stay in the memory of the host while a card computes.
    """
    if scaling is not None and (scaling.moves or not is_sparse(x)):
        wide = torch.float64 if stored_type(x) == np.float64 else dtype
        below = sketch_of(x, wide, device, copy=copy, host=host, scaling=None)
        return ScaledRows(below, scaling.mean, scaling.mean, dtype)
    if isinstance(x, StoreRows):
        return _dense(stored_type(x), x.shape[1], True, dtype, True, False) if copy else x.like(dtype, _CPU)
    if isinstance(x, RowSubset):
        whole = sketch_of(x.whole, dtype, device, copy=copy, host=host, scaling=None)
        return whole if copy else whole.some(torch.zeros(0, dtype=torch.int64))
    if sp.issparse(x):
        nothing = torch.zeros(0, dtype=dtype)
        return SparseRows(torch.from_numpy(x.indptr.astype(np.int64)), nothing, nothing, x.shape[1])
    card = device.type != "cpu"
    return _dense(x.dtype, x.shape[1], x.flags.c_contiguous, dtype, copy or card, host and card)


def _dense(stored: np.dtype[Any], d: int, ordered: bool, dtype: torch.dtype, copy: bool, host: bool) -> Rows:
    kind = torch.from_numpy(np.empty(0, dtype=stored)).dtype
    if host:
        return HostRows(torch.empty(0, d, dtype=kind), Upload(_CPU), dtype)
    if copy and kind.itemsize >= dtype.itemsize:
        kind = dtype
    kept = torch.empty(2, d if copy or ordered else 2 * d, dtype=kind)[:, :d]
    return TensorRows(kept, None if kind == dtype else dtype)
