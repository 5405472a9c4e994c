r"""Conjugate gradients on the free set of a box, by a group of programs; see :mod:`joker.solvers.free_set`.

Every program of a group keeps all vectors (x, gradient, direction ...) and does the same
arithmetic on them, so scalars need no exchange. Only the product K v is shared: each
program computes some rows, writes them to memory, and waits until all have.
"""

import triton
import triton.language as tl

APART = tl.constexpr(32)  # counters from one another, so that groups do not wait for each other's cache line
SHORTER = tl.constexpr(0.25)  # of a conjugate step whose projection lost too much


@triton.jit
def dot(a, b):
    return tl.sum(a * b, axis=0)


@triton.jit
def _add(a0, b0, c0, a1, b1, c1):
    return a0 + a1, b0 + b1, c0 + c1


@triton.jit
def sums(a, b, c):
    """Three sums for the price of one: most of it is waiting for other threads."""
    return tl.reduce((a, b, c), 0, _add)


@triton.jit
def face(x, g, low, high, kink, KINK: tl.constexpr):
    """Where x stands in the box and which way it may go."""
    pull = g
    if KINK:
        sign = tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0)).to(x.dtype)
        pull = tl.where(x == 0, g - tl.minimum(tl.maximum(g, -kink), kink), g + kink * sign)
        low = tl.where((x > 0) | ((x == 0) & (pull <= 0)), tl.maximum(low, 0.0), low)
        high = tl.where((x < 0) | ((x == 0) & (pull >= 0)), tl.minimum(high, 0.0), high)
    held = (x <= low) | (x >= high)
    stuck = tl.where(pull < 0, x >= high, x <= low)
    return pull, low, high, held, tl.where(stuck, 0.0, pull)


@triton.jit
def read(K, first, b, k_row, B: tl.constexpr, TILE: tl.constexpr):
    """TILE rows of K."""
    rows, columns = first + tl.arange(0, TILE), tl.arange(0, B)
    inside = (rows[:, None] < b) & (columns[None, :] < b)
    return tl.load(K + rows[:, None] * k_row + columns[None, :], mask=inside, other=0.0)


@triton.jit
def times(
    K,
    own,  # (TILE, B) where HELD
    v,
    part,
    work,
    arrived,
    turn,
    b,
    k_row,
    B: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    GROUP: tl.constexpr,
    HELD: tl.constexpr,
):
    """K v, of which each program of the group computes ROWS rows, its own where HELD; turn counts the products."""
    columns = tl.arange(0, B)
    buffer = work + (turn % 2) * B
    for first in range(0, ROWS, TILE):
        rows = part * ROWS + first + tl.arange(0, TILE)
        tile = own
        if not HELD:
            tile = read(K, part * ROWS + first, b, k_row, B, TILE)
        tl.store(buffer + rows, tl.sum(tile * v[None, :], axis=1), mask=rows < b)
    tl.debug_barrier()
    if GROUP > 1:
        tl.atomic_add(arrived, 1, sem="release")
        while tl.load(arrived, volatile=True) < (turn + 1) * GROUP:
            pass
        tl.atomic_add(arrived, 0, sem="acquire")
        tl.debug_barrier()
    return tl.load(buffer + columns, mask=columns < b, other=0.0, cache_modifier=".cg"), turn + 1


@triton.jit
def minimise(
    K, own, x, g, h, low, high, kink, tolerance, limit, inverse, smallest, tiny,
    part, work, arrived, turn, b, k_row,
    KINK: tl.constexpr, B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Conjugate gradients on the free set, from x; see joker.solvers.free_set."""
    Ks = x * 0
    p, q = x * 0, x * 0
    curvature = tiny
    fresh = tolerance == tolerance  # true
    products = turn * 0
    pull, lower, upper, held, gradient = face(x, g, low, high, kink, KINK)
    go = tl.sqrt(dot(gradient, gradient)) > tolerance
    while go:
        scaled = gradient * inverse
        free = tl.where(held, 0.0, scaled)
        all_pull, free_pull, shared = sums(scaled * gradient, free * gradient, free * q)
        freeing = all_pull - free_pull > free_pull
        along = tl.where(fresh, 0.0, shared / curvature)
        p = tl.where(freeing, scaled, tl.where(held, 0.0, scaled - along * p))
        Kp, turn = times(K, own, p, part, work, arrived, turn, b, k_row, B, ROWS, TILE, GROUP, HELD)
        q = Kp + h * p
        bent, length, fall = sums(p * q, p * p, p * pull)
        curvature = tl.maximum(tl.maximum(bent, smallest * length), tiny)
        step = fall / curvature
        goal = x - step * p
        new = tl.minimum(tl.maximum(goal, lower), upper)
        Kd = -step * Kp
        products += 1
        fresh = tl.sum((new != goal).to(tl.int32), axis=0) > 0
        if fresh:
            room = tl.where(p > 0, x - lower, x - upper) / tl.where(p == 0, 1.0, p)
            room = tl.where(p == 0, float("inf"), room)
            first = tl.minimum(tl.min(room, axis=0), step)
            wall = tl.where(room <= first, tl.where(p > 0, lower, upper), x - first * p)
            change = first * (0.5 * first * curvature - fall)
            d = new - x
            Kd, turn = times(K, own, d, part, work, arrived, turn, b, k_row, B, ROWS, TILE, GROUP, HELD)
            products += 1
            better = dot(d, pull) + 0.5 * dot(d, Kd + h * d) <= change
            if (better == 0) & (SHORTER * step > first):
                new = tl.minimum(tl.maximum(x - SHORTER * step * p, lower), upper)
                d = new - x
                Kd, turn = times(K, own, d, part, work, arrived, turn, b, k_row, B, ROWS, TILE, GROUP, HELD)
                products += 1
                better = dot(d, pull) + 0.5 * dot(d, Kd + h * d) <= change
            new = tl.where(better, new, wall)
            Kd = tl.where(better, Kd, -first * Kp)
        d = new - x
        g = g + Kd + h * d
        x = new
        Ks = Ks + Kd
        pull, lower, upper, held, gradient = face(x, g, low, high, kink, KINK)
        square, moved, _ = sums(gradient * gradient, tl.where(d != 0, 1.0, 0.0).to(x.dtype), x * 0)
        go = (tl.sqrt(square) > tolerance) & (products < limit) & (moved > 0)
    return x, Ks, products, turn
