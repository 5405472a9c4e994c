"""A search over kernels, bandwidths and λ by successive halving: many on few rows, few on many rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from joker.kernels import Kernel

OCTAVES = (1.0, 1 / 2, 1 / 4, 1 / 8)  # bandwidths of the first stage, as multiples of the median distance
MOST_STEPS = 4  # of a climb in one direction
FINER = 2**0.5  # its step in the last stage; it is an octave in the others
DECADES = (10.0, 1.0, 0.1, 0.01)  # λ of the first stage: small ones cost most, and later stages may reach them
WINDOW = (10**0.5, 1.0, 10**-0.5)  # λ of later ones, around the best
BELOW = (1.0, 10**-0.5, 0.1)  # and of the stage with half the rows: the best λ falls as rows are added
FIRST_ROWS = 1_024
LAST_ROWS = 4_096  # the last search along the bandwidths has as many, or a share of the rows where that is more
GROWTH = 4  # of the rows from stage to stage, or nearly


@dataclass(frozen=True)
class Family:
    """A kernel, the bandwidths to begin with, and the λ where they are given."""

    kernel: str | Kernel
    bandwidths: tuple[float, ...]
    open: bool = True  # whether other bandwidths may be tried
    lam: tuple[float, ...] | None = None

    def first(self) -> list[Candidate]:
        """The candidates of the first stage."""
        return [Candidate(self, sigma, self.lam or DECADES) for sigma in self.bandwidths]

    def around(self, lam: float, window: Sequence[float] = WINDOW) -> tuple[float, ...]:
        """The λ to try where ``lam`` was the best."""
        if self.lam is None:
            return tuple(lam * factor for factor in window)
        ordered = sorted(self.lam)
        place = ordered.index(lam)
        return tuple(ordered[max(place - 1, 0) : place + 2])


@dataclass(frozen=True)
class Candidate:
    """A kernel, a bandwidth and some λ, which are tried in one fit."""

    family: Family
    bandwidth: float
    lam: tuple[float, ...]

    def is_like(self, other: Candidate) -> bool:
        """Whether kernel and bandwidth are the same."""
        return self.family is other.family and math.isclose(self.bandwidth, other.bandwidth, rel_tol=1e-3)


@dataclass(frozen=True)
class Trial:
    """How one λ of a candidate did."""

    stage: int
    rows: int
    candidate: Candidate
    lam: float
    score: float
    seconds: float

    @property
    def rank(self) -> tuple[float, float]:
        """What the best trial has most of: score, and of equal scores the penalty."""
        return self.score, self.lam


class Search:
    """Successive halving of the kernels, with a climb along the bandwidths in every stage.

    Parameters
    ----------
    run : callable
        ``run(stage, rows, candidate)`` gives a trial for each λ of the candidate.
    out_of_time : callable
        Asked before each candidate but the first; True ends the search.
    """

    def __init__(
        self, run: Callable[[int, int, Candidate], Sequence[Trial]], out_of_time: Callable[[], bool] = lambda: False
    ) -> None:
        self.run, self.out_of_time = run, out_of_time
        self.trials: list[Trial] = []

    def best(self, families: Sequence[Family], rows: Sequence[int], half: int | None = None) -> Trial:
        """Search in stages of so many rows, and return the winner of the last.

        Where ``half`` is given, there follows a stage of as many rows in which λ alone moves.
        """
        candidates = [candidate for family in families for candidate in family.first()]
        for stage, size in enumerate(rows):
            last = stage == len(rows) - 1
            for candidate in candidates:
                self._try(stage, size, candidate)
            self._climb(stage, size, FINER if last and stage else 2.0, wider=last or not stage)
            candidates = self._next(max(math.ceil(len(families) / 2 ** (stage + 1)), 1 if stage else 2))
        if half is not None:
            self._try(len(rows), half, self._next(1, BELOW)[0])
        return self._ranked()[0]

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
        return max(found, key=lambda trial: trial.rank)

    def _climb(self, stage: int, rows: int, step: float, wider: bool) -> None:
        """Move from the winner to narrower bandwidths while that helps; where it does not, to wider ones."""
        best = self._ranked()[0]
        if not best.candidate.family.open or best.stage != stage:
            return
        for factor in (1 / step, step) if wider else (1 / step,):
            start = best
            for _ in range(MOST_STEPS):
                candidate = replace(best.candidate, bandwidth=best.candidate.bandwidth * factor)
                trial = self._try(stage, rows, candidate)
                if trial is None or trial.score <= best.score:
                    break
                best = trial
            if best is not start:
                return

    def _ranked(self) -> list[Trial]:
        """The best trial of each candidate of the latest stage, the best of all first."""
        latest = [trial for trial in self.trials if trial.stage == self.trials[-1].stage]
        best: dict[Candidate, Trial] = {}
        for trial in sorted(latest, key=lambda trial: trial.rank, reverse=True):
            best.setdefault(trial.candidate, trial)
        return list(best.values())

    def _next(self, families: int, window: Sequence[float] = WINDOW) -> list[Candidate]:
        """The best candidate of each of the best families, with λ around its best one."""
        best: dict[Family, Trial] = {}
        for trial in self._ranked():
            best.setdefault(trial.candidate.family, trial)
        kept = list(best.items())[:families]
        return [replace(trial.candidate, lam=family.around(trial.lam, window)) for family, trial in kept]


def sizes(pool: int, share: int) -> list[int]:
    """The rows of each stage, where there are ``pool`` rows in all; the last has one in ``share``, or few."""
    first, last = min(FIRST_ROWS, pool), min(pool, max(LAST_ROWS, pool // share))
    steps = max(1, round(math.log(last / first, GROWTH)))
    return [round(first * (last / first) ** (step / steps)) for step in range(steps + 1)]
