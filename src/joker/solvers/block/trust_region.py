"""One block: a trust region around a quadratic model of the dual objective, each column on its own.

The model takes ψ″ at the current point; for a quadratic loss it is exact. The region is a ball of the maximum norm, so
that region and box together are a box again. A strategy (:mod:`joker.solvers.block.strategies`) minimises the model;
the loop here accepts its step, shortens it or rejects it, and adapts the radius.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.losses import Loss, ScaledRows
from joker.ops import block_constants as constants
from joker.ops import block_solve, row_solve
from joker.runtime.threads import one_blas_thread, one_thread
from joker.solvers.block.box_cg import REFERENCE_ROWS
from joker.solvers.block.model import BlockProblem, Model, dot64
from joker.solvers.block.result import BlockResult, Outcome
from joker.solvers.block.row_admm import RowAdmm
from joker.solvers.block.row_newton import FusedRowNewton, RowNewton
from joker.solvers.block.row_problem import RowProblem
from joker.solvers.block.strategies import choose

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
            if isinstance(loss, ScaledRows):
                return self._solve_rows(RowProblem.of(K, f, a, y, loss), loss)
            region = _TrustRegion(BlockProblem(K, f, a, y.expand_as(a), loss, self.max_products, patience), self.tol)
            for _ in range(self.max_models):
                if bool(region.done.all()):
                    break
                region.advance()
            return region.result()

    def _solve_rows(self, problem: RowProblem, loss: ScaledRows) -> BlockResult:
        """Solve a block whose loss couples the columns of a row."""
        if not loss.barrier:
            return RowAdmm(problem, self.tol).run(self.max_models)
        newton = FusedRowNewton if problem.fused else RowNewton
        return newton(problem, self.tol, self.max_products).run(self.max_models)


def never_waits(loss: Loss, dual: block_solve.Dual | None, device: torch.device, b: int) -> bool:
    """Whether the solve of blocks of b rows reads no number on the CPU, so that a CUDA graph can capture it."""
    if loss.group > 1:
        return row_solve.available(device, loss.group)
    return dual is not None and block_solve.available(device, b)


class _TrustRegion:
    """What moves in a solve: for each column a point, its image under K, and a radius."""

    def __init__(self, problem: BlockProblem, tol: float) -> None:
        self.problem, self.strategy = problem, choose(problem)
        self.a, self.Ks = problem.a, torch.zeros_like(problem.a)
        self.products = torch.zeros_like(self.a[0], dtype=torch.long)
        self.change = torch.zeros_like(self.a[0], dtype=torch.float64)
        self.radius = torch.full_like(self.a[0], torch.inf)
        self._measure()
        first = self.norm
        if not problem.loss.quadratic:
            self._enter()
            self._measure()
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

    def _measure(self) -> None:
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
        self._measure()
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
