"""Which strategy minimises the models of a block."""

from __future__ import annotations

from joker.solvers.block.box_cg import BoxCg
from joker.solvers.block.cg import ClampedCg, UnboundedCg
from joker.solvers.block.cholesky import Cholesky
from joker.solvers.block.model import BlockProblem, Strategy

# From the most special to the most general; the first one that suits is used.
STRATEGIES: tuple[type[Strategy], ...] = (
    Cholesky,  # quadratic, unbounded, one or two factors: a linear system
    UnboundedCg,  # quadratic, unbounded: linear systems that share one inverse
    ClampedCg,  # unbounded, or a barrier without a kink: no wall holds a solution
    BoxCg,  # any loss
)


def choose(problem: BlockProblem) -> Strategy:
    """Return the first strategy that suits the problem."""
    return next(strategy for strategy in STRATEGIES if strategy.suits(problem))(problem)
