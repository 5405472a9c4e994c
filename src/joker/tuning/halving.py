"""A search over kernels, bandwidths and λ by successive halving: many on few rows, few on many rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from joker.kernels import Kernel

OCTAVES = (1 / 2, 1 / 4)  # bandwidths that each kernel begins with, as multiples of the median distance
COARSE, FINE = 2.0, 2**0.5  # steps from one bandwidth to the next, and the last step of each stage but the first
MOST_STEPS = 5  # in one direction
WIDENING = 2  # stages that try wider bandwidths than they begin with
DECADES = (10.0, 1.0, 0.1, 0.01)  # λ of the first stage: small ones cost most, and later stages may reach them
WINDOW = (10**0.5, 1.0, 10**-0.5)  # λ of the second stage, around the best
BELOW = (1.0, 10**-0.5, 0.1)  # and of those with many rows: as rows are added the best λ falls, if it moves
BEHIND = 0.1  # a kernel goes on where its loss is larger than the best by such a share at most
HOPELESS = 1.5  # times the loss of the best, from which on a bandwidth is not tried again on more rows
HANDICAP = 0.02  # the share of its loss by which a trial with weighted inputs has to be better than one without
FIRST_ROWS, QUARTER = 1_024, 2_048  # the last but one stage has a quarter of the rows where these are more,
LAST_ROWS = 4_096  # and the last has half of them where these are more
GROWTH = 4  # of the rows from stage to stage before these, or nearly


@dataclass(frozen=True)
class Family:
    """A kernel, the bandwidths to begin with, and the λ where they are given."""

    kernel: str | Kernel
    bandwidths: tuple[float, ...]
    open: bool = True  # whether other bandwidths may be tried
    lam: tuple[float, ...] | None = None
    powers: tuple[float, ...] = (0.0,)  # of the relevance of inputs, those that may be tried; the first to begin with

    def first(self) -> list[Candidate]:
        """The candidates of the first stage."""
        return [Candidate(self, sigma, self.lam or DECADES, self.powers[0]) for sigma in self.bandwidths]

    def around(self, lam: float, window: Sequence[float]) -> tuple[float, ...]:
        """The λ to try where ``lam`` was the best: a window of multiples, or its neighbours among the given."""
        if self.lam is None:
            return tuple(lam * factor for factor in window)
        ordered = sorted(self.lam)
        place = ordered.index(lam)
        return tuple(ordered[max(place - 1, 0) : place + 2])


@dataclass(frozen=True)
class Candidate:
    """A kernel, a bandwidth and some λ, which are tried in one fit, and how much the relevance of inputs counts."""

    family: Family
    bandwidth: float
    lam: tuple[float, ...]
    power: float = 0.0

    def is_like(self, other: Candidate, factor: float = 1.0) -> bool:
        """Whether kernel, relevance and bandwidth are the same, the last up to a factor."""
        same = self.family is other.family and self.power == other.power
        return same and abs(math.log(self.bandwidth / other.bandwidth)) <= math.log(factor) + 1e-3


@dataclass(frozen=True)
class Trial:
    """How one λ of a candidate did."""

    stage: int
    rows: int
    candidate: Candidate
    lam: float
    loss: float  # lower is better
    score: float  # higher is better
    seconds: float

    def merit(self, by_score: bool) -> tuple[float, float]:
        """What the best trial has most of; of equals, the penalty decides, or the loss where scores are compared.

        Weights of inputs are many more numbers that rows have chosen, and so have to be worth it.
        """
        handicap = HANDICAP * abs(self.loss) if self.candidate.power else 0.0
        return (self.score, -self.loss) if by_score else (-self.loss - handicap, self.lam)


class Search:
    """Successive halving of the kernels, with a climb along the bandwidths in every stage.

    Parameters
    ----------
    run : callable
        ``run(stage, rows, candidate)`` gives a trial for each λ of the candidate.
    by_score : bool
        Whether trials are compared by their scores, and not by their losses. An accuracy counts rows; the loss, which
        is a mean over all of them, tells bandwidths apart by far fewer.
    settle_by_score : bool
        Whether scores decide between the λ of the winner, whatever has decided before.
    out_of_time : callable
        Asked before each candidate but the first; True ends the search.
    settles : bool
        Whether a stage that stays where it began is the last: with more rows the best bandwidth moves on steadily
        or hardly at all.
    weigh : callable
        ``weigh(candidate, power)`` gives the candidate with inputs weighted by that power of their relevance;
        None where it is not known.
    """

    def __init__(
        self,
        run: Callable[[int, int, Candidate], Sequence[Trial]],
        *,
        by_score: bool = False,
        settle_by_score: bool = False,
        settles: bool = False,
        out_of_time: Callable[[], bool] = lambda: False,
        weigh: Callable[[Candidate, float], Candidate | None] = lambda candidate, power: None,
    ) -> None:
        self.run, self.out_of_time, self.weigh = run, out_of_time, weigh
        self.by_score, self.settle_by_score, self.settles = by_score, settle_by_score, settles
        self.trials: list[Trial] = []

    def best(self, families: Sequence[Family], rows: Sequence[int]) -> Trial:
        """Search in stages of so many rows, until one settles or is the last, and return its winner."""
        candidates = [candidate for family in families for candidate in family.first()]
        for stage, size in enumerate(rows):
            before = self._ranked()[0].candidate if self.trials else None
            for candidate in candidates:
                self._try(stage, size, candidate)
            self._narrow(stage, size)
            for trial in self._leaders():
                self._climb(stage, size, trial)
            if self.settles and before is not None and self._ranked()[0].candidate.is_like(before, FINE):
                break
            candidates = self._next(len(families), stage + 1)
        winner = self._ranked()[0]
        own = [trial for trial in self.trials if (trial.stage, trial.candidate) == (winner.stage, winner.candidate)]
        return max(own, key=lambda trial: trial.merit(self.by_score or self.settle_by_score))

    def _try(self, stage: int, rows: int, candidate: Candidate) -> Trial | None:
        """The best trial of a candidate, which is run unless this stage has run it; None where time is up."""
        ranked = self._ranked() if self.trials and self.trials[-1].stage == stage else []
        for trial in ranked:
            if trial.candidate.is_like(candidate):
                return trial
        if self.trials and self.out_of_time():
            return None
        found = self.run(stage, rows, candidate)
        self.trials += found
        return max(found, key=self._merit)

    def _narrow(self, stage: int, rows: int) -> None:
        """Follow each kernel whose narrowest bandwidth is the best of those it begins with: it is not judged by that.

        Later stages begin with one bandwidth of a kernel, and only of those that may yet win.
        """
        for family, trial in self._by_family().items() if stage == 0 else ():
            if family.open and trial.candidate.bandwidth == min(family.bandwidths):
                self._walk(stage, rows, trial, 1 / COARSE)

    def _climb(self, stage: int, rows: int, best: Trial) -> None:
        """Move by octaves to narrower bandwidths while that helps; then by half an octave.

        The first stage moves to wider ones where no narrower one helps. The loss need not fall all the way to its
        bottom: with random features one bandwidth may be unlucky, so that a first step of half an octave would stop
        too soon. With more rows the best bandwidth shrinks, if it moves: from the third stage on none is tried
        that is wider than the first.
        """
        if not best.candidate.family.open or best.stage != stage:
            return
        start = best = best if stage == 0 else self._weigh(stage, rows, best)
        best = self._walk(stage, rows, start, 1 / COARSE)
        if stage == 0:
            best = self._walk(stage, rows, start, COARSE) if best is start else best
            self._weigh(stage, rows, best)
            return
        finer = self._walk(stage, rows, best, 1 / FINE, 1)
        if finer is best and (best is not start or stage < WIDENING):
            self._walk(stage, rows, best, FINE, 1)

    def _weigh(self, stage: int, rows: int, best: Trial) -> Trial:
        """Let relevance count for more as long as that helps; from the second stage on for less.

        With more rows a kernel finds out by itself what inputs of little relevance have to say.
        """
        power, every = best.candidate.power, best.candidate.family.powers
        steps = [p for p in every if p > power] if stage == 0 else [p for p in reversed(every) if p < power]
        for step in steps:
            candidate = self.weigh(best.candidate, step)
            trial = None if candidate is None else self._try(stage, rows, candidate)
            if trial is None or self._merit(trial)[0] <= self._merit(best)[0]:
                break
            best = trial
        return best

    def _walk(self, stage: int, rows: int, best: Trial, factor: float, most: int = MOST_STEPS) -> Trial:
        """Multiply the bandwidth by ``factor`` as long as that helps; return where it ends."""
        for _ in range(most):
            candidate = replace(best.candidate, bandwidth=best.candidate.bandwidth * factor)
            trial = None if self._hopeless(stage, candidate) else self._try(stage, rows, candidate)
            if trial is None or self._merit(trial)[0] <= self._merit(best)[0]:
                break
            best = trial
        return best

    def _hopeless(self, stage: int, candidate: Candidate) -> bool:
        """Whether the stage before, on fewer rows, has shown that a candidate loses by far."""
        before = [trial for trial in self.trials if trial.stage == stage - 1]
        own = [trial.loss for trial in before if trial.candidate.is_like(candidate)]
        return bool(own) and min(own) > HOPELESS * min(trial.loss for trial in before) > 0

    def _merit(self, trial: Trial) -> tuple[float, float]:
        return trial.merit(self.by_score)

    def _ranked(self) -> list[Trial]:
        """The best trial of each candidate of the latest stage, the best of all first."""
        latest = [trial for trial in self.trials if trial.stage == self.trials[-1].stage]
        best: dict[Candidate, Trial] = {}
        for trial in sorted(latest, key=self._merit, reverse=True):
            best.setdefault(trial.candidate, trial)
        return list(best.values())

    def _by_family(self) -> dict[Family, Trial]:
        """The best trial of each family in the latest stage, the best of all first."""
        best: dict[Family, Trial] = {}
        for trial in self._ranked():
            best.setdefault(trial.candidate.family, trial)
        return best

    def _leaders(self) -> list[Trial]:
        """The best trial of each family that may yet win."""
        first, *others = self._by_family().values()
        limit = first.loss + BEHIND * abs(first.loss)
        return [first, *(trial for trial in others if self.by_score or trial.loss <= limit)]

    def _next(self, families: int, stage: int) -> list[Candidate]:
        """The candidates of a stage: those that lead half as many families as before, with λ around their best."""
        kept = self._leaders()[: max(math.ceil(families / 2**stage), 2 if stage == 1 else 1)]
        window = WINDOW if stage == 1 else BELOW
        return [replace(t.candidate, lam=t.candidate.family.around(t.lam, window)) for t in kept]


def sizes(pool: int) -> list[int]:
    """The rows of each stage, where there are ``pool`` rows in all."""
    first, quarter = min(FIRST_ROWS, pool), min(pool, max(QUARTER, pool // 4))
    steps = max(1, round(math.log(quarter / first, GROWTH)))
    grown = [round(first * (quarter / first) ** (step / steps)) for step in range(steps + 1)]
    last = min(pool, max(LAST_ROWS, pool // 2))
    return [*grown, last] if last > quarter else grown
