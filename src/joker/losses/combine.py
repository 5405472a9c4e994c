"""Losses built from other losses: a multiple, and an infimal convolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import inf
from numbers import Real
from operator import attrgetter

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.losses.base import Bound, Frame, Loss


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

    @property
    def lower(self) -> Bound:
        return _times(self.c, self.loss.lower)

    @property
    def upper(self) -> Bound:
        return _times(self.c, self.loss.upper)

    @property
    def unscaled(self) -> tuple[Loss, Bound]:
        return self.loss, self.c

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
        if not losses or len({part.frame.task for part in self.parts}) != 1:
            raise InvalidParameter(
                f"parts must be a tuple of one or more losses of one task; got {self.parts!r}. Combine losses of "
                "the residual with one another, or losses of the margin, such as (Absolute(), Tube(0.1))."
            )

    @property
    def frame(self) -> Frame:  # type: ignore[override]
        """The frame of the parts."""
        return self.parts[0].frame

    @property
    def quadratic(self) -> bool:  # type: ignore[override]
        """Whether every part is quadratic."""
        return all(part.quadratic for part in self.parts)

    @property
    def barrier(self) -> bool:  # type: ignore[override]
        """Whether any part has a barrier."""
        return any(part.barrier for part in self.parts)

    @property
    def lower(self) -> Bound:
        return reduce(_larger, (part.lower for part in self.parts))

    @property
    def upper(self) -> Bound:
        return reduce(_smaller, (part.upper for part in self.parts))

    @property
    def kink(self) -> float:
        return sum(part.kink for part in self.parts)

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


def _smaller(a: Bound, b: Bound) -> Bound:
    return -_larger(-a, -b)
