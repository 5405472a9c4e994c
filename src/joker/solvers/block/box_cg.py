r"""Conjugate gradients on the free coordinates of a box, batched over columns.

Minimises, for each column on its own,

    g·s + ½ s·(K + diag h) s + kink (|a+s|₁ - |a|₁)   with   low ≤ a + s ≤ high.

Each iteration does one of three things in each column:

- **conjugate gradients** over the free coordinates, as long as the step stays inside;
- where the step leaves the box, it is **projected**, and the next direction is not conjugate to it. If the projected
  step decreases the objective less than stopping at the first wall does, a quarter of the step is tried, then the
  step to the first wall is taken;
- where the gradient of the held coordinates is larger than that of the free ones, those that would leave their wall are
  **released**: a step along the negative gradient of both.

The third rule, proportioning, and the first are Z. Dostál's (SIAM J. Optim. 7, 1997); projecting the whole conjugate
step finds many active walls at once. The objective never rises.

:class:`BoxCg` passes columns that need many iterations to :class:`joker.solvers.block.admm.Admm`, which moves them
near their minimum, and finishes them from there.

Masks are numbers 0 and 1, and conditions are limits of a clamp, where they can be: torch operations on truth values
are slower on a CPU. Inside, a column is a row in memory, for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import torch
from torch import Tensor

from joker.ops.block_constants import BOX_TOLERANCE, PROPORTION, SHORT_STEP
from joker.solvers.block.admm import ADMM_STEPS, Admm
from joker.solvers.block.box import Box, Face, Minimum, row_dot
from joker.solvers.block.box_cg_column import minimise_columns
from joker.solvers.block.model import BlockProblem, Model, Strategy, TrialStep

# Matrix-vector products of each column before ADMM, whose inverse costs as much as many products. All columns share
# the inverse, so each of t columns gets 1 / t² as many. Chosen by measurement with blocks of REFERENCE_ROWS rows.
SINGLE_PRODUCTS = 192  # for one column
SHARED_PRODUCTS = 96  # for several columns, divided by the square of their number
KINKED_PRODUCTS = 32  # the same with a kink: a wall in the middle of the box interrupts conjugate directions often
FEWEST_PRODUCTS = 6
REFERENCE_ROWS = 512  # the inverse of a larger block costs proportionally more products


@dataclass(frozen=True)
class BoxCg(Strategy):
    """Conjugate gradients in box and trust region, then ADMM and conjugate gradients for columns that need many."""

    tolerance_share = BOX_TOLERANCE

    @staticmethod
    def suits(problem: BlockProblem) -> bool:
        return True

    @cached_property
    def admm(self) -> Admm:
        """One inverse for all models of the block."""
        return Admm(self.problem.K)

    def step(self, model: Model) -> TrialStep:
        found = self._minimise(model)
        slack = (found.products / self.problem.patience).clamp(min=1)
        return TrialStep(self.problem.box.clamp(found.a) - model.a, found.Ks, found.products, slack)

    def _minimise(self, model: Model) -> Minimum:
        h, g, a, box, tolerance = model.h, model.g, model.a, model.region, model.tolerance
        limit, patience = self.problem.max_products, self.problem.patience
        if not a.is_cuda:
            return minimise_columns(self.problem.K, h, g, a, box, tolerance, limit, patience)
        few = _products_before_admm(len(a), a.shape[1], kinked=box.kink != 0)
        if limit <= few + ADMM_STEPS:
            return box_conjugate_gradients(self.problem.K, h, g, a, box, tolerance, limit, patience)
        first = box_conjugate_gradients(self.problem.K, h, g, a, box, tolerance, few, patience)
        if bool(first.reached.all()):
            return first
        left = (~first.reached).nonzero()[:, 0]
        h, g, a = h[:, left], (g + first.Ks + h * (first.a - a))[:, left], first.a[:, left]
        box, tolerance, limit = box.columns(left), tolerance[left], limit - few - ADMM_STEPS
        near = self.admm.approach(h, g, a, box)
        g = g + near.Ks + h * (near.a - a)
        last = box_conjugate_gradients(self.problem.K, h, g, near.a, box, tolerance, limit, patience)
        return Minimum(
            first.a.index_copy(1, left, last.a),
            first.Ks.index_add(1, left, near.Ks + last.Ks),
            first.products.index_add(0, left, near.products + last.products),
            first.reached.index_copy(0, left, last.reached),
        )


def _products_before_admm(b: int, t: int, *, kinked: bool) -> int:
    products = KINKED_PRODUCTS if kinked else SINGLE_PRODUCTS if t == 1 else SHARED_PRODUCTS
    return max(FEWEST_PRODUCTS, products // t**2) * max(REFERENCE_ROWS, b) // REFERENCE_ROWS


def box_conjugate_gradients(
    K: Tensor,  # (b, b)
    h: Tensor,  # (b, t)
    g: Tensor,  # (b, t) smooth gradient at a
    a: Tensor,  # (b, t) inside the box
    box: Box,
    tolerance: Tensor,  # (t,) norm of the projected gradient to reach
    max_products: int,
    patience: float = inf,
) -> Minimum:
    """Minimise the quadratic over the box, from ``a``; above ``patience`` products the tolerance grows with them."""
    h, g, a, box, tolerance = h.T.contiguous(), g.T.contiguous(), a.T.contiguous(), box.T, tolerance[:, None]
    Ks, p, q = torch.zeros_like(a), torch.zeros_like(a), torch.zeros_like(a)
    curvature = torch.ones_like(tolerance)
    conjugate = torch.zeros_like(tolerance)  # 1 where the next direction is to be conjugate to the last
    reached = torch.zeros_like(tolerance, dtype=torch.bool)
    products = torch.zeros_like(tolerance, dtype=torch.long)
    inverse = 1 / (K.diagonal() + h)  # preconditioner: ψ″ may differ by orders of magnitude
    smallest, tiny = torch.finfo(a.dtype).eps * K.diagonal().max(), torch.finfo(a.dtype).tiny

    for _ in range(max_products):
        face = box.face(a, g)
        slack = (products / patience).clamp_(min=1)
        reached = reached | (row_dot(face.gradient, face.gradient) <= (slack * tolerance).square_())
        done = reached | (products >= max_products)
        if bool(done.all()):
            break

        # The direction is the gradient of all coordinates where some are released, else that of the free ones,
        # conjugate to the last direction where that was not projected.
        scaled, inside = face.gradient * inverse, face.free
        free = scaled * inside
        whole_norm, free_norm = row_dot(scaled, face.gradient), row_dot(free, face.gradient)
        release = (whole_norm - free_norm > PROPORTION**2 * free_norm).to(a)
        along = row_dot(free, q).mul_(conjugate * (1 - release)).div_(curvature)
        p = torch.addcmul(scaled, along, p, value=-1).mul_(torch.maximum(inside, release))
        p = p.mul_((~done).to(a))  # then nothing below moves the column

        Kp = p @ K
        q = torch.addcmul(Kp, h, p)
        curvature = torch.maximum(row_dot(p, q), smallest * row_dot(p, p)).clamp_(min=tiny)
        slope = row_dot(p, face.gradient)
        length = slope / curvature
        goal = torch.addcmul(a, length, p, value=-1)
        new = torch.clamp(goal, face.low, face.high)
        leaves = _largest(goal.sub_(new)) > 0
        products = products + (~done).long()
        Kd = Kp * -length
        if bool(leaves.any()):
            inner = _project(K, h, a, p, Kp, length, slope, curvature, face, leaves)
            new, Kd = torch.where(leaves, inner.a, new), torch.where(leaves, inner.Ks, Kd)
            products = products + inner.products
        d = new - a
        reached = reached | (~done & (_largest(d) == 0))  # the step is below the last bit: nothing is left to gain
        g = torch.addcmul(g + Kd, h, d)
        a, Ks, conjugate = new, Ks + Kd, (~leaves).to(a)
    return Minimum(a.T.contiguous(), Ks.T.contiguous(), products[:, 0], reached[:, 0])


def _project(
    K: Tensor, h: Tensor, a: Tensor, p: Tensor, Kp: Tensor, length: Tensor, slope: Tensor, curvature: Tensor,
    face: Face, leaves: Tensor,
) -> Minimum:  # fmt: skip
    """For columns that leave the box: the projected step, a shorter one, or the one to the first wall."""
    first = torch.minimum(face.reach(p), length)
    onto = 1 + 4 * torch.finfo(a.dtype).eps  # else rounding may leave the coordinate an ulp off its wall
    best = torch.clamp(torch.addcmul(a, first * onto, p, value=-1), face.low, face.high)
    Kbest = Kp * -first
    change = first * (0.5 * first * curvature - slope)
    left, products = leaves, torch.zeros_like(leaves, dtype=torch.long)
    for share in (1.0, SHORT_STEP):
        trial = torch.clamp(torch.addcmul(a, share * length, p, value=-1), face.low, face.high)
        d = trial - a
        Kd = d @ K
        trial_change = row_dot(d, torch.addcmul(Kd, h, d).mul_(0.5).add_(face.gradient))
        better = left & (trial_change <= change)
        best, Kbest = torch.where(better, trial, best), torch.where(better, Kd, Kbest)
        products = products + left.long()
        left = left & ~better & (SHORT_STEP * length > first)
        if not bool(left.any()):
            break
    return Minimum(best, Kbest, products, ~leaves)


def _largest(u: Tensor) -> Tensor:  # (t, 1)
    """Largest absolute value of each row."""
    norm: Tensor = torch.linalg.vector_norm(u, torch.inf, dim=1, keepdim=True)
    return norm
