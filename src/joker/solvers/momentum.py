"""Acceleration of block steps by a second, slower sequence (Nesterov's estimate sequence).

With z the point where blocks are solved, w the point after the step s, and v the slow one,

    w = z + s,    v ← β v + (1−β) z + γ s,    z ← τ v + (1−τ) w,

β = 1 − √(μ/ν), γ = 1/√(μν), τ = 1/(1 + γν), ν the number of blocks (Gower, Hanzely,
Richtárik and Stich, "Accelerated stochastic matrix inversion", 2018). z leaves any
box, so this is for free quadratic losses alone: there the recursion is linear and its
convergence is proven for every μ below the smallest eigenvalue of the expected
projection. Where μ was too bold the dual objective rises over an epoch, and the slow
sequence starts anew.
"""

from __future__ import annotations

from math import sqrt

from torch import Tensor

from joker.errors import InvalidParameter
from joker.losses import Loss
from joker.solvers.average import Average
from joker.solvers.state import OpenBlock, State

MU = 1e-6  # of the order of the smallest eigenvalues met in practice


class Momentum:
    """The slow sequence v, for α and its image."""

    def __init__(self, state: State, count: int, mu: float = MU) -> None:
        self.alpha, self.image = state.alpha.clone(), state.image.clone()
        mu, nu = min(mu, 1 / count), float(count)
        self.beta, self.gamma = 1 - sqrt(mu / nu), 1 / sqrt(mu * nu)
        self.tau = 1 / (1 + self.gamma * nu)

    def commit(self, block: OpenBlock, a: Tensor, state: State, average: Average | None) -> None:
        """Commit the block's step from z to w, then move the state on to the next z."""
        before = state.image.clone()
        state.commit(block, a)
        if average:
            average.record_all(state)
        extra = self.gamma - (1 - self.beta)  # v ← β v + (1−β) w + (γ − (1−β)) s, as z = w − s
        self.alpha.lerp_(state.alpha, 1 - self.beta)
        self.alpha[block.rows] += extra * (a - block.a)
        self.image.lerp_(state.image, 1 - self.beta).add_(state.image - before, alpha=extra)
        state.alpha.lerp_(self.alpha, self.tau)
        state.image.lerp_(self.image, self.tau)

    def restart(self, state: State) -> None:
        """Forget the past."""
        self.alpha.copy_(state.alpha)
        self.image.copy_(state.image)

    def state_dict(self) -> dict[str, Tensor]:
        """The slow sequence."""
        return {"alpha": self.alpha.clone(), "image": self.image.clone()}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Take over a saved one."""
        self.alpha.copy_(saved["alpha"])
        self.image.copy_(saved["image"])


def require_free(loss: Loss) -> None:
    """Refuse a loss whose dual has a box, a kink or changing curvature."""
    if not (loss.quadratic and loss.unbounded):
        raise InvalidParameter(
            f"momentum must be off for losses other than the squared one; got {loss!r}, whose dual variable is "
            "bounded or bends. Use momentum=False."
        )
