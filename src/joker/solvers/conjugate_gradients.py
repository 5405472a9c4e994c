"""Conjugate gradients for a squared loss with the kernel itself: (K + diag h) α = y, for all columns at once.

The preconditioner is a Nyström approximation of K (:mod:`joker.solvers.nystrom`), with as many landmarks as the memory
allows. A step is one product with K. The residual is computed from α and its image in each step, so that it is the
residual of what is returned.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from joker.runtime import chunks
from joker.solvers.exact_state import ExactState
from joker.solvers.method import Method
from joker.solvers.nystrom import Nystrom
from joker.solvers.problem import Problem
from joker.solvers.saved_tensors import SavedTensors
from joker.solvers.settings import Settings
from joker.solvers.state import State

CG_VECTORS = 6  # (n, t) matrices: residual, direction, its image, the preconditioned residual, and temporary ones


class _Direction(SavedTensors):
    """The direction of the last step, and the squared norm of the residual that it belongs to."""

    saved = ("p", "norm")

    def __init__(self, state: State) -> None:
        self.p = torch.zeros_like(state.alpha)
        self.norm = torch.zeros_like(state.alpha[0], dtype=torch.float64)


class ConjugateGradients(Method):
    """Preconditioned conjugate gradients; an epoch is one product with K."""

    long_epochs = False

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        assert isinstance(state, ExactState)
        super().__init__(state, 1)
        self.exact, self.problem, self.seed = state, problem, settings.seed
        self.direction = _Direction(state)
        self._inverse: Callable[[Tensor], Tensor] | None = None

    def step(self, number: int) -> None:
        inverse = self._inverse = self._inverse or self._preconditioner()
        r, h = self._residual()
        z = inverse(r)
        norm = column_dot(r, z)
        last, p = self.direction.norm, self.direction.p
        keep = torch.where(last > 0, norm / last, 0.0).to(p.dtype)
        p.mul_(keep).add_(z)
        del z
        image = self.state.image_of(p)
        curvature = column_dot(p, image) + column_dot(p, h * p)
        length = torch.where(curvature > 0, column_dot(p, r) / curvature, 0.0).to(p.dtype)
        self.state.move(length * p, image.mul_(length))
        self.direction.norm.copy_(norm)

    def _residual(self) -> tuple[Tensor, Tensor]:  # (n, t), (n, t)
        """Return the negative gradient of the dual objective, and the curvature h of ψ; 0 and 1 for fixed rows."""
        alpha, f = self.state.alpha, self.state.image
        r, h = torch.empty_like(alpha), torch.empty_like(alpha)
        for rows in chunks(len(alpha), 4 * alpha.shape[1]):
            y, loss = self.problem.take(rows)
            low, high = loss.box(y)
            a = alpha[rows]
            r[rows] = torch.where(low < high, -f[rows] - loss.psi_slope(y, a), 0.0)
            h[rows] = torch.where(low < high, loss.psi_curvature(y, a), 1.0)
        return r, h

    def _preconditioner(self) -> Callable[[Tensor], Tensor]:
        targets, state = self.problem.targets, self.exact
        one_weight = targets.weights is None or targets.weights.shape[1] == 1
        if state.landmarks and one_weight:
            weights = torch.ones_like(state.alpha[:, 0]) if targets.weights is None else targets.weights[:, 0]
            curvature = self.problem.loss.curvature(torch.zeros_like(targets.lam))
            lam = (targets.lam * curvature).expand(state.alpha.shape[1])
            return Nystrom(state.kernel, state.x, state.landmarks, weights, lam, state.budget, self.seed)
        inverse = 1 / (state.diagonal() + self._residual()[1])
        return lambda r: r * inverse

    def release(self) -> None:
        self._inverse = None

    def restarted(self) -> None:
        self.direction = _Direction(self.state)

    def parts(self) -> dict[str, SavedTensors]:
        return {"direction": self.direction}


def column_dot(u: Tensor, v: Tensor) -> Tensor:  # (t,)
    """Return the inner product of each column, in float64."""
    total = torch.zeros(u.shape[1], dtype=torch.float64, device=u.device)
    for rows in chunks(len(u), 4 * u.shape[1]):
        total += (u[rows].double() * v[rows].double()).sum(0)
    return total
