"""Kernel matrices of distances, and matrix-vector products with them that never hold the matrix.

The distance has two forms. The product form computes ‖x − z‖² as ‖x‖² + ‖z‖² − 2⟨x, z⟩ relative to a common centre, by
a matrix product. The difference form adds |x − z| or (x − z)² input by input: it has no cancellation, and is the only
one for the L1 distance.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from joker.ops.triton_support import (
    ALIGNMENT,
    OFFSETS,
    UNROLL,
    RowsLike,
    fuses,
    round_up,
    rows_apart,
    shares,
    sum_numbers,
)
from joker.runtime.devices import on_device

MOST_COLUMNS = 64  # with more, the kernel matrix costs little compared with its product with v
TILE = 128  # the number of rows of every tile divides it
DEPTH = 32  # inputs that a tile of the product form takes at a time
MATRIX_TILE = (64, 64)  # rows of x and of z
PRODUCT_TILE = (128, 64)  # rows of x and of z


@dataclass(frozen=True)
class Profile:
    """A kernel as a function of a distance."""

    name: str  # in the fused kernels
    norm: int  # 1: a function of ‖x − z‖₁/σ; 2: of ‖x − z‖₂²/σ²
    differences: bool  # whether it needs the difference form
    value: Callable[[Tensor], Tensor]  # the function in plain torch


def _matern(s: Tensor, polynomial: Tensor) -> Tensor:
    return polynomial * torch.exp(-s)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("exponential", 1, True, lambda r: torch.exp(-r)),
        Profile("distance", 1, True, lambda r: r),
        Profile("gaussian", 2, False, lambda r: torch.exp(-r / 2)),
        Profile("cauchy", 2, False, lambda r: 1 / (1 + r)),
        # The square root of a small number amplifies its error.
        Profile("matern12", 2, True, lambda r: torch.exp(-r.sqrt())),
        Profile("matern32", 2, False, lambda r: _matern((3 * r).sqrt(), 1 + (3 * r).sqrt())),
        Profile("matern52", 2, False, lambda r: _matern((5 * r).sqrt(), 1 + (5 * r).sqrt() + 5 * r / 3)),
    )
}


def gram(x: Tensor, z: Tensor, profile: str, scale: float = 1.0) -> Tensor:  # (n, d), (b, d) -> (n, b)
    """Return profile(‖x − z‖₁ / scale) or profile(‖x − z‖₂² / scale²), by differences.

    Where `gram_fused` it holds the result and transposed copies of x and z; see `transposed_numbers`.
    """
    if gram_fused(x, z):
        return launch_gram(x, z, PROFILES[profile], scale)
    norm = PROFILES[profile].norm
    distance = torch.cdist(x, z, p=float(norm), compute_mode="donot_use_mm_for_euclid_dist") / scale
    return PROFILES[profile].value(distance**norm)


def gram_fused(x: Tensor, z: Tensor) -> bool:
    """Whether `gram` is computed by the fused kernel; elsewhere by torch, which needs more memory."""
    return fuses(x, z) and transposed_numbers(max(len(x), len(z)), x.shape[1]) < OFFSETS


def transposed_numbers(n: int, d: int) -> int:
    """Return the size of the transposed copy of n rows of d inputs."""
    return round_up(d, UNROLL) * round_up(n, ALIGNMENT)


def add_product(
    x: RowsLike,  # (n, d)
    z: RowsLike,  # (b, d)
    v: Tensor,  # (b, t)
    out: Tensor,  # (n, t)
    profile: str,
    scale: float,
    budget: int,
    row_bytes: tuple[int, int] = (0, 0),
) -> bool:
    """Add k(x, z) v to ``out`` without an entry of k(x, z) in memory; return whether that was possible.

    Here k = profile(‖x − z‖₁ / scale) or profile(‖x − z‖₂² / scale²). The copies of x and z, and the memory that
    reading takes, ``row_bytes`` for a row of each, stay inside ``budget`` bytes. Where they do not, and
    on the CPU or in float64, nothing is done and False is returned.
    """
    if x.dtype != torch.float32 or not fuses(v, out):
        return False
    shape, (n, d) = PROFILES[profile], x.shape
    side = product_side(n, z.shape[0], d, v.shape[1], budget, row_bytes)
    run = launch_difference_product if shape.differences else launch_radial_product
    for i, j in product(range(0, n, side), range(0, z.shape[0], side)) if side else ():
        out[i : i + side] += run(x[i : i + side], z[j : j + side], v[j : j + side], shape, scale)
    return side > 0


def product_side(n: int, b: int, d: int, t: int, budget: int, row_bytes: tuple[int, int]) -> int:
    """Return the number of rows of x and of z that a fused product takes at a time; 0 where it does not pay."""
    width = round_up(d, DEPTH)

    def work(side: int) -> int:
        rows, others = min(side, n), min(side, b)
        # Of x and of z: two parts, the norms, and a contiguous copy.
        copies = sum(round_up(k, TILE) * (2 * width + 1) + k * d for k in (rows, others))
        numbers = copies + others * t + width + sum_numbers(rows, t)
        return 4 * numbers + rows * row_bytes[0] + others * row_bytes[1]

    longest = min(max(n, b), (OFFSETS - 1) // max(width, t, 1) - TILE)
    side = bisect_right(range(1, longest + 1), budget, key=work)
    return side if t <= MOST_COLUMNS and side >= min(TILE, longest) else 0


def launch_gram(x: Tensor, z: Tensor, profile: Profile, scale: float) -> Tensor:  # (n, d), (b, d) -> (n, b)
    """Run the fused form of `gram`."""
    from joker.ops.triton.gram import difference_matrix_kernel

    out = x.new_empty(len(x), len(z))
    columns, others = _transposed(x), _transposed(z)
    R, C = MATRIX_TILE
    if out.numel():
        with on_device(x.device):
            difference_matrix_kernel[(-(-len(x) // R) * -(-len(z) // C),)](
                columns, others, out, scale**-profile.norm, *out.shape, len(columns),
                columns.stride(0), others.stride(0), out.stride(0),
                SQUARE=profile.norm == 2, PROFILE=profile.name, R=R, C=C, num_warps=4,
            )  # fmt: skip
    return out


def launch_difference_product(
    x: Tensor, z: Tensor, v: Tensor, profile: Profile, scale: float
) -> Tensor:  # (n, d), (b, d), (b, t) -> (n, t)
    """Return k(x, z) v by the fused difference form."""
    from joker.ops.triton.gram import difference_product_kernel

    columns, others, v = _transposed(x), _transposed(z), v.contiguous()
    R, C = PRODUCT_TILE
    partial, share, width = _partial_sums(x, v)
    with on_device(x.device):
        difference_product_kernel[-(-len(x) // R), len(partial), -(-v.shape[1] // width)](
            columns, others, v, partial, scale**-profile.norm, len(x), len(z), len(columns), v.shape[1], share,
            columns.stride(0), others.stride(0), v.stride(0),
            SQUARE=profile.norm == 2, PROFILE=profile.name, R=R, C=C, T=width, num_warps=8, num_stages=2,
        )  # fmt: skip
    return partial[0] if len(partial) == 1 else partial.sum(0)


def launch_radial_product(
    x: Tensor, z: Tensor, v: Tensor, profile: Profile, scale: float, *, split: bool = True
) -> Tensor:  # (n, d), (b, d), (b, t) -> (n, t)
    """Return k(x, z) v by the fused product form, on tensor cores where ``split``."""
    from joker.ops.triton.gram import radial_product_kernel

    centre, v = z.mean(dim=0), v.contiguous()
    left, right = (_moved(part, centre, scale, split) for part in (x, z))
    R, C = PRODUCT_TILE
    partial, share, width = _partial_sums(x, v)
    with on_device(x.device):
        radial_product_kernel[-(-len(x) // R), len(partial), -(-v.shape[1] // width)](
            *left, *right, v, partial, len(x), len(z), left[0].shape[1], v.shape[1], share, v.stride(0),
            PROFILE=profile.name, SPLIT=split, K=DEPTH, R=R, C=C, T=width, num_warps=8, num_stages=2,
        )  # fmt: skip
    return partial[0] if len(partial) == 1 else partial.sum(0)


def _partial_sums(x: Tensor, v: Tensor) -> tuple[Tensor, int, int]:
    """Return an empty tensor for partial sums, the rows of z in each, and the columns of v that a program takes."""
    (b, t), n = v.shape, len(x)
    splits, share = shares(b, PRODUCT_TILE[1], n, -(-n // PRODUCT_TILE[0]), t)
    width = 1 if t == 1 else min(64, max(16, 1 << (t - 1).bit_length()))
    return x.new_empty(splits, n, t), share, width


def _transposed(x: Tensor) -> Tensor:  # (n, d) -> (d and more, n and more)
    """Return xᵀ with zeros around it."""
    n, d = x.shape
    columns = x.new_empty(round_up(d, UNROLL), round_up(n, ALIGNMENT))
    columns[:d, :n] = x.T
    columns[d:], columns[:, n:] = 0.0, 0.0
    return columns


def _moved(
    x: Tensor, centre: Tensor, scale: float, split: bool
) -> tuple[Tensor, Tensor, Tensor]:  # (n, d), (d,) -> (n and more, d and more) twice, (n and more,)
    """Return (x − centre) / scale with zeros around it, in two parts where ``split``, and its squared norms."""
    from joker.ops.triton.gram import prepare_kernel

    x = rows_apart(x)
    n, d = x.shape
    high = x.new_empty(round_up(n, TILE), round_up(d, DEPTH))
    low = torch.empty_like(high) if split else high
    norm = x.new_empty(len(high))
    with on_device(x.device):
        prepare_kernel[(len(high) // 32,)](
            x, centre, high, low, norm, 1 / scale, shrink(d, split), n, d, high.shape[1], x.stride(0),
            SPLIT=split, R=32, K=DEPTH, num_warps=4,
        )  # fmt: skip
    return high, low, norm


def shrink(d: int, split: bool = False) -> float:
    """Return a factor of the squared norms such that rounding makes a distance of 0 negative; it is then clamped to 0.

    The rounding error of a sum of d terms is a random walk and grows as √d. Two parts of 11 bits leave
    out the product of the low ones, up to two units more.
    """
    return 1 - (2 + 2 * split + math.sqrt(d)) * torch.finfo(torch.float32).eps


TENSOR_CORE_MULTIPLE = 16  # numbers: tensor cores are fastest where the sides of a matrix are multiples of it
MIN_FEATURES = 4_096  # with at least as many, the rounding errors of single features average out


def rounds(dtype: torch.dtype, device: torch.device, m: int) -> bool:
    """Whether the product of m features is computed from features that are rounded to bfloat16."""
    return device.type == "cuda" and dtype == torch.float32 and m >= MIN_FEATURES


def low_gram(low: Tensor, b: int) -> Tensor:  # (b', m) -> (b, b)
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
