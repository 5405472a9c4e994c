"""The definition of a kernel: a positive definite function of two rows, with one length scale."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar, Self

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.kernels.distance import squared_distance
from joker.ops.gram import add_product
from joker.ops.rows import RowsLike


def check_bandwidth(bandwidth: object) -> float:
    """Return ``bandwidth`` as a float if it is a positive finite number, else raise InvalidParameter."""
    try:
        number = float(bandwidth) if isinstance(bandwidth, Real) and not isinstance(bandwidth, bool) else math.nan
    except OverflowError:  # a whole number that is too large
        number = math.inf
    if not 0 < number < math.inf:
        raise InvalidParameter(
            f"bandwidth must be a positive finite number; got {bandwidth!r}. Use a number such as 1.0, or 'median'."
        )
    return number


@dataclass(frozen=True)
class Kernel(ABC):
    """A positive definite function k(x, z) with bandwidth σ.

    To add a kernel, write a frozen dataclass with ``__call__`` and ``diag``.
    Derive it from `Radial` if it is a function of ‖x − z‖₂ only, or from `Stationary` if it is
    a function of x − z; it then has random features too.

    Parameters
    ----------
    bandwidth : float
        The length scale σ > 0.

    Attributes
    ----------
    name : str
        The name of the kernel in messages and saved models.
    has_bandwidth : bool
        Whether the value of k depends on σ.
    usual_share : float
        The default of σ as a share of the median distance.
    feature_kinds : tuple of str
        The names of the feature maps of the kernel, the default first; empty if there is none.
    by_product : bool
        Whether one matrix product computes all its values; exact solves are then fast for many more rows.
    matrices : int
        The number of (b, k) matrices of x's dtype that a call holds at its peak, including its result.
    fused : str or None
        The name in :data:`joker.ops.gram.PROFILES` of the same function of a distance, with which a GPU
        computes matrix-vector products without the matrix; None if there is none.

    Examples
    --------
    >>> import torch
    >>> from dataclasses import dataclass
    >>> from joker.kernels import Kernel
    >>> @dataclass(frozen=True)
    ... class Cosine(Kernel):
    ...     def __call__(self, x, z):
    ...         return torch.nn.functional.normalize(x) @ torch.nn.functional.normalize(z).T
    ...     def diag(self, x):
    ...         return x.new_ones(len(x))
    >>> Cosine()(torch.eye(2), torch.ones(1, 2))
    tensor([[0.7071],
            [0.7071]])
    """

    bandwidth: float = 1.0

    name: ClassVar[str] = "custom"
    has_bandwidth: ClassVar[bool] = True
    usual_share: ClassVar[float] = 0.5  # 12% less error than 1.0 over four data sets: benchmarks/ablations.py
    feature_kinds: ClassVar[tuple[str, ...]] = ()
    by_product: ClassVar[bool] = False
    fused: ClassVar[str | None] = None
    matrices: ClassVar[int] = 3  # enough for an expression of a few operations that are not in place

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", check_bandwidth(self.bandwidth))  # torch has no large whole numbers

    @property
    def constant(self) -> float:
        """The constant that is added for an intercept; 0 for a kernel without one."""
        return 0.0

    @property
    def without_constant(self) -> Kernel:
        """The kernel without that constant."""
        return self

    @property
    def own_profile(self) -> str | None:
        """``fused``, if this class itself defines it: a derived class may be another function."""
        name: str | None = vars(type(self)).get("fused")
        return name

    @abstractmethod
    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        """Return the matrix of k(x_i, z_j)."""

    @abstractmethod
    def diag(self, x: Tensor) -> Tensor:  # (b, d) -> (b,)
        """Return k(x_i, x_i) without the rest of the matrix."""

    def distance(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        """Return the distances that the bandwidth rules measure: ‖x_i − z_j‖₂, unless a kernel has another one."""
        return squared_distance(x, z).sqrt_()

    def add_product(
        self, x: RowsLike, z: RowsLike, v: Tensor, out: Tensor, budget: int, row_bytes: tuple[int, int] = (0, 0)
    ) -> bool:  # x (n, d), z (k, d), v (k, t), out (n, t)
        """Add k(x, z) v to ``out`` without the matrix and return True; return False if that is not possible.

        :func:`joker.kernels.matvec.matvec` then computes tiles of the matrix.
        """
        name = self.own_profile
        return name is not None and add_product(x, z, v, out, name, self.bandwidth, budget, row_bytes)

    def with_bandwidth(self, bandwidth: float) -> Self:
        """Return the same kernel with another σ."""
        return replace(self, bandwidth=bandwidth)

    def bandwidth_from(self, gamma: float) -> float:
        """Return the σ of a kernel written with γ in place of 1/σ², as in ``1/(1 + γ‖r‖²)``: 1/√γ."""
        return 1 / math.sqrt(gamma)

    def work_bytes(self, b: int, k: int, d: int, itemsize: int) -> int:
        """Return the bytes that a call on (b, d) and (k, d) holds at its peak, including its result."""
        return itemsize * (self.matrices * b * k + (b + k + 1) * (d + 1))


class Stationary(Kernel):
    """A kernel of the difference r = x − z, with k(x, x) = 1.

    By Bochner's theorem it is the characteristic function of a probability distribution, its
    spectrum: k(x, z) = E cos⟨w, x − z⟩.

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.

    Examples
    --------
    >>> from joker.kernels import KERNELS, Stationary
    >>> [name for name, kernel in KERNELS.items() if not issubclass(kernel, Stationary)]
    ['linear', 'polynomial']
    """

    feature_kinds: ClassVar[tuple[str, ...]] = ("fourier", "fourier_pairs")

    def diag(self, x: Tensor) -> Tensor:  # (b, d) -> (b,)
        return x.new_ones(x.shape[0])

    @abstractmethod
    def spectrum(self, d: int, m: int, generator: torch.Generator) -> Tensor:  # (d, m)
        """Draw m frequencies w from the spectrum, one in each column, in float64 on the CPU."""
