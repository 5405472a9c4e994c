"""Distinct rows, found in bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor

from joker.data.rows import Rows
from joker.runtime import generator

HASHED_ENTRIES = 2**16  # of the rows that are hashed at a time


def distinct(x: Rows) -> Tensor:  # (k,)
    """Return the number of one row of each group of equal rows; their order does not depend on the order of the rows.

    Rows are compared by a hash of 64 bits. Two different rows with the same hash are taken to be equal; the probability
    is negligible for statistics over many rows.

    Parameters
    ----------
    x : Rows
        The rows.

    Returns
    -------
    Tensor
        The numbers of the rows.

    Examples
    --------
    >>> import torch
    >>> from joker.data import as_rows, distinct
    >>> len(distinct(as_rows(torch.tensor([[1.0], [2.0], [1.0]]))))
    2
    """
    if len(x) == 0:
        return torch.zeros(0, dtype=torch.int64, device=x.device)
    factors = torch.randint(-(2**63), 2**63 - 1, (x.shape[1],), generator=generator(0, "distinct")) | 1
    factors = factors.to(x.device)
    step = max(1, HASHED_ENTRIES // x.shape[1])
    hashes = torch.empty(len(x), dtype=torch.int64, device=x.device)
    for start in range(0, len(x), step):
        hashes[start : start + step] = _hash(x[start : start + step], factors)
    unique, group = torch.unique(hashes, return_inverse=True)
    numbers = torch.arange(len(x), device=x.device)
    return torch.zeros_like(unique).scatter_reduce_(0, group, numbers, "amin", include_self=False)


def _hash(x: Tensor, factors: Tensor) -> Tensor:  # (b, d), (d,) -> (b,)
    """Return Σ_j factor_j · bits of x_j modulo 2⁶⁴ for each row, which is exact in any order of summation."""
    bits = (x.double() + 0.0).view(torch.int64)  # + 0.0 turns -0.0 into 0.0
    return (bits ^ (bits >> 32) ^ (bits >> 52)).mul_(factors).sum(1)
