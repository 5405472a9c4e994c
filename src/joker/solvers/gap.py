"""The duality gap: primal and dual objective of a point, and their sum.

    gap = P + J = Σ [ c_i ℓ(y_i, f_i) + ψ_i(α_i) + α_i f_i ]

Every term is at least 0 (Fenchel–Young), and the sum is 0 only at the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from joker.solvers.problem import Problem
from joker.solvers.state import State

SUM_ROUNDING = 1e-12  # of a sum over millions of rows in float64, as a share of it
Point = tuple[Tensor, Tensor]  # α (n, t) and its image, (n, t) or (m, t)


@dataclass(frozen=True)
class Gap:
    """The objectives of each column, computed from three sums over the rows, in float64.

    Any dual point bounds the optimal value, so the gap is valid with the best dual value that was seen at any point.
    """

    sums: Tensor  # (3, t): of c ℓ(y, f), α f and ψ(α); or (4, t), with the best dual value of other points

    @property
    def primal(self) -> Tensor:  # (t,)
        """P, an upper bound on the optimal value."""
        return self.sums[0] + self.sums[1] / 2

    @property
    def own_dual(self) -> Tensor:  # (t,)
        """J of the point itself."""
        return self.sums[2] + self.sums[1] / 2

    @property
    def dual(self) -> Tensor:  # (t,)
        """The best J; -J is a lower bound on the optimal value."""
        return torch.minimum(self.own_dual, self.sums[3]) if len(self.sums) > 3 else self.own_dual

    @property
    def gap(self) -> Tensor:  # (t,)
        """P + J, with the best J."""
        own = self.sums[:3].sum(0)
        if len(self.sums) == 3:
            return own
        # The terms of a point cancel row by row; a difference of two sums is not more precise than their last digits.
        best = self.primal + self.sums[3]
        return torch.where(best > SUM_ROUNDING * self.primal.abs(), torch.minimum(own, best), own)

    @property
    def relative(self) -> Tensor:  # (t,)
        """The gap as a share of the larger objective; 0 where both are 0."""
        scale = torch.maximum(self.primal.abs(), self.dual.abs())
        return torch.where(self.gap == 0, 0.0, self.gap / scale.clamp(min=torch.finfo(scale.dtype).tiny))

    @property
    def worst(self) -> float:
        """The largest relative gap of all columns; infinite if one is NaN, and 0 where rounding makes it less."""
        return max(0.0, float(self.relative.nan_to_num(nan=torch.inf).max()))

    def with_dual(self, dual: Tensor) -> Gap:  # (t,)
        """Return the gap with a dual value of other points, where that is better."""
        return Gap(torch.cat([self.sums[:3], torch.minimum(self.dual, dual)[None]]))


def certify(state: State, problem: Problem, points: Sequence[Point]) -> list[Gap]:
    """Return the gap of each point. All gaps are computed in one pass over the rows."""
    alphas, images = [alpha for alpha, _ in points], [image for _, image in points]
    t = alphas[0].shape[1]
    sums = torch.zeros(len(points), 3, t, dtype=torch.float64, device=images[0].device)
    for rows, f in state.predictions(*images):
        for point, alpha in enumerate(alphas):
            sums[point] += _terms(problem, rows, alpha[rows], f[:, point * t : (point + 1) * t])
    return [Gap(s) for s in state.group.broadcast_(sums)]


def _terms(problem: Problem, rows: slice, alpha: Tensor, f: Tensor) -> Tensor:  # (3, t)
    """Return the sums of c ℓ, α f and ψ over some rows, in float64: the terms nearly cancel near the optimum.

    The columns of a group have equal parts of its sums.
    """
    y, loss = problem.take(rows, torch.float64)
    alpha, f = loss.clamp(y, alpha.double()), f.double()
    terms = torch.stack([loss.value(y, f).sum(0), (alpha * f).sum(0), loss.psi(y, alpha).sum(0)])
    return equal_parts(terms, loss.group)


def equal_parts(terms: Tensor, group: int) -> Tensor:  # (..., t)
    """Return the mean over each group in all of its columns: only the sum over a group is a gap."""
    if group == 1:
        return terms
    means = terms.reshape(*terms.shape[:-1], -1, group).mean(-1)
    return means.repeat_interleave(group, -1)
