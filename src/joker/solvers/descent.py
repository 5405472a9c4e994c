"""Dual block coordinate descent: open a block, solve it, commit, look at the gap."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import torch
from torch import Tensor

from joker.data import Blocks, Rows, TensorRows
from joker.errors import BudgetTooSmall, StateMismatch
from joker.ops import block_solve
from joker.runtime import chunks, format_bytes, free_bytes, hold_interrupts, peak_bytes, release_memory
from joker.runtime.cuda_graphs import OutOfMemory
from joker.solvers.average import Average
from joker.solvers.block.result import Outcome
from joker.solvers.block.trust_region import BlockSolver
from joker.solvers.block_schedule import Visits
from joker.solvers.gap import Gap, Point, certify
from joker.solvers.momentum import Momentum
from joker.solvers.problem import Problem
from joker.solvers.radius import Radius
from joker.solvers.report import Reason, Record, Report, Tally
from joker.solvers.settings import Settings
from joker.solvers.state import Ready, State

PATIENCE, PROGRESS = 10, 0.9  # a problem in one block is given up when ten looks lower its gap by less than a tenth
KEPT = ("block_size", "order", "averaging", "momentum", "radius", "halve_every", "seed")  # when a solve is continued
ONE_BLOCK_EPOCHS = 200  # a problem in one block is solved to its tolerance; each visit gains a digit or so,
ONE_BLOCK_TOL = 0.1  # as nothing else will change what it has found

Callback = Callable[[Record], bool | None]  # True asks to stop
Tick = Callable[[], bool | None]
Judge = Callable[[Point], Sequence[float]]


class Descent:
    """A solve that can be run, interrupted after any block, saved and continued.

    Parameters
    ----------
    state : State
        Where the solve stands; with the kernel itself or with features.
    problem : Problem
        Loss, targets, weights and penalties.
    settings : Settings
        How to run.
    """

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        self.state, self.problem, self.settings = state, problem, settings
        self.blocks = Blocks(len(state.x), settings.block_size, settings.seed, settings.order, state.x.shuffled)
        self.average = Average(state, self.blocks) if settings.averaging else None
        self.momentum = Momentum(state, self.blocks.count) if settings.momentum else None
        bounded = settings.radius < inf
        self.radius = Radius(settings.radius, settings.halve_every, problem.targets.lam) if bounded else None
        self.steps, self.seconds = 0, 0.0
        self.records: list[Record] = []
        self.point: Point | None = None  # what a record is of, while the callback is called
        self.whole = True  # False when an error has left a block half visited
        device = state.alpha.device
        self.tally = Tally(device)
        # One block of a free quadratic loss is solved by one factorisation, to the last digit.
        once = self.blocks.count == 1 and problem.loss.quadratic and problem.loss.unbounded
        self._dual = None if once else problem.dual
        fused = self._dual is not None and block_solve.available(device, self.blocks.size)
        self.visits = Visits(state, self.blocks, fused)

    @property
    def epoch(self) -> float:
        """Visits to a block, as a share of the number of blocks."""
        return self.steps / self.blocks.count

    @property
    def solver(self) -> BlockSolver:
        """What solves a block: a problem in one block more closely, and with patience where errors would add up."""
        given = self.settings.block
        if self.blocks.count == 1:
            return replace(given, tol=min(given.tol, ONE_BLOCK_TOL), patience=inf)
        return replace(given, patience=inf) if self.momentum else given

    @property
    def max_epochs(self) -> float:
        """Epochs after which the descent ends; a problem in one block is given more than the settings say."""
        one = self.blocks.count == 1 and self.settings.max_epochs > 0
        return max(self.settings.max_epochs, ONE_BLOCK_EPOCHS if one else 0)

    def run(self, callback: Callback | None = None, tick: Tick | None = None, judge: Judge | None = None) -> Report:
        """Descend until the gap, the epochs or the time run out.

        ``callback`` gets a record after each look at the gap, while ``point`` is what the record is of;
        ``tick`` is called after each block. Both may return True to stop. ``judge`` scores a point for
        its record. An interrupt (Ctrl-C) takes effect between two blocks; ``run`` may then be called again.
        """
        started = time.perf_counter() - self.seconds
        asked = False
        while True:
            limit = self._limit() or (Reason.ASKED if asked else None)
            if limit or self._due():
                point, gap, reason = self._look(callback, judge)
                if reason or limit:
                    self.visits.forget()
                    return self._report(point, gap, reason or limit or Reason.ASKED)
            with hold_interrupts():
                self.step()
            self.seconds = time.perf_counter() - started
            asked = tick is not None and bool(tick())

    def step(self) -> None:
        """Visit one block."""
        self.whole = False
        if self.radius:
            self.radius.set(self.steps)
        try:
            self.visits.visit(self.steps, self._step)
        except OutOfMemory:  # nothing has moved yet: memory is taken before α and its image change
            self._make_room()
            self.step()
        else:
            self.steps += 1
            self.whole = True

    def _make_room(self) -> None:
        """Plan the step again with less scratch space."""
        self.visits.forget()
        release_memory(self.state.alpha.device)
        if not self.state.shrink():
            needed, free = self.state.scratch_bytes, free_bytes(self.state.alpha.device)
            raise BudgetTooSmall(
                f"the device must have room for a block of {self.blocks.size} rows; {format_bytes(free)} are free and "
                f"about {format_bytes(needed)} are needed: {format_bytes(max(needed - free, 0))} are missing. "
                "Use a smaller block_size, or free memory on the device."
            )

    def _step(
        self,
        k: Tensor,  # (1,)
        rows: Tensor,  # (b,)
        x: Tensor | None,  # (b, d)
        ready: Ready | None = None,
    ) -> None:
        """Visit block k, whose inputs are x or which is ready, without a look at any number on the host."""
        rows = rows.long()
        if self.momentum:
            found = self.momentum.step(self.state, rows, x, ready, self.problem, self.solver)
            if self.average:
                self.average.record_all(self.state)
        else:
            block = self.state.open(rows, x, ready)
            found = self.solver.solve(block.K, block.f, block.a, *self.problem.take(rows), self._dual)
            found = self.radius.shorten(found, block.a) if self.radius else found
            found = self.state.commit(block, found)
            if self.average:
                self.average.record(k, block, found.a, self.state)
        self.tally.add(found)

    def best(self) -> tuple[Point, Gap, Gap]:
        """The average or the last iterate, in each column the one with the smaller gap; its gap and the last one's.

        Its α is no part of the state.
        """
        last = (self.state.alpha, self.state.image)
        if self.average is None:
            gap = certify(self.state, self.problem, [last])[0]
            return (last[0].clone(), last[1]), gap, gap
        mean = self.average.read(self.state)
        of_mean, of_last = certify(self.state, self.problem, [mean, last])
        better = of_mean.gap <= of_last.gap
        for mine, other in zip(mean, last, strict=True):
            torch.where(better, mine, other, out=mine)
        return mean, Gap(torch.where(better, of_mean.sums, of_last.sums)), of_last

    def _limit(self) -> Reason | None:
        if self.seconds >= self.settings.max_time:
            return Reason.TIME
        return Reason.EPOCHS if self.epoch >= self.max_epochs else None

    def _ended(self) -> bool:
        """Whether the epochs between two looks have just ended."""
        return self.steps > 0 and self.steps % (self.blocks.count * self.settings.gap_every) == 0

    def _due(self) -> bool:
        """Whether it is time to look; not again where a look has just found more to do."""
        last = self.records[-1] if self.records else None
        looked = last is not None and last.epoch == self.epoch and last.relative_gap > self.settings.tol
        return self._ended() and not looked

    def _look(self, callback: Callback | None, judge: Judge | None) -> tuple[Point, Gap, Reason | None]:
        """Take a record; say why to stop, if there is a reason."""
        self._tidy()
        point, gap, last = self.best()
        if gap.worst <= self.settings.tol:  # a proof must not rest on an image that thousands of steps have rounded
            point, gap = self._afresh(point[0])
            if gap.worst > self.settings.tol and self._ended():
                self.state.image.copy_(self.state.image_of(self.state.alpha))
        if self.momentum and self._ended():
            with hold_interrupts():
                self.momentum.check(last.dual, self.state)
        reason = self._reason(gap)
        if reason in (Reason.STALLED, Reason.SLOW):
            point, gap = self._afresh(point[0])
        self._clamp(point[0])
        self._tidy()
        scores = () if judge is None else tuple(judge(point))
        record = Record(self.epoch, self.seconds, gap, scores, peak_bytes(self.state.alpha.device))
        self.records = [*self._earlier(), record]
        asked = callback is not None and self._show(point, callback)
        return point, gap, reason or (Reason.ASKED if asked else None)

    def _tidy(self) -> None:
        """Give back what freed tiles have left, so that one phase does not add to the next; a card keeps its own."""
        if self.state.alpha.device.type == "cpu" and self.blocks.count > 1:
            release_memory(self.state.alpha.device)

    def _show(self, point: Point, callback: Callback) -> bool:
        """Whether the callback asks to stop. A record that it has not seen to the end is taken again later."""
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

    def _afresh(self, alpha: Tensor) -> tuple[Point, Gap]:
        self._clamp(alpha)
        point = (alpha, self.state.image_of(alpha))
        return point, certify(self.state, self.problem, [point])[0]

    def _clamp(self, alpha: Tensor) -> None:
        """Move α into the box, a few rows at a time: an average may leave it by a rounding."""
        for rows in chunks(*alpha.shape):
            y, loss = self.problem.take(rows)
            alpha[rows] = loss.clamp(y, alpha[rows])

    def _reason(self, gap: Gap) -> Reason | None:
        still = self.tally.still()
        if self.tally.outcomes[Outcome.BROKEN]:
            return Reason.BROKEN
        if gap.worst <= self.settings.tol:
            return Reason.TOLERANCE
        if still:
            return Reason.STALLED
        gaps = [record.relative_gap for record in self._earlier()][1 - PATIENCE :]
        slow = len(gaps) == PATIENCE - 1 and gap.worst > PROGRESS * gaps[0]
        return Reason.SLOW if slow and self.blocks.count == 1 else None

    def _report(self, point: Point, gap: Gap, reason: Reason) -> Report:
        return Report(*point, gap, reason, tuple(self.records), self.tally.outcomes, self.tally.products)

    def state_dict(self) -> dict[str, Any]:
        """Everything that moves, as numbers and tensors: save it with ``torch.save``."""
        parts = {"state": self.state, "average": self.average, "momentum": self.momentum}
        return {
            "identity": self._identity(),
            "steps": self.steps,
            "seconds": self.seconds,
            "records": [(r.epoch, r.seconds, r.gap.sums, r.scores, r.peak_bytes) for r in self.records],
            "tally": self.tally.state_dict(),
            **{name: part.state_dict() for name, part in parts.items() if part},
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from where ``saved`` was taken; ``max_epochs``, ``tol`` and ``max_time`` may differ."""
        if differing := self.differing(saved):
            raise StateMismatch(
                f"a saved state must belong to the same problem and settings; {', '.join(differing)} differ. "
                "Use the data, kernel and settings it began with."
            )
        parts = {"state": self.state, "average": self.average, "momentum": self.momentum}
        for name, part in parts.items():
            if part:
                part.load_state_dict(saved[name])
        self.steps, self.seconds = saved["steps"], saved["seconds"]
        place = self.state.alpha.device
        self.records = [Record(epoch, s, Gap(sums.to(place)), *rest) for epoch, s, sums, *rest in saved["records"]]
        self.tally.load_state_dict(saved["tally"])

    def differing(self, saved: dict[str, Any]) -> list[str]:
        """Return in what the problem and settings of a saved state differ from those of this descent."""
        mine, theirs = self._identity(), saved["identity"]
        return [name for name in mine if name not in theirs or not _alike(mine[name], theirs[name])]

    def start_at(self, alpha: Tensor) -> None:  # (n, t)
        """Begin at the point of the box that is nearest to ``alpha``, before the first step."""
        self.state.alpha.copy_(alpha)
        self._clamp(self.state.alpha)
        self.state.image.copy_(self.state.image_of(self.state.alpha))
        if self.momentum:
            self.momentum = Momentum(self.state, self.blocks.count)

    def _identity(self) -> dict[str, Any]:
        """What a saved state must share with the solve that continues it."""
        targets, settings = self.problem.targets, self.settings
        return {
            "rows": (*self.state.x.shape, _mark(self.state.x)),
            "kernel or features": (*self.state.image.shape, *self.state.sample().flatten().tolist()),
            "targets": (*targets.y.shape, _mark(TensorRows(targets.y))),
            "weights": () if targets.weights is None else (_mark(TensorRows(targets.weights)),),
            "lam": tuple(targets.lam.tolist()),
            "dtype": str(self.state.x.dtype),
            "loss": repr(self.problem.loss),
            **{name: getattr(settings, name) for name in KEPT},
        }


def _mark(values: Rows) -> float:
    """A number that tells rows apart: every row counts with a factor of its own."""
    total = 0.0
    for at in chunks(*values.shape):
        rows = values[at].double()
        factors = torch.arange(at.start + 1, at.stop + 1, device=rows.device, dtype=rows.dtype).cos()
        total += float(factors @ rows.sum(1))
    return total


def _alike(a: Any, b: Any) -> bool:
    """Equal; numbers in a tuple up to the rounding of another machine."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)):
        return bool(a == b)
    pair = [torch.tensor(numbers, dtype=torch.float64) for numbers in (a, b)]
    return len(a) == len(b) and torch.allclose(pair[0], pair[1], rtol=1e-4, atol=1e-6)
