"""Rows that an operation reads a slice at a time, and the selection of some rows of a tensor."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class SliceableRows(Protocol):
    """Rows whose slices are dense tensors; a tensor is one itself."""

    @property
    def shape(self) -> tuple[int, ...]: ...  # (n, d)
    @property
    def dtype(self) -> torch.dtype: ...
    def __getitem__(self, rows: slice, /) -> Tensor: ...  # (b, d)


def take(
    values: Tensor,  # (n, t)
    rows: Tensor,  # (b,)
) -> Tensor:  # (b, t)
    """Return some rows.

    On a GPU indexing takes a quarter less time than ``index_select`` for several columns, and more for one.
    """
    return values[rows] if values.is_cuda and values.shape[1] > 1 else values.index_select(0, rows)
