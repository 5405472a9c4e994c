"""How many bytes a step and a look at the gap hold beside the state: what a memory budget is planned with."""

from __future__ import annotations

SQUARES = 5  # (b, b) matrices of a block: K, and what a factorisation or a splitting makes of it
TWO_FACTORS = 3  # more where two columns with a λ each are factorised at once
NUMBERS = 40  # for each row and column of a block, in all vectors of a search
WIDE_COPIES = 10  # float64 numbers that the gap needs for each prediction


def solve_bytes(b: int, t: int, itemsize: int, momentum: bool = False) -> int:
    """Return the bytes that solving a block of b rows and t columns holds, its kernel matrix among them."""
    squares = SQUARES + momentum + (TWO_FACTORS if t == 2 else 0)
    return itemsize * (squares * b * b + NUMBERS * b * t)


def look_bytes(rows: int, columns: int) -> int:
    """Return the bytes that the terms of the gap hold for so many predictions."""
    return 8 * WIDE_COPIES * rows * columns
