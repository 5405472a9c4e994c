"""Column blocks: each column has a working set of its own.

With many columns, such as the classes of one-vs-rest, a row is a support vector of a few columns only. Blocks that all
columns share (:mod:`joker.solvers.methods.greedy_blocks`) then move most rows in vain. Here the whole kernel matrix is
kept in memory, and a round does this for each column on its own, for all columns of a batch at once:

1. scan: the gap of the column, and the gain of each row. Columns whose gap has reached the tolerance are left out.
2. choose: the rows with the largest gain, half with rising and half with falling α, and rows of the last working set
   that are inside the box.
3. solve: the box problem of the working set, by greedy coordinate descent and Newton steps on the free coordinates.
4. update: the predictions change by a sum of some rows of the kernel matrix.

Coordinate descent finds the walls that hold coordinates, and Newton steps do what it is slow at: to move many free
coordinates along a direction in which the kernel matrix is nearly singular.

Inside, a column is a row in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from joker.errors import InvalidParameter
from joker.runtime import chunks, generator
from joker.runtime.devices import CHUNK_ENTRIES, one_thread, share
from joker.solvers.block.model import BlockResult, Outcome
from joker.solvers.kernel_cache import KernelCache, cache_bytes
from joker.solvers.methods.greedy_blocks import preferred
from joker.solvers.methods.method import (
    AFTER_LAYOUT,
    STEP,
    Item,
    KernelMemory,
    Method,
    ProblemSize,
    exact_epochs,
)
from joker.solvers.problem import Problem, Settings
from joker.solvers.state import ExactState, SavedTensors, State

WORKING_SET = 64  # rows, at most: a larger one needs fewer rounds, and more time in all
ROUNDS = 8  # of a step
KEPT = 0.25  # share of a working set that is taken from the last one
MOVES = (32, 16)  # of coordinate descent before each Newton step
LEAST_COLUMNS = 50  # with fewer columns and a large C, blocks that all columns share take less time
BATCH_ENTRIES, MOST_COLUMNS = 2**21, 512  # predictions and columns of a batch: longer vectors gain little
AIM = 0.95  # share of the tolerance at which a column is left out: the certificate adds rounding errors
TIGHTER = 0.5  # factor of this aim where all columns have reached it and the solve goes on
RIDGE = 32  # units in the last place of its diagonal, by which a singular matrix is made positive definite
TIES = 0.01  # gains are made smaller by up to this share, at random: at the start most are equal
SCAN_COPIES, BATCH_COPIES, BLOCK_COPIES = 24, 6, 6  # temporary tensors of a chunk, a batch and of its small matrices


@dataclass(frozen=True)
class Terms:
    """The dual terms of a quadratic loss: ½ curvature a² + slope a + kink |a|, for low ≤ a ≤ high."""

    low: Tensor  # (t, n), as all of them
    high: Tensor
    slope: Tensor
    curvature: Tensor
    kink: float = field(kw_only=True)

    @classmethod
    def of(cls, problem: Problem, like: Tensor) -> Terms:  # (n, t)
        """Return the terms of all rows and columns."""
        found = tuple(like.new_empty(like.shape[1], len(like)) for _ in range(4))
        for rows in chunks(len(like), 8 * like.shape[1]):
            y, loss = problem.take(rows)
            zero = torch.zeros_like(like[rows])
            values = (*loss.box(y.expand_as(zero)), loss.psi_slope(y, zero), loss.psi_curvature(y, zero))
            for tensor, value in zip(found, values, strict=True):
                tensor[:, rows] = value.expand_as(zero).T
        return cls(*found, kink=problem.loss.kink)

    def columns(self, chosen: Tensor) -> Terms:  # (c,)
        """Return the terms of some columns."""
        return Terms(*(v.index_select(0, chosen) for v in self._tensors), kink=self.kink)

    def rows(self, columns: Tensor, rows: Tensor) -> Terms:  # (c,), (c, q)
        """Return the terms of some rows of each of some columns."""
        return Terms(*(v[columns[:, None], rows] for v in self._tensors), kink=self.kink)

    @property
    def _tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.low, self.high, self.slope, self.curvature

    def minimum(self, linear: Tensor, quadratic: Tensor) -> Tensor:
        """Return the a in the box with the least ``linear`` a + ½ ``quadratic`` a² + kink |a|."""
        if self.kink:
            linear = linear - linear.clamp(-self.kink, self.kink)
        point = linear / quadratic.clamp(min=torch.finfo(linear.dtype).tiny)
        return torch.clamp(point.neg_(), self.low, self.high)

    def gaps(self, a: Tensor, f: Tensor) -> Tensor:  # (t,)
        """Return the relative gap of each column; a prediction's loss is the conjugate of its dual term."""
        g, h = f + self.slope, self.curvature
        best = self.minimum(g, h)
        dual = torch.addcmul(torch.sub(g, f, alpha=0.5), h, a, value=0.5).mul_(a)
        terms = torch.addcmul(g, h, a + best, value=0.5).mul_(a - best)
        if self.kink:
            dual += self.kink * a.abs()
            terms += self.kink * (a.abs() - best.abs())
        gap, J = terms.sum(1, dtype=torch.float64), dual.sum(1, dtype=torch.float64)
        scale = torch.maximum((gap - J).abs(), J.abs())
        return torch.where(gap == 0, 0.0, gap / scale.clamp(min=torch.finfo(scale.dtype).tiny))

    def gains(self, a: Tensor, f: Tensor, diagonal: Tensor) -> tuple[Tensor, Tensor]:  # (t, n)
        """Return by how much the objective falls if one α moves, as `Loss.gain` does, and whether it rises."""
        h = diagonal + self.curvature
        g = torch.addcmul(f + self.slope, self.curvature, a)
        new = self.minimum(torch.addcmul(g, h, a, value=-1), h)
        d = new - a
        fall = torch.addcmul(g, h, d, value=0.5).mul_(-d)
        if self.kink:
            fall -= self.kink * (new.abs() - a.abs())
        return fall.clamp_(min=0), d > 0


class WorkingSets:
    """The box problems of the working sets of some columns: g·s + ½ s·H s + kink (|a+s|₁ - |a|₁), H = K + curvature.

    Each move of `descend` and each step of `newton` lowers the objective of every column, or leaves it as it is.
    """

    def __init__(self, K: Tensor, f: Tensor, a: Tensor, terms: Terms) -> None:  # (c, q, q), (c, q); K is changed
        self.terms, self.first, self.a = terms, a, a.clone()
        K.diagonal(dim1=1, dim2=2).add_(terms.curvature)
        self.H, self.h = K, K.diagonal(dim1=1, dim2=2).contiguous()
        self.first_g = torch.addcmul(f + terms.slope, terms.curvature, a)
        self.g = self.first_g.clone()

    def solve(self) -> tuple[Tensor, Tensor]:  # (c, q), (c,)
        """Return the step of each column, 0 where rounding errors hide its decrease, and the change of J."""
        for moves in MOVES:
            self.descend(moves)
            self.newton()
        s = self.a - self.first
        change = self._change(self.first, self.first_g, s, self._times(s))[:, 0]
        return torch.where(change[:, None] >= 0, 0.0, s), change.clamp(max=0)

    def descend(self, moves: int) -> None:
        """Move the coordinate with the largest gain of each column, so many times."""
        a, g, h, kink = self.a, self.g, self.h, self.terms.kink
        rows, first = self.H.view(-1, a.shape[1]), torch.arange(len(a)) * a.shape[1]
        for _ in range(moves):
            new = self.terms.minimum(torch.addcmul(g, h, a, value=-1), h)
            d = new - a
            rise = torch.addcmul(g, h, d, value=0.5).mul_(d)
            if kink:
                rise += kink * (new.abs() - a.abs())
            best = rise.argmin(1)
            at = best[:, None]
            g.addcmul_(rows.index_select(0, first + best), d.gather(1, at))
            a.scatter_(1, at, new.gather(1, at))

    def newton(self) -> None:
        """Take a Newton step on the free coordinates: projected, or to the first wall, whichever lowers J more."""
        a, g = self.a, self.g
        low, high = self._walls()
        free = ((a > low) & (a < high)).to(a)
        slope = (g + self.terms.kink * a.sign() if self.terms.kink else g) * free
        d = self._newton_direction(free, slope)
        Hd = self._times(d)
        new = torch.clamp(a + d, low, high)
        step = new - a
        Hstep = self._times(step)
        change = self._change(a, g, step, Hstep)
        reach = _first_wall(a, d, low, high)
        curvature = (d * Hd).sum(1, keepdim=True).clamp(min=torch.finfo(a.dtype).tiny)
        length = torch.minimum(reach, -(slope * d).sum(1, keepdim=True) / curvature).clamp(min=0)
        short = torch.clamp(torch.addcmul(a, length, d), low, high)
        short_change = self._change(a, g, short - a, length * Hd)
        projected = change <= short_change
        lower = torch.minimum(change, short_change) < 0
        self.a = torch.where(lower, torch.where(projected, new, short), a)
        self.g = torch.where(lower, g + torch.where(projected, Hstep, length * Hd), g)

    def _newton_direction(self, free: Tensor, slope: Tensor) -> Tensor:  # (c, q)
        matrix = self.H * free[:, :, None] * free[:, None, :]
        ridge = RIDGE * torch.finfo(free.dtype).eps * self.h * free
        matrix.diagonal(dim1=1, dim2=2).add_(1 - free + ridge)
        factor = torch.linalg.cholesky_ex(matrix)[0]
        direction: Tensor = torch.cholesky_solve(-slope[:, :, None], factor)[:, :, 0]
        return direction.nan_to_num_(0.0, 0.0, 0.0).mul_(free)

    def _walls(self) -> tuple[Tensor, Tensor]:  # (c, q)
        """Return the box, or with a kink its part on the side of a: |a| is linear there."""
        low, high = self.terms.low, self.terms.high
        if not self.terms.kink:
            return low, high
        return torch.where(self.a >= 0, 0.0, low), torch.where(self.a <= 0, 0.0, high)

    def _times(self, v: Tensor) -> Tensor:  # (c, q)
        return torch.bmm(self.H, v[:, :, None])[:, :, 0]

    def _change(self, a: Tensor, g: Tensor, s: Tensor, Hs: Tensor) -> Tensor:  # (c, 1)
        """Return J(a + s) - J(a), where g is the gradient at a, in float64."""
        terms = s.double() * torch.add(g, Hs, alpha=0.5)
        if self.terms.kink:
            terms = terms + self.terms.kink * ((a + s).abs() - a.abs())
        return terms.sum(1, keepdim=True)


def _first_wall(a: Tensor, d: Tensor, low: Tensor, high: Tensor) -> Tensor:  # (c, 1)
    """Return the length of the longest step along d within the walls."""
    tiny = torch.finfo(a.dtype).tiny
    up, down = (high - a) / d.clamp(min=tiny), (low - a) / d.clamp(max=-tiny)
    return torch.where(d > 0, up, torch.where(d < 0, down, inf)).amin(1, keepdim=True)


class _ColumnProgress(SavedTensors):
    """The last gap of each column, its rounds, the rows that it keeps, and the gap to reach."""

    saved = ("gaps", "rounds", "rows", "aim")

    def __init__(self, n: int, t: int, kept: int, settings: Settings) -> None:
        self.gaps = torch.full((t,), inf, dtype=torch.float64)
        self.rounds = torch.zeros(t, dtype=torch.long)
        self.rows = torch.randperm(n, generator=generator(settings.seed, "columns"))[:kept].repeat(t, 1)
        self.aim = torch.full((1,), AIM * settings.tol, dtype=torch.float64)

    @property
    def left(self) -> Tensor:  # (c,)
        """The columns that have not reached the aim, those with the fewest rounds first."""
        left = (~(self.gaps <= self.aim)).nonzero()[:, 0]
        return left[self.rounds[left].argsort(stable=True)]


class ColumnBlocks(Method):
    """A working set for each column, with the whole kernel matrix in memory; the last iterate is returned."""

    name = "column_blocks"
    exact = True
    linear = False

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        assert isinstance(state, ExactState)
        n, t = state.alpha.shape
        self.q, self.most = min(settings.block_size, WORKING_SET, n), _batch_columns(n, t)
        super().__init__(state, problem, settings, -(-t // self.most) * -(-n // (self.q * ROUNDS)))
        self.kept = state.kept or KernelCache(state.x, state.kernel, n, state.budget)
        self.progress = _ColumnProgress(n, t, int(KEPT * self.q), settings)
        self.terms, self.diagonal = Terms.of(problem, state.alpha), state.diagonal()[:, 0]
        tie = torch.rand(n, generator=generator(settings.seed, "ties"), dtype=torch.float64)
        self._tie = (1 - TIES * tie).to(state.alpha.dtype)

    @classmethod
    def suits(cls, size: ProblemSize) -> bool:
        solvable = cls._solves(size) and not size.kernel_in_memory and size.columns >= LEAST_COLUMNS
        return super().suits(size) and solvable and _matrix_bytes(size) <= size.gram_room

    @classmethod
    def check(cls, size: ProblemSize) -> None:
        if not cls._solves(size):
            raise InvalidParameter(
                f"method={cls.name!r} needs one process, the CPU and a loss with a quadratic dual that does not couple "
                f"columns; got {size.loss!r}. Use method='auto'."
            )

    @classmethod
    def _solves(cls, size: ProblemSize) -> bool:
        return size.loss.quadratic and size.loss.group == 1 and not size.on_gpu and size.processes == 1

    @classmethod
    def block_rows(cls, size: ProblemSize) -> int:
        return min(size.rows, WORKING_SET if size.block_size is None else size.block_size)

    @classmethod
    def max_epochs(cls, size: ProblemSize) -> float:
        return exact_epochs(size.rows)

    @classmethod
    def memory(cls, size: ProblemSize, order_bytes: int) -> tuple[Item, ...]:
        columns, q = _batch_columns(size.rows, size.columns), min(WORKING_SET, size.rows)
        scanned = SCAN_COPIES * max(CHUNK_ENTRIES, size.rows)
        working_sets = columns * (BATCH_COPIES * size.rows + BLOCK_COPIES * q * q) + scanned
        return (
            Item("kernel matrix", _matrix_bytes(size), AFTER_LAYOUT),
            Item("terms of the dual objective", 4 * size.alpha_bytes, AFTER_LAYOUT),
            Item("working sets", size.itemsize * working_sets, (STEP,)),
        )

    @classmethod
    def saved_bytes(cls, size: ProblemSize) -> int:
        return (8 * int(KEPT * WORKING_SET) + 16) * size.columns

    @classmethod
    def kernel_memory(cls, size: ProblemSize, room: int) -> KernelMemory:
        return KernelMemory(size.rows)  # `memory` counts it: nothing less is sufficient

    @property
    def finished(self) -> bool:
        return not len(self.progress.left)

    def restarted(self) -> None:
        self.progress.gaps.fill_(inf)

    def parts(self) -> dict[str, SavedTensors]:
        return {"columns": self.progress}

    def step(self, number: int) -> None:
        if self.finished:  # the gap of the columns was not small enough after all
            self.progress.aim *= TIGHTER
        columns = self.progress.left[: self.most]
        self.kept.fill()
        a, f = (v[:, columns].T.contiguous() for v in (self.state.alpha, self.state.image))
        at = torch.arange(len(columns))
        with one_thread():  # only `share` divides operations that are large enough
            for _ in range(ROUNDS):
                if not len(at := self._round(columns, at, a, f)):
                    break
        self.state.fresh = False
        self.state.alpha[:, columns], self.state.image[:, columns] = a.T, f.T

    def _round(self, columns: Tensor, at: Tensor, a: Tensor, f: Tensor) -> Tensor:  # (k,), (c,), (k, n), (k, n)
        """Move the columns ``at``, of a and f in the batch; return those that had not reached the aim."""
        gaps, rows = self._scan(columns[at], at, a, f)
        self.progress.gaps[columns[at]] = gaps
        left = ~(gaps <= self.progress.aim)
        at, rows = at[left], rows[left]
        if not len(at):
            return at
        own, first = columns[at], a[at[:, None], rows]
        terms = self.terms.rows(own, rows)
        step, change = WorkingSets(self._matrices(rows), f[at[:, None], rows], first, terms).solve()
        new = torch.clamp(first + step, terms.low, terms.high)
        a[at[:, None], rows] = new
        self._update(at, rows, new - first, f)
        self._keep(own, rows, first, new, terms)
        self.statistics.add(_result(new, change))
        return at

    def _scan(self, columns: Tensor, at: Tensor, a: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:  # (c,), (c, q)
        """Return the gap and the working set of each column."""
        gaps, sets = torch.empty(len(at), dtype=torch.float64), torch.empty(len(at), self.q, dtype=torch.long)

        def scan(part: slice) -> None:
            terms = self.terms.columns(columns[part])
            point = a.index_select(0, at[part]), f.index_select(0, at[part])
            gaps[part] = terms.gaps(*point)
            sets[part] = self._choose(*terms.gains(*point, self.diagonal), self.progress.rows[columns[part]])

        share(scan, chunks(len(at), a.shape[1]))
        return gaps, sets

    def _choose(self, gains: Tensor, rising: Tensor, last: Tensor) -> Tensor:  # (c, n), (c, n), (c, k) -> (c, q)
        """Return the rows with the largest gain, and those of the last working set."""
        new = self.q - last.shape[1]
        gains = gains.mul_(self._tie).scatter_(1, last, -inf)
        upward = preferred(gains, rising).topk(new // 2, 1).indices
        gains.scatter_(1, upward, -inf)
        downward = preferred(gains, ~rising).topk(new - new // 2, 1).indices
        return torch.cat([upward, downward, last], 1)

    def _matrices(self, rows: Tensor) -> Tensor:  # (c, q) -> (c, q, q)
        """Return the kernel matrices of some working sets."""
        entries, starts = self.kept.memory.view(-1).numpy(), self.kept.slot[rows] * len(self.diagonal)
        matrices = self.diagonal.new_empty(*rows.shape, rows.shape[1])

        def gather(part: slice) -> None:
            places = starts[part][:, :, None] + rows[part][:, None, :]
            matrices[part] = torch.from_numpy(entries.take(places.numpy()))  # faster than torch here

        share(gather, chunks(len(rows), self.q**2))
        return matrices.add_(self.kept.constant) if self.kept.constant else matrices

    def _update(self, at: Tensor, rows: Tensor, move: Tensor, f: Tensor) -> None:  # (c,), (c, q), (c, q), (k, n)
        """Add K move to the predictions of the columns ``at``."""
        slots = self.kept.slot[rows]

        def add(part: slice) -> None:
            change = embedding_bag(slots[part], self.kept.memory, per_sample_weights=move[part], mode="sum")
            if self.kept.constant:
                change += self.kept.constant * move[part].sum(1, keepdim=True)
            f.index_add_(0, at[part], change)

        share(add, chunks(len(at), f.shape[1]))

    def _keep(self, columns: Tensor, rows: Tensor, before: Tensor, after: Tensor, terms: Terms) -> None:
        """Keep rows of each working set for the next one: first those inside the box, then those that moved."""
        inside = (after > terms.low) & (after < terms.high)
        if terms.kink:
            inside &= after != 0
        order = (2 * inside + (after != before)).to(after).topk(self.progress.rows.shape[1], 1).indices
        self.progress.rows[columns] = rows.gather(1, order)
        self.progress.rounds[columns] += 1


def _batch_columns(n: int, t: int) -> int:
    """Return the columns that move in a step, of t columns of n rows."""
    return min(t, MOST_COLUMNS, max(1, BATCH_ENTRIES // n))


def _matrix_bytes(size: ProblemSize) -> int:
    return cache_bytes(size.rows, size.rows, size.itemsize)


def _result(a: Tensor, change: Tensor) -> BlockResult:  # (c, q), (c,)
    """Return how the working sets of some columns were solved."""
    outcome = torch.where(change < 0, Outcome.CONVERGED, Outcome.STALLED)
    outcome = torch.where(change.isfinite(), outcome, Outcome.BROKEN)
    products = torch.full_like(outcome, 2 * len(MOVES) + 1)
    return BlockResult(a.T, change, change, outcome, products)
