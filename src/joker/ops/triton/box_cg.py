r"""Conjugate gradients in a box, by a group of programs; the same in plain torch is :mod:`joker.solvers.block.box_cg`.

Every program of a group keeps all vectors (point, gradient, direction ...) and does the same
arithmetic on them, so scalars need no exchange. Only the product K v is divided: each program
computes some rows of it, writes them to memory, and reads those of the others.
"""

import triton
import triton.language as tl

from joker.ops import block_constants as constants

WORDS = tl.constexpr(2)  # words of 8 bytes for each value: float64 needs both, float32 the first
HIGH, LOW = tl.constexpr(-(2**32)), tl.constexpr(2**32 - 1)  # masks of the halves of a word


def _waiting(words: int) -> str:
    """Return PTX that reads some words, all at the same time, until each has the number of this turn."""
    reads = " ".join(f"ld.volatile.global.b64 ${i}, [${words + i}];" for i in range(words))
    checks = " ".join(
        f"cvt.u32.u64 turn, ${i}; setp.ne.or.u32 late, turn, ${2 * words + i}, late;" for i in range(words)
    )
    return f"{{ .reg .pred late; .reg .b32 turn; again: {reads} setp.ne.u32 late, 0, 0; {checks} @late bra again; }}"


ONE, TWO, FOUR = (tl.constexpr(_waiting(words)) for words in (1, 2, 4))
PROPORTION, SHORT_STEP = tl.constexpr(constants.PROPORTION), tl.constexpr(constants.SHORT_STEP)


@triton.jit
def dot(u, v):
    return tl.sum(u * v, axis=0)


@triton.jit
def _add_two(a0, b0, a1, b1):
    return a0 + a1, b0 + b1


@triton.jit
def _add_six(a0, b0, c0, d0, e0, f0, a1, b1, c1, d1, e1, f1):
    return a0 + a1, b0 + b1, c0 + c1, d0 + d1, e0 + e1, f0 + f1


@triton.jit
def face(a, g, low, high, kink, KINK: tl.constexpr):
    """Return the gradient with the kink, the walls of the orthant of a, what is held, and the projected gradient."""
    pull = g
    if KINK:
        sign = tl.where(a > 0, 1.0, tl.where(a < 0, -1.0, 0.0)).to(a.dtype)
        pull = tl.where(a == 0, g - tl.minimum(tl.maximum(g, -kink), kink), g + kink * sign)
        low = tl.where((a > 0) | ((a == 0) & (pull <= 0)), tl.maximum(low, 0.0), low)
        high = tl.where((a < 0) | ((a == 0) & (pull >= 0)), tl.minimum(high, 0.0), high)
    held = (a <= low) | (a >= high)
    stuck = tl.where(pull < 0, a >= high, a <= low)
    return pull, low, high, held, tl.where(stuck, 0.0, pull)


@triton.jit
def read(K, rows, columns, b, k_row):
    """Return these rows and columns of K, with 0 outside the block."""
    inside = (rows[:, None] < b) & (columns[None, :] < b)
    return tl.load(K + rows[:, None] * k_row + columns[None, :], mask=inside, other=0.0)


@triton.jit
def send(places, rows, value, turn, B: tl.constexpr):
    """Write values for the other programs, in words of 8 bytes: one half is data, the other the number of the turn."""
    if value.dtype == tl.float64:
        bits = value.to(tl.int64, bitcast=True)
        tl.store(places + rows, (bits & HIGH) | turn)
        tl.store(places + B + rows, (bits << 32) | turn)
    else:
        tl.store(places + rows, (value.to(tl.int32, bitcast=True).to(tl.int64) << 32) | turn)


@triton.jit
def receive(places, like, turn, B: tl.constexpr, GROUP: tl.constexpr, PACK: tl.constexpr):
    """Read the values of this turn, each as soon as it is written.

    A word is written as a whole, so the number of its turn shows that its value is there: no counter is needed, and
    no second access to memory. Even and odd turns have separate places: a program that writes turn k + 2 has
    received turn k + 1 from all others, and these have read turn k before they sent it.
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
    """Return the words of this turn; every thread waits for its own, PACK at a time."""
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
    own,  # (B, TILE) rows of K of this program, where HELD
    v, part, work, turn, b, k_row,
    B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """Send the ROWS rows of K v that this program computes; turn counts the products; `receive` returns all rows."""
    places = work + (turn % 2) * WORDS * B
    turn += 1
    for first in range(0, ROWS, TILE):
        if HELD:
            product = tl.sum(own * v[:, None], axis=0)
        else:
            rows = part * ROWS + first + tl.arange(0, TILE)
            product = tl.sum(read(K, rows, tl.arange(0, B), b, k_row) * v[None, :], axis=1)
        send(places, part * ROWS + first + tl.arange(0, TILE), product, turn, B)
    return places, turn


@triton.jit
def times(
    K, own, v, part, work, turn, b, k_row,
    B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr, HELD: tl.constexpr,
    PACK: tl.constexpr,
):  # fmt: skip
    """Return K v, computed by all programs of the group."""
    places, turn = begin(K, own, v, part, work, turn, b, k_row, B, ROWS, TILE, HELD)
    return receive(places, v, turn, B, GROUP, PACK), turn


@triton.jit
def sums(a, g, q, moved, leaving, inverse, low, high, kink, KINK: tl.constexpr):
    """Return all sums over the vectors at a that decide the next iteration, in one reduction: it is mostly latency."""
    _pull, _low, _high, held, gradient = face(a, g, low, high, kink, KINK)
    scaled = gradient * inverse
    free = tl.where(held, 0.0, scaled)
    moved, leaving = tl.where(moved, 1.0, 0.0).to(a.dtype), tl.where(leaving, 1.0, 0.0).to(a.dtype)
    return tl.reduce((gradient * gradient, scaled * gradient, free * gradient, free * q, moved, leaving), 0, _add_six)


@triton.jit
def box_conjugate_gradients(
    K, own, a, g, h, low, high, kink, tolerance, limit, patience, inverse, smallest, tiny,
    part, work, turn, b, k_row,
    KINK: tl.constexpr, B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr, HELD: tl.constexpr,
    PACK: tl.constexpr,
):  # fmt: skip
    """Minimise the quadratic over the box, from a."""
    Ks = a * 0
    p = a * 0
    curvature = tiny
    restart = tolerance == tolerance  # true, as a scalar of the device
    products = turn * 0
    still = a != a  # false for every coordinate
    square, whole_norm, free_norm, free_q, _, _ = sums(a, g, p, still, still, inverse, low, high, kink, KINK)
    go = tl.sqrt(square) > tolerance
    while go:
        pull, lower, upper, held, gradient = face(a, g, low, high, kink, KINK)
        scaled = gradient * inverse
        release = whole_norm - free_norm > PROPORTION * PROPORTION * free_norm
        along = tl.where(restart, 0.0, free_q / curvature)
        p = tl.where(release, scaled, tl.where(held, 0.0, scaled - along * p))
        places, turn = begin(K, own, p, part, work, turn, b, k_row, B, ROWS, TILE, HELD)
        p_square, slope = tl.reduce((p * p, p * pull), 0, _add_two)  # while the other programs multiply
        Kp = receive(places, p, turn, B, GROUP, PACK)
        products += 1
        q = Kp + h * p
        curvature = tl.maximum(tl.maximum(dot(p, q), smallest * p_square), tiny)
        length = slope / curvature
        goal = a - length * p
        new = tl.minimum(tl.maximum(goal, lower), upper)
        Kd = -length * Kp
        d = new - a
        square, whole_norm, free_norm, free_q, moved, left = sums(
            new, g + Kd + h * d, q, d != 0, new != goal, inverse, low, high, kink, KINK
        )
        restart = left > 0
        if restart:
            places, turn = begin(K, own, d, part, work, turn, b, k_row, B, ROWS, TILE, HELD)
            room = tl.where(p > 0, a - lower, a - upper) / tl.where(p == 0, 1.0, p)
            room = tl.where(p == 0, float("inf"), room)
            first = tl.minimum(tl.min(room, axis=0), length)
            change = first * (0.5 * first * curvature - slope)
            Kd = receive(places, d, turn, B, GROUP, PACK)
            products += 1
            better = dot(d, pull + 0.5 * (Kd + h * d)) <= change
            if (better == 0) & (SHORT_STEP * length > first):
                new = tl.minimum(tl.maximum(a - SHORT_STEP * length * p, lower), upper)
                d = new - a
                Kd, turn = times(K, own, d, part, work, turn, b, k_row, B, ROWS, TILE, GROUP, HELD, PACK)
                products += 1
                better = dot(d, pull + 0.5 * (Kd + h * d)) <= change
            wall = tl.where(room <= first, tl.where(p > 0, lower, upper), a - first * p)
            new = tl.where(better, new, wall)
            Kd = tl.where(better, Kd, -first * Kp)
            d = new - a
            square, whole_norm, free_norm, free_q, moved, left = sums(
                new, g + Kd + h * d, q, d != 0, still, inverse, low, high, kink, KINK
            )
        g = g + Kd + h * d
        a = new
        Ks = Ks + Kd
        slack = tl.maximum(1.0, products / patience)
        go = (tl.sqrt(square) > slack * tolerance) & (products < limit) & (moved > 0)
    return a, Ks, products, turn
