"""The Matérn kernels of order ν = 1/2, 3/2 and 5/2, with s = √(2ν)‖x − z‖₂/σ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from joker.kernels.distance import decay, squared_distance
from joker.kernels.radial import Radial
from joker.ops.gram import gram, gram_fused

_FLOAT64_BYTES = 8


class Matern(Radial):
    """Base class of the Matérn kernels, whose spectrum is Student's t with 2ν degrees of freedom.

    Attributes
    ----------
    dof : int
        2ν, an odd number.
    """

    dof: ClassVar[int]

    def mixture(self, m: int, generator: torch.Generator) -> Tensor:  # (m,)
        """Draw m values of τ = √(2ν / χ²), where χ² has 2ν degrees of freedom."""
        normal = torch.randn(self.dof, m, dtype=torch.float64, generator=generator)
        return normal.square_().mean(dim=0).rsqrt_()


@dataclass(frozen=True)
class Matern12(Matern):
    """k(x, z) = exp(−s), s = ‖x − z‖₂/σ.

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.

    Examples
    --------
    >>> import torch
    >>> from joker.kernels import Matern12
    >>> Matern12(bandwidth=2.0)(torch.zeros(1, 1), torch.tensor([[0.0], [2.0]]))
    tensor([[1.0000, 0.3679]])
    """

    name: ClassVar[str] = "matern12"
    fused: ClassVar[str | None] = "matern12"
    dof: ClassVar[int] = 1

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        # Near zero the square root turns an error of 10⁻⁷ in the squared distance into an error of
        # 3·10⁻⁴ in the kernel. So float32 rows need squared distances in float64, or as sums of
        # squared differences.
        if self.own_profile and gram_fused(x, z):
            return gram(x, z, "matern12", self.bandwidth)
        return self.profile(squared_distance(x, z, self.bandwidth, torch.float64).to(x.dtype))

    def profile(self, r2: Tensor) -> Tensor:  # (b, k) -> (b, k)
        return decay(r2.sqrt_())

    def work_bytes(self, b: int, k: int, d: int, itemsize: int) -> int:
        """Return the bytes that a call holds at its peak: float64 distances and rows, and a copy of each."""
        return (_FLOAT64_BYTES + itemsize) * b * k + 2 * _FLOAT64_BYTES * (b + k + 1) * (d + 1)


@dataclass(frozen=True)
class Matern32(Matern):
    """k(x, z) = (1 + s) exp(−s), s = √3‖x − z‖₂/σ.

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.

    Examples
    --------
    >>> import torch
    >>> from joker.kernels import Matern32
    >>> Matern32(bandwidth=2.0)(torch.zeros(1, 1), torch.tensor([[0.0], [2.0]]))
    tensor([[1.0000, 0.4834]])
    """

    name: ClassVar[str] = "matern32"
    fused: ClassVar[str | None] = "matern32"
    dof: ClassVar[int] = 3
    matrices: ClassVar[int] = 2

    def profile(self, r2: Tensor) -> Tensor:  # (b, k) -> (b, k)
        s = r2.mul_(3).sqrt_()
        return s.add(1).mul_(decay(s))


@dataclass(frozen=True)
class Matern52(Matern):
    """k(x, z) = (1 + s + s²/3) exp(−s), s = √5‖x − z‖₂/σ.

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.

    Examples
    --------
    >>> import torch
    >>> from joker.kernels import Matern52
    >>> Matern52(bandwidth=2.0)(torch.zeros(1, 1), torch.tensor([[0.0], [2.0]]))
    tensor([[1.0000, 0.5240]])
    """

    name: ClassVar[str] = "matern52"
    fused: ClassVar[str | None] = "matern52"
    dof: ClassVar[int] = 5
    matrices: ClassVar[int] = 2

    def profile(self, r2: Tensor) -> Tensor:  # (b, k) -> (b, k)
        s = r2.mul_(5).sqrt_()
        return torch.addcmul(s, s, s, value=1 / 3).add_(1).mul_(decay(s))
