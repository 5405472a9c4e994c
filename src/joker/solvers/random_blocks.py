"""Block descent: visit blocks in random order, with an average of the iterates or with momentum."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from torch import Tensor

from joker.data import Blocks
from joker.solvers.average import Average
from joker.solvers.block.trust_region import BlockSolver, never_waits
from joker.solvers.block_buffers import PreparedBlock
from joker.solvers.block_schedule import BlockSchedule
from joker.solvers.gap import Gap, Point
from joker.solvers.method import Method
from joker.solvers.momentum import Momentum
from joker.solvers.problem import Problem
from joker.solvers.saved_tensors import SavedTensors
from joker.solvers.settings import Settings
from joker.solvers.state import State
from joker.solvers.step_radius import StepRadius

ONE_BLOCK_TOL = 0.1  # largest tolerance of the block solver for one block, because no other block corrects its error


class RandomBlocks(Method):
    """Every row once in an epoch, in blocks that are drawn anew for each epoch."""

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        self.blocks = Blocks(len(state.x), settings.block_size, settings.seed, settings.order, state.x.shuffled)
        super().__init__(state, self.blocks.count)
        self.problem, self.settings = problem, settings
        self.mean = Average(state, self.blocks.count) if settings.averaging else None
        self.momentum = Momentum(state, self.blocks.count) if settings.momentum else None
        bounded = settings.radius < inf
        self.step_radius = StepRadius(settings.radius, settings.halve_every, problem.targets.lam) if bounded else None
        # One block of an unbounded quadratic loss is solved by one factorisation, to the last digit.
        factorised = self.blocks.count == 1 and problem.loss.quadratic and problem.loss.unbounded
        self._dual = None if factorised else problem.dual
        solved = never_waits(problem.loss, self._dual, state.alpha.device, self.blocks.size)
        self.schedule = BlockSchedule(state, self.blocks, replayed=solved and state.never_waits)

    @property
    def solver(self) -> BlockSolver:
        """The block solver. Its tolerance is kept, without patience, where its errors would add up."""
        solver = self.settings.block
        if self.blocks.count == 1:
            return replace(solver, tol=min(solver.tol, ONE_BLOCK_TOL), patience=inf)
        return replace(solver, patience=inf) if self.momentum else solver

    def step(self, number: int) -> None:
        """Visit one block.

        The large tensors of a step are allocated before `commit` changes anything, so that a step can be repeated with
        less memory. With momentum, `extrapolate` is then repeated, which keeps α in the box and its image valid.
        """
        if self.step_radius:
            self.step_radius.set(number)
        self.schedule.visit(number, self._visit)

    def _visit(self, rows: Tensor, x: Tensor | None, prepared: PreparedBlock | None = None) -> None:  # (b,), (b, d)
        """Visit a block, with its inputs or its prepared tensors, without reading any number on the CPU."""
        rows = rows.long()
        if self.momentum:
            result = self.momentum.step(self.state, rows, x, prepared, self.problem, self.solver)
            if self.mean:
                self.mean.record_all(self.state)
        else:
            block = self.state.open(rows, x, prepared)
            result = self.solver.solve(block.K, block.f, block.a, *self.problem.take(rows), self._dual)
            result = self.step_radius.shorten(result, block.a) if self.step_radius else result
            result, _ = self.state.commit(block, result)
            if self.mean:
                self.mean.record(block, result.a, self.state)
        self.statistics.add(result)

    def average(self) -> Point | None:
        return None if self.mean is None else self.mean.read(self.state)

    def epoch_ended(self, gap: Gap) -> None:
        if self.momentum:
            self.momentum.check(gap.own_dual, self.state)

    def restarted(self) -> None:
        if self.momentum:
            self.momentum = Momentum(self.state, self.blocks.count)

    def release(self) -> None:
        self.schedule.release()

    def parts(self) -> dict[str, SavedTensors]:
        parts = {"average": self.mean, "momentum": self.momentum}
        return {name: part for name, part in parts.items() if part is not None}
