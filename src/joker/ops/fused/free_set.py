r"""Conjugate gradients on the free set of a box, by a group of programs; see :mod:`joker.solvers.free_set`.

Every program of a group keeps all vectors (x, gradient, direction ...) and does the same
arithmetic on them, so scalars need no exchange. Only the product K v is shared: each
program computes some rows, writes them to memory, and waits until all have.
"""

import triton
import triton.language as tl

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
def times(
    K,
    own,  # (TILE, B) where HELD
    v,
    part,
    work,
    turn,
    b,
    k_row,
    B: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    GROUP: tl.constexpr,
    HELD: tl.constexpr,
    PACK: tl.constexpr,
):
    """K v, of which each program of the group computes ROWS rows, its own where HELD; turn counts the products."""
    places = work + (turn % 2) * WORDS * B
    turn += 1
    for first in range(0, ROWS, TILE):
        tile = own
        if not HELD:
            tile = read(K, part * ROWS + first, b, k_row, B, TILE)
        tell(places, part * ROWS + first + tl.arange(0, TILE), tl.sum(tile * v[None, :], axis=1), turn, B)
    return hear(places, v, turn, B, GROUP, PACK), turn


@triton.jit
def minimise(
    K, own, x, g, h, low, high, kink, tolerance, limit, inverse, smallest, tiny,
    part, work, turn, b, k_row,
    KINK: tl.constexpr, B: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, GROUP: tl.constexpr, HELD: tl.constexpr,
    PACK: tl.constexpr,
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
        Kp, turn = times(K, own, p, part, work, turn, b, k_row, B, ROWS, TILE, GROUP, HELD, PACK)
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
            Kd, turn = times(K, own, d, part, work, turn, b, k_row, B, ROWS, TILE, GROUP, HELD, PACK)
            products += 1
            better = dot(d, pull) + 0.5 * dot(d, Kd + h * d) <= change
            if (better == 0) & (SHORTER * step > first):
                new = tl.minimum(tl.maximum(x - SHORTER * step * p, lower), upper)
                d = new - x
                Kd, turn = times(K, own, d, part, work, turn, b, k_row, B, ROWS, TILE, GROUP, HELD, PACK)
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
