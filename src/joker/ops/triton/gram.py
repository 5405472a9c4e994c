"""Kernel matrices, and their products with vectors, for which the matrix is never stored.

The arguments are prepared: transposed for the difference form; centred, split in two parts and padded
with zeros to whole tiles for the product form. Entries outside the data are computed and not stored.
"""

from __future__ import annotations

import triton
import triton.language as tl

from joker.ops.triton_support import UNROLL as UNROLL_INPUTS

UNROLL = tl.constexpr(UNROLL_INPUTS)


@triton.jit
def profile(r, PROFILE: tl.constexpr):
    """Return the kernel as a function of r, an L1 distance ("exponential") or a squared Euclidean one."""
    if PROFILE == "distance":
        value = r
    elif PROFILE == "exponential":
        value = tl.exp(-r)
    elif PROFILE == "gaussian":
        value = tl.exp(-0.5 * r)
    elif PROFILE == "cauchy":
        value = 1.0 / (1.0 + r)
    elif PROFILE == "matern12":
        value = tl.exp(-tl.sqrt(r))
    elif PROFILE == "matern32":
        s = tl.sqrt(3.0 * r)
        value = (1.0 + s) * tl.exp(-s)
    else:
        tl.static_assert(PROFILE == "matern52")
        s = tl.sqrt(5.0 * r)
        value = (1.0 + s + s * s * (1.0 / 3.0)) * tl.exp(-s)
    return value


@triton.jit
def differences(x, z, rows, columns, d, x_stride, z_stride, SQUARE: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Return Σ_k |x_k − z_k|, or Σ_k (x_k − z_k)², of R rows and C columns of transposed matrices."""
    here, there = rows < x_stride, columns < z_stride
    x += rows
    z += columns
    # A product of zeros costs nothing and gives the sum a layout of 4 × 4 entries for each thread, so that an
    # input that is loaded is used for four of them; without it most of the time is spent on loads.
    total = tl.dot(tl.zeros((R, 16), tl.float32), tl.zeros((16, C), tl.float32), input_precision="ieee")
    for _ in range(0, d, UNROLL):
        for k in tl.static_range(UNROLL):
            a = tl.load(x + k * x_stride, mask=here, other=0.0)
            difference = a[:, None] - tl.load(z + k * z_stride, mask=there, other=0.0)[None, :]
            if SQUARE:
                total += difference * difference
            else:
                total += tl.abs(difference)
        x += UNROLL * x_stride
        z += UNROLL * z_stride
    return total


@triton.jit
def add_values(total, value, v, columns, last, outputs, t, v_stride, T: tl.constexpr):
    """Add the terms of these columns to k(x, z) v; with T = 1 `store_total` sums over the columns."""
    if T == 1:
        weight = tl.load(v + columns * v_stride, mask=columns < last, other=0.0)
        total += value * weight[None, :]
    else:
        inside = (columns[:, None] < last) & (outputs[None, :] < t)
        weight = tl.load(v + columns[:, None] * v_stride + outputs[None, :], mask=inside, other=0.0)
        total = tl.dot(value, weight, total, input_precision="ieee")
    return total


@triton.jit
def store_total(total, out, split, rows, outputs, n, t, T: tl.constexpr):
    """Write the sums of a split."""
    place = out + split.to(tl.int64) * n * t
    if T == 1:
        tl.store(place + rows, tl.sum(total, axis=1), mask=rows < n)
    else:
        inside = (rows[:, None] < n) & (outputs[None, :] < t)
        tl.store(place + rows[:, None].to(tl.int64) * t + outputs[None, :], total, mask=inside)


@triton.jit
def difference_matrix_kernel(
    x, z, out,  # (d, n), (d, b), (n, b)
    inverse, n, b, d, x_stride, z_stride, out_stride,
    SQUARE: tl.constexpr, PROFILE: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Write profile(inverse · Σ_k |x_k − z_k|), or of the squares, for R rows and C columns."""
    row_tiles = tl.cdiv(n, R)
    rows = (tl.program_id(0) % row_tiles) * R + tl.arange(0, R)
    columns = (tl.program_id(0) // row_tiles) * C + tl.arange(0, C)
    r = differences(x, z, rows, columns, d, x_stride, z_stride, SQUARE, R, C)
    inside = (rows[:, None] < n) & (columns[None, :] < b)
    place = out + rows[:, None].to(tl.int64) * out_stride + columns[None, :]
    tl.store(place, profile(r * inverse, PROFILE), mask=inside)


@triton.jit
def difference_product_kernel(
    x, z, v, out,  # (d, n), (d, b), (b, t), (splits, n, t)
    inverse, n, b, d, t,
    share,  # rows of z for each split, a multiple of C
    x_stride, z_stride, v_stride,
    SQUARE: tl.constexpr, PROFILE: tl.constexpr, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Write k(x, z) v over a share of the rows of z, for R rows of x and T columns of v (1: a vector)."""
    rows = tl.program_id(0) * R + tl.arange(0, R)
    split = tl.program_id(1)
    outputs = tl.program_id(2) * T + tl.arange(0, T)
    last = tl.minimum(split * share + share, b)
    WIDTH: tl.constexpr = C if T == 1 else T
    total = tl.zeros((R, WIDTH), dtype=tl.float32)
    for start in range(split * share, last, C):
        columns = start + tl.arange(0, C)
        r = differences(x, z, rows, columns, d, x_stride, z_stride, SQUARE, R, C)
        total = add_values(total, profile(r * inverse, PROFILE), v, columns, last, outputs, t, v_stride, T)
    store_total(total, out, split, rows, outputs, n, t, T)


@triton.jit
def radial_product_kernel(
    x, x_low, x_norm, z, z_low, z_norm,  # (n, d), (n, d), (n,), (b, d), (b, d), (b,)
    v, out,  # (b, t), (splits, n, t)
    n, b, d, t,
    share,  # rows of z for each split, a multiple of C
    v_stride,
    PROFILE: tl.constexpr,
    SPLIT: tl.constexpr,  # whether x and z are given as high and low parts of 11 bits each
    K: tl.constexpr, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Write profile(‖x − z‖²) v over a share of the rows of z, for R rows of x and T columns of v (1: a vector)."""
    rows = tl.program_id(0) * R + tl.arange(0, R)
    split = tl.program_id(1)
    outputs = tl.program_id(2) * T + tl.arange(0, T)
    last = tl.minimum(split * share + share, b)
    k = tl.arange(0, K)
    x_tile = tl.program_id(0).to(tl.int64) * R * d + tl.arange(0, R)[:, None] * d + k[None, :]
    norm = tl.load(x_norm + rows)
    WIDTH: tl.constexpr = C if T == 1 else T
    total = tl.zeros((R, WIDTH), dtype=tl.float32)
    for first in range(split * share, last, C):
        columns = first + tl.arange(0, C)
        z_tile = (first + tl.arange(0, C)[:, None]) * d + k[None, :]
        product = tl.zeros((R, C), dtype=tl.float32)
        for start in range(0, d, K):
            high, z_high = tl.load(x + x_tile + start), tl.load(z + z_tile + start)
            if SPLIT:
                low, z_lower = tl.load(x_low + x_tile + start), tl.load(z_low + z_tile + start)
                product = tl.dot(low, tl.trans(z_high), product, input_precision="tf32")
                product = tl.dot(high, tl.trans(z_lower), product, input_precision="tf32")
                product = tl.dot(high, tl.trans(z_high), product, input_precision="tf32")
            else:
                product = tl.dot(high, tl.trans(z_high), product, input_precision="ieee")
        square = tl.maximum(norm[:, None] + (tl.load(z_norm + columns)[None, :] - 2.0 * product), 0.0)
        total = add_values(total, profile(square, PROFILE), v, columns, last, outputs, t, v_stride, T)
    store_total(total, out, split, rows, outputs, n, t, T)


@triton.jit
def prepare_kernel(
    x, centre, high, low, norm,  # (n, d), (d,), (rows, width), (rows, width), (rows,)
    inverse, shrink, n, d, width, x_stride,
    SPLIT: tl.constexpr, R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Write (x − centre) · inverse, with zeros around it, in one or two parts, and its squared norms · shrink."""
    row = tl.program_id(0) * R
    r = tl.arange(0, R)[:, None]
    place = row.to(tl.int64) * width + r * width
    total = tl.zeros((R, K), dtype=tl.float32)
    for start in range(0, width, K):
        k = start + tl.arange(0, K)[None, :]
        inside = (r < n - row) & (k < d)
        a = tl.load(x + row.to(tl.int64) * x_stride + r * x_stride + k, mask=inside, other=0.0)
        a = tl.where(inside, (a - tl.load(centre + k, mask=k < d, other=0.0)) * inverse, 0.0)
        total += a * a
        if SPLIT:
            # The nearest number of 11 bits: the tensor cores read no more of a float32.
            top = ((a.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
            tl.store(high + place + k, top)
            tl.store(low + place + k, a - top)
        else:
            tl.store(high + place + k, a)
    tl.store(norm + row + tl.arange(0, R), tl.sum(total, axis=1) * shrink)
