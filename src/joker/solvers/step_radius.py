"""A bound on the change of α of a row in one visit, which may be halved at regular intervals.

The published code of the paper hides such a bound; `joker.paper` repeats it with these settings.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from joker.solvers.block.result import BlockResult


class StepRadius:
    """The bound r 2^−⌊k/h⌋ / λ of step k, for each column; h = 0 never halves it.

    A longer step of a block is shortened as a whole. The shorter step still lowers the objective, which is convex,
    and stays in the box of the loss, which is convex too.

    Parameters
    ----------
    radius : float
        r, in units of 1/λ.
    halve_every : int
        h, in visits.
    lam : Tensor
        λ of each column, (1,) or (t,).
    """

    def __init__(self, radius: float, halve_every: int, lam: Tensor) -> None:
        self.radius, self.halve_every, self.lam = radius, halve_every, lam
        self.bound = torch.full_like(lam, torch.inf)  # a tensor, which a captured step reads each time

    def at(self, steps: int) -> float:
        """Return the bound after ``steps`` visits, in units of 1/λ.

        >>> StepRadius(1.0, 1000, torch.ones(1)).at(2500)
        0.25
        """
        return self.radius * 0.5 ** (steps // self.halve_every if self.halve_every else 0)

    def set(self, steps: int) -> None:
        """Set the bound of the step that follows ``steps`` visits."""
        self.bound.copy_(self.at(steps) / self.lam)

    def shorten(self, result: BlockResult, a: Tensor) -> BlockResult:  # a (b, t)
        """Return the result, or one with the step from ``a`` shortened to the bound."""
        move = result.a - a
        length = move.abs().amax(0)
        if result.group > 1:  # the columns of a group move together
            length = length.unflatten(0, (-1, result.group)).amax(1).repeat_interleave(result.group)
        share = (self.bound / length).clamp(max=1).nan_to_num(1.0)
        wide = share.double()
        change = wide * (result.linear + wide * (result.change - result.linear))
        point = torch.where(share < 1, a + share * move, result.a)
        return replace(result, a=point, change=change, linear=wide * result.linear)
