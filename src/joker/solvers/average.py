"""The average of the iterates: what a solve returns.

A block solve fits its own block, so the last iterate is noisy. The average

    ᾱ = Σ_j r (1−r)^(k−j) α_j / (1 − (1−r)^k)        over the steps j = 1 … k

with a horizon 1/r of half an epoch is dual feasible, as the box is convex, and far better.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from joker.data import Blocks
from joker.ops.rows import take
from joker.runtime.memory import CHUNK_ENTRIES
from joker.solvers.state import OpenBlock, State

HORIZON = 0.5  # epochs


class Average:
    """Exponential average of α and its image, without the bias towards the start.

    α of a row moves only when its block is visited. So its sum is brought up to date
    then, and again when the average is read; a step costs no more than the block.
    """

    def __init__(self, state: State, blocks: Blocks) -> None:
        self.rate = min(1.0, 1 / (HORIZON * blocks.count))
        self.blocks = blocks
        self.alpha, self.image = torch.zeros_like(state.alpha), torch.zeros_like(state.image)
        # Counted where the data are, so that a step can be captured and replayed.
        self.steps = torch.zeros(1, dtype=torch.int64, device=state.alpha.device)
        self.seen = self.steps.repeat(blocks.count)  # the step up to which each block's sum is valid

    def record(
        self,
        k: Tensor,  # (1,)
        block: OpenBlock,
        a: Tensor,  # (b, t)
        state: State,
    ) -> None:
        """Take in a step that moved block k from ``block.a`` to ``a``."""
        sums = torch.lerp(block.a, take(self.alpha, block.rows), self._kept(self.seen.index_select(0, k)))
        self.alpha.index_copy_(0, block.rows, torch.lerp(sums, a, self.rate))
        self.image.lerp_(state.image, self.rate)
        self.steps += 1
        self.seen.index_copy_(0, k, self.steps)

    def record_all(self, state: State) -> None:
        """Take in a step that moved every row."""
        self.alpha.lerp_(state.alpha, self.rate)
        self.image.lerp_(state.image, self.rate)
        self.steps += 1
        self.seen.copy_(self.steps.expand_as(self.seen))

    def read(self, state: State) -> tuple[Tensor, Tensor]:
        """The average α (n, t) and its image; copies of those of the state before the first step."""
        if not int(self.steps):
            return state.alpha.clone(), state.image.clone()
        weight = 1 - (1 - self.rate) ** int(self.steps)
        alpha, device = torch.empty_like(self.alpha), self.alpha.device
        lengths, kept = self.blocks.lengths().to(device), self._kept(self.seen)
        for k, stop in self.blocks.runs(CHUNK_ENTRIES // self.alpha.shape[1]):
            rows = self.blocks.between(k, stop)
            rows = rows if isinstance(rows, slice) else rows.to(device).long()
            share = kept[k:stop].repeat_interleave(lengths[k:stop])[:, None]
            alpha[rows] = torch.lerp(state.alpha[rows], self.alpha[rows], share) / weight
        return alpha, self.image / weight

    def state_dict(self) -> dict[str, Any]:
        """Sums and counts."""
        sums = {"alpha": self.alpha.clone(), "image": self.image.clone()}
        return {**sums, "steps": self.steps.clone(), "seen": self.seen.clone()}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take over saved sums and counts."""
        for name in ("alpha", "image", "steps", "seen"):
            getattr(self, name).copy_(saved[name])

    def _kept(self, seen: Tensor) -> Tensor:
        """The share that is left of sums valid up to the step ``seen``."""
        return torch.pow(1 - self.rate, (self.steps - seen).double()).to(self.alpha.dtype)
