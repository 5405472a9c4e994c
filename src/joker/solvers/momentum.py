"""Accelerated block descent, for every loss: proximal coordinate descent with momentum.

Three points: x, which is returned; z, which takes long steps; and y between them, where
the gradient is taken. With N blocks, each step on a block B does

    y = (1−θ) x + θ z
    z_B ← argmin over z' of  f(y)·(z'−z) + ½ Nθ (z'−z)·K_BB (z'−z) + Σ ψ(z')
    x = y + Nθ (z_new − z),      θ ← ½ (√(θ⁴ + 4θ²) − θ²),      θ = 1/N at first,

so the block problem is the one without momentum with K_BB shrunk by Nθ ≤ 1. x is always
a convex combination of the points z, so it stays in the box of any loss. For blocks drawn
at random and solved exactly the expected J(x) falls as 1/k² instead of 1/k (Fercoq and
Richtárik, "Accelerated, parallel and proximal coordinate descent", SIAM J. Optim. 25, 2015;
K_BB is the block majorant they ask for). Shuffled blocks solved to a tolerance are not
covered by that proof; there the gap is the proof. Where J rises from one look to the next,
θ and z start anew.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from joker.ops.rows import take
from joker.solvers.block.result import BlockResult
from joker.solvers.block.trust_region import BlockSolver
from joker.solvers.problem import Problem
from joker.solvers.state import Ready, State

ROUNDING = 100  # units in the last place by which an objective of many rows may rise for no reason


class Momentum:
    """The points z and y; x is the state itself between two steps."""

    def __init__(self, state: State, count: int) -> None:
        self.count = count
        # Kept where the data are, so that a step can be captured and replayed.
        self.theta = torch.full((1,), 1 / count, dtype=torch.float64, device=state.alpha.device)
        self.alpha, self.image = state.alpha.clone(), state.image.clone()
        self.dual: Tensor | None = None

    def step(
        self,
        state: State,
        rows: Tensor,  # (b,)
        x: Tensor | None,  # (b, d)
        ready: Ready | None,
        problem: Problem,
        solver: BlockSolver,
    ) -> BlockResult:
        """Visit the block of ``rows``, whose inputs are ``x``, or which is ``ready``."""
        theta, shrink = self.theta.to(state.alpha.dtype), (self.count * self.theta).to(state.alpha.dtype)
        state.alpha.lerp_(self.alpha, theta)
        state.image.lerp_(self.image, theta)
        block = state.open(rows, x, ready)
        z = take(self.alpha, rows)
        found = solver.solve(shrink * block.K, block.f, z, *problem.take(rows), problem.dual)
        found, change = state.settle(block, z, found, shrink)
        self.alpha.index_copy_(0, rows, found.a)
        self.image += change
        state.alpha.index_add_(0, rows, shrink * (found.a - z))
        state.image += shrink * change
        square = self.theta.square()
        self.theta.copy_(((square.square() + 4 * square).sqrt() - square) / 2)
        return found

    def check(self, dual: Tensor, state: State) -> None:
        """Start anew if the dual objective (t,) of a column has risen since the last check, by more than rounding."""
        before, self.dual = self.dual, dual
        if before is None:
            return
        rounding = ROUNDING * torch.finfo(state.alpha.dtype).eps * before.abs()
        if bool((dual - before > rounding).any()):
            self.theta.fill_(1 / self.count)
            self.alpha.copy_(state.alpha)
            self.image.copy_(state.image)

    def state_dict(self) -> dict[str, Any]:
        """z, its image and θ."""
        points = {"alpha": self.alpha.clone(), "image": self.image.clone()}
        return {**points, "theta": self.theta.clone(), "dual": self.dual}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take over saved ones."""
        self.alpha.copy_(saved["alpha"])
        self.image.copy_(saved["image"])
        self.theta.copy_(saved["theta"])
        dual = saved["dual"]
        self.dual = None if dual is None else dual.to(self.alpha.device)
