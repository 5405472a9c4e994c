"""Kernel matrices, and their products with vectors, for which the matrix is never stored.

The arguments are prepared: transposed for the difference form; centred, split in two float16 parts and padded with
zeros to whole tiles for the product form. Distances are in a unit in which the kernel is a power of 2, see
`joker.ops.gram.Profile`. Entries outside the data are computed and not stored, or have the weight 0.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

from joker.ops.triton_support import UNROLL as UNROLL_INPUTS

UNROLL = tl.constexpr(UNROLL_INPUTS)
LARGEST = tl.constexpr(2.0**14)  # of a prepared number: twice as much is still a float16
LN2 = tl.constexpr(math.log(2))


@triton.jit
def profile(r, PROFILE: tl.constexpr):
    """Return the kernel as a function of r, an L1 distance ("exponential") or a squared Euclidean one, in its unit."""
    if PROFILE == "distance":
        value = r
    elif PROFILE == "cauchy":
        root = tl.rsqrt(1.0 + r)  # a division takes several operations
        value = root * root
    elif PROFILE == "exponential" or PROFILE == "gaussian":  # noqa: PLR1714 Triton has no sets
        value = tl.exp2(-r)
    else:
        s = tl.sqrt(r)
        value = tl.exp2(-s)
        if PROFILE == "matern32":
            value *= s * LN2 + 1.0
        elif PROFILE == "matern52":
            value *= r * (LN2 * LN2 / 3.0) + (s * LN2 + 1.0)
        else:
            tl.static_assert(PROFILE == "matern12")
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
    total = total.to(x.dtype.element_ty)
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
def add_terms(total, value, v, columns, T: tl.constexpr):
    """Add the terms of these columns to k(x, z) v, for the T columns of v that a program takes (1: a vector).

    Several columns in float32 are sums of two float16 numbers, the high parts first and then the low ones. So are the
    entries of the kernel, and tensor cores multiply the parts, and add in float32.
    """
    if T == 1:
        total += tl.sum(value * tl.load(v + columns)[None, :], axis=1)
    elif value.dtype == tl.float64:
        for k in tl.static_range(T):
            terms = tl.sum(value * tl.load(v + columns * T + k)[None, :], axis=1)
            total += tl.where(tl.arange(0, T)[None, :] == k, terms[:, None], 0.0)
    else:
        weight = tl.load(v + columns[:, None] * (2 * T) + tl.arange(0, 2 * T)[None, :])
        high = value.to(tl.float16)
        total = tl.dot((value - high.to(tl.float32)).to(tl.float16), weight, total)
        total = tl.dot(high, weight, total)
    return total


@triton.jit
def no_terms(out, R: tl.constexpr, T: tl.constexpr):
    """Return the sum of no terms, in the type of the result."""
    dtype = out.dtype.element_ty
    return tl.zeros((R,) if T == 1 else (R, T) if dtype == tl.float64 else (R, 2 * T), dtype=dtype)


@triton.jit
def store_total(total, out, unit, split, rows, inside, n, t, R: tl.constexpr, T: tl.constexpr):
    """Write the sums of a split, where ``inside``."""
    place = out + tl.cast(split, tl.int64) * n * t
    if T == 1:
        tl.store(place + rows, total, mask=inside)
    else:
        outputs = tl.program_id(2) * T + tl.arange(0, T)
        if total.dtype != tl.float64:
            total = tl.sum(tl.reshape(total, (R, 2, T)), axis=1) * tl.load(unit + outputs)[None, :]
        place += rows[:, None].to(tl.int64) * t + outputs[None, :]
        tl.store(place, total, mask=inside[:, None] & (outputs[None, :] < t))


@triton.jit
def difference_matrix_kernel(
    x, z, out,  # (d, n), (d, b), (n, b)
    unit, n, b, d, x_stride, z_stride, out_stride,
    SQUARE: tl.constexpr, PROFILE: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Write profile(unit · Σ_k |x_k − z_k|), or of the squares, for R rows and C columns."""
    row_tiles = tl.cdiv(n, R)
    rows = (tl.program_id(0) % row_tiles) * R + tl.arange(0, R)
    columns = (tl.program_id(0) // row_tiles) * C + tl.arange(0, C)
    r = differences(x, z, rows, columns, d, x_stride, z_stride, SQUARE, R, C)
    inside = (rows[:, None] < n) & (columns[None, :] < b)
    place = out + rows[:, None].to(tl.int64) * out_stride + columns[None, :]
    tl.store(place, profile(r * unit, PROFILE), mask=inside)


@triton.jit
def difference_product_kernel(
    x, z, v, v_unit, out,  # (d, n), (d, b), (b and more, t), (t,), (splits, n, t)
    unit, n, b, d, t,
    share,  # rows of z for each split, a multiple of C
    x_stride, z_stride, v_length,
    SQUARE: tl.constexpr, PROFILE: tl.constexpr, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Write k(x, z) v over a share of the rows of z, for R rows of x and T columns of v (1: a vector).

    In float64, where a number that is not in a tensor would be rounded to float32, x and z have the unit 1.
    """
    rows = tl.program_id(0) * R + tl.arange(0, R)
    split = tl.program_id(1)
    v += tl.program_id(2) * v_length
    total = no_terms(out, R, T)
    for start in range(split * share, tl.minimum(split * share + share, b), C):
        columns = start + tl.arange(0, C)
        r = differences(x, z, rows, columns, d, x_stride, z_stride, SQUARE, R, C)
        total = add_terms(total, profile(r * unit, PROFILE), v, columns, T)
    store_total(total, out, v_unit, split, rows, rows < n, n, t, R, T)


@triton.jit
def radial_product_kernel(
    x, x_low, x_norm, z, z_low, z_norm,  # (n, d), (n, d), (n,), (b, d), (b, d), (b,): z is −2 times as large
    v, v_unit, out,  # (b and more, t), (t,), (splits, n, t)
    near_rows, count,  # (splits · n,), (1,): the rows that are near a row of z, in any order
    near,  # the share of the squared norm of a row below which a distance is too small for the product form
    n, b, d, t,
    share,  # rows of z for each split, a multiple of C
    v_length,
    PROFILE: tl.constexpr,
    LIST: tl.constexpr,  # whether the near rows are listed
    ONCE: tl.constexpr,  # whether K inputs are all
    K: tl.constexpr, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Write profile(‖x − z‖²) v over a share of the rows of z, for R rows of x and T columns of v (1: a vector).

    The product of the two low parts is below the rounding of the sum and is left out.
    """
    rows = tl.program_id(0) * R + tl.arange(0, R)
    split = tl.program_id(1)
    v += tl.program_id(2) * v_length
    k = tl.arange(0, K)
    x_tile = rows.to(tl.int64)[:, None] * d + k[None, :]
    norm = tl.load(x_norm + rows)
    if ONCE:
        high, low = tl.load(x + x_tile), tl.load(x_low + x_tile)
    total = no_terms(out, R, T)
    nearest = tl.full((R,), float("inf"), tl.float32)
    for first in range(split * share, tl.minimum(split * share + share, b), C):
        columns = first + tl.arange(0, C)
        z_tile = k[:, None] + columns[None, :] * d
        if ONCE:
            z_high, z_lower = tl.load(z + z_tile), tl.load(z_low + z_tile)
            square = tl.dot(low, z_high)
            square = tl.dot(high, z_lower, square)
            square = tl.dot(high, z_high, square)
        else:
            square = tl.zeros((R, C), dtype=tl.float32)
            for start in range(0, d, K):
                high, low = tl.load(x + x_tile + start), tl.load(x_low + x_tile + start)
                z_high, z_lower = tl.load(z + z_tile + start), tl.load(z_low + z_tile + start)
                square = tl.dot(low, z_high, square)
                square = tl.dot(high, z_lower, square)
                square = tl.dot(high, z_high, square)
        square += norm[:, None] + tl.load(z_norm + columns)[None, :]
        if LIST:
            nearest = tl.minimum(nearest, tl.min(square, axis=1))
        total = add_terms(total, profile(tl.maximum(square, 0.0), PROFILE), v, columns, T)
    store_total(total, out, v_unit, split, rows, rows < n, n, t, R, T)
    if LIST:  # noqa: SIM102 a condition on a constant, and one on the device
        if tl.program_id(2) == 0:
            found = (rows < n) & (nearest < near * norm)
            number = found.to(tl.int32)
            place = tl.atomic_add(count, tl.sum(number, axis=0)) + tl.cumsum(number, axis=0) - 1
            tl.store(near_rows + place, rows, mask=found)


@triton.jit
def near_rows_kernel(
    x, z,  # (n, d), (d, b)
    v, v_unit, out,  # as in `radial_product_kernel`
    near_rows, count,  # (count,), (1,): the rows
    unit, n, b, d, t, splits, x_stride, z_stride, v_length,
    PROFILE: tl.constexpr, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Write k(x, z) v again for the rows in a list, by differences."""
    v += tl.program_id(2) * v_length
    length = tl.load(count)
    for start in range(tl.program_id(0) * R, length, tl.num_programs(0) * R):
        inside = start + tl.arange(0, R) < length
        rows = tl.load(near_rows + start + tl.arange(0, R), mask=inside, other=0)
        left = x + rows.to(tl.int64) * x_stride
        total = no_terms(out, R, T)
        for first in range(0, b, C):
            columns = first + tl.arange(0, C)
            # For the layout of the sum: see `differences`.
            square = tl.dot(tl.zeros((R, 16), tl.float32), tl.zeros((16, C), tl.float32), input_precision="ieee")
            there = z + columns
            for k in range(0, d, UNROLL):
                for j in tl.static_range(UNROLL):  # whose loads are under way at the same time
                    a = tl.load(left + k + j, mask=inside & (k + j < d), other=0.0)
                    other = tl.load(there + j * z_stride, mask=columns < z_stride, other=0.0)
                    difference = a[:, None] - other[None, :]
                    square += difference * difference
                there += UNROLL * z_stride
            total = add_terms(total, profile(square * unit, PROFILE), v, columns, T)
        store_total(total, out, v_unit, 0, rows, inside, n, t, R, T)
        for split in range(1, splits):
            store_total(no_terms(out, R, T), out, v_unit, split, rows, inside, n, t, R, T)


@triton.jit
def prepare_kernel(
    x, centre, high, low, norm,  # (n, d), (d,), (rows, width), (rows, width), (rows,)
    inverse, shrink, factor, n, d, width, x_stride,
    R: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Write the parts of factor · (x − centre) · inverse, with zeros around it, and the squared norms · shrink.

    The norms are those of the sum of the parts, without the square of the low one, as in a product.
    """
    row = tl.program_id(0) * R
    r = tl.arange(0, R)[:, None]
    place = row.to(tl.int64) * width + r * width
    total = tl.zeros((R, K), dtype=tl.float32)
    for start in range(0, width, K):
        k = start + tl.arange(0, K)[None, :]
        inside = (r < n - row) & (k < d)
        a = tl.load(x + row.to(tl.int64) * x_stride + r * x_stride + k, mask=inside, other=0.0)
        a = tl.where(inside, (a - tl.load(centre + k, mask=k < d, other=0.0)) * inverse, 0.0)
        a = tl.minimum(tl.maximum(a, -LARGEST), LARGEST)
        top = a.to(tl.float16)
        rest = (a - top.to(tl.float32)).to(tl.float16)
        wide, narrow = top.to(tl.float32), rest.to(tl.float32)
        total += wide * wide + 2.0 * wide * narrow
        tl.store(high + place + k, (wide * factor).to(tl.float16))
        tl.store(low + place + k, (narrow * factor).to(tl.float16))
    tl.store(norm + row + tl.arange(0, R), tl.sum(total, axis=1) * shrink)
