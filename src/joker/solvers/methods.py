"""Which method solves a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isinf

from joker.losses import Loss
from joker.solvers.conjugate_gradients import ConjugateGradients
from joker.solvers.greedy_blocks import GreedyBlocks
from joker.solvers.method import Method
from joker.solvers.problem import Problem
from joker.solvers.random_blocks import RandomBlocks
from joker.solvers.settings import AUTO, CONJUGATE_GRADIENTS, GREEDY, RANDOM, Settings
from joker.solvers.state import State

METHODS: dict[str, Callable[[State, Problem, Settings], Method]] = {
    RANDOM: RandomBlocks,
    GREEDY: GreedyBlocks,
    CONJUGATE_GRADIENTS: ConjugateGradients,
}


def resolved(settings: Settings, loss: Loss, n: int, *, exact: bool) -> Settings:
    """Return the settings with the method that suits a problem of n rows, where they leave the choice.

    With the kernel itself the prediction of every row is known, so that a block can be chosen by what it gains, and a
    squared loss is a linear system. With features, and for one block, rows are visited in random order.
    """
    if settings.method != AUTO:
        return settings
    blocks = settings.momentum or not isinf(settings.radius) or n <= settings.block_size
    if not exact or blocks or settings.order != Settings.order:
        return replace(settings, method=RANDOM)
    linear = loss.quadratic and loss.unbounded
    return replace(settings, method=CONJUGATE_GRADIENTS if linear else GREEDY)
