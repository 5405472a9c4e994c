"""Fourier features, and their product with weights, each in one pass."""

from __future__ import annotations

import triton
import triton.language as tl

from joker.ops.triton_support import SHORTEST

INVERSE_TURN = tl.constexpr(0.15915493667125702)  # 1/2π
# 2π in three parts (Cody and Waite). The first two have 8 and 11 bits, so that their products
# with an integer are exact; the product with the last one is rounded.
TURN_1 = tl.constexpr(6.28125)
TURN_2 = tl.constexpr(0.0019350051879882812)
TURN_3 = tl.constexpr(3.019916050561733e-07)
# cos r as a polynomial of r² for |r| ≤ 3.3, by interpolation at Chebyshev points: its error is at most 2·10⁻⁸.
LARGEST_SQUARE = tl.constexpr(10.89)  # 3.3²
C0, C1, C2 = tl.constexpr(1.0), tl.constexpr(-0.4999997913837433), tl.constexpr(0.04166637733578682)
C3, C4 = tl.constexpr(-0.0013887296663597226), tl.constexpr(2.4759456209721975e-05)
C5, C6 = tl.constexpr(-2.6981018663718714e-07), tl.constexpr(1.6902113042505107e-09)
HALF_PI = tl.constexpr(1.5707963705062866)


@triton.jit
def remainder(p):
    """Return p minus the nearest integer number of turns, within ±π up to rounding.

    Its error is less than 3·10⁻⁷ for |p| ≤ 10⁶. For larger |p| the number of turns is uncertain, as is p
    itself: a float32 of 10⁷ stands for an interval of length 1. The result then has no digits and no bound.
    """
    turns = tl.floor(p * INVERSE_TURN + 0.5)
    r = p - turns * TURN_1
    r = r - turns * TURN_2
    return r - turns * TURN_3


@triton.jit
def small_cosine(r):
    """Return cos r for |r| ≤ 3.3, and a number in [−1, 1] for any other r."""
    u = tl.minimum(r * r, LARGEST_SQUARE)
    c = C5 + u * C6
    c = C4 + u * c
    c = C3 + u * c
    c = C2 + u * c
    c = C1 + u * c
    c = C0 + u * c
    return c


@triton.jit
def cosine(p):
    """Return cos p with an error of less than 4·10⁻⁷ for |p| ≤ 10⁶, and a number in [−1, 1] for larger |p|."""
    return small_cosine(remainder(p))


@triton.jit
def sine(p):
    """Return sin p as cos(|r| − π/2), with the sign of the remainder r."""
    r = remainder(p)
    s = small_cosine(tl.abs(r) - HALF_PI)
    return tl.where(r < 0, -s, s)


@triton.jit
def angles(x, weights, left, right, d, x_stride, w_stride, K: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Return x W of R rows and C columns, of which the first ``left`` and ``right`` exist, in float32 throughout."""
    r = tl.arange(0, R)[:, None]
    c = tl.arange(0, C)[None, :]
    k = tl.arange(0, K)
    x_tile = x + r * x_stride + k[None, :]
    w_tile = weights + k[:, None] * w_stride + c  # advanced in the loop, since d · w_stride may exceed 32 bits
    p = tl.zeros((R, C), dtype=tl.float32)
    for start in range(0, d, K):
        a = tl.load(x_tile, mask=(r < left) & (k[None, :] < d - start), other=0.0)
        w = tl.load(w_tile, mask=(k[:, None] < d - start) & (c < right), other=0.0)
        p = tl.dot(a, w, p, input_precision="ieee")
        x_tile += K
        w_tile += K * w_stride
    return p


@triton.jit
def store(value, out, low, place, low_place, inside, LOW: tl.constexpr):
    """Write the features, and their bfloat16 where LOW."""
    tl.store(out + place, value, mask=inside)
    if LOW:
        tl.store(low + low_place, value.to(tl.bfloat16), mask=inside)


@triton.jit(do_not_specialize=["n"])  # the last tile or block is shorter, which is not worth a second compilation
def features_kernel(
    x, weights, phase,  # (n, d), (d, m), (m,)
    out, low,  # (n, m), or (n, 2m) where PAIRS; low in bfloat16
    scale, n, m, d, x_stride, w_stride, out_stride, low_stride,
    READY: tl.constexpr,  # whether out contains the angles, so that x, W and the phase are not needed
    PAIRS: tl.constexpr,  # whether the sines follow the cosines; then there is no phase
    LOW: tl.constexpr, K: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Write scale · cos(x W + phase), or scale · cos(x W) and scale · sin(x W), for R rows and C columns."""
    row_tiles = tl.cdiv(n, R)
    # Consecutive programs take consecutive rows, so that programs that run together share a tile of W.
    row = (tl.program_id(0) % row_tiles) * R
    column = (tl.program_id(0) // row_tiles) * C
    r = tl.arange(0, R)[:, None]
    c = tl.arange(0, C)
    inside = (r < n - row) & (c[None, :] < m - column)
    place = row.to(tl.int64) * out_stride + column + r * out_stride + c[None, :]
    low_place = row.to(tl.int64) * low_stride + column + r * low_stride + c[None, :]
    if READY:
        p = tl.load(out + place, mask=inside, other=0.0)
    else:
        start = x + row.to(tl.int64) * x_stride
        p = angles(start, weights + column, n - row, m - column, d, x_stride, w_stride, K, R, C)
        if not PAIRS:
            p += tl.load(phase + column + c, mask=c < m - column, other=0.0)[None, :]
    store(cosine(p) * scale, out, low, place, low_place, inside, LOW)
    if PAIRS:
        store(sine(p) * scale, out, low, place + m, low_place + m, inside, LOW)


@triton.jit(do_not_specialize=["n", "t", "share"])
def sum_kernel(
    x, weights, phase, theta, out,  # (n, d), (d, m), (m,), (m, t), (splits, n, t)
    scale, n, m, d, t,
    share,  # features for each split, a multiple of C
    x_stride, w_stride, theta_stride,
    SINGLE: tl.constexpr,  # whether d ≤ K: then x is read once
    TWO: tl.constexpr,  # whether a program sums two columns, with cosines computed once
    K: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Write scale · Σ_j cos(x W + phase)_j θ_j over a share of the features, for R rows and one or two columns of θ."""
    row = tl.program_id(0) * R
    split = tl.program_id(1)
    column = tl.program_id(2)
    if TWO:
        column *= 2
    last = tl.minimum(split * share + share, m)
    r = tl.arange(0, R)
    c = tl.arange(0, C)
    k = tl.arange(0, K)
    x_tile = x + row.to(tl.int64) * x_stride
    if SINGLE:
        inside = (r[:, None] < n - row) & (k[None, :] < d)
        a = tl.load(x_tile + r[:, None] * x_stride + k[None, :], mask=inside, other=0.0)
    total = tl.zeros((R, C), dtype=tl.float32)
    other = total
    for first in range(split * share, last, C):
        known = c < last - first
        if SINGLE:
            w_tile = weights + first + k[:, None] * w_stride + c[None, :]
            w = tl.load(w_tile, mask=(k[:, None] < d) & known[None, :], other=0.0)
            p = tl.dot(a, w, input_precision="ieee")
        else:
            p = angles(x_tile, weights + first, n - row, last - first, d, x_stride, w_stride, K, R, C)
        p += tl.load(phase + first + c, mask=known, other=0.0)[None, :]
        weights_of = theta + (first + c).to(tl.int64) * theta_stride + column
        value = cosine(p)
        total += value * tl.load(weights_of, mask=known, other=0.0)[None, :]
        if TWO:
            other += value * tl.load(weights_of + 1, mask=known & (column + 1 < t), other=0.0)[None, :]
    rows = row + r
    place = out + (split.to(tl.int64) * n + rows) * t + column
    tl.store(place, tl.sum(total, axis=1) * scale, mask=rows < n)
    if TWO:
        tl.store(place + 1, tl.sum(other, axis=1) * scale, mask=(rows < n) & (column + 1 < t))


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
def structured_kernel(
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
