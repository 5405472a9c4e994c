"""A kernel and a constant: what gives a machine an intercept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from torch import Tensor

from joker.kernels.base import Kernel
from joker.ops.rows import SliceableRows


@dataclass(frozen=True)
class WithConstant(Kernel):
    """k(x, z) + 1: the kernel of the features of k and of one more that is always 1.

    The weight of that feature is the intercept, and is penalised like every other weight.

    Parameters
    ----------
    inner : Kernel
        The kernel k, whose bandwidth this one has.
    """

    bandwidth: float = field(init=False)
    inner: Kernel

    name: ClassVar[str] = "with_constant"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", self.inner.bandwidth)

    def __call__(
        self,
        x: Tensor,  # (b, d)
        z: Tensor,  # (k, d)
    ) -> Tensor:  # (b, k)
        """Return the matrix of k(x_i, z_j) + 1."""
        return self.inner(x, z) + 1  # not in place: a kernel may return a view

    def diag(
        self,
        x: Tensor,  # (b, d)
    ) -> Tensor:  # (b,)
        """Return k(x_i, x_i) + 1."""
        return self.inner.diag(x) + 1

    def distance(
        self,
        x: Tensor,  # (b, d)
        z: Tensor,  # (k, d)
    ) -> Tensor:  # (b, k)
        """Return the distance of k."""
        return self.inner.distance(x, z)

    def add_product(
        self,
        x: SliceableRows,  # (n, d)
        z: SliceableRows,  # (k, d)
        v: Tensor,  # (k, t)
        out: Tensor,  # (n, t)
        budget: int,
        row_bytes: tuple[int, int] = (0, 0),
    ) -> bool:
        """Add k(x, z) v to ``out`` without the matrix, and the constant's part with it, where k can."""
        added = self.inner.add_product(x, z, v, out, budget, row_bytes)
        if added:
            out += v.sum(dim=0)
        return added

    def with_bandwidth(self, bandwidth: float) -> Self:
        """Return the same with another σ."""
        return type(self)(self.inner.with_bandwidth(bandwidth))

    def work_bytes(self, b: int, k: int, d: int, itemsize: int) -> int:
        """Return what k needs, or its result and ours, whichever is more."""
        return max(self.inner.work_bytes(b, k, d, itemsize), 2 * itemsize * b * k)
