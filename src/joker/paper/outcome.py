"""What a run reached, beside what the paper reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from joker.paper.protocol import Plan
from joker.paper.table import Published, published


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    plan : Plan
        What was run.
    generated : bool
        Whether on generated rows, whose scores say nothing of the real ones.
    rows, test_rows : int
        How many were trained and tested on.
    device, precision : str
        Where and in which type.
    bandwidth : float
        σ of the kernel.
    steps : int
        Blocks that were visited.
    scores : dict
        The metrics on the test rows.
    gap : float
        The relative duality gap.
    seconds : float
        Of the fit: bandwidth, features, steps and looks at the gap, without reading and testing.
    step_seconds : float
        Of the steps alone; by the protocol "joker" with the looks between them.
    test_seconds, read_seconds : float
        Of predicting the test rows, and of reading or generating all rows.
    peak_bytes : int or None
        The most memory held: by torch on a card, else by the whole process.
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
        """The paper's row."""
        return published(self.plan.model, self.plan.data)

    @property
    def comparable(self) -> bool:
        """Whether scores may be compared with the paper's: real rows, all of them, its features and its steps."""
        made, theirs = self.plan, self.plan.choice
        whole = made.scale == 1 and made.data.likeness is None and made.n_features == theirs.n_features
        return whole and not self.generated and (made.steps == theirs.steps or not made.as_printed)

    @property
    def ms_per_step(self) -> float:
        """Milliseconds."""
        return 1000 * self.step_seconds / max(1, self.steps)

    @property
    def notes(self) -> list[str]:
        """What a reader of the scores has to know."""
        return notes_on(self.plan, self.generated)

    @property
    def facts(self) -> dict[str, Any]:
        """Everything as plain values, with the paper's row."""
        theirs = self.published
        return {
            **self.plan.facts,
            "generated": self.generated,
            "rows": self.rows,
            "test_rows": self.test_rows,
            "device": self.device,
            "precision": self.precision,
            "sigma": self.bandwidth,
            "steps": self.steps,
            "scores": self.scores,
            "gap": self.gap,
            "seconds": self.seconds,
            "ms_per_step": self.ms_per_step,
            "test_seconds": self.test_seconds,
            "read_seconds": self.read_seconds,
            "peak_bytes": self.peak_bytes,
            "reason": self.reason,
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
    """Return in what the rows of a run are not those of the paper."""
    data, found = plan.data, []
    if generated:
        found.append(
            f"The rows are generated in the shape of {data.known_as}: time and memory count, the scores do not."
        )
    elif data.likeness:
        found.append(
            f"{data.name} has {data.rows:,} real rows of {data.likeness}, of which the paper has "
            f"{round(data.rows / data.part):,}: the scores are of a smaller problem."
        )
    if plan.scale != 1:
        found.append(
            f"Rows, steps and features are {plan.scale:g} of the paper's: the scores are of a smaller problem."
        )
    return found
