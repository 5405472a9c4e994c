"""The problem of one block, its quadratic models, and what a strategy that minimises them is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from joker.losses import Loss
from joker.ops.block_constants import BARRIER_SHARE, Outcome

# The box of a dual problem, and where a point stands in it.
#
# A *wall* is an end of the box, or 0 where the objective has a kink there: within one orthant |a| is linear, so
# zeros are exact. A coordinate on a wall is *held*, any other is *free*.


@dataclass(frozen=True)
class Box:
    """An interval for each coordinate, and the weight of |a|."""

    low: Tensor  # (b, t)
    high: Tensor  # (b, t)
    kink: float = 0.0

    @property
    def T(self) -> Box:
        """The same with a row for each column."""
        return Box(self.low.T.contiguous(), self.high.T.contiguous(), self.kink)

    def columns(self, chosen: Tensor) -> Box:
        """The box of some of the columns."""
        return Box(self.low[:, chosen], self.high[:, chosen], self.kink)

    def clamp(self, a: Tensor) -> Tensor:
        """The nearest point inside."""
        return torch.clamp(a, self.low, self.high)

    def kink_change(self, a: Tensor, d: Tensor) -> Tensor:  # (t,)
        """Change of kink |a|₁ from a to a + d, in float64."""
        return self.kink * ((a + d).abs() - a.abs()).double().sum(0)

    def face(self, a: Tensor, g: Tensor) -> Face:
        """Where ``a`` stands in the box and which way it may move, given the smooth gradient ``g``."""
        huge, low, high = 1 / torch.finfo(a.dtype).tiny, self.low, self.high
        if self.kink:
            # At 0 only a gradient outside [-kink, kink] moves a coordinate, and only to its own side.
            leaving = (g - g.clamp(-self.kink, self.kink)).sign_()
            side = torch.sub(2 * a.sign(), leaving).sign_()  # of a, or where a is 0 the one it leaves to, or 0
            g = torch.add(g, side, alpha=self.kink).mul_(side.abs())
            side = side.mul_(huge)
            low, high = torch.maximum(low, side.clamp(max=0)), torch.minimum(high, side.clamp_(min=0))
        below, above = (a - low).clamp_(min=0), (high - a).clamp_(min=0)
        gradient = torch.clamp(g, above * -huge, below * huge)  # 0 where it pushes against a wall
        return Face(low, high, below, above, gradient)


@dataclass(frozen=True)
class Face:
    """One orthant of the box as seen from a point; every field has the shape of the point."""

    low: Tensor
    high: Tensor
    below: Tensor  # distance to the lower wall
    above: Tensor  # distance to the upper wall
    gradient: Tensor  # the projected gradient: 0 for held coordinates that do not leave their wall, and at the solution

    @property
    def free(self) -> Tensor:
        """1 for coordinates inside, 0 for those on a wall."""
        return torch.minimum(self.below, self.above).sign_()

    def reach(self, p: Tensor) -> Tensor:  # (t, 1)
        """Length of the longest step along -p, a row for each column, before a coordinate meets its wall."""
        tiny = torch.finfo(p.dtype).tiny  # avoids 0 / 0
        down, up = p.clamp(min=0).div_(self.below + tiny), p.clamp(max=0).div_(self.above + tiny)
        return 1 / torch.maximum(down, up.neg_()).amax(1, keepdim=True)


@dataclass(frozen=True)
class Minimum:
    """Where a search in a box ended."""

    a: Tensor  # (b, t)
    Ks: Tensor  # (b, t) K times the step from the first point
    products: Tensor  # (t,) matrix-vector products with K that each column used
    reached: Tensor  # (t,) whether the tolerance was met, or no step could be taken any more


def row_dot(u: Tensor, v: Tensor) -> Tensor:  # (t, 1)
    """Inner product of each row."""
    return (u * v).sum(1, keepdim=True)


@dataclass(frozen=True)
class BlockProblem:
    """Minimise J(a + s) - J(a) = f·s + ½ s·K s + Σ [ψ(a+s) - ψ(a)] over the box of the loss, each column on its own."""

    K: Tensor  # (b, b)
    f: Tensor  # (b, t) prediction at a
    a: Tensor  # (b, t) first point, inside the box
    y: Tensor  # (b, t)
    loss: Loss
    max_products: int  # matrix-vector products with K that a column may use in one search
    patience: float  # products of one search above which its tolerance grows with their number

    @cached_property
    def box(self) -> Box:
        """The box and the kink of the loss."""
        return Box(*self.loss.box(self.y), self.loss.kink)

    @cached_property
    def fixed(self) -> Tensor:  # (b, t)
        """Coordinates that cannot move: those of weight 0."""
        return self.box.low >= self.box.high

    def gradient(self, a: Tensor, Ks: Tensor) -> Tensor:  # (b, t)
        """Gradient of the smooth part; 0 for fixed coordinates, where it may be infinite."""
        return torch.where(self.fixed, 0.0, self.f + Ks + self.loss.psi_slope(self.y, a))

    def curvature(self, a: Tensor) -> Tensor:  # (b, t)
        """Second derivative of ψ; 1 for fixed coordinates."""
        return torch.where(self.fixed, 1.0, self.loss.psi_curvature(self.y, a))

    def change(self, a: Tensor, g: Tensor, d: Tensor, Kd: Tensor) -> Tensor:  # (t,)
        """J(a + d) - J(a), where g is the gradient at a, by its exact expansion: no difference of two objectives."""
        bend = torch.where(self.fixed, 0.0, self.loss.psi_bend(self.y, a, d)).sum(0)
        return dot64(d, g + 0.5 * Kd) + bend + self.box.kink_change(a, d)

    def gradient_rounding(self, s: Tensor) -> Tensor:  # (t,)
        """Norm of the rounding error of f, y and K s, below which no gradient can be distinguished from 0."""
        s, f, y = (torch.linalg.vector_norm(v, dim=0) for v in (s, self.f, self.y))
        size: Tensor = f + y + s * self.K.diagonal().max() * len(self.K) ** 0.5
        return torch.finfo(s.dtype).eps * size

    def change_rounding(self, d: Tensor) -> Tensor:  # (t,)
        """Rounding error of d·K d."""
        size: Tensor = dot64(d, d) * self.K.diagonal().max() * len(d) ** 0.5
        return torch.finfo(d.dtype).eps * size


@dataclass(frozen=True)
class Model:
    """The change of J from a to a + d with ψ to second order: g·d + ½ d·(K + diag h) d + kink (|a+d|₁ - |a|₁)."""

    problem: BlockProblem
    a: Tensor  # (b, t)
    g: Tensor  # (b, t) gradient of the smooth part
    h: Tensor  # (b, t) second derivative of ψ
    radius: Tensor  # (t,) of the trust region, in the maximum norm
    tolerance: Tensor  # (t,) gradient norm at which a search may stop; infinite for columns that are done
    done: Tensor  # (t,) columns that are not to move

    def change(self, d: Tensor, Kd: Tensor) -> Tensor:  # (t,)
        """The value of the model."""
        return dot64(d, self.g + 0.5 * (Kd + self.h * d)) + self.problem.box.kink_change(self.a, d)

    @cached_property
    def region(self) -> Box:
        """Where a step may end: in the box and the trust region, and off a barrier."""
        low, high, a = self.problem.box.low, self.problem.box.high, self.a
        if self.problem.loss.barrier:
            low = torch.where(low.isfinite(), low + BARRIER_SHARE * (a - low), low)
            high = torch.where(high.isfinite(), high - BARRIER_SHARE * (high - a), high)
        return Box(torch.maximum(low, a - self.radius), torch.minimum(high, a + self.radius), self.problem.box.kink)


@dataclass(frozen=True)
class TrialStep:
    """The step that a strategy proposes."""

    d: Tensor  # (b, t)
    Kd: Tensor  # (b, t)
    products: Tensor  # (t,) matrix-vector products with K that each column used
    slack: Tensor | float = 1.0  # (t,) factor by which the search relaxed its tolerance


@dataclass(frozen=True)
class Strategy(ABC):
    """A way to minimise the models of one block; what several models share is computed once, when it is needed.

    To add a strategy, derive a class and put it into :data:`joker.solvers.block.trust_region.STRATEGIES`.
    """

    problem: BlockProblem
    tolerance_share: ClassVar[float] = 0.0  # of the gradient norm that the trust region is to reach

    @staticmethod
    @abstractmethod
    def suits(problem: BlockProblem) -> bool:
        """Whether the loss has the properties that this strategy needs."""

    @abstractmethod
    def step(self, model: Model) -> TrialStep:
        """Return the minimum of the model, or a point near it."""


def dot64(u: Tensor, v: Tensor) -> Tensor:  # (t,)
    """Inner product of each column, in float64."""
    return (u.double() * v.double()).sum(0)


__all__ = ["BlockResult", "Outcome"]


@dataclass(frozen=True)
class BlockResult:
    """The new point of each column and how it was reached."""

    a: Tensor  # (b, t) the new point, inside the box
    change: Tensor  # (t,) float64, change of the dual objective J, at most 0
    linear: Tensor  # (t,) float64, the change without ½ s·K s, where s is the step
    outcome: Tensor  # (t,) values of Outcome
    products: Tensor  # (t,) matrix-vector products with K
    group: int = 1  # consecutive columns that the loss couples: a step is taken by all of them or by none
