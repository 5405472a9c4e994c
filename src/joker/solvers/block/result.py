"""What the solve of a block comes to, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from torch import Tensor


class Outcome(IntEnum):
    """How the solve of one column of a block ended."""

    CONVERGED = 0
    LIMIT = 1
    STALLED = 2
    BROKEN = 3

    @property
    def sentence(self) -> str:
        """The sentence a user reads."""
        return _SENTENCES[self]


_SENTENCES = {
    Outcome.CONVERGED: "The projected gradient reached the tolerance.",
    Outcome.LIMIT: "The iterations allowed were used up before the tolerance was reached.",
    Outcome.STALLED: "No step lowers the objective any more at this floating-point precision.",
    Outcome.BROKEN: "The kernel, the predictions or the targets of the block are not finite.",
}


@dataclass(frozen=True)
class BlockResult:
    """The new point of each column and how it was reached."""

    a: Tensor  # (b, t) the new point, inside the box
    change: Tensor  # (t,) float64, change of the dual objective J, at most 0
    linear: Tensor  # (t,) float64, the change without ½ s·K s, where s is the step
    outcome: Tensor  # (t,) values of Outcome
    products: Tensor  # (t,) products K v
