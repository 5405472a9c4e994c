"""Block descent: visit blocks in random order, with an average of the iterates or with momentum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, ClassVar

import torch
from torch import Tensor

from joker.data import Blocks
from joker.ops.triton_support import take
from joker.runtime import chunks
from joker.runtime.cuda_graphs import Replay, beside
from joker.solvers.block.model import BlockResult
from joker.solvers.block.trust_region import BlockSolver, never_waits
from joker.solvers.methods.method import AFTER_LAYOUT, Item, Method, ProblemSize
from joker.solvers.problem import Problem, Settings
from joker.solvers.report import Gap, Point
from joker.solvers.state import BlockBuffers, OpenBlock, PreparedBlock, SavedTensors, State

Step = Callable[..., None]  # of rows (b,), inputs (b, d) or None, and optionally a PreparedBlock


class BlockSchedule:
    """Calls a step for one block after another.

    It stores no reference to the step, whose owner is thus freed with its last reference. Where a step reads no number
    on the CPU, it is captured in a CUDA graph and ``replayed``.
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


# The average of the iterates, which a solve returns.
#
# A block solve fits its own block, so the last iterate is noisy. The average
#
#     ᾱ = Σ_j r (1−r)^(k−j) α_j / (1 − (1−r)^k)        over the steps j = 1 … k
#
# with a horizon 1/r of half an epoch is dual feasible, as the box is convex, and has a much smaller error.


HORIZON = 0.5  # epochs; benchmarks/averaging.py compares the average with the last iterate


class Average(SavedTensors):
    """Exponential average of α and its image, without the bias towards the start.

    α of a row changes only when its block is visited. So its sum is updated only then, and
    when the average is read: a step costs time proportional to the block.
    """

    saved = ("alpha", "image", "steps", "seen")

    def __init__(self, state: State, count: int) -> None:
        self.rate = min(1.0, 1 / (HORIZON * count))
        self.alpha, self.image = torch.zeros_like(state.alpha), torch.zeros_like(state.image)
        # The counts are tensors on the device of the data, so that a step can be captured and replayed.
        self.steps = torch.zeros(1, dtype=torch.int32, device=state.alpha.device)
        self.seen = self.steps.repeat(len(state.alpha))  # the step at which the sum of each row was last updated

    def record(self, block: OpenBlock, a: Tensor, state: State) -> None:  # (b, t)
        """Add a step that moved a block from ``block.a`` to ``a``."""
        sums = torch.lerp(block.a, take(self.alpha, block.rows), self._remaining(self.seen[block.rows]))
        self.alpha.index_copy_(0, block.rows, torch.lerp(sums, a, self.rate))
        self.image.lerp_(state.image, self.rate)
        self.steps += 1
        self.seen.index_copy_(0, block.rows, self.steps.expand(len(block.rows)))

    def record_all(self, state: State) -> None:
        """Add a step that moved every row."""
        self.alpha.lerp_(state.alpha, self.rate)
        self.image.lerp_(state.image, self.rate)
        self.steps += 1
        self.seen.copy_(self.steps.expand_as(self.seen))

    def read(self, state: State) -> tuple[Tensor, Tensor]:
        """Return the average α (n, t) and its image; before the first step, copies of those of the state."""
        if not int(self.steps):
            return state.alpha.clone(), state.image.clone()
        weight = 1 - (1 - self.rate) ** int(self.steps)
        alpha = torch.empty_like(self.alpha)
        for rows in chunks(len(alpha), 2 * alpha.shape[1]):  # three temporary tensors each
            share = self._remaining(self.seen[rows])
            alpha[rows] = torch.lerp(state.alpha[rows], self.alpha[rows], share) / weight
        return alpha, self.image / weight

    def _remaining(self, seen: Tensor) -> Tensor:  # (b,) -> (b, 1)
        """Return the weight that a sum updated at the step ``seen`` has now."""
        return torch.pow(1 - self.rate, (self.steps - seen).double()).to(self.alpha.dtype)[:, None]


# Accelerated block descent, for every loss: proximal coordinate descent with momentum.
#
# There are three points: x, which is returned; z, which takes long steps; and y between them, where the gradient is
# evaluated. With N blocks, each step on a block B does
#
#     y = (1−θ) x + θ z
#     z_B ← argmin over z' of  f(y)·(z'−z) + ½ Nθ (z'−z)·K_BB (z'−z) + Σ ψ(z')
#     x = y + Nθ (z_new − z),      θ ← ½ (√(θ⁴ + 4θ²) − θ²),      θ = 1/N at first,
#
# so the block problem is the one without momentum with K_BB scaled by Nθ ≤ 1. x is always a convex combination of
# the points z, so it stays in the box of any loss. For blocks drawn at random and solved exactly the expected J(x)
# falls as 1/k² instead of 1/k (Fercoq and Richtárik, "Accelerated, parallel and proximal coordinate descent", SIAM
# J. Optim. 25, 2015; K_BB is the block majorant they require). That proof does not cover shuffled blocks solved to
# a tolerance; there the gap is the proof. If J rises from one evaluation to the next, θ and z start again.


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


RANDOM = "random_blocks"
SEEN_BYTES = 4  # of the step at which the average of a row was updated
BLOCK_ORDER_BYTES = 48  # bytes of the visiting order, for each block: a Python list of integers
ONE_BLOCK_TOL = 0.1  # largest tolerance of the block solver for one block, because no other block corrects its error


class RandomBlocks(Method):
    """Every row once in an epoch, in blocks that are drawn anew for each epoch."""

    name = RANDOM
    usable_early = True
    partition: ClassVar[type[Blocks]] = Blocks
    """The rows of each block, and the order of the blocks."""

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        self.blocks = self.partition(len(state.x), settings.block_size, settings.seed, state.x.shuffled)
        super().__init__(state, problem, settings, self.blocks.count)
        self.mean = Average(state, self.blocks.count) if settings.averaging else None
        self.momentum = Momentum(state, self.blocks.count) if settings.momentum else None
        # One block of an unbounded quadratic loss is solved by one factorisation, to the last digit.
        factorised = self.blocks.count == 1 and problem.loss.quadratic and problem.loss.unbounded
        self._dual = None if factorised else problem.dual
        solved = never_waits(problem.loss, self._dual, state.alpha.device, self.blocks.size)
        self.schedule = BlockSchedule(state, self.blocks, replayed=solved and state.never_waits)

    @classmethod
    def averages(cls, size: ProblemSize) -> bool:
        return size.averaging

    @classmethod
    def memory(cls, size: ProblemSize, order_bytes: int) -> tuple[Item, ...]:
        order = order_bytes + BLOCK_ORDER_BYTES * -(-size.rows // cls.block_rows(size))
        return (
            Item("order of rows and blocks", order, AFTER_LAYOUT),
            Item("their average", _average_bytes(size), AFTER_LAYOUT),
            Item("momentum", _momentum_bytes(size), AFTER_LAYOUT),
        )

    @classmethod
    def saved_bytes(cls, size: ProblemSize) -> int:
        return _average_bytes(size) + _momentum_bytes(size)

    @property
    def solver(self) -> BlockSolver:
        """The block solver. Its tolerance is kept, without patience, where its errors would add up."""
        solver = self.settings.block
        if self.blocks.count == 1:
            return replace(solver, tol=min(solver.tol, ONE_BLOCK_TOL), patience=inf)
        return replace(solver, patience=inf) if self.momentum else solver

    def step(self, number: int) -> None:
        """Visit one block.

        The large tensors of a step are allocated before `commit` changes anything, so that a step can be repeated with
        less memory. With momentum, `extrapolate` is then repeated, which keeps α in the box and its image valid.
        """
        self.schedule.visit(number, self._visit)

    def _visit(self, rows: Tensor, x: Tensor | None, prepared: PreparedBlock | None = None) -> None:  # (b,), (b, d)
        """Visit a block, with its inputs or its prepared tensors, without reading any number on the CPU."""
        rows = rows.long()
        if self.momentum:
            result = self.momentum.step(self.state, rows, x, prepared, self.problem, self.solver)
            if self.mean:
                self.mean.record_all(self.state)
        else:
            block = self.state.open(rows, x, prepared)
            result, _ = self.state.commit(block, self.solve(block))
            if self.mean:
                self.mean.record(block, result.a, self.state)
        self.statistics.add(result)

    def solve(self, block: OpenBlock) -> BlockResult:
        """Return the new α of a block, without momentum. It reads no number on the CPU either."""
        return self.solver.solve(block.K, block.f, block.a, *self.problem.take(block.rows), self._dual)

    def average(self) -> Point | None:
        return None if self.mean is None else self.mean.read(self.state)

    def epoch_ended(self, gap: Gap) -> None:
        if self.momentum:
            self.momentum.check(gap.own_dual, self.state)

    def restarted(self) -> None:
        if self.momentum:
            self.momentum = Momentum(self.state, self.blocks.count)

    def release(self) -> None:
        self.schedule.release()

    def parts(self) -> dict[str, SavedTensors]:
        parts = {"average": self.mean, "momentum": self.momentum}
        return {name: part for name, part in parts.items() if part is not None}


def _average_bytes(size: ProblemSize) -> int:
    return size.alpha_bytes + size.image_bytes + SEEN_BYTES * size.rows if size.averaging else 0


def _momentum_bytes(size: ProblemSize) -> int:
    return size.alpha_bytes + size.image_bytes if size.momentum else 0
