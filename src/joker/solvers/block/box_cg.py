r"""Conjugate gradients on the free set of a box, batched over columns.

Minimises, for each column on its own,

    g·s + ½ s·(K + diag h) s + kink (|x+s|₁ - |x|₁)   with   low ≤ x + s ≤ high.

A coordinate is *held* when it lies on a wall (an end of the box, or 0 where there is a
kink), else *free*. Each iteration does one of three things in each column:

- **conjugate gradients** over the free coordinates, as long as the step stays inside;
- where the step leaves the box, it is **projected**; the conjugate direction starts anew.
  If projecting it lost more than stopping at the first wall, a quarter of the step is
  tried, then the first wall is taken;
- where the held coordinates pull harder than the free ones, those that want to leave
  their wall are **released**: a step along the negative gradient of both.

The third rule, proportioning, and the first are Z. Dostál's (SIAM J. Optim. 7, 1997);
projecting the whole conjugate step identifies many walls at once. The objective never
rises. A kink is a wall at 0: within one orthant |x| is linear, so zeros are exact.

Masks are numbers 0 and 1 and conditions are limits of a clamp where they can be: a torch operation on truth
values takes several times as long on a CPU. Inside, a column is a row in memory, for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from joker.ops.block_constants import PROPORTION, SHORT_STEP


@dataclass(frozen=True)
class Box:
    """The walls of a problem: an interval for each coordinate and the weight of |x|."""

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

    def face(self, x: Tensor, g: Tensor) -> Face:
        """Where ``x`` stands in the box and which way it may go, given the smooth gradient ``g``."""
        huge, low, high = 1 / torch.finfo(x.dtype).tiny, self.low, self.high
        if self.kink:
            # At 0 only a gradient outside [-kink, kink] moves a coordinate, and only to its own side.
            leaving = (g - g.clamp(-self.kink, self.kink)).sign_()
            side = torch.sub(2 * x.sign(), leaving).sign_()  # of x, or where x is 0 the one it leaves to, or 0
            g = torch.add(g, side, alpha=self.kink).mul_(side.abs())
            side = side.mul_(huge)
            low, high = torch.maximum(low, side.clamp(max=0)), torch.minimum(high, side.clamp_(min=0))
        below, above = (x - low).clamp_(min=0), (high - x).clamp_(min=0)
        gradient = torch.clamp(g, above * -huge, below * huge)  # 0 for what is pushed against a wall
        return Face(low, high, below, above, gradient)

    def projected_gradient(self, x: Tensor, g: Tensor) -> Tensor:
        """The gradient without what pushes against a wall; 0 at the solution."""
        return self.face(x, g).gradient


@dataclass(frozen=True)
class Face:
    """One orthant of the box as seen from a point; every field is of the shape of the point."""

    low: Tensor
    high: Tensor
    below: Tensor  # how far the lower wall is
    above: Tensor
    gradient: Tensor  # of coordinates that are free, or held and about to leave their wall

    @property
    def free(self) -> Tensor:
        """1 for coordinates inside, 0 for those on a wall."""
        return torch.minimum(self.below, self.above).sign_()

    def clamp(self, x: Tensor) -> Tensor:
        """The nearest point inside."""
        return torch.clamp(x, self.low, self.high)

    def reach(self, p: Tensor) -> Tensor:  # (t, 1)
        """How far each column, a row of ``p``, can go along -p before a coordinate meets its wall."""
        tiny = torch.finfo(p.dtype).tiny  # 0 / 0 would be no answer
        down, up = p.clamp(min=0).div_(self.below + tiny), p.clamp(max=0).div_(self.above + tiny)
        return 1 / torch.maximum(down, up.neg_()).amax(1, keepdim=True)


@dataclass(frozen=True)
class Minimum:
    """Where the search ended, with ``K s`` for the caller."""

    x: Tensor  # (b, t)
    Ks: Tensor  # (b, t)
    products: Tensor  # (t,) products K v used by each column
    reached: Tensor  # (t,) whether the tolerance was met, or no step could be taken any more


def minimise(
    K: Tensor,  # (b, b)
    h: Tensor,  # (b, t)
    g: Tensor,  # (b, t) smooth gradient at x
    x: Tensor,  # (b, t) inside the box
    box: Box,
    tolerance: Tensor,  # (t,) norm of the projected gradient to reach
    max_products: int,
    patience: float = inf,
) -> Minimum:
    """Minimise the quadratic model over the box, from ``x``; beyond ``patience`` products the tolerance grows."""
    h, g, x, box, tolerance = h.T.contiguous(), g.T.contiguous(), x.T.contiguous(), box.T, tolerance[:, None]
    Ks, p, q = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
    curvature = torch.ones_like(tolerance)
    kept = torch.zeros_like(tolerance)  # 1 where the next direction is to be conjugate to the last
    reached = torch.zeros_like(tolerance, dtype=torch.bool)
    products = torch.zeros_like(tolerance, dtype=torch.long)
    inverse = 1 / (K.diagonal() + h)  # preconditioner: psi'' may differ by orders of magnitude
    smallest, tiny = torch.finfo(x.dtype).eps * K.diagonal().max(), torch.finfo(x.dtype).tiny

    for _ in range(max_products):
        face = box.face(x, g)
        slack = (products / patience).clamp_(min=1)
        reached = reached | (_dot(face.gradient, face.gradient) <= (slack * tolerance).square_())
        done = reached | (products >= max_products)
        if bool(done.all()):
            break

        # Direction: released coordinates join in, else conjugate to the last one, else the free gradient.
        scaled, inside = face.gradient * inverse, face.free
        free = scaled * inside
        pull, free_pull = _dot(scaled, face.gradient), _dot(free, face.gradient)
        freeing = (pull - free_pull > PROPORTION**2 * free_pull).to(x)
        along = _dot(free, q).mul_(kept * (1 - freeing)).div_(curvature)
        p = torch.addcmul(scaled, along, p, value=-1).mul_(torch.maximum(inside, freeing))
        p = p.mul_((~done).to(x))  # then nothing below moves the column

        Kp = p @ K
        q = torch.addcmul(Kp, h, p)
        curvature = torch.maximum(_dot(p, q), smallest * _dot(p, p)).clamp_(min=tiny)
        fall = _dot(p, face.gradient)
        step = fall / curvature
        goal = torch.addcmul(x, step, p, value=-1)
        target = face.clamp(goal)
        leaves = _largest(goal.sub_(target)) > 0
        products = products + (~done).long()
        Kd = Kp * -step
        if bool(leaves.any()):
            found = _project(K, h, x, p, Kp, step, fall, curvature, face, leaves)
            target, Kd = torch.where(leaves, found.x, target), torch.where(leaves, found.Ks, Kd)
            products = products + found.products
        d = target - x
        reached = reached | (~done & (_largest(d) == 0))  # the step is below the last bit: nothing is left to gain
        g = torch.addcmul(g + Kd, h, d)
        x, Ks, kept = target, Ks + Kd, (~leaves).to(x)
    return Minimum(x.T.contiguous(), Ks.T.contiguous(), products[:, 0], reached[:, 0])


def _project(
    K: Tensor,
    h: Tensor,
    x: Tensor,
    p: Tensor,
    Kp: Tensor,
    step: Tensor,
    fall: Tensor,
    curvature: Tensor,
    face: Face,
    leaves: Tensor,
) -> Minimum:
    """For columns that leave the box: the projected step, a shorter one, or up to the first wall."""
    first = torch.minimum(face.reach(p), step)
    onto = 1 + 4 * torch.finfo(x.dtype).eps  # else rounding may leave the coordinate an ulp off its wall
    best, Kbest = face.clamp(torch.addcmul(x, first * onto, p, value=-1)), Kp * -first
    change = first * (0.5 * first * curvature - fall)
    left, extra = leaves, torch.zeros_like(leaves, dtype=torch.long)
    for length in (1.0, SHORT_STEP):
        trial = face.clamp(torch.addcmul(x, length * step, p, value=-1))
        d = trial - x
        Kd = d @ K
        trial_change = _dot(d, torch.addcmul(Kd, h, d).mul_(0.5).add_(face.gradient))
        better = left & (trial_change <= change)
        best, Kbest = torch.where(better, trial, best), torch.where(better, Kd, Kbest)
        extra = extra + left.long()
        left = left & ~better & (SHORT_STEP * step > first)
        if not bool(left.any()):
            break
    return Minimum(best, Kbest, extra, ~leaves)


def _dot(a: Tensor, b: Tensor) -> Tensor:  # (t, 1)
    """Inner product of each row."""
    return (a * b).sum(1, keepdim=True)


def _largest(a: Tensor) -> Tensor:  # (t, 1)
    """Largest absolute value of each row."""
    norm: Tensor = torch.linalg.vector_norm(a, torch.inf, dim=1, keepdim=True)
    return norm
