"""The fast Walsh–Hadamard transform."""

from __future__ import annotations

import torch
from torch import Tensor

from joker.errors import InvalidParameter


def hadamard(
    x: Tensor,  # (..., k)
) -> Tensor:  # (..., k)
    """Return H x along the last axis, in O(k log k), with Sylvester's H of order k = 2^q.

    H₁ = 1 and H₂ₖ = [[Hₖ, Hₖ], [Hₖ, −Hₖ]]: the entries are ±1 and H Hᵀ = k I. Sums and
    differences only, so the precision setting of matrix products has no effect on it.
    Besides ``x`` it holds two tensors of its size, one of them the result.

    >>> hadamard(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10., -2., -4.,  0.])
    """
    k = x.shape[-1]
    if k < 1 or k & (k - 1):
        raise InvalidParameter(f"the last axis must have a power of two entries; got {k}. Pad it with zeros.")
    if k == 1:
        return x.clone()
    source = x.contiguous()
    target, spare = torch.empty_like(source), torch.empty_like(source)  # x itself is not changed
    half = 1
    while half < k:
        a, b = source.view(-1, 2, half).unbind(1)
        sums, differences = target.view(-1, 2, half).unbind(1)
        torch.add(a, b, out=sums)
        torch.sub(a, b, out=differences)
        source, target, spare = target, spare, target
        half *= 2
    return source
