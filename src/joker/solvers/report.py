"""What a solve tells of itself: a record for each look at the gap, and why it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from math import inf, isnan
from typing import Any

import torch
from torch import Tensor

from joker.solvers.block.result import BlockResult, Outcome
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
    """Adds up how block solves ended, where the data are, and is read only when asked."""

    def __init__(self, device: torch.device) -> None:
        self.counts = torch.zeros(len(Outcome), dtype=torch.int64, device=device)
        self.recent = torch.zeros(3, dtype=torch.int64, device=device)  # since the last call of still()
        self.used = torch.zeros(1, dtype=torch.int64, device=device)
        self._codes = torch.arange(len(Outcome), device=device)

    def add(self, result: BlockResult) -> None:
        """Take in one block."""
        found = (result.outcome[:, None] == self._codes).sum(0)
        self.counts += found
        self.used += result.products.sum()
        self.recent += torch.stack([found.sum(), (result.change < 0).sum(), found[Outcome.LIMIT]])

    @property
    def outcomes(self) -> Counter[Outcome]:
        """How often each outcome was met."""
        return Counter({outcome: count for outcome, count in zip(Outcome, self.counts.tolist(), strict=True) if count})

    @property
    def products(self) -> int:
        """Products K v in all."""
        return int(self.used)

    def still(self) -> bool:
        """Whether blocks were visited since the last call and none of them can move any more."""
        visited, moved, limited = self.recent.tolist()
        self.recent.zero_()
        return bool(visited > 0 and moved == 0 and limited == 0)

    def state_dict(self) -> dict[str, Any]:
        """Counts."""
        return {name: getattr(self, name).clone() for name in ("counts", "recent", "used")}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take over saved counts."""
        for name, count in saved.items():
            getattr(self, name).copy_(count)


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
