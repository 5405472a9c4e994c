"""Conjugate gradients for a squared loss with features, preconditioned by the Gram matrix ΨᵀWΨ.

With θ = the weights of the features, the problem is A θ = ΨᵀC y for A = I + ΨᵀCΨ and C = W/λ. One pass over the rows
computes the Gram matrix, in float32 or less, and its Cholesky factor is so good an approximation of A that a few more
passes solve the system. At the weights θ the dual point is α = C (y - Ψθ), and its image is Ψᵀα = θ + r, where r is
the residual: so a pass along p moves α and its image, and the gap is that of the state.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from joker.ops.bfloat16_gram import features_gram
from joker.runtime import chunks, tile_bytes, tiles
from joker.solvers.conjugate_gradients import column_dot
from joker.solvers.feature_state import FeatureState
from joker.solvers.method import Method
from joker.solvers.problem import Problem
from joker.solvers.saved_tensors import SavedTensors
from joker.solvers.settings import Settings
from joker.solvers.state import State

GRAM_VECTORS = 6  # (m, t) and (n, t) matrices beside the state
FIRST_JITTER, MORE_JITTER, MOST_JITTERS = 1e-7, 8.0, 12  # as shares of the mean of the diagonal


def gram_bytes(m: int, itemsize: int) -> int:
    """Return the bytes of the Gram matrix of m features and of its factor, and of a matrix while it is factorised."""
    return 3 * itemsize * m * m


class _Progress(SavedTensors):
    """The residual, the last direction, the squared norm of the residual; and whether the first point is set."""

    saved = ("r", "p", "norm", "begun")

    def __init__(self, state: State) -> None:
        self.r, self.p = torch.zeros_like(state.image), torch.zeros_like(state.image)
        self.norm = torch.zeros_like(state.image[0], dtype=torch.float64)
        self.begun = torch.zeros(1, dtype=torch.bool)


class GramGradients(Method):
    """Preconditioned conjugate gradients in the weights of the features; an epoch is one pass over the rows."""

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        assert isinstance(state, FeatureState)
        super().__init__(state, 1)
        self.feature_state, self.problem = state, problem
        self.progress = _Progress(state)
        self._factor: Tensor | None = None

    def step(self, number: int) -> None:
        progress = self.progress
        if self._factor is None:
            self._factor = self._factorise()
        if not bool(progress.begun):
            self._begin()
        z = self._solve(progress.r)
        norm = column_dot(progress.r, z)
        keep = torch.where(progress.norm > 0, norm / progress.norm, 0.0).to(z.dtype)
        p = z + keep * progress.p
        alpha, image = self._pass(p)  # C Ψ p, and Ψᵀ of it
        curvature = column_dot(p, p + image)
        length = torch.where(curvature > 0, column_dot(p, progress.r) / curvature, 0.0).to(p.dtype)
        self.state.move(alpha.mul_(-length), -length * image)
        progress.r.sub_(length * (p + image))
        progress.p.copy_(p)
        progress.norm.copy_(norm)

    def _begin(self) -> None:
        """Begin at θ = 0: α = C y, and the residual is its image."""
        alpha = torch.empty_like(self.state.alpha)
        for rows in chunks(len(alpha), 2 * alpha.shape[1]):
            y, loss = self.problem.take(rows)
            alpha[rows] = loss.unscaled[1] * y
        self.state.reset(alpha)
        self.progress.r.copy_(self.state.image)
        self.progress.begun.fill_(True)

    def _pass(self, p: Tensor) -> tuple[Tensor, Tensor]:  # (m, t) -> (n, t), (m, t)
        """Return C Ψ p and ΨᵀC Ψ p, in one pass over the rows."""
        alpha, image = torch.empty_like(self.state.alpha), torch.zeros_like(p)
        for tile, psi in self._tiles():
            alpha[tile] = self._scale(tile) * (psi @ p)
            image += psi.T @ alpha[tile]
        return alpha, image

    def _tiles(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the features of all rows, a tile at a time."""
        state = self.feature_state
        row_bytes = 2 * state.features.work_bytes(1) + state.x.row_bytes
        budget = max(tile_bytes(state.tile_budget, state.x.device), min(row_bytes, state.budget))
        for tile in tiles(len(state.x), row_bytes, budget, "features"):
            yield tile, state.features(state.x[tile])

    def _scale(self, rows: slice) -> Tensor:  # (b, t) or (b, 1)
        return torch.as_tensor(self.problem.take(rows)[1].unscaled[1])

    def _solve(self, r: Tensor) -> Tensor:  # (m, t)
        assert self._factor is not None
        return torch.cholesky_solve(r, self._factor)

    def _factorise(self) -> Tensor:  # (m, m)
        """Return the Cholesky factor of I + ΨᵀCΨ for the first column, with more diagonal where it needs that."""
        state = self.feature_state
        gram = state.image.new_zeros(len(state.image), len(state.image))
        for tile, psi in self._tiles():
            gram += features_gram(psi.mul_(self._scale(tile)[:, :1].sqrt()))
        gram.diagonal().add_(1.0)
        jitter = FIRST_JITTER * gram.diagonal().mean()
        for _ in range(MOST_JITTERS):
            found = torch.linalg.cholesky_ex(gram)
            if not bool(found.info):
                factor: Tensor = found.L
                return factor
            del found
            gram.diagonal().add_(jitter)
            jitter = MORE_JITTER * jitter
        return torch.diag(gram.diagonal().sqrt())

    def release(self) -> None:
        self._factor = None

    def restarted(self) -> None:
        self.progress = _Progress(self.state)

    def parts(self) -> dict[str, SavedTensors]:
        return {"gram": self.progress}
