"""The box of a dual problem, and where a point stands in it.

A *wall* is an end of the box, or 0 where the objective has a kink there: within one orthant |a| is linear, so zeros are
exact. A coordinate on a wall is *held*, any other is *free*.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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
