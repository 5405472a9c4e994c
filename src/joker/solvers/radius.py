"""A bound on how far α of a row moves in one visit, which may be halved as a solve goes on."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from joker.solvers.block.result import BlockResult


class Radius:
    """The bound r 2^−⌊k/h⌋ / λ of step k, for each column; h = 0 never halves.

    A longer step of a block is shortened as a whole: the objective is convex, so that lowers it too, and the box of
    a loss is convex, so that stays inside.

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
        self.reach = torch.full_like(lam, torch.inf)  # a tensor, which a captured step reads anew

    def at(self, steps: int) -> float:
        """The bound after some visits, in units of 1/λ.

        >>> Radius(1.0, 1000, torch.ones(1)).at(2500)
        0.25
        """
        return self.radius * 0.5 ** (steps // self.halve_every if self.halve_every else 0)

    def set(self, steps: int) -> None:
        """Bound the next step, made after some visits."""
        self.reach.copy_(self.at(steps) / self.lam)

    def shorten(
        self,
        found: BlockResult,
        a: Tensor,  # (b, t)
    ) -> BlockResult:
        """Return what was found, or a share of the way to it from ``a``; that keeps as large a share of ``linear``."""
        move = found.a - a
        share = (self.reach / move.abs().amax(0)).clamp(max=1).nan_to_num(1.0)
        wide = share.double()
        change = wide * (found.linear + wide * (found.change - found.linear))
        point = torch.where(share < 1, a + share * move, found.a)
        return replace(found, a=point, change=change, linear=wide * found.linear)
