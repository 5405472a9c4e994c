"""How a descent is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from numbers import Integral, Real

from joker.errors import InvalidParameter
from joker.solvers.block import BlockSolver


@dataclass(frozen=True)
class Settings:
    """How a descent is run.

    Parameters
    ----------
    block_size : int
        Rows in a block, at most.
    max_epochs : float
        Visits to a block, as a multiple of the number of blocks. A problem that fits in
        one block is solved to ``tol`` whatever this says.
    tol : float
        Relative duality gap at which to stop.
    max_time : float
        Seconds after which no further block is begun.
    order : {"shuffled", "random", "cyclic"}
        The order of the blocks.
    averaging : bool
        Return the average of the iterates instead of the last one.
    momentum : bool
        Accelerate: pays where the gap is to become small over tens of epochs.
    gap_every : int
        Epochs between looks at the gap.
    seed : int
        Of the partition into blocks and of their order.
    block : BlockSolver
        Settings of the block solve.
    """

    block_size: int = 512
    max_epochs: float = 5
    tol: float = 1e-3
    max_time: float = inf
    order: str = "shuffled"
    averaging: bool = True
    momentum: bool = False
    gap_every: int = 1
    seed: int = 0
    block: BlockSolver = field(default_factory=BlockSolver)

    def __post_init__(self) -> None:
        for name in ("max_epochs", "tol", "max_time"):
            self._check(name, Real, 0, "a number of at least 0")
        self._check("gap_every", Integral, 1, "a whole number of at least 1")
        self._check("seed", Integral, -inf, "a whole number")
        for name, kind in {"averaging": bool, "momentum": bool, "block": BlockSolver}.items():
            if not isinstance(getattr(self, name), kind):
                self._refuse(name, f"a {kind.__name__}")

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
