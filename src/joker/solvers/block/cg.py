r"""Conjugate gradients where there are no walls, batched over columns.

Minimises  g·s + ½ s·(K + diag h) s  for each column on its own. A preconditioner maps a residual r to
z ≈ (K + diag h)⁻¹ r and to K z, so that an iteration needs one product, whichever matrix it is with:

- :class:`Diagonal` divides by the diagonal and multiplies by K: good where h is large or differs from row to row;
- :class:`Between` multiplies by M = (K + diag μ)⁻¹, one for all columns, with μ between the smallest h and the largest.
  K z = r - μ z then costs nothing. Eigenvalues k of K become (k + h) / (k + μ): however badly K is conditioned, what is
  left is at most the ratio of h and μ, so that a path of λ needs one factorisation.

As in :mod:`joker.solvers.block.box_cg`, a column is a row in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

LOWER = 0.6  # share of the smallest h in log μ: badly conditioned columns gain most from being near


class Preconditioner(Protocol):
    """An approximate inverse of K + diag h."""

    def __call__(self, r: Tensor, /) -> tuple[Tensor, Tensor]:  # (t, b) -> (t, b), (t, b)
        """Return z, near (K + diag h)⁻¹ r, and K z."""
        ...


class Diagonal:
    """Division by the diagonal of K + diag h, where ``free`` is 1; rows where it is 0 stay as they are."""

    def __init__(self, K: Tensor, h: Tensor, free: Tensor) -> None:  # (b, b), (t, b), (t, b)
        self.K, self.free, self.inverse = K, free, free / (K.diagonal() + h)

    def __call__(self, r: Tensor) -> tuple[Tensor, Tensor]:
        z = r * self.inverse
        return z, (z @ self.K).mul_(self.free)


class Between:
    """The inverse of K + diag μ, with μ between the curvatures of all columns.

    Rows that cannot move are cut off from the others: a residual of 0 there stays 0.
    """

    def __init__(
        self,
        K: Tensor,  # (b, b)
        h: Tensor,  # (t, b)
        free: Tensor,  # (b,) 1 for rows that can move, 0 for others
    ) -> None:
        low, high = h.amin(0), h.amax(0)
        least = torch.finfo(K.dtype).eps ** 0.5 * K.diagonal().mean()  # what an inverse can bear
        self.mu = torch.maximum(low**LOWER * high ** (1 - LOWER), least)  # (b,)
        shifted = K * free * free[:, None]
        shifted.diagonal().add_(self.mu)
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(shifted)[0])  # (b, b)

    def __call__(self, r: Tensor) -> tuple[Tensor, Tensor]:
        z = r @ self.inverse
        return z, torch.addcmul(r, self.mu, z, value=-1)


@dataclass(frozen=True)
class Step:
    """Where the search ended, with ``K s`` for the caller."""

    s: Tensor  # (t, b)
    Ks: Tensor  # (t, b)
    products: Tensor  # (t,) products used by each column


def descend(
    inverse: Preconditioner,
    h: Tensor,  # (t, b)
    g: Tensor,  # (t, b) gradient at s = 0
    tolerance: Tensor,  # (t,) norm of the gradient to reach
    max_products: int,
) -> Step:
    """Minimise the quadratic from s = 0."""
    r, s, Ks, p, Kp = -g, *(torch.zeros_like(g) for _ in range(4))
    last, products = torch.ones_like(g[:, :1]), torch.zeros_like(tolerance, dtype=torch.long)
    tiny, tolerance = torch.finfo(g.dtype).tiny, tolerance.square()[:, None]
    for _ in range(max_products):
        reached = _dot(r, r) <= tolerance
        if bool(reached.all()):
            break
        z, Kz = inverse(r)
        now = _dot(r, z)
        p, Kp = torch.addcmul(z, now / last, p), torch.addcmul(Kz, now / last, Kp)
        q = torch.addcmul(Kp, h, p)
        step = now.div(_dot(p, q).clamp_(min=tiny)).mul_((~reached).to(g))
        s, Ks, r = torch.addcmul(s, step, p), torch.addcmul(Ks, step, Kp), torch.addcmul(r, step, q, value=-1)
        last, products = now.clamp_(min=tiny), products + (~reached[:, 0]).long()
    return Step(s, Ks, products)


def _dot(a: Tensor, b: Tensor) -> Tensor:  # (t, 1)
    """Inner product of each row."""
    return (a * b).sum(1, keepdim=True)
