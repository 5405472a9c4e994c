"""The dual problem, and the settings of its solve."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from joker.data import Targets
from joker.errors import InvalidData, InvalidParameter
from joker.losses import Loss, Scaled, scaled
from joker.ops.block_solve import Dual
from joker.runtime import chunks
from joker.solvers.block.trust_region import BlockSolver

AUTO = "auto"


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
    method : {"auto", "random_blocks", "greedy_blocks", "column_blocks", "conjugate_gradients", "newton"} or a class
        How the dual objective is lowered. Greedy and column blocks are for the exact kernel. Conjugate gradients are
        for the squared loss: with the exact kernel, and with features whose Gram matrix fits in memory. ``"auto"`` uses
        them there, and random blocks elsewhere. A class is a method of your own.
    averaging : bool
        Return the average of the iterates of random blocks instead of the last one.
    momentum : bool
        Accelerate the descent, which pays if a small gap is required and tens of epochs are allowed.
    gap_every : int
        Epochs between two evaluations of the gap.
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
    method: Any = AUTO
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

    def decided(self, **values: Any) -> Settings:
        """Return a copy with what the data decide, such as the method; nothing is checked again."""
        settings = copy.copy(self)
        vars(settings).update(values)
        return settings

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


@dataclass(frozen=True)
class Problem:
    """t independent problems, one for each column, or one for each group of columns that the loss couples.

    Each is: min over α of J(α) = ½ α·Kα + Σ ψ_i(α_i), with ψ_i(a) = c_i ξ*(−a / c_i) and c_i = w_i / λ.
    """

    loss: Loss
    targets: Targets

    def __post_init__(self) -> None:
        if self.loss.frame.task != "classification":
            for rows in chunks(len(self.targets.y), 2 * self.targets.y.shape[1]):
                self.loss.check_targets(self.targets.y[rows])
            return
        for rows in chunks(len(self.targets.y), 2 * self.targets.y.shape[1]):
            y = self.targets.y[rows]
            wrong = y.abs() != 1
            if bool(wrong.any()):
                raise InvalidData(
                    f"y must be -1 or 1 for a classification loss; found {float(y[wrong][0]):g}. "
                    "Encode one class as 1 and the others as -1."
                )
            self._check_groups(y)

    def _check_groups(self, y: Tensor) -> None:
        """Refuse targets whose columns are not groups with one class each."""
        k = self.loss.group
        if k == 1:
            return
        if y.shape[1] % k or self.targets.t != y.shape[1]:
            raise InvalidData(
                f"y must have {k} columns for each λ with {self.loss!r}; got {y.shape[1]} columns of y for "
                f"{self.targets.t} columns in all. Repeat the columns of the classes for each λ, or change classes."
            )
        if bool(((y > 0).unflatten(1, (-1, k)).sum(2) != 1).any()):
            raise InvalidData(
                f"y must be 1 in one of the {k} columns of the classes and -1 in the others; found a row with none or "
                "several. Give every row one class."
            )

    def take(self, rows: Tensor | slice, dtype: torch.dtype | None = None) -> tuple[Tensor, Scaled]:
        """Return the targets of some rows and the loss scaled for them, in ``dtype`` or the type of the targets."""
        y, c = self.targets.take(rows)
        return y.to(dtype or y.dtype), scaled(self.loss, c.to(dtype or c.dtype))

    def clamp_(self, alpha: Tensor) -> Tensor:  # (n, t)
        """Move α into the box of the loss, in place, one chunk of rows at a time."""
        for rows in chunks(len(alpha), 2 * alpha.shape[1]):  # a clamp holds several copies of a chunk
            y, loss = self.take(rows)
            alpha[rows] = loss.clamp(y, alpha[rows])
        return alpha

    @cached_property
    def dual(self) -> Dual | None:
        """The loss in the form that device kernels support; None if it has no such form."""
        if (form := self.loss.device_form) is None:
            return None
        like, t = self.targets.lam, self.targets.t
        numbers = (form.p0, form.p1, self.loss.lower, self.loss.upper, self.loss.kink)
        parameters = torch.stack([torch.as_tensor(v).to(like).expand(t) for v in numbers])
        margin, kinked = self.loss.frame.task == "classification", self.loss.kink != 0
        return Dual(form.name, margin, kinked, parameters, form.floor, form.start)
