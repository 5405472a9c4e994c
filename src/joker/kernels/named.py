"""The kernels that have a name: stationary ones, the linear and the polynomial kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral
from typing import ClassVar, Self

import torch
from torch import Tensor

from joker.errors import InvalidParameter, UnknownName
from joker.kernels.kernel import (
    Kernel,
    Radial,
    Stationary,
    absolute_distance,
    check_bandwidth,
    decay,
    gaussian,
)
from joker.kernels.precomputed import PRECOMPUTED, FunctionKernel, KernelOfArrays, Precomputed
from joker.ops.gram import gram, gram_fused, transposed_numbers


class Matern(Radial):
    """Base class of the Matérn kernels, whose spectrum is Student's t with 2ν degrees of freedom."""

    dof: ClassVar[int]  # 2ν, an odd number

    def mixture(self, m: int, generator: torch.Generator) -> Tensor:  # (m,)
        """Draw m values of τ = √(2ν / χ²), where χ² has 2ν degrees of freedom."""
        normal = torch.randn(self.dof, m, dtype=torch.float64, generator=generator)
        return normal.square_().mean(dim=0).rsqrt_()


@dataclass(frozen=True)
class Matern12(Matern):
    """``k(x, z) = exp(−s)`` with ``s = ‖x − z‖₂ / σ``.

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.
    precise : bool
        Whether distances of float32 rows are computed without cancellation; see `Radial`.

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
    has_root: ClassVar[bool] = True

    def profile(self, r2: Tensor) -> Tensor:  # (b, k) -> (b, k)
        return decay(r2.sqrt_())


@dataclass(frozen=True)
class Matern32(Matern):
    """``k(x, z) = (1 + s) exp(−s)`` with ``s = √3 ‖x − z‖₂ / σ``.

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.
    precise : bool
        Whether distances of float32 rows are computed without cancellation; see `Radial`.

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
    """``k(x, z) = (1 + s + s²/3) exp(−s)`` with ``s = √5 ‖x − z‖₂ / σ``.

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.
    precise : bool
        Whether distances of float32 rows are computed without cancellation; see `Radial`.

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


@dataclass(frozen=True)
class Gaussian(Radial):
    """``k(x, z) = exp(−‖x − z‖₂² / 2σ²)``, with frequencies w ~ N(0, I/σ²).

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.
    precise : bool
        Whether distances of float32 rows are computed without cancellation; see `Radial`.

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

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        quick = self.own_profile is not None and not self.precise
        return gaussian(x, z, self.bandwidth) if quick else super().__call__(x, z)

    def profile(self, r2: Tensor) -> Tensor:  # (b, k) -> (b, k)
        return decay(r2.mul_(0.5))

    def mixture(self, m: int, generator: torch.Generator) -> Tensor:  # (m,)
        """Return ones: the Gaussian kernel is a mixture of one component."""
        return torch.ones(m, dtype=torch.float64)

    def bandwidth_from(self, gamma: float) -> float:
        """Return the σ of exp(−γ‖r‖²): 1/√(2γ)."""
        return 1 / math.sqrt(2 * gamma)


@dataclass(frozen=True)
class Laplacian(Stationary):
    """``k(x, z) = exp(−‖x − z‖₁ / σ)``, with w of d independent Cauchy variables of scale 1/σ.

    It is a product over the inputs and not a function of the Euclidean distance; see
    `Matern12` for ``exp(−‖x − z‖₂ / σ)``.

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
        return gram(x, z, "distance") if gram_fused(x, z) else absolute_distance(x, z)

    def spectrum(self, d: int, m: int, generator: torch.Generator) -> Tensor:  # (d, m)
        return torch.empty(d, m, dtype=torch.float64).cauchy_(0.0, 1 / self.bandwidth, generator=generator)

    def work_bytes(self, b: int, k: int, d: int, itemsize: int) -> int:
        """Return the bytes of the result, and of the copies of the rows from which it is computed."""
        return itemsize * (b * k + max(transposed_numbers(b, d) + transposed_numbers(k, d), 3 * (b + k) * d))

    def bandwidth_from(self, gamma: float) -> float:
        """Return the σ of exp(−γ‖r‖₁): 1/γ."""
        return 1 / gamma


@dataclass(frozen=True)
class Cauchy(Radial):
    """``k(x, z) = 1 / (1 + ‖x − z‖₂²/σ²)``, the mean of ``exp(−s ‖x − z‖²/σ²)`` over s ~ Exp(1).

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.
    precise : bool
        Whether distances of float32 rows are computed without cancellation; see `Radial`.

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


@dataclass(frozen=True)
class Linear(Kernel):
    """``k(x, z) = ⟨x, z⟩``.

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


@dataclass(frozen=True)
class Polynomial(Kernel):
    """``k(x, z) = (⟨x, z⟩/σ² + 1)^degree``.

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


KERNELS: dict[str, type[Kernel]] = {
    kernel.name: kernel for kernel in (Gaussian, Laplacian, Matern12, Matern32, Matern52, Cauchy, Linear, Polynomial)
}


def get(kernel: str | Kernel | KernelOfArrays, bandwidth: float | None = None) -> Kernel:
    """Return the kernel of that name, or the given kernel, with ``bandwidth`` if that is given.

    Parameters
    ----------
    kernel : str, Kernel or callable
        A name of `joker.kernels.KERNELS`, ``"precomputed"``, a kernel, or a function of two arrays that returns the
        kernel matrix of their rows.
    bandwidth : float, optional
        The bandwidth of the result.

    Returns
    -------
    Kernel
        The kernel.

    Examples
    --------
    >>> from joker.kernels import get
    >>> get("gaussian", bandwidth=2.0)
    Gaussian(bandwidth=2.0)
    """
    if isinstance(kernel, str) and kernel in KERNELS:
        kernel = KERNELS[kernel]()
    elif isinstance(kernel, str) and kernel == PRECOMPUTED:
        kernel = Precomputed()
    elif callable(kernel) and not isinstance(kernel, Kernel | type):
        kernel = FunctionKernel(function=kernel)
    if not isinstance(kernel, Kernel):
        raise UnknownName.among("kernel (where it is not a Kernel or a function)", kernel, [*KERNELS, PRECOMPUTED])
    return kernel if bandwidth is None else kernel.with_bandwidth(bandwidth)
