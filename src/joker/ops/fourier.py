"""Cosines of random frequencies, and their sums, in one pass over the data."""

from __future__ import annotations

import torch
from torch import Tensor

from joker.ops.triton_support import OFFSETS, fuses, rows_apart, shares, sum_numbers
from joker.runtime import on_device

MOST_COLUMNS = 2  # with more, the cosines would be computed again for each pair: writing them to memory is faster
MOST_INPUTS = 192  # with more, the product with W takes most of the time, and torch computes it faster


def cosines(
    x: Tensor,  # (b, d)
    weights: Tensor,  # (d, m)
    phase: Tensor | None,  # (m,)
    scale: float,
    *,
    out: Tensor | None = None,  # (b, m) or (b, 2m)
    low: Tensor | None = None,  # the same, bfloat16
) -> Tensor:  # (b, m) or (b, 2m)
    """Return scale · cos(x W + phase), or without a phase scale · [cos x W, sin x W].

    The result is written to ``out`` where that is given, and to ``low`` as well.

    On a GPU in float32 it is one pass: the product in float32 arithmetic throughout, and a cosine with
    an error of less than 10⁻⁶ for arguments up to 10⁶ in size. Frequencies with heavy tails give larger
    arguments, whose float32 has no digits left after the point: their cosine is some number in [−1, 1].
    """
    if out is None:
        out = x.new_empty(len(x), weights.shape[1] * (1 if phase is not None else 2))
    strides = (x.stride(0), weights.stride(0), out.stride(0), 0 if low is None else low.stride(0))
    if fuses(x, weights, out) and 128 * max(strides) < OFFSETS:
        return launch_cosines(x, weights, phase, scale, out, low)
    _plain(x, weights, phase, scale, out)
    if low is not None:
        low.copy_(out)
    return out


def _plain(x: Tensor, weights: Tensor, phase: Tensor | None, scale: float, out: Tensor) -> None:
    if phase is not None:
        torch.addmm(phase, x, weights, out=out).cos_().mul_(scale)
        return
    angle = x @ weights
    first, second = out.chunk(2, dim=1)
    torch.cos(angle, out=first)
    torch.sin(angle, out=second)
    out.mul_(scale)


def cosine_sum(
    x: Tensor,  # (n, d)
    weights: Tensor,  # (d, m)
    phase: Tensor,  # (m,)
    theta: Tensor,  # (m, t)
    scale: float,
) -> Tensor:  # (n, t)
    """Return scale · cos(x W + phase) θ; where `sums_fused` the cosines are never written."""
    if sums_fused(weights, theta.shape[1]) and fuses(x, weights, phase, theta):
        return launch_cosine_sum(x, weights, phase, theta, scale)
    return cosines(x, weights, phase, scale) @ theta


def sums_fused(weights: Tensor, t: int) -> bool:
    """Whether `cosine_sum` of t columns needs no memory for the cosines."""
    small = weights.shape[0] <= MOST_INPUTS and t <= MOST_COLUMNS and 128 * weights.stride(0) < OFFSETS
    return small and fuses(weights)


def sum_bytes(weights: Tensor, b: int, t: int) -> int:
    """Return the most bytes that `cosine_sum` on b rows holds besides its result."""
    d, m = weights.shape
    if not sums_fused(weights, t):
        return b * m * weights.element_size()
    return 4 * (b * d + sum_numbers(b, t))  # with a copy of rows that are not contiguous


def depth(d: int) -> int:
    """Return the number of inputs that a tile of the product takes at a time."""
    return 16 if d <= 16 else 32


def launch_cosines(
    x: Tensor,  # (b, d)
    weights: Tensor,  # (d, m)
    phase: Tensor | None,  # (m,)
    scale: float,
    out: Tensor,  # (b, m) or (b, 2m)
    low: Tensor | None = None,  # the same, bfloat16
    *,
    ready: bool | None = None,
) -> Tensor:  # (b, m) or (b, 2m)
    """Run the fused form of `cosines`; ``ready``: torch computes x W first, as it does for many inputs."""
    from joker.ops.triton.fourier import features_kernel

    x, weights = rows_apart(x), rows_apart(weights)
    (n, d), m = x.shape, weights.shape[1]
    ready = d > MOST_INPUTS if ready is None else ready
    if ready:
        _multiply(x, weights, phase, out[:, :m])
    copy = out if low is None else low
    R, C = 32, 128
    if out.numel():
        with on_device(x.device):
            features_kernel[(-(-n // R) * -(-m // C),)](
                x, weights, out if phase is None else phase.contiguous(), out, copy, scale, n, m, d,
                x.stride(0), weights.stride(0), out.stride(0), copy.stride(0),
                READY=ready, PAIRS=phase is None, LOW=low is not None, K=depth(d), R=R, C=C,
                num_warps=4, num_stages=1,
            )  # fmt: skip
    return out


def _multiply(x: Tensor, weights: Tensor, phase: Tensor | None, out: Tensor) -> None:
    if phase is None:
        torch.mm(x, weights, out=out)
    else:
        torch.addmm(phase, x, weights, out=out)


def launch_cosine_sum(
    x: Tensor,  # (n, d)
    weights: Tensor,  # (d, m)
    phase: Tensor,  # (m,)
    theta: Tensor,  # (m, t)
    scale: float,
) -> Tensor:  # (n, t)
    """Run the fused form of `cosine_sum`."""
    from joker.ops.triton.fourier import sum_kernel

    x, weights, theta, phase = rows_apart(x), rows_apart(weights), rows_apart(theta), phase.contiguous()
    (n, d), (m, t) = x.shape, theta.shape
    if not n * t * m:
        return x.new_zeros(n, t)
    single = d <= depth(d)
    R, C = (64, 64) if single else (32, 128)
    row_tiles = -(-n // R)
    splits, share = shares(m, C, n, row_tiles, t)
    partial = x.new_empty(splits, n, t)
    with on_device(x.device):
        sum_kernel[row_tiles, splits, -(-t // 2)](
            x, weights, phase, theta, partial, scale, n, m, d, t, share,
            x.stride(0), weights.stride(0), theta.stride(0),
            SINGLE=single, TWO=t > 1, K=depth(d), R=R, C=C, num_warps=4, num_stages=1,
        )  # fmt: skip
    return partial[0] if splits == 1 else partial.sum(0)
