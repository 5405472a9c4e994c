"""Cosines of random frequencies, and their sums, in one pass over the data."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from joker.errors import InvalidParameter
from joker.ops.triton_support import OFFSETS, SHORTEST, fuses, rows_apart, shares, sum_numbers
from joker.runtime.devices import on_device

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
    x: Tensor, weights: Tensor, phase: Tensor, theta: Tensor, scale: float
) -> Tensor:  # (n, d), (d, m), (m,), (m, t) -> (n, t)
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
    x: Tensor, weights: Tensor, phase: Tensor, theta: Tensor, scale: float
) -> Tensor:  # (n, d), (d, m), (m,), (m, t) -> (n, t)
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


def hadamard(x: Tensor) -> Tensor:  # (..., k) -> (..., k)
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


LONGEST = SHORTEST**2  # order of the longest transform, of which a program computes one


def structured_cosines(
    x: Tensor,  # (b, d)
    signs: Tensor,  # (c, 3, p)
    radii: Tensor,  # (m,)
    phase: Tensor,  # (m,)
    scale: float,
    skip: int = 0,
    *,
    out: Tensor | None = None,  # (b, m)
    low: Tensor | None = None,  # (b, m), bfloat16
) -> Tensor:  # (b, m)
    """Return scale · cos(R S x + phase), where S stacks blocks HD₃ HD₂ HD₁ without their first ``skip`` rows.

    The result is written to ``out`` where that is given, and to ``low`` as well.
    """
    if structured_fused(signs) and fuses(x, signs, radii):
        result = x.new_empty(len(x), len(radii)) if out is None else out
        return launch_structured(x, signs, radii, phase, scale, skip, result, low)
    psi = project(x, signs, radii, skip).add_(phase).cos_().mul_(scale)
    if low is not None:
        low.copy_(psi)
    return psi if out is None else out.copy_(psi)


def structured_fused(signs: Tensor) -> bool:
    """Whether `structured_cosines` needs memory for its result alone."""
    known = SHORTEST <= signs.shape[2] <= LONGEST and signs.shape[1] == 3
    return known and signs.shape[0] * signs.shape[2] < OFFSETS and fuses(signs)


def project(x: Tensor, signs: Tensor, radii: Tensor, skip: int = 0) -> Tensor:  # (b, d), (c, 3, p), (m,) -> (b, m)
    """Return R S x, the inner products of the rows with the frequencies."""
    first, *others = signs.unbind(dim=1)
    y = hadamard(pad(x, (0, first.shape[1] - x.shape[1])).unsqueeze(1) * first)  # (b, c, p)
    for diagonal in others:
        y = hadamard(y.mul_(diagonal))
    return y.flatten(1)[:, skip : skip + radii.shape[0]] * radii


def launch_structured(
    x: Tensor,  # (b, d)
    signs: Tensor,  # (c, 3, p)
    radii: Tensor,  # (m,)
    phase: Tensor,  # (m,)
    scale: float,
    skip: int,
    out: Tensor,  # (b, m)
    low: Tensor | None = None,  # (b, m), bfloat16
    *,
    parts: str = "bfloat16",
) -> Tensor:  # (b, m)
    """Run the fused form of `structured_cosines`; ``parts`` names the type of the matrix products."""
    import triton.language as tl

    from joker.ops.triton.fourier import structured_kernel

    x, signs, radii, phase = rows_apart(x), signs.contiguous(), radii.contiguous(), phase.contiguous()
    (n, d), m, (blocks, _, p) = x.shape, radii.shape[0], signs.shape
    copy = out if low is None else low
    if out.numel():
        with on_device(x.device):
            structured_kernel[(blocks * -(-n * p // LONGEST),)](
                x, signs, radii, phase, out, copy, scale, n, m, d, skip, x.stride(0), out.stride(0), copy.stride(0),
                LOW=low is not None, P=p, PART=getattr(tl, parts), num_warps=4, num_stages=1,
            )  # fmt: skip
    return out
