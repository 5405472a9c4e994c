r"""Newton's method for the softmax: conjugate gradients in the subspace Σ_j s_j = 0 of every row.

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

import torch
from torch import Tensor

from joker.losses import Softmax
from joker.ops import block_constants as constants
from joker.ops import row_solve
from joker.solvers.block.result import BlockResult, Outcome
from joker.solvers.block.row_problem import RowProblem, dot, dot64

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
        self._measure()
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

    def _measure(self) -> None:
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
        self._measure()
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

    def _measure(self) -> None:
        model = row_solve.row_model(self.problem.f, self.Ks, self.p, self.problem.c, self.diagonal)
        self.model, self.norm = model, model.norm

    def advance(self) -> None:
        K, c, model = self.problem.K, self.problem.c, self.model
        tolerance = torch.maximum(NEWTON_TOLERANCE * self.target, constants.FORCING * self.norm).square()
        tolerance = torch.where(self.done, torch.inf, tolerance)
        step, products = row_solve.newton_step(K, model, tolerance, min(self.max_products, FUSED_PRODUCTS))
        self.products = self.products + products + (~self.done).long()
        p, d = row_solve.candidate(self.p, step, self.problem.own, c, self.done, constants.BARRIER_SHARE)
        Kd = self.problem.times(d)
        shares = 0.5 ** torch.arange(constants.HALVINGS + 1, dtype=torch.float64, device=d.device)
        sums = row_solve.line_sums(self.p, p, model.g, d, Kd, c, len(shares))
        bends, (linear, quadratic, square) = sums[:, : len(shares)], sums[:, len(shares) :, None].unbind(1)
        best = (shares * linear + 0.5 * shares**2 * quadratic + bends).min(1)
        accept = ~self.done & (best.values + self.rounding * square[:, 0] < 0)
        share = torch.where(accept, shares[best.indices], 0.0).to(d)
        row_solve.move_along(self.p, self.s, self.Ks, p, d, Kd, share)
        self.change = self.change + torch.where(accept, best.values, 0.0)
        self._measure()
        self._conclude(accept)
