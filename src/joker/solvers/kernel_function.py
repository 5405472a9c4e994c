"""What a solve needs of a kernel."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class KernelFunction(Protocol):
    """A kernel, with the constant of an intercept."""

    @property
    def constant(self) -> float:
        """The constant."""

    @property
    def without_constant(self) -> KernelFunction:
        """The kernel without it."""

    def __call__(self, x: Tensor, z: Tensor, /) -> Tensor:  # (b, d), (c, d) -> (b, c)
        """Return the kernel matrix of two sets of rows."""

    def diag(self, x: Tensor, /) -> Tensor:  # (b, d) -> (b,)
        """Return the kernel of each row with itself."""

    def work_bytes(self, b: int, c: int, d: int, itemsize: int, /) -> int:
        """Return the bytes that the kernel matrix of b and c rows of d inputs takes while it is computed."""
