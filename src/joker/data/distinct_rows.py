"""Which rows differ from one another, found without holding them all."""

from __future__ import annotations

import torch
from torch import Tensor

from joker.data.rows import Rows
from joker.runtime import generator

MOST_ENTRIES = 2**16  # looked at in one go


def distinct(x: Rows) -> Tensor:  # (k,)
    """Return the number of one row of each set of equal ones, in an order that does not depend on that of the rows.

    Rows are told apart by a mark of 64 bits. Two that differ have the same one, and are taken for
    equal, with a chance so small that it matters to nothing that is read off many rows.
    """
    if len(x) == 0:
        return torch.zeros(0, dtype=torch.int64, device=x.device)
    factors = torch.randint(-(2**63), 2**63 - 1, (x.shape[1],), generator=generator(0, "distinct")) | 1
    factors = factors.to(x.device)
    few = max(1, MOST_ENTRIES // x.shape[1])
    marks = torch.empty(len(x), dtype=torch.int64, device=x.device)
    for start in range(0, len(x), few):
        marks[start : start + few] = _marks(x[start : start + few], factors)
    found, group = torch.unique(marks, return_inverse=True)
    numbers = torch.arange(len(x), device=x.device)
    return torch.zeros_like(found).scatter_reduce_(0, group, numbers, "amin", include_self=False)


def _marks(
    x: Tensor,  # (b, d)
    factors: Tensor,  # (d,)
) -> Tensor:  # (b,)
    """Return a sum of the bits of a row with a factor for each input, modulo 2⁶⁴: exact in any order."""
    bits = (x.double() + 0.0).view(torch.int64)  # + 0.0: the two zeros are equal
    return (bits ^ (bits >> 32) ^ (bits >> 52)).mul_(factors).sum(1)
