"""A kernel plus a constant, which gives a machine an intercept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from torch import Tensor

from joker.kernels.base import Kernel
from joker.ops.rows import RowsLike


@dataclass(frozen=True)
class WithConstant(Kernel):
    """k(x, z) + 1: the kernel of the features of k and one more feature that is always 1.

    The weight of that feature is the intercept, and is penalised like every other weight.

    Parameters
    ----------
    inner : Kernel
        The kernel k; its bandwidth is also the bandwidth of this kernel.
    """

    bandwidth: float = field(init=False)
    inner: Kernel

    name: ClassVar[str] = "with_constant"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", self.inner.bandwidth)

    @property
    def constant(self) -> float:
        return 1.0

    @property
    def without_constant(self) -> Kernel:
        return self.inner

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        return self.inner(x, z) + 1  # not in place, as a kernel may return a view

    def diag(self, x: Tensor) -> Tensor:  # (b, d) -> (b,)
        return self.inner.diag(x) + 1

    def distance(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        return self.inner.distance(x, z)

    def add_product(
        self, x: RowsLike, z: RowsLike, v: Tensor, out: Tensor, budget: int, row_bytes: tuple[int, int] = (0, 0)
    ) -> bool:  # x (n, d), z (k, d), v (k, t), out (n, t)
        """Add k(x, z) v and the sum of v to ``out`` without the matrix, if k can do that."""
        added = self.inner.add_product(x, z, v, out, budget, row_bytes)
        if added:
            out += v.sum(dim=0)
        return added

    def with_bandwidth(self, bandwidth: float) -> Self:
        return type(self)(self.inner.with_bandwidth(bandwidth))

    def work_bytes(self, b: int, k: int, d: int, itemsize: int) -> int:
        """Return the bytes that k needs, or those of its result and of this one, whichever is more."""
        return max(self.inner.work_bytes(b, k, d, itemsize), 2 * itemsize * b * k)
