"""The dual problem: a loss, and the targets, weights and penalties that scale it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from joker.data import Targets
from joker.errors import InvalidData
from joker.losses import Loss, Scaled, scaled
from joker.ops.block_solve import Dual
from joker.runtime import chunks


@dataclass(frozen=True)
class Problem:
    """t independent problems, one for each column, or one for each group of columns that the loss couples.

    Each is: min over α of J(α) = ½ α·Kα + Σ ψ_i(α_i), with ψ_i(a) = c_i ξ*(−a / c_i) and c_i = w_i / λ.
    """

    loss: Loss
    targets: Targets

    def __post_init__(self) -> None:
        if self.loss.frame.task != "classification":
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
