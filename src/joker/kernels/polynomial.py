"""The polynomial kernel."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

from torch import Tensor

from joker.errors import InvalidParameter
from joker.kernels.base import Kernel
from joker.kernels.linear import Linear


@dataclass(frozen=True)
class Polynomial(Kernel):
    """k(x, z) = (⟨x, z⟩/σ² + 1)^degree.

    σ is the length of x at which ⟨x, x⟩/σ² is 1. Bandwidth rules measure it by Euclidean
    distances between rows: for centred rows E‖x − z‖² = 2 E‖x‖², so that with
    the median rule ⟨x, x⟩/σ² is near ½, for any units and any number of inputs.

    Parameters
    ----------
    bandwidth : float
        The length scale σ > 0.
    degree : int
        The power, at least 1.

    Examples
    --------
    >>> import torch
    >>> from joker.kernels import Polynomial
    >>> Polynomial(bandwidth=1.0, degree=2)(torch.ones(1, 2), torch.ones(1, 2))
    tensor([[9.]])
    """

    degree: int = 3

    name: ClassVar[str] = "polynomial"
    feature_kinds: ClassVar[tuple[str, ...]] = ("tensor_sketch",)
    usual_share: ClassVar[float] = 1.0  # 0.5 would multiply the inner product by four
    by_product: ClassVar[bool] = True
    matrices: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.degree, Integral) or self.degree < 1:
            raise InvalidParameter(f"degree must be a whole number of at least 1; got {self.degree!r}. Use 2 or 3.")

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        return self._power((x / self.bandwidth) @ (z / self.bandwidth).T)

    def diag(self, x: Tensor) -> Tensor:  # (b, d) -> (b,)
        return self._power(Linear().diag(x / self.bandwidth))

    def _power(self, product: Tensor) -> Tensor:
        return product.add_(1).pow_(int(self.degree))
