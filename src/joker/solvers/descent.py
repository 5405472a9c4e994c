"""Dual block coordinate descent: open a block, solve it, commit, look at the gap."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from joker.data import Blocks, Rows, TensorRows
from joker.errors import InvalidParameter, StateMismatch
from joker.runtime import hold_interrupts
from joker.solvers.average import Average
from joker.solvers.block import BlockSolver, Outcome
from joker.solvers.gap import Gap, Point, certify
from joker.solvers.momentum import Momentum
from joker.solvers.problem import Problem
from joker.solvers.report import Reason, Record, Report, Tally
from joker.solvers.state import State

PATIENCE, PROGRESS = 10, 0.9  # a problem in one block is given up when ten looks lower its gap by less than a tenth
MARKED = 2**20  # entries of which a mark is taken in one go
ONE_BLOCK_EPOCHS = 200  # a problem in one block is solved to its tolerance; each visit gains a digit or so


@dataclass(frozen=True)
class Settings:
    """How a descent is run.

    Parameters
    ----------
    block_size : int
        Rows in a block, at most.
    max_epochs : float
        Visits to a block, as a multiple of the number of blocks. A problem that fits in
        one block is solved to ``tol`` whatever this says.
    tol : float
        Relative duality gap at which to stop.
    max_time : float
        Seconds after which no further block is begun.
    order : {"shuffled", "random", "cyclic"}
        The order of the blocks.
    averaging : bool
        Return the average of the iterates instead of the last one.
    momentum : bool
        Accelerate: pays where the gap is to become small over tens of epochs.
    gap_every : int
        Epochs between looks at the gap.
    seed : int
        Of the partition into blocks and of their order.
    block : BlockSolver
        Settings of the block solve.
    """

    block_size: int = 512
    max_epochs: float = 5
    tol: float = 1e-3
    max_time: float = inf
    order: str = "shuffled"
    averaging: bool = True
    momentum: bool = False
    gap_every: int = 1
    seed: int = 0
    block: BlockSolver = field(default_factory=BlockSolver)

    def __post_init__(self) -> None:
        for name in ("max_epochs", "tol", "max_time"):
            self._check(name, Real, 0, "a number of at least 0")
        self._check("gap_every", Integral, 1, "a whole number of at least 1")
        self._check("seed", Integral, -inf, "a whole number")
        for name, kind in {"averaging": bool, "momentum": bool, "block": BlockSolver}.items():
            if not isinstance(getattr(self, name), kind):
                self._refuse(name, f"a {kind.__name__}")

    def _check(self, name: str, kind: type, least: float, rule: str) -> None:
        value = getattr(self, name)
        fits = isinstance(value, kind) and not isinstance(value, bool)
        if not fits or not value >= least:
            self._refuse(name, rule)

    def _refuse(self, name: str, rule: str) -> None:
        default = getattr(Settings(), name)
        raise InvalidParameter(
            f"{name} must be {rule}; got {name}={getattr(self, name)!r}. Use for example {name}={default}."
        )


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
        self.blocks = Blocks(len(state.x), settings.block_size, settings.seed, settings.order)
        self.average = Average(state, self.blocks) if settings.averaging else None
        self.momentum = Momentum(state, self.blocks.count) if settings.momentum else None
        self.steps, self.seconds = 0, 0.0
        self.records: list[Record] = []
        self.tally = Tally()

    @property
    def epoch(self) -> float:
        """Visits to a block, as a share of the number of blocks."""
        return self.steps / self.blocks.count

    def run(self, callback: Callable[[Record], bool | None] | None = None) -> Report:
        """Descend until the gap, the epochs or the time run out.

        ``callback`` gets a record after each look at the gap and may return True to stop.
        An interrupt (Ctrl-C) takes effect between two blocks; ``run`` may then be called again.
        """
        started = time.perf_counter() - self.seconds
        while True:
            limit = self._limit()
            if limit or self._due():
                point, gap, reason = self._look(callback)
                if reason or limit:
                    return self._report(point, gap, reason or limit or Reason.ASKED)
            with hold_interrupts():
                self.step()
            self.seconds = time.perf_counter() - started

    def step(self) -> None:
        """Visit one block."""
        k = self.blocks.visit(self.steps)
        rows = self.blocks.rows(k)
        if self.momentum:
            found = self.momentum.step(self.state, rows, self.problem, self.settings.block)
            if self.average:
                self.average.record_all(self.state)
        else:
            block = self.state.open(rows)
            found = self.settings.block.solve(block.K, block.f, block.a, *self.problem.take(rows))
            self.state.commit(block, found.x)
            if self.average:
                self.average.record(k, block, found.x, self.state)
        self.tally.add(found)
        self.steps += 1

    def best(self) -> tuple[Point, Gap, Gap]:
        """The average or the last iterate, in each column the one with the smaller gap; its gap and the last one's."""
        last = (self.state.alpha, self.state.image)
        if self.average is None:
            gap = certify(self.state, self.problem, [last])[0]
            return last, gap, gap
        mean = self.average.read(self.state)
        of_mean, of_last = certify(self.state, self.problem, [mean, last])
        better = of_mean.gap <= of_last.gap
        point = (torch.where(better, mean[0], last[0]), torch.where(better, mean[1], last[1]))
        return point, Gap(torch.where(better, of_mean.sums, of_last.sums)), of_last

    def _limit(self) -> Reason | None:
        one = self.blocks.count == 1 and self.settings.max_epochs > 0
        allowed = max(self.settings.max_epochs, ONE_BLOCK_EPOCHS if one else 0)
        if self.seconds >= self.settings.max_time:
            return Reason.TIME
        return Reason.EPOCHS if self.epoch >= allowed else None

    def _ended(self) -> bool:
        """Whether the epochs between two looks have just ended."""
        return self.steps > 0 and self.steps % (self.blocks.count * self.settings.gap_every) == 0

    def _due(self) -> bool:
        """Whether it is time to look and nobody has looked yet."""
        return self._ended() and not (self.records and self.records[-1].epoch == self.epoch)

    def _look(self, callback: Callable[[Record], bool | None] | None) -> tuple[Point, Gap, Reason | None]:
        """Take a record; say why to stop, if there is a reason."""
        point, gap, last = self.best()
        if gap.worst <= self.settings.tol:  # a proof must not rest on an image that thousands of steps have rounded
            point, gap = self._afresh(point[0])
            if gap.worst > self.settings.tol and self._ended():
                self.state.image.copy_(self.state.image_of(self.state.alpha))
        if self.momentum and self._ended():
            self.momentum.check(last.dual, self.state)
        record = Record(self.epoch, self.seconds, gap)
        self.records = [*(old for old in self.records if old.epoch < self.epoch), record]
        asked = callback is not None and bool(callback(record))
        reason = self._reason(gap.worst <= self.settings.tol, asked)
        if reason in (Reason.STALLED, Reason.SLOW):
            point, gap = self._afresh(point[0])
        return point, gap, reason

    def _afresh(self, alpha: Tensor) -> tuple[Point, Gap]:
        y, loss = self.problem.take(slice(None))
        alpha = loss.clamp(y, alpha)
        point = (alpha, self.state.image_of(alpha))
        return point, certify(self.state, self.problem, [point])[0]

    def _reason(self, reached: bool, asked: bool) -> Reason | None:
        still = self.tally.still()
        if self.tally.outcomes[Outcome.BROKEN]:
            return Reason.BROKEN
        if reached:
            return Reason.TOLERANCE
        if asked:
            return Reason.ASKED
        if still:
            return Reason.STALLED
        before = self.records[-PATIENCE].relative_gap if len(self.records) >= PATIENCE else inf
        one = self.blocks.count == 1
        return Reason.SLOW if one and self.records[-1].relative_gap > PROGRESS * before else None

    def _report(self, point: Point, gap: Gap, reason: Reason) -> Report:
        y, loss = self.problem.take(slice(None))
        alpha = loss.clamp(y, point[0])  # an average may leave the box by a rounding
        return Report(alpha, point[1], gap, reason, tuple(self.records), self.tally.outcomes, self.tally.products)

    def state_dict(self) -> dict[str, Any]:
        """Everything that moves, as numbers and tensors: save it with ``torch.save``."""
        parts = {"state": self.state, "average": self.average, "momentum": self.momentum}
        return {
            "identity": self._identity(),
            "steps": self.steps,
            "seconds": self.seconds,
            "records": [(record.epoch, record.seconds, record.gap.sums) for record in self.records],
            "tally": self.tally.state_dict(),
            **{name: part.state_dict() for name, part in parts.items() if part},
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from where ``saved`` was taken; ``max_epochs``, ``tol`` and ``max_time`` may differ."""
        mine, theirs = self._identity(), saved["identity"]
        if differing := [name for name in mine if name not in theirs or not _alike(mine[name], theirs[name])]:
            raise StateMismatch(
                f"a saved state must belong to the same problem and settings; {', '.join(differing)} differ. "
                "Use the data, kernel and settings it began with."
            )
        parts = {"state": self.state, "average": self.average, "momentum": self.momentum}
        for name, part in parts.items():
            if part:
                part.load_state_dict(saved[name])
        self.steps, self.seconds = saved["steps"], saved["seconds"]
        self.records = [Record(epoch, seconds, Gap(sums)) for epoch, seconds, sums in saved["records"]]
        self.tally.load_state_dict(saved["tally"])

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
            **{name: getattr(settings, name) for name in ("block_size", "order", "averaging", "momentum", "seed")},
        }


def _mark(values: Rows) -> float:
    """A number that tells rows apart: every row counts with a factor of its own."""
    total = 0.0
    few = max(1, MARKED // values.shape[1])
    for start in range(0, len(values), few):
        rows = values[start : start + few].double()
        factors = torch.arange(start + 1, start + 1 + len(rows), device=rows.device, dtype=rows.dtype).cos()
        total += float(factors @ rows.sum(1))
    return total


def _alike(a: Any, b: Any) -> bool:
    """Equal; numbers in a tuple up to the rounding of another machine."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)):
        return bool(a == b)
    pair = [torch.tensor(numbers, dtype=torch.float64) for numbers in (a, b)]
    return len(a) == len(b) and torch.allclose(pair[0], pair[1], rtol=1e-4, atol=1e-6)
