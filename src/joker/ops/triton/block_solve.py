"""The solve of one block in one launch, with a group of programs for each column.

The algorithm and its constants are those of :mod:`joker.solvers.block.trust_region`, with conjugate gradients in the
box as the only strategy.
"""

import torch
import triton
import triton.language as tl

from joker.ops import block_constants as constants
from joker.ops.block_constants import Outcome
from joker.ops.triton.box_cg import WORDS, box_conjugate_gradients, dot, face, read, times

ACCEPT_RATIO, POOR_RATIO, GOOD_RATIO = (
    tl.constexpr(v) for v in (constants.ACCEPT_RATIO, constants.POOR_RATIO, constants.GOOD_RATIO)
)
SHRINK, GROW, BOUNDARY_SHARE = (tl.constexpr(v) for v in (constants.SHRINK, constants.GROW, constants.BOUNDARY_SHARE))
HALVINGS, BARRIER_SHARE = tl.constexpr(constants.HALVINGS), tl.constexpr(constants.BARRIER_SHARE)
TIGHTER = tl.constexpr(constants.TIGHTER)
BOX_TOLERANCE, FORCING = tl.constexpr(constants.BOX_TOLERANCE), tl.constexpr(constants.FORCING)
CONVERGED, LIMIT, STALLED, BROKEN = (
    tl.constexpr(outcome.value) for outcome in (Outcome.CONVERGED, Outcome.LIMIT, Outcome.STALLED, Outcome.BROKEN)
)
SMALLEST_DIVISOR = tl.constexpr(torch.finfo(torch.float32).tiny)
SMALLEST_LOG = tl.constexpr(1e-300)  # smallest float64 argument of a logarithm


@triton.jit
def _dot64(u, v):
    return tl.sum(u.to(tl.float64) * v.to(tl.float64), axis=0)


@triton.jit
def _power(u, exponent):
    return tl.exp(exponent * tl.log(u))


@triton.jit
def _clamp(u, low, high):
    return tl.minimum(tl.maximum(u, low), high)


@triton.jit
def _inside(u, eps, FLOOR: tl.constexpr):
    """Return u clamped to the open interval (0, 1)."""
    return tl.minimum(tl.maximum(u, FLOOR), 1 - eps)


@triton.jit
def _slope(u, p0, p1, eps, FORM: tl.constexpr, FLOOR: tl.constexpr):
    """Return the first derivative of the dual at u."""
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
    """Return the second derivative of the dual at u."""
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
    """Return the dual at u in float64; not for quadratic forms."""
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
    """Return dual(u + v) − dual(u) − slope(u) v in float64."""
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
    """Return a point near u where slope and curvature are finite."""
    if FORM == "entropy":
        out = _inside(tl.where(u == 0, START, u), eps, FLOOR)
    else:
        order = 1 / (p0 - 1)  # p − 1, where p is the exponent conjugate to p0
        size = tl.maximum(tl.abs(toward), FLOOR)
        exponent = tl.where(size > 1, tl.minimum(order, 1.0), order)
        sign = tl.where(toward > 0, 1.0, tl.where(toward < 0, -1.0, 0.0))
        out = tl.where(u == 0, START * sign * _power(size, exponent), u)
    return out.to(u.dtype)


@triton.jit
def _gradient(
    a, f, to_u, sign, tilt, fixed, low, high, kink, p0, p1, eps,
    FORM: tl.constexpr, FLOOR: tl.constexpr, KINK: tl.constexpr,
):  # fmt: skip
    """Return the gradient of the smooth part at a, where the prediction is f, and the norm of the projected gradient."""
    gradient = tl.where(fixed, 0.0, f + sign * _slope(a * to_u, p0, p1, eps, FORM, FLOOR) + tilt)
    _, _, _, _, projected = face(a, gradient, low, high, kink, KINK)
    return gradient, tl.sqrt(dot(projected, projected))


# The blocks of a fit differ by a row, which is not worth a second compilation. A stride known to be 1 would give the loads
# of a column another layout than the other vectors, and a vector that is needed in two layouts is waited for twice.
@triton.jit(do_not_specialize=["b", "t", "y_row", "y_column", "c_row", "c_column"])
def solve_block(
    K, f, a, y, c, parameters,  # (b, b), (b, t), (b, t), (b, t), (b, t), (5, t): p0, p1, lower, upper, kink
    new_out, change_out, linear_out, outcome_out, products_out,  # (b, t), (t,), (t,), (t,), (t,)
    work,  # (t, 2, WORDS, B) words of 8 bytes, 0 at first
    tol, eps, limit, models, patience, b, t, k_row, y_row, y_column, c_row, c_column,
    FORM: tl.constexpr, FLOOR: tl.constexpr, START: tl.constexpr, MARGIN: tl.constexpr, KINK: tl.constexpr,
    B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr, LANES: tl.constexpr,
    HELD: tl.constexpr,  # whether a program keeps its rows of K in registers: then they are one tile
    PACK: tl.constexpr,  # entries of a vector that a thread waits for at once, at most as many as it has
):  # fmt: skip
    """Lower the dual objective of each column over the block; LANES groups share the columns."""
    part = tl.program_id(0) % GROUP
    lane, first = tl.program_id(0) // GROUP, 0
    while first < t:
        column = first + lane
        if column < t:
            _solve_column(
                K, f, a, y, c, parameters, new_out, change_out, linear_out, outcome_out, products_out,
                work + column * 2 * WORDS * B, tol, eps, limit, models, patience, b, t, k_row,
                y_row, y_column, c_row, c_column, column, part,
                FORM, FLOOR, START, MARGIN, KINK, B, ROWS, TILE, GROUP, HELD, PACK,
            )  # fmt: skip
        first += LANES
        # Columns are often sorted by λ, and so by their time: the group of the first column now takes the last one.
        lane = LANES - 1 - lane


@triton.jit
def _solve_column(
    K, f_in, a_in, y_in, c_in, parameters, new_out, change_out, linear_out, outcome_out, products_out,
    work, tol, eps, limit, models, patience, b, t, k_row, y_row, y_column, c_row, c_column, column, part,
    FORM: tl.constexpr, FLOOR: tl.constexpr, START: tl.constexpr, MARGIN: tl.constexpr, KINK: tl.constexpr,
    B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr, HELD: tl.constexpr,
    PACK: tl.constexpr,
):  # fmt: skip
    own, first_row = K, part * ROWS
    if HELD:  # the columns of K are its rows; along a column a thread adds most of a product by itself
        own = read(K, tl.arange(0, B), first_row + tl.arange(0, TILE), b, k_row)
    index = tl.arange(0, B)
    row = index < b
    f = tl.load(f_in + index * t + column, mask=row, other=0.0)
    origin = tl.load(a_in + index * t + column, mask=row, other=0.0)
    y = tl.load(y_in + index * y_row + column * y_column, mask=row, other=1.0)
    c = tl.load(c_in + index * c_row + column * c_column, mask=row, other=0.0)
    diagonal = tl.load(K + index * k_row + index, mask=row, other=0.0)
    p0, p1 = tl.load(parameters + column), tl.load(parameters + t + column)
    lower, upper = tl.load(parameters + 2 * t + column), tl.load(parameters + 3 * t + column)
    kink = tl.load(parameters + 4 * t + column)
    tol, eps = p0 * 0 + tol, p0 * 0 + eps  # in the type of the data

    # The box, and the factor to_u that turns the dual variable into that of the loss: u = to_u a.
    low = tl.where(c > 0, c * lower, 0.0)
    high = tl.where(c > 0, c * upper, 0.0)
    sign = tl.where(row, 1.0, 1.0).to(y.dtype)  # 1
    tilt = -y
    if MARGIN:
        sign = tl.where(y > 0, 1.0, -1.0).to(y.dtype)
        tilt = y * 0
        low, high = tl.where(y > 0, low, -high), tl.where(y > 0, high, -low)
    fixed = low >= high
    low, high = tl.where(fixed, 0.0, low), tl.where(fixed, 0.0, high)
    divisor = tl.where(c > 0, c, 1.0)
    to_u = sign / divisor
    tiny = (p0 * 0 + SMALLEST_DIVISOR).to(f.dtype)
    largest = tl.max(diagonal, axis=0)
    root_b = tl.sqrt(b.to(tl.float32)).to(f.dtype)
    turn = column * 0
    products = column * 0

    a, Ks = origin, origin * 0
    gradient, norm = _gradient(a, f, to_u, sign, tilt, fixed, low, high, kink, p0, p1, eps, FORM, FLOOR, KINK)
    change = 0.0 * tl.sum(f.to(tl.float64), axis=0)
    if FORM != "quadratic":
        toward = sign * (-f - tilt)
        a = _clamp(sign * divisor * _start(a * to_u, toward, p0, eps, FORM, FLOOR, START), low, high)
        s = a - origin
        Ks, turn = times(K, own, s, part, work, turn, b, k_row, B, ROWS, TILE, GROUP, HELD, PACK)
        products += 1
        leap = c.to(tl.float64) * (_value(a * to_u, p0, FORM) - _value(origin * to_u, p0, FORM))
        leap = leap + (tilt * s).to(tl.float64)
        change = _dot64(s, f + 0.5 * Ks) + tl.sum(tl.where(fixed, 0.0, leap), axis=0)
        first = norm
        gradient, norm = _gradient(a, f + Ks, to_u, sign, tilt, fixed, low, high, kink, p0, p1, eps, FORM, FLOOR, KINK)
        least = tol * tl.minimum(first, norm)
    else:
        least = tol * norm
    base = tl.sqrt(dot(f, f)) + tl.sqrt(dot(tl.where(row, y, 0.0), tl.where(row, y, 0.0)))
    s = a - origin
    target = tl.maximum(least, eps * (base + tl.sqrt(dot(s, s)) * largest * root_b))
    broken = (norm == norm) & (norm < float("inf"))
    broken = broken == 0
    stalled = broken & (norm != norm) & (norm == norm)  # false, as a scalar of the device
    radius = norm * 0 + float("inf")
    radius = tl.where(broken, 0.0, radius)
    radius = tl.where(radius == radius, radius, float("inf"))
    count = column * 0
    go = (broken == 0) & (norm > target)
    while go:
        u = a * to_u
        h = tl.where(fixed, 1.0, _curvature(u, p0, eps, FORM, FLOOR) / divisor)
        region_low, region_high = low, high
        tolerance = BOX_TOLERANCE * target
        if FORM == "entropy":
            region_low, region_high = low + BARRIER_SHARE * (a - low), high - BARRIER_SHARE * (high - a)
        if FORM != "quadratic":
            region_low, region_high = tl.maximum(region_low, a - radius), tl.minimum(region_high, a + radius)
            tolerance = tl.maximum(tolerance, FORCING * norm)
        goal, Kd, used, turn = box_conjugate_gradients(
            K, own, a, gradient, h, region_low, region_high, kink, tolerance, limit, patience,
            1 / (diagonal + h), eps * largest, tiny, part, work, turn, b, k_row, KINK, B, ROWS, TILE, GROUP, HELD, PACK,
        )  # fmt: skip
        products += used
        if FORM == "quadratic":  # the model is exact: precision that the search gave up is not asked for again
            least = (least * tl.maximum(1.0, used / patience)).to(least.dtype)
        d = _clamp(goal, low, high) - a
        kink_change = 0.0 * change
        if KINK:
            kink_change = tl.sum((kink * (tl.abs(a + d) - tl.abs(a))).to(tl.float64), axis=0)
        predicted = _dot64(d, gradient + 0.5 * (Kd + h * d)) + kink_change
        linear, square = _dot64(d, gradient), 0.5 * _dot64(d, Kd)
        wide = c.to(tl.float64)
        bend = tl.sum(tl.where(fixed, 0.0, wide * _bend(u, d * to_u, p0, p1, eps, FORM, FLOOR)), axis=0)
        actual = linear + square + bend + kink_change
        if FORM != "quadratic":
            ratio = tl.where(predicted < 0, actual / tl.where(predicted < 0, predicted, -1.0), 0.0)
            length = tl.max(tl.abs(d), axis=0)
            reaches = length >= BOUNDARY_SHARE * radius
            grown = tl.where((ratio > GOOD_RATIO) & reaches, GROW * radius, radius)
            radius = tl.where(ratio < POOR_RATIO, SHRINK * tl.minimum(radius, length), grown)
            if ratio < POOR_RATIO:
                best = ratio * 0 + 1.0
                share = ratio * 0 + 1.0
                for _ in range(HALVINGS):
                    share = share * 0.5
                    part_of = (d.to(tl.float64) * share).to(d.dtype)
                    bend = wide * _bend(u, part_of * to_u, p0, p1, eps, FORM, FLOOR)
                    bend = tl.sum(tl.where(fixed, 0.0, bend), axis=0)
                    shorter = share * linear + share * share * square + bend
                    best = tl.where(shorter < actual, share, best)
                    actual = tl.minimum(actual, shorter)
                d = (d.to(tl.float64) * best).to(d.dtype)
                Kd = (Kd.to(tl.float64) * best).to(Kd.dtype)
        noise = eps * dot(d, d) * largest * root_b
        accept = (actual + noise < 0) & (actual <= ACCEPT_RATIO * predicted)
        a = tl.where(accept, _clamp(a + d, low, high), a)
        Ks = tl.where(accept, Ks + Kd, Ks)
        change = change + tl.where(accept, actual, 0.0)
        gradient, norm = _gradient(a, f + Ks, to_u, sign, tilt, fixed, low, high, kink, p0, p1, eps, FORM, FLOOR, KINK)
        s = a - origin
        if FORM != "quadratic":
            least = tl.where((change >= 0) & (norm <= least), TIGHTER * norm, least)
        target = tl.maximum(least, eps * (base + tl.sqrt(dot(s, s)) * largest * root_b))
        hopeless = (predicted >= 0) | (radius <= eps * tl.max(tl.abs(a), axis=0))
        if FORM == "quadratic":
            hopeless = hopeless | (predicted == predicted)
        else:
            hopeless = hopeless | (ratio >= POOR_RATIO)
        stalled = stalled | ((accept == 0) & hopeless)
        count += 1
        go = (stalled == 0) & (norm > target) & (count < models)

    better = change < 0
    a = tl.where(better, a, origin)
    s = a - origin
    outcome = tl.where(norm <= target, CONVERGED, LIMIT)
    outcome = tl.where(stalled, STALLED, outcome)
    outcome = tl.where(broken, BROKEN, outcome)
    change = tl.where(better, change, 0.0)
    if part == 0:
        tl.store(new_out + index * t + column, a, mask=row)
        tl.store(change_out + column, change)
        tl.store(linear_out + column, tl.where(better, change - 0.5 * _dot64(s, Ks), 0.0))
        tl.store(outcome_out + column, outcome)
        tl.store(products_out + column, products)
