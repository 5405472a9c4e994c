"""What a method of a solve is: its steps, which lower the dual objective, its defaults and its memory.

A new method is a class in a module of this package, and a line in the table of :mod:`joker.solvers.methods.choice`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch

from joker.distributed import current
from joker.losses import Loss
from joker.solvers.problem import Problem, Settings
from joker.solvers.report import BlockStatistics, Gap, Point
from joker.solvers.state import SavedTensors, State, solve_bytes

# The times at which something is held in memory.
LAYOUT, STEP, EVALUATION, END = TIMES = (
    "before the first step",
    "during a step",
    "during an evaluation of the gap",
    "at the end",
)
AFTER_LAYOUT = (STEP, EVALUATION, END)

ONE_BLOCK = 2_048  # rows: at most so many are solved as one block, to the tolerance
BLOCK = 512  # rows of a block where there are more
# The same with the exact kernel, on a CPU and on a GPU: fewer kernel evaluations, and each block costs little.
EXACT_BLOCK, EXACT_GPU_BLOCK = 1_024, 2_048
# A linear system with the exact kernel is one block of up to so many rows, which is factorised in float64, on a CPU:
# that takes as long as the preconditioner of conjugate gradients and some products, or as all products where the
# largest eigenvalue, which is at most n times the kernel, is more than so many times λ.
DIRECT_ROWS, MOST_DIRECT_ROWS, ILL_CONDITIONED = 3_000, 8_000, 10**6
EPOCHS, MOST_EPOCHS = 5, 1_000  # that max_epochs="auto" allows
KERNEL_WORK = 5 * 10**10  # kernel evaluations that it allows: 500 epochs of 10,000 rows, 20 of 50,000


@dataclass(frozen=True)
class Item:
    """Something that is held in memory."""

    name: str  # in the table of a plan
    bytes: int
    times: tuple[str, ...] = ()  # at which it is held, among the constants of this module; empty for throughout

    def at(self, time: str) -> int:
        """Return its bytes at a time."""
        return self.bytes if not self.times or time in self.times else 0

    @property
    def when(self) -> str:
        """The times at which it is held, in words."""
        if not self.times:
            return "throughout"
        return "after the first step begins" if self.times == AFTER_LAYOUT else ", ".join(self.times)


@dataclass(frozen=True)
class KernelMemory:
    """What a solve with the exact kernel keeps of the kernel matrix between steps."""

    rows: int = 0  # rows of the kernel matrix in the cache
    landmarks: int = 0  # of a preconditioner
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class ProblemSize:
    """The size of a problem, from which its method is chosen and its memory is planned.

    Parameters
    ----------
    loss : Loss
        The loss.
    rows, columns : int
        The number of rows n and of columns t.
    n_features : int or None
        The number of features m; None with the exact kernel.
    block_size : int or None
        The rows of a block; None leaves them to the method.
    most_block_rows : int or None
        The rows that a block may have at most, where rows are made dense block by block.
    one_penalty : bool
        Whether all columns have the same λ.
    averaging, momentum : bool
        As in `joker.Settings`.
    itemsize : int
        Bytes of a number.
    on_gpu : bool
        Whether a GPU computes.
    gram_room : float
        Bytes that the Gram matrix of the features may take.
    rank : int or None
        The rank of the kernel matrix of some rows, to within what matters; None where it is not low or not known.
    scale : float
        The largest value of the kernel, over the smallest λ / w.
    to_the_end : bool
        Whether only the solution counts: no epochs are named, and no iterate is scored or continued.
    entries : int or None
        The stored entries of sparse rows whose features are their inputs; None with all others.
    kernel_in_memory : bool
        Whether the kernel matrix is in memory before the fit, so that no part of it is kept again.
    """

    loss: Loss
    rows: int
    columns: int = 1
    n_features: int | None = None
    block_size: int | None = None
    most_block_rows: int | None = None
    one_penalty: bool = True
    averaging: bool = True
    momentum: bool = False
    itemsize: int = 4
    on_gpu: bool = False
    gram_room: float = inf
    rank: int | None = None
    scale: float = 0.0
    to_the_end: bool = False
    entries: int | None = None
    kernel_in_memory: bool = False

    @property
    def exact(self) -> bool:
        """Whether the exact kernel is used."""
        return self.n_features is None

    @property
    def linear(self) -> bool:
        """Whether the problem is a linear system."""
        return self.loss.quadratic and self.loss.unbounded

    @property
    def direct_rows(self) -> int:
        """Rows up to which a factorisation of the kernel matrix is the fastest way; 0 where other limits apply."""
        alone = self.processes == 1 and not self.on_gpu
        if not (alone and self.exact and self.linear and self.one_penalty and self.to_the_end):
            return 0
        most = MOST_DIRECT_ROWS if self.rows * self.scale > ILL_CONDITIONED else DIRECT_ROWS
        fits = solve_bytes(self.rows, self.columns, torch.float64.itemsize) <= self.gram_room
        return most if fits else 0

    @property
    def processes(self) -> int:
        """The number of processes that solve the problem together."""
        return current().size

    @property
    def alpha_bytes(self) -> int:
        """Bytes of α."""
        return self.itemsize * self.rows * self.columns

    @property
    def image_bytes(self) -> int:
        """Bytes of its image: the predictions f with the exact kernel, θ with features."""
        return self.itemsize * (self.rows if self.n_features is None else self.n_features) * self.columns


class Method(ABC):
    """One way to lower the dual objective. ``Descent`` calls its steps and evaluates the gap after each epoch.

    Parameters
    ----------
    state : State
        α and its image, which a step changes.
    problem : Problem
        Loss, targets, weights and penalties.
    settings : Settings
        The settings of the solve.
    steps_per_epoch : int
        Steps whose work is one pass over the kernel matrix, or over the features of all rows.
    """

    name: ClassVar[str]
    """The word for it in ``method=``. Two methods may share it, one for the exact kernel and one for features."""

    exact: ClassVar[bool | None] = None
    """Whether it needs the exact kernel (True) or features (False); None serves both."""

    linear: ClassVar[bool | None] = None
    """Whether ``method="auto"`` uses it for linear systems (True) or for all other problems (False)."""

    one_block: ClassVar[tuple[int, int]] = (ONE_BLOCK, ONE_BLOCK)
    """Rows up to which a problem is one block, on a CPU and on a GPU."""

    most_columns: ClassVar[tuple[float, float]] = (inf, inf)
    """Columns up to which ``method="auto"`` uses it, on a CPU and on a GPU."""

    in_blocks: ClassVar[bool] = True
    """Whether a step moves a block of rows, and not all of them."""

    whole_products: ClassVar[bool] = False
    """Whether a step is a product with the whole kernel matrix."""

    wide: ClassVar[bool] = False
    """Whether it computes in float64 in any case, so that float32 would only lose digits."""

    keeps_kernel: ClassVar[bool] = False
    """Whether it uses memory for a kernel cache or a preconditioner."""

    tiles_of_a_step: ClassVar[int] = 1
    """Tiles of rows that a step holds at the same time."""

    usable_early: ClassVar[bool] = False
    """Whether its model is usable after one epoch, however large the gap is."""

    long_epochs: ClassVar[bool] = True
    """Whether an epoch takes longer than the prediction of held-out rows, which are then scored after each."""

    quick_gap: ClassVar[bool] = False
    """Whether the gap costs much less than a step, so that it is evaluated several times in an epoch."""

    def __init__(self, state: State, problem: Problem, settings: Settings, steps_per_epoch: int = 1) -> None:
        self.state, self.problem, self.settings = state, problem, settings
        self.steps_per_epoch = steps_per_epoch
        self.statistics = BlockStatistics(state.alpha.device)

    @classmethod
    def serves(cls, size: ProblemSize) -> bool:
        """Return whether it has the right kind of state, the exact kernel or features."""
        return cls.exact in (None, size.exact)

    @classmethod
    def suits(cls, size: ProblemSize) -> bool:
        """Return whether ``method="auto"`` may choose it: all but the last in the table need several blocks."""
        several = size.rows > cls.block_rows(size) and not size.momentum
        needed = cls.linear in (None, size.linear) and size.columns <= cls.most_columns[size.on_gpu]
        return cls.serves(size) and needed and (several or cls.linear is None)

    @classmethod
    def needs_rank(cls, size: ProblemSize, asked: bool) -> bool:
        """Return whether it needs the rank of the exact kernel matrix to be known; ``asked``: the user has named it."""
        return False

    @classmethod  # noqa: B027  # most methods solve every problem
    def check(cls, size: ProblemSize) -> None:  # most methods solve every problem
        """Raise InvalidParameter for a problem that it cannot solve."""

    @classmethod
    def block_rows(cls, size: ProblemSize) -> int:
        """Return the rows of a block: as many as the user names, or else all rows if they are few."""
        if size.block_size is not None:
            return size.block_size
        most = size.rows if size.most_block_rows is None else size.most_block_rows
        usual = BLOCK if not size.exact else EXACT_GPU_BLOCK if size.on_gpu else EXACT_BLOCK
        one_block = size.direct_rows or cls.one_block[size.on_gpu]
        return size.rows if size.rows <= min(one_block, most) else min(usual, most)

    @classmethod
    def max_epochs(cls, size: ProblemSize) -> float:
        """Return the epochs that ``max_epochs="auto"`` allows."""
        return EPOCHS

    @classmethod
    def memory(cls, size: ProblemSize, order_bytes: int) -> tuple[Item, ...]:
        """Return what it holds beside α and its image; ``order_bytes`` are those of a random order of the rows."""
        return ()

    @classmethod
    def saved_bytes(cls, size: ProblemSize) -> int:
        """Return the bytes of its `parts`, which are copied with the state."""
        return 0

    @classmethod
    def kernel_memory(cls, size: ProblemSize, room: int) -> KernelMemory:
        """Return what of the kernel matrix it keeps between steps in ``room`` bytes."""
        return KernelMemory()

    @abstractmethod
    def step(self, number: int) -> None:
        """Take the step with this number, counted from 0."""

    def average(self) -> Point | None:
        """Return the average of the iterates, in memory of its own; None where the last iterate is returned."""
        return None

    @classmethod
    def averages(cls, size: ProblemSize) -> bool:
        """Return whether `average` returns a point."""
        return False

    def epoch_ended(self, gap: Gap) -> None:  # noqa: B027  # most methods need no check
        """Adapt to the gap of the last iterate, at the end of an epoch."""

    @property
    def finished(self) -> bool:
        """Whether every column has reached the tolerance by the method's own count, so that the gap is evaluated."""
        return False

    def restarted(self) -> None:  # noqa: B027  # most methods keep nothing that depends on α
        """Begin at the present α, which was set from outside."""

    def release(self) -> None:  # noqa: B027  # most methods keep nothing that can be computed again
        """Free what can be computed again."""

    def parts(self) -> dict[str, SavedTensors]:
        """Return what moves beside the state, by the names under which a checkpoint stores it."""
        return {}


def exact_epochs(n: int) -> float:
    """Return the epochs of n rows with the exact kernel, as many as a fixed amount of work holds."""
    return max(EPOCHS, min(MOST_EPOCHS, KERNEL_WORK // n**2))
