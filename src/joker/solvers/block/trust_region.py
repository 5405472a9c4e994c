"""One block: a trust region around a quadratic model of the dual objective, each column on its own.

The model takes ψ″ at the current point; for a quadratic loss it is exact. The region is a ball of the maximum norm, so
that region and box together are a box again. A strategy (:mod:`joker.solvers.block.trust_region`) minimises the model;
the loop here accepts its step, shortens it or rejects it, and adapts the radius.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.losses import Loss, ScaledRowLoss
from joker.ops import block_constants as constants
from joker.ops import block_solve
from joker.runtime.devices import one_blas_thread, one_thread
from joker.solvers.block.box_cg import REFERENCE_ROWS, BoxCg
from joker.solvers.block.model import BlockProblem, BlockResult, Model, Outcome, Strategy, TrialStep, dot64, row_dot
from joker.solvers.block.rows import FusedRowNewton, RowAdmm, RowNewton, RowProblem

# Conjugate gradients where no wall can hold a solution, batched over columns.
#
# Minimises  g·s + ½ s·(K + diag h) s  for each column on its own. A preconditioner maps a residual r to z ≈ (K +
# diag h)⁻¹ r and to K z, so that an iteration needs one matrix-vector product:
#
# - :class:`Jacobi` divides by the diagonal and multiplies by K: good where h is large or differs from row to row; -
# :class:`SharedInverse` multiplies by (K + diag μ)⁻¹, one matrix for all columns, with μ between the smallest h and
# the largest. K z = r - μ z then costs nothing. Eigenvalues k of K become (k + h) / (k + μ): however badly K is
# conditioned, what is left is at most the ratio of h and μ, so that a path of λ needs one factorisation.
#
# As in :mod:`joker.solvers.block.box_cg`, a column is a row in memory.


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
    inverse: Preconditioner, h: Tensor, g: Tensor, tolerance: Tensor, max_products: int
) -> tuple[Tensor, Tensor]:  # h, g (t, b), tolerance (t,) -> (t, b), (t,)
    """Minimise the quadratic from s = 0, where its gradient is g, until the norm of the gradient is the tolerance.

    Returned are s, and the matrix-vector products that each column used.
    """
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


MOST_FACTORS = 2  # with more, conjugate gradients for all columns at once take less time


@dataclass(frozen=True)
class Cholesky(Strategy):
    """Solve (K + diag h) d = -g; the second model of a block is a step of iterative refinement."""

    @staticmethod
    def suits(problem: BlockProblem) -> bool:
        if not (problem.loss.quadratic and problem.loss.unbounded):
            return False
        # Where columns share weights and penalty, the curvature has one column, and one factor serves them all.
        return problem.loss.psi_curvature(problem.y[:1, :1], problem.a[:1, :1]).shape[1] <= MOST_FACTORS

    @cached_property
    def factor(self) -> Tensor:  # (1 or t, b, b)
        """Cholesky factors of K + diag h, one for all columns where they share h."""
        K, loss = self.problem.K, self.problem.loss
        y, a = self.problem.y[:, :1], self.problem.a[:, :1]  # one column: the curvature then has as many as differ
        low, high = loss.box(y)
        free = (low < high).T.to(K)  # (1 or t, b)
        h = torch.where(free > 0, loss.psi_curvature(y, a).T, 1.0)
        # A slightly larger diagonal keeps a singular block positive definite; the refinement corrects for it.
        h = h + torch.finfo(h.dtype).eps * K.diagonal().sum()
        shifted = K * free[:, :, None] * free[:, None, :]
        shifted.diagonal(dim1=1, dim2=2).add_(h)
        factor: Tensor = torch.linalg.cholesky_ex(shifted)[0]
        return factor

    def step(self, model: Model) -> TrialStep:
        shared = len(self.factor) == 1
        d = -torch.cholesky_solve(model.g[None] if shared else model.g.T[:, :, None], self.factor)
        d = torch.where(self.problem.fixed | model.done, 0.0, d[0] if shared else d[:, :, 0].T)
        return TrialStep(d, self.problem.K @ d, (~model.done).long())


# From the most special to the most general; the first one that suits is used.
STRATEGIES: tuple[type[Strategy], ...] = (
    Cholesky,  # quadratic, unbounded, one or two factors: a linear system
    UnboundedCg,  # quadratic, unbounded: linear systems that share one inverse
    ClampedCg,  # unbounded, or a barrier without a kink: no wall holds a solution
    BoxCg,  # any loss
)


def choose_strategy(problem: BlockProblem) -> Strategy:
    """Return the first strategy that suits the problem."""
    return next(strategy for strategy in STRATEGIES if strategy.suits(problem))(problem)


MOST_ROWS_OF_ONE_THREAD = 1_024  # a product with a larger kernel matrix is shared by all threads of a CPU


@dataclass(frozen=True)
class BlockSolver:
    """Settings of the block solve.

    Parameters
    ----------
    tol : float
        Norm of the projected gradient to reach, relative to that at the start. A descent over many
        blocks hardly gains from a smaller one, which needs more matrix-vector products.
    max_products : int
        Matrix-vector products with K that a column may use in one search of a quadratic model.
    max_models : int
        Quadratic models that a column may try.
    patience : float
        Matrix-vector products of one search above which its tolerance grows with their number; for blocks of up to
        512 rows, and proportionally more for larger blocks. A column that needs many is far from its solution,
        whatever is done about one block. Use infinity to keep ``tol``.
    """

    tol: float = 0.2
    max_products: int = 300
    max_models: int = 30
    patience: float = 16

    def __post_init__(self) -> None:
        if not (self.tol >= 0 and self.max_products >= 1 and self.max_models >= 1 and self.patience >= 1):
            raise InvalidParameter(
                "a BlockSolver needs tol of at least 0, and max_products, max_models and patience of at least 1; "
                f"got {self}. Use BlockSolver() for the defaults."
            )

    def patience_for(self, b: int) -> float:
        """Return the patience for a block of b rows."""
        return self.patience * max(REFERENCE_ROWS, b) / REFERENCE_ROWS

    def solve(
        self,
        K: Tensor,  # (b, b)
        f: Tensor,  # (b, t) prediction at a
        a: Tensor,  # (b, t) inside the box of the loss
        y: Tensor,  # (b, t) or (b, 1)
        loss: Loss,
        dual: block_solve.Dual | None = None,
    ) -> BlockResult:
        """Lower the dual objective over the block; ``a`` is not changed.

        Where the loss has a form ``dual`` that a device kernel knows, and the block is on such a device, one kernel
        launch solves it.
        """
        patience = self.patience_for(len(K))
        if dual is not None and block_solve.available(K.device, len(K)):
            y, c = y.expand_as(a), torch.as_tensor(loss.unscaled[1]).to(K).expand_as(a)
            limits = (self.tol, self.max_products, self.max_models, patience)
            return BlockResult(*block_solve.solve(K, f, a, y, c, dual, *limits))
        on_cpu = not K.is_cuda
        with one_thread(on_cpu and len(K) <= MOST_ROWS_OF_ONE_THREAD), one_blas_thread(on_cpu):
            if isinstance(loss, ScaledRowLoss):
                return self._solve_rows(RowProblem.of(K, f, a, y, loss), loss)
            region = _TrustRegion(BlockProblem(K, f, a, y.expand_as(a), loss, self.max_products, patience), self.tol)
            for _ in range(self.max_models):
                if bool(region.done.all()):
                    break
                region.advance()
            return region.result()

    def _solve_rows(self, problem: RowProblem, loss: ScaledRowLoss) -> BlockResult:
        """Solve a block whose loss couples the columns of a row."""
        if not loss.barrier:
            return RowAdmm(problem, self.tol).run(self.max_models)
        newton = FusedRowNewton if problem.fused else RowNewton
        return newton(problem, self.tol, self.max_products).run(self.max_models)


def never_waits(loss: Loss, dual: block_solve.Dual | None, device: torch.device, b: int) -> bool:
    """Whether the solve of blocks of b rows reads no number on the CPU, so that a CUDA graph can capture it."""
    if loss.group > 1:
        return block_solve.rows_available(device, loss.group)
    return dual is not None and block_solve.available(device, b)


class _TrustRegion:
    """What moves in a solve: for each column a point, its image under K, and a radius."""

    def __init__(self, problem: BlockProblem, tol: float) -> None:
        self.problem, self.strategy = problem, choose_strategy(problem)
        self.a, self.Ks = problem.a, torch.zeros_like(problem.a)
        self.products = torch.zeros_like(self.a[0], dtype=torch.long)
        self.change = torch.zeros_like(self.a[0], dtype=torch.float64)
        self.radius = torch.full_like(self.a[0], torch.inf)
        self._update_gradient()
        first = self.norm
        if not problem.loss.quadratic:
            self._enter()
            self._update_gradient()
        self.target = tol * torch.minimum(first, self.norm)  # one of them may be infinite
        self._raise_target()
        self.broken = ~self.norm.isfinite()
        self.done = self.broken | (self.norm <= self.target)
        self.stalled = torch.zeros_like(self.done)

    def _enter(self) -> None:
        """Leave points where there is no model, such as the ends of a barrier."""
        y, a, f, loss = self.problem.y, self.problem.a, self.problem.f, self.problem.loss
        self.a = self.problem.box.clamp(loss.psi_start(y, a, -f - loss.frame.tilt(y)))
        s = self.a - a
        self.Ks = self.problem.K @ s
        self.products = self.products + 1
        leap = loss.psi(y, self.a.double()) - loss.psi(y, a.double())
        self.change = dot64(s, f + 0.5 * self.Ks) + torch.where(self.problem.fixed, 0.0, leap).sum(0)

    def _update_gradient(self) -> None:
        """Compute the gradient, and the norm of the projected gradient."""
        self.g = self.problem.gradient(self.a, self.Ks)
        self.norm: Tensor = torch.linalg.vector_norm(self.problem.box.face(self.a, self.g).gradient, dim=0)

    def _raise_target(self) -> None:
        self.target = torch.maximum(self.target, self.problem.gradient_rounding(self.a - self.problem.a))

    def advance(self) -> None:
        """Minimise one model and take one step, in every column that is not done."""
        quadratic, model = self.problem.loss.quadratic, self._model()
        step = self.strategy.step(model)
        d, Kd, self.products = step.d, step.Kd, self.products + step.products
        if quadratic:  # the model is exact: precision that the search gave up is not asked for again
            self.target = self.target * step.slack
        predicted, change = model.change(d, Kd), self.problem.change(self.a, self.g, d, Kd)
        ratio = torch.where(predicted < 0, change / predicted, 0.0)
        self._resize(ratio, d.abs().amax(0))
        if not quadratic and bool((~self.done & ~(ratio >= constants.POOR_RATIO)).any()):
            change, d, Kd = self._shorten(d, Kd, change)
        noise = self.problem.change_rounding(d)
        accept = ~self.done & (change + noise < 0) & (change <= constants.ACCEPT_RATIO * predicted)
        self.a = torch.where(accept, self.problem.box.clamp(self.a + d), self.a)
        self.Ks = torch.where(accept, self.Ks + Kd, self.Ks)
        self.change = self.change + torch.where(accept, change, 0.0)
        self._update_gradient()
        if not quadratic:
            unfinished = (self.change >= 0) & (self.norm <= self.target)
            self.target = torch.where(unfinished, constants.TIGHTER * self.norm, self.target)
        self._raise_target()
        # Where the model was good, a rejected step is below the noise, and the next model would be the same.
        small = self.radius <= torch.finfo(self.a.dtype).eps * self.a.abs().amax(0)
        hopeless = (predicted >= 0) | (ratio >= constants.POOR_RATIO) | small | quadratic
        self.stalled = self.stalled | (~self.done & ~accept & hopeless)
        self.done = self.done | self.stalled | (self.norm <= self.target)

    def _model(self) -> Model:
        tolerance = self.strategy.tolerance_share * self.target
        if not self.problem.loss.quadratic:
            tolerance = torch.maximum(tolerance, constants.FORCING * self.norm)
        tolerance = torch.where(self.done, torch.inf, tolerance)
        return Model(self.problem, self.a, self.g, self.problem.curvature(self.a), self.radius, tolerance, self.done)

    def _resize(self, ratio: Tensor, length: Tensor) -> None:
        """Adapt the radius to the share of the predicted decrease that a step of this length kept."""
        shrunk = constants.SHRINK * torch.minimum(self.radius, length)
        grows = (ratio > constants.GOOD_RATIO) & (length >= constants.BOUNDARY_SHARE * self.radius)
        grown = torch.where(grows, constants.GROW * self.radius, self.radius)
        self.radius = torch.where(ratio < constants.POOR_RATIO, shrunk, grown)

    def _shorten(self, d: Tensor, Kd: Tensor, change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best of ever shorter steps along d: they need no product with K."""
        best = torch.ones_like(self.radius)
        for halvings in range(1, constants.HALVINGS + 1):
            shorter = self.problem.change(self.a, self.g, d * 0.5**halvings, Kd * 0.5**halvings)
            better = shorter < change
            if not bool(better.any()):  # along d the objective is convex: it only rises from here
                break
            best = torch.where(better, 0.5**halvings, best)
            change = torch.minimum(shorter, change)
        return change, d * best, Kd * best

    def result(self) -> BlockResult:
        """Return the last point, or the first where nothing better was found."""
        better = self.change < 0
        outcome = torch.where(self.norm <= self.target, Outcome.CONVERGED, Outcome.LIMIT)
        outcome = torch.where(self.stalled, Outcome.STALLED, outcome)
        outcome = torch.where(self.broken, Outcome.BROKEN, outcome)
        a, change = torch.where(better, self.a, self.problem.a), torch.where(better, self.change, 0.0)
        linear = torch.where(better, change - 0.5 * dot64(a - self.problem.a, self.Ks), 0.0)
        return BlockResult(a, change, linear, outcome, self.products)
