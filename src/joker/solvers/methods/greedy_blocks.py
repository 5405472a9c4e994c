"""Greedy blocks: the rows whose α alone would lower the dual objective most.

With the exact kernel the prediction f of every row is known, so that choosing costs a scan of n numbers and no kernel
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

from joker.distributed import current
from joker.runtime import chunks, generator
from joker.runtime.cuda_graphs import Replay
from joker.solvers.block.trust_region import never_waits
from joker.solvers.kernel_cache import cache_bytes, cached_rows
from joker.solvers.methods.method import (
    AFTER_LAYOUT,
    EXACT_BLOCK,
    ONE_BLOCK,
    Item,
    KernelMemory,
    Method,
    ProblemSize,
    exact_epochs,
)
from joker.solvers.problem import Problem, Settings
from joker.solvers.report import Gap
from joker.solvers.state import ExactState, SavedTensors, State

ROW_BYTES = 24  # of the order of equal gains, their directions, and the search for the largest ones
GAIN_COPIES = 8  # numbers of a row: the kernel with itself, the gain, and what is computed from it
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
    """Blocks of the rows with the largest gain, a working set; the last iterate is returned."""

    name = "greedy_blocks"
    exact = True
    linear = False
    # Two blocks that are chosen take less time than one block of twice as many rows.
    one_block = (EXACT_BLOCK, ONE_BLOCK)
    # On a GPU a random block costs so little that these blocks, which are chosen for all columns together, are slower
    # with many columns.
    most_columns = (inf, 16)
    keeps_kernel = True
    quick_gap = True  # the prediction of every row is known

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        assert isinstance(state, ExactState)
        n = len(state.x)
        b = min(settings.block_size, n)
        super().__init__(state, problem, settings, -(-n // b))
        self.solver = settings.block
        if problem.loss.quadratic and problem.loss.group == 1:
            tol = ONE_COLUMN_TOL if state.alpha.shape[1] == 1 else SEVERAL_COLUMNS_TOL
            self.solver = replace(self.solver, tol=min(self.solver.tol, tol))
        self.new, self.choice = b - b // 2, _Choice(state, b // 2, settings.seed)
        self.diagonal = state.diagonal()
        # Equal gains, as at the start, are ordered at random, because rows may be sorted by class.
        self._tie = torch.randperm(n, generator=generator(settings.seed, "ties")).to(state.alpha.device)
        self._captured = state.never_waits and never_waits(problem.loss, problem.dual, state.alpha.device, b)
        self.release()

    @classmethod
    def max_epochs(cls, size: ProblemSize) -> float:
        return exact_epochs(size.rows)

    @classmethod
    def memory(cls, size: ProblemSize, order_bytes: int) -> tuple[Item, ...]:
        row_bytes = GAIN_COPIES * size.itemsize + ROW_BYTES
        return (Item("gain of each row", size.rows * row_bytes, AFTER_LAYOUT),)

    @classmethod
    def kernel_memory(cls, size: ProblemSize, room: int) -> KernelMemory:
        if size.on_gpu or size.kernel_in_memory:
            return KernelMemory()
        part = current().part(size.rows)  # processes share the columns of cached rows
        width = part.stop - part.start
        rows = cached_rows(size.rows, min(cls.block_rows(size), size.rows), room, size.itemsize, width)
        return KernelMemory(rows, 0, (Item("kernel cache", cache_bytes(width, rows, size.itemsize), AFTER_LAYOUT),))

    def release(self) -> None:
        self.replay = Replay() if self._captured else None

    def step(self, number: int) -> None:
        if self.replay is None:
            self._visit()
        else:
            self.replay(lambda _: self._visit(), self.choice.scale)

    def _visit(self) -> None:
        """Choose a block and solve it, without reading any number on the CPU."""
        rows = self._working_set()
        block = self.state.open(rows)
        result = self.solver.solve(block.K, block.f, block.a, *self.problem.take(rows), self.problem.dual)
        result, _ = self.state.commit(block, result)
        self.statistics.add(result)

    def _working_set(self) -> Tensor:  # (b,)
        last = self.choice.rows
        gains, rising = self._gains()
        gains.index_fill_(0, last, -inf)  # they are in the block already
        gains, rising = gains[self._tie], rising[self._tie]
        upward = preferred(gains, rising).topk(self.new // 2).indices
        gains.index_fill_(0, upward, -inf)
        downward = preferred(gains, ~rising).topk(self.new - self.new // 2).indices
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
            rising[rows] = torch.where(loss.can_increase(y, a, prediction), gain, -gain).sum(1) > 0
        return gains, rising

    def epoch_ended(self, gap: Gap) -> None:
        scale = torch.maximum(gap.primal.abs(), gap.dual.abs())
        self.choice.scale.copy_(torch.where(scale > 0, scale, 1.0))

    def parts(self) -> dict[str, SavedTensors]:
        return {"greedy": self.choice}


def preferred(gains: Tensor, wanted: Tensor) -> Tensor:  # (…, n), (…, n)
    """Return numbers with the order of the gains, in which all other rows come after those that are wanted."""
    return torch.where(wanted, gains, -1 / (1 + gains)).where(gains > -inf, -inf)
