"""The settings of a descent."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isinf
from numbers import Integral, Real

from joker.errors import InvalidParameter, UnknownName
from joker.solvers.block.trust_region import BlockSolver

AUTO, RANDOM, GREEDY, CONJUGATE_GRADIENTS = "auto", "random_blocks", "greedy_blocks", "conjugate_gradients"
METHOD_NAMES = (AUTO, RANDOM, GREEDY, CONJUGATE_GRADIENTS)
SMALLEST_POSITIVE = 5e-324  # the smallest positive float64


@dataclass(frozen=True)
class Settings:
    """The settings of a descent.

    Parameters
    ----------
    block_size : int
        The largest number of rows in a block.
    max_epochs : float
        Visits to blocks, divided by the number of blocks. A problem that fits in one block
        is solved to ``tol`` with up to 200 visits, even if this is smaller.
    tol : float
        Relative duality gap at which to stop.
    max_time : float
        Seconds after which no further block is visited.
    method : {"auto", "random_blocks", "greedy_blocks", "conjugate_gradients"}
        How the dual objective is lowered. Greedy blocks and conjugate gradients are for the kernel itself, and
        conjugate gradients for the squared loss; ``"auto"`` uses them there, and random blocks elsewhere.
    order : {"shuffled", "random", "cyclic"}
        The order of random blocks.
    averaging : bool
        Return the average of the iterates of random blocks instead of the last one.
    momentum : bool
        Accelerate the descent, which pays if a small gap is required and tens of epochs are allowed.
    gap_every : int
        Epochs between two evaluations of the gap.
    radius : float
        The largest change of α of a row in one visit, in units of 1/λ; a longer step of a block is shortened.
    halve_every : int
        Visits after which the radius is halved, repeatedly; 0 never halves it.
    seed : int
        Seed of the partition into blocks, of their order, of the features and of the bandwidth's sample of rows.
    block : BlockSolver
        The block solver with its settings.

    Examples
    --------
    >>> import joker
    >>> joker.Settings(max_epochs=20, tol=1e-4).block_size
    512
    """

    block_size: int = 512
    max_epochs: float = 5
    tol: float = 1e-3
    max_time: float = inf
    method: str = AUTO
    order: str = "shuffled"
    averaging: bool = True
    momentum: bool = False
    gap_every: int = 1
    radius: float = inf
    halve_every: int = 0
    seed: int = 0
    block: BlockSolver = field(default_factory=BlockSolver)

    def __post_init__(self) -> None:
        for name in ("max_epochs", "tol", "max_time"):
            self._check(name, Real, 0, "a number of at least 0")
        self._check("gap_every", Integral, 1, "a whole number of at least 1")
        self._check("halve_every", Integral, 0, "a whole number of at least 0")
        self._check("radius", Real, SMALLEST_POSITIVE, "a positive number")
        self._check("seed", Integral, -inf, "a whole number")
        if self.method not in METHOD_NAMES:
            raise UnknownName.among("method", self.method, METHOD_NAMES)
        for name, kind in {"averaging": bool, "momentum": bool, "block": BlockSolver}.items():
            if not isinstance(getattr(self, name), kind):
                self._refuse(name, f"a {kind.__name__}")
        if self.halve_every and isinf(self.radius):
            raise InvalidParameter(
                f"radius must be finite if halve_every is given; got radius={self.radius}. Use for example radius=1.0."
            )
        if self.momentum and not isinf(self.radius):
            raise InvalidParameter(
                "momentum must not be used with a radius, which would shorten its long steps; "
                f"got radius={self.radius}. Use one of the two."
            )

    def _check(self, name: str, kind: type, least: float, rule: str) -> None:
        value = getattr(self, name)
        fits = isinstance(value, kind) and not isinstance(value, bool)
        if not fits or not value >= least:
            self._refuse(name, rule)

    def _refuse(self, name: str, rule: str) -> None:
        default = getattr(Settings(), name)
        raise InvalidParameter(
            f"{name} must be {rule}; got {name}={getattr(self, name)!r}. Use for example {name}={default}."
        )
