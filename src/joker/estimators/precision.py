"""Which floating-point type a fit computes in: from the rounding errors of its own kernel, measured on some rows.

The rank of the kernel matrix is estimated from the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.errors import DegenerateBandwidth
from joker.kernels import Kernel
from joker.losses import Loss
from joker.runtime import generator
from joker.solvers import ProblemSize
from joker.solvers.methods.newton import pivoted_cholesky_of, rank_tolerance

NEGLIGIBLE = 1e-3  # kernel values, as a share of the largest, of rows that are no neighbours
SAMPLED_ROWS, FEW_ROWS = 512, 64  # from which a rank is estimated, and of which errors are measured with all others
USUAL_TOL = 1e-3  # for a fit without a tolerance
# The relative error of predictions that float32 may have, as a share of the tolerance where the loss has kinks, and of
# its square root where it is smooth: the gap of a smooth loss grows with the square of the error.
KINKED_SHARE, SMOOTH_SHARE = 0.5, 0.25


@dataclass(frozen=True)
class Precision:
    """How a fit computes."""

    dtype: torch.dtype
    why: str  # the reason, in words
    precise: bool = False  # whether distances have no cancellation: see `joker.kernels.Radial`
    mixed: bool = False  # whether the kernel of a block may be less precise


class KernelFacts:
    """What is measured of a kernel on some rows, when it is asked for.

    Examples
    --------
    >>> import torch
    >>> from joker.estimators.precision import KernelFacts
    >>> from joker.kernels import Gaussian
    >>> x = torch.linspace(0, 1, 100, dtype=torch.float64)[:, None]
    >>> KernelFacts(Gaussian(1.0), x).error(1_000) < 1e-4 < KernelFacts(Gaussian(1e-4), x).error(1_000)
    True
    """

    def __init__(self, kernel: Kernel, x: Tensor) -> None:  # (k, d), float64
        self.kernel, self.x = kernel, x

    @cached_property
    def size(self) -> float:
        """The largest value of the kernel: that of a row with itself."""
        return float(self.kernel.diag(self.x).amax())

    def error(self, n: int) -> float:
        """Return the error of Σ k(x, x_j) ±1 over n rows in float32.

        Rows that are near x have the largest errors, in units of the bandwidth, and a sample may have none of them:
        rows at the distance of the bandwidth are made for that.
        """
        few, everywhere, near = self._errors
        neighbours = float((few.abs() > NEGLIGIBLE * self.size).double().mean())
        return max(everywhere * math.sqrt(n), near * math.sqrt(max(1.0, n * neighbours)))

    @cached_property
    def precise(self) -> KernelFacts | None:
        """What is measured with distances without cancellation; None where the kernel has no such form."""
        kernel = self.kernel.precisely()
        return None if kernel is None else KernelFacts(kernel, self.x)

    @cached_property
    def _errors(self) -> tuple[Tensor, float, float]:  # (few, k)
        """The kernel of some rows, and the root of the mean squared errors there and of rows that are near."""
        x = self.x[:FEW_ROWS]
        found = self.kernel(x, self.x)
        everywhere = self.kernel(x.float(), self.x.float()).double() - found
        z = x + self.kernel.bandwidth * torch.randn(x.shape, dtype=x.dtype, generator=generator(0, "near rows"))
        z = z if self.kernel.has_bandwidth else x
        near = (self.kernel(x.float(), z.float()).double() - self.kernel(x, z)).diagonal()
        return found, float(everywhere.square().mean().sqrt()), float(near.square().mean().sqrt())

    def rank(self, penalty: float, tol: float, n: int) -> int | None:
        """Return the rank of the matrix of n rows, as far as it matters, from some of them; None if it is not low."""
        matrix = self.kernel(self.x, self.x)
        left_out = rank_tolerance(self.size, penalty, tol, n)
        factor, left = pivoted_cholesky_of(matrix, len(matrix) // 2, left_out)
        return None if left > left_out else factor.shape[1]


def sampled(n: int, seed: int) -> NDArray[np.intp]:
    """Return the numbers of the rows on which rounding errors are measured, in order."""
    rows: NDArray[np.intp] = torch.randint(n, (SAMPLED_ROWS,), generator=generator(seed, "precision")).unique().numpy()
    return rows


def precision_of(
    size: ProblemSize,
    whole: bool,
    loss: Loss,
    penalty: float,
    tol: float,
    facts: Callable[[], KernelFacts],
    solved: int,
    *,
    given: torch.dtype | None = None,
    fused: bool = False,
) -> Precision:
    """Return how a fit computes: in the ``given`` floating-point type, or in the one that rounding errors allow.

    ``whole`` says whether the problem is one block, or has a low rank. ``penalty`` is the smallest λ / w of all rows.
    ``solved`` are the rows of a linear system that is solved at once: those of a block, or all. Where products with the
    kernel are ``fused``, precise distances in float32 take less time than float64.
    A dual variable is at most about 1/penalty, so that predictions have errors of about error / penalty; they are of
    the size of the targets.
    """
    if given is not None and not (given == torch.float32 and fused and size.exact):
        return Precision(given, "as asked")
    if given is None and whole:
        return Precision(torch.float64, "one block, or a method that computes in float64")
    if not size.exact:
        return Precision(torch.float32, "random features")
    found, n = facts(), size.rows
    if given is None and size.linear and penalty < found.size * smallest_penalty(solved):
        return Precision(torch.float64, "λ is below the rounding errors of the eigenvalues in float32")
    goal = tol if tol > 0 else USUAL_TOL
    limit = SMOOTH_SHARE * goal**0.5 if is_smooth(loss) else KINKED_SHARE * goal
    if given is not None:  # the type is the user's: distances are precise where it cannot keep the tolerance else
        limit = goal**0.5 if is_smooth(loss) else goal
    errors = found.error(n) / penalty
    if errors <= limit:
        return Precision(
            torch.float32, f"predictions have errors of about {errors:.1g}" if given is None else "as asked"
        )
    precisely = found.precise.error(n) / penalty if fused and found.precise else math.inf
    if precisely <= limit or (given is not None and precisely < errors):
        why = f"with precise distances predictions have errors of about {precisely:.1g}, else of {errors:.1g}"
        return Precision(torch.float32, why, precise=True)
    if given is not None:
        return Precision(given, "as asked")
    return Precision(torch.float64, f"in float32 predictions would have errors of about {errors:.1g}")


def smallest_penalty(n: int) -> float:
    """Return the smallest λ of a linear system of n rows that float32 can resolve, for a kernel that is at most 1."""
    return torch.finfo(torch.float32).eps * n


def is_smooth(loss: Loss) -> bool:
    """Return whether a loss has no kinks: its conjugate is then strongly convex."""
    inside = torch.full((1, 1), 0.5, dtype=torch.float64)
    return loss.group == 1 and loss.kink == 0 and bool((loss.curvature(inside) > 0).all())


def kernel_at(kernel: Kernel, bandwidth: Callable[[], float]) -> Kernel:
    """Return the kernel with its bandwidth on some rows; 1 where these rows do not give one."""
    try:
        return kernel.with_bandwidth(bandwidth())
    except DegenerateBandwidth:
        return kernel.with_bandwidth(1.0)
