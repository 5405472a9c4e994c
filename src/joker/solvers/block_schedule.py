"""Visits to blocks, one after another: on a card captured and replayed, with the next block made ready meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from joker.data import Blocks
from joker.runtime.cuda_graphs import Replay, beside
from joker.solvers.state import State

Step = Callable[..., None]  # of k (1,), rows (b,), and inputs (b, d) or None and what is Ready


class Visits:
    """Hands blocks to a step, of which it keeps nothing: the owner of both is freed with its last reference.

    Parameters
    ----------
    state : State
        Whose rows they are of.
    blocks : Blocks
        Which rows are a block, and in which order blocks come.
    replayed : bool
        Whether nothing in a step needs the host, so that it can be captured.
    """

    def __init__(self, state: State, blocks: Blocks, replayed: bool) -> None:
        self.state, self.blocks = state, blocks
        self._permutation = None if blocks.shuffled else blocks.permutation.to(state.x.index_device)
        self._numbers = torch.arange(blocks.count, device=state.alpha.device)
        self._replayed = replayed
        self.forget()

    def forget(self) -> None:
        """Let go what was captured or made ahead; it is made again when it is needed."""
        self.replay = Replay() if self._replayed else None
        self._made: int | None = None  # the step whose block is ready
        self.state.let_go()

    def visit(self, number: int, step: Step) -> None:
        """Make the step of this number."""
        k = self.blocks.visit(number)
        block = self._numbers[k : k + 1], self._rows(k)
        if self.replay is None:
            step(*block, self._inputs(number))
        elif not self.state.ahead:
            self.replay(step, *block, self._inputs(number))
        else:
            self._visit_and_go_ahead(self.replay, number, step, *block)

    def _visit_and_go_ahead(self, replay: Replay, number: int, step: Step, k: Tensor, rows: Tensor) -> None:
        """Make a step on a block that is ready, and the next one ready: a solve leaves much of a card idle."""
        turn, made, self._made = number % 2, self._made, None
        if made != number:
            self.state.take_room()  # outside a graph, which would own it
            replay(partial(self._make_ready, turn), self._inputs(number), key=("ready", turn))
        replay(partial(self._step_ahead, turn, step), k, rows, self._inputs(number + 1), key=turn)
        self._made = number + 1

    def _make_ready(self, turn: int, x: Tensor) -> None:
        beside(x.device, lambda: self.state.make_ready(x, turn))()

    def _step_ahead(self, turn: int, step: Step, k: Tensor, rows: Tensor, x: Tensor) -> None:
        arrive = beside(x.device, lambda: self.state.make_ready(x, 1 - turn))
        step(k, rows, None, self.state.made(turn, len(rows)))
        arrive()

    def _rows(self, k: int) -> Tensor:  # (b,)
        """The rows of block k."""
        run, device = self.blocks.span(k), self.state.alpha.device
        if self._permutation is None:
            return torch.arange(*run, device=device)
        return self._permutation[slice(*run)].to(device, non_blocking=True)

    def _inputs(self, number: int) -> Tensor:  # (b, d)
        """The inputs of the block of a step; those of the one after it may be fetched meanwhile."""
        run, following = (slice(*self.blocks.span(self.blocks.visit(at))) for at in (number, number + 1))
        if self._permutation is not None:
            return self.state.x[self._permutation[run]]
        inputs = self.state.x[run]
        self.state.x.expect(following)
        return inputs
