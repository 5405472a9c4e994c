"""Dual block coordinate descent: open a block, solve it, commit the step, evaluate the duality gap."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import torch
from torch import Tensor

from joker.data import Blocks
from joker.errors import BudgetTooSmall
from joker.ops import block_solve
from joker.runtime import format_bytes, free_bytes, hold_interrupts, peak_bytes, release_memory
from joker.runtime.cuda_graphs import OutOfMemory
from joker.solvers.average import Average
from joker.solvers.block.result import Outcome
from joker.solvers.block.trust_region import BlockSolver
from joker.solvers.block_buffers import PreparedBlock
from joker.solvers.block_schedule import BlockSchedule
from joker.solvers.checkpoint import differences, restore_state, saved_state
from joker.solvers.gap import Gap, Point, certify
from joker.solvers.momentum import Momentum
from joker.solvers.problem import Problem
from joker.solvers.report import BlockStatistics, Reason, Record, Report
from joker.solvers.settings import Settings
from joker.solvers.state import State
from joker.solvers.step_radius import StepRadius

# A problem in one block is given up when this number of evaluations lowers its gap by less than a tenth.
SLOW_EVALUATIONS, SLOW_SHARE = 10, 0.9
ONE_BLOCK_EPOCHS = 200  # a problem in one block is solved to its tolerance; each visit gains about one digit
ONE_BLOCK_TOL = 0.1  # largest tolerance of the block solver there, because no other block corrects its error

Callback = Callable[[Record], bool | None]  # returns True to stop
Tick = Callable[[], bool | None]  # returns True to stop
ScorePoint = Callable[[Point], Sequence[float]]


class Descent:
    """A solve that can be run, interrupted after any block, saved and continued.

    Parameters
    ----------
    state : State
        α and its image, with the kernel itself or with features.
    problem : Problem
        Loss, targets, weights and penalties.
    settings : Settings
        Block size, limits and method.
    """

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        self.state, self.problem, self.settings = state, problem, settings
        self.blocks = Blocks(len(state.x), settings.block_size, settings.seed, settings.order, state.x.shuffled)
        self.average = Average(state, self.blocks) if settings.averaging else None
        self.momentum = Momentum(state, self.blocks.count) if settings.momentum else None
        bounded = settings.radius < inf
        self.step_radius = StepRadius(settings.radius, settings.halve_every, problem.targets.lam) if bounded else None
        self.steps, self.seconds = 0, 0.0
        self.records: list[Record] = []
        self.point: Point | None = None  # the point of the latest record, while the callback is called
        self.whole = True  # False when an error has ended a visit before its end
        device = state.alpha.device
        self.statistics = BlockStatistics(device)
        # One block of an unbounded quadratic loss is solved by one factorisation, to the last digit.
        factorised = self.blocks.count == 1 and problem.loss.quadratic and problem.loss.unbounded
        self._dual = None if factorised else problem.dual
        fused = self._dual is not None and block_solve.available(device, self.blocks.size)
        self.schedule = BlockSchedule(state, self.blocks, replayed=fused)

    def run(
        self, callback: Callback | None = None, tick: Tick | None = None, score: ScorePoint | None = None
    ) -> Report:
        """Descend until the gap is small enough, or a limit of epochs or time is reached.

        ``callback`` gets a record after each evaluation of the gap, while ``point`` is the point of the record;
        ``tick`` is called after each block. Both may return True to stop. ``score`` returns the scores of a point
        for its record. An interrupt (Ctrl-C) takes effect between two blocks; ``run`` may then be called again.
        """
        started = time.perf_counter() - self.seconds
        stop = False
        while True:
            limit = self._limit() or (Reason.ASKED if stop else None)
            if limit or self._due():
                point, gap, reason = self._evaluate(callback, score)
                if reason or limit:
                    self.schedule.release()
                    reason = reason or limit or Reason.ASKED
                    counts = self.statistics.outcomes, self.statistics.products
                    return Report(*point, gap, reason, tuple(self.records), *counts)
            with hold_interrupts():
                self.step()
            self.seconds = time.perf_counter() - started
            stop = tick is not None and bool(tick())

    def step(self) -> None:
        """Visit one block."""
        self.whole = False
        if self.step_radius:
            self.step_radius.set(self.steps)
        try:
            self.schedule.visit(self.steps, self._visit)
        except OutOfMemory:
            # The large tensors of a step are allocated before `commit` changes anything. With momentum, `extrapolate`
            # is then repeated, which keeps α in the box and its image valid.
            self._reduce_memory()
            self.step()
        else:
            self.steps += 1
            self.whole = True

    def _visit(
        self, k: Tensor, rows: Tensor, x: Tensor | None, prepared: PreparedBlock | None = None
    ) -> None:  # k (1,), rows (b,), x (b, d)
        """Visit block k, with its inputs or its prepared tensors, without reading any number on the CPU."""
        rows = rows.long()
        if self.momentum:
            result = self.momentum.step(self.state, rows, x, prepared, self.problem, self.solver)
            if self.average:
                self.average.record_all(self.state)
        else:
            block = self.state.open(rows, x, prepared)
            result = self.solver.solve(block.K, block.f, block.a, *self.problem.take(rows), self._dual)
            result = self.step_radius.shorten(result, block.a) if self.step_radius else result
            result, _ = self.state.commit(block, result)
            if self.average:
                self.average.record(k, block, result.a, self.state)
        self.statistics.add(result)

    @property
    def epoch(self) -> float:
        """Visits to blocks, divided by the number of blocks."""
        return self.steps / self.blocks.count

    @property
    def solver(self) -> BlockSolver:
        """The block solver. Its tolerance is kept, without patience, where its errors would add up."""
        solver = self.settings.block
        if self.blocks.count == 1:
            return replace(solver, tol=min(solver.tol, ONE_BLOCK_TOL), patience=inf)
        return replace(solver, patience=inf) if self.momentum else solver

    @property
    def max_epochs(self) -> float:
        """Epochs after which the descent ends; more than the settings say for a problem in one block."""
        one = self.blocks.count == 1 and self.settings.max_epochs > 0
        return max(self.settings.max_epochs, ONE_BLOCK_EPOCHS if one else 0)

    def start_at(self, alpha: Tensor) -> None:  # (n, t)
        """Begin at the point of the box that is nearest to ``alpha``, before the first step."""
        self.state.reset(self.problem.clamp_(alpha.to(self.state.alpha, copy=True)))
        if self.momentum:
            self.momentum = Momentum(self.state, self.blocks.count)

    def best(self) -> tuple[Point, Gap, Gap]:
        """Return the average or the last iterate, in each column the one with the smaller gap.

        Also returned are its gap and that of the last iterate. Its α shares no memory with the state.
        """
        last = (self.state.alpha, self.state.image)
        if self.average is None:
            gap = certify(self.state, self.problem, [last])[0]
            return (last[0].clone(), last[1]), gap, gap
        mean = self.average.read(self.state)
        mean_gap, last_gap = certify(self.state, self.problem, [mean, last])
        better = mean_gap.gap <= last_gap.gap
        for of_mean, of_last in zip(mean, last, strict=True):
            torch.where(better, of_mean, of_last, out=of_mean)
        return mean, Gap(torch.where(better, mean_gap.sums, last_gap.sums)), last_gap

    def state_dict(self) -> dict[str, Any]:
        """Return everything that changes during a solve: save it with ``torch.save``."""
        return saved_state(self)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from a saved state; ``max_epochs``, ``tol`` and ``max_time`` may differ."""
        restore_state(self, saved)

    def differing(self, saved: dict[str, Any]) -> list[str]:
        """Return the names of the parts of the problem and settings in which a saved state differs from this solve."""
        return differences(self, saved)

    def _limit(self) -> Reason | None:
        if self.seconds >= self.settings.max_time:
            return Reason.TIME
        return Reason.EPOCHS if self.epoch >= self.max_epochs else None

    def _interval_ended(self) -> bool:
        """Return whether the epochs between two evaluations have just ended."""
        return self.steps > 0 and self.steps % (self.blocks.count * self.settings.gap_every) == 0

    def _due(self) -> bool:
        """Return whether to evaluate the gap now; not a second time for the same epoch."""
        last = self.records[-1] if self.records else None
        evaluated = last is not None and last.epoch == self.epoch and last.relative_gap > self.settings.tol
        return self._interval_ended() and not evaluated

    def _evaluate(self, callback: Callback | None, score: ScorePoint | None) -> tuple[Point, Gap, Reason | None]:
        """Evaluate the gap and store a record; return the point, its gap, and a reason to stop if there is one."""
        self._release_tiles()
        point, gap, last_gap = self.best()
        if gap.worst <= self.settings.tol:  # the proof must not use an image with the rounding of thousands of steps
            point, gap = self._recompute(point[0])
            if gap.worst > self.settings.tol and self._interval_ended():
                self.state.reset(self.state.alpha)
        if self.momentum and self._interval_ended():
            with hold_interrupts():
                self.momentum.check(last_gap.dual, self.state)
        reason = self._reason(gap)
        if reason in (Reason.STALLED, Reason.SLOW):
            point, gap = self._recompute(point[0])
        self.problem.clamp_(point[0])  # an average may leave the box by a rounding error
        self._release_tiles()
        scores = () if score is None else tuple(score(point))
        record = Record(self.epoch, self.seconds, gap, scores, peak_bytes(self.state.alpha.device))
        self.records = [*self._earlier(), record]
        stop = callback is not None and self._call(callback, point)
        return point, gap, reason or (Reason.ASKED if stop else None)

    def _recompute(self, alpha: Tensor) -> tuple[Point, Gap]:
        """Move α into the box; return it with an image computed anew, and its gap."""
        point = (self.problem.clamp_(alpha), self.state.image_of(alpha))
        return point, certify(self.state, self.problem, [point])[0]

    def _call(self, callback: Callback, point: Point) -> bool:
        """Return whether the callback asks to stop. If it raises, its record is removed and taken again later."""
        self.point = point
        try:
            return bool(callback(self.records[-1]))
        except BaseException:
            self.records = self._earlier()
            raise
        finally:
            self.point = None

    def _earlier(self) -> list[Record]:
        return [record for record in self.records if record.epoch < self.epoch]

    def _reason(self, gap: Gap) -> Reason | None:
        stalled = self.statistics.stalled()
        if self.statistics.outcomes[Outcome.BROKEN]:
            return Reason.BROKEN
        if gap.worst <= self.settings.tol:
            return Reason.TOLERANCE
        if stalled:
            return Reason.STALLED
        gaps = [record.relative_gap for record in self._earlier()][1 - SLOW_EVALUATIONS :]
        slow = len(gaps) == SLOW_EVALUATIONS - 1 and gap.worst > SLOW_SHARE * gaps[0]
        return Reason.SLOW if slow and self.blocks.count == 1 else None

    def _release_tiles(self) -> None:
        """Return the memory of freed tiles to the system, so that the next phase does not add to it; not on a GPU."""
        if self.state.alpha.device.type == "cpu" and self.blocks.count > 1:
            release_memory(self.state.alpha.device)

    def _reduce_memory(self) -> None:
        """Free all that can be computed again, and let a step use less scratch space."""
        self.schedule.release()
        release_memory(self.state.alpha.device)
        if not self.state.shrink():
            needed, free = self.state.scratch_bytes, free_bytes(self.state.alpha.device)
            raise BudgetTooSmall(
                f"the device must have room for a block of {self.blocks.size} rows; {format_bytes(free)} are free and "
                f"about {format_bytes(needed)} are needed: {format_bytes(max(needed - free, 0))} are missing. "
                "Use a smaller block_size, or free memory on the device."
            )
