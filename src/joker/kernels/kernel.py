"""The definition of a kernel: a positive definite function of two rows, with one length scale."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from joker.errors import BudgetTooSmall, DegenerateBandwidth, InvalidParameter, UnknownName
from joker.ops.gram import PROFILES, add_product, gram, gram_fused
from joker.ops.triton_support import RowsLike
from joker.runtime import DEFAULT_BUDGET, format_bytes, generator
from joker.runtime.devices import share

NUMPY_EXP = torch.backends.cpu.get_cpu_capability().startswith("AVX512")  # NumPy's takes half the time of torch's there
TILE_SECONDS = 2e-11  # of a kernel value on a GPU, where no fused kernel computes it
# The smallest result of `decay` is the smallest normal number to this power: e⁻⁶¹ in float32, e⁻⁴⁹⁶ in float64.
SMALLEST_POWER = 0.7


def decay(s: Tensor) -> Tensor:  # (b, k) -> (b, k)
    """Return exp(−s), in place.

    Results are never subnormal numbers, with which a CPU computes slowly. They would occur if the distances between
    rows are large multiples of the bandwidth.
    """
    return _exp(s.neg_().clamp_(min=_smallest_exponent(s.dtype)))


def _smallest_exponent(dtype: torch.dtype) -> float:
    return SMALLEST_POWER * math.log(torch.finfo(dtype).tiny)


def _exp(s: Tensor) -> Tensor:
    """Return exp(s), in place."""
    if NUMPY_EXP and s.device.type == "cpu" and s.dtype in (torch.float32, torch.float64) and not s.requires_grad:
        np.exp(s.numpy(), out=s.numpy())
        return s
    return s.exp_()


# The rounding error of a squared distance in float64, in units of the bandwidth, above which differences are squared.
# They take twice the time with twenty inputs.
MOST_ROUNDING = 1e-12
NEGLIGIBLE_ROUNDING = 1e-3  # of a squared distance, by which the Gaussian of equal rows may be below 1
NEAR_ZERO = 1e-13  # the same where the root of a small distance amplifies it


def squared_distance(
    x: Tensor, z: Tensor, scale: float = 1.0, dtype: torch.dtype | None = None, most_rounding: float = MOST_ROUNDING
) -> Tensor:
    """Return ‖x_i − z_j‖² / scale² = (‖x_i‖² + ‖z_j‖² − 2⟨x_i, z_j⟩) / scale², in ``dtype`` or that of x.

    The three terms cancel when x_i is near z_j, and the rounding error of the result is about
    ε(‖x_i‖² + ‖z_j‖²). It is kept small in two ways. The mean of z is subtracted from all rows, which
    does not change distances and makes the norms small. The norms are reduced by a few ε, so that rounding
    makes a distance of zero negative, and it is clamped to 0. The distance of equal rows is exactly 0.
    In float64 on the CPU, rows that are many units long have sums of squared differences instead: a certificate
    of float64 relies on them.

    Parameters
    ----------
    x, z : Tensor of shape (b, d) and (k, d)
        The rows.
    scale : float
        The unit of distances.
    dtype : torch.dtype, optional
        The type of the result; that of x by default.
    most_rounding : float
        The rounding error of a result in float64 above which differences are squared.

    Returns
    -------
    Tensor of shape (b, k)
        The squared distances.

    Examples
    --------
    >>> import torch
    >>> from joker.kernels import squared_distance
    >>> squared_distance(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
    tensor([[25.0000]])
    """
    x, z, of_x, of_z, rounding = _centred(x, z, scale, dtype)
    if _by_differences(x, of_x, of_z, rounding, most_rounding):
        return _squared_differences(x, z)
    distance = torch.addmm(of_z.mul_(1 - rounding), x, z.T, alpha=-2)
    return distance.add_(of_x.mul_(1 - rounding).unsqueeze(1)).clamp_(min=0)


def gaussian(x: Tensor, z: Tensor, scale: float) -> Tensor:  # (b, d), (k, d) -> (b, k)
    """Return exp(−½‖x_i − z_j‖² / scale²), in fewer passes than `squared_distance` and `decay`.

    Reduced norms raise all values, by ten times as much as rounding errors change them at random. Only those of long
    rows are reduced, which might else differ from themselves.
    """
    near, others, of_x, of_z, rounding = _centred(x, z, scale)
    if _by_differences(near, of_x, of_z, rounding, MOST_ROUNDING):
        return decay(_squared_differences(near, others).mul_(0.5))
    for norms in (of_x, of_z):
        norms.sub_(torch.threshold_(norms * rounding, NEGLIGIBLE_ROUNDING, 0.0)).mul_(0.5)
    s = torch.addmm(of_z.neg_(), near, others.T)
    s.sub_(of_x.unsqueeze(1)).clamp_(min=_smallest_exponent(s.dtype), max=0)
    return _exp(s)


def _centred(
    x: Tensor, z: Tensor, scale: float, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """Return the rows relative to the mean of z in units of ``scale``, their squared norms, and a bound of rounding."""
    centre = z.mean(dim=0, dtype=dtype)
    x = (x - centre).div_(scale)
    z = (z - centre).div_(scale)
    # The rounding errors of a sum of d terms behave like a random walk and grow as √d.
    rounding = (2 + math.sqrt(x.shape[1])) * torch.finfo(x.dtype).eps
    return x, z, _squared_norm(x), _squared_norm(z), rounding


def _by_differences(x: Tensor, of_x: Tensor, of_z: Tensor, rounding: float, most: float) -> bool:
    """Whether the squared norms of rows in float64 lose so many digits that differences are squared instead."""
    return x.dtype == torch.float64 and not x.is_cuda and rounding * _largest(of_x, of_z) > most


def _squared_differences(x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
    return torch.cdist(x, z, compute_mode="donot_use_mm_for_euclid_dist").square_()


FEW_INPUTS = 8  # with two values: for fewer, a product of matrices saves no time


def absolute_distance(x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
    """Return ‖x_i − z_j‖₁; the distance of equal rows is exactly 0.

    Inputs that have two values only, such as those of a category, add w (u_i (1 − v_j) + (1 − u_i) v_j), where w is the
    difference of the values, and u and v are 1 for the larger one and 0 for the smaller one. On the CPU that is a
    product of matrices, which takes a fifth of the time of a sum of differences. None of its terms is negative.
    """
    two, width, high = _two_values(x, z)
    if two is None:
        return torch.cdist(x, z, p=1.0)
    rest, of_x, of_z = ~two, x[:, two] == high, z[:, two] == high
    left, right = (torch.hstack(both).to(x.dtype) for both in ([of_x, ~of_x], [~of_z, of_z]))
    del of_x, of_z
    left = torch.mul(left, width.repeat(2), out=None if width.requires_grad else left)
    if not bool(rest.any()):
        return left @ right.T
    distance = torch.cdist(x[:, rest], z[:, rest], p=1.0)
    return torch.addmm(distance, left, right.T, out=None if distance.requires_grad else distance)


def _two_values(x: Tensor, z: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:  # (d,), (q,), (q,)
    """Return which inputs have at most two values, their differences and the larger ones; None if few inputs have."""
    if x.is_cuda or x.shape[1] < FEW_INPUTS or not len(x) or not len(z):
        return None, x, z
    low, high = torch.minimum(x.amin(0), z.amin(0)), torch.maximum(x.amax(0), z.amax(0))
    two = ((x == low) | (x == high)).all(0) & ((z == low) | (z == high)).all(0)
    return two if int(two.sum()) >= FEW_INPUTS else None, (high - low)[two], high[two]


def _largest(*parts: Tensor) -> float:
    return max((float(part.max()) for part in parts if len(part)), default=0.0)


def _squared_norm(x: Tensor) -> Tensor:  # (b, d) -> (b,)
    length: Tensor = torch.linalg.vector_norm(x, dim=1)  # faster than einsum
    return length.square_()


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
    external : bool
        Whether a user gives its values as a matrix, or as a function in NumPy: on the CPU and for inputs as they are.
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
    external: ClassVar[bool] = False
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
    def precomputed(self) -> bool:
        """Whether its values are the entries of a matrix, and its rows are the numbers of rows of that matrix."""
        return False

    def reading(self, matrix: Tensor | None, symmetric: bool = False) -> Kernel:  # (k, n)
        """Return the kernel with other entries, where it is precomputed; any other kernel is returned unchanged."""
        return self

    def digest(self) -> tuple[float, ...]:
        """Return numbers that differ between matrices, where it is precomputed; else none."""
        return ()

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

    def check(self, x: RowsLike) -> None:  # noqa: B027  # (n, d)
        """Raise InvalidData if values on some rows show that it is no kernel; those of joker need no check."""

    def distance(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        """Return the distances that the bandwidth rules measure: ‖x_i − z_j‖₂, unless a kernel has another one."""
        return squared_distance(x, z).sqrt_()

    def add_product(
        self, x: RowsLike, z: RowsLike, v: Tensor, out: Tensor, budget: int, row_bytes: tuple[int, int] = (0, 0)
    ) -> bool:  # x (n, d), z (k, d), v (k, t), out (n, t)
        """Add k(x, z) v to ``out`` without the matrix and return True; return False if that is not possible.

        ``matvec`` then computes tiles of the matrix.
        """
        name = self.own_profile
        precise = getattr(self, "precise", False)
        return name is not None and add_product(x, z, v, out, name, self.bandwidth, budget, row_bytes, precise)

    def gpu_seconds(self, n: int, d: int, precise: bool = False) -> float:
        """Return about how long a pass over the kernel matrix of n rows of d inputs takes on a GPU."""
        name = self.without_constant.own_profile
        return TILE_SECONDS * n**2 if name is None else PROFILES[name].seconds(float(n) ** 2, d, precise)

    def precisely(self) -> Kernel | None:
        """Return the same kernel with distances without cancellation; None where it has none or cannot have them."""
        return None

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


@dataclass(frozen=True)
class Radial(Stationary):
    """A kernel ``k(x, z) = profile(‖x − z‖₂² / σ²)`` that is a mixture of Gaussian kernels.

    By Schoenberg's theorem every radial kernel that is valid for all d is such a mixture,
    ``k(r) = E exp(−τ²‖r‖² / 2σ²)``, so its frequencies are w = τg/σ with g ~ N(0, I).

    Parameters
    ----------
    bandwidth : float
        The length scale σ, positive.
    precise : bool
        Whether distances of float32 rows are sums of squared differences on a GPU, and computed in float64 on the CPU.
        That takes longer. It is needed where the bandwidth is small compared with the size of the rows, and a fit on a
        GPU chooses it there.

    Attributes
    ----------
    has_root : bool
        Whether the profile is a function of the root of a small distance, which amplifies rounding errors: near zero,
        an error of 10⁻⁷ in the squared distance becomes one of 3·10⁻⁴ in the kernel. All its matrices are precise.

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

    precise: bool = field(default=False, kw_only=True, repr=False)

    feature_kinds: ClassVar[tuple[str, ...]] = ("fourier", "fourier_pairs", "orthogonal", "structured")
    by_product: ClassVar[bool] = True
    has_root: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.precise, bool):
            raise InvalidParameter(f"precise must be True or False; got {self.precise!r}. Use precise=False.")

    @abstractmethod
    def profile(self, r2: Tensor) -> Tensor:  # (b, k) -> (b, k)
        """Return k as a function of r2 = ‖x − z‖² / σ², which it may overwrite."""

    @abstractmethod
    def mixture(self, m: int, generator: torch.Generator) -> Tensor:  # (m,)
        """Draw m values of the scale τ, in float64 on the CPU."""

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        if not (self.precise or self.has_root):
            return self.profile(squared_distance(x, z, self.bandwidth))
        name = self.own_profile
        if name is not None and gram_fused(x, z):
            return gram(x, z, name, self.bandwidth)
        most_rounding = NEAR_ZERO if x.dtype == torch.float64 else MOST_ROUNDING
        return self.profile(squared_distance(x, z, self.bandwidth, torch.float64, most_rounding).to(x.dtype))

    def precisely(self) -> Kernel | None:
        return replace(self, precise=True)

    def work_bytes(self, b: int, k: int, d: int, itemsize: int) -> int:
        """Return the bytes that a call holds at its peak; precise distances are in float64, with copies of the rows."""
        if not (self.precise or self.has_root):
            return super().work_bytes(b, k, d, itemsize)
        wide = torch.float64.itemsize
        return (wide + itemsize) * b * k + 2 * wide * (b + k + 1) * (d + 1)

    def spectrum(self, d: int, m: int, generator: torch.Generator) -> Tensor:  # (d, m)
        normal = torch.randn(d, m, dtype=torch.float64, generator=generator)
        return normal.mul_(self.mixture(m, generator).div_(self.bandwidth))


@dataclass(frozen=True)
class KernelWithConstant(Kernel):
    """k(x, z) + 1: the kernel of the features of k and one more feature that is always 1.

    The weight of that feature is the intercept, and is penalised like every other weight.
    """

    bandwidth: float = field(init=False)  # that of k
    inner: Kernel  # k

    name: ClassVar[str] = "with_constant"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", self.inner.bandwidth)

    @property
    def constant(self) -> float:
        return 1.0

    @property
    def without_constant(self) -> Kernel:
        return self.inner

    @property
    def precomputed(self) -> bool:
        return self.inner.precomputed

    def reading(self, matrix: Tensor | None, symmetric: bool = False) -> Kernel:  # (k, n)
        return type(self)(self.inner.reading(matrix, symmetric)) if self.precomputed else self

    def digest(self) -> tuple[float, ...]:
        return self.inner.digest()

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        values = self.inner(x, z)
        # A kernel that is not one of joker's functions of a distance may return a view.
        return values + 1 if self.inner.own_profile is None else values.add_(1)

    def diag(self, x: Tensor) -> Tensor:  # (b, d) -> (b,)
        return self.inner.diag(x) + 1

    def distance(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        return self.inner.distance(x, z)

    def add_product(
        self, x: RowsLike, z: RowsLike, v: Tensor, out: Tensor, budget: int, row_bytes: tuple[int, int] = (0, 0)
    ) -> bool:  # x (n, d), z (k, d), v (k, t), out (n, t)
        """Add k(x, z) v and the sum of v to ``out`` without the matrix, if k can do that."""
        added = self.inner.add_product(x, z, v, out, budget, row_bytes)
        if added:
            out += v.sum(dim=0)
        return added

    def with_bandwidth(self, bandwidth: float) -> Self:
        return type(self)(self.inner.with_bandwidth(bandwidth))

    def work_bytes(self, b: int, k: int, d: int, itemsize: int) -> int:
        """Return the bytes that k needs, or those of its result and of this one, whichever is more."""
        return max(self.inner.work_bytes(b, k, d, itemsize), 2 * itemsize * b * k)


LONGEST = 1_024  # rows or columns of a tile on the CPU: larger tiles do not fit the cache
SHORTEST = 256  # rows of a tile that a thread computes: with fewer, threads wait for each other's Python calls
# Tiles that the rows are divided into, for as many threads. It does not depend on their number, since the last bits of
# a product of matrices depend on the number of rows.
PARTS = 16


def matvec(
    kernel: Kernel,
    x: RowsLike,  # (n, d)
    z: RowsLike,  # (k, d)
    v: Tensor,  # (k, t)
    budget: int = DEFAULT_BUDGET,
    *,
    out: Tensor | None = None,  # (n, t)
    row_bytes: tuple[int, int] = (0, 0),
) -> Tensor:  # (n, t)
    """Return k(x, z) v, computed in tiles, or add it to ``out`` and return ``out``.

    On a GPU in float32 many kernels need no tiles: one kernel computes the entries and multiplies them. ``budget`` are
    the bytes of scratch space, without the result and the arguments. Reading a row of x, and of z, takes ``row_bytes``
    of it; 0 if a slice is a view. BudgetTooSmall is raised if a tile of one row and one column does not fit.
    """
    if out is None:
        out = v.new_zeros(x.shape[0], v.shape[1])
    if kernel.add_product(x, z, v, out, budget, row_bytes):
        return out
    (rows, columns), threads = tile_shape(kernel, x, z, budget, row_bytes), 1
    if not v.is_cuda:
        rows = min(rows, LONGEST, max(SHORTEST, -(-x.shape[0] // PARTS)))
        columns = min(columns, LONGEST)
        tile_bytes = kernel.work_bytes(rows, columns, x.shape[1], x.dtype.itemsize)
        threads = budget // max(1, tile_bytes + rows * row_bytes[0] + columns * row_bytes[1])

    def add(i: int) -> None:
        x_slice = x[i : i + rows]
        for j in range(0, z.shape[0], columns):
            tile = kernel(x_slice, z[j : j + columns])
            out[i : i + rows].addmm_(tile, v[j : j + columns])
            del tile  # else its memory would still be in use while the next tile is computed

    share(add, range(0, x.shape[0], rows), 1 if v.is_cuda else threads)
    return out


def tile_shape(
    kernel: Kernel, x: RowsLike, z: RowsLike, budget: int, row_bytes: tuple[int, int] = (0, 0)
) -> tuple[int, int]:  # x (n, d), z (k, d)
    """Return the rows and columns of the largest tile of k(x, z) that fits into ``budget`` bytes.

    The tile is square unless the matrix has fewer rows or columns: a square tile has the most entries
    for the rows of x and z that it reads.
    """
    (n, d), k, itemsize = x.shape, z.shape[0], x.dtype.itemsize

    def work(side: int) -> int:
        b, c = min(side, n), min(side, k)
        return kernel.work_bytes(b, c, d, itemsize) + b * row_bytes[0] + c * row_bytes[1]

    longest = max(n, k, 1)
    side = longest if work(longest) <= budget else bisect_right(range(1, longest + 1), budget, key=work)
    if side < 1:
        raise BudgetTooSmall(
            f"memory must hold at least one entry of the {kernel.name} kernel matrix with {d} inputs; "
            f"{format_bytes(budget)} is given. Use memory={work(1)} (bytes) or more."
        )
    return max(min(side, n), 1), max(min(side, k), 1)


MAX_SAMPLED_ROWS = 10_000  # as in the paper's published code
# A sample has at most this number of entries, but at least this number of rows: rows of more than 1,700 inputs are
# sampled less.
MAX_SAMPLED_ENTRIES, MIN_SAMPLED_ROWS = 2**24, 1_000
GROUP_ENTRIES = 2**19  # entries that are read at a time, so that rows with many inputs need little memory
MIN_GROUP_ROWS = 16  # for any number of inputs: smaller groups would have too few pairs
MAX_PAIRS = 2**19  # counting (i, j) and (j, i): enough for the median, which more pairs hardly change


def choose_bandwidth(rule: str | float, kernel: Kernel, x: RowsLike, seed: int) -> float:  # x (n, d)
    """Return the bandwidth σ that ``rule`` gives for ``kernel`` on the rows ``x``; 1 for a kernel without a bandwidth.

    ``"median"`` is the median over pairs of rows of the distance that the kernel uses: ‖·‖₁ for the Laplacian, ‖·‖₂ for
    the others. ``"paper"`` computes γ = 1 / mean‖x − x′‖₂², and from it σ = 1/√(2γ) for the Gaussian exp(−γ‖r‖²), 1/γ
    for the Laplacian exp(−γ‖r‖₁), as in the paper's published code, and 1/√γ, the root mean square distance, for the
    others. A positive number is the bandwidth itself. A rule reads at most 10,000 rows, and fewer if they have many
    inputs. DegenerateBandwidth is raised if all rows, or half of the pairs of rows, are equal.
    """
    check_bandwidth_rule(rule)
    if not kernel.has_bandwidth:
        return 1.0
    return _RULES[rule](kernel, x, seed) if isinstance(rule, str) else float(rule)


def check_bandwidth_rule(rule: object) -> None:
    """Raise an error if ``rule`` is neither the name of a rule nor a positive finite number."""
    if not isinstance(rule, str):
        check_bandwidth(rule)
    elif rule not in _RULES:
        raise UnknownName.among("bandwidth (where it is not a positive number)", rule, _RULES)


def _median(kernel: Kernel, x: RowsLike, seed: int) -> float:
    """Return the median distance within groups of rows: every row is used, but only a few pairs."""
    rows = sample_rows(x.shape[0], x.shape[1], seed)
    group_rows = max(MIN_GROUP_ROWS, GROUP_ENTRIES // x.shape[1])
    groups = rows.tensor_split(max(1, math.ceil(len(rows) ** 2 / MAX_PAIRS), math.ceil(len(rows) / group_rows)))
    # NumPy needs no order of all values, and takes a tenth of the time of torch.
    median = float(np.median(distances.cpu())) if len(distances := _distances(kernel, x, groups)) else 0.0
    return _check_spread("median", "median", median, len(rows))


def _paper(kernel: Kernel, x: RowsLike, seed: int) -> float:
    """Return the σ of γ = 1 / mean‖x − x′‖², where the mean over pairs is 2 Σ var(x_j)."""
    rows = sample_rows(x.shape[0], x.shape[1], seed)
    mean = 2 * _variance(x, rows).sum().item() if len(rows) > 1 else 0.0
    return kernel.bandwidth_from(1 / _check_spread("paper", "mean squared", mean, len(rows)))


def _variance(x: RowsLike, rows: Tensor) -> Tensor:  # (n, d), (k,) -> (d,)
    """Return the variance of each input over some rows, read in groups; exactly 0 for a constant input."""
    count, mean, squares = 0, torch.zeros(()), torch.zeros(())
    for group in rows.split(max(1, GROUP_ENTRIES // x.shape[1])):
        # torch uses Welford's algorithm within a group; this is the same update from group to group.
        variance, centre = torch.var_mean(x[group].double(), dim=0, correction=0)
        shift, share = centre - mean, len(group) / (count + len(group))
        squares = squares + len(group) * variance + count * share * shift.square()
        mean = mean + share * shift
        count += len(group)
    return squares / (count - 1)


_RULES = {"median": _median, "paper": _paper}


def sample_rows(n: int, d: int, seed: int) -> Tensor:  # (at most MAX_SAMPLED_ROWS,)
    """Return the numbers of the sampled rows, of n with d inputs, in random order. Nothing of size n is allocated."""
    source = generator(seed, "bandwidth")
    most = min(MAX_SAMPLED_ROWS, max(MIN_SAMPLED_ROWS, MAX_SAMPLED_ENTRIES // max(d, 1)))
    if n <= most:
        return torch.randperm(n, generator=source)
    rows: Tensor = torch.unique(torch.randint(n, (most,), generator=source))
    return rows[torch.randperm(len(rows), generator=source)]


def _distances(kernel: Kernel, x: RowsLike, groups: Sequence[Tensor]) -> Tensor:  # (pairs,)
    """Return the distances within each group, in one tensor: many small tensors would fragment memory."""
    sizes = [len(group) * (len(group) - 1) // 2 for group in groups]
    distances = torch.empty(sum(sizes), dtype=torch.float64)
    for group, out in zip(groups, distances.split(sizes), strict=True):
        rows = x[group].double()
        i, j = torch.triu_indices(len(rows), len(rows), offset=1, device=rows.device)
        out.copy_(kernel.distance(rows, rows)[i, j])
    return distances


def _check_spread(rule: str, what: str, value: float, rows: int) -> float:
    if not 0 < value < math.inf:
        raise DegenerateBandwidth(
            f"bandwidth={rule!r} needs rows that differ; the {what} distance over {rows} rows is {value}. "
            "Give the bandwidth as a number, such as bandwidth=1.0, or check the inputs for constant columns."
        )
    return value
