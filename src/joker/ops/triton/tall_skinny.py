"""Products of a wide matrix with a few columns, which read the matrix once.

Each number of the matrix is split into three that tensor cores can multiply; the error is smaller than that of a sum in
float32.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["b", "t", "steps"])  # the blocks of a fit differ by a row
def product_kernel(
    psi, v, out, b, m, t, steps, psi_row,  # (b, m), (m, t), (parts, b, t)
    ROWS: tl.constexpr, STEP: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """One part of Ψ v: the sum over ``steps`` times STEP columns of Ψ, for some of its rows."""
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, T)
    first = tl.program_id(1) * steps
    total = tl.zeros((T, ROWS), tl.float32)
    for step in range(first, tl.minimum(first + steps, tl.cdiv(m, STEP))):
        terms = step * STEP + tl.arange(0, STEP)  # begin at a multiple of STEP, so that four numbers are read at once
        inside = (rows[None, :] < b) & (terms[:, None] < m)
        tile = tl.load(psi + rows[None, :].to(tl.int64) * psi_row + terms[:, None], mask=inside, other=0.0)
        inside = (terms[None, :] < m) & (columns[:, None] < t)
        weights = tl.load(v + terms[None, :] * t + columns[:, None], mask=inside, other=0.0)
        total = tl.dot(weights, tile, total, input_precision="tf32x3")
    out += tl.program_id(1) * b * t
    tl.store(out + rows[None, :] * t + columns[:, None], total, mask=(rows[None, :] < b) & (columns[:, None] < t))


@triton.jit(do_not_specialize=["parts", "length"])
def add_kernel(parts_in, out, parts, length, PARTS: tl.constexpr, WIDTH: tl.constexpr):  # (parts, length), (length,)
    """The sum of parts, in a fixed order."""
    part, at = tl.arange(0, PARTS), tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = (part[:, None] < parts) & (at[None, :] < length)
    value = tl.load(parts_in + part[:, None] * length + at[None, :], mask=inside, other=0.0)
    tl.store(out + at, tl.sum(value, axis=0), mask=at < length)


@triton.jit(do_not_specialize=["t"])
def squares_kernel(v, out, m, t, share, ROWS: tl.constexpr, T: tl.constexpr):  # (m, t), (parts, t)
    """One part of the sums of squares of the columns of v."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, T)
    first = tl.program_id(0) * share
    total = tl.zeros((ROWS, T), tl.float32)
    for start in range(first, tl.minimum(first + share, m), ROWS):
        at = start + rows
        inside = (at[:, None] < m) & (columns[None, :] < t)
        value = tl.load(v + at[:, None] * t + columns[None, :], mask=inside, other=0.0)
        total += value * value
    tl.store(out + tl.program_id(0) * t + columns, tl.sum(total, axis=0), mask=columns < t)


@triton.jit(do_not_specialize=["b", "t", "share"])
def transposed_kernel(
    psi, v, out, b, m, t, share, psi_row,  # (b, m), (b, t), (parts, m, t)
    WIDTH: tl.constexpr, STEP: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """One part of some rows of Ψᵀ v: the sum over ``share`` rows of Ψ."""
    own, columns = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH), tl.arange(0, T)
    first = tl.program_id(1) * share
    total = tl.zeros((WIDTH, T), tl.float32)
    for start in range(first, tl.minimum(first + share, b), STEP):
        terms = start + tl.arange(0, STEP)
        inside = (terms[None, :] < b) & (own[:, None] < m)
        tile = tl.load(psi + terms[None, :].to(tl.int64) * psi_row + own[:, None], mask=inside, other=0.0)
        inside = (terms[:, None] < b) & (columns[None, :] < t)
        weights = tl.load(v + terms[:, None] * t + columns[None, :], mask=inside, other=0.0)
        total = tl.dot(tile, weights, total, input_precision="tf32x3")
    out += tl.program_id(1) * m * t
    tl.store(out + own[:, None] * t + columns[None, :], total, mask=(own[:, None] < m) & (columns[None, :] < t))


@triton.jit
def one_kernel(
    out,  # (1,)
):
    """Write 1."""
    tl.store(out, 1.0)
