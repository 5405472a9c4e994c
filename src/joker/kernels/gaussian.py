"""The Gaussian kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from joker.kernels.distance import decay
from joker.kernels.radial import Radial


@dataclass(frozen=True)
class Gaussian(Radial):
    """k(x, z) = exp(−‖x − z‖₂² / 2σ²), with frequencies w ~ N(0, σ⁻² I).

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.

    Examples
    --------
    >>> import torch
    >>> from joker.kernels import Gaussian
    >>> Gaussian(bandwidth=2.0)(torch.zeros(1, 1), torch.tensor([[0.0], [2.0]]))
    tensor([[1.0000, 0.6065]])
    """

    name: ClassVar[str] = "gaussian"
    fused: ClassVar[str | None] = "gaussian"
    matrices: ClassVar[int] = 1

    def profile(self, r2: Tensor) -> Tensor:  # (b, k) -> (b, k)
        return decay(r2.mul_(0.5))

    def mixture(self, m: int, generator: torch.Generator) -> Tensor:  # (m,)
        """Return ones: the Gaussian kernel is a mixture of one component."""
        return torch.ones(m, dtype=torch.float64)

    def bandwidth_from(self, gamma: float) -> float:
        """Return the σ of exp(−γ‖r‖²): 1/√(2γ)."""
        return 1 / math.sqrt(2 * gamma)
