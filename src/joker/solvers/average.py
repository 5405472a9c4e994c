"""The average of the iterates, which a solve returns.

A block solve fits its own block, so the last iterate is noisy. The average

    ᾱ = Σ_j r (1−r)^(k−j) α_j / (1 − (1−r)^k)        over the steps j = 1 … k

with a horizon 1/r of half an epoch is dual feasible, as the box is convex, and has a much smaller error.
"""

from __future__ import annotations

import torch
from torch import Tensor

from joker.ops.rows import take
from joker.runtime import chunks
from joker.solvers.saved_tensors import SavedTensors
from joker.solvers.state import OpenBlock, State

HORIZON = 0.5  # epochs; benchmarks/averaging.py compares the average with the last iterate


class Average(SavedTensors):
    """Exponential average of α and its image, without the bias towards the start.

    α of a row changes only when its block is visited. So its sum is updated only then, and
    when the average is read: a step costs time proportional to the block.
    """

    saved = ("alpha", "image", "steps", "seen")

    def __init__(self, state: State, count: int) -> None:
        self.rate = min(1.0, 1 / (HORIZON * count))
        self.alpha, self.image = torch.zeros_like(state.alpha), torch.zeros_like(state.image)
        # The counts are tensors on the device of the data, so that a step can be captured and replayed.
        self.steps = torch.zeros(1, dtype=torch.int32, device=state.alpha.device)
        self.seen = self.steps.repeat(len(state.alpha))  # the step at which the sum of each row was last updated

    def record(self, block: OpenBlock, a: Tensor, state: State) -> None:  # (b, t)
        """Add a step that moved a block from ``block.a`` to ``a``."""
        sums = torch.lerp(block.a, take(self.alpha, block.rows), self._remaining(self.seen[block.rows]))
        self.alpha.index_copy_(0, block.rows, torch.lerp(sums, a, self.rate))
        self.image.lerp_(state.image, self.rate)
        self.steps += 1
        self.seen.index_copy_(0, block.rows, self.steps.expand(len(block.rows)))

    def record_all(self, state: State) -> None:
        """Add a step that moved every row."""
        self.alpha.lerp_(state.alpha, self.rate)
        self.image.lerp_(state.image, self.rate)
        self.steps += 1
        self.seen.copy_(self.steps.expand_as(self.seen))

    def read(self, state: State) -> tuple[Tensor, Tensor]:
        """Return the average α (n, t) and its image; before the first step, copies of those of the state."""
        if not int(self.steps):
            return state.alpha.clone(), state.image.clone()
        weight = 1 - (1 - self.rate) ** int(self.steps)
        alpha = torch.empty_like(self.alpha)
        for rows in chunks(len(alpha), 2 * alpha.shape[1]):  # three temporary tensors each
            share = self._remaining(self.seen[rows])
            alpha[rows] = torch.lerp(state.alpha[rows], self.alpha[rows], share) / weight
        return alpha, self.image / weight

    def _remaining(self, seen: Tensor) -> Tensor:  # (b,) -> (b, 1)
        """Return the weight that a sum updated at the step ``seen`` has now."""
        return torch.pow(1 - self.rate, (self.steps - seen).double()).to(self.alpha.dtype)[:, None]
