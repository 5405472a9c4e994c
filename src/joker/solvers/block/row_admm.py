r"""ADMM on a product of simplices: the Crammer–Singer loss.

With the room w = c p ≥ 0 of every class, Σ_j w_j = c in each row, the block problem is quadratic: minimise
g·s + ½ s·K s where w - s is in the simplex of its row. As in :mod:`joker.solvers.block.admm` the step has two copies,

    p ← (K + ρI)⁻¹ (ρ (s - u) - g)
    v ← u + 1.6 p - 0.6 s
    s ← w - (the point of the simplices nearest to w - v),      u ← v - s,

and one inverse serves all classes and all values of λ. Shares that are 0 at the minimum are exactly 0 in s. Conjugate
gradients on the faces of the simplices need many more products: a face changes with every class of every row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from joker.ops import row_solve
from joker.ops.block_constants import RELAXATION
from joker.solvers.block.admm import Admm, shifted_inverse
from joker.solvers.block.result import BlockResult, Outcome
from joker.solvers.block.row_problem import RowProblem, dot64, norm

ROUND_STEPS = 24  # iterations between two evaluations of the gradient
FUSED_ROUNDS = 2  # rounds of a solve that does not wait for the CPU
RHO_FACTOR = 4.0  # of ρ of a box problem; best of 1 to 64 for kernels of three bandwidths
LEAST_RHO = 0.5  # as a share of the mean of K's diagonal; best of 0.003 to 64 where K is singular


class RowAdmm:
    """What moves in the solve of a block: the iterate and its multiplier, and the best step with its image under K."""

    def __init__(self, problem: RowProblem, tol: float) -> None:
        self.problem = problem
        self.room = (torch.where(problem.own, problem.c, 0.0) - problem.a).clamp(min=0)
        self.s, self.Ks = torch.zeros_like(problem.a), torch.zeros_like(problem.a)
        self.change = torch.zeros(len(problem.a), dtype=torch.float64, device=problem.a.device)
        self.products = torch.zeros_like(self.change, dtype=torch.long)
        self.scale = problem.K.diagonal().mean()
        self.norm = self._residual(self.scale)[0]
        self.target = torch.maximum(tol * self.norm, self._rounding())
        self.broken = ~self.norm.isfinite()
        self.done = self.broken | (self.norm <= self.target)
        self.stalled = torch.zeros_like(self.done)
        self.rho = torch.maximum(RHO_FACTOR * Admm(problem.K).rho, LEAST_RHO * self.scale)
        inverse = shifted_inverse(problem.K, self.rho)
        self.inverse, self.pull = self.rho * inverse, _times(problem.f, inverse)
        self.at, self.u = self.s, self._residual(self.rho)[1]

    def _residual(self, rho: Tensor) -> tuple[Tensor, Tensor]:  # (L,), (L, k, b)
        """Return the norm of ρ times a projected gradient step, and the multiplier u that belongs to s."""
        step = -(self.problem.f + self.Ks) / rho
        move = self.room - self.s - project_rows(self.room - self.s - step, self.problem.c)
        return rho * norm(move), step - move

    def _rounding(self) -> Tensor:  # (L,)
        """Norm of the rounding error of the gradient."""
        largest = self.problem.K.diagonal().max() * len(self.problem.K) ** 0.5
        size: Tensor = norm(self.problem.f) + norm(self.s) * largest
        return torch.finfo(size.dtype).eps * size

    def run(self, max_rounds: int) -> BlockResult:
        """Do rounds until all groups are done; on a GPU a fixed number, as nothing waits for the CPU."""
        fused = self.problem.fused
        for _ in range(min(max_rounds, FUSED_ROUNDS) if fused else max_rounds):
            if not fused and bool(self.done.all()):
                break
            self.advance()
        return self.result()

    def advance(self) -> None:
        """Do one round of iterations, and keep their point in every group in which it is the best so far."""
        s, u = self._iterate()
        Ks = self.problem.times(s)
        change = dot64(s, self.problem.f + 0.5 * Ks)
        better = ~self.done & (change < self.change)
        keep = better[:, None, None]
        self.s, self.Ks = torch.where(keep, s, self.s), torch.where(keep, Ks, self.Ks)
        self.change = torch.where(better, change, self.change)
        self.products = self.products + torch.where(self.done, 0, ROUND_STEPS + 1)
        self.norm = torch.where(better, self._residual(self.scale)[0], self.norm)
        self.target = torch.maximum(self.target, self._rounding())
        still = norm(s - self.at) <= torch.finfo(s.dtype).eps * norm(s)
        self.stalled = self.stalled | (~self.done & ~better & still)
        self.done = self.done | self.stalled | (self.norm <= self.target)
        self.at, self.u = s, u

    def _iterate(self) -> tuple[Tensor, Tensor]:
        """Return the iterate and the multiplier after a round."""
        s, u, c = self.at, self.u, self.problem.c
        if self.problem.fused:
            return row_solve.simplex_steps(s, u, self.inverse, self.pull, self.room, c, ROUND_STEPS)
        for _ in range(ROUND_STEPS):
            p = _times(s - u, self.inverse).sub_(self.pull)
            v = torch.lerp(s, p, RELAXATION).add_(u)
            s = self.room - project_rows(self.room - v, c)
            u = v - s
        return s, u

    def result(self) -> BlockResult:
        """Return the best point, or the first where nothing better was found."""
        outcome = torch.where(self.norm <= self.target, Outcome.CONVERGED, Outcome.LIMIT)
        outcome = torch.where(self.stalled, Outcome.STALLED, outcome)
        outcome = torch.where(self.broken, Outcome.BROKEN, outcome)
        others = torch.where(self.problem.own, 0.0, self.room - self.s)
        a = torch.where(self.problem.own, others.sum(1, keepdim=True), -others)
        return self.problem.result(a, self.change, 0.5 * dot64(self.s, self.Ks), outcome, self.products)


def _times(v: Tensor, matrix: Tensor) -> Tensor:  # (L, k, b), (b, b)
    return (v.flatten(0, 1) @ matrix).view_as(v)


def project_rows(v: Tensor, c: Tensor) -> Tensor:  # (L, k, b), (L, 1, b)
    """Return the nearest point with entries of at least 0 whose sum over the classes of each row is c.

    It is max(v - τ, 0). A GPU finds τ by sorting, without a wait; a CPU by Newton's method, which takes a few steps.
    """
    return (v - (_sorted_shift(v, c) if v.is_cuda else _newton_shift(v, c))).clamp(min=0)


def _sorted_shift(v: Tensor, c: Tensor) -> Tensor:  # (L, 1, b)
    ordered = v.sort(1, descending=True).values
    excess = ordered.cumsum(1) - c
    counts = torch.arange(1, v.shape[1] + 1, dtype=v.dtype, device=v.device)[:, None]
    last = (ordered * counts > excess).sum(1, keepdim=True).clamp(min=1)
    return excess.gather(1, last - 1) / last


def _newton_shift(v: Tensor, c: Tensor) -> Tensor:  # (L, 1, b)
    """Return the τ with Σ max(v - τ, 0) = c: the sum is convex in τ, and from below its Newton steps only grow."""
    shift = (v.sum(1, keepdim=True) - c) / v.shape[1]
    for _ in range(v.shape[1]):  # each step removes a class of some row
        above = (v > shift).to(v)
        new = ((v * above).sum(1, keepdim=True) - c) / above.sum(1, keepdim=True).clamp(min=1)
        if not bool((new > shift).any()):
            break
        shift = torch.maximum(new, shift)
    return shift
