"""Structured features in one pass: three rounds of signs and Hadamard transform, then the cosine."""

from __future__ import annotations

import triton
import triton.language as tl

from joker.ops.triton.cosine import cosine
from joker.ops.triton_support import SHORTEST

SIDE = tl.constexpr(SHORTEST)  # a program works on SIDE² numbers: one transform or several shorter ones


@triton.jit
def hadamard_matrix(ORDER: tl.constexpr):
    """Return I ⊗ H of SIDE rows, where H is Sylvester's matrix of ORDER rows: (−1)^(number of ones in i & j)."""
    i = tl.arange(0, SIDE)[:, None]
    j = tl.arange(0, SIDE)[None, :]
    ones = i & j & (ORDER - 1)
    ones = ones ^ (ones >> 4)
    ones = ones ^ (ones >> 2)
    ones = (ones ^ (ones >> 1)) & 1
    return tl.where(i // ORDER == j // ORDER, (1 - 2 * ones).to(tl.float32), 0.0)


@triton.jit
def leading(y):
    """Return y truncated to its leading 8 bits, which bfloat16 can represent."""
    return (y.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)


@triton.jit
def narrow(y, PART: tl.constexpr):
    """Return a number of 8 bits in the type PART, without the rounding conversion, which is slow."""
    if tl.bfloat16 == PART:
        return (y.to(tl.int32, bitcast=True) >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        return y.to(PART)


@triton.jit
def three_parts(y, PART: tl.constexpr):
    """Return three numbers of 8 bits each whose sum is y, exactly."""
    high = leading(y)
    rest = y - high
    middle = leading(rest)
    return narrow(high, PART), narrow(middle, PART), narrow(rest - middle, PART)


@triton.jit
def transform(y, left, right, LEFT: tl.constexpr, PART: tl.constexpr):
    """Return left · y · right. The matrices are exact in PART, so that three products have the accuracy of float32."""
    high, middle, low = three_parts(y, PART)
    y = tl.dot(low, right)
    y = tl.dot(middle, right, y)
    y = tl.dot(high, right, y)
    if LEFT:
        high, middle, low = three_parts(y, PART)
        y = tl.dot(left, low)
        y = tl.dot(left, middle, y)
        y = tl.dot(left, high, y)
    return y


@triton.jit
def features_kernel(
    x, signs, radii, phase, out, low,  # (n, d), (c, 3, p), (m,), (m,), (n, m), (n, m) in bfloat16
    scale, n, m, d, skip, x_stride, out_stride, low_stride,
    LOW: tl.constexpr,
    P: tl.constexpr,  # the order of a transform, from SIDE to SIDE²
    PART: tl.constexpr,  # the type of the matrix products
):  # fmt: skip
    """Write scale · cos(R S x + phase) for one block of P features and SIDE² / P rows."""
    HEIGHT: tl.constexpr = P // SIDE  # a transform is HEIGHT × SIDE numbers: H of P rows is H_HEIGHT ⊗ H_SIDE
    ROWS: tl.constexpr = SIDE // HEIGHT
    row_tiles = tl.cdiv(n, ROWS)
    block = tl.program_id(0) // row_tiles
    line = tl.arange(0, SIDE)[:, None]
    rows = (tl.program_id(0) % row_tiles) * ROWS + line // HEIGHT
    entry = (line % HEIGHT) * SIDE + tl.arange(0, SIDE)[None, :]
    right = hadamard_matrix(SIDE).to(PART)
    left = hadamard_matrix(HEIGHT).to(PART)
    sign = signs + block.to(tl.int64) * 3 * P + entry
    y = tl.load(x + rows.to(tl.int64) * x_stride + entry, mask=(rows < n) & (entry < d), other=0.0)
    y = transform(y * tl.load(sign), left, right, HEIGHT > 1, PART)
    y = transform(y * tl.load(sign + P), left, right, HEIGHT > 1, PART)
    y = transform(y * tl.load(sign + 2 * P), left, right, HEIGHT > 1, PART)
    feature = block * P + entry - skip
    known = (feature >= 0) & (feature < m)
    angle = y * tl.load(radii + feature, mask=known, other=0.0) + tl.load(phase + feature, mask=known, other=0.0)
    inside = (rows < n) & known
    psi = cosine(angle) * scale
    tl.store(out + rows.to(tl.int64) * out_stride + feature, psi, mask=inside)
    if LOW:
        tl.store(low + rows.to(tl.int64) * low_stride + feature, psi.to(tl.bfloat16), mask=inside)
