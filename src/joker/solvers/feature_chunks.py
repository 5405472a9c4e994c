"""The features of a block in parts: what is there at a time, and what a step then holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

from torch import Tensor

from joker.ops.triton_support import round_up

SMALLEST_CHUNK = 256  # features
SLICES = 8  # of a part in low precision, at most: of more the products take longer
WHOLE = 16  # sides of a matrix that tensor cores take as they are are multiples of it
AHEAD, LONGER = 10_000_000, 4_000_000  # features of a block from which on it pays, by measurement, to make the next
# one's while a column is solved, or several, which take longer
SECOND_STREAM = 2**25  # bytes that cuBLAS keeps for it
SQUARES = 5  # (b, b) matrices of a block: K, and what a factorisation or a splitting makes of it
TWO_FACTORS = 3  # more where two columns with a λ each are factorised at once
NUMBERS = 40  # for each row and column of a block, in all vectors of a search
WIDE_COPIES = 10  # float64 numbers that the gap needs for each prediction


class FeatureMap(Protocol):
    """A map ψ from d inputs to m features."""

    @property
    def n_features(self) -> int:
        """The number of features m."""
        ...

    def __call__(self, x: Tensor, /) -> Tensor:  # (b, d) -> (b, m)
        """Return ψ of each row."""
        ...

    def fill(self, x: Tensor, out: Tensor, /) -> Tensor:  # (b, d), (b, m) -> (b, m)
        """Return ψ of each row, in ``out``."""
        ...

    def work_bytes(self, b: int, /) -> int:
        """Return the bytes that a call on b rows holds at its peak."""
        ...

    def apply(self, x: Tensor, theta: Tensor, /) -> Tensor:  # (b, d), (m, t) -> (b, t)
        """Return ψ(x) θ."""
        ...

    def apply_bytes(self, b: int, t: int, /) -> int:
        """Return the bytes that `apply` on b rows and t columns holds at its peak, beside its result."""
        ...

    def mixed(self, x: Tensor, out: Tensor | None = None, /) -> tuple[Tensor, Tensor]:  # (b, d) -> (b, m), and more
        """Return ψ of each row, and the same in bfloat16 with rows and columns of zeros behind."""
        ...

    def slice(self, start: int, stop: int, /) -> Self:
        """Return the map of some of the features alone."""
        ...


@dataclass(frozen=True, eq=False)
class FeatureChunk:
    """Some of the features of a block, made at once; their twins in low precision slice by slice."""

    at: slice
    features: FeatureMap
    low: int

    @cached_property
    def slices(self) -> list[tuple[slice, FeatureMap]]:
        """Where each slice is within the part, and its features."""
        return [(at, self.features.slice(at.start, at.stop)) for at in cut(self.features.n_features, self.low)]


@dataclass(frozen=True)
class Chunking:
    """How the features of a block are made.

    Parameters
    ----------
    size : int
        Features of a part.
    low : int or None
        How many of them are there in bfloat16 as well, at a time; None for none.
    ahead : bool
        Whether those of the next block are made while one is solved. They then need room of their own.
    """

    size: int
    low: int | None = None
    ahead: bool = False

    def smaller(self) -> Chunking | None:
        """Return how a step takes less: more slices, which cost nothing but launches, no work ahead, smaller parts."""
        if self.low is not None and self.low > max(self.size // SLICES, SMALLEST_CHUNK):
            return replace(self, low=self.low // 2)
        if self.ahead:
            return replace(self, low=None if self.low is None else self.size, ahead=False)
        return replace(self, size=self.size // 2) if self.size > SMALLEST_CHUNK else None


def cut(m: int, size: int) -> list[slice]:
    """Chunking m features into parts of at most ``size``."""
    return [slice(start, min(start + size, m)) for start in range(0, m, size)]


def choose_chunking(
    features: FeatureMap, b: int, d: int, m: int, t: int, budget: int, *, mixed: bool, ahead: bool, itemsize: int
) -> Chunking:
    """Return how the features of a block are made within ``budget``, or else in the smallest parts."""
    found = Chunking(m, m if mixed else None, ahead and b * m >= (AHEAD if t == 1 else LONGER))
    while (fewer := found.smaller()) is not None:
        part = features if found.size == m else features.slice(0, found.size)
        if feature_step_bytes(part, b, d, m, t, found, itemsize) <= budget:
            break
        found = fewer
    return found


def feature_step_bytes(part: FeatureMap, b: int, d: int, m: int, t: int, how: Chunking, itemsize: int) -> int:
    """Return the bytes that a step with features holds beside the state, where features come in parts like ``part``."""
    rows, twins = round_up(b, WHOLE), 0 if how.low is None else round_up(min(how.low, part.n_features), WHOLE)
    changes = (2 if part.n_features == m else 3) * m * t  # of the image
    more = (
        (two_blocks_bytes(b, m, itemsize) // 2 + SECOND_STREAM) if how.ahead else 0
    )  # one of them is counted as features
    return part.work_bytes(b) + 2 * rows * twins + solve_bytes(b, t, itemsize) + itemsize * (changes + b * d) + more


def two_blocks_bytes(b: int, m: int, itemsize: int) -> int:
    """Return the bytes of the features and kernel matrices of two blocks."""
    return 2 * itemsize * b * (round_up(m, WHOLE) + round_up(b, WHOLE))


def solve_bytes(b: int, t: int, itemsize: int, momentum: bool = False) -> int:
    """Return the bytes that solving a block of b rows and t columns holds, its kernel matrix among them."""
    squares = SQUARES + momentum + (TWO_FACTORS if t == 2 else 0)
    return itemsize * (squares * b * b + NUMBERS * b * t)


def gap_bytes(rows: int, columns: int) -> int:
    """Return the bytes that the terms of the gap hold for so many predictions."""
    return 8 * WIDE_COPIES * rows * columns
