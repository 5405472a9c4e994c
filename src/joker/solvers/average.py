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
        self.steps = 0
        self.seen = [0] * blocks.count  # the step up to which each block's sum is valid

    def record(self, k: int, block: OpenBlock, a: Tensor, state: State) -> None:
        """Take in a step that moved block k from ``block.a`` to ``a``."""
        sums = self._kept(k) * self.alpha[block.rows] + (1 - self._kept(k)) * block.a
        self.alpha[block.rows] = torch.lerp(sums, a, self.rate)
        self.image.lerp_(state.image, self.rate)
        self.steps += 1
        self.seen[k] = self.steps

    def record_all(self, state: State) -> None:
        """Take in a step that moved every row."""
        self.alpha.lerp_(state.alpha, self.rate)
        self.image.lerp_(state.image, self.rate)
        self.steps += 1
        self.seen = [self.steps] * self.blocks.count

    def read(self, state: State) -> tuple[Tensor, Tensor]:
        """The average α (n, t) and its image; those of the state before the first step."""
        if self.steps == 0:
            return state.alpha, state.image
        weight = 1 - (1 - self.rate) ** self.steps
        alpha = torch.empty_like(self.alpha)
        for k in range(self.blocks.count):
            rows, kept = self.blocks.rows(k), self._kept(k)
            alpha[rows] = (kept * self.alpha[rows] + (1 - kept) * state.alpha[rows]) / weight
        return alpha, self.image / weight

    def state_dict(self) -> dict[str, Any]:
        """Sums and counts."""
        sums = {"alpha": self.alpha.clone(), "image": self.image.clone()}
        return {**sums, "steps": self.steps, "seen": list(self.seen)}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take over saved sums and counts."""
        self.alpha.copy_(saved["alpha"])
        self.image.copy_(saved["image"])
        self.steps, self.seen = saved["steps"], list(saved["seen"])

    def _kept(self, k: int) -> float:
        """The share of block k's sum that is left after the steps it has not seen."""
        return (1 - self.rate) ** (self.steps - self.seen[k])
