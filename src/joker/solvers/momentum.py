"""Accelerated block descent, for every loss: proximal coordinate descent with momentum.

There are three points: x, which is returned; z, which takes long steps; and y between them,
where the gradient is evaluated. With N blocks, each step on a block B does

    y = (1−θ) x + θ z
    z_B ← argmin over z' of  f(y)·(z'−z) + ½ Nθ (z'−z)·K_BB (z'−z) + Σ ψ(z')
    x = y + Nθ (z_new − z),      θ ← ½ (√(θ⁴ + 4θ²) − θ²),      θ = 1/N at first,

so the block problem is the one without momentum with K_BB scaled by Nθ ≤ 1. x is always
a convex combination of the points z, so it stays in the box of any loss. For blocks drawn
at random and solved exactly the expected J(x) falls as 1/k² instead of 1/k (Fercoq and
Richtárik, "Accelerated, parallel and proximal coordinate descent", SIAM J. Optim. 25, 2015;
K_BB is the block majorant they require). That proof does not cover shuffled blocks solved to
a tolerance; there the gap is the proof. If J rises from one evaluation to the next, θ and z
start again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from joker.ops.rows import take
from joker.solvers.block.result import BlockResult
from joker.solvers.block.trust_region import BlockSolver
from joker.solvers.block_buffers import PreparedBlock
from joker.solvers.problem import Problem
from joker.solvers.saved_tensors import SavedTensors
from joker.solvers.state import State

OBJECTIVE_ROUNDING = 100  # units in the last place by which rounding errors may raise an objective of many rows


class Momentum(SavedTensors):
    """The point z and the weight θ. The state is x between two steps, and y during a step."""

    saved = ("alpha", "image", "theta")

    def __init__(self, state: State, count: int) -> None:
        self.count = count
        # θ is a tensor on the device of the data, so that a step can be captured and replayed.
        self.theta = torch.full((1,), 1 / count, dtype=torch.float64, device=state.alpha.device)
        self.alpha, self.image = state.alpha.clone(), state.image.clone()  # z
        self.dual: Tensor | None = None

    def step(
        self,
        state: State,
        rows: Tensor,  # (b,)
        x: Tensor | None,  # (b, d)
        prepared: PreparedBlock | None,
        problem: Problem,
        solver: BlockSolver,
    ) -> BlockResult:
        """Visit the block of ``rows``, with the inputs ``x`` or the tensors ``prepared`` from them."""
        dtype = state.alpha.dtype
        theta, scale = self.theta.to(dtype), (self.count * self.theta).to(dtype)
        state.extrapolate(self.alpha, self.image, theta)
        block = state.open(rows, x, prepared)
        z = take(self.alpha, rows)
        result = solver.solve(scale * block.K, block.f, z, *problem.take(rows), problem.dual)
        result, change = state.commit(block, result, z, scale)
        self.alpha.index_copy_(0, rows, result.a)
        self.image += change
        square = self.theta.square()
        self.theta.copy_(((square.square() + 4 * square).sqrt() - square) / 2)
        return result

    def check(self, dual: Tensor, state: State) -> None:
        """Start again if the dual objective (t,) of a column has risen since the last check, by more than rounding."""
        before, self.dual = self.dual, dual
        if before is None:
            return
        rounding = OBJECTIVE_ROUNDING * torch.finfo(state.alpha.dtype).eps * before.abs()
        if bool((dual - before > rounding).any()):
            self.theta.fill_(1 / self.count)
            self.alpha.copy_(state.alpha)
            self.image.copy_(state.image)

    def state_dict(self) -> dict[str, Any]:
        """Return copies of z, its image and θ, and the dual objective at the last check."""
        return {**super().state_dict(), "dual": self.dual}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        super().load_state_dict(saved)
        self.dual = None if saved["dual"] is None else saved["dual"].to(self.alpha.device)
