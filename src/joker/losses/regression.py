"""Losses of the residual ``u = y - f``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from operator import attrgetter
from typing import ClassVar

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.losses.loss import Bound, DeviceForm, RegressionLoss, ZeroDual


@dataclass(frozen=True)
class Squared(RegressionLoss):
    """``u² / 2``: kernel ridge regression.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Squared
    >>> Squared().primal(torch.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5000, 2.0000])
    """

    quadratic: ClassVar[bool] = True

    def primal(self, u: Tensor) -> Tensor:
        return 0.5 * u.square()

    def dual(self, a: Tensor) -> Tensor:
        return 0.5 * a.square()

    def slope(self, a: Tensor) -> Tensor:
        return a

    def curvature(self, a: Tensor) -> Tensor:
        return torch.ones_like(a)


@dataclass(frozen=True)
class Huber(Squared):
    """Quadratic up to ``delta``, linear for larger residuals; its dual is that of the squared loss in a box.

    Parameters
    ----------
    delta : float
        The residual at which the loss becomes linear, positive.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Huber
    >>> Huber(delta=1.0).primal(torch.tensor([0.0, 1.0, 3.0]))
    tensor([0.0000, 0.5000, 2.5000])
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        require(0 < number(self.delta) < math.inf, "delta", "positive and finite", self.delta, "1.0")

    lower = property(lambda self: -self.delta)
    upper = property(attrgetter("delta"))

    def primal(self, u: Tensor) -> Tensor:
        near = u.abs().clamp(max=self.delta)
        return near * (u.abs() - 0.5 * near)


@dataclass(frozen=True)
class _Insensitive(RegressionLoss):
    """A loss that is 0 for ``|u| <= epsilon``, and else the loss after it in the order of base classes."""

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        require(0 <= number(self.epsilon) < math.inf, "epsilon", "at least 0 and finite", self.epsilon, "0.1")

    kink = property(attrgetter("epsilon"))

    def primal(self, u: Tensor) -> Tensor:
        return super().primal((u.abs() - self.epsilon).clamp(min=0))


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(_Insensitive, Squared):
    """``max(|u| - epsilon, 0)² / 2``.

    Parameters
    ----------
    epsilon : float
        The largest residual that costs nothing, at least 0.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import SquaredEpsilonInsensitive
    >>> SquaredEpsilonInsensitive(epsilon=0.5).primal(torch.tensor([0.2, 2.5]))
    tensor([0., 2.])
    """


@dataclass(frozen=True)
class Absolute(ZeroDual, RegressionLoss):
    """``|u|``: median regression. Its dual is zero inside the box.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Absolute
    >>> Absolute().primal(torch.tensor([-2.0, 1.0]))
    tensor([2., 1.])
    """

    lower = -1.0
    upper = 1.0

    def primal(self, u: Tensor) -> Tensor:
        return u.abs()


@dataclass(frozen=True)
class EpsilonInsensitive(_Insensitive, Absolute):
    """``max(|u| - epsilon, 0)``: support vector regression.

    Parameters
    ----------
    epsilon : float
        The largest residual that costs nothing, at least 0.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(epsilon=0.5).primal(torch.tensor([0.2, 2.0]))
    tensor([0.0000, 1.5000])
    """


@dataclass(frozen=True)
class Quantile(ZeroDual, RegressionLoss):
    """The pinball loss ``max(q u, (q - 1) u)``; a tensor of shape (t,) sets q for each column.

    Parameters
    ----------
    quantile : float or Tensor of shape (t,)
        The level q, between 0 and 1.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Quantile
    >>> Quantile(quantile=0.9).primal(torch.tensor([-1.0, 1.0]))
    tensor([0.1000, 0.9000])
    """

    quantile: Bound = 0.5

    def __post_init__(self) -> None:
        given = self.quantile
        level = given if isinstance(given, Tensor) else torch.tensor(number(given), dtype=torch.float64)
        inside = bool(((level > 0) & (level < 1)).all())
        require(inside, "quantile", "a number or tensor between 0 and 1, both excluded", given, "0.5")

    lower = property(lambda self: self.quantile - 1)
    upper = property(attrgetter("quantile"))

    def primal(self, u: Tensor) -> Tensor:
        return torch.maximum(self.quantile * u, (self.quantile - 1) * u)


@dataclass(frozen=True)
class Expectile(RegressionLoss):
    """``e u²`` for a positive residual and ``(1 - e) u²`` for a negative one: asymmetric least squares.

    Parameters
    ----------
    expectile : float
        The level e, between 0 and 1; at 1/2 this is the squared loss.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Expectile
    >>> Expectile(expectile=0.9).primal(torch.tensor([-1.0, 1.0]))
    tensor([0.1000, 0.9000])
    """

    expectile: float = 0.5

    def __post_init__(self) -> None:
        rule = "a number between 0 and 1, both excluded"
        require(0 < number(self.expectile) < 1, "expectile", rule, self.expectile, "0.5")

    quadratic = property(lambda self: self.expectile == 0.5)

    def primal(self, u: Tensor) -> Tensor:
        return self._weight(u) * u.square()

    def dual(self, a: Tensor) -> Tensor:
        return 0.5 * self.curvature(a) * a.square()

    def slope(self, a: Tensor) -> Tensor:
        return self.curvature(a) * a

    def curvature(self, a: Tensor) -> Tensor:
        return 0.5 / self._weight(a)

    def inverse_slope(self, v: Tensor) -> Tensor:
        return 2 * self._weight(v) * v

    def _weight(self, u: Tensor) -> Tensor:
        return self.expectile + (1 - 2 * self.expectile) * (u < 0).to(u)


@dataclass(frozen=True)
class Lp(RegressionLoss):
    """``|u|^p / p`` for p > 1; its dual is ``|a|^q / q`` with 1/p + 1/q = 1.

    Parameters
    ----------
    p : float
        The power, greater than 1.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Lp
    >>> Lp(p=3.0).primal(torch.tensor([1.0, 3.0]))
    tensor([0.3333, 9.0000])
    """

    p: float = 1.5

    FLOOR: ClassVar[float] = 1e-6  # the curvature is constant below this |a|; at 0 it would be 0 or infinite
    START: ClassVar[float] = 0.1  # as a share of the point where the conjugate has the slope ``toward``

    def __post_init__(self) -> None:
        require(1 < number(self.p) < math.inf, "p", "greater than 1 and finite", self.p, "1.5")

    @property
    def q(self) -> float:
        """The conjugate exponent."""
        return self.p / (self.p - 1)

    @property
    def device_form(self) -> DeviceForm:
        return DeviceForm("power", self.q, 0.0, self.FLOOR, self.START)

    def primal(self, u: Tensor) -> Tensor:
        return u.abs().pow(self.p) / self.p

    def dual(self, a: Tensor) -> Tensor:
        return a.abs().pow(self.q) / self.q

    def slope(self, a: Tensor) -> Tensor:
        return a.sign() * a.abs().pow(self.q - 1)

    def inverse_slope(self, v: Tensor) -> Tensor:
        return v.sign() * v.abs().pow(self.p - 1)

    def curvature(self, a: Tensor) -> Tensor:
        return (self.q - 1) * a.abs().clamp(min=self.FLOOR).pow(self.q - 2)

    def start(self, a: Tensor, toward: Tensor) -> Tensor:
        # The curvature there has the right order of magnitude. For large residuals and p > 2 that point is much larger
        # than the solution, so the start is at most proportional to the residual.
        size = toward.abs().clamp(min=self.FLOOR)
        power = torch.where(size > 1, min(self.p - 1, 1.0), self.p - 1)
        return torch.where(a == 0, self.START * toward.sign() * size.pow(power), a)


@dataclass(frozen=True)
class Tube(_Insensitive, ZeroDual):
    """0 for ``|u| <= epsilon`` and infinite otherwise: for use in an `InfimalConvolution`.

    Parameters
    ----------
    epsilon : float
        The half-width of the tube, at least 0.

    Examples
    --------
    >>> from joker.losses import Absolute, InfimalConvolution, Tube
    >>> InfimalConvolution((Absolute(), Tube(epsilon=0.1)))  # the ε-insensitive loss
    InfimalConvolution(parts=(Absolute(), Tube(epsilon=0.1)))
    """

    def primal(self, u: Tensor) -> Tensor:
        return torch.where(u.abs() <= self.epsilon, 0.0, math.inf).to(u)


def require(holds: bool, name: str, rule: str, got: object, remedy: str) -> None:
    """Raise an error that names the rule of a parameter unless it holds."""
    if not holds:
        raise InvalidParameter(f"{name} must be {rule}; got {name}={got!r}. Use a value such as {remedy}.")


def number(value: object) -> float:
    """Return ``value`` if it is a real number, else NaN, which fails every check."""
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
