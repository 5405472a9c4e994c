"""The Cauchy kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from joker.kernels.radial import Radial


@dataclass(frozen=True)
class Cauchy(Radial):
    """k(x, z) = 1 / (1 + ‖x − z‖₂²/σ²), the mean of exp(−s‖x − z‖²/σ²) over s ~ Exp(1).

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.

    Examples
    --------
    >>> import torch
    >>> from joker.kernels import Cauchy
    >>> Cauchy(bandwidth=2.0)(torch.zeros(1, 1), torch.tensor([[0.0], [2.0]]))
    tensor([[1.0000, 0.5000]])
    """

    name: ClassVar[str] = "cauchy"
    fused: ClassVar[str | None] = "cauchy"
    matrices: ClassVar[int] = 1

    def profile(self, r2: Tensor) -> Tensor:  # (b, k) -> (b, k)
        return r2.add_(1).reciprocal_()

    def mixture(self, m: int, generator: torch.Generator) -> Tensor:  # (m,)
        """Draw m values of τ = √(2s), s ~ Exp(1)."""
        return torch.empty(m, dtype=torch.float64).exponential_(generator=generator).mul_(2).sqrt_()
