r"""Conjugate gradients where no wall can hold a solution, batched over columns.

Minimises  g·s + ½ s·(K + diag h) s  for each column on its own. A preconditioner maps a residual r to
z ≈ (K + diag h)⁻¹ r and to K z, so that an iteration needs one matrix-vector product:

- :class:`Jacobi` divides by the diagonal and multiplies by K: good where h is large or differs from row to row;
- :class:`SharedInverse` multiplies by (K + diag μ)⁻¹, one matrix for all columns, with μ between the smallest h and
  the largest. K z = r - μ z then costs nothing. Eigenvalues k of K become (k + h) / (k + μ): however badly K is
  conditioned, what is left is at most the ratio of h and μ, so that a path of λ needs one factorisation.

As in :mod:`joker.solvers.block.box_cg`, a column is a row in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from joker.solvers.block.box import row_dot
from joker.solvers.block.box_cg import BoxCg
from joker.solvers.block.model import BlockProblem, Model, Strategy, TrialStep, dot64

LOWER_WEIGHT = 0.6  # weight of the smallest h in log μ: badly conditioned columns gain most from a μ near their own h
CLAMPED_SHARE = 0.1  # share of the decrease without walls that a step clamped to them must keep
UNBOUNDED_TOLERANCE = 0.2  # as BOX_TOLERANCE: without walls more precision costs little

Preconditioner = Callable[[Tensor], tuple[Tensor, Tensor]]  # from r (t, b) to z and K z, both (t, b)


class Jacobi:
    """Division by the diagonal of K + diag h where ``free`` is 1; 0 elsewhere."""

    def __init__(self, K: Tensor, h: Tensor, free: Tensor) -> None:  # (b, b), (t, b), (t, b)
        self.K, self.free, self.inverse = K, free, free / (K.diagonal() + h)

    def __call__(self, r: Tensor) -> tuple[Tensor, Tensor]:
        z = r * self.inverse
        return z, (z @ self.K).mul_(self.free)


class SharedInverse:
    """The inverse of K + diag μ, with μ between the curvatures of all columns.

    Rows where ``free`` is 0 are separated from the others: a residual of 0 there stays 0.
    """

    def __init__(self, K: Tensor, h: Tensor, free: Tensor) -> None:  # (b, b), (t, b), (b,)
        smallest = torch.finfo(K.dtype).eps ** 0.5 * K.diagonal().mean()  # keeps the inverse accurate
        self.mu = torch.maximum(h.amin(0) ** LOWER_WEIGHT * h.amax(0) ** (1 - LOWER_WEIGHT), smallest)  # (b,)
        shifted = K * free * free[:, None]
        shifted.diagonal().add_(self.mu)
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(shifted)[0])  # (b, b)

    def __call__(self, r: Tensor) -> tuple[Tensor, Tensor]:
        z = r @ self.inverse
        return z, torch.addcmul(r, self.mu, z, value=-1)


@dataclass(frozen=True)
class UnboundedCg(Strategy):
    """Conjugate gradients for a quadratic loss without a box."""

    tolerance_share = UNBOUNDED_TOLERANCE

    @staticmethod
    def suits(problem: BlockProblem) -> bool:
        return problem.loss.quadratic and problem.loss.unbounded

    @cached_property
    def preconditioner(self) -> Preconditioner:
        """One inverse for all columns if the same rows can move in all of them; h is constant."""
        K, h = self.problem.K, self.problem.curvature(self.problem.a).T.contiguous()
        free = (~self.problem.fixed).T.to(h)
        same = torch.equal(free.amin(0), free.amax(0))
        return SharedInverse(K, h, free[0]) if same else Jacobi(K, h, free.contiguous())

    def step(self, model: Model) -> TrialStep:
        s, products = _minimise(model, self.preconditioner)
        return TrialStep(s, self.problem.K @ s, products)


@dataclass(frozen=True)
class ClampedCg(Strategy):
    """Conjugate gradients as if there were no walls; the step is clamped, as no wall holds a solution."""

    tolerance_share = UNBOUNDED_TOLERANCE

    @staticmethod
    def suits(problem: BlockProblem) -> bool:
        return problem.loss.kink == 0 and (problem.loss.barrier or problem.loss.unbounded)

    @cached_property
    def in_box(self) -> BoxCg:
        """The strategy for columns of which clamping loses too much."""
        return BoxCg(self.problem)

    def step(self, model: Model) -> TrialStep:
        K, region, free = self.problem.K, model.region, (~self.problem.fixed).T.to(model.h)
        s, products = _minimise(model, Jacobi(K, model.h.T.contiguous(), free.contiguous()))
        d = region.clamp(model.a + s) - model.a
        Kd = K @ d
        poor = ~(model.change(d, Kd) <= 0.5 * CLAMPED_SHARE * dot64(model.g, s)) & ~model.done
        if not bool(poor.any()):
            return TrialStep(d, Kd, products)
        other = self.in_box.step(replace(model, tolerance=torch.where(poor, model.tolerance, torch.inf)))
        return TrialStep(torch.where(poor, other.d, d), torch.where(poor, other.Kd, Kd), products + other.products)


def _minimise(model: Model, inverse: Preconditioner) -> tuple[Tensor, Tensor]:  # (b, t), (t,)
    """Minimise the model without walls; the products include the one with K that the caller needs."""
    h, g = model.h.T.contiguous(), model.g.T.contiguous()
    s, products = conjugate_gradients(inverse, h, g, model.tolerance, model.problem.max_products)
    return s.T, products + (~model.done).long()


def conjugate_gradients(
    inverse: Preconditioner,
    h: Tensor,  # (t, b)
    g: Tensor,  # (t, b) gradient at s = 0
    tolerance: Tensor,  # (t,) norm of the gradient to reach
    max_products: int,
) -> tuple[Tensor, Tensor]:  # (t, b), (t,)
    """Minimise the quadratic from s = 0; return s, and the matrix-vector products that each column used."""
    r, s, p, Kp = -g, *(torch.zeros_like(g) for _ in range(3))
    last, products = torch.ones_like(g[:, :1]), torch.zeros_like(tolerance, dtype=torch.long)
    tiny, tolerance = torch.finfo(g.dtype).tiny, tolerance.square()[:, None]
    for _ in range(max_products):
        reached = row_dot(r, r) <= tolerance
        if bool(reached.all()):
            break
        z, Kz = inverse(r)
        now = row_dot(r, z)
        p, Kp = torch.addcmul(z, now / last, p), torch.addcmul(Kz, now / last, Kp)
        q = torch.addcmul(Kp, h, p)
        step = now.div(row_dot(p, q).clamp_(min=tiny)).mul_((~reached).to(g))
        s, r = torch.addcmul(s, step, p), torch.addcmul(r, step, q, value=-1)
        last, products = now.clamp_(min=tiny), products + (~reached[:, 0]).long()
    return s, products
