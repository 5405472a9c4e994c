"""The Laplacian kernel of the L1 distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from joker.kernels.base import Stationary
from joker.kernels.distance import decay
from joker.ops.gram import gram, gram_fused, transposed_numbers


@dataclass(frozen=True)
class Laplacian(Stationary):
    """k(x, z) = exp(−‖x − z‖₁ / σ), with w of d independent Cauchy variables of scale 1/σ.

    It is a product over the inputs and not a function of the Euclidean distance; see
    `Matern12` for exp(−‖x − z‖₂ / σ).

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.

    Examples
    --------
    >>> import torch
    >>> from joker.kernels import Laplacian
    >>> Laplacian(bandwidth=2.0)(torch.zeros(1, 2), torch.ones(1, 2))
    tensor([[0.3679]])
    """

    name: ClassVar[str] = "laplacian"
    fused: ClassVar[str | None] = "exponential"
    matrices: ClassVar[int] = 1

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        if self.own_profile and gram_fused(x, z):
            return gram(x, z, "exponential", self.bandwidth)
        return decay(self.distance(x, z).div_(self.bandwidth))

    def distance(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        """Return ‖x_i − z_j‖₁."""
        return gram(x, z, "distance") if gram_fused(x, z) else torch.cdist(x, z, p=1.0)

    def spectrum(self, d: int, m: int, generator: torch.Generator) -> Tensor:  # (d, m)
        return torch.empty(d, m, dtype=torch.float64).cauchy_(0.0, 1 / self.bandwidth, generator=generator)

    def work_bytes(self, b: int, k: int, d: int, itemsize: int) -> int:
        """Return the bytes of the result, and of the transposed rows from which a GPU computes it."""
        return itemsize * (b * k + transposed_numbers(b, d) + transposed_numbers(k, d))

    def bandwidth_from(self, gamma: float) -> float:
        """Return the σ of exp(−γ‖r‖₁): 1/γ."""
        return 1 / gamma
