"""One block: a trust region around a quadratic model of the dual, each column on its own.

Minimises over the rows of a block, with ``f`` the prediction at the point ``a``,

    J(a + s) - J(a) = f·s + ½ s·K s + Σ [psi(a+s) - psi(a)]     over the box of the loss.

The model takes psi'' at the current point; for a quadratic loss it is exact. The region
is a ball of the maximum norm, so that ball and box together are a box again, which
:mod:`joker.solvers.block.box_cg` knows how to search. Where no wall can hold a
solution, :mod:`joker.solvers.block.cg` does with less: for losses with a barrier, whose step is clamped afterwards,
and for free ones. A free quadratic loss (ridge) is a linear system: a column or two are solved by Cholesky
factorisations, more by conjugate gradients with one inverse for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.losses import Loss
from joker.ops import block_solve
from joker.ops.block_constants import (
    ACCEPT_RATIO,
    BARRIER_SHARE,
    BOUNDARY_SHARE,
    BOX_TOLERANCE,
    FORCING,
    GOOD_RATIO,
    GROW,
    HALVINGS,
    POOR_RATIO,
    SHRINK,
)
from joker.solvers.block.admm import STEPS, Splitting
from joker.solvers.block.box_cg import Box, Minimum, minimise
from joker.solvers.block.cg import Between, Diagonal, Preconditioner, descend
from joker.solvers.block.result import BlockResult, Outcome

DIRECT = 2  # Cholesky factors, above which a search over all columns at once is cheaper
FEW = 6  # products of each column that come before a factorisation, or more where few columns share its price:
ALONE, SHARED, KINKED = 192, 96, 32  # of one, of several over the square of their number, and those with a kink
MEASURED = 512  # rows of the block for which that holds; of more a factorisation costs as many times more products,
# and a visit, of which there are fewer, may cost more
CLAMPED = 0.1  # share of a model's decrease that a step clamped to the walls must keep
FREE = 0.2  # share of the target that a search without walls may leave: a smaller one costs little


@dataclass(frozen=True)
class BlockSolver:
    """Settings of the block solve.

    Parameters
    ----------
    tol : float
        Norm of the projected gradient to reach, relative to that at the start. A descent over many
        blocks hardly gains from a smaller one, which needs more products.
    max_products : int
        Products ``K v`` that a column may use in one search of a quadratic model.
    max_models : int
        Quadratic models that a column may try.
    patience : float
        Products in a search of 512 rows, and as many times more in one of more rows, beyond which the tolerance
        grows with their number. A column that needs many is far from its solution, whatever is done about
        one block; infinite where ``tol`` is to be kept.
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
        """Return the products of b rows beyond which the tolerance grows."""
        return self.patience * max(MEASURED, b) / MEASURED

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

        Where the loss has a form ``dual`` that a device kernel knows, and the block lies on
        such a device, one launch does it all.
        """
        if dual is not None and block_solve.available(K.device, len(K)):
            y, c = y.expand_as(a), torch.as_tensor(loss.unscaled[1]).to(K).expand_as(a)
            limits = (self.tol, self.max_products, self.max_models, self.patience_for(len(K)))
            return BlockResult(*block_solve.solve(K, f, a, y, c, dual, *limits))
        search = _Search(K, f, a, y, loss, self)
        for _ in range(self.max_models):
            if bool(search.done.all()):
                break
            search.advance()
        return search.result()


class _Search:
    """The moving part: a point, its image under K, and a radius for each column."""

    def __init__(self, K: Tensor, f: Tensor, a: Tensor, y: Tensor, loss: Loss, settings: BlockSolver) -> None:
        self.K, self.f, self.a, self.y, self.loss, self.settings = K, f, a, y.expand_as(a), loss, settings
        self.patience = settings.patience_for(len(K))
        self.low, self.high = loss.box(self.y)
        self.fixed = self.low >= self.high
        self.x, self.Ks = a, torch.zeros_like(a)
        self.products = torch.zeros_like(a[0], dtype=torch.long)
        self.change = torch.zeros_like(a[0], dtype=torch.float64)
        self.radius = torch.full_like(a[0], torch.inf)
        self.splitting: Splitting | None = None
        self.between: Between | None = None
        self.factor = self._factorise() if loss.quadratic and loss.unbounded and self._factors() <= DIRECT else None
        self.norm = self._gradient_norm()
        if not loss.quadratic:
            self._enter()
            self.norm, first = self._gradient_norm(), self.norm
            self.target = settings.tol * torch.minimum(first, self.norm)  # either may be beyond measure
        else:
            self.target = settings.tol * self.norm
        self._raise_target()
        self.broken = ~self.norm.isfinite()
        self.done = self.broken | (self.norm <= self.target)
        self.stalled = torch.zeros_like(self.done)

    def _enter(self) -> None:
        """Leave points where the model does not exist, such as the ends of a barrier."""
        y, a, loss = self.y, self.a, self.loss
        toward = -self.f - loss.frame.tilt(y)
        self.x = self._clamp(loss.psi_start(y, a, toward))
        s = self.x - a
        self.Ks = self.K @ s
        self.products = self.products + 1
        leap = loss.psi(y, self.x.double()) - loss.psi(y, a.double())
        self.change = _dot(s, self.f + 0.5 * self.Ks) + torch.where(self.fixed, 0.0, leap).sum(0)

    def _raise_target(self) -> None:
        """No gradient can be told from 0 below the rounding of f, y and K s."""
        s = torch.linalg.vector_norm(self.x - self.a, dim=0) * self.K.diagonal().max() * len(self.K) ** 0.5
        size = torch.linalg.vector_norm(self.f, dim=0) + torch.linalg.vector_norm(self.y, dim=0) + s
        self.target = torch.maximum(self.target, torch.finfo(s.dtype).eps * size)

    def advance(self) -> None:
        """Build one model and take one step, in every column that is not done."""
        g, h = self._gradient(), torch.where(self.fixed, 1.0, self.loss.psi_curvature(self.y, self.x))
        d, Kd = self._direction(g, h)
        promised = _dot(d, g + 0.5 * (Kd + h * d)) + self._kink(d)
        change = self._change(g, d, Kd)
        kept = torch.where(promised < 0, change / promised, 0.0)
        self._resize(kept, d.abs().amax(0))
        if not self.loss.quadratic and bool((~self.done & ~(kept >= POOR_RATIO)).any()):
            change, d, Kd = self._shorten(g, d, Kd, change)
        noise = torch.finfo(g.dtype).eps * _dot(d, d) * self.K.diagonal().max() * len(d) ** 0.5  # rounding of d·Kd
        accept = ~self.done & (change + noise < 0) & (change <= ACCEPT_RATIO * promised)
        self.x, self.Ks = (
            torch.where(accept, self._clamp(self.x + d), self.x),
            torch.where(accept, self.Ks + Kd, self.Ks),
        )
        self.change = self.change + torch.where(accept, change, 0.0)
        self.norm = self._gradient_norm()
        self._raise_target()
        # Where the model was good, what is refused is below the noise, and the next model would be the same.
        hopeless = (
            (promised >= 0) | (kept >= POOR_RATIO) | (self.radius <= torch.finfo(g.dtype).eps * self.x.abs().amax(0))
        )
        self.stalled = self.stalled | (~self.done & ~accept & (hopeless | self.loss.quadratic))
        self.done = self.done | self.stalled | (self.norm <= self.target)

    def result(self) -> BlockResult:
        """The last point, or the first where nothing better was found."""
        better = self.change < 0
        outcome = torch.where(self.norm <= self.target, Outcome.CONVERGED, Outcome.LIMIT)
        outcome = torch.where(self.stalled, Outcome.STALLED, outcome)
        outcome = torch.where(self.broken, Outcome.BROKEN, outcome)
        x, change = torch.where(better, self.x, self.a), torch.where(better, self.change, 0.0)
        linear = torch.where(better, change - 0.5 * _dot(x - self.a, self.Ks), 0.0)
        return BlockResult(x, change, linear, outcome, self.products)

    def _clamp(self, x: Tensor) -> Tensor:
        return torch.clamp(x, self.low, self.high)

    def _gradient(self) -> Tensor:
        """Of the smooth part; 0 on rows that cannot move, where it may be infinite."""
        return torch.where(self.fixed, 0.0, self.f + self.Ks + self.loss.psi_slope(self.y, self.x))

    def _gradient_norm(self) -> Tensor:
        box = Box(self.low, self.high, self.loss.kink)
        norm: Tensor = torch.linalg.vector_norm(box.projected_gradient(self.x, self._gradient()), dim=0)
        return norm

    def _kink(self, d: Tensor) -> Tensor:
        return self.loss.kink * ((self.x + d).abs() - self.x.abs()).double().sum(0)

    def _change(self, g: Tensor, d: Tensor, Kd: Tensor) -> Tensor:
        """J(x + d) - J(x) by its exact expansion: no difference of two objectives."""
        bend = torch.where(self.fixed, 0.0, self.loss.psi_bend(self.y, self.x, d)).sum(0)
        return _dot(d, g + 0.5 * Kd) + bend + self._kink(d)

    def _shorten(self, g: Tensor, d: Tensor, Kd: Tensor, change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best of ever shorter steps along d: they need no product with K."""
        best = torch.ones_like(self.radius)
        for halvings in range(1, HALVINGS + 1):
            shorter = self._change(g, d * 0.5**halvings, Kd * 0.5**halvings)
            better = shorter < change
            if not bool(better.any()):  # along d the objective is convex: it only rises from here
                break
            best = torch.where(better, 0.5**halvings, best)
            change = torch.minimum(shorter, change)
        return change, d * best, Kd * best

    def _resize(self, kept: Tensor, length: Tensor) -> None:
        touched = length >= BOUNDARY_SHARE * self.radius
        shrunk = SHRINK * torch.minimum(self.radius, length)
        grown = torch.where((kept > GOOD_RATIO) & touched, GROW * self.radius, self.radius)
        self.radius = torch.where(kept < POOR_RATIO, shrunk, grown)

    def _direction(self, g: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """A step to the minimum of the model, or near it, and its product with K."""
        if self.factor is not None:
            return self._solve(self.factor, g)
        walled = self.loss.kink != 0 or not (self.loss.barrier or self.loss.unbounded)
        tolerance = (BOX_TOLERANCE if walled else FREE) * self.target
        if not self.loss.quadratic:
            tolerance = torch.maximum(tolerance, FORCING * self.norm)
        tolerance = torch.where(self.done, torch.inf, tolerance)
        return self._search(g, h, tolerance) if walled else self._descend(g, h, tolerance)

    def _descend(self, g: Tensor, h: Tensor, tolerance: Tensor) -> tuple[Tensor, Tensor]:
        """Minimise the model as if there were no walls; then clamp, since a barrier keeps its solution off them."""
        rows, gradient = h.T.contiguous(), g.T.contiguous()
        found = descend(self._preconditioner(rows), rows, gradient, tolerance, self.settings.max_products)
        self.products = self.products + found.products + (~self.done).long()
        s = found.s.T
        if self.loss.quadratic:
            return s, self.K @ s
        box = self._region()
        d = torch.clamp(self.x + s, box.low, box.high) - self.x
        Kd = self.K @ d
        poor = ~(_dot(d, g + 0.5 * (Kd + h * d)) <= 0.5 * CLAMPED * _dot(g, s)) & ~self.done
        if not bool(poor.any()):
            return d, Kd
        other, Kother = self._search(g, h, torch.where(poor, tolerance, torch.inf))
        return torch.where(poor, other, d), torch.where(poor, Kother, Kd)

    def _preconditioner(self, h: Tensor) -> Preconditioner:  # (t, b)
        """One inverse for all columns of a quadratic loss, where the same rows can move in all of them."""
        free = (~self.fixed).T.to(h)
        if self.loss.quadratic and self.between is None and torch.equal(free.amin(0), free.amax(0)):
            self.between = Between(self.K, h, free[0])
        return self.between or Diagonal(self.K, h, free.contiguous())

    def _region(self) -> Box:
        """Where a step may end: in the box and the ball, and off a barrier."""
        low, high, x = self.low, self.high, self.x
        if self.loss.barrier:
            low, high = low + BARRIER_SHARE * (x - low), high - BARRIER_SHARE * (high - x)
        return Box(torch.maximum(low, x - self.radius), torch.minimum(high, x + self.radius), self.loss.kink)

    def _search(self, g: Tensor, h: Tensor, tolerance: Tensor) -> tuple[Tensor, Tensor]:
        """Minimise the model over box and ball by free-set conjugate gradients."""
        found = self._minimise(h, g, self.x, self._region(), tolerance)
        self.products = self.products + found.products
        if self.loss.quadratic:  # the model is exact: what the search has let go is not looked for again
            self.target = self.target * (found.products / self.patience).clamp(min=1)
        return self._clamp(found.x) - self.x, found.Ks

    def _minimise(self, h: Tensor, g: Tensor, x: Tensor, box: Box, tolerance: Tensor) -> Minimum:
        """Conjugate gradients, at first a few: columns that need more are brought near by a splitting."""
        # A kink is a wall in the middle of the box: met ever again, it leaves little to conjugate directions.
        limit, share = self.settings.max_products, KINKED if box.kink else ALONE if x.shape[1] == 1 else SHARED
        few = max(FEW, share // x.shape[1] ** 2) * max(MEASURED, len(x)) // MEASURED
        if limit <= few + STEPS:
            return minimise(self.K, h, g, x, box, tolerance, limit, self.patience)
        first = minimise(self.K, h, g, x, box, tolerance, few, self.patience)
        if bool(first.reached.all()):
            return first
        left = (~first.reached).nonzero()[:, 0]
        h, g, x = h[:, left], (g + first.Ks + h * (first.x - x))[:, left], first.x[:, left]
        rest = self._finish(h, g, x, box.columns(left), tolerance[left], first.reached[left], limit - few - STEPS)
        return Minimum(
            first.x.index_copy(1, left, rest.x),
            first.Ks.index_add(1, left, rest.Ks),
            first.products.index_add(0, left, rest.products),
            first.reached.index_copy(0, left, rest.reached),
        )

    def _finish(
        self, h: Tensor, g: Tensor, x: Tensor, box: Box, tolerance: Tensor, done: Tensor, limit: int
    ) -> Minimum:
        self.splitting = self.splitting or Splitting(self.K)
        near = self.splitting.approach(h, g, x, box, done)
        g, tolerance = g + near.Ks + h * (near.x - x), torch.where(done, torch.inf, tolerance)
        found = minimise(self.K, h, g, near.x, box, tolerance, limit, self.patience)
        return Minimum(found.x, near.Ks + found.Ks, near.products + found.products, found.reached)

    def _factors(self) -> int:
        """How many factorisations the columns need: one where they share weights and penalty."""
        return int(self.loss.psi_curvature(self.y[:1, :1], self.a[:1, :1]).shape[1])

    def _factorise(self) -> Tensor:
        """Cholesky factors of K + diag h, (t, b, b); one for all columns where they share h."""
        y, a = self.y[:, :1], self.a[:, :1]  # constant curvature: as wide as the weights and penalties differ
        low, high = self.loss.box(y)
        free = (low < high).T.to(self.K)  # (1 or t, b)
        h = torch.where(free > 0, self.loss.psi_curvature(y, a).T, 1.0)
        # A little more diagonal than asked for keeps a singular block positive; the refinement undoes it.
        h = h + torch.finfo(h.dtype).eps * self.K.diagonal().sum()
        shifted = self.K * free[:, :, None] * free[:, None, :]
        shifted.diagonal(dim1=1, dim2=2).add_(h)
        factor: Tensor = torch.linalg.cholesky_ex(shifted)[0]
        return factor

    def _solve(self, factor: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """The step to the minimum of the free quadratic, (b, t)."""
        right = g[None] if factor.shape[0] == 1 else g.T[:, :, None]
        d = -torch.cholesky_solve(right, factor)
        d = torch.where(self.fixed | self.done, 0.0, d[0] if factor.shape[0] == 1 else d[:, :, 0].T)
        self.products = self.products + (~self.done).long()
        return d, self.K @ d


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner product of each column in float64, (t,)."""
    return (a.double() * b.double()).sum(0)
