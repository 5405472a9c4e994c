"""ΨΨᵀ and ΨᵀΨ in bfloat16 on tensor cores, where their last digits do not matter."""

from __future__ import annotations

import torch
from torch import Tensor

TENSOR_CORE_MULTIPLE = 16  # numbers: tensor cores are fastest where the sides of a matrix are multiples of it
MIN_FEATURES = 4_096  # with at least as many, the rounding errors of single features average out


def rounds(dtype: torch.dtype, device: torch.device, m: int) -> bool:
    """Whether the product of m features is computed from features that are rounded to bfloat16."""
    return device.type == "cuda" and dtype == torch.float32 and m >= MIN_FEATURES


def low_gram(
    low: Tensor,  # (b', m)
    b: int,
) -> Tensor:  # (b, b)
    """Return ΨΨᵀ of the first b rows of features in bfloat16, summed in float32.

    The error of an entry is that of m independent roundings of 2⁻⁹, so about 2⁻⁹/√m of the largest
    entry; and the matrix is that of rounded features, so it stays positive semidefinite.
    """
    return torch.mm(low, low.T, out_dtype=torch.float32)[:b, :b]


def features_gram(psi: Tensor) -> Tensor:  # (b, m) -> (m, m)
    """Return ΨᵀΨ; on tensor cores as a sum of products of bfloat16 numbers.

    A feature is the sum of two bfloat16 numbers, with an error of 2⁻¹⁷. The product of the two smaller parts is below
    that and is left out.
    """
    if not rounds(psi.dtype, psi.device, psi.shape[1]):
        return psi.T @ psi
    high = psi.to(torch.bfloat16)
    low = (psi - high).to(torch.bfloat16)
    gram = torch.mm(high.T, low, out_dtype=torch.float32)
    gram = gram + gram.T
    return gram.add_(torch.mm(high.T, high, out_dtype=torch.float32))
