"""The cosine and the sine of a float32 argument that may be large."""

from __future__ import annotations

import triton
import triton.language as tl

INVERSE_TURN = tl.constexpr(0.15915493667125702)  # 1/2π
# 2π in three parts (Cody and Waite). The first two have 8 and 11 bits, so that their products
# with an integer are exact; the product with the last one is rounded.
TURN_1 = tl.constexpr(6.28125)
TURN_2 = tl.constexpr(0.0019350051879882812)
TURN_3 = tl.constexpr(3.019916050561733e-07)
# cos r as a polynomial of r² for |r| ≤ 3.3, by interpolation at Chebyshev points: its error is at most 2·10⁻⁸.
LARGEST_SQUARE = tl.constexpr(10.89)  # 3.3²
C0, C1, C2 = tl.constexpr(1.0), tl.constexpr(-0.4999997913837433), tl.constexpr(0.04166637733578682)
C3, C4 = tl.constexpr(-0.0013887296663597226), tl.constexpr(2.4759456209721975e-05)
C5, C6 = tl.constexpr(-2.6981018663718714e-07), tl.constexpr(1.6902113042505107e-09)
HALF_PI = tl.constexpr(1.5707963705062866)


@triton.jit
def remainder(p):
    """Return p minus the nearest integer number of turns, within ±π up to rounding.

    Its error is less than 3·10⁻⁷ for |p| ≤ 10⁶. For larger |p| the number of turns is uncertain, as is p
    itself: a float32 of 10⁷ stands for an interval of length 1. The result then has no digits and no bound.
    """
    turns = tl.floor(p * INVERSE_TURN + 0.5)
    r = p - turns * TURN_1
    r = r - turns * TURN_2
    return r - turns * TURN_3


@triton.jit
def small_cosine(r):
    """Return cos r for |r| ≤ 3.3, and a number in [−1, 1] for any other r."""
    u = tl.minimum(r * r, LARGEST_SQUARE)
    c = C5 + u * C6
    c = C4 + u * c
    c = C3 + u * c
    c = C2 + u * c
    c = C1 + u * c
    c = C0 + u * c
    return c


@triton.jit
def cosine(p):
    """Return cos p with an error of less than 4·10⁻⁷ for |p| ≤ 10⁶, and a number in [−1, 1] for larger |p|."""
    return small_cosine(remainder(p))


@triton.jit
def sine(p):
    """Return sin p as cos(|r| − π/2), with the sign of the remainder r."""
    r = remainder(p)
    s = small_cosine(tl.abs(r) - HALF_PI)
    return tl.where(r < 0, -s, s)
