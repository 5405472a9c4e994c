"""Kernels of the Euclidean distance: rotation-invariant, and Gaussian scale mixtures."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from joker.kernels.base import Stationary
from joker.kernels.distance import squared_distance


class Radial(Stationary):
    """A kernel k(x, z) = profile(‖x − z‖₂² / σ²) that is a mixture of Gaussian kernels.

    By Schoenberg's theorem every radial kernel that is valid for all d is such a mixture,
    k(r) = E exp(−τ²‖r‖² / 2σ²), so its frequencies are w = τg/σ with g ~ N(0, I).

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.

    Examples
    --------
    A user-defined kernel, the rational quadratic of order ½, for which τ² has a gamma distribution:

    >>> import torch
    >>> from dataclasses import dataclass
    >>> from joker.kernels import Radial
    >>> @dataclass(frozen=True)
    ... class Quadratic(Radial):
    ...     def profile(self, r2):
    ...         return (1 + r2).rsqrt()
    ...     def mixture(self, m, generator):
    ...         return torch.randn(m, dtype=torch.float64, generator=generator).abs()
    >>> Quadratic(bandwidth=2.0)(torch.zeros(1, 1), torch.tensor([[0.0], [2.0]]))
    tensor([[1.0000, 0.7071]])
    """

    feature_kinds: ClassVar[tuple[str, ...]] = ("fourier", "fourier_pairs", "orthogonal", "structured")
    by_product: ClassVar[bool] = True

    @abstractmethod
    def profile(self, r2: Tensor) -> Tensor:  # (b, k) -> (b, k)
        """Return k as a function of r2 = ‖x − z‖² / σ², which it may overwrite."""

    @abstractmethod
    def mixture(self, m: int, generator: torch.Generator) -> Tensor:  # (m,)
        """Draw m values of the scale τ, in float64 on the CPU."""

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        return self.profile(squared_distance(x, z, self.bandwidth))

    def spectrum(self, d: int, m: int, generator: torch.Generator) -> Tensor:  # (d, m)
        normal = torch.randn(d, m, dtype=torch.float64, generator=generator)
        return normal.mul_(self.mixture(m, generator).div_(self.bandwidth))
