"""Newton's method for the softmax: conjugate gradients in the subspace Σ_j s_j = 0 of every row.

With the shares p of the classes, α = c (1[j = y] - p), the gradient and the Hessian of the block problem are

    g = f + K s - log p   (up to a constant for each row),      K + diag h,   h = 1 / (c p).

A model is minimised by projected conjugate gradients: the preconditioner solves the problem with the diagonal
M = diag(K) + h instead of K + h **in the subspace**, which has a closed form,

    z = M⁻¹ (r - ν),      ν = Σ_j M_j⁻¹ r_j / Σ_j M_j⁻¹     (one number for each row).

So every direction keeps the sums, and √(r·z) is a norm of the projected gradient in which small shares count little.
The step is taken in p: a share keeps at least `BARRIER_SHARE` of its value, and the shares of a row are then divided by
their sum. A step of poor quality is shortened along the line to it, on which the objective is convex.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from joker.losses import ScaledRowLoss, Softmax
from joker.ops import block_constants as constants
from joker.ops import block_solve
from joker.ops.block_constants import RELAXATION
from joker.solvers.block.box_cg import Admm, shifted_inverse
from joker.solvers.block.model import BlockResult, Outcome

# The block problem of a loss that couples the k columns of a group, and what its solvers share.
#
# Inside, tensors are (L, k, b): L groups, such as the values of λ, k classes and b rows. A class of a group is then
# one row in memory, and sums over the classes of a row run along vectors of length b.


@dataclass(frozen=True)
class RowProblem:
    """Minimise f·s + ½ s·K s + Σ [ψ(a+s) - ψ(a)] with Σ_j (a+s)_j = 0 in each row, each group on its own."""

    K: Tensor  # (b, b)
    f: Tensor  # (L, k, b) prediction at a, and the margin of the loss
    a: Tensor  # (L, k, b) first point
    own: Tensor  # (L, k, b) whether the class is that of the row
    c: Tensor  # (L, 1, b)

    @classmethod
    def of(cls, K: Tensor, f: Tensor, a: Tensor, y: Tensor, loss: ScaledRowLoss) -> RowProblem:
        """Return the problem of a block from (b, t) tensors; y and c may have one column."""
        k = loss.group

        def grouped(v: Tensor) -> Tensor:
            return v.expand_as(a).T.reshape(-1, k, len(a)).contiguous()

        own = grouped(y) > 0
        c = torch.as_tensor(loss.unscaled[1]).to(a)
        tilted = grouped(f) + loss.loss.margin * (~own)
        return cls(K, tilted, grouped(a), own, grouped(c)[:, :1].contiguous())

    @property
    def fused(self) -> bool:
        """Whether a solve runs on a GPU without waiting for the CPU."""
        return block_solve.rows_available(self.K.device, self.a.shape[1])

    def times(self, v: Tensor) -> Tensor:  # (L, k, b)
        """K times each class of each group."""
        return _times(v, self.K)

    def result(self, a: Tensor, change: Tensor, quadratic: Tensor, outcome: Tensor, products: Tensor) -> BlockResult:
        """Return the result in (b, t): every column of a group has an equal part of the change and the same outcome.

        ``a`` is (L, k, b) and the others are (L,): ``quadratic`` is ½ s·K s of the step s.
        """
        k = self.a.shape[1]
        better = change < 0
        a = torch.where(better[:, None, None], a, self.a)
        change = torch.where(better, change, 0.0)
        linear = torch.where(better, change - quadratic, 0.0)
        change, linear, outcome, products = (
            v.repeat_interleave(k) for v in (change / k, linear / k, outcome, products)
        )
        return BlockResult(a.flatten(0, 1).T.contiguous(), change, linear, outcome, products, k)


def dot(u: Tensor, v: Tensor) -> Tensor:  # (L, 1, 1)
    """Inner product of each group."""
    return (u * v).sum((1, 2), keepdim=True)


def norm(v: Tensor) -> Tensor:  # (L,)
    """Norm of each group."""
    return torch.linalg.vector_norm(v, dim=(1, 2))  # type: ignore[no-any-return]


def dot64(u: Tensor, v: Tensor) -> Tensor:  # (L,)
    """Inner product of each group, in float64."""
    return (u.double() * v.double()).sum((1, 2))


NEWTON_TOLERANCE = 0.2  # a search ends at this share of the gradient norm that the block is to reach
FUSED_MODELS, FUSED_PRODUCTS = 3, 8  # models of a solve on a GPU, and products of each search


class RowNewton:
    """What moves in the solve of a block: the shares of each row, the step, and its image under K."""

    def __init__(self, problem: RowProblem, tol: float, max_products: int) -> None:
        self.problem, self.max_products = problem, max_products
        self.diagonal = problem.K.diagonal().contiguous()
        self.rounding = torch.finfo(problem.K.dtype).eps * self.diagonal.max() * len(problem.K) ** 0.5  # of s·K s / s·s
        self.weighted = problem.c > 0
        self.groups = len(problem.a)
        divisor = torch.where(self.weighted, problem.c, 1.0)
        exact = torch.where(problem.own, 0.0, -problem.a / divisor)
        self.p = self._inside(exact)
        self.s = self._alpha(self.p) - problem.a
        self.Ks = problem.times(self.s)
        before = torch.where(problem.own, 1 - exact.sum(1, keepdim=True), exact).double().clamp(min=0)
        now = self.p.double()
        leap = problem.c * (torch.xlogy(now, now) - torch.xlogy(before, before))
        self.change = dot64(self.s, problem.f + 0.5 * self.Ks) + leap.sum((1, 2))
        self.products = torch.ones(self.groups, dtype=torch.long, device=problem.a.device)
        self._update_gradient()
        self.target = tol * self.norm
        self.broken = ~self.norm.isfinite()
        self.done = self.broken | (self.norm <= self.target)
        self.stalled = torch.zeros_like(self.done)

    def _inside(self, others: Tensor) -> Tensor:
        """Return the shares of a point, moved inside the simplex; ``others`` has no share of the own class."""
        k = others.shape[1]
        new = others.amax(1, keepdim=True) <= 0  # a row that was never visited
        start = Softmax.START / (k - 1) / (1 + self.problem.c * self.diagonal)  # a large c makes a share a long step
        others = torch.where(new, start, others.clamp(min=Softmax.FLOOR))
        others = torch.where(self.problem.own, 0.0, others)
        eps = torch.finfo(others.dtype).eps
        own = (1 - others.sum(1, keepdim=True)).clamp(min=eps)
        p = torch.where(self.problem.own, own, others)
        return p / p.sum(1, keepdim=True)

    def _alpha(self, p: Tensor) -> Tensor:
        """Return α of some shares; that of the own class is minus the sum of the others."""
        others = torch.where(self.problem.own, 0.0, p)
        return self.problem.c * torch.where(self.problem.own, others.sum(1, keepdim=True), -others)

    def _update_gradient(self) -> None:
        """Compute the gradient, the preconditioner and the norm of the projected gradient."""
        self.g = self.problem.f + self.Ks - self.p.log()
        cp = self.problem.c * self.p
        self.inverse = cp / (1 + cp * self.diagonal)
        self.total = self.inverse.sum(1, keepdim=True).clamp(min=torch.finfo(cp.dtype).tiny)
        self.h = 1 / cp.clamp(min=torch.finfo(cp.dtype).tiny)
        r, z = self._precondition(self.g)
        self.norm: Tensor = dot(r, z)[:, 0, 0].sqrt()

    def _precondition(self, r: Tensor) -> tuple[Tensor, Tensor]:
        """Return r without the part that is the same for all classes of a row, and M⁻¹ of it in the subspace."""
        r = r - (self.inverse * r).sum(1, keepdim=True) / self.total
        return r, self.inverse * r

    def run(self, max_models: int) -> BlockResult:
        """Minimise models until all groups are done."""
        for _ in range(max_models):
            if bool(self.done.all()):
                break
            self.advance()
        return self.result()

    def advance(self) -> None:
        """Minimise one model and take one step, in every group that is not done."""
        d = self._newton_step()
        p = torch.maximum(
            self.p - d / self.problem.c.clamp(min=torch.finfo(d.dtype).tiny), constants.BARRIER_SHARE * self.p
        )
        p = torch.where(self.weighted, p / p.sum(1, keepdim=True), self.p)
        p = torch.where(self.done[:, None, None], self.p, p)
        d = self._alpha(p) - self._alpha(self.p)
        Kd = self.problem.times(d)
        self.products = self.products + (~self.done).long()
        change, share = self._search(p, d, Kd)
        accept = ~self.done & (change + self.rounding * dot64(d, d) < 0)
        step = torch.where(accept, share, 0.0).to(d)[:, None, None]
        self.p = torch.where(accept[:, None, None], torch.lerp(self.p, p, step), self.p)
        self.s, self.Ks = self.s + step * d, self.Ks + step * Kd
        self.change = self.change + torch.where(accept, change, 0.0)
        self._update_gradient()
        self._conclude(accept)

    def _conclude(self, accept: Tensor) -> None:
        """Mark the groups that are done; those that did not accept a step are stalled."""
        self.stalled = self.stalled | (~self.done & ~accept)
        # The first step inside may have raised J; the norm is then relative to that of a worse point.
        self.done = self.done | self.stalled | ((self.norm <= self.target) & (self.change < 0))

    def _newton_step(self) -> Tensor:
        """Return the step of projected conjugate gradients."""
        tolerance = torch.maximum(NEWTON_TOLERANCE * self.target, constants.FORCING * self.norm).square()
        tolerance = torch.where(self.done, torch.inf, tolerance)[:, None, None]
        r, z = self._precondition(-self.g)
        s, p, Kp = (torch.zeros_like(r) for _ in range(3))
        last, tiny = torch.ones_like(tolerance, dtype=r.dtype), torch.finfo(r.dtype).tiny
        for _ in range(self.max_products):
            now = dot(r, z)
            reached = now <= tolerance
            if bool(reached.all()):
                break
            p = torch.addcmul(z, now / last, p)
            Kp = self.problem.times(p)
            q = torch.addcmul(Kp, self.h, p)
            step = (now / dot(p, q).clamp(min=tiny)).mul_((~reached).to(r))
            s = torch.addcmul(s, step, p)
            r, z = self._precondition(torch.addcmul(r, step, q, value=-1))
            last = now.clamp(min=tiny)
            self.products = self.products + (~reached[:, 0, 0]).long()
        return s

    def _search(self, p: Tensor, d: Tensor, Kd: Tensor) -> tuple[Tensor, Tensor]:  # (L,), (L,)
        """Return the change of J at the best of ever shorter steps to ``p``, and the share of the step."""
        linear, quadratic = dot64(self.g, d), 0.5 * dot64(d, Kd)
        old, move = self.p.double(), (p - self.p).double()

        def change(share: float) -> Tensor:
            new = old + share * move
            bend = self.problem.c.double() * torch.special.xlog1py(new, share * move / old)
            total: Tensor = share * linear + share**2 * quadratic + bend.sum((1, 2))
            return total

        best, share = change(1.0), torch.ones_like(linear)
        for halvings in range(1, constants.HALVINGS + 1):
            shorter = change(0.5**halvings)
            better = shorter < best
            if not bool(better.any()):  # along the line the objective is convex: it only rises from here
                break
            best, share = torch.minimum(shorter, best), torch.where(better, 0.5**halvings, share)
        return best, share

    def result(self) -> BlockResult:
        """Return the last point, or the first where nothing better was found."""
        outcome = torch.where(self.norm <= self.target, Outcome.CONVERGED, Outcome.LIMIT)
        outcome = torch.where(self.stalled, Outcome.STALLED, outcome)
        outcome = torch.where(self.broken, Outcome.BROKEN, outcome)
        quadratic = 0.5 * dot64(self.s, self.Ks)
        return self.problem.result(self._alpha(self.p), self.change, quadratic, outcome, self.products)


class FusedRowNewton(RowNewton):
    """The same by GPU kernels, with a fixed number of models and products: nothing waits for the CPU."""

    def run(self, max_models: int) -> BlockResult:
        for _ in range(min(max_models, FUSED_MODELS)):
            self.advance()
        return self.result()

    def _update_gradient(self) -> None:
        model = block_solve.row_model(self.problem.f, self.Ks, self.p, self.problem.c, self.diagonal)
        self.model, self.norm = model, model.norm

    def advance(self) -> None:
        K, c, model = self.problem.K, self.problem.c, self.model
        tolerance = torch.maximum(NEWTON_TOLERANCE * self.target, constants.FORCING * self.norm).square()
        tolerance = torch.where(self.done, torch.inf, tolerance)
        step, products = block_solve.newton_step(K, model, tolerance, min(self.max_products, FUSED_PRODUCTS))
        self.products = self.products + products + (~self.done).long()
        p, d = block_solve.candidate(self.p, step, self.problem.own, c, self.done, constants.BARRIER_SHARE)
        Kd = self.problem.times(d)
        shares = 0.5 ** torch.arange(constants.HALVINGS + 1, dtype=torch.float64, device=d.device)
        sums = block_solve.line_sums(self.p, p, model.g, d, Kd, c, len(shares))
        bends, (linear, quadratic, square) = sums[:, : len(shares)], sums[:, len(shares) :, None].unbind(1)
        best = (shares * linear + 0.5 * shares**2 * quadratic + bends).min(1)
        accept = ~self.done & (best.values + self.rounding * square[:, 0] < 0)
        share = torch.where(accept, shares[best.indices], 0.0).to(d)
        block_solve.move_along(self.p, self.s, self.Ks, p, d, Kd, share)
        self.change = self.change + torch.where(accept, best.values, 0.0)
        self._update_gradient()
        self._conclude(accept)


# ADMM on a product of simplices: the Crammer–Singer loss.
#
# With the room w = c p ≥ 0 of every class, Σ_j w_j = c in each row, the block problem is quadratic: minimise g·s +
# ½ s·K s where w - s is in the simplex of its row. As in :mod:`joker.solvers.block.box_cg` the step has two copies,
#
#     p ← (K + ρI)⁻¹ (ρ (s - u) - g)
#     v ← u + 1.6 p - 0.6 s
#     s ← w - (the point of the simplices nearest to w - v),      u ← v - s,
#
# and one inverse serves all classes and all values of λ. Shares that are 0 at the minimum are exactly 0 in s.
# Conjugate gradients on the faces of the simplices need many more products: a face changes with every class of
# every row.


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
            return block_solve.simplex_steps(s, u, self.inverse, self.pull, self.room, c, ROUND_STEPS)
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
