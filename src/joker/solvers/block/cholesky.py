"""Cholesky factorisation: the exact minimum for a quadratic loss without a box, such as ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from joker.solvers.block.model import BlockProblem, Model, Strategy, TrialStep

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
