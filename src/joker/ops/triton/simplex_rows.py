"""The steps of a block solve whose loss couples the k classes of a row, between two products with K.

The formulas are those of :mod:`joker.solvers.block.rows`, where m = 1 / (diag(K) + h) is called ``inverse`` and
Σ_j m_j of a row is called ``total``, and of :mod:`joker.solvers.block.rows`. Sums Σ_j are over the classes of a row.
Tensors are (L, k, b): L groups, k classes and b rows. A program has all classes of ``R`` rows of one group, so that sums
over the classes stay inside it. Sums over all rows of a group are written as one number for each program, which the next
kernel adds up.
"""

from __future__ import annotations

import triton
import triton.language as tl

from joker.ops import block_constants as constants

RELAXATION = tl.constexpr(constants.RELAXATION)


@triton.jit
def _place(k, b, KP: tl.constexpr, R: tl.constexpr):
    """Return the offsets of the entries of this program, whether they exist, and the offsets of its rows."""
    group = tl.program_id(0)
    classes, rows = tl.arange(0, KP), tl.program_id(1) * R + tl.arange(0, R)
    offsets = (group * k + classes[:, None]) * b + rows[None, :]
    return offsets, (classes[:, None] < k) & (rows[None, :] < b), group * b + rows, rows < b


@triton.jit
def _total(partial, parts, PP: tl.constexpr):
    """Return the sum over all programs of this group."""
    which = tl.arange(0, PP)
    return tl.sum(tl.load(partial + tl.program_id(0) * parts + which, mask=which < parts, other=0.0), 0)


@triton.jit
def _write_sum(partial, values, parts):
    """Write the sum of this program."""
    tl.store(partial + tl.program_id(0) * parts + tl.program_id(1), tl.sum(tl.sum(values, 1), 0))


@triton.jit
def _project(r, inverse, total, spots, there):
    """Return r - Σ_j m_j r_j / Σ_j m_j, so that z = m r has the sum 0 in every row."""
    return r - (tl.sum(inverse * r, 0) / tl.load(total + spots, mask=there, other=1.0))[None, :]


@triton.jit
def first_residual(g, inverse, total, r, now, k, b, parts, KP: tl.constexpr, R: tl.constexpr):
    """Compute the residual r = -g of a step of 0, projected, and r·z = Σ m r²."""
    offsets, inside, spots, there = _place(k, b, KP, R)
    m = tl.load(inverse + offsets, mask=inside, other=0.0)
    found = _project(-tl.load(g + offsets, mask=inside, other=0.0), m, total, spots, there)
    tl.store(r + offsets, found, mask=inside)
    _write_sum(now, tl.where(inside, m * found * found, 0.0), parts)


@triton.jit
def next_direction(r, inverse, p, now, last, tiny, k, b, parts, KP: tl.constexpr, R: tl.constexpr, PP: tl.constexpr):
    """Compute p ← z + β p with z = m r, where β is r·z divided by that of the step before."""
    offsets, inside, _, _ = _place(k, b, KP, R)
    beta = _total(now, parts, PP) / tl.maximum(_total(last, parts, PP), tiny)
    z = tl.load(inverse + offsets, mask=inside, other=0.0) * tl.load(r + offsets, mask=inside, other=0.0)
    tl.store(p + offsets, z + beta * tl.load(p + offsets, mask=inside, other=0.0), mask=inside)


@triton.jit
def curvature(p, Kp, h, partial, k, b, parts, KP: tl.constexpr, R: tl.constexpr):
    """Compute p·(K + diag h) p."""
    offsets, inside, _, _ = _place(k, b, KP, R)
    v = tl.load(p + offsets, mask=inside, other=0.0)
    q = tl.load(Kp + offsets, mask=inside, other=0.0) + tl.load(h + offsets, mask=inside, other=0.0) * v
    _write_sum(partial, v * q, parts)


@triton.jit
def take_step(
    s, r, p, Kp, h, inverse, total, bend, now, after, tolerance, products, tiny,
    k, b, parts, KP: tl.constexpr, R: tl.constexpr, PP: tl.constexpr,
):  # fmt: skip
    """Compute s ← s + γ p and r ← r - γ (K + diag h) p, projected, with γ = r·z / p·(K + diag h) p; and the new r·z.

    A group whose r·z has reached its tolerance stays: its γ is 0.
    """
    offsets, inside, spots, there = _place(k, b, KP, R)
    group, size = tl.program_id(0), _total(now, parts, PP)
    going = size > tl.load(tolerance + group)
    step = tl.where(going, size / tl.maximum(_total(bend, parts, PP), tiny), 0.0)
    v, m = tl.load(p + offsets, mask=inside, other=0.0), tl.load(inverse + offsets, mask=inside, other=0.0)
    q = tl.load(Kp + offsets, mask=inside, other=0.0) + tl.load(h + offsets, mask=inside, other=0.0) * v
    tl.store(s + offsets, tl.load(s + offsets, mask=inside, other=0.0) + step * v, mask=inside)
    left = tl.load(r + offsets, mask=inside, other=0.0) - step * q
    left = _project(left, m, total, spots, there)
    tl.store(r + offsets, left, mask=inside)
    _write_sum(after, tl.where(inside, m * left * left, 0.0), parts)
    if tl.program_id(1) == 0:
        tl.store(products + group, tl.load(products + group) + going.to(tl.int64))


@triton.jit
def measure_point(
    f, Ks, p, c, diagonal, g, h, inverse, total, now, tiny, k, b, parts, KP: tl.constexpr, R: tl.constexpr
):
    """Compute the model at the shares p: g = f + K s - log p, h = 1 / (c p), m = c p / (1 + c p K_ii) and Σ_j m_j.

    Also computed is Σ m r² of the projected gradient r, whose root is the norm of the gradient.
    """
    offsets, inside, spots, there = _place(k, b, KP, R)
    share = tl.load(p + offsets, mask=inside, other=1.0)
    room = tl.load(c + spots, mask=there, other=0.0)[None, :] * share
    rows = tl.program_id(1) * R + tl.arange(0, R)
    corner = tl.load(diagonal + rows, mask=there, other=0.0)[None, :]
    slope = tl.load(f + offsets, mask=inside, other=0.0) + tl.load(Ks + offsets, mask=inside, other=0.0) - tl.log(share)
    m = tl.where(inside, room / (1.0 + room * corner), 0.0)
    summed = tl.maximum(tl.sum(m, 0), tiny)
    tl.store(g + offsets, slope, mask=inside)
    tl.store(h + offsets, 1.0 / tl.maximum(room, tiny), mask=inside)
    tl.store(inverse + offsets, m, mask=inside)
    tl.store(total + spots, summed, mask=there)
    r = slope - (tl.sum(m * slope, 0) / summed)[None, :]
    _write_sum(now, m * r * r, parts)


@triton.jit
def candidate(p, step, own, c, done, new, d, tiny, least, k, b, KP: tl.constexpr, R: tl.constexpr):
    """Compute the shares after a step s, inside the simplex, and the change d of α that belongs to them.

    With x_j = max(p_j - s_j / c, least p_j), the new shares are x / Σ_j x_j. α is -c p_j for the other classes, and
    minus their sum for the own class of a row.
    """
    offsets, inside, spots, there = _place(k, b, KP, R)
    share = tl.load(p + offsets, mask=inside, other=0.0)
    weight = tl.load(c + spots, mask=there, other=0.0)[None, :]
    x = share - tl.load(step + offsets, mask=inside, other=0.0) / tl.maximum(weight, tiny)
    x = tl.where(inside, tl.maximum(x, least * share), 0.0)
    x = x / tl.maximum(tl.sum(x, 0), tiny)[None, :]
    x = tl.where((weight > 0) & (tl.load(done + tl.program_id(0)) == 0), x, share)
    mine = tl.load(own + offsets, mask=inside, other=0) != 0
    others = tl.where(mine, 0.0, x - share)
    tl.store(new + offsets, x, mask=inside)
    tl.store(d + offsets, weight * tl.where(mine, tl.sum(others, 0)[None, :], -others), mask=inside)


@triton.jit
def line_sums(p, new, g, d, Kd, c, partial, k, b, parts, SHARES: tl.constexpr, KP: tl.constexpr, R: tl.constexpr):
    """Compute, in float64, the sums of which the change of the objective on the line from p to new consists.

    At the share τ of the way the change is τ g·d + τ²/2 d·K d + Σ c x log(x / p), with x = p + τ (new - p). The first
    ``SHARES`` sums are Σ c x log(x / p) at τ = 1, 1/2, 1/4, ...; the others are g·d, d·K d and d·d.
    """
    offsets, inside, spots, there = _place(k, b, KP, R)
    which = tl.program_id(2)
    out = partial + (tl.program_id(0) * (SHARES + 3) + which) * parts + tl.program_id(1)
    if which < SHARES:
        start = tl.load(p + offsets, mask=inside, other=1.0).to(tl.float64)
        move = tl.load(new + offsets, mask=inside, other=1.0).to(tl.float64) - start
        x = start + tl.exp2(-which.to(tl.float32)).to(tl.float64) * move
        weight = tl.load(c + spots, mask=there, other=0.0).to(tl.float64)[None, :]
        tl.store(out, tl.sum(tl.sum(weight * x * tl.log(x / start), 1), 0))
    else:
        v = tl.load(d + offsets, mask=inside, other=0.0).to(tl.float64)
        tl.store(out, tl.sum(tl.sum(v * tl.load(g + offsets, mask=inside, other=0.0), 1), 0))
        tl.store(out + parts, tl.sum(tl.sum(v * tl.load(Kd + offsets, mask=inside, other=0.0), 1), 0))
        tl.store(out + 2 * parts, tl.sum(tl.sum(v * v, 1), 0))


@triton.jit
def move_along(p, s, Ks, new, d, Kd, share, k, b, KP: tl.constexpr, R: tl.constexpr):
    """Compute p ← p + τ (new - p), s ← s + τ d and K s ← K s + τ K d in place, for the share τ of each group."""
    offsets, inside, _, _ = _place(k, b, KP, R)
    part = tl.load(share + tl.program_id(0))
    x = tl.load(p + offsets, mask=inside, other=0.0)
    x += part * (tl.load(new + offsets, mask=inside, other=0.0) - x)
    tl.store(p + offsets, x, mask=inside)
    at = tl.load(s + offsets, mask=inside, other=0.0) + part * tl.load(d + offsets, mask=inside, other=0.0)
    tl.store(s + offsets, at, mask=inside)
    there = tl.load(Ks + offsets, mask=inside, other=0.0) + part * tl.load(Kd + offsets, mask=inside, other=0.0)
    tl.store(Ks + offsets, there, mask=inside)


@triton.jit
def simplex_step(s, u, p, pull, room, c, tie, k, b, KP: tl.constexpr, R: tl.constexpr):
    """Do one iteration of ADMM, where p is ρ (K + ρI)⁻¹ (s - u) and ``pull`` is (K + ρI)⁻¹ g.

    With v = s + RELAXATION (p - pull - s) + u and the room w, the new s is w - max(w - v - τ, 0), where τ gives
    Σ_j (w - s)_j the value c. The new u is v - s, and ``tie`` is s - u.
    """
    offsets, inside, spots, there = _place(k, b, KP, R)
    was = tl.load(s + offsets, mask=inside, other=0.0)
    to = tl.load(p + offsets, mask=inside, other=0.0) - tl.load(pull + offsets, mask=inside, other=0.0)
    v = was + RELAXATION * (to - was) + tl.load(u + offsets, mask=inside, other=0.0)
    limit = tl.load(room + offsets, mask=inside, other=0.0)
    size = tl.load(c + spots, mask=there, other=0.0)
    x = tl.where(inside, limit - v, 0.0)
    shift = (tl.sum(x, 0) - size) / k
    rising = 1
    while rising > 0:  # Newton's method from below: each step removes a class of some row
        above = inside & (x > shift[None, :])
        count = tl.maximum(tl.sum(above.to(x.dtype), 0), 1.0)
        better = (tl.sum(tl.where(above, x, 0.0), 0) - size) / count
        rising = tl.max((better > shift).to(tl.int32), 0)
        shift = tl.maximum(better, shift)
    found = limit - tl.maximum(x - shift[None, :], 0.0)
    multiplier = v - found
    tl.store(s + offsets, found, mask=inside)
    tl.store(u + offsets, multiplier, mask=inside)
    tl.store(tie + offsets, found - multiplier, mask=inside)
