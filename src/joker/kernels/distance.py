"""Squared Euclidean distances by one matrix product, with the rounding kept in hand, and exponentials of distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SMALLEST = 0.7  # of the exponent of the smallest normal number: e⁻⁶¹ in float32, e⁻⁴⁹⁶ in float64


def decay(
    s: Tensor,  # (b, k)
) -> Tensor:  # (b, k)
    """Return exp(−s), in place.

    What is too small to count stays a normal number: where rows are far apart in bandwidths, a matrix full of
    subnormal ones takes a CPU twenty times as long to make and to multiply.
    """
    return s.neg_().clamp_(min=SMALLEST * math.log(torch.finfo(s.dtype).tiny)).exp_()


def squared_distance(
    x: Tensor,  # (b, d)
    z: Tensor,  # (k, d)
    scale: float = 1.0,
    dtype: torch.dtype | None = None,
) -> Tensor:  # (b, k)
    """Return ‖x_i − z_j‖² / scale² = (‖x_i‖² + ‖z_j‖² − 2⟨x_i, z_j⟩) / scale², in ``dtype`` or that of x.

    The three terms cancel when x_i is near z_j, and what is left is wrong by about
    ε(‖x_i‖² + ‖z_j‖²). Two things keep that small: distances do not change when both
    sides are moved by the mean of z, which makes the norms as short as they can be; and
    the norms are taken smaller by a few ε, so that what rounding leaves of a zero falls
    below zero and is clamped there. Rows that are equal are at distance zero, exactly.
    """
    centre = z.mean(dim=0, dtype=dtype)
    x = (x - centre).div_(scale)
    z = (z - centre).div_(scale)
    # Rounding in a sum of d terms is a random walk: it grows as √d.
    shrink = 1 - (2 + math.sqrt(x.shape[1])) * torch.finfo(x.dtype).eps
    distance = torch.addmm(_squared_norm(z).mul_(shrink), x, z.T, alpha=-2)
    return distance.add_(_squared_norm(x).mul_(shrink).unsqueeze(1)).clamp_(min=0)


def _squared_norm(
    x: Tensor,  # (b, d)
) -> Tensor:  # (b,)
    length: Tensor = torch.linalg.vector_norm(x, dim=1)  # einsum, a product for each row, takes ten times as long
    return length.square_()
