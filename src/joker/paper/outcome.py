"""The outcome of a run, with the results of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from joker.paper.protocol import Plan
from joker.paper.table import Published, published


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run.

    Attributes
    ----------
    plan : Plan
        The plan of the run.
    generated : bool
        Whether the rows are generated; their scores then say nothing about the real data.
    rows, test_rows : int
        The number of training rows and of test rows.
    device, precision : str
        The device and the precision.
    bandwidth : float
        σ of the kernel.
    steps : int
        The number of blocks that were visited.
    scores : dict
        The metrics on the test rows.
    gap : float
        The relative duality gap.
    seconds : float
        The time of the fit: bandwidth, features, steps and evaluations of the gap, without reading and testing.
    step_seconds : float
        The time of the steps; with the protocol "joker" it includes the evaluations between them.
    test_seconds, read_seconds : float
        The time to predict the test rows, and to read or generate all rows.
    peak_bytes : int or None
        The peak memory: of torch on a GPU, else of the process.
    reason : str
        Why the fit ended.
    """

    plan: Plan
    generated: bool
    rows: int
    test_rows: int
    device: str
    precision: str
    bandwidth: float
    steps: int
    scores: dict[str, float]
    gap: float
    seconds: float
    step_seconds: float
    test_seconds: float
    read_seconds: float
    peak_bytes: int | None
    reason: str

    @property
    def published(self) -> Published:
        """The results of the paper."""
        return published(self.plan.model, self.plan.data)

    @property
    def comparable(self) -> bool:
        """Whether the scores may be compared with the paper: all real rows, its number of features and of steps."""
        made, theirs = self.plan, self.plan.choice
        whole = made.scale == 1 and made.data.likeness is None and made.n_features == theirs.n_features
        return whole and not self.generated and (made.steps == theirs.steps or not made.as_printed)

    @property
    def ms_per_step(self) -> float:
        """The time of a step in milliseconds."""
        return 1000 * self.step_seconds / max(1, self.steps)

    @property
    def notes(self) -> list[str]:
        """Sentences that say how the rows differ from those of the paper."""
        return notes_on(self.plan, self.generated)

    @property
    def facts(self) -> dict[str, Any]:
        """The outcome as numbers and text, with the results of the paper."""
        theirs = self.published
        own = {name: value for name, value in vars(self).items() if name not in ("plan", "bandwidth", "step_seconds")}
        return {
            **self.plan.facts,
            **own,
            "sigma": self.bandwidth,
            "ms_per_step": self.ms_per_step,
            "comparable": self.comparable,
            "notes": self.notes,
            "paper": {
                "scores": {name: mean for name, (mean, _) in theirs.scores.items()},
                "deviations": {name: deviation for name, (_, deviation) in theirs.scores.items()},
                "seconds": theirs.seconds,
                "peak_bytes": theirs.peak_bytes,
                "steps": self.plan.choice.steps,
                "n_features": self.plan.choice.n_features,
            },
            "difference": {name: self.scores[name] - mean for name, (mean, _) in theirs.scores.items()}
            if self.comparable
            else None,
        }


def notes_on(plan: Plan, generated: bool) -> list[str]:
    """Return sentences that say how the rows of a run differ from those of the paper."""
    data, notes = plan.data, []
    if generated:
        notes.append(
            f"The rows are generated in the shape of {data.known_as}: time and memory count, the scores do not."
        )
    elif data.likeness:
        notes.append(
            f"{data.name} has {data.rows:,} real rows of {data.likeness}, of which the paper has "
            f"{round(data.rows / data.part):,}: the scores are of a smaller problem."
        )
    if plan.scale != 1:
        notes.append(
            f"Rows, steps and features are {plan.scale:g} of the paper's: the scores are of a smaller problem."
        )
    return notes
