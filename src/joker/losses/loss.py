"""The definition of a loss: a convex function of one variable, and its conjugate.

The *frame* of a loss computes this variable from a target ``y`` and a prediction ``f``: the residual
``u = y - f`` (regression) or the margin ``u = y f`` (classification, ``y`` is -1 or 1).
In the frame all functions have one variable:

    primal(u)                                     the loss itself
    dual(a) + kink * |a|, a in [lower, upper]     its conjugate, with the sign of ``a`` that the frame defines

so that the dual problem of a kernel machine has the separable term

    psi(y, a) = dual(a) + kink |a| - a y      (residual)
    psi(y, a) = dual(a y) + kink |a|          (margin)

``dual`` is the smooth part; the solver needs its ``slope`` and ``curvature``.
A loss does not depend on kernels, weights or the regularisation strength: only
:class:`joker.losses.Scaled` multiplies it by them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import inf
from numbers import Real
from operator import attrgetter
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from joker.errors import InvalidParameter

Bound = float | Tensor
NEWTON_STEPS = 5  # of the gain of a row, where the loss is not quadratic


class Frame:
    """How the target enters a loss: by the residual y - f, or, in the derived class, by the margin y f."""

    task = "regression"

    def argument(self, y: Tensor, f: Tensor) -> Tensor:
        """Return the variable u of ``primal``."""
        return y - f

    def in_frame(self, y: Tensor, a: Tensor) -> Tensor:
        """Return the dual variable ``a`` in the frame of the loss; applied twice, it returns ``a`` again."""
        return a

    def tilt(self, y: Tensor) -> Tensor | float:
        """Return the coefficient of the linear term that the target adds to psi."""
        return -y

    def box(self, y: Tensor, lower: Bound, upper: Bound) -> tuple[Tensor, Tensor]:
        """Return the interval of the dual variable outside the frame."""
        return _like(y, lower), _like(y, upper)

    def conjugate_variable(self, u: Tensor) -> Tensor:
        """Return the variable that is conjugate to the dual variable, at ``u``."""
        return u


class _Margin(Frame):
    task = "classification"

    def argument(self, y: Tensor, f: Tensor) -> Tensor:
        return y * f

    def in_frame(self, y: Tensor, a: Tensor) -> Tensor:
        return a * y

    def tilt(self, y: Tensor) -> Tensor | float:
        return 0.0

    def box(self, y: Tensor, lower: Bound, upper: Bound) -> tuple[Tensor, Tensor]:
        low, high = super().box(y, lower, upper)
        return torch.where(y > 0, low, -high), torch.where(y > 0, high, -low)

    def conjugate_variable(self, u: Tensor) -> Tensor:
        return -u


def _like(y: Tensor, bound: Bound) -> Tensor:
    """Return a bound for each target, in the floating-point type of the targets."""
    return (torch.zeros_like(y) + bound).to(y)


RESIDUAL, MARGIN = Frame(), _Margin()


class DeviceForm(NamedTuple):
    """The function ``dual`` as device kernels support it; see :class:`joker.ops.block_solve.Dual`."""

    name: str
    p0: Bound
    p1: Bound
    floor: float = 0.0  # smallest |a| at which slope and curvature are taken
    start: float = 0.0  # where ``start`` moves a = 0


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss, defined by its conjugate; derive a class from it to add a loss.

    A subclass sets ``frame`` (or derives from :class:`RegressionLoss` or
    :class:`ClassificationLoss`) and writes ``dual``, ``slope`` and ``curvature``;
    ``primal`` is optional but faster and more exact than the default.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import get
    >>> loss = get("huber", delta=2.0)
    >>> loss.value(torch.tensor([5.0]), torch.tensor([4.0]))  # the target 5, predicted as 4
    tensor([0.5000])
    """

    frame: ClassVar[Frame]
    quadratic: ClassVar[bool] = False
    """Whether ``curvature`` is constant."""
    barrier: ClassVar[bool] = False
    """Whether ``slope`` is infinite at the ends of a bounded box, so that no solution is at an end."""
    sigmoid: ClassVar[bool] = False
    """Whether the best prediction is the log odds, so that its sigmoid is the probability of the class 1."""
    group: ClassVar[int] = 1
    """Consecutive columns that the loss couples in each row; see :mod:`joker.losses.multiclass`."""

    @property
    def lower(self) -> Bound:
        """Lower end of the dual box."""
        return -inf

    @property
    def upper(self) -> Bound:
        """Upper end of the dual box."""
        return inf

    @property
    def kink(self) -> float:
        """Factor of ``abs(a)`` in the conjugate: half the width of the interval in which the loss is 0."""
        return 0.0

    @abstractmethod
    def dual(self, a: Tensor) -> Tensor:
        """Return the smooth part of the conjugate."""

    @abstractmethod
    def slope(self, a: Tensor) -> Tensor:
        """Return the first derivative of ``dual``."""

    @abstractmethod
    def curvature(self, a: Tensor) -> Tensor:
        """Return the second derivative of ``dual``, at least 0."""

    def primal(self, u: Tensor) -> Tensor:
        """Return the loss at the residual or margin ``u``; by default the numerical conjugate of ``dual``."""
        return conjugate(self, u)

    def start(self, a: Tensor, toward: Tensor) -> Tensor:
        """Return a point near ``a`` where ``slope`` and ``curvature`` are finite.

        ``toward`` is the slope of the conjugate at which ``a`` would be optimal if the
        prediction did not change: the residual, or minus the margin.
        """
        return a

    def inverse_slope(self, v: Tensor) -> Tensor | None:
        """Return the point where ``slope`` is v; None if it is not known, which makes `gain` less precise."""
        return None

    def bend(self, a: Tensor, d: Tensor) -> Tensor:
        """Return the Bregman divergence ``dual(a + d) - dual(a) - slope(a) d`` in float64."""
        a, d = a.double(), d.double()
        if self.quadratic:
            return 0.5 * self.curvature(a) * d.square()
        return self.dual(a + d) - self.dual(a) - self.slope(a) * d

    # The solver calls the following methods, which take the target into account.

    def value(self, y: Tensor, f: Tensor) -> Tensor:
        """Return the loss of the prediction ``f`` for the target ``y``."""
        return self.primal(self.frame.argument(y, f))

    def psi(self, y: Tensor, a: Tensor) -> Tensor:
        """Return the dual term: the conjugate of the loss at ``-a``."""
        return self.psi_smooth(y, a) + self.kink * a.abs() + self.frame.tilt(y) * a

    def psi_smooth(self, y: Tensor, a: Tensor) -> Tensor:
        """Return ``psi`` without its kink and the linear term of the frame."""
        return self.dual(self.frame.in_frame(y, a))

    def psi_slope(self, y: Tensor, a: Tensor) -> Tensor:
        """Return the derivative of the smooth part of ``psi`` with respect to ``a``."""
        return self.frame.in_frame(y, self.slope(self.frame.in_frame(y, a))) + self.frame.tilt(y)

    def psi_curvature(self, y: Tensor, a: Tensor) -> Tensor:
        """Return the second derivative of the smooth part of ``psi`` with respect to ``a``."""
        return self.curvature(self.frame.in_frame(y, a))

    def psi_bend(self, y: Tensor, a: Tensor, d: Tensor) -> Tensor:
        """Return the Bregman divergence of the smooth part of ``psi`` from ``a`` to ``a + d``, in float64."""
        return self.bend(self.frame.in_frame(y, a), self.frame.in_frame(y, d))

    def psi_start(self, y: Tensor, a: Tensor, toward: Tensor) -> Tensor:
        """Return a point near ``a`` where the derivatives of ``psi`` are finite."""
        in_frame = self.frame.in_frame
        return in_frame(y, self.start(in_frame(y, a), in_frame(y, toward)))

    def best(self, y: Tensor, f: Tensor) -> Tensor | None:
        """Return the dual point that is optimal if the prediction does not change; None if it is not known."""
        found = self.inverse_slope(self.frame.in_frame(y, -f - self.frame.tilt(y)))
        return None if found is None else self.frame.in_frame(y, found)

    def gain(self, y: Tensor, a: Tensor, f: Tensor, k: Tensor) -> Tensor:
        """Return by how much the dual objective falls if ``a`` alone moves, where the kernel of its row is ``k``.

        The term of a row is ``f s + k s² / 2 + psi(a + s) - psi(a)``. Its decrease is the largest one for a quadratic
        loss, and that of a few Newton steps otherwise; it is never negative.
        """
        low, high = self.box(y)
        if self.quadratic:
            h = (k + self.psi_curvature(y, a)).clamp(min=torch.finfo(f.dtype).tiny)
            g = f + self.psi_slope(y, a)
            new = a - g / h
            if self.kink:
                new = new.sign() * (new.abs() - self.kink / h).clamp(min=0)
            new = torch.maximum(torch.minimum(new, high), low)
            decrease = -(new - a) * (g + 0.5 * h * (new - a)) - self.kink * (new.abs() - a.abs())
        else:
            decrease = self._newton_decrease(y, a, f, k)
        return torch.where(low < high, decrease, 0.0).clamp(min=0)

    def can_increase(self, y: Tensor, a: Tensor, f: Tensor) -> Tensor:
        """Return whether a larger ``a`` lowers the dual objective: whether its derivative to the right is negative."""
        return f + self.psi_slope(y, a) + self.kink * torch.where(a < 0, -1.0, 1.0) < 0

    def scaled(self, c: Bound) -> Scaled:
        """Return ``c`` times the loss."""
        return Scaled(self, c)

    def _newton_decrease(self, y: Tensor, a: Tensor, f: Tensor, k: Tensor) -> Tensor:
        """Return the largest decrease at some Newton steps, which stay between points where the slope changes sign."""
        low, high = self.box(y)
        if (found := self.best(y, f)) is not None:
            new = self.clamp(y, found)
        else:
            start = self.clamp(y, self.psi_start(y, a, -f - self.frame.tilt(y)))
            new = torch.where(low.isfinite() & high.isfinite(), 0.5 * (low + high), start)
        before, decrease = self.psi(y, a), torch.zeros_like(new)
        for _ in range(NEWTON_STEPS):
            s = new - a
            decrease = torch.maximum(decrease, before - self.psi(y, new) - s * (f + 0.5 * k * s))
            slope = f + k * s + self.psi_slope(y, new) + self.kink * new.sign()
            low, high = torch.where(slope < 0, new, low), torch.where(slope > 0, new, high)
            step = new - slope / (k + self.psi_curvature(y, new)).clamp(min=torch.finfo(f.dtype).tiny)
            middle = torch.where(low.isfinite() & high.isfinite(), 0.5 * (low + high), 2 * new)
            new = torch.where((step > low) & (step < high), step, middle)
        s = new - a
        return torch.maximum(decrease, before - self.psi(y, new) - s * (f + 0.5 * k * s))

    def box(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ends of the interval of the dual variable, each with the shape of ``y``."""
        return self.frame.box(y, *self.ends(y))

    def ends(self, y: Tensor) -> tuple[Bound, Bound]:
        """Return the ends of the box in the frame, which are the same for all targets unless a loss says otherwise."""
        return self.lower, self.upper

    def check_targets(self, y: Tensor) -> None:
        """Raise an error for a target that the loss does not have; by default any number is one."""
        return

    def clamp(self, y: Tensor, a: Tensor) -> Tensor:
        """Return the point of the box that is nearest to ``a``."""
        low, high = self.box(y)
        return torch.maximum(torch.minimum(a, high), low)

    @property
    def device_form(self) -> DeviceForm | None:
        """The form of ``dual`` that device kernels support; None if they do not support it.

        Every quadratic loss has one, from its slope and curvature at 0.
        """
        zero = torch.zeros(1, 1, dtype=torch.float64)
        return DeviceForm("quadratic", self.curvature(zero)[0], self.slope(zero)[0]) if self.quadratic else None

    @property
    def unscaled(self) -> tuple[Loss, Bound]:
        """The loss without its factor c, and the factor."""
        return self, 1.0

    @property
    def unbounded(self) -> bool:
        """Whether the dual variable has no bounds and no kink; a quadratic loss is then solved by a linear system."""
        bounds = self.lower, self.upper
        return not any(isinstance(bound, Tensor) for bound in bounds) and (*bounds, self.kink) == (-inf, inf, 0)


class RegressionLoss(Loss):
    """A loss of the residual ``y - f``.

    Examples
    --------
    >>> from joker.losses import Huber, RegressionLoss
    >>> issubclass(Huber, RegressionLoss)
    True
    """

    frame = RESIDUAL


class ClassificationLoss(Loss):
    """A loss of the margin ``y f``, with ``y`` in {-1, 1}.

    Examples
    --------
    >>> from joker.losses import ClassificationLoss, Hinge
    >>> issubclass(Hinge, ClassificationLoss)
    True
    """

    frame = MARGIN


class ZeroDual(Loss):
    """A loss whose dual is zero inside the box."""

    quadratic: ClassVar[bool] = True

    def dual(self, a: Tensor) -> Tensor:
        return torch.zeros_like(a)

    slope = dual
    curvature = dual


def conjugate(loss: Loss, u: Tensor) -> Tensor:
    """Return the loss as the conjugate of its dual: ``sup_a a v - dual(a) - kink |a|`` over the box.

    ``v`` is ``u`` or ``-u``, depending on the frame. The maximum is found by bisection on the derivative,
    which is monotonically decreasing; an error of size e in the maximiser changes the value by about e².
    """
    doublings, halvings = 64, 120  # expand the interval to 2**64, then bisect it to the last bit of a float64
    v = loss.frame.conjugate_variable(u)
    box = _like(v, loss.lower), _like(v, loss.upper)

    def derivative(a: Tensor) -> Tensor:
        return v - loss.slope(a) - loss.kink * a.sign()

    def maximised(a: Tensor) -> Tensor:
        return a * v - loss.dual(a) - loss.kink * a.abs()

    low, zero, high = (torch.full_like(v, a).clamp(*box) for a in (-1.0, 0.0, 1.0))
    for _ in range(doublings):
        low = torch.where(derivative(low) < 0, (2 * low - 1).clamp(*box), low)
        high = torch.where(derivative(high) > 0, (2 * high + 1).clamp(*box), high)
    for _ in range(halvings):
        middle = low + 0.5 * (high - low)
        rising = derivative(middle) > 0
        low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
    return torch.maximum(torch.maximum(maximised(low), maximised(high)), maximised(zero))


@dataclass(frozen=True)
class Scaled(Loss):
    """``c`` times a loss: the only place where weights and the regularisation strength enter.

    For the primal ``c l`` the dual is ``c dual(a / c)`` on the box times ``c``. A tensor
    ``c`` (b, t) has a factor for each row and column; where it is 0 the box is the point 0.

    Parameters
    ----------
    loss : Loss
        The loss.
    c : float or Tensor
        The factor, at least 0; a tensor of shape (n, 1) or (n, t) has one for each row.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Scaled, Squared
    >>> Scaled(Squared(), c=3.0).primal(torch.tensor([2.0]))
    tensor([6.])
    """

    loss: Loss
    c: Bound = 1.0

    def __post_init__(self) -> None:
        # A tensor is not checked: reading it on the CPU would make a GPU wait.
        number = isinstance(self.c, Real) and not isinstance(self.c, bool) and 0 < self.c < inf
        if not (number or isinstance(self.c, Tensor)) or not isinstance(self.loss, Loss):
            raise InvalidParameter(
                f"a scaled loss must be a loss and a positive finite number; got {self.loss!r} and c={self.c!r}. "
                "Use for example Scaled(Absolute(), 0.5)."
            )

    # A factor changes neither these properties nor the best prediction.
    frame = property(attrgetter("loss.frame"))
    quadratic = property(attrgetter("loss.quadratic"))
    barrier = property(attrgetter("loss.barrier"))
    sigmoid = property(attrgetter("loss.sigmoid"))
    group = property(attrgetter("loss.group"))
    kink = property(attrgetter("loss.kink"))
    unbounded = property(attrgetter("loss.unbounded"))

    lower = property(lambda self: _times(self.c, self.loss.lower))
    upper = property(lambda self: _times(self.c, self.loss.upper))
    unscaled = property(attrgetter("loss", "c"))

    @property
    def _divisor(self) -> Bound:
        return torch.where(self.c > 0, self.c, 1.0) if isinstance(self.c, Tensor) else self.c

    def primal(self, u: Tensor) -> Tensor:
        return self.c * self.loss.primal(u)

    def dual(self, a: Tensor) -> Tensor:
        return self.c * self.loss.dual(a / self._divisor)

    def slope(self, a: Tensor) -> Tensor:
        return self.loss.slope(a / self._divisor)

    def curvature(self, a: Tensor) -> Tensor:
        return self.loss.curvature(a / self._divisor) / self._divisor

    def bend(self, a: Tensor, d: Tensor) -> Tensor:
        return self.c * self.loss.bend(a / self._divisor, d / self._divisor)

    def inverse_slope(self, v: Tensor) -> Tensor | None:
        found = self.loss.inverse_slope(v)
        return None if found is None else self.c * found

    def start(self, a: Tensor, toward: Tensor) -> Tensor:
        return self.c * self.loss.start(a / self._divisor, toward)

    # A loss may depend on its target in another way than by the frame.

    def value(self, y: Tensor, f: Tensor) -> Tensor:
        value = self.loss.value(y, f)
        return torch.where(self.c > 0, self.c * value, 0.0) if isinstance(self.c, Tensor) else self.c * value

    def psi_smooth(self, y: Tensor, a: Tensor) -> Tensor:
        return self.c * self.loss.psi_smooth(y, a / self._divisor)

    def psi_slope(self, y: Tensor, a: Tensor) -> Tensor:
        return self.loss.psi_slope(y, a / self._divisor)

    def psi_curvature(self, y: Tensor, a: Tensor) -> Tensor:
        return self.loss.psi_curvature(y, a / self._divisor) / self._divisor

    def psi_bend(self, y: Tensor, a: Tensor, d: Tensor) -> Tensor:
        return self.c * self.loss.psi_bend(y, a / self._divisor, d / self._divisor)

    def psi_start(self, y: Tensor, a: Tensor, toward: Tensor) -> Tensor:
        return self.c * self.loss.psi_start(y, a / self._divisor, toward)

    def best(self, y: Tensor, f: Tensor) -> Tensor | None:
        found = self.loss.best(y, f)
        return None if found is None else self.c * found

    def ends(self, y: Tensor) -> tuple[Bound, Bound]:
        low, high = self.loss.ends(y)
        return _times(self.c, low), _times(self.c, high)

    def check_targets(self, y: Tensor) -> None:
        self.loss.check_targets(y)


def _times(c: Bound, bound: Bound) -> Bound:
    return torch.where(c > 0, c * bound, 0.0) if isinstance(c, Tensor) else c * bound


@dataclass(frozen=True)
class InfimalConvolution(Loss):
    """The infimal convolution of losses, whose dual is the sum of their duals.

    It is ``inf over u1 + u2 + ... = u of l1(u1) + l2(u2) + ...``. The absolute loss convolved with a tube is the
    epsilon-insensitive loss; the squared loss with a multiple of the absolute one is the Huber loss.

    Parameters
    ----------
    parts : tuple of Loss
        The losses, all of the residual or all of the margin.

    Examples
    --------
    >>> import torch
    >>> from joker.losses import Absolute, Huber, InfimalConvolution, Scaled, Squared
    >>> huber = InfimalConvolution((Squared(), Scaled(Absolute(), 0.7)))
    >>> u = torch.linspace(-3, 3, 7, dtype=torch.float64)
    >>> torch.allclose(huber.primal(u), Huber(delta=0.7).primal(u))
    True
    """

    parts: tuple[Loss, ...]

    def __post_init__(self) -> None:
        losses = isinstance(self.parts, tuple | list) and all(isinstance(part, Loss) for part in self.parts)
        frames = {part.frame for part in self.parts} if losses else set()
        if len(frames) != 1 or not frames <= {RESIDUAL, MARGIN}:
            raise InvalidParameter(
                f"parts must be a tuple of one or more losses of one task; got {self.parts!r}. Combine losses of "
                "the residual with one another, or losses of the margin, such as (Absolute(), Tube(0.1))."
            )

    frame = property(lambda self: self.parts[0].frame)
    quadratic = property(lambda self: all(part.quadratic for part in self.parts))
    barrier = property(lambda self: any(part.barrier for part in self.parts))
    kink = property(lambda self: sum(part.kink for part in self.parts))
    lower = property(lambda self: reduce(_larger, (part.lower for part in self.parts)))
    upper = property(lambda self: -reduce(_larger, (-part.upper for part in self.parts)))

    def dual(self, a: Tensor) -> Tensor:
        return self._sum(lambda part: part.dual(a))

    def slope(self, a: Tensor) -> Tensor:
        return self._sum(lambda part: part.slope(a))

    def curvature(self, a: Tensor) -> Tensor:
        return self._sum(lambda part: part.curvature(a))

    def bend(self, a: Tensor, d: Tensor) -> Tensor:
        return self._sum(lambda part: part.bend(a, d))

    def start(self, a: Tensor, toward: Tensor) -> Tensor:
        return reduce(lambda point, part: part.start(point, toward), self.parts, a)

    def _sum(self, term: Callable[[Loss], Tensor]) -> Tensor:
        return torch.stack([term(part) for part in self.parts]).sum(0)


def _larger(a: Bound, b: Bound) -> Bound:
    if isinstance(a, Tensor):
        return a.clamp(min=b)  # keeps all digits of a number b; a tensor made from b would be float32
    return b.clamp(min=a) if isinstance(b, Tensor) else max(a, b)


def scaled(loss: Loss, c: Bound) -> Scaled:
    """Return ``c`` times a loss.

    Parameters
    ----------
    loss : Loss
        The loss.
    c : float or Tensor
        The factor.

    Returns
    -------
    Scaled
        The product.

    Examples
    --------
    >>> from joker.losses import Hinge, scaled
    >>> scaled(Hinge(), 2.0).c
    2.0
    """
    return loss.scaled(c)
