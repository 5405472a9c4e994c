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

Step = Callable[..., None]  # of rows (b,), inputs (b, d) or None, and optionally a PreparedBlock


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
        self._permutations: dict[int, Tensor] = {}  # by number; those of this epoch and of the next
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
        rows = self._rows(number).to(self.state.alpha.device, non_blocking=True)
        if self.replay is None:
            step(rows, self._inputs(number))
        elif self.state.buffers is None:
            self.replay(step, rows, self._inputs(number))
        else:
            self._visit_and_prepare_next(self.replay, self.state.buffers, number, step, rows)

    def _visit_and_prepare_next(
        self, replay: Replay, buffers: BlockBuffers, number: int, step: Step, rows: Tensor
    ) -> None:
        """Call ``step`` for a prepared block and prepare the next one, as a solve leaves much of a GPU idle."""
        buffer, prepared, self._prepared = number % 2, self._prepared, None
        if prepared != number:
            buffers.allocate()  # outside a graph, which would own the memory
            prepare = partial(_prepare, buffers, buffer)
            replay(prepare, self._inputs(number), key=("prepare", buffer))
        visit = partial(_visit_and_prepare, buffers, buffer, step)
        replay(visit, rows, self._inputs(number + 1), key=buffer)
        self._prepared = number + 1

    def _rows(self, number: int) -> Tensor:  # (b,)
        """Return the rows of the block of a step, on the device that reads rows by their numbers."""
        if self.blocks.shuffled:
            return self.blocks.rows(number)
        drawn, place = self.blocks.place(number)
        if drawn not in self._permutations:
            self._permutations.pop(drawn - 2, None)
            self._permutations[drawn] = self.blocks.permutation(drawn).to(self.state.x.index_device)
        return self._permutations[drawn][place]

    def _inputs(self, number: int) -> Tensor:  # (b, d)
        """Return the inputs of the block of a step; those of the next step may be fetched in the meantime."""
        if not self.blocks.shuffled:
            return self.state.x[self._rows(number)]
        parts = [self.state.x[run] for run in self.blocks.runs(number)]
        for run in self.blocks.runs(number + 1):
            self.state.x.expect(run)
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def _prepare(buffers: BlockBuffers, buffer: int, x: Tensor) -> None:
    beside(x.device, lambda: buffers.prepare(x, buffer))()


def _visit_and_prepare(buffers: BlockBuffers, buffer: int, step: Step, rows: Tensor, x: Tensor) -> None:
    wait = beside(x.device, lambda: buffers.prepare(x, 1 - buffer))
    step(rows, None, buffers.block(buffer, len(rows)))
    wait()
