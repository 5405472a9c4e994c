"""The features of a block in parts: what is there at a time, and what a step then holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

from torch import Tensor

from joker.ops.dispatch import round_up
from joker.solvers.footprint import solve_bytes

SMALLEST_PART = 256  # features
SLICES = 8  # of a part in low precision, at most: of more the products take longer
WHOLE = 16  # sides of a matrix that tensor cores take as they are are multiples of it


class FeatureMap(Protocol):
    """A map ψ from d inputs to m features."""

    @property
    def n_features(self) -> int:
        """The number of features m."""
        ...

    def __call__(self, x: Tensor, /) -> Tensor:  # (b, d) -> (b, m)
        """Return ψ of each row."""
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
class Part:
    """Some of the features of a block, made at once; their twins in low precision slice by slice."""

    at: slice
    features: FeatureMap
    low: int

    @cached_property
    def slices(self) -> list[tuple[slice, FeatureMap]]:
        """Where each slice is within the part, and its features."""
        return [(at, self.features.slice(at.start, at.stop)) for at in cut(self.features.n_features, self.low)]


def cut(m: int, size: int) -> list[slice]:
    """Cut m features into parts of at most ``size``."""
    return [slice(start, min(start + size, m)) for start in range(0, m, size)]


def smallest_part(m: int) -> int:
    """Return the size of the smallest parts that m features are made in."""
    while m > SMALLEST_PART:
        m //= 2
    return m


def feature_step_bytes(
    part: FeatureMap, b: int, d: int, m: int, t: int, *, low: int | None, itemsize: int, momentum: bool = False
) -> int:
    """Return the bytes that a step with features holds beside the state, where a block's come in parts like ``part``.

    ``low`` is how many are there in bfloat16 as well, None for none.
    """
    rows, twins = round_up(b, WHOLE), 0 if low is None else round_up(min(low, part.n_features), WHOLE)
    changes = (2 if part.n_features == m else 3) * m * t  # of the image
    solve = solve_bytes(b, t, itemsize, momentum)
    return part.work_bytes(b) + 2 * rows * twins + solve + itemsize * (changes + b * d)
