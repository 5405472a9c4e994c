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


def smaller(size: int, low: int | None) -> tuple[int, int | None] | None:
    """Return smaller parts, or more slices of them, for a step that takes less; None where there are none."""
    if low is not None and low > max(size // SLICES, SMALLEST_PART):
        return size, low // 2  # costs nothing but a few more launches
    return (size // 2, low) if size > SMALLEST_PART else None


def step_parts(
    features: FeatureMap, b: int, d: int, m: int, t: int, budget: int, *, mixed: bool, itemsize: int
) -> tuple[int, int | None]:
    """Return in what parts the features of a block fit ``budget``, or else the smallest, and the size of slices."""
    found: tuple[int, int | None] = (m, m if mixed else None)
    while (fewer := smaller(*found)) is not None:
        part = features if found[0] == m else features.slice(0, found[0])
        if feature_step_bytes(part, b, d, m, t, low=found[1], itemsize=itemsize) <= budget:
            break
        found = fewer
    return found


def feature_step_bytes(part: FeatureMap, b: int, d: int, m: int, t: int, *, low: int | None, itemsize: int) -> int:
    """Return the bytes that a step with features holds beside the state, where a block's come in parts like ``part``.

    ``low`` is how many are there in bfloat16 as well, None for none.
    """
    rows, twins = round_up(b, WHOLE), 0 if low is None else round_up(min(low, part.n_features), WHOLE)
    changes = (2 if part.n_features == m else 3) * m * t  # of the image
    return part.work_bytes(b) + 2 * rows * twins + solve_bytes(b, t, itemsize) + itemsize * (changes + b * d)
