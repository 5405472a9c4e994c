"""What a loss is: a convex function of one variable, and its conjugate.

A loss reads a target ``y`` and a prediction ``f`` through its *frame*: the residual
``u = y - f`` (regression) or the margin ``u = y f`` (classification, ``y`` is -1 or 1).
Inside the frame everything is a function of one variable:

    primal(u)                          the loss itself
    dual(a) + kink * |a|, a in [lower, upper]     its conjugate, with the dual sign of the frame

so that the dual problem of a kernel machine has the separable term

    psi(y, a) = dual(a) + kink |a| - a y      (residual)
    psi(y, a) = dual(a y) + kink |a|          (margin)

``dual`` is the smooth part; the solver needs its ``slope`` and ``curvature``.
A loss knows nothing of kernels, weights or the regularisation strength: those enter
through :class:`joker.losses.Scaled` alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

Bound = float | Tensor


class Frame(Protocol):
    """How a target enters a loss; the two instances are ``RESIDUAL`` and ``MARGIN``."""

    task: str

    def argument(self, y: Tensor, f: Tensor) -> Tensor:
        """The variable u of ``primal``."""
        ...

    def own(self, y: Tensor, a: Tensor) -> Tensor:
        """The dual variable as the loss sees it; its own inverse."""
        ...

    def tilt(self, y: Tensor) -> Tensor | float:
        """The coefficient of the linear term that the target adds to psi."""
        ...

    def box(self, y: Tensor, lower: Bound, upper: Bound) -> tuple[Tensor, Tensor]:
        """The interval of the dual variable, from that of the loss."""
        ...

    def towards(self, u: Tensor) -> Tensor:
        """The variable conjugate to the dual variable at ``u``."""
        ...


class _Residual:
    task = "regression"

    def argument(self, y: Tensor, f: Tensor) -> Tensor:
        return y - f

    def own(self, y: Tensor, a: Tensor) -> Tensor:
        return a

    def tilt(self, y: Tensor) -> Tensor | float:
        return -y

    def box(self, y: Tensor, lower: Bound, upper: Bound) -> tuple[Tensor, Tensor]:
        return _like(y, lower), _like(y, upper)

    def towards(self, u: Tensor) -> Tensor:
        return u


class _Margin:
    task = "classification"

    def argument(self, y: Tensor, f: Tensor) -> Tensor:
        return y * f

    def own(self, y: Tensor, a: Tensor) -> Tensor:
        return a * y

    def tilt(self, y: Tensor) -> Tensor | float:
        return 0.0

    def box(self, y: Tensor, lower: Bound, upper: Bound) -> tuple[Tensor, Tensor]:
        low, high = _like(y, lower), _like(y, upper)
        return torch.where(y > 0, low, -high), torch.where(y > 0, high, -low)

    def towards(self, u: Tensor) -> Tensor:
        return -u


def _like(y: Tensor, bound: Bound) -> Tensor:
    """A bound for each target, in the floating-point type of the targets whatever its own is."""
    return (torch.zeros_like(y) + bound).to(y)


RESIDUAL: Frame = _Residual()
MARGIN: Frame = _Margin()


class DeviceForm(NamedTuple):
    """The function ``dual`` as device kernels know it; see :class:`joker.ops.block_solve.Dual`."""

    name: str
    p0: Bound
    p1: Bound
    floor: float = 0.0  # smallest |a| at which slope and curvature are taken
    start: float = 0.0  # where ``start`` moves a = 0


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss, given by its conjugate; subclass it to add one.

    A subclass sets ``frame`` (or derives from :class:`RegressionLoss` or
    :class:`ClassificationLoss`) and writes ``dual``, ``slope`` and ``curvature``;
    ``primal`` is optional but faster and more exact than the default.
    """

    frame: ClassVar[Frame]
    quadratic: ClassVar[bool] = False
    """Whether ``curvature`` does not depend on where it is taken."""
    barrier: ClassVar[bool] = False
    """Whether ``slope`` is infinite at the ends of a bounded box, so that no solution lies there."""
    sigmoid: ClassVar[bool] = False
    """Whether the best prediction is the log odds, so that its sigmoid is the probability of the class 1."""

    @property
    def lower(self) -> Bound:
        """Lower end of the dual box."""
        return -math.inf

    @property
    def upper(self) -> Bound:
        """Upper end of the dual box."""
        return math.inf

    @property
    def kink(self) -> float:
        """Factor of |a| in the conjugate: the half-width of the tube where the loss is 0."""
        return 0.0

    @abstractmethod
    def dual(self, a: Tensor) -> Tensor:
        """Smooth part of the conjugate."""

    @abstractmethod
    def slope(self, a: Tensor) -> Tensor:
        """First derivative of ``dual``."""

    @abstractmethod
    def curvature(self, a: Tensor) -> Tensor:
        """Second derivative of ``dual``, at least 0."""

    def primal(self, u: Tensor) -> Tensor:
        """The loss at residual or margin ``u``; by default the numerical conjugate of ``dual``."""
        return conjugate(self, u)

    def start(self, a: Tensor, toward: Tensor) -> Tensor:
        """Move ``a`` off points where ``slope`` or ``curvature`` are not finite.

        ``toward`` is the slope of the conjugate at which ``a`` would be optimal if the
        prediction stayed as it is: the residual, or minus the margin.
        """
        return a

    def bend(self, a: Tensor, d: Tensor) -> Tensor:
        """``dual(a + d) - dual(a) - slope(a) d`` in float64: what a straight line misses."""
        a, d = a.double(), d.double()
        if self.quadratic:
            return 0.5 * self.curvature(a) * d.square()
        return self.dual(a + d) - self.dual(a) - self.slope(a) * d

    # The same with the target: what the solver calls.

    def value(self, y: Tensor, f: Tensor) -> Tensor:
        """The loss of predicting ``f`` where ``y`` is true."""
        return self.primal(self.frame.argument(y, f))

    def psi(self, y: Tensor, a: Tensor) -> Tensor:
        """The dual term: the conjugate of the loss at ``-a``."""
        return self.dual(self.frame.own(y, a)) + self.kink * a.abs() + self.frame.tilt(y) * a

    def psi_slope(self, y: Tensor, a: Tensor) -> Tensor:
        """Derivative of the smooth part of ``psi`` in ``a``."""
        return self.frame.own(y, self.slope(self.frame.own(y, a))) + self.frame.tilt(y)

    def psi_curvature(self, y: Tensor, a: Tensor) -> Tensor:
        """Second derivative of the smooth part of ``psi`` in ``a``."""
        return self.curvature(self.frame.own(y, a))

    def psi_bend(self, y: Tensor, a: Tensor, d: Tensor) -> Tensor:
        """What a straight line from ``a`` misses of the smooth part of ``psi`` at ``a + d``, in float64."""
        return self.bend(self.frame.own(y, a), self.frame.own(y, d))

    def psi_start(self, y: Tensor, a: Tensor, toward: Tensor) -> Tensor:
        """A point near ``a`` where ``psi`` can be expanded."""
        own = self.frame.own
        return own(y, self.start(own(y, a), own(y, toward)))

    def box(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """The interval of the dual variable of each target, of the shape of ``y``."""
        return self.frame.box(y, self.lower, self.upper)

    def clamp(self, y: Tensor, a: Tensor) -> Tensor:
        """The point of the box that is nearest to ``a``."""
        low, high = self.box(y)
        return torch.maximum(torch.minimum(a, high), low)

    @property
    def device_form(self) -> DeviceForm | None:
        """The form of ``dual`` that device kernels know; None if they know none.

        Every quadratic loss has one, from its slope and curvature at 0.
        """
        zero = torch.zeros(1, 1, dtype=torch.float64)
        return DeviceForm("quadratic", self.curvature(zero)[0], self.slope(zero)[0]) if self.quadratic else None

    @property
    def unscaled(self) -> tuple[Loss, Bound]:
        """The loss without its factor, and the factor."""
        return self, 1.0

    @property
    def unbounded(self) -> bool:
        """Whether the dual variable is free, so that a quadratic loss needs one linear solve."""
        return _all(self.lower, -math.inf) and _all(self.upper, math.inf) and self.kink == 0


class RegressionLoss(Loss):
    """A loss of the residual ``y - f``."""

    frame = RESIDUAL


class ClassificationLoss(Loss):
    """A loss of the margin ``y f``, with ``y`` in {-1, 1}."""

    frame = MARGIN


def _all(bound: Bound, value: float) -> bool:
    return not isinstance(bound, Tensor) and bound == value


def conjugate(loss: Loss, u: Tensor) -> Tensor:
    r"""The primal value from the dual one: ``sup_a a v - dual(a) - kink |a|`` over the box.

    ``v`` is ``u`` or ``-u``, as the frame says. The supremum is found by bisection on the
    derivative, which falls monotonically; an error of size e in its place costs e² in value.
    """
    doublings, halvings = 64, 120  # reach 2**64, then down to the last bit of a float64
    v = loss.frame.towards(u)

    def falling(a: Tensor) -> Tensor:
        return v - loss.slope(a) - loss.kink * a.sign()

    low = torch.clamp(torch.full_like(v, -1.0), *_tensors(v, loss))
    high = torch.clamp(torch.full_like(v, 1.0), *_tensors(v, loss))
    for _ in range(doublings):
        low = torch.where(falling(low) < 0, torch.clamp(2 * low - 1, *_tensors(v, loss)), low)
        high = torch.where(falling(high) > 0, torch.clamp(2 * high + 1, *_tensors(v, loss)), high)
    for _ in range(halvings):
        middle = low + 0.5 * (high - low)
        rising = falling(middle) > 0
        low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
    best = torch.maximum(_height(loss, v, low), _height(loss, v, high))
    return torch.maximum(best, _height(loss, v, torch.clamp(torch.zeros_like(v), *_tensors(v, loss))))


def _height(loss: Loss, v: Tensor, a: Tensor) -> Tensor:
    return a * v - loss.dual(a) - loss.kink * a.abs()


def _tensors(like: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    return _like(like, loss.lower), _like(like, loss.upper)
