"""Which method solves a problem."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isinf

from joker.distributed import current
from joker.errors import InvalidParameter
from joker.losses import Loss
from joker.solvers.conjugate_gradients import ConjugateGradients
from joker.solvers.exact_state import ExactState
from joker.solvers.gram_gradients import GramGradients, gram_bytes
from joker.solvers.greedy_blocks import GreedyBlocks
from joker.solvers.method import Method
from joker.solvers.problem import Problem
from joker.solvers.random_blocks import RandomBlocks
from joker.solvers.settings import AUTO, CONJUGATE_GRADIENTS, GREEDY, RANDOM, Settings
from joker.solvers.state import State

# On a GPU a random block costs so little that greedy blocks, which are chosen for all columns together, are slower with
# many columns.
MOST_GREEDY_COLUMNS = 16
GRAM_WORK, GPU_GRAM_WORK = 2 * 10**12, 10**15  # entries of features times their number, up to which a Gram matrix pays


def method_of(state: State, problem: Problem, settings: Settings) -> Method:
    """Return the method of resolved settings."""
    if settings.method == CONJUGATE_GRADIENTS:
        gradients = ConjugateGradients if isinstance(state, ExactState) else GramGradients
        return gradients(state, problem, settings)
    return {RANDOM: RandomBlocks, GREEDY: GreedyBlocks}[settings.method](state, problem, settings)


def resolved(
    settings: Settings,
    loss: Loss,
    n: int,
    m: int | None,
    *,
    columns: int = 1,
    one_penalty: bool = True,
    gram_room: float = inf,
    on_gpu: bool = False,
    itemsize: int = 4,
) -> Settings:
    """Return the settings with the method that suits a problem of n rows, where they leave the choice.

    With the kernel itself (m is None) the prediction of every row is known, so that a block can be chosen by what it
    gains, and a squared loss is a linear system. With m features a squared loss is one too, of size m: it is solved
    where its matrix fits ``gram_room`` bytes and takes no more work than some tens of epochs. Otherwise, and for one
    block, rows are visited in random order.
    """
    linear = loss.quadratic and loss.unbounded
    if settings.method != AUTO:
        if settings.method == GREEDY and m is not None:
            raise InvalidParameter(
                f"method='greedy_blocks' needs the kernel itself, n_features=None; got n_features={m}. "
                "Use method='random_blocks'."
            )
        if settings.method == CONJUGATE_GRADIENTS and not (linear and (m is None or one_penalty)):
            raise InvalidParameter(
                "method='conjugate_gradients' needs the squared loss, and one λ with features; got "
                f"{loss!r}{'' if m is None else ' with features'}. Use method='auto'."
            )
        if settings.method == CONJUGATE_GRADIENTS and m is not None and current().size > 1:
            raise InvalidParameter(
                "method='conjugate_gradients' with features must be used by one process, because no process has all "
                f"features; got {current().size} processes. Use method='auto'."
            )
        return settings
    blocks = settings.momentum or not isinf(settings.radius) or settings.order != Settings.order
    if blocks or n <= settings.block_size:
        return replace(settings, method=RANDOM)
    if m is None and not linear and on_gpu and columns > MOST_GREEDY_COLUMNS:
        return replace(settings, method=RANDOM)
    if m is None:
        return replace(settings, method=CONJUGATE_GRADIENTS if linear else GREEDY)
    work = n * m**2 <= (GPU_GRAM_WORK if on_gpu else GRAM_WORK)
    gram = linear and one_penalty and work and current().size == 1 and gram_bytes(m, itemsize) <= gram_room
    return replace(settings, method=CONJUGATE_GRADIENTS if gram else RANDOM)
