r"""Conjugate gradients on the free set of a box, by a group of programs; see :mod:`joker.solvers.block.box_cg`.

Every program of a group keeps all vectors (x, gradient, direction ...) and does the same
arithmetic on them, so scalars need no exchange. Only the product K v is shared: each
program computes some rows, writes them to memory, and waits until all have.
"""

import triton
import triton.language as tl

from joker.ops import block_constants as constants

WORDS = tl.constexpr(2)  # of 8 bytes for each value, of which float64 needs both
HIGH, LOW = tl.constexpr(-(2**32)), tl.constexpr(2**32 - 1)  # halves of a word


def _waiting(words: int) -> str:
    """PTX that reads some words until each is of its turn; they are on their way together."""
    reads = " ".join(f"ld.volatile.global.b64 ${i}, [${words + i}];" for i in range(words))
    checks = " ".join(
        f"cvt.u32.u64 turn, ${i}; setp.ne.or.u32 late, turn, ${2 * words + i}, late;" for i in range(words)
    )
    return f"{{ .reg .pred late; .reg .b32 turn; again: {reads} setp.ne.u32 late, 0, 0; {checks} @late bra again; }}"


ONE, TWO, FOUR = (tl.constexpr(_waiting(words)) for words in (1, 2, 4))
PROPORTION, SHORT_STEP = tl.constexpr(constants.PROPORTION), tl.constexpr(constants.SHORT_STEP)


@triton.jit
def dot(a, b):
    return tl.sum(a * b, axis=0)


@triton.jit
def _add_two(a0, b0, a1, b1):
    return a0 + a1, b0 + b1


@triton.jit
def _add_six(a0, b0, c0, d0, e0, f0, a1, b1, c1, d1, e1, f1):
    return a0 + a1, b0 + b1, c0 + c1, d0 + d1, e0 + e1, f0 + f1


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
    """TILE rows of K, (TILE, B)."""
    rows, columns = first + tl.arange(0, TILE), tl.arange(0, B)
    inside = (rows[:, None] < b) & (columns[None, :] < b)
    return tl.load(K + rows[:, None] * k_row + columns[None, :], mask=inside, other=0.0)


@triton.jit
def read_columns(K, first, b, k_row, B: tl.constexpr, TILE: tl.constexpr):
    """TILE columns of K, (B, TILE), which are its rows too: a thread adds up most of their product by itself."""
    rows, columns = tl.arange(0, B), first + tl.arange(0, TILE)
    inside = (rows[:, None] < b) & (columns[None, :] < b)
    return tl.load(K + rows[:, None] * k_row + columns[None, :], mask=inside, other=0.0)


@triton.jit
def tell(places, rows, value, turn, B: tl.constexpr):
    """Write values for the other programs, each in words of 8 bytes of which half is the turn that they belong to."""
    if value.dtype == tl.float64:
        bits = value.to(tl.int64, bitcast=True)
        tl.store(places + rows, (bits & HIGH) | turn)
        tl.store(places + B + rows, (bits << 32) | turn)
    else:
        tl.store(places + rows, (value.to(tl.int32, bitcast=True).to(tl.int64) << 32) | turn)


@triton.jit
def hear(places, like, turn, B: tl.constexpr, GROUP: tl.constexpr, PACK: tl.constexpr):
    """Read the values of this turn, each as soon as it is there.

    A word arrives whole, so its turn tells that its value has come: that saves the wait at a counter, and with it a
    second trip to memory. Two turns have places of their own; whoever writes the next but one has heard from all
    that they have read this one.
    """
    places += tl.arange(0, B)
    if like.dtype == tl.float64:
        high, low = _word(places, turn, GROUP, PACK), _word(places + B, turn, GROUP, PACK)
        value = ((high & HIGH) | ((low >> 32) & LOW)).to(tl.float64, bitcast=True)
    else:
        value = (_word(places, turn, GROUP, PACK) >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return value


@triton.jit
def _word(places, turn, GROUP: tl.constexpr, PACK: tl.constexpr):
    """Words of this turn; every thread waits for its own, PACK at a time."""
    if GROUP == 1:
        tl.debug_barrier()
        word = tl.load(places)
    else:
        address, turns = places.to(tl.int64), tl.full(places.shape, 0, tl.int32) + turn
        if PACK == 1:
            word = tl.inline_asm_elementwise(ONE, "=&l,l,r", [address, turns], tl.int64, is_pure=False, pack=1)
        elif PACK == 2:
            word = tl.inline_asm_elementwise(TWO, "=&l,=&l,l,l,r,r", [address, turns], tl.int64, is_pure=False, pack=2)
        else:
            word = tl.inline_asm_elementwise(
                FOUR, "=&l,=&l,=&l,=&l,l,l,l,l,r,r,r,r", [address, turns], tl.int64, is_pure=False, pack=4
            )
    return word


@triton.jit
def begin(
    K,
    own,  # (B, TILE) where HELD
    v,
    part,
    work,
    turn,
    b,
    k_row,
    B: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    HELD: tl.constexpr,
):
    """Tell the others ROWS rows of K v, those of this program; turn counts the products, and `hear` has them all."""
    places = work + (turn % 2) * WORDS * B
    turn += 1
    for first in range(0, ROWS, TILE):
        if HELD:
            product = tl.sum(own * v[:, None], axis=0)
        else:
            product = tl.sum(read(K, part * ROWS + first, b, k_row, B, TILE) * v[None, :], axis=1)
        tell(places, part * ROWS + first + tl.arange(0, TILE), product, turn, B)
    return places, turn


@triton.jit
def times(
    K, own, v, part, work, turn, b, k_row,
    B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr, HELD: tl.constexpr,
    PACK: tl.constexpr,
):  # fmt: skip
    """K v, by all programs of the group."""
    places, turn = begin(K, own, v, part, work, turn, b, k_row, B, ROWS, TILE, HELD)
    return hear(places, v, turn, B, GROUP, PACK), turn


@triton.jit
def look(x, g, q, moved, leaving, inverse, low, high, kink, KINK: tl.constexpr):
    """All sums over x and the gradient there that decide how to go on, at once: most of their time is waiting."""
    _pull, _low, _high, held, gradient = face(x, g, low, high, kink, KINK)
    scaled = gradient * inverse
    free = tl.where(held, 0.0, scaled)
    moved, leaving = tl.where(moved, 1.0, 0.0).to(x.dtype), tl.where(leaving, 1.0, 0.0).to(x.dtype)
    return tl.reduce((gradient * gradient, scaled * gradient, free * gradient, free * q, moved, leaving), 0, _add_six)


@triton.jit
def minimise(
    K, own, x, g, h, low, high, kink, tolerance, limit, patience, inverse, smallest, tiny,
    part, work, turn, b, k_row,
    KINK: tl.constexpr, B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr, HELD: tl.constexpr,
    PACK: tl.constexpr,
):  # fmt: skip
    """Conjugate gradients on the free set, from x; see joker.solvers.block.box_cg."""
    Ks = x * 0
    p = x * 0
    curvature = tiny
    fresh = tolerance == tolerance  # true
    products = turn * 0
    still = x != x  # false
    square, all_pull, free_pull, shared, _, _ = look(x, g, p, still, still, inverse, low, high, kink, KINK)
    go = tl.sqrt(square) > tolerance
    while go:
        pull, lower, upper, held, gradient = face(x, g, low, high, kink, KINK)
        scaled = gradient * inverse
        freeing = all_pull - free_pull > PROPORTION * PROPORTION * free_pull
        along = tl.where(fresh, 0.0, shared / curvature)
        p = tl.where(freeing, scaled, tl.where(held, 0.0, scaled - along * p))
        places, turn = begin(K, own, p, part, work, turn, b, k_row, B, ROWS, TILE, HELD)
        length, fall = tl.reduce((p * p, p * pull), 0, _add_two)  # while the others are at it
        Kp = hear(places, p, turn, B, GROUP, PACK)
        products += 1
        q = Kp + h * p
        curvature = tl.maximum(tl.maximum(dot(p, q), smallest * length), tiny)
        step = fall / curvature
        goal = x - step * p
        new = tl.minimum(tl.maximum(goal, lower), upper)
        Kd = -step * Kp
        d = new - x
        square, all_pull, free_pull, shared, moved, left = look(
            new, g + Kd + h * d, q, d != 0, new != goal, inverse, low, high, kink, KINK
        )
        fresh = left > 0
        if fresh:
            places, turn = begin(K, own, d, part, work, turn, b, k_row, B, ROWS, TILE, HELD)
            room = tl.where(p > 0, x - lower, x - upper) / tl.where(p == 0, 1.0, p)
            room = tl.where(p == 0, float("inf"), room)
            first = tl.minimum(tl.min(room, axis=0), step)
            change = first * (0.5 * first * curvature - fall)
            Kd = hear(places, d, turn, B, GROUP, PACK)
            products += 1
            better = dot(d, pull + 0.5 * (Kd + h * d)) <= change
            if (better == 0) & (SHORT_STEP * step > first):
                new = tl.minimum(tl.maximum(x - SHORT_STEP * step * p, lower), upper)
                d = new - x
                Kd, turn = times(K, own, d, part, work, turn, b, k_row, B, ROWS, TILE, GROUP, HELD, PACK)
                products += 1
                better = dot(d, pull + 0.5 * (Kd + h * d)) <= change
            wall = tl.where(room <= first, tl.where(p > 0, lower, upper), x - first * p)
            new = tl.where(better, new, wall)
            Kd = tl.where(better, Kd, -first * Kp)
            d = new - x
            square, all_pull, free_pull, shared, moved, left = look(
                new, g + Kd + h * d, q, d != 0, still, inverse, low, high, kink, KINK
            )
        g = g + Kd + h * d
        x = new
        Ks = Ks + Kd
        slack = tl.maximum(1.0, products / patience)
        go = (tl.sqrt(square) > slack * tolerance) & (products < limit) & (moved > 0)
    return x, Ks, products, turn
