r"""ADMM: a point near the minimum of a box problem, whatever its conditioning.

For the problem of :mod:`joker.solvers.block.box_cg`,

    g·s + ½ s·(K + diag h) s + kink (|a+s|₁ - |a|₁)   with   low ≤ a + s ≤ high,

the step has two copies: p of the term with K, and s of the rest, which separates into coordinates. The alternating
direction method of multipliers (S. Boyd et al., Found. Trends Mach. Learn. 3, 2011) makes them agree,

    p ← (K + ρI)⁻¹ (ρ (s - u) - g)
    v ← u + 1.6 p - 0.6 s
    s ← the minimum over the box of  ½ h s² + kink |a+s| + ½ ρ (s - v)²,      u ← v - s,

and needs one inverse for all columns. Conjugate gradients restart at every wall, and without curvature h they
converge slowly along the small eigenvalues of K; here neither matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from joker.ops.block_constants import RELAXATION
from joker.solvers.block.box import Box, Minimum

ADMM_STEPS = 24  # iterations of one call
SMALLEST_RHO = 1e-3  # as a share of the mean of K's diagonal: with less, an inverse in float32 loses its accuracy


@dataclass(frozen=True)
class Admm:
    """ADMM for the box problems of one kernel matrix."""

    K: Tensor  # (b, b)

    @cached_property
    def rho(self) -> Tensor:  # ()
        """The penalty ρ: the geometric mean of the eigenvalues of K, estimated from every second row.

        So half of the eigenvalues are larger than the weight of the tie between the two copies, half are smaller.
        """
        scale = self.K.diagonal().mean()
        pivots = _factor(self.K[::2, ::2], torch.finfo(self.K.dtype).eps * len(self.K) * scale).diagonal()
        return torch.maximum((2 * pivots.log().mean()).exp().nan_to_num(nan=0.0), SMALLEST_RHO * scale)

    @cached_property
    def inverse(self) -> Tensor:  # (b, b)
        """(K + ρI)⁻¹."""
        return shifted_inverse(self.K, self.rho)

    def approach(
        self,
        h: Tensor,  # (b, t)
        g: Tensor,  # (b, t) smooth gradient at a
        a: Tensor,  # (b, t) inside the box
        box: Box,
    ) -> Minimum:
        """Return a point near the minimum, never worse than ``a``."""
        h, g, a, box = h.T.contiguous(), g.T.contiguous(), a.T.contiguous(), box.T
        rho, low, high = self.rho, box.low - a, box.high - a
        kept, threshold = rho / (rho + h), box.kink / (rho + h)
        s, u = torch.zeros_like(a), (box.face(a, g).gradient - g) / rho
        pull, inverse = g @ self.inverse, rho * self.inverse
        for _ in range(ADMM_STEPS):
            p = torch.addmm(pull, s - u, inverse, beta=-1)
            v = torch.lerp(s, p, RELAXATION).add_(u)
            s = kept * v
            if box.kink:
                s = s.add_(a)
                s = s.sub_(torch.clamp(s, -threshold, threshold)).sub_(a)
            s = torch.clamp(s, low, high)
            u = v.sub_(s)
        Ks = s @ self.K
        new = box.clamp(a + s)
        change = (s * (g + 0.5 * (Ks + h * s)) + box.kink * (new.abs() - a.abs())).sum(1, keepdim=True)
        better = change < 0
        products = torch.full_like(change[:, 0], ADMM_STEPS + 1, dtype=torch.long)
        a, Ks = torch.where(better, new, a), torch.where(better, Ks, 0.0)
        return Minimum(a.T, Ks.T, products, torch.zeros_like(better[:, 0]))


def shifted_inverse(K: Tensor, rho: Tensor) -> Tensor:  # (b, b)
    """Return (K + ρI)⁻¹."""
    return torch.cholesky_inverse(_factor(K, rho))


def _factor(K: Tensor, ridge: Tensor) -> Tensor:
    factor: Tensor = torch.linalg.cholesky_ex(K + ridge * torch.eye(len(K), dtype=K.dtype, device=K.device))[0]
    return factor
