"""Losses that couple the k classes of a row, where y is 1 in the column of its class and -1 in the others.

The k columns of one problem are a *group* of consecutive columns. With a share p_j of each class,

    α_j = c (1[j = y] - p_j),     p_j ≥ 0,     Σ_j p_j = 1,

so that Σ_j α_j = 0 in every row. The conjugate of the loss separates into the classes,

    ψ(α) = c Σ_j [ dual(p_j) ] + margin Σ_{j ≠ y} α_j,

and only the sum of the shares couples them. The loss itself is a (soft) maximum over the classes. Each column of a
group has an equal part of it, so that a sum over the columns is the loss of the row.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.losses.classification import Hinge, Logistic
from joker.losses.loss import MARGIN, Bound, Frame, Loss, Scaled, ZeroDual


@dataclass(frozen=True)
class RowLoss(Loss):
    """A loss of all classes of a row; a subclass writes the loss, its best shares and ``dual`` with its derivatives.

    Parameters
    ----------
    classes : int
        The number k of classes, which is the number of columns in a group.

    Examples
    --------
    >>> from joker.losses import RowLoss, Softmax
    >>> isinstance(Softmax(classes=5), RowLoss), Softmax(classes=5).group
    (True, 5)
    """

    classes: int = 3

    frame: ClassVar[Frame] = MARGIN
    margin: ClassVar[float] = 0.0
    """What is added to the prediction of every other class before the maximum is taken."""
    two_classes: ClassVar[Loss]
    """The loss of the margin that is the same problem for two classes, with half the penalty."""

    lower = 0.0
    upper = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.classes, int) or isinstance(self.classes, bool) or self.classes < 2:
            raise InvalidParameter(
                f"classes must be a whole number of at least 2; got {self.classes!r}. "
                "Give the number of columns that one row has for one λ."
            )

    group = property(attrgetter("classes"))
    device_form = None  # that of a scalar loss would leave out the coupling

    def scaled(self, c: Bound) -> ScaledRowLoss:
        return ScaledRowLoss(self, c)

    @abstractmethod
    def maximum(self, f: Tensor) -> Tensor:  # (..., k) -> (..., 1)
        """Return the (soft) maximum of the predictions of a row."""

    @abstractmethod
    def best_shares(self, f: Tensor) -> Tensor:  # (..., k)
        """Return the gradient of the maximum: the shares of the classes that are optimal for fixed predictions."""

    def value(self, y: Tensor, f: Tensor) -> Tensor:
        y, f = (self.grouped(v) for v in torch.broadcast_tensors(y, f))
        own = torch.where(y > 0, f, 0.0).sum(-1, keepdim=True)
        loss = self.maximum(f + self.margin * (y < 0)) - own
        return loss.expand_as(f).flatten(-2) / self.classes

    def psi(self, y: Tensor, a: Tensor) -> Tensor:
        return self.dual(self.shares(y, a)) + self.margin * torch.where(y < 0, a, 0.0)

    def psi_slope(self, y: Tensor, a: Tensor) -> Tensor:
        return self.margin * (y < 0) - self.slope(self.shares(y, a))

    def psi_curvature(self, y: Tensor, a: Tensor) -> Tensor:
        return self.curvature(self.shares(y, a))

    def clamp(self, y: Tensor, a: Tensor) -> Tensor:
        """Return shares that are at least 0 and have the sum 1: those of ``a``, which rounding may have moved."""
        p = self.grouped(self.shares(y, a).clamp(min=0))
        total = p.sum(-1, keepdim=True)
        p = torch.where(total > 0, p / total.clamp(min=torch.finfo(p.dtype).tiny), self.grouped(y > 0).to(p))
        return self.from_shares(y, p.flatten(-2))

    def best(self, y: Tensor, f: Tensor) -> Tensor:
        """Return the dual point that is optimal if the predictions do not change."""
        y, f = torch.broadcast_tensors(y, f)
        p = self.best_shares(self.grouped(f + self.margin * (y < 0)))
        return self.from_shares(y, p.flatten(-2))

    def gain(self, y: Tensor, a: Tensor, f: Tensor, k: Tensor) -> Tensor:
        return _decrease(self, y, a, f, k)

    def can_increase(self, y: Tensor, a: Tensor, f: Tensor) -> Tensor:
        """Return True: some columns of a row rise where the others fall, so that a row has no direction."""
        return torch.ones_like(a, dtype=torch.bool)

    def shares(self, y: Tensor, a: Tensor) -> Tensor:
        """Return the share of each class at a dual point."""
        return (y > 0).to(a) - a

    def from_shares(self, y: Tensor, p: Tensor) -> Tensor:
        """Return the dual point of some shares. Its sum is 0 up to rounding, however small the shares are."""
        p = self.grouped(torch.where(y > 0, 0.0, p))
        own = self.grouped(y > 0)
        return torch.where(own, p.sum(-1, keepdim=True), -p).flatten(-2)

    def grouped(self, v: Tensor) -> Tensor:  # (..., t) -> (..., t / k, k)
        """Return columns by group and class."""
        return v.reshape(*v.shape[:-1], -1, self.classes)


@dataclass(frozen=True)
class Softmax(RowLoss):
    """``log Σ_j exp(f_j) - f_y``: multinomial logistic regression. Its dual is the entropy of the shares.

    Parameters
    ----------
    classes : int
        The number of classes.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Softmax
    >>> y, f = torch.tensor([[1.0, -1.0, -1.0]]), torch.zeros(1, 3)
    >>> Softmax(classes=3).value(y, f).sum()  # log 3: every class has the same probability
    tensor(1.0986)
    """

    barrier: ClassVar[bool] = True
    sigmoid: ClassVar[bool] = True
    two_classes: ClassVar[Loss] = Logistic()

    START: ClassVar[float] = 0.1  # sum of the first shares of the other classes where c is small; best of 1e-4 to 0.6
    FLOOR: ClassVar[float] = Logistic.FLOOR

    def maximum(self, f: Tensor) -> Tensor:
        return f.logsumexp(-1, keepdim=True)

    def best_shares(self, f: Tensor) -> Tensor:
        return f.softmax(-1)

    def dual(self, a: Tensor) -> Tensor:
        a = a.clamp(0, 1)
        return torch.xlogy(a, a)

    def slope(self, a: Tensor) -> Tensor:
        return a.clamp(min=self.FLOOR).log() + 1

    def curvature(self, a: Tensor) -> Tensor:
        return 1 / a.clamp(min=self.FLOOR)


@dataclass(frozen=True)
class CrammerSinger(ZeroDual, RowLoss):
    """``max_j (1[j ≠ y] + f_j) - f_y``: the multi-class support vector machine. Its dual is linear.

    Parameters
    ----------
    classes : int
        The number of classes.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import CrammerSinger
    >>> y, f = torch.tensor([[1.0, -1.0, -1.0]]), torch.tensor([[0.5, 0.2, -1.0]])
    >>> CrammerSinger(classes=3).value(y, f).sum()  # the second class is 0.7 too near
    tensor(0.7000)
    """

    margin: ClassVar[float] = 1.0
    two_classes: ClassVar[Loss] = Hinge()

    def maximum(self, f: Tensor) -> Tensor:
        return f.amax(-1, keepdim=True)

    def best_shares(self, f: Tensor) -> Tensor:
        return torch.zeros_like(f).scatter(-1, f.argmax(-1, keepdim=True), 1.0)


@dataclass(frozen=True)
class ScaledRowLoss(Scaled):
    """``c`` times a loss that couples a row; c is the same in all columns of a group.

    Parameters
    ----------
    loss : RowLoss
        The loss.
    c : float or Tensor
        The factor.

    Examples
    --------
    >>> from joker.losses import ScaledRowLoss, Softmax
    >>> ScaledRowLoss(Softmax(classes=3), 2.0).group
    3
    """

    loss: RowLoss
    c: Bound = 1.0

    def value(self, y: Tensor, f: Tensor) -> Tensor:
        return self.c * self.loss.value(y, f)

    def psi(self, y: Tensor, a: Tensor) -> Tensor:
        return self.c * self.loss.psi(y, a / self._divisor)

    def psi_slope(self, y: Tensor, a: Tensor) -> Tensor:
        return self.loss.psi_slope(y, a / self._divisor)

    def psi_curvature(self, y: Tensor, a: Tensor) -> Tensor:
        return self.loss.psi_curvature(y, a / self._divisor) / self._divisor

    def clamp(self, y: Tensor, a: Tensor) -> Tensor:
        return self.c * self.loss.clamp(y, a / self._divisor)

    def best(self, y: Tensor, f: Tensor) -> Tensor:
        """Return the dual point that is optimal if the predictions do not change."""
        return self.c * self.loss.best(y, f)

    def grouped(self, v: Tensor) -> Tensor:
        """Return columns by group and class."""
        return self.loss.grouped(v)

    gain = RowLoss.gain
    can_increase = RowLoss.can_increase


def _decrease(loss: RowLoss | ScaledRowLoss, y: Tensor, a: Tensor, f: Tensor, k: Tensor) -> Tensor:
    """Return a decrease of the dual objective that a step of one row alone causes, in equal parts for its columns.

    The step is towards the point ``best`` that is optimal for fixed predictions. There the terms other than
    ``k s² / 2`` have fallen by the gap of the row, and on the way by at least the same share of it.
    """
    s = loss.best(y, f) - a
    gap = loss.grouped(loss.value(y, f) + loss.psi(y, a) + a * f).sum(-1, keepdim=True).clamp(min=0)
    curvature = (k * loss.grouped(s.square()).sum(-1)).unsqueeze(-1).clamp(min=torch.finfo(f.dtype).tiny)
    share = (gap / curvature).clamp(max=1)
    columns: int = loss.group
    decrease: Tensor = share * (gap - 0.5 * share * curvature) / columns
    return decrease.expand(*decrease.shape[:-1], columns).flatten(-2)
