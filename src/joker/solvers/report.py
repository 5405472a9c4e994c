"""What a solve tells of itself: a record for each look at the gap, and why it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from math import inf, isnan
from typing import Any

import torch
from torch import Tensor

from joker.solvers.block import BlockResult, Outcome
from joker.solvers.gap import Gap


class Reason(Enum):
    """Why a solve ended; the value is the sentence a user reads."""

    TOLERANCE = "The relative duality gap reached the tolerance in every column."
    EPOCHS = "The epochs allowed were used up."
    TIME = "The time allowed was used up."
    STALLED = "No block improves any more at this floating-point precision."
    SLOW = "The problem fits in one block, but its gap hardly falls: it is too ill-conditioned."
    BROKEN = "A block is not finite: the kernel or the predictions overflow. Scale the inputs and targets."
    ASKED = "The solve was asked to stop."


@dataclass(frozen=True)
class Record:
    """The state of a solve after some epochs."""

    epoch: float  # visits to a block, as a share of the number of blocks
    seconds: float
    gap: Gap
    scores: tuple[float, ...] = ()  # on rows that are not trained on, where there are any; higher is better
    peak_bytes: int | None = None  # the most memory held so far

    @property
    def relative_gap(self) -> float:
        """That of the worst column."""
        return self.gap.worst

    @property
    def score(self) -> float | None:
        """The best of the scores; None where there are none."""
        return max((-inf if isnan(score) else score for score in self.scores), default=None)

    def entry(self, columns: slice = slice(None), score: float | None = None) -> dict[str, Any]:
        """The record of some columns as plain numbers; the objectives are summed, the gap is the worst one's."""
        gap = Gap(self.gap.sums[:, columns])
        return {
            "epoch": self.epoch,
            "seconds": self.seconds,
            "primal": float(gap.primal.sum()),
            "dual": -float(gap.dual.sum()),
            "gap": gap.worst,
            **({} if score is None else {"validation_score": score}),
            "peak_bytes": self.peak_bytes,
        }


class Tally:
    """Adds up how block solves ended, reading the device only when asked."""

    def __init__(self) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.products = 0
        self._still: bool | None = None  # None: nothing was visited
        self._pending: list[BlockResult] = []

    def add(self, result: BlockResult) -> None:
        """Take in one block."""
        self._pending.append(result)

    def still(self) -> bool:
        """Whether blocks were visited since the last call and none of them can move any more."""
        self._read()
        still, self._still = self._still, None
        return bool(still)

    def state_dict(self) -> dict[str, Any]:
        """Counts, as plain numbers."""
        self._read()
        outcomes = {outcome.name: count for outcome, count in self.outcomes.items()}
        return {"outcomes": outcomes, "products": self.products, "still": self._still}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take over saved counts."""
        self.outcomes = Counter({Outcome[name]: count for name, count in saved["outcomes"].items()})
        self.products, self._still = saved["products"], saved["still"]
        self._pending.clear()

    def _read(self) -> None:
        if not self._pending:
            return
        codes = torch.stack([r.outcome for r in self._pending]).flatten().tolist()
        self.outcomes.update(Outcome(code) for code in codes)
        self.products += int(torch.stack([r.products for r in self._pending]).sum())
        moved = bool(torch.stack([r.change for r in self._pending]).any())
        self._still = self._still is not False and not moved and Outcome.LIMIT not in codes
        self._pending.clear()


@dataclass(frozen=True, repr=False)
class Report:
    """The solution and the proof of its quality."""

    alpha: Tensor  # (n, t)
    image: Tensor  # (m, t) θ with features, (n, t) f with the kernel itself
    gap: Gap
    reason: Reason
    records: tuple[Record, ...]
    outcomes: Counter[Outcome]  # how the block solves of all columns ended
    products: int  # products K v in all, each column counted

    @property
    def relative_gap(self) -> float:
        """The largest of all columns."""
        return self.gap.worst

    def __str__(self) -> str:
        last = self.records[-1] if self.records else None
        spent = f" after {last.epoch:g} epochs, {last.seconds:.1f} s" if last else ""
        return f"relative gap {self.relative_gap:.2e}{spent}. {self.reason.value}"

    __repr__ = __str__
