"""The linear kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor

from joker.kernels.base import Kernel, check_bandwidth


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, z) = ⟨x, z⟩.

    A length scale would only multiply it by a constant, as λ does. Its bandwidth is always
    1: it cannot be set, and `with_bandwidth` returns the kernel unchanged.

    Examples
    --------
    >>> import torch
    >>> from joker.kernels import Linear
    >>> Linear()(torch.ones(1, 2), torch.tensor([[1.0, 2.0]]))
    tensor([[3.]])
    """

    bandwidth: float = field(default=1.0, init=False, repr=False)

    name: ClassVar[str] = "linear"
    has_bandwidth: ClassVar[bool] = False
    feature_kinds: ClassVar[tuple[str, ...]] = ("identity",)
    matrices: ClassVar[int] = 1

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        return x @ z.T

    def diag(self, x: Tensor) -> Tensor:  # (b, d) -> (b,)
        return torch.einsum("bd,bd->b", x, x)

    def with_bandwidth(self, bandwidth: float) -> Self:
        check_bandwidth(bandwidth)
        return self
