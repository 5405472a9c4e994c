"""Successive halving over kernels, bandwidths and λ: many candidates on few rows, few candidates on many rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest

from joker.distributed import current
from joker.kernels import Kernel

FIRST_BANDWIDTHS = (1 / 2, 1 / 4)  # the first bandwidths of each kernel, as multiples of the median distance
COARSE_STEP = 2.0  # the factor between one bandwidth and the next
FINE_STEP = 2**0.5  # the last factor in every stage except the first
MAX_BANDWIDTH_STEPS = 5  # in one direction
WIDENING_STAGES = 2  # the stages that may try wider bandwidths, and larger feature weights, than their first one
FIRST_LAMBDAS = (10.0, 1.0, 0.1, 0.01)  # no smaller ones: they take longest, and later stages can reach them
SECOND_LAMBDAS = (10**0.5, 1.0, 10**-0.5)  # multiples of the best λ so far, for the second stage
LATER_LAMBDAS = (1.0, 10**-0.5, 0.1)  # the same for later stages: with more rows the best λ falls, if it moves
MAX_LOSS_EXCESS = 0.1  # as a share of the smallest loss: a kernel with a larger excess is dropped
HOPELESS_LOSS = 1.5  # times the smallest loss: a bandwidth with more is not tried again on more rows
MIN_WEIGHTING_GAIN = 0.02  # share of the loss by which weighted inputs must be better than equal weights
FIRST_STAGE_ROWS = 1_024
STAGE_GROWTH = 4  # approximate ratio of the rows of two stages, up to the stage with a quarter of the rows
MIN_QUARTER_ROWS = 2_048  # rows of the last stage but one, at least; else a quarter of all rows
MIN_LAST_ROWS = 4_096  # rows of the last stage, at least; else half of all rows


def _now() -> float:
    return time.perf_counter()  # looked up at each call, so that another clock may be in its place


@dataclass
class TimeBudget:
    """Seconds after which a search ends, whatever is planned. In a group of processes, the clock of rank 0 decides.

    It only ends a search: what is searched, and in which order, does not depend on the clock.
    """

    limit: float = math.inf  # seconds
    started: float = field(default_factory=_now)
    stopped: bool = field(default=False, init=False)  # whether the limit has ended something

    @property
    def spent(self) -> float:
        """The seconds since the start."""
        return current().numbers(time.perf_counter() - self.started)[0]

    @property
    def left(self) -> float:
        """The seconds until the limit, at least 0; infinity without a limit."""
        return max(0.0, self.limit - self.spent) if math.isfinite(self.limit) else math.inf

    def is_over(self) -> bool:
        """Whether the limit is reached; who asks then ends what it does."""
        over = self.left <= 0
        self.stopped |= over
        return over


@dataclass(frozen=True)
class Family:
    """A kernel, its first bandwidths, and the λ if they are given."""

    kernel: str | Kernel
    bandwidths: tuple[float, ...]
    free_bandwidths: bool = True  # whether other bandwidths may be tried
    lam: tuple[float, ...] | None = None
    powers: tuple[float, ...] = (0.0,)  # powers of the feature weights that may be tried, the first one first

    def first(self) -> list[Candidate]:
        """The candidates of the first stage."""
        return [Candidate(self, sigma, self.lam or FIRST_LAMBDAS, self.powers[0]) for sigma in self.bandwidths]

    def around(self, lam: float, factors: Sequence[float]) -> tuple[float, ...]:
        """The λ to try if ``lam`` was the best: multiples of it, or it and its neighbours among the given λ."""
        if self.lam is None:
            return tuple(lam * factor for factor in factors)
        ordered = sorted(self.lam)
        place = ordered.index(lam)
        return tuple(ordered[max(place - 1, 0) : place + 2])


@dataclass(frozen=True)
class Candidate:
    """A kernel, a bandwidth, the power of the feature weights, and several λ, which are tried in one fit."""

    family: Family
    bandwidth: float
    lam: tuple[float, ...]
    power: float = 0.0

    def is_like(self, other: Candidate, factor: float = 1.0) -> bool:
        """Whether kernel and power are the same, and the bandwidths are equal up to a factor."""
        same = self.family is other.family and self.power == other.power
        return same and abs(math.log(self.bandwidth / other.bandwidth)) <= math.log(factor) + 1e-3


@dataclass(frozen=True)
class Trial:
    """The result of one λ of a candidate."""

    stage: int
    rows: int
    candidate: Candidate
    lam: float
    loss: float  # lower is better
    score: float  # higher is better
    seconds: float

    def merit(self, by_score: bool) -> tuple[float, float]:
        """The key that is largest for the best trial. Equal losses are ranked by λ, and equal scores by the loss.

        Weights of inputs are many more numbers that were chosen on these rows, so they must reduce the loss enough.
        """
        handicap = MIN_WEIGHTING_GAIN * abs(self.loss) if self.candidate.power else 0.0
        return (self.score, -self.loss) if by_score else (-self.loss - handicap, self.lam)


Steps = Generator[Candidate, Sequence[Trial], Trial | None]  # asks for the trials of candidates, one after the other


class Search:
    """Successive halving of the kernels, with a search for the bandwidth in every stage.

    Candidates that are run together do not depend on each other: they are the first ones of a stage, or the next one of
    each kernel. At most ``max_candidates`` are run, and those of a search with a smaller number are the first ones.

    Losses compare trials, unless ``by_score``: the loss is a mean over all held-out rows and separates bandwidths on
    far fewer rows than an accuracy, which only counts rows.
    """

    def __init__(
        self,
        # The trials of candidates of a stage, on so many rows; of the first ones only, where time is up.
        run: Callable[[int, int, Sequence[Candidate]], Sequence[Sequence[Trial]]],
        *,
        max_candidates: float = math.inf,  # each with several λ
        by_score: bool = False,
        final_lam_by_score: bool = False,  # whether scores choose the λ of the winner
        stop_when_stable: bool = False,  # whether a stage that changes nothing is the last
        out_of_time: Callable[[], bool] = lambda: False,  # asked before each candidate, and not before the first trials
        reweight: Callable[[Candidate, float], Candidate | None] = lambda candidate, power: None,  # a power of ARD
    ) -> None:
        self.run, self.out_of_time, self.reweight = run, out_of_time, reweight
        self.by_score, self.final_lam_by_score = by_score, final_lam_by_score
        self.stop_when_stable, self.candidates_left = stop_when_stable, max_candidates
        self.trials: list[Trial] = []

    def best(self, families: Sequence[Family], rows: Sequence[int], default: Candidate | None = None) -> Trial:
        """Run stages with these numbers of rows, until one changes nothing or is the last; return its best trial.

        The last stage also tries ``default``, beside the candidates that are left, so that the result is at least as
        good.
        """
        # The first bandwidth of every kernel, then the second: there may be no more candidates.
        by_place = zip_longest(*(family.first() for family in families))
        candidates = [candidate for place in by_place for candidate in place if candidate is not None]
        for stage, size in enumerate(rows):
            if self.trials and self._is_over():
                break
            before = self._ranked()[0].candidate if self.trials else None
            self._run_searches(stage, size, (self._try(stage, candidate) for candidate in _distinct(candidates)))
            if stage == 0:
                self._run_searches(0, size, self._narrower())
            self._run_searches(stage, size, [self._search_bandwidth(stage, trial) for trial in self._leaders()])
            stable = before is not None and self._ranked()[0].candidate.is_like(before, FINE_STEP)
            if self.stop_when_stable and stable:
                break
            candidates = self._next(len(families), stage + 1)
        if default is not None:
            self._try_default(default)
        winner = self._ranked()[0]
        same = [trial for trial in self.trials if (trial.stage, trial.candidate) == (winner.stage, winner.candidate)]
        return max(same, key=lambda trial: trial.merit(self.by_score or self.final_lam_by_score))

    def _run_searches(self, stage: int, rows: int, searches: Iterable[Steps]) -> None:
        """Run searches that do not depend on each other; ``trials`` has their trials in the order of the searches."""
        before, waiting = len(self.trials), {steps: next(steps, None) for steps in searches}
        own: dict[Steps, list[Trial]] = {steps: [] for steps in waiting}
        while running := {steps: asked for steps, asked in waiting.items() if asked is not None}:
            # Those that have no trials when time is up, and so end, are the last ones.
            together = list(zip(running, self.run(stage, rows, list(running.values())), strict=False))
            for steps, found in together:
                self.trials += found
                own[steps] += found
            waiting = {steps: _next_candidate(steps, found) for steps, found in together}
        self.trials[before:] = chain(*own.values())

    def _is_over(self) -> bool:
        """Whether no further candidate is run."""
        return self.candidates_left <= 0 or self.out_of_time()

    def _try(self, stage: int, candidate: Candidate) -> Steps:
        """The best trial of a candidate, which is run unless this stage has run it already; None if none is left."""
        ranked = self._ranked() if self.trials and self.trials[-1].stage == stage else []
        for trial in ranked:
            if trial.candidate.is_like(candidate):
                return trial
        if self.trials and self._is_over():
            return None
        if self.candidates_left <= 0:
            return None
        self.candidates_left -= 1
        return max((yield candidate), key=self._merit)

    def _try_default(self, default: Candidate) -> None:
        """Run the default in the latest stage, unless that has tried its kernel, bandwidth and λ."""
        last = self.trials[-1]
        known = [t.lam for t in self.trials if t.stage == last.stage and t.candidate.is_like(default)]
        if missing := tuple(lam for lam in default.lam if not any(math.isclose(lam, other) for other in known)):
            self.trials += self.run(last.stage, last.rows, [replace(default, lam=missing)])[0]

    def _narrower(self) -> list[Steps]:
        """Return a search of the first stage for each kernel whose narrowest bandwidth is its best so far.

        Later stages begin with one bandwidth of each kernel, and only with kernels that may still win.
        """
        return [
            self._walk(0, trial, 1 / COARSE_STEP)
            for family, trial in self._best_by_family().items()
            if family.free_bandwidths and trial.candidate.bandwidth == min(family.bandwidths)
        ]

    def _search_bandwidth(self, stage: int, best: Trial) -> Steps:
        """Halve the bandwidth while that helps, then try a step of √2.

        The first stage tries wider bandwidths if no narrower one helps. Coarse steps come first, because with random
        features one bandwidth may be bad by chance and a fine step would stop there. With more rows the best bandwidth
        shrinks, if it moves, so that stages after the second try none that is wider than their first.
        """
        if not best.candidate.family.free_bandwidths or best.stage != stage:
            return best
        start = best = best if stage == 0 else (yield from self._search_power(stage, best))
        best = yield from self._walk(stage, start, 1 / COARSE_STEP)
        if stage == 0:
            best = (yield from self._walk(stage, start, COARSE_STEP)) if best is start else best
            return (yield from self._search_power(stage, best))
        finer = yield from self._walk(stage, best, 1 / FINE_STEP, 1)
        if finer is best and (best is not start or stage < WIDENING_STAGES):
            return (yield from self._walk(stage, best, FINE_STEP, 1))
        return finer

    def _search_power(self, stage: int, best: Trial) -> Generator[Candidate, Sequence[Trial], Trial]:
        """Try every other power of the feature weights; from the third stage smaller ones only.

        With many rows a kernel can use inputs of little relevance without weights.
        """
        power = best.candidate.power
        for step in best.candidate.family.powers:
            if step == power or (step > power and stage >= WIDENING_STAGES):
                continue
            candidate = self.reweight(best.candidate, step)
            trial = None if candidate is None else (yield from self._try(stage, candidate))
            best = best if trial is None or self._merit(trial)[0] <= self._merit(best)[0] else trial
        return best

    def _walk(
        self, stage: int, best: Trial, factor: float, steps: int = MAX_BANDWIDTH_STEPS
    ) -> Generator[Candidate, Sequence[Trial], Trial]:
        """Multiply the bandwidth by ``factor`` while that helps; return the best trial."""
        for _ in range(steps):
            candidate = replace(best.candidate, bandwidth=best.candidate.bandwidth * factor)
            trial = None if self._hopeless(stage, candidate) else (yield from self._try(stage, candidate))
            if trial is None or self._merit(trial)[0] <= self._merit(best)[0]:
                break
            best = trial
        return best

    def _hopeless(self, stage: int, candidate: Candidate) -> bool:
        """Whether a candidate had a far larger loss than the best one in the stage before, on fewer rows."""
        before = [trial for trial in self.trials if trial.stage == stage - 1]
        losses = [trial.loss for trial in before if trial.candidate.is_like(candidate)]
        return bool(losses) and min(losses) > HOPELESS_LOSS * min(trial.loss for trial in before) > 0

    def _merit(self, trial: Trial) -> tuple[float, float]:
        return trial.merit(self.by_score)

    def _ranked(self) -> list[Trial]:
        """The best trial of each candidate of the latest stage, sorted from the best."""
        latest = [trial for trial in self.trials if trial.stage == self.trials[-1].stage]
        best: dict[Candidate, Trial] = {}
        for trial in sorted(latest, key=self._merit, reverse=True):
            best.setdefault(trial.candidate, trial)
        return list(best.values())

    def _best_by_family(self) -> dict[Family, Trial]:
        """The best trial of each family in the latest stage, sorted from the best."""
        best: dict[Family, Trial] = {}
        for trial in self._ranked():
            best.setdefault(trial.candidate.family, trial)
        return best

    def _leaders(self) -> list[Trial]:
        """The best trial of each family that may still win."""
        first, *others = self._best_by_family().values()
        limit = first.loss + MAX_LOSS_EXCESS * abs(first.loss)
        return [first, *(trial for trial in others if self.by_score or trial.loss <= limit)]

    def _next(self, families: int, stage: int) -> list[Candidate]:
        """The first candidates of a stage: the leaders of half as many families, with λ around the best."""
        kept = self._leaders()[: max(math.ceil(families / 2**stage), 2 if stage == 1 else 1)]
        factors = SECOND_LAMBDAS if stage == 1 else LATER_LAMBDAS
        return [replace(t.candidate, lam=t.candidate.family.around(t.lam, factors)) for t in kept]


def _next_candidate(steps: Steps, found: Sequence[Trial]) -> Candidate | None:
    """Give a search the trials that it asked for; return the next candidate that it asks for, None at its end."""
    try:
        return steps.send(found)
    except StopIteration:
        return None


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates without those that are like an earlier one."""
    return [c for i, c in enumerate(candidates) if not any(c.is_like(other) for other in candidates[:i])]


def stage_rows(pool: int) -> list[int]:
    """Return the number of rows of each stage, if there are ``pool`` rows to train on."""
    first, quarter = min(FIRST_STAGE_ROWS, pool), min(pool, max(MIN_QUARTER_ROWS, pool // 4))
    steps = max(1, round(math.log(quarter / first, STAGE_GROWTH)))
    rows = [round(first * (quarter / first) ** (step / steps)) for step in range(steps + 1)]
    last = min(pool, max(MIN_LAST_ROWS, pool // 2))
    return [*rows, last] if last > quarter else rows
