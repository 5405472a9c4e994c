"""The block problem of a loss that couples the k columns of a group, and what its solvers share.

Inside, tensors are (L, k, b): L groups, such as the values of λ, k classes and b rows. A class of a group is then one
row in memory, and sums over the classes of a row run along vectors of length b.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from joker.losses import ScaledRows
from joker.ops import row_solve
from joker.solvers.block.result import BlockResult


@dataclass(frozen=True)
class RowProblem:
    """Minimise f·s + ½ s·K s + Σ [ψ(a+s) - ψ(a)] with Σ_j (a+s)_j = 0 in each row, each group on its own."""

    K: Tensor  # (b, b)
    f: Tensor  # (L, k, b) prediction at a, and the margin of the loss
    a: Tensor  # (L, k, b) first point
    own: Tensor  # (L, k, b) whether the class is that of the row
    c: Tensor  # (L, 1, b)

    @classmethod
    def of(cls, K: Tensor, f: Tensor, a: Tensor, y: Tensor, loss: ScaledRows) -> RowProblem:
        """Return the problem of a block from (b, t) tensors; y and c may have one column."""
        k = loss.group

        def grouped(v: Tensor) -> Tensor:
            return v.expand_as(a).T.reshape(-1, k, len(a)).contiguous()

        own = grouped(y) > 0
        c = torch.as_tensor(loss.unscaled[1]).to(a)
        tilted = grouped(f) + loss.loss.margin * (~own)
        return cls(K, tilted, grouped(a), own, grouped(c)[:, :1].contiguous())

    @property
    def fused(self) -> bool:
        """Whether a solve runs on a GPU without waiting for the CPU."""
        return row_solve.available(self.K.device, self.a.shape[1])

    def times(self, v: Tensor) -> Tensor:  # (L, k, b)
        """K times each class of each group."""
        return (v.flatten(0, 1) @ self.K).view_as(v)

    def result(self, a: Tensor, change: Tensor, quadratic: Tensor, outcome: Tensor, products: Tensor) -> BlockResult:
        """Return the result in (b, t): every column of a group has an equal part of the change and the same outcome.

        ``a`` is (L, k, b) and the others are (L,): ``quadratic`` is ½ s·K s of the step s.
        """
        k = self.a.shape[1]
        better = change < 0
        a = torch.where(better[:, None, None], a, self.a)
        change = torch.where(better, change, 0.0)
        linear = torch.where(better, change - quadratic, 0.0)
        change, linear, outcome, products = (
            v.repeat_interleave(k) for v in (change / k, linear / k, outcome, products)
        )
        return BlockResult(a.flatten(0, 1).T.contiguous(), change, linear, outcome, products, k)


def dot(u: Tensor, v: Tensor) -> Tensor:  # (L, 1, 1)
    """Inner product of each group."""
    return (u * v).sum((1, 2), keepdim=True)


def norm(v: Tensor) -> Tensor:  # (L,)
    """Norm of each group."""
    return torch.linalg.vector_norm(v, dim=(1, 2))  # type: ignore[no-any-return]


def dot64(u: Tensor, v: Tensor) -> Tensor:  # (L,)
    """Inner product of each group, in float64."""
    return (u.double() * v.double()).sum((1, 2))
