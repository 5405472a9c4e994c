"""The result of a block solve, column by column."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from joker.ops.block_constants import Outcome

__all__ = ["BlockResult", "Outcome"]


@dataclass(frozen=True)
class BlockResult:
    """The new point of each column and how it was reached."""

    a: Tensor  # (b, t) the new point, inside the box
    change: Tensor  # (t,) float64, change of the dual objective J, at most 0
    linear: Tensor  # (t,) float64, the change without ½ s·K s, where s is the step
    outcome: Tensor  # (t,) values of Outcome
    products: Tensor  # (t,) matrix-vector products with K
    group: int = 1  # consecutive columns that the loss couples: a step is taken by all of them or by none
