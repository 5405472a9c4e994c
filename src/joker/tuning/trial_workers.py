"""What runs the fits of trials: this process, or workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, eq=False)
class TrialFit:
    """One fit of a trial. It has no rows, so that it is small enough to be sent."""

    estimator: Any
    split: int
    rows: int
    stage: int


@dataclass(frozen=True, eq=False)
class TrialResult:
    """The result of one fit of a trial."""

    scores: tuple[list[float], list[float]]  # the loss and the score of each λ
    seconds: float


class Runner(Protocol):
    """What has the rows, and can be sent to another process."""

    def fit_and_score(self, fit: TrialFit) -> TrialResult: ...

    def to_send(self) -> Runner: ...


class TrialWorkers:
    """Runs the fits of trials. This class runs them one after the other, in this process."""

    side_by_side = False
    """Whether several fits are run at the same time, so that many of them should be given to one `run`."""

    def run(self, runner: Runner, fits: Sequence[TrialFit]) -> list[TrialResult]:
        """Return the results of fits that do not depend on each other, in their order."""
        return [runner.fit_and_score(fit) for fit in fits]


IN_TURN = TrialWorkers()
_active: list[TrialWorkers] = [IN_TURN]


def current_workers() -> TrialWorkers:
    """Return what runs the fits of trials in this process."""
    return _active[-1]


@contextmanager
def trials_on(workers: TrialWorkers) -> Iterator[None]:
    """Let workers run the trials of the searches inside."""
    _active.append(workers)
    try:
        yield
    finally:
        _active.remove(workers)
