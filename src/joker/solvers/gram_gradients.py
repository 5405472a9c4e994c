"""Conjugate gradients for a squared loss with features, preconditioned by the Gram matrix ΨᵀWΨ.

With θ = the weights of the features, the problem is A θ = ΨᵀC y for A = I + ΨᵀCΨ and C = W/λ. One pass over the rows
computes the Gram matrix, in float32 or less, and its Cholesky factor is so good an approximation of A that a few more
passes solve the system. At the weights θ the dual point is α = C (y - Ψθ), and the residual is r = Ψᵀα - θ. A step has
two passes: one along its direction, and one that computes α and its image anew, because sums of steps would lose the
digits in which a small r differs from the large numbers of the start. For the same reason θ and sums are float64.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from joker.ops.bfloat16_gram import features_gram
from joker.runtime import tile_bytes, tiles
from joker.solvers.feature_state import FeatureState
from joker.solvers.method import Method
from joker.solvers.problem import Problem
from joker.solvers.saved_tensors import SavedTensors
from joker.solvers.settings import Settings
from joker.solvers.state import State

GRAM_VECTORS = 12  # (m, t) and (n, t) matrices beside the state, some in float64
# Added to the diagonal before it is factorised, in units of the rounding error of the Gram matrix; more if that fails.
JITTER, MORE_JITTER, MOST_JITTERS = 1.0, 8.0, 8


def gram_bytes(m: int, itemsize: int) -> int:
    """Return the bytes of the Gram matrix of m features, and of the matrices that are added to it or factorised."""
    return 5 * itemsize * m * m


class _Progress(SavedTensors):
    """The weights, their residual, the last direction and the squared norm of the residual that it belongs to."""

    saved = ("theta", "r", "p", "norm")

    def __init__(self, state: State) -> None:
        self.theta = state.image.to(torch.float64, copy=True)
        self.r, self.p = torch.zeros_like(self.theta), torch.zeros_like(self.theta)
        self.norm = torch.zeros_like(state.image[0], dtype=torch.float64)


class GramGradients(Method):
    """Preconditioned conjugate gradients in the weights of the features; an epoch is one step."""

    long_epochs = False

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        assert isinstance(state, FeatureState)
        super().__init__(state, 1)
        self.feature_state, self.problem = state, problem
        self.progress = _Progress(state)
        self._factor: Tensor | None = None

    def step(self, number: int) -> None:
        progress = self.progress
        self._factor = self._factorise() if self._factor is None else self._factor
        if number == 0:
            self._evaluate()
        r, factor = progress.r, self._factor
        z = torch.cholesky_solve(r, factor)
        norm = (r * z).sum(0)
        p = progress.p.mul_(torch.where(progress.norm > 0, norm / progress.norm, 0.0)).add_(z)
        curvature = (p * (p + self._product(p))).sum(0)
        progress.theta += torch.where(curvature > 0, (p * r).sum(0) / curvature, 0.0) * p
        progress.norm.copy_(norm)
        self._evaluate()

    def _evaluate(self) -> None:
        """Set the state to α = C (y - Ψθ) of the weights, and its image."""
        theta = self.progress.theta
        alpha, image = torch.empty_like(self.state.alpha), torch.zeros_like(theta)
        for tile, psi in self._tiles():
            (target, c), wide = self._terms(tile), psi.double()
            alpha[tile] = (c * (target - wide @ theta)).to(alpha.dtype)
            image += wide.T @ alpha[tile].double()
        self.progress.r.copy_(image - theta)
        self.state.reset(alpha, image.to(alpha.dtype))

    def _product(self, p: Tensor) -> Tensor:  # (m, t) -> (m, t)
        """Return ΨᵀC Ψ p."""
        product = torch.zeros_like(p)
        for tile, psi in self._tiles():
            wide = psi.double()
            product += wide.T @ (self._terms(tile)[1] * (wide @ p))
        return product

    def _terms(self, rows: slice) -> tuple[Tensor, Tensor]:  # (b, t), (b, t)
        """Return the target and the diagonal of C of some rows, in float64: α = C (target - f) is optimal for f.

        They follow from the loss, which may be any quadratic one; C is 0 for rows of weight 0.
        """
        y, loss = self.problem.take(rows, torch.float64)
        zero = torch.zeros_like(y)
        low, high = loss.box(y)
        curvature = torch.where(low < high, loss.psi_curvature(y, zero), torch.inf)
        return -loss.psi_slope(y, zero), 1 / curvature

    def _tiles(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the features of all rows, a tile at a time."""
        state = self.feature_state
        row_bytes = state.features.work_bytes(1) + 8 * state.features.n_features + state.x.row_bytes
        budget = max(tile_bytes(state.tile_budget // 2, state.x.device), min(row_bytes, state.budget))
        for tile in tiles(len(state.x), row_bytes, budget, "features"):
            yield tile, state.features(state.x[tile])

    def _factorise(self) -> Tensor:  # (m, m)
        """Return the Cholesky factor of I + ΨᵀCΨ for the first column, with more diagonal where it needs that."""
        state = self.feature_state
        gram = state.image.new_zeros(len(state.image), len(state.image))
        for tile, psi in self._tiles():
            gram += features_gram(psi.mul_(self._terms(tile)[1][:, :1].sqrt().to(psi.dtype)))
        gram.diagonal().add_(1.0)
        # A factor that barely exists has pivots that are rounding errors, and its inverse would be useless.
        jitter = JITTER * torch.finfo(gram.dtype).eps * len(gram) ** 0.5 * gram.diagonal().mean()
        gram = gram.double()
        for _ in range(MOST_JITTERS):
            gram.diagonal().add_(jitter)
            found = torch.linalg.cholesky_ex(gram)
            if not bool(found.info):
                factor: Tensor = found.L
                return factor
            del found
            jitter = MORE_JITTER * jitter
        return torch.diag(gram.diagonal().sqrt())

    def release(self) -> None:
        self._factor = None

    def restarted(self) -> None:
        self.progress = _Progress(self.state)

    def parts(self) -> dict[str, SavedTensors]:
        return {"gram": self.progress}
