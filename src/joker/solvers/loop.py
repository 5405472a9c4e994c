"""A solve: the steps of a method, evaluations of the duality gap between them, and limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import torch
from torch import Tensor

from joker.errors import BudgetTooSmall, StateMismatch
from joker.runtime import OutOfMemory, format_bytes, free_bytes, hold_interrupts, peak_bytes, release_memory
from joker.runtime.devices import one_thread
from joker.solvers.block.model import Outcome
from joker.solvers.checkpoint import close, identity
from joker.solvers.methods.choice import choose
from joker.solvers.methods.method import Method, ProblemSize
from joker.solvers.problem import Problem, Settings
from joker.solvers.report import Gap, Point, Reason, Record, Report, certify, certify_in_float64, certify_unrounded
from joker.solvers.state import ExactState, SavedTensors, State

# A problem in one block is given up when this number of evaluations lowers its gap by less than a tenth. Any other one
# is, when the dual objective does not change either, by more than some units in the last place.
SLOW_EVALUATIONS, SLOW_SHARE = 10, 0.9
UNCHANGED = 10
CHECKS = 8  # of the gap in an epoch, where it costs little: a solve need not go on to the end of its last epoch
AIM_SHARE = 0.5  # a gap that rounding errors have hidden must be lower by so much before it is looked at again
ROUNDING_SHARE = 1.1  # of the gap, up to which a bound on rounding errors may increase it where the solve has ended
ONE_BLOCK_EPOCHS = 200  # a problem in one block is solved to its tolerance; each visit gains about one digit

Callback = Callable[[Record], bool | None]  # returns True to stop
Tick = Callable[[], bool | None]  # returns True to stop
ScorePoint = Callable[[Point], Sequence[float]]


class Descent:
    """A solve that can be run, interrupted after any block, saved and continued.

    Where no ``method`` has been chosen, ``settings.method`` decides.
    """

    def __init__(self, state: State, problem: Problem, settings: Settings, method: type[Method] | None = None) -> None:
        self.state, self.problem = state, problem
        chosen = _chosen(state, problem, settings) if method is None else method
        self.settings = settings.decided(method=chosen.name)
        self.method = chosen(state, problem, self.settings)
        self.steps, self.seconds = 0, 0.0
        self.records: list[Record] = []
        self.aim = self.settings.tol  # the gap in working precision at which the certificate is computed
        self.point: Point | None = None  # the point of the latest record, while the callback is called
        self.averaged = False  # whether the point of the latest evaluation may be an average of iterates
        self._counted = False  # whether the gap of the latest record counts rounding errors
        self.whole = True  # False when an error has ended a step before its end

    def run(
        self,
        callback: Callback | None = None,
        tick: Tick | None = None,
        score: ScorePoint | None = None,
        *,
        score_always: bool = True,
    ) -> Report:
        """Descend until the gap is small enough, or a limit of epochs or time is reached.

        ``callback`` gets a record after each evaluation of the gap, while ``point`` is the point of the record;
        ``tick`` is called after each block. Both may return True to stop. ``score`` returns the scores of a point
        for its record: of each record, or, unless ``score_always``, of the last and of some others where an epoch is
        short. An interrupt (Ctrl-C) takes effect between two blocks; ``run`` may then be called again.
        """
        started = time.perf_counter() - self.seconds
        stop = False
        while True:
            limit = self._limit() or (Reason.ASKED if stop else None)
            if limit or self._due():
                with one_thread(self.state.small_operations):
                    due = limit is not None or score_always
                    point, gap, reason = self._evaluate(callback, score, due, limit is not None)
                if reason or limit:
                    self.method.release()
                    reason = reason or limit or Reason.ASKED
                    counts = self.method.statistics.outcomes, self.method.statistics.products
                    return Report(*point, gap, reason, tuple(self.records), *counts)
            with hold_interrupts(), one_thread(self.state.small_operations):
                self.step()
            self.seconds = time.perf_counter() - started
            stop = tick is not None and bool(tick())
            if self.state.group.size > 1 and (tick is not None or self.settings.max_time < inf):
                self.seconds, stopped = self.state.group.numbers(self.seconds, stop)
                stop = bool(stopped)

    def step(self) -> None:
        """Take one step of the method."""
        self.whole = False
        try:
            self.method.step(self.steps)
        except OutOfMemory:
            if self.state.group.size > 1:  # the others have taken their part of the step
                raise
            self._reduce_memory()
            self.step()
        else:
            self.steps += 1
            self.whole = True

    @property
    def epoch(self) -> float:
        """Steps, divided by the number of steps of an epoch."""
        return self.steps / self.method.steps_per_epoch

    @property
    def one_block(self) -> bool:
        """Whether all rows are in one block."""
        return len(self.state.x) <= self.settings.block_size

    @property
    def max_epochs(self) -> float:
        """Epochs after which the descent ends; more than the settings say for a problem in one block."""
        one = self.one_block and self.settings.max_epochs > 0
        return max(self.settings.max_epochs, ONE_BLOCK_EPOCHS if one else 0)

    def start_at(self, alpha: Tensor) -> None:  # (n, t)
        """Begin at the point of the box that is nearest to ``alpha``, before the first step."""
        self.state.reset(self.problem.clamp_(alpha.to(self.state.alpha, copy=True)))
        self.method.restarted()

    def best(self) -> tuple[Point, Gap, Gap]:
        """Return the average or the last iterate, in each column the one with the smaller primal objective.

        Also returned are its gap, with the best dual value of all evaluations, and that of the last iterate. Its α
        shares no memory with the state.
        """
        last, mean = (self.state.alpha, self.state.image), self.method.average()
        self.averaged = mean is not None
        if mean is None:
            gap = certify(self.state, self.problem, [last])[0]
            return (last[0].clone(), last[1]), self._with_best_dual(gap), gap
        mean_gap, last_gap = certify(self.state, self.problem, [mean, last])
        better = mean_gap.primal <= last_gap.primal
        for of_mean, of_last in zip(mean, last, strict=True):
            torch.where(better, of_mean, of_last, out=of_mean)
        gap = Gap(torch.where(better, mean_gap.sums, last_gap.sums))
        return mean, self._with_best_dual(gap, mean_gap, last_gap), last_gap

    def _with_best_dual(self, gap: Gap, *others: Gap) -> Gap:
        """Return a gap with the best dual value of these points and of the earlier records."""
        for other in (*others, *(record.gap for record in self._earlier()[-1:])):  # each has the best one before it
            gap = gap.with_dual(other.dual)
        return gap

    def state_dict(self) -> dict[str, Any]:
        """Return everything that changes during a solve: save it with ``torch.save``."""
        return {
            "identity": identity(self.state, self.problem, self.settings),
            "steps": self.steps,
            "seconds": self.seconds,
            "records": [(r.epoch, r.seconds, r.gap.sums, r.scores, r.peak_bytes) for r in self.records],
            "tally": self.method.statistics.state_dict(),
            # With the images of all processes, so that any number of processes can continue.
            **{name: _with_image(part.state_dict(), self.state.whole_image) for name, part in self._parts().items()},
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from a saved state; ``max_epochs``, ``tol`` and ``max_time`` may differ."""
        if names := self.differing(saved):
            raise StateMismatch(
                f"a saved state must belong to the same problem and settings; {', '.join(names)} differ. "
                "Use the data, kernel and settings it began with."
            )
        if type(saved["steps"]) is not int or saved["steps"] < 0:
            raise StateMismatch(
                f"a saved state must have a whole number of steps of at least 0; got {saved['steps']!r}. Begin the fit "
                "again, without the saved state."
            )
        for name, part in self._parts().items():
            part.load_state_dict(_with_image(saved[name], self.state.own_image))
        self.steps, self.seconds = saved["steps"], saved["seconds"]
        device = self.state.alpha.device
        self.records = [Record(epoch, s, Gap(sums.to(device)), *rest) for epoch, s, sums, *rest in saved["records"]]
        self.method.statistics.load_state_dict(saved["tally"])

    def differing(self, saved: dict[str, Any]) -> list[str]:
        """Return the names of the parts of the problem and settings in which a saved state differs from this solve."""
        ours, theirs = identity(self.state, self.problem, self.settings), saved["identity"]
        return [name for name in ours if name not in theirs or not close(ours[name], theirs[name])]

    def _parts(self) -> dict[str, SavedTensors]:
        return {"state": self.state, **self.method.parts()}

    def _limit(self) -> Reason | None:
        if self.seconds >= self.settings.max_time:
            return Reason.TIME
        return Reason.EPOCHS if self.epoch >= self.max_epochs else None

    def _interval_ended(self) -> bool:
        """Return whether the epochs between two evaluations have just ended."""
        return self.steps > 0 and self.steps % (self.method.steps_per_epoch * self.settings.gap_every) == 0

    def _check_due(self) -> bool:
        """Return whether a check of the gap belongs to this step."""
        interval = max(1, self.method.steps_per_epoch // CHECKS)
        return self.method.finished or (self.method.quick_gap and self.steps > 0 and self.steps % interval == 0)

    def _reached(self) -> bool:
        """Return whether the gap of the last iterate is small enough, without a record."""
        last = (self.state.alpha, self.state.image)
        return certify(self.state, self.problem, [last])[0].worst <= self.aim

    def _due(self) -> bool:
        """Return whether to evaluate the gap now; not a second time for the same epoch."""
        last = self.records[-1] if self.records else None
        if last is not None and last.epoch == self.epoch and last.relative_gap > self.settings.tol:
            return False
        return self._interval_ended() or (self._check_due() and self._reached())

    def _evaluate(
        self, callback: Callback | None, score: ScorePoint | None, score_due: bool, final: bool
    ) -> tuple[Point, Gap, Reason | None]:
        """Evaluate the gap and store a record; return the point, its gap, and a reason to stop if there is one."""
        self._release_tiles()
        self.state.group.broadcast_(self.state.alpha)  # other processors may round differently
        point, gap, last_gap = self._best_with_less_memory()
        # An average may leave the box by a rounding error. The gap is that of the α that is returned, so α moves first:
        # the shares of classes move each time that they are clamped, and a large α changes the predictions.
        self.problem.clamp_(point[0])
        certified = False
        if gap.worst <= self.aim:  # the proof must not use an image with the rounding of thousands of steps
            point, gap = self._recompute(point[0], self.state.alpha if self.averaged else None, last_gap)
            if gap.worst <= self.settings.tol:
                bounded = self._bounded(point, gap, self._enough(gap))
                missing, excess = bounded.worst - self.settings.tol, bounded.worst - gap.worst
                if missing > 0 and excess <= AIM_SHARE * self.settings.tol and self.state.exact and not final:
                    self.aim, gap = self.settings.tol - excess, bounded  # further steps cost less than float64
                else:
                    (point, gap), certified = self._unrounded(point, gap, bounded), True
                    self.aim *= 1.0 if gap.worst <= self.settings.tol else AIM_SHARE
            if gap.worst > self.settings.tol and (self._interval_ended() or self._check_due()):
                self.state.reset(self.state.alpha, None if self.averaged else point[1])
        if self._interval_ended():
            with hold_interrupts():
                self.method.epoch_ended(last_gap)
        reason = self._reason(gap, certified)
        if (reason is not None or final) and not certified:
            if reason in (Reason.STALLED, Reason.SLOW):
                point, gap = self._recompute(point[0])
            point, gap = self._unrounded(point, gap)
            if reason is Reason.STALLED and gap.worst <= self.settings.tol:
                reason = Reason.TOLERANCE
        elif score is not None and not certified:  # the point of any record may be the one that is returned
            gap = self._bounded(point, gap)
        self._counted = certified or final or reason is not None or score is not None
        self._release_tiles()
        due = score_due or reason is not None or self.method.long_epochs or _is_round(self.steps)
        scores = tuple(score(point)) if score is not None and due else ()
        record = Record(self.epoch, self.seconds, gap, scores, peak_bytes(self.state.alpha.device))
        self.records = [*self._earlier(), record]
        stop = self.state.group.decide(callback is not None and self._call(callback, point))
        if stop and not (reason or final or certified):
            point, gap = self._unrounded(point, gap)
            self.records[-1] = record = replace(record, gap=gap)
        if stop and score is not None and not scores:
            self.records[-1] = replace(record, scores=tuple(score(point)))
        return point, gap, reason or (Reason.ASKED if stop else None)

    def _recompute(self, alpha: Tensor, other: Tensor | None = None, last_gap: Gap | None = None) -> tuple[Point, Gap]:
        """Return α with an image computed anew, and its gap, with the dual value of ``other``.

        ``last_gap`` is that of the state, where it has been computed.
        """
        known = self.state.fresh and torch.equal(alpha, self.state.alpha)
        point = (alpha, self.state.image.clone() if known else self.state.image_of(alpha))
        gap = last_gap if known and last_gap is not None else certify(self.state, self.problem, [point])[0]
        if other is not None and gap.worst > self.settings.tol:
            gap = gap.with_dual(certify(self.state, self.problem, [(other, self.state.image_of(other))])[0].dual)
        return point, gap

    def _enough(self, gap: Gap) -> float:
        """Return the gap at which a bound on rounding errors is small enough."""
        return max(self.settings.tol, ROUNDING_SHARE * gap.worst)

    def _unrounded(self, point: Point, gap: Gap, bounded: Gap | None = None) -> tuple[Point, Gap]:
        """Return a point with a gap that counts rounding errors, which ``gap`` leaves out.

        A bound on them is enough where it keeps the tolerance, or hardly changes the gap, and where time is up: a pass
        over all rows may take longer than the fit. Else the image is computed in float64.
        """
        bounded = self._bounded(point, gap, self._enough(gap)) if bounded is None else bounded
        better = bounded.worst <= ROUNDING_SHARE * gap.worst and bool((bounded.dual < 0).all())  # than α = 0
        wide = self.state.alpha.dtype == torch.float64
        late = self._limit() is Reason.TIME
        if late or wide or bounded.worst <= self.settings.tol or better or not bool(gap.sums.isfinite().all()):
            return point, bounded
        precise = certify_in_float64(self.state, self.problem, point, self.settings.seed)
        return (point, bounded) if bounded.worst < precise[1].worst else precise

    def _bounded(self, point: Point, gap: Gap, enough: float = inf) -> Gap:
        """Return the gap of a point with a bound on its rounding errors; in float64 all earlier dual values count."""
        others = [(self.state.alpha, self.state.image)] if self.averaged else []
        dual = gap.dual if self.state.alpha.dtype == torch.float64 else None
        points, seed = [point, *others], self.settings.seed
        return certify_unrounded(self.state, self.problem, points, seed, dual=dual, enough=enough)

    def count_rounding(self) -> None:
        """Let the gap of the latest record count rounding errors: its point is to be used. While a callback runs."""
        if self.point is not None and not self._counted:
            self.records[-1] = replace(self.records[-1], gap=self._bounded(self.point, self.records[-1].gap))
            self._counted = True

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

    def _reason(self, gap: Gap, certified: bool) -> Reason | None:
        stalled = self.method.statistics.stalled()
        if self.method.statistics.outcomes[Outcome.BROKEN] or bool(gap.sums.isnan().any()):
            return Reason.BROKEN
        if certified and gap.worst <= self.settings.tol:
            return Reason.TOLERANCE
        if stalled:
            return Reason.STALLED
        earlier = self._earlier()[1 - SLOW_EVALUATIONS :]
        if len(earlier) < SLOW_EVALUATIONS - 1 or gap.worst <= SLOW_SHARE * earlier[0].relative_gap:
            return None
        if self.one_block:
            return Reason.SLOW
        rounding = UNCHANGED * torch.finfo(self.state.alpha.dtype).eps * gap.dual.abs()
        unchanged = bool((earlier[0].gap.dual - gap.dual <= rounding).all())
        return Reason.STALLED if unchanged else None

    def _release_tiles(self) -> None:
        """Return the memory of freed tiles to the system, so that the next phase does not add to it; not on a GPU."""
        state = self.state
        if state.alpha.device.type == "cpu" and state.small_operations and not (state.keeps_memory or self.one_block):
            release_memory(state.alpha.device)

    def _best_with_less_memory(self) -> tuple[Point, Gap, Gap]:
        """Return `best`, after freeing what can be computed again where the device has too little memory."""
        try:
            return self.best()
        except OutOfMemory:
            if self.state.group.size > 1:  # the others have taken their part
                raise
            self.method.release()
            release_memory(self.state.alpha.device)
            return self.best()

    def _reduce_memory(self) -> None:
        """Free all that can be computed again, and let a step use less scratch space."""
        self.method.release()
        release_memory(self.state.alpha.device)
        if not self.state.shrink():
            needed, free = self.state.scratch_bytes, free_bytes(self.state.alpha.device)
            raise BudgetTooSmall(
                f"the device must have room for a block of {self.settings.block_size} rows; "
                f"{format_bytes(free)} are free and about {format_bytes(needed)} are needed: "
                f"{format_bytes(max(needed - free, 0))} are missing. "
                "Use a smaller block_size, or free memory on the device."
            )


def _with_image(saved: dict[str, Any], convert: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """Return saved tensors, of which the image of α, where there is one, is converted."""
    return saved | {name: convert(saved[name]) for name in ("image",) if name in saved}


def _is_round(n: int) -> bool:
    """Return whether a number is 1, 2, 3, 4, 6, 8, 12, 16 and so on."""
    return n >> max(0, n.bit_length() - 2) << max(0, n.bit_length() - 2) == n


def _chosen(state: State, problem: Problem, settings: Settings) -> type[Method]:
    """Return the method for a state whose caller has planned no memory for a Gram matrix."""
    size = ProblemSize(
        loss=problem.loss,
        rows=len(state.x),
        columns=problem.targets.t,
        n_features=None if isinstance(state, ExactState) else len(state.image),
        block_size=settings.block_size,
        one_penalty=len(problem.targets.lam.unique()) == 1,
        momentum=settings.momentum,
        on_gpu=state.alpha.is_cuda,
        gram_room=0,
    )
    return choose(settings.method, size)
