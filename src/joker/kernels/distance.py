"""Squared Euclidean distances by one matrix product with small rounding errors, and exponentials of distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# The smallest result of `decay` is the smallest normal number to this power: e⁻⁶¹ in float32, e⁻⁴⁹⁶ in float64.
SMALLEST_POWER = 0.7


def decay(s: Tensor) -> Tensor:  # (b, k) -> (b, k)
    """Return exp(−s), in place.

    Results are never subnormal numbers, with which a CPU computes slowly. They would occur if the distances between
    rows are large multiples of the bandwidth.
    """
    return s.neg_().clamp_(min=SMALLEST_POWER * math.log(torch.finfo(s.dtype).tiny)).exp_()


def squared_distance(
    x: Tensor,  # (b, d)
    z: Tensor,  # (k, d)
    scale: float = 1.0,
    dtype: torch.dtype | None = None,
) -> Tensor:  # (b, k)
    """Return ‖x_i − z_j‖² / scale² = (‖x_i‖² + ‖z_j‖² − 2⟨x_i, z_j⟩) / scale², in ``dtype`` or that of x.

    The three terms cancel when x_i is near z_j, and the rounding error of the result is about
    ε(‖x_i‖² + ‖z_j‖²). It is kept small in two ways. The mean of z is subtracted from all rows, which
    does not change distances and makes the norms small. The norms are reduced by a few ε, so that rounding
    makes a distance of zero negative, and it is clamped to 0. The distance of equal rows is exactly 0.

    Parameters
    ----------
    x, z : Tensor of shape (b, d) and (k, d)
        The rows.
    scale : float
        The unit of distances.
    dtype : torch.dtype, optional
        The type of the result; that of x by default.

    Returns
    -------
    Tensor of shape (b, k)
        The squared distances.

    Examples
    --------
    >>> import torch
    >>> from joker.kernels import squared_distance
    >>> squared_distance(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
    tensor([[25.0000]])
    """
    centre = z.mean(dim=0, dtype=dtype)
    x = (x - centre).div_(scale)
    z = (z - centre).div_(scale)
    # The rounding errors of a sum of d terms behave like a random walk and grow as √d.
    shrink = 1 - (2 + math.sqrt(x.shape[1])) * torch.finfo(x.dtype).eps
    distance = torch.addmm(_squared_norm(z).mul_(shrink), x, z.T, alpha=-2)
    return distance.add_(_squared_norm(x).mul_(shrink).unsqueeze(1)).clamp_(min=0)


def _squared_norm(x: Tensor) -> Tensor:  # (b, d) -> (b,)
    length: Tensor = torch.linalg.vector_norm(x, dim=1)  # faster than einsum
    return length.square_()
