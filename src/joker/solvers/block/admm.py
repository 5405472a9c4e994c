r"""A few steps of operator splitting: a good point of a box problem, whatever its conditioning.

For the problem of :mod:`joker.solvers.block.box_cg`,

    g·s + ½ s·(K + diag h) s + kink (|x+s|₁ - |x|₁)   with   low ≤ x + s ≤ high,

the step has two copies: p feels K alone, s the rest, which falls apart into coordinates. The
alternating direction method of multipliers (S. Boyd et al., Found. Trends Mach. Learn. 3, 2011)
draws them together,

    p ← (K + ρI)⁻¹ (ρ (s - u) - g)
    v ← u + 1.6 p - 0.6 s
    s ← the minimum over the box of  ½ h s² + kink |x+s| + ½ ρ (s - v)²,      u ← v - s,

and needs one inverse for all columns. Conjugate gradients begin anew at every wall, and without
curvature creep along the small eigenvalues of K; here neither matters.
"""

from __future__ import annotations

import torch
from torch import Tensor

from joker.solvers.block.box_cg import Box, Minimum

STEPS = 24
RELAXATION = 1.6  # of p, as Boyd et al. advise
LEAST = 1e-3  # of ρ, as a share of the mean of K's diagonal: what an inverse in float32 can bear


class Splitting:
    """The inverse for a kernel matrix, whose problems it then brings near their solution.

    ρ is the geometric mean of the eigenvalues of K: half of them pull harder than the tie
    between the two copies, half less. Every other row tells it well enough.
    """

    def __init__(self, K: Tensor) -> None:
        self.K, scale = K, K.diagonal().mean()
        pivots = _factor(K[::2, ::2], torch.finfo(K.dtype).eps * len(K) * scale).diagonal()
        self.rho = torch.maximum((2 * pivots.log().mean()).exp().nan_to_num(nan=0.0), LEAST * scale)  # ()
        self.inverse = torch.cholesky_inverse(_factor(K, self.rho))  # (b, b)

    def approach(
        self,
        h: Tensor,  # (b, t)
        g: Tensor,  # (b, t) smooth gradient at x
        x: Tensor,  # (b, t) inside the box
        box: Box,
        done: Tensor,  # (t,) columns to leave alone
    ) -> Minimum:
        """A point near the minimum, never worse than ``x``."""
        h, g, x, box = h.T.contiguous(), g.T.contiguous(), x.T.contiguous(), box.T
        rho, kept, low, high = self.rho, self.rho / (self.rho + h), box.low - x, box.high - x
        threshold = box.kink / (rho + h)
        s, u = torch.zeros_like(x), (box.face(x, g).gradient - g) / rho
        pull, inverse = g @ self.inverse, rho * self.inverse
        for _ in range(STEPS):
            p = torch.addmm(pull, s - u, inverse, beta=-1)
            v = torch.lerp(s, p, RELAXATION).add_(u)
            s = kept * v
            if box.kink:
                s = s.add_(x)
                s = s.sub_(torch.clamp(s, -threshold, threshold)).sub_(x)
            s = torch.clamp(s, low, high)
            u = v.sub_(s)
        return self._better(s, h, g, x, box, done)

    def _better(self, s: Tensor, h: Tensor, g: Tensor, x: Tensor, box: Box, done: Tensor) -> Minimum:
        Ks = s @ self.K
        new = torch.clamp(x + s, box.low, box.high)
        change = (s * (g + 0.5 * (Ks + h * s)) + box.kink * (new.abs() - x.abs())).sum(1, keepdim=True)
        better = (change < 0) & ~done[:, None]
        products = torch.where(done, 0, STEPS + 1)
        return Minimum(torch.where(better, new, x).T, torch.where(better, Ks, 0.0).T, products, done)


def _factor(K: Tensor, ridge: Tensor) -> Tensor:
    factor: Tensor = torch.linalg.cholesky_ex(K + ridge * torch.eye(len(K), dtype=K.dtype, device=K.device))[0]
    return factor
