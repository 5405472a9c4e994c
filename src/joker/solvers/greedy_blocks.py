"""Greedy blocks: the rows whose α alone would lower the dual objective most.

With the kernel itself the prediction f of every row is known, so that choosing costs a scan of n numbers and no kernel
evaluation. A block has the rows with the largest gain (:meth:`joker.losses.Loss.gain`), and those that were chosen
for the block before: rows that were just moved together often have to be moved again. With several columns the gain
of a row is the sum over the columns, each relative to the objective of its column.

Half of the chosen rows are those whose α rises, and half those whose α falls. A wide kernel is nearly a constant: a
block of rows that all rise would shift the prediction of every row, and the next block would shift it back.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import torch
from torch import Tensor

from joker.runtime import chunks, generator
from joker.runtime.cuda_graphs import Replay
from joker.solvers.block.trust_region import never_waits
from joker.solvers.exact_state import ExactState
from joker.solvers.gap import Gap
from joker.solvers.method import Method
from joker.solvers.problem import Problem
from joker.solvers.saved_tensors import SavedTensors
from joker.solvers.settings import Settings
from joker.solvers.state import State

GAIN_VECTORS = 24  # (chunk, t) temporary tensors of the gain, in float64 for some losses
# Largest tolerance of the block solver, for one column and for several. With a wide kernel the first products correct
# the common shift of all predictions, which is most of the gradient: a looser tolerance would end the solve there.
# It is for quadratic losses that do not couple columns: for the others no clear gain was measured.
ONE_COLUMN_TOL, SEVERAL_COLUMNS_TOL = 0.05, 0.1


class _Choice(SavedTensors):
    """The rows that were chosen last, and the scale of each column's gain."""

    saved = ("rows", "scale")

    def __init__(self, state: State, k: int, seed: int) -> None:
        n, t = state.alpha.shape
        device = state.alpha.device
        self.rows = torch.randperm(n, generator=generator(seed, "greedy"))[:k].to(device)
        self.scale = torch.ones(t, dtype=state.alpha.dtype, device=device)


class GreedyBlocks(Method):
    """Blocks of the rows that promise most; the last iterate is returned."""

    quick_gap = True  # the prediction of every row is known

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        assert isinstance(state, ExactState)
        n = len(state.x)
        b = min(settings.block_size, n)
        super().__init__(state, -(-n // b))
        self.problem, self.solver = problem, settings.block
        if problem.loss.quadratic and problem.loss.group == 1:
            tol = ONE_COLUMN_TOL if state.alpha.shape[1] == 1 else SEVERAL_COLUMNS_TOL
            self.solver = replace(self.solver, tol=min(self.solver.tol, tol))
        self.new, self.choice = b - b // 2, _Choice(state, b // 2, settings.seed)
        self.diagonal = state.diagonal()
        # Equal gains, as at the start, are ordered at random, because rows may be sorted by class.
        self._tie = torch.randperm(n, generator=generator(settings.seed, "ties")).to(state.alpha.device)
        self._captured = state.never_waits and never_waits(problem.loss, problem.dual, state.alpha.device, b)
        self.release()

    def release(self) -> None:
        self.replay = Replay() if self._captured else None

    def step(self, number: int) -> None:
        if self.replay is None:
            self._visit()
        else:
            self.replay(lambda _: self._visit(), self.choice.scale)

    def _visit(self) -> None:
        """Choose a block and solve it, without reading any number on the CPU."""
        rows = self._choose()
        block = self.state.open(rows)
        result = self.solver.solve(block.K, block.f, block.a, *self.problem.take(rows), self.problem.dual)
        result, _ = self.state.commit(block, result)
        self.statistics.add(result)

    def _choose(self) -> Tensor:  # (b,)
        last = self.choice.rows
        gains, rising = self._gains()
        gains.index_fill_(0, last, -inf)  # they are in the block already
        gains, rising = gains[self._tie], rising[self._tie]
        upward = _preferred(gains, rising).topk(self.new // 2).indices
        gains.index_fill_(0, upward, -inf)
        downward = _preferred(gains, ~rising).topk(self.new - self.new // 2).indices
        best = self._tie[torch.cat([upward, downward])]
        rows = torch.cat([best, last])
        last.copy_(best[: len(last)])
        return rows

    def _gains(self) -> tuple[Tensor, Tensor]:  # (n,), (n,)
        """Return the gain of each row, relative to the objective of its columns, and whether its α mostly rises."""
        alpha, f = self.state.alpha, self.state.image
        gains, rising = torch.empty_like(alpha[:, 0]), torch.empty_like(alpha[:, 0], dtype=torch.bool)
        # A gain that is the difference of two values of ψ would be a rounding error near the optimum in float32.
        dtype = alpha.dtype if self.problem.loss.quadratic else torch.float64
        for rows in chunks(len(gains), GAIN_VECTORS * alpha.shape[1]):
            y, loss = self.problem.take(rows, dtype)
            a, prediction = alpha[rows].to(dtype), f[rows].to(dtype)
            gain = loss.gain(y, a, prediction, self.diagonal[rows].to(dtype)) / self.choice.scale
            gains[rows] = gain.sum(1).to(gains.dtype)
            rising[rows] = torch.where(loss.rises(y, a, prediction), gain, -gain).sum(1) > 0
        return gains, rising

    def epoch_ended(self, gap: Gap) -> None:
        scale = torch.maximum(gap.primal.abs(), gap.dual.abs())
        self.choice.scale.copy_(torch.where(scale > 0, scale, 1.0))

    def parts(self) -> dict[str, SavedTensors]:
        return {"greedy": self.choice}


def _preferred(gains: Tensor, wanted: Tensor) -> Tensor:  # (n,), (n,)
    """Return numbers with the order of the gains, in which all other rows come after those that are wanted."""
    return torch.where(wanted, gains, -1 / (1 + gains)).where(gains > -inf, -inf)
