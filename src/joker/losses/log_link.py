"""Losses of a prediction ``f`` that is the logarithm of the mean: half the deviances of counts, costs and durations.

They are the Tweedie family with the power p of the variance, which is proportional to mean^p: Poisson (p = 1), compound
Poisson and gamma (1 < p < 2) and gamma (p = 2). With r = p - 1 and s = 2 - p, up to a constant of the target,

    l(y, f) = y exp(-r f) / r + exp(s f) / s.

Such a loss is no function of one variable, as the deviance of a larger mean is larger. The point of the dual where the
prediction is f is a = y exp(-r f) - exp(s f). Its inverse f(a) gives everything that the solver needs:

    psi(y, a) = -a f(a) - l(y, f(a)),     psi' = -f(a),     psi'' = 1 / l''(f(a)).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from joker.errors import InvalidData
from joker.losses.loss import Bound, Frame, Loss
from joker.losses.regression import number, require


class _LogMean(Frame):
    """The target is no part of a linear term: the loss takes it as it is."""

    def tilt(self, y: Tensor) -> Tensor | float:
        return 0.0


LOG_MEAN = _LogMean()
LARGEST_EXPONENT = 80.0  # of exponentials that must be finite in float32
NEWTON_STEPS = 12  # of the inverse of a slope; eight reach the last bit of a float64 for all powers and slopes


@dataclass(frozen=True)
class LogLinkLoss(Loss):
    """Half the deviance of a target y and the mean exp(f).

    As functions of one variable, ``primal``, ``dual``, ``slope`` and ``curvature`` are those of the target 1, where
    the residual is ``u = -f``.

    Examples
    --------
    >>> from joker.losses import LogLinkLoss, Poisson
    >>> issubclass(Poisson, LogLinkLoss)
    True
    """

    frame: ClassVar[Frame] = LOG_MEAN
    barrier: ClassVar[bool] = True  # at the one end that the box has
    smallest: ClassVar[float] = 0.0  # target
    excluded: ClassVar[bool] = False  # whether the smallest target itself is
    unbounded = False
    device_form = None

    START: ClassVar[float] = 1e-3  # of exp(f) for a target of 0, whose dual variable has its end at 0
    FLOOR: ClassVar[float] = 1e-30  # smallest distance to an end; 1 / FLOOR is finite in float32

    @property
    @abstractmethod
    def variance_power(self) -> float:
        """The power p of the mean to which the variance is proportional."""

    @property
    def r(self) -> float:
        """The factor of f in the term with the target."""
        return self.variance_power - 1

    @property
    def s(self) -> float:
        """The factor of f in the term without the target."""
        return 2 - self.variance_power

    @abstractmethod
    def prediction(self, y: Tensor, a: Tensor) -> Tensor:
        """Return the prediction f at which minus the slope of the loss is a."""

    def check_targets(self, y: Tensor) -> None:
        """Raise an error for a target outside the domain of the loss."""
        wrong = y <= self.smallest if self.excluded else y < self.smallest
        if bool(wrong.any()):
            rule = "positive" if self.excluded else "at least 0"
            remedy = "Use the Tweedie or the Poisson loss for targets that may be 0" if self.excluded else "Check them"
            raise InvalidData(
                f"y must be {rule} for the {type(self).__name__} loss; found {float(y[wrong][0]):g}. {remedy}, or use "
                "the squared loss."
            )

    def value(self, y: Tensor, f: Tensor) -> Tensor:
        """Return half the deviance; it is infinite where exp(f) is not finite."""
        y, f = torch.broadcast_tensors(y, f)
        w = f - torch.where(y > 0, y, 1.0).log()
        of_mean = _excess(self.s, w) if self.s else 0.0
        of_target = -_excess(-self.r, w) if self.r else 0.0
        at_zero = (self.s * f).exp() / self.s if self.s else torch.full_like(f, math.inf)
        return torch.where(y > 0, y.pow(self.s) * (of_mean + of_target), at_zero)

    def psi_smooth(self, y: Tensor, a: Tensor) -> Tensor:
        y, a = torch.broadcast_tensors(y, a)
        f = self.prediction(y, a)
        return -a * f - self.value(y, f)

    def psi_slope(self, y: Tensor, a: Tensor) -> Tensor:
        return -self.prediction(y, a)

    def psi_curvature(self, y: Tensor, a: Tensor) -> Tensor:
        return 1 / self._bending(y, self.prediction(y, a)).clamp(min=self.FLOOR)

    def psi_bend(self, y: Tensor, a: Tensor, d: Tensor) -> Tensor:
        """Return the same divergence of the loss, from the prediction after the step to that before it."""
        y, a, d = y.double(), a.double(), d.double()
        end = self.prediction(y, a + d)
        rise = self.prediction(y, a) - end
        of_mean = (self.s * end).exp() * _excess(self.s, rise) if self.s else 0.0
        of_target = -self._of_target(y, end) * _excess(-self.r, rise) if self.r else 0.0
        return of_mean + torch.as_tensor(of_target).to(rise)

    def psi_start(self, y: Tensor, a: Tensor, toward: Tensor) -> Tensor:
        low, high = self.box(y)
        size = (-self.s * toward).clamp(-LARGEST_EXPONENT / 2, LARGEST_EXPONENT / 2).exp()
        a = torch.where((high <= 0) & (a >= 0), -self.START * size, a)
        margin = 4 * torch.finfo(a.dtype).eps
        high = torch.where(high > 0, high * (1 - margin), high)
        return torch.minimum(torch.maximum(a, low * (1 - margin)), high)

    def best(self, y: Tensor, f: Tensor) -> Tensor:
        """Return minus the slope of the loss."""
        limit = LARGEST_EXPONENT
        rising = (self.s * f).clamp(-limit, limit).exp()
        return y * (-self.r * f).clamp(-limit, limit).exp() - rising

    def ends(self, y: Tensor) -> tuple[Bound, Bound]:
        return self.lower, torch.where(y > 0, math.inf, torch.zeros_like(y))

    # The loss of the target 1, as a function of one variable.

    def primal(self, u: Tensor) -> Tensor:
        return self.value(torch.ones_like(u), -u)

    def dual(self, a: Tensor) -> Tensor:
        return self.psi(torch.ones_like(a), a)

    def slope(self, a: Tensor) -> Tensor:
        return self.psi_slope(torch.ones_like(a), a)

    def curvature(self, a: Tensor) -> Tensor:
        return self.psi_curvature(torch.ones_like(a), a)

    def _bending(self, y: Tensor, f: Tensor) -> Tensor:
        """Return the second derivative of the loss."""
        return self.s * (self.s * f).exp() + self.r * self._of_target(y, f)

    def _of_target(self, y: Tensor, f: Tensor) -> Tensor:
        """Return y exp(-r f); 0 for a target of 0, where the exponential may be infinite."""
        return torch.where(y > 0, (torch.where(y > 0, y, 1.0).log() - self.r * f).exp(), 0.0)


def _excess(k: float, w: Tensor) -> Tensor:
    """Return (exp(k w) - 1) / k - w, which is near k w² / 2."""
    return (k * w).expm1() / k - w


@dataclass(frozen=True)
class Poisson(LogLinkLoss):
    """Half the Poisson deviance, ``exp(f) - y f + y log y - y``: counts, and rates with weights of exposures.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Poisson
    >>> Poisson().value(torch.tensor([0.0, 3.0]), torch.tensor([0.0, 0.0]))
    tensor([1.0000, 1.2958])
    """

    variance_power = 1.0
    upper = 1.0

    def prediction(self, y: Tensor, a: Tensor) -> Tensor:
        # Where y - a has no correct digit, it is the rounding error of y.
        least = (0.5 * torch.finfo(a.dtype).eps * y.to(a.dtype)).clamp(min=self.FLOOR)
        return torch.maximum(y - a, least).log()

    def ends(self, y: Tensor) -> tuple[Bound, Bound]:
        return -math.inf, y


@dataclass(frozen=True)
class Gamma(LogLinkLoss):
    """Half the gamma deviance, ``y exp(-f) + f - log y - 1``: positive costs and durations, by their relative errors.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Gamma
    >>> Gamma().value(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0]))
    tensor([0.0000, 0.9014])
    """

    variance_power = 2.0
    lower = -1.0
    excluded: ClassVar[bool] = True

    def prediction(self, y: Tensor, a: Tensor) -> Tensor:
        return y.log() - a.clamp(min=-1 + 0.5 * torch.finfo(a.dtype).eps).log1p()

    def ends(self, y: Tensor) -> tuple[Bound, Bound]:
        return self.lower, self.upper


@dataclass(frozen=True)
class Tweedie(LogLinkLoss):
    """Half the Tweedie deviance for a variance proportional to mean^power: costs of which many are 0.

    Parameters
    ----------
    power : float
        The power, between 1 (Poisson) and 2 (gamma), both excluded.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Tweedie
    >>> Tweedie(power=1.5).value(torch.tensor([0.0, 4.0]), torch.tensor([0.0, 0.0]))
    tensor([2., 2.])
    """

    power: float = 1.5

    def __post_init__(self) -> None:
        rule = "between 1 and 2, both excluded"
        require(1 < number(self.power) < 2, "power", rule, self.power, "1.5; the Poisson loss is 1, and Gamma is 2")

    @property
    def variance_power(self) -> float:
        return float(self.power)

    def prediction(self, y: Tensor, a: Tensor) -> Tensor:
        """Return f, in float64 inside: of a small target, y^s may be below all numbers of float32."""
        y64, a64 = torch.broadcast_tensors(y.double(), a.double())
        some = torch.where(y64 > 0, y64, 1.0)
        positive = some.log() + self._log_ratio(-a64 / some.pow(self.s))
        zero = (-a64).clamp(min=self.FLOOR).log() / self.s
        return torch.where(y64 > 0, positive, zero).to(torch.promote_types(y.dtype, a.dtype))

    def _log_ratio(self, z: Tensor) -> Tensor:
        """Return w with exp(s w) - exp(-r w) = z, by Newton's method for s w = log(z + exp(-r w)).

        The difference of both sides is increasing and concave, so that the steps from w = 0 never pass the solution.
        For z < 0 the equation is that of -w and -z with r and s exchanged.
        """
        size, sign = z.abs(), z.sign()
        s = self.s + (self.r - self.s) * (sign < 0).to(z)
        r, w = 1 - s, torch.zeros_like(z)
        for _ in range(NEWTON_STEPS):
            total = size + (-r * w).expm1()  # less 1
            share = (-r * w).exp() / (1 + total)
            w = (w - (s * w - total.log1p()) / (s + r * share)).clamp(min=0)
        return sign * w
