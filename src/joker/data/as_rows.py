"""Tensors as Rows: dense and sparse tensors are checked and wrapped; anything else raises InvalidData."""

from __future__ import annotations

import torch
from torch import Tensor

from joker.data.rows import Rows, TensorRows
from joker.data.sparse import sparse_rows
from joker.data.validation import check_finite, check_floating, check_tensor
from joker.errors import InvalidData


def as_rows(x: Tensor | Rows, what: str = "X") -> Rows:  # (n, d)
    """Return ``x`` as Rows, detached from any gradient; it must be a finite matrix in float32 or float64.

    Parameters
    ----------
    x : Tensor or Rows
        The rows.
    what : str
        The name of the rows in messages.

    Returns
    -------
    Rows
        The rows.

    Examples
    --------
    >>> import torch
    >>> from joker.data import as_rows
    >>> as_rows(torch.zeros(3, 2)).shape
    (3, 2)
    """
    if not isinstance(x, Rows):
        return _wrap(x, what)
    x.check(what)
    return x


def check_rows(x: Tensor | Rows, what: str = "X") -> Rows:  # (n, d)
    """Return ``x`` as Rows; it must also have at least one row and one input.

    Parameters
    ----------
    x : Tensor or Rows
        The rows.
    what : str
        The name of the rows in messages.

    Returns
    -------
    Rows
        The rows.

    Examples
    --------
    >>> import torch
    >>> from joker.data import check_rows
    >>> check_rows(torch.zeros(3, 2)).shape
    (3, 2)
    """
    rows = as_rows(x, what)
    if 0 in rows.shape:
        raise InvalidData(f"{what} must have at least one row and one input; got shape {rows.shape}. Add data.")
    return rows


def _wrap(x: Tensor, what: str) -> Rows:
    if isinstance(x, Tensor) and x.layout in _SPARSE and x.dim() == 2:
        return _SPARSE[x.layout](x.detach(), what)
    check_tensor(x, what)
    if x.dim() != 2:
        remedy = f"Use {what}[:, None] for one input." if x.dim() == 1 else "Reshape it."
        raise InvalidData(f"{what} must have two dimensions, rows and inputs; got shape {tuple(x.shape)}. {remedy}")
    check_floating(x, what)
    check_finite(x, what)
    return TensorRows(x.detach(), checked=True)


def _from_csr(x: Tensor, what: str) -> Rows:
    return sparse_rows(x.crow_indices(), x.col_indices(), x.values(), x.shape[1], what)


def _from_coo(x: Tensor, what: str) -> Rows:
    x = x.coalesce()
    rows, columns = x.indices()
    ends = torch.bincount(rows, minlength=x.shape[0]).cumsum(0)
    return sparse_rows(torch.cat([ends.new_zeros(1), ends]), columns, x.values(), x.shape[1], what)


_SPARSE = {torch.sparse_csr: _from_csr, torch.sparse_coo: _from_coo}
