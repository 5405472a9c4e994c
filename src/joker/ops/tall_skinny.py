"""Products of features with a few columns, Ψ v and Ψᵀ v, and the squared norms of columns."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from joker.ops.triton_support import OFFSETS, fuses, round_up
from joker.runtime.devices import multiprocessors, on_device

ROWS, STEP = 64, 64  # rows and columns of a tile of Ψ in Ψ v
WIDTH, DEPTH = 128, 16  # rows and columns of a tile of Ψᵀ in Ψᵀ v
NARROWEST, WIDEST = 16, 64  # columns of v: tensor cores take at least 16, and more than 64 are left to cuBLAS
TOGETHER = 2  # programs on a multiprocessor
ADDED = 32  # sums that a program computes when partial sums are added


def times(psi: Tensor, v: Tensor) -> Tensor:  # (b, m), (m, t) -> (b, t)
    """Return Ψ v, as (vᵀ Ψᵀ)ᵀ: cuBLAS computes that faster for two columns, and equally fast for others."""
    if _fused(psi, v):
        return launch_times(psi, v)
    return (v.T @ psi.T).T.contiguous() if psi.is_cuda and v.shape[1] > 1 else psi @ v


def transposed_times(psi: Tensor, v: Tensor) -> Tensor:  # (b, m), (b, t) -> (m, t)
    """Return Ψᵀ v, in the same way."""
    if _fused(psi, v):
        return launch_transposed_times(psi, v)
    return (v.T @ psi).T if psi.is_cuda and v.shape[1] > 1 else psi.T @ v


def squares(v: Tensor) -> Tensor:  # (m, t) -> (t,)
    """Return the sum of squares of each column."""
    if 1 < v.shape[1] <= WIDEST and 0 < v.numel() < OFFSETS and v.is_contiguous() and fuses(v):
        return launch_squares(v)
    total: Tensor = torch.linalg.vecdot(v, v, dim=0)
    return total


def _fused(psi: Tensor, v: Tensor) -> bool:
    small = v.numel() < OFFSETS and psi.shape[1] * v.shape[1] < OFFSETS
    return 1 < v.shape[1] <= WIDEST and psi.stride(1) == 1 and small and psi.numel() > 0 and fuses(psi, v)


def launch_times(psi: Tensor, v: Tensor) -> Tensor:  # (b, m), (m, t) -> (b, t)
    """Run the fused form of `times`: partial sums, which are added in a fixed order."""
    from joker.ops.triton.tall_skinny import product_kernel

    (b, m), t = psi.shape, v.shape[1]
    tiles, terms = math.ceil(b / ROWS), math.ceil(m / STEP)
    steps = math.ceil(terms / max(1, TOGETHER * multiprocessors(psi.device) // tiles))
    parts = psi.new_empty(math.ceil(terms / steps), b, t)
    with on_device(psi.device):
        product_kernel[(tiles, len(parts))](
            *(psi, v.contiguous(), parts, b, m, t, steps, psi.stride(0)),
            **{"ROWS": ROWS, "STEP": STEP, "T": _width(t), "num_warps": 8, "num_stages": 3},
        )
        return _sum(parts)


def launch_transposed_times(psi: Tensor, v: Tensor) -> Tensor:  # (b, m), (b, t) -> (m, t)
    """Run the fused form of `transposed_times`."""
    from joker.ops.triton.tall_skinny import transposed_kernel

    (b, m), t = psi.shape, v.shape[1]
    tiles = math.ceil(m / WIDTH)
    share = round_up(math.ceil(b / max(1, TOGETHER * multiprocessors(psi.device) // tiles)), DEPTH)
    parts = psi.new_empty(math.ceil(b / share), m, t)
    with on_device(psi.device):
        transposed_kernel[(tiles, len(parts))](
            *(psi, v.contiguous(), parts, b, m, t, share, psi.stride(0)),
            **{"WIDTH": WIDTH, "STEP": DEPTH, "T": _width(t), "num_warps": 8, "num_stages": 4},
        )
        return _sum(parts)


def launch_squares(v: Tensor) -> Tensor:  # (m, t) -> (t,)
    """Run the fused form of `squares`."""
    from joker.ops.triton.tall_skinny import squares_kernel

    m, t = v.shape
    share = round_up(math.ceil(m / max(1, multiprocessors(v.device) // 2)), ROWS)
    parts = v.new_empty(math.ceil(m / share), t)
    with on_device(v.device):
        squares_kernel[(len(parts),)](v, parts, m, t, share, ROWS=ROWS, T=_width(t), num_warps=4)
        return _sum(parts)


def _sum(parts: Tensor) -> Tensor:  # (parts, ...) -> (...)
    """Add partial sums; for so few numbers this kernel is faster than the sum of torch."""
    from joker.ops.triton.tall_skinny import add_kernel

    if len(parts) == 1:
        return parts[0]
    out = torch.empty_like(parts[0])
    sizes = {"PARTS": 1 << (len(parts) - 1).bit_length(), "WIDTH": ADDED, "num_warps": 4}
    add_kernel[(math.ceil(out.numel() / ADDED),)](parts, out, len(parts), out.numel(), **sizes)
    return out


def _width(t: int) -> int:
    """Return the number of columns of a tile, a power of two."""
    return max(NARROWEST, 1 << (t - 1).bit_length())
