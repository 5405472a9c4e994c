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
COLUMNS = 32  # of v that a program takes
TILE = 128  # the number of rows of every tile divides it
DEPTH = 32  # inputs that a tile of the product form takes at a time, where it does not take all
LEAST_DEPTH, MOST_DEPTH = 16, 64  # inputs that it takes at once
MATRIX_TILE = (64, 64)  # rows of x and of z
DIFFERENCE_TILE, WIDE_TILE = (128, 64), (64, 64)  # rows of x and of z, in float32 and in float64
WIDE_COLUMNS = 16  # of v that a program takes in float64, where more need more registers than there are
NEAR_TILE, NEAR_PROGRAMS = (16, 128), 1_024  # of the rows that are near others, in a list whose length the GPU knows
# A squared distance below this share of the squared norms has lost too many digits for a root; see `near_rows_kernel`.
# Its error is about 10 eps of them. Of 1.8 million rows with 47 inputs, 0.7% are so near to a row of a block of 2,048;
# with 512 eps it would be 4%, and most of the time of a step.
NEAR = 64 * torch.finfo(torch.float32).eps
# Rows of z in a product that lists near rows: each listed row is multiplied again with all of them, and where z has
# the rows of x, every row is near itself.
NEAR_LENGTH = 4_096
# Of x, with which products in float64 are computed in plain torch: a fused kernel takes seconds to compile.
FEW_ROWS = 512
# What an H200 does in a second: values of a kernel, operations of products, instructions on differences.
VALUES, PRODUCTS, DIFFERENCES = 2e12, 7e14, 2e13
FEW_INPUTS = 4  # up to which rows are often near one another, and differences cost as little as a product


@dataclass(frozen=True)
class Profile:
    """A kernel as a function of a distance r."""

    name: str  # in the fused kernels
    norm: int  # 1: a function of ‖x − z‖₁/σ; 2: of ‖x − z‖₂²/σ²
    unit: float  # the factor of r with which the fused kernels need only powers of 2: they compute exp2(−unit · r)
    value: Callable[[Tensor], Tensor]  # the function in plain torch
    root: bool = False  # whether it falls with the root of a small r, which amplifies the error of r

    def by_differences(self, d: int) -> bool:
        """Whether products with d inputs are computed by differences; else on tensor cores."""
        return self.norm == 1 or (self.root and d <= FEW_INPUTS)

    def seconds(self, entries: float, d: int, precise: bool = False) -> float:
        """Return about how long products with so many entries take on one H200; see benchmarks/step.py."""
        arithmetic = 2 * d / DIFFERENCES if precise or self.by_differences(d) else 6 * padded_inputs(d) / PRODUCTS
        return entries * (1 / VALUES + arithmetic)


def _matern(s: Tensor, polynomial: Tensor) -> Tensor:
    return polynomial * torch.exp(-s)


LOG2E = 1 / math.log(2)
PROFILES = {
    profile.name: profile
    for profile in (
        Profile("exponential", 1, LOG2E, lambda r: torch.exp(-r)),
        Profile("distance", 1, 1.0, lambda r: r),
        Profile("gaussian", 2, LOG2E / 2, lambda r: torch.exp(-r / 2)),
        Profile("cauchy", 2, 1.0, lambda r: 1 / (1 + r)),
        Profile("matern12", 2, LOG2E**2, lambda r: torch.exp(-r.sqrt()), root=True),
        Profile("matern32", 2, 3 * LOG2E**2, lambda r: _matern((3 * r).sqrt(), 1 + (3 * r).sqrt())),
        Profile("matern52", 2, 5 * LOG2E**2, lambda r: _matern((5 * r).sqrt(), 1 + (5 * r).sqrt() + 5 * r / 3)),
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
    precise: bool = False,
) -> bool:
    """Add k(x, z) v to ``out`` without an entry of k(x, z) in memory; return whether that was possible.

    Here k = profile(‖x − z‖₁ / scale) or profile(‖x − z‖₂² / scale²). The copies of x and z, and the memory that
    reading takes, ``row_bytes`` for a row of each, stay inside ``budget`` bytes. Where they do not, and
    on the CPU, nothing is done and False is returned. Distances are computed by differences in float64, and where they
    are to be ``precise``.
    """
    shape, (n, d) = PROFILES[profile], x.shape
    if not fuses(v, out, dtype=x.dtype) or (x.dtype == torch.float64 and n <= FEW_ROWS):
        return False
    side = product_side(n, z.shape[0], d, v.shape[1], budget, row_bytes, v.itemsize)
    by_differences = precise or x.dtype == torch.float64 or shape.by_differences(d)
    run = launch_difference_product if by_differences else launch_radial_product
    length = side if by_differences or not shape.root else min(side, NEAR_LENGTH)
    for i, j in product(range(0, n, side), range(0, z.shape[0], length)) if side else ():
        out[i : i + side] += run(x[i : i + side], z[j : j + length], v[j : j + length], shape, scale)
    return side > 0


def product_side(n: int, b: int, d: int, t: int, budget: int, row_bytes: tuple[int, int], itemsize: int = 4) -> int:
    """Return the number of rows of x and of z that a fused product takes at a time; 0 where it does not pay."""
    width = padded_inputs(d)

    def work(side: int) -> int:
        rows, others = min(side, n), min(side, b)
        # Of x and of z: two parts of half a number, or transposed copies; the norms, and a contiguous copy.
        copies = sum(round_up(k, TILE) * (width + 1) + k * d for k in (rows, others))
        copies += transposed_numbers(others, d)  # for the rows that are near others
        columns = round_up(t, COLUMNS if t > COLUMNS else WIDE_COLUMNS) if t > 1 else 1
        weights = 3 * round_up(others, TILE) * columns
        numbers = copies + weights + width + 2 * sum_numbers(rows, t)
        return itemsize * numbers + rows * row_bytes[0] + others * row_bytes[1]

    longest = min(max(n, b), (OFFSETS - 1) // max(width, t, 1) - TILE)
    side = bisect_right(range(1, longest + 1), budget, key=work)
    return side if t <= MOST_COLUMNS and side >= min(TILE, longest) else 0


def padded_inputs(d: int) -> int:
    """Return the inputs of a prepared copy: a power of two that a tile takes at once, or a multiple of `DEPTH`."""
    return round_up(d, DEPTH) if d > MOST_DEPTH else max(LEAST_DEPTH, 1 << (d - 1).bit_length())


def launch_gram(x: Tensor, z: Tensor, profile: Profile, scale: float) -> Tensor:  # (n, d), (b, d) -> (n, b)
    """Run the fused form of `gram`."""
    from joker.ops.triton.gram import difference_matrix_kernel

    out = x.new_empty(len(x), len(z))
    columns, others = _transposed(x), _transposed(z)
    R, C = MATRIX_TILE
    if out.numel():
        with on_device(x.device):
            difference_matrix_kernel[(-(-len(x) // R) * -(-len(z) // C),)](
                columns, others, out, profile.unit * scale**-profile.norm, *out.shape, len(columns),
                columns.stride(0), others.stride(0), out.stride(0),
                SQUARE=profile.norm == 2, PROFILE=profile.name, R=R, C=C, num_warps=4,
            )  # fmt: skip
    return out


def launch_difference_product(
    x: Tensor, z: Tensor, v: Tensor, profile: Profile, scale: float
) -> Tensor:  # (n, d), (b, d), (b, t) -> (n, t)
    """Return k(x, z) v by the fused difference form."""
    from joker.ops.triton.gram import difference_product_kernel

    wide, unit = x.dtype == torch.float64, profile.unit * scale**-profile.norm
    factor = unit ** (1 / profile.norm) if wide else 1.0
    columns, others, weights = _transposed(x, factor), _transposed(z, factor), Weights(v)
    R, C = WIDE_TILE if wide else DIFFERENCE_TILE
    partial, share = _partial_sums(x, v, R, C)
    with on_device(x.device):
        difference_product_kernel[-(-len(x) // R), len(partial), weights.programs](
            columns, others, weights.parts, weights.unit, partial, 1.0 if wide else unit,
            len(x), len(z), len(columns), v.shape[1], share, columns.stride(0), others.stride(0), weights.length,
            SQUARE=profile.norm == 2, PROFILE=profile.name, R=R, C=C, T=weights.width,
            num_warps=4 if wide else 8, num_stages=2,
        )  # fmt: skip
    return partial[0] if len(partial) == 1 else partial.sum(0)


def launch_radial_product(
    x: Tensor, z: Tensor, v: Tensor, profile: Profile, scale: float
) -> Tensor:  # (n, d), (b, d), (b, t) -> (n, t)
    """Return k(x, z) v by the fused product form, on tensor cores."""
    from joker.ops.triton.gram import near_rows_kernel, radial_product_kernel

    weights, centre, width = Weights(v), z.mean(dim=0), padded_inputs(x.shape[1])
    x, scale = rows_apart(x), scale / math.sqrt(profile.unit)
    left, right = _moved(x, centre, 1 / scale, 1.0), _moved(z, centre, 1 / scale, -2.0)
    once = width <= MOST_DEPTH
    # Programs of four warps with the largest tiles whose sums stay in registers were fastest on one H200.
    R, C = TILE, TILE if weights.width == 1 else TILE // 2
    partial, share = _partial_sums(x, v, R, C)
    sizes, names = (len(x), len(z), width, v.shape[1]), {"PROFILE": profile.name, "T": weights.width}
    near = torch.empty(len(partial) * len(x) if profile.root else 1, dtype=torch.int32, device=x.device)
    count = torch.zeros(1, dtype=torch.int32, device=x.device)
    with on_device(x.device):
        radial_product_kernel[-(-len(x) // R), len(partial), weights.programs](
            *left, *right, weights.parts, weights.unit, partial, near, count, 2 * NEAR, *sizes, share, weights.length,
            LIST=profile.root, ONCE=once, K=width if once else DEPTH, R=R, C=C, **names,
            num_warps=4, num_stages=2 if weights.width == 1 else 3,
        )  # fmt: skip
        if profile.root:
            R, C = NEAR_TILE
            columns = _transposed(z)
            near_rows_kernel[min(-(-len(near) // R), NEAR_PROGRAMS), 1, weights.programs](
                x, columns, weights.parts, weights.unit, partial, near, count, scale**-2, len(x), len(z), x.shape[1],
                v.shape[1], len(partial), x.stride(0), columns.stride(0), weights.length,
                R=R, C=C, **names, num_warps=4,
            )  # fmt: skip
    return partial[0] if len(partial) == 1 else partial.sum(0)


def _partial_sums(x: Tensor, v: Tensor, R: int, C: int) -> tuple[Tensor, int]:
    """Return an empty tensor for partial sums, and the rows of z in each."""
    (b, t), n = v.shape, len(x)
    splits, share = shares(b, C, n, -(-n // R), t)
    return x.new_empty(splits, n, t), share


class Weights:
    """The columns of v as a fused product reads them, with zeros below.

    A vector stays as it is, and so do numbers in float64. Several columns in float32 are divided by their largest
    entries, the ``unit``, and are the sums of two float16 numbers, high parts and low parts side by side for each
    program.
    """

    def __init__(self, v: Tensor) -> None:  # (b, t)
        b, t = v.shape
        most = WIDE_COLUMNS if v.dtype == torch.float64 else COLUMNS
        self.width = 1 if t == 1 else min(most, max(8, 1 << (t - 1).bit_length()))
        self.programs = -(-t // self.width)
        below = (0, self.width * self.programs - t, 0, round_up(b, TILE) - b)
        v = torch.nn.functional.pad(v, below)
        self.parts, self.unit = v, v
        if t > 1 and v.dtype == torch.float32:
            self.unit = v.abs().amax(dim=0).clamp_(min=torch.finfo(v.dtype).tiny)
            v = self._of_programs(v / self.unit)
            high = v.half()
            self.parts = torch.cat([high, (v - high).half()], dim=2)
        elif t > 1:
            self.parts = self._of_programs(v).contiguous()
        self.length = self.parts[0].numel() if t > 1 else len(v)  # numbers for each program

    def _of_programs(self, v: Tensor) -> Tensor:  # (b, programs · width) -> (programs, b, width)
        parts: Tensor = v.unflatten(1, (self.programs, self.width)).transpose(0, 1)
        return parts


def _transposed(x: Tensor, factor: float = 1.0) -> Tensor:  # (n, d) -> (d and more, n and more)
    """Return factor · xᵀ with zeros around it."""
    n, d = x.shape
    columns = x.new_empty(round_up(d, UNROLL), round_up(n, ALIGNMENT))
    torch.mul(x.T, factor, out=columns[:d, :n])
    columns[d:], columns[:, n:] = 0.0, 0.0
    return columns


def _moved(
    x: Tensor, centre: Tensor, inverse: float, factor: float
) -> tuple[Tensor, Tensor, Tensor]:  # (n, d), (d,) -> (n and more, d and more) twice, (n and more,)
    """Return both parts of factor · (x − centre) · inverse with zeros around it, and its norms² / factor²."""
    from joker.ops.triton.gram import prepare_kernel

    x = rows_apart(x)
    n, d = x.shape
    high = torch.empty(round_up(n, TILE), padded_inputs(d), dtype=torch.float16, device=x.device)
    low, norm = torch.empty_like(high), x.new_empty(len(high))
    with on_device(x.device):
        prepare_kernel[(len(high) // 32,)](
            x, centre, high, low, norm, inverse, shrink(d), factor, n, d, high.shape[1], x.stride(0),
            R=32, K=min(DEPTH, high.shape[1]), num_warps=4,
        )  # fmt: skip
    return high, low, norm


def shrink(d: int) -> float:
    """Return a factor of the squared norms such that rounding makes a distance of 0 negative; it is then clamped to 0.

    The rounding error of a sum of d terms is a random walk and grows as √d.
    """
    return 1 - (4 + math.sqrt(d)) * torch.finfo(torch.float32).eps


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
