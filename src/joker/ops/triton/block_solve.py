"""The solve of one block in one launch, with a group of programs for each column; see :mod:`joker.solvers.block.trust_region`."""

import torch
import triton
import triton.language as tl

from joker.ops import block_constants as constants
from joker.ops.triton.box_cg import WORDS, dot, face, minimise, read_columns, times

ACCEPT_RATIO, POOR_RATIO, GOOD_RATIO = (
    tl.constexpr(v) for v in (constants.ACCEPT_RATIO, constants.POOR_RATIO, constants.GOOD_RATIO)
)
SHRINK, GROW, BOUNDARY_SHARE = (tl.constexpr(v) for v in (constants.SHRINK, constants.GROW, constants.BOUNDARY_SHARE))
HALVINGS, BARRIER_SHARE = tl.constexpr(constants.HALVINGS), tl.constexpr(constants.BARRIER_SHARE)
BOX_TOLERANCE, FORCING = tl.constexpr(constants.BOX_TOLERANCE), tl.constexpr(constants.FORCING)
CONVERGED, LIMIT, STALLED, BROKEN = (tl.constexpr(outcome.value) for outcome in constants.Outcome)
TINY = tl.constexpr(torch.finfo(torch.float32).tiny)  # smallest divisor
SMALLEST_LOG = tl.constexpr(1e-300)  # smallest float64 argument of a logarithm


@triton.jit
def _dot64(a, b):
    return tl.sum(a.to(tl.float64) * b.to(tl.float64), axis=0)


@triton.jit
def _power(x, exponent):
    return tl.exp(exponent * tl.log(x))


@triton.jit
def _inside(u, eps, FLOOR: tl.constexpr):
    return tl.minimum(tl.maximum(u, FLOOR), 1 - eps)


@triton.jit
def _slope(u, p0, p1, eps, FORM: tl.constexpr, FLOOR: tl.constexpr):
    """First derivative of the dual at u."""
    if FORM == "quadratic":
        out = p0 * u + p1
    elif FORM == "entropy":
        u = _inside(u, eps, FLOOR)
        out = tl.log(u) - tl.log(1 - u)
    else:
        size = tl.abs(u)
        sign = tl.where(u > 0, 1.0, -1.0)
        out = tl.where(size > 0, sign * _power(tl.where(size > 0, size, 1.0), p0 - 1), 0.0)
    return out.to(u.dtype)


@triton.jit
def _curvature(u, p0, eps, FORM: tl.constexpr, FLOOR: tl.constexpr):
    """Second derivative of the dual at u."""
    if FORM == "quadratic":
        out = u * 0 + p0
    elif FORM == "entropy":
        u = _inside(u, eps, FLOOR)
        out = 1 / u + 1 / (1 - u)
    else:
        out = (p0 - 1) * _power(tl.maximum(tl.abs(u), FLOOR), p0 - 2)
    return out.to(u.dtype)


@triton.jit
def _value(u, p0, FORM: tl.constexpr):
    """The dual at u in float64; not used for quadratic ones."""
    u = u.to(tl.float64)
    if FORM == "entropy":
        u = tl.minimum(tl.maximum(u, 0.0), 1.0)
        up = u * tl.log(tl.where(u > 0, u, 1.0))
        down = (1 - u) * tl.log(tl.where(u < 1, 1 - u, 1.0))
        out = up + down
    else:
        size = tl.abs(u)
        out = tl.where(size > 0, _power(tl.where(size > 0, size, 1.0), p0.to(tl.float64)) / p0, 0.0)
    return out


@triton.jit
def _bend(u, v, p0, p1, eps, FORM: tl.constexpr, FLOOR: tl.constexpr):
    """dual(u + v) − dual(u) − slope(u) v in float64."""
    if FORM == "quadratic":
        wide = v.to(tl.float64)
        out = 0.5 * p0 * wide * wide
    elif FORM == "entropy":
        u, v = _inside(u, eps, FLOOR).to(tl.float64), v.to(tl.float64)
        new = tl.minimum(tl.maximum(u + v, 0.0), 1.0)
        up = new * tl.log(tl.maximum(1 + v / u, SMALLEST_LOG))
        down = (1 - new) * tl.log(tl.maximum(1 - v / (1 - u), SMALLEST_LOG))
        out = up + down
    else:
        wide = u.to(tl.float64)
        slope = _slope(wide, p0.to(tl.float64), p1, eps, FORM, FLOOR)
        out = _value(wide + v, p0, FORM) - _value(wide, p0, FORM) - slope * v
    return out


@triton.jit
def _start(u, toward, p0, eps, FORM: tl.constexpr, FLOOR: tl.constexpr, START: tl.constexpr):
    """A point near u where slope and curvature are finite."""
    if FORM == "entropy":
        out = _inside(tl.where(u == 0, START, u), eps, FLOOR)
    else:
        order = 1 / (p0 - 1)  # p − 1, of the exponent p that p0 is conjugate to
        size = tl.maximum(tl.abs(toward), FLOOR)
        exponent = tl.where(size > 1, tl.minimum(order, 1.0), order)
        sign = tl.where(toward > 0, 1.0, tl.where(toward < 0, -1.0, 0.0))
        out = tl.where(u == 0, START * sign * _power(size, exponent), u)
    return out.to(u.dtype)


# The blocks of a fit differ by a row. A stride known to be 1 would give the loads of a column another layout than the
# rest, and vectors heard in two layouts are waited for twice.
@triton.jit(do_not_specialize=["b", "t", "y_row", "y_column", "c_row", "c_column"])
def solve_block(
    K, f, a, y, c, parameters,  # (b, b), (b, t), (b, t), (b, t), (b, t), (5, t): p0, p1, lower, upper, kink
    x_out, change_out, linear_out, outcome_out, products_out,  # (b, t), (t,), (t,), (t,), (t,)
    work,  # (t, 2, WORDS, B) zeros of 8 bytes
    tol, eps, limit, models, patience, b, t, k_row, y_row, y_column, c_row, c_column,
    FORM: tl.constexpr, FLOOR: tl.constexpr, START: tl.constexpr, MARGIN: tl.constexpr, KINK: tl.constexpr,
    B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr, LANES: tl.constexpr,
    HELD: tl.constexpr,  # whether a program keeps its rows of K: then they are one tile
    PACK: tl.constexpr,  # rows of a vector that a thread waits for at once: no more than it has
):  # fmt: skip
    """Lower the dual objective of each column over the block; LANES groups share the columns."""
    part = tl.program_id(0) % GROUP
    lane, first = tl.program_id(0) // GROUP, 0
    while first < t:
        column = first + lane
        if column < t:
            _solve_column(
                K, f, a, y, c, parameters, x_out, change_out, linear_out, outcome_out, products_out,
                work + column * 2 * WORDS * B, tol, eps, limit, models, patience, b, t, k_row,
                y_row, y_column, c_row, c_column, column, part,
                FORM, FLOOR, START, MARGIN, KINK, B, ROWS, TILE, GROUP, HELD, PACK,
            )  # fmt: skip
        first += LANES
        lane = (
            LANES - 1 - lane
        )  # columns are often sorted by λ, and so by their time: the last come to who had the first


@triton.jit
def _solve_column(
    K, f_in, a_in, y_in, c_in, parameters, x_out, change_out, linear_out, outcome_out, products_out,
    work, tol, eps, limit, models, patience, b, t, k_row, y_row, y_column, c_row, c_column, column, part,
    FORM: tl.constexpr, FLOOR: tl.constexpr, START: tl.constexpr, MARGIN: tl.constexpr, KINK: tl.constexpr,
    B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr, HELD: tl.constexpr,
    PACK: tl.constexpr,
):  # fmt: skip
    own = K
    if HELD:
        own = read_columns(K, part * ROWS, b, k_row, B, TILE)
    index = tl.arange(0, B)
    row = index < b
    f = tl.load(f_in + index * t + column, mask=row, other=0.0)
    a = tl.load(a_in + index * t + column, mask=row, other=0.0)
    y = tl.load(y_in + index * y_row + column * y_column, mask=row, other=1.0)
    c = tl.load(c_in + index * c_row + column * c_column, mask=row, other=0.0)
    diagonal = tl.load(K + index * k_row + index, mask=row, other=0.0)
    p0, p1 = tl.load(parameters + column), tl.load(parameters + t + column)
    lower, upper = tl.load(parameters + 2 * t + column), tl.load(parameters + 3 * t + column)
    kink = tl.load(parameters + 4 * t + column)
    tol, eps = p0 * 0 + tol, p0 * 0 + eps  # in the type of the data

    # The box, and what turns the dual variable into that of the loss: u = own a / c.
    low = tl.where(c > 0, c * lower, 0.0)
    high = tl.where(c > 0, c * upper, 0.0)
    sign = tl.where(row, 1.0, 1.0).to(y.dtype)
    tilt = -y
    if MARGIN:
        sign = tl.where(y > 0, 1.0, -1.0).to(y.dtype)
        tilt = y * 0
        low, high = tl.where(y > 0, low, -high), tl.where(y > 0, high, -low)
    fixed = low >= high
    low, high = tl.where(fixed, 0.0, low), tl.where(fixed, 0.0, high)
    divisor = tl.where(c > 0, c, 1.0)
    to_own = sign / divisor
    tiny = (p0 * 0 + TINY).to(f.dtype)
    largest = tl.max(diagonal, axis=0)
    root = tl.sqrt(b.to(tl.float32)).to(f.dtype)
    turn = column * 0
    products = column * 0

    x, Ks = a, a * 0
    gradient = tl.where(fixed, 0.0, f + sign * _slope(x * to_own, p0, p1, eps, FORM, FLOOR) + tilt)
    pull, _l, _h, held, projected = face(x, gradient, low, high, kink, KINK)
    norm = tl.sqrt(dot(projected, projected))
    change = 0.0 * tl.sum(f.to(tl.float64), axis=0)
    if FORM != "quadratic":
        toward = sign * (-f - tilt)
        x = tl.minimum(tl.maximum(sign * divisor * _start(x * to_own, toward, p0, eps, FORM, FLOOR, START), low), high)
        s = x - a
        Ks, turn = times(K, own, s, part, work, turn, b, k_row, B, ROWS, TILE, GROUP, HELD, PACK)
        products += 1
        leap = c.to(tl.float64) * (_value(x * to_own, p0, FORM) - _value(a * to_own, p0, FORM)) + (tilt * s).to(
            tl.float64
        )
        change = _dot64(s, f + 0.5 * Ks) + tl.sum(tl.where(fixed, 0.0, leap), axis=0)
        gradient = tl.where(fixed, 0.0, f + Ks + sign * _slope(x * to_own, p0, p1, eps, FORM, FLOOR) + tilt)
        pull, _l, _h, held, projected = face(x, gradient, low, high, kink, KINK)
        first = norm
        norm = tl.sqrt(dot(projected, projected))
        least = tol * tl.minimum(first, norm)
    else:
        least = tol * norm
    base = tl.sqrt(dot(f, f)) + tl.sqrt(dot(tl.where(row, y, 0.0), tl.where(row, y, 0.0)))
    s = x - a
    target = tl.maximum(least, eps * (base + tl.sqrt(dot(s, s)) * largest * root))
    broken = (norm == norm) & (norm < float("inf"))
    broken = broken == 0
    stalled = broken & (norm != norm) & (norm == norm)  # false
    radius = norm * 0 + float("inf")
    radius = tl.where(broken, 0.0, radius)
    radius = tl.where(radius == radius, radius, float("inf"))
    count = column * 0
    go = (broken == 0) & (norm > target)
    while go:
        u = x * to_own
        h = tl.where(fixed, 1.0, _curvature(u, p0, eps, FORM, FLOOR) / divisor)
        near_low, near_high = low, high
        tolerance = BOX_TOLERANCE * target
        if FORM == "entropy":
            near_low, near_high = low + BARRIER_SHARE * (x - low), high - BARRIER_SHARE * (high - x)
        if FORM != "quadratic":
            near_low, near_high = tl.maximum(near_low, x - radius), tl.minimum(near_high, x + radius)
            tolerance = tl.maximum(tolerance, FORCING * norm)
        new, Kd, used, turn = minimise(
            K, own, x, gradient, h, near_low, near_high, kink, tolerance, limit, patience,
            1 / (diagonal + h), eps * largest, tiny, part, work, turn, b, k_row, KINK, B, ROWS, TILE, GROUP, HELD, PACK,
        )  # fmt: skip
        products += used
        if FORM == "quadratic":  # the model is exact: what the search has let go is not looked for again
            least = (least * tl.maximum(1.0, used / patience)).to(least.dtype)
        d = tl.minimum(tl.maximum(new, low), high) - x
        bump = 0.0 * change
        if KINK:
            bump = tl.sum((kink * (tl.abs(x + d) - tl.abs(x))).to(tl.float64), axis=0)
        promised = _dot64(d, gradient + 0.5 * (Kd + h * d)) + bump
        straight, square = _dot64(d, gradient), 0.5 * _dot64(d, Kd)
        wide = c.to(tl.float64)
        bend = tl.sum(tl.where(fixed, 0.0, wide * _bend(u, d * to_own, p0, p1, eps, FORM, FLOOR)), axis=0)
        gain = straight + square + bend + bump
        if FORM != "quadratic":
            kept = tl.where(promised < 0, gain / tl.where(promised < 0, promised, -1.0), 0.0)
            length = tl.max(tl.abs(d), axis=0)
            touched = length >= BOUNDARY_SHARE * radius
            grown = tl.where((kept > GOOD_RATIO) & touched, GROW * radius, radius)
            radius = tl.where(kept < POOR_RATIO, SHRINK * tl.minimum(radius, length), grown)
            if kept < POOR_RATIO:
                best = kept * 0 + 1.0
                share = kept * 0 + 1.0
                for _ in range(HALVINGS):
                    share = share * 0.5
                    part_of = (d.to(tl.float64) * share).to(d.dtype)
                    bend = tl.sum(
                        tl.where(fixed, 0.0, wide * _bend(u, part_of * to_own, p0, p1, eps, FORM, FLOOR)), axis=0
                    )
                    shorter = share * straight + share * share * square + bend
                    best = tl.where(shorter < gain, share, best)
                    gain = tl.minimum(gain, shorter)
                d = (d.to(tl.float64) * best).to(d.dtype)
                Kd = (Kd.to(tl.float64) * best).to(Kd.dtype)
        noise = eps * dot(d, d) * largest * root
        accept = (gain + noise < 0) & (gain <= ACCEPT_RATIO * promised)
        x = tl.where(accept, tl.minimum(tl.maximum(x + d, low), high), x)
        Ks = tl.where(accept, Ks + Kd, Ks)
        change = change + tl.where(accept, gain, 0.0)
        gradient = tl.where(fixed, 0.0, f + Ks + sign * _slope(x * to_own, p0, p1, eps, FORM, FLOOR) + tilt)
        pull, _l, _h, held, projected = face(x, gradient, low, high, kink, KINK)
        norm = tl.sqrt(dot(projected, projected))
        s = x - a
        target = tl.maximum(least, eps * (base + tl.sqrt(dot(s, s)) * largest * root))
        hopeless = (promised >= 0) | (radius <= eps * tl.max(tl.abs(x), axis=0))
        if FORM == "quadratic":
            hopeless = hopeless | (promised == promised)
        else:
            hopeless = hopeless | (kept >= POOR_RATIO)
        stalled = stalled | ((accept == 0) & hopeless)
        count += 1
        go = (stalled == 0) & (norm > target) & (count < models)

    better = change < 0
    x = tl.where(better, x, a)
    s = x - a
    outcome = tl.where(norm <= target, CONVERGED, LIMIT)
    outcome = tl.where(stalled, STALLED, outcome)
    outcome = tl.where(broken, BROKEN, outcome)
    change = tl.where(better, change, 0.0)
    if part == 0:
        tl.store(x_out + index * t + column, x, mask=row)
        tl.store(change_out + column, change)
        tl.store(linear_out + column, tl.where(better, change - 0.5 * _dot64(s, Ks), 0.0))
        tl.store(outcome_out + column, outcome)
        tl.store(products_out + column, products)
