"""Losses of the margin ``u = y f``, with ``y`` in {-1, 1}."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from joker.losses.loss import Bound, ClassificationLoss, DeviceForm


@dataclass(frozen=True)
class Hinge(ClassificationLoss):
    """``max(1 - u, 0)``: the support vector classifier. Its dual is linear.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Hinge
    >>> Hinge().primal(torch.tensor([-1.0, 0.5, 2.0]))
    tensor([2.0000, 0.5000, 0.0000])
    """

    quadratic: ClassVar[bool] = True
    lower = 0.0
    upper = 1.0

    def primal(self, u: Tensor) -> Tensor:
        return (1 - u).clamp(min=0)

    def dual(self, a: Tensor) -> Tensor:
        return -a

    def slope(self, a: Tensor) -> Tensor:
        return -torch.ones_like(a)

    def curvature(self, a: Tensor) -> Tensor:
        return torch.zeros_like(a)


@dataclass(frozen=True)
class SquaredHinge(Hinge):
    """``max(1 - u, 0)² / 2``: its dual is that of the hinge plus ``a² / 2``, without an upper bound.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import SquaredHinge
    >>> SquaredHinge().primal(torch.tensor([-1.0, 0.0, 2.0]))
    tensor([2.0000, 0.5000, 0.0000])
    """

    upper = math.inf

    def primal(self, u: Tensor) -> Tensor:
        return 0.5 * (1 - u).clamp(min=0).square()

    def dual(self, a: Tensor) -> Tensor:
        return 0.5 * a.square() - a

    def slope(self, a: Tensor) -> Tensor:
        return a - 1

    def curvature(self, a: Tensor) -> Tensor:
        return torch.ones_like(a)


@dataclass(frozen=True)
class ThresholdHinge(Hinge):
    """``max(rho - u, 0)``: the hinge with another threshold than 1, as in ν-machines.

    Parameters
    ----------
    rho : float or Tensor of shape (t,)
        The threshold; a tensor has one for each column.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import ThresholdHinge
    >>> ThresholdHinge(rho=2.0).primal(torch.tensor([-1.0, 0.5, 2.0]))
    tensor([3.0000, 1.5000, 0.0000])
    """

    rho: Bound = 1.0

    def primal(self, u: Tensor) -> Tensor:
        return (self._like(u) - u).clamp(min=0)

    def dual(self, a: Tensor) -> Tensor:
        return -self._like(a) * a

    def slope(self, a: Tensor) -> Tensor:
        return torch.zeros_like(a) - self._like(a)

    def _like(self, a: Tensor) -> Tensor:
        """Return the threshold in the type and on the device of a."""
        return torch.as_tensor(self.rho).to(a)


@dataclass(frozen=True)
class Logistic(ClassificationLoss):
    """``log(1 + exp(-u))``; its dual is the binary entropy ``a log a + (1 - a) log(1 - a)`` on (0, 1).

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Logistic
    >>> Logistic().primal(torch.tensor([0.0, 5.0]))
    tensor([0.6931, 0.0067])
    """

    barrier: ClassVar[bool] = True
    sigmoid: ClassVar[bool] = True

    START: ClassVar[float] = 1e-3  # the first point; from a point well inside (0, 1) Newton's method stalls
    FLOOR: ClassVar[float] = 1e-30  # smallest dual variable, that of a margin of 69; 1 / FLOOR is finite in float32

    lower = 0.0
    upper = 1.0

    @property
    def device_form(self) -> DeviceForm:
        return DeviceForm("entropy", 0.0, 0.0, self.FLOOR, self.START)

    def primal(self, u: Tensor) -> Tensor:
        return -torch.nn.functional.logsigmoid(u)  # softplus(-u) drops exp(u) for u < -20

    def dual(self, a: Tensor) -> Tensor:
        a = a.clamp(0, 1)  # rounding may make (c·1) / c slightly larger than 1
        return torch.xlogy(a, a) + torch.xlogy(1 - a, 1 - a)

    def slope(self, a: Tensor) -> Tensor:
        a = self._inside(a)
        return a.log() - torch.log1p(-a)

    def curvature(self, a: Tensor) -> Tensor:
        a = self._inside(a)
        return 1 / a + 1 / (1 - a)

    def inverse_slope(self, v: Tensor) -> Tensor:
        return torch.sigmoid(v)

    def bend(self, a: Tensor, d: Tensor) -> Tensor:
        """Return the relative entropy of a + d to a, without a difference of nearly equal logarithms."""
        a, d = self._inside(a).double(), d.double()
        new = (a + d).clamp(0, 1)
        up, down = torch.special.xlog1py(new, d / a), torch.special.xlog1py(1 - new, -d / (1 - a))
        return torch.add(up, down)

    def start(self, a: Tensor, toward: Tensor) -> Tensor:
        return self._inside(torch.where(a == 0, self.START, a))

    def _inside(self, a: Tensor) -> Tensor:
        """Return ``a``, moved inside (0, 1) where rounding has put it on an end: the slope there is infinite."""
        return a.clamp(self.FLOOR, 1 - torch.finfo(a.dtype).eps)
