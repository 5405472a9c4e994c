"""Fourier features, and their product with weights, each in one pass."""

from __future__ import annotations

import triton
import triton.language as tl

from joker.ops.triton.cosine import cosine, sine


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
