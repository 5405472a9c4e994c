"""The visits to blocks. On a GPU a step is captured and replayed, and the next block is prepared during a step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from joker.data import Blocks
from joker.runtime.cuda_graphs import Replay, beside
from joker.solvers.block_buffers import BlockBuffers
from joker.solvers.state import State

Step = Callable[..., None]  # of k (1,), rows (b,), inputs (b, d) or None, and optionally a PreparedBlock


class BlockSchedule:
    """Calls a step for one block after another.

    It stores no reference to the step, whose owner is thus freed with its last reference.

    Parameters
    ----------
    state : State
        The state, with the rows.
    blocks : Blocks
        The rows of each block, and the order of the blocks.
    replayed : bool
        Whether a step reads no number on the CPU, so that it can be captured in a CUDA graph.
    """

    def __init__(self, state: State, blocks: Blocks, replayed: bool) -> None:
        self.state, self.blocks = state, blocks
        self._permutation = None if blocks.shuffled else blocks.permutation.to(state.x.index_device)
        self._numbers = torch.arange(blocks.count, device=state.alpha.device)
        self._replayed = replayed
        self.release()

    def release(self) -> None:
        """Free captured steps and prepared blocks; they are computed again when they are needed."""
        self.replay = Replay() if self._replayed else None
        self._prepared: int | None = None  # the step whose block is in a buffer
        if self.state.buffers:
            self.state.buffers.release()

    def visit(self, number: int, step: Step) -> None:
        """Call ``step`` for the block of this step number."""
        k = self.blocks.visit(number)
        block = self._numbers[k : k + 1], self._rows(k)
        if self.replay is None:
            step(*block, self._inputs(number))
        elif self.state.buffers is None:
            self.replay(step, *block, self._inputs(number))
        else:
            self._visit_and_prepare_next(self.replay, self.state.buffers, number, step, *block)

    def _visit_and_prepare_next(
        self, replay: Replay, buffers: BlockBuffers, number: int, step: Step, k: Tensor, rows: Tensor
    ) -> None:
        """Call ``step`` for a prepared block and prepare the next one, as a solve leaves much of a GPU idle."""
        buffer, prepared, self._prepared = number % 2, self._prepared, None
        if prepared != number:
            buffers.allocate()  # outside a graph, which would own the memory
            prepare = partial(_prepare, buffers, buffer)
            replay(prepare, self._inputs(number), key=("prepare", buffer))
        visit = partial(_visit_and_prepare, buffers, buffer, step)
        replay(visit, k, rows, self._inputs(number + 1), key=buffer)
        self._prepared = number + 1

    def _rows(self, k: int) -> Tensor:  # (b,)
        """Return the rows of block k."""
        span, device = self.blocks.span(k), self.state.alpha.device
        if self._permutation is None:
            return torch.arange(*span, device=device)
        return self._permutation[slice(*span)].to(device, non_blocking=True)

    def _inputs(self, number: int) -> Tensor:  # (b, d)
        """Return the inputs of the block of a step; those of the next step may be fetched in the meantime."""
        span, following = (slice(*self.blocks.span(self.blocks.visit(at))) for at in (number, number + 1))
        if self._permutation is not None:
            return self.state.x[self._permutation[span]]
        inputs = self.state.x[span]
        self.state.x.expect(following)
        return inputs


def _prepare(buffers: BlockBuffers, buffer: int, x: Tensor) -> None:
    beside(x.device, lambda: buffers.prepare(x, buffer))()


def _visit_and_prepare(buffers: BlockBuffers, buffer: int, step: Step, k: Tensor, rows: Tensor, x: Tensor) -> None:
    wait = beside(x.device, lambda: buffers.prepare(x, 1 - buffer))
    step(k, rows, None, buffers.block(buffer, len(rows)))
    wait()
