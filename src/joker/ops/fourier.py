"""Cosines of random frequencies, and their sums, in one pass over the data."""

from __future__ import annotations

import torch
from torch import Tensor

from joker.ops.dispatch import OFFSETS, fuses, rows_apart, shares
from joker.runtime import on_device

MOST_COLUMNS = 64  # with more the cosines cost little beside the product with theta


def cosines(
    x: Tensor,  # (b, d)
    weights: Tensor,  # (d, m)
    phase: Tensor,  # (m,)
    scale: float,
    *,
    low: Tensor | None = None,  # (b, m), bfloat16
) -> Tensor:  # (b, m)
    """Return scale · cos(x W + phase), and write it to ``low`` as well where that is given.

    On a card in float32 it is one pass: the product in float32 arithmetic throughout, and a
    cosine that is off by less than 10⁻⁶ for arguments up to 10⁶ in size. With frequencies of
    heavy tails there are larger ones, whose float32 has no digits left after the point: their
    cosine is a number within [−1, 1], and not more.
    """
    if fuses(x, weights, phase) and 128 * weights.stride(0) < OFFSETS:
        return launch_cosines(x, weights, phase, scale, low=low)
    psi = torch.addmm(phase, x, weights).cos_().mul_(scale)
    if low is not None:
        low.copy_(psi)
    return psi


def cosine_sum(
    x: Tensor,  # (n, d)
    weights: Tensor,  # (d, m)
    phase: Tensor,  # (m,)
    theta: Tensor,  # (m, t)
    scale: float,
) -> Tensor:  # (n, t)
    """Return scale · cos(x W + phase) θ; on a card in float32 the cosines are never written."""
    if sums_fused(x, weights, phase, theta):
        return launch_cosine_sum(x, weights, phase, theta, scale)
    return cosines(x, weights, phase, scale) @ theta


def sums_fused(x: Tensor, weights: Tensor, phase: Tensor, theta: Tensor) -> bool:
    """Whether `cosine_sum` needs no room for the cosines."""
    small = 128 * max(weights.stride(0), theta.stride(0)) < OFFSETS and theta.numel() < OFFSETS
    return fuses(x, weights, phase, theta) and small and theta.shape[1] <= MOST_COLUMNS


def depth(d: int) -> int:
    """Return how many inputs a tile of the product takes at a time."""
    return 16 if d <= 16 else 32


def launch_cosines(
    x: Tensor,  # (b, d)
    weights: Tensor,  # (d, m)
    phase: Tensor,  # (m,)
    scale: float,
    *,
    low: Tensor | None = None,  # (b, m)
    tile: tuple[int, int] = (64, 128),
    warps: int = 8,
    stages: int = 1,
) -> Tensor:  # (b, m)
    """Run the fused form of `cosines`."""
    from joker.ops.fused.fourier import features_kernel

    x, weights, phase = rows_apart(x), rows_apart(weights), phase.contiguous()
    (n, d), m = x.shape, weights.shape[1]
    psi = x.new_empty(n, m)
    copy = psi if low is None else low
    grid = (-(-n // tile[0]) * -(-m // tile[1]),)
    if psi.numel():
        with on_device(x.device):
            features_kernel[grid](
                *(x, weights, phase, psi, copy, scale, n, m, d),
                *(x.stride(0), weights.stride(0), psi.stride(0), copy.stride(0)),
                LOW=low is not None,
                K=depth(d),
                R=tile[0],
                C=tile[1],
                num_warps=warps,
                num_stages=stages,
            )
    return psi


def launch_cosine_sum(
    x: Tensor,  # (n, d)
    weights: Tensor,  # (d, m)
    phase: Tensor,  # (m,)
    theta: Tensor,  # (m, t)
    scale: float,
    *,
    tile: tuple[int, int] = (64, 64),
    warps: int = 4,
    stages: int = 1,
) -> Tensor:  # (n, t)
    """Run the fused form of `cosine_sum`."""
    from joker.ops.fused.fourier import sum_kernel

    x, weights, theta, phase = rows_apart(x), rows_apart(weights), rows_apart(theta), phase.contiguous()
    (n, d), (m, t) = x.shape, theta.shape
    if not n * t * m:
        return x.new_zeros(n, t)
    row_tiles = -(-n // tile[0])
    splits, share = shares(m, tile[1], n, row_tiles, t)
    partial = x.new_empty(splits, n, t)
    width = 1 if t == 1 else min(64, max(16, 1 << (t - 1).bit_length()))
    with on_device(x.device):
        sum_kernel[row_tiles, splits, -(-t // width)](
            *(x, weights, phase, theta, partial, scale, n, m, d, t, share),
            *(x.stride(0), weights.stride(0), theta.stride(0)),
            SINGLE=d <= depth(d),
            K=depth(d),
            R=tile[0],
            C=tile[1],
            T=width,
            num_warps=warps,
            num_stages=stages,
        )
    return partial[0] if splits == 1 else partial.sum(0)
