"""Mean, deviation and range of each input, gathered in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Moments:
    """What is known of each input after some rows, in float64.

    Runs of rows are merged by the update of Chan, Golub and LeVeque (1983), which does not lose the small
    deviation of a large mean.
    """

    weight: float  # of all rows: their number where they have no weights
    mean: Tensor  # (d,)
    squares: Tensor  # (d,), weighted, around the mean
    low: Tensor  # (d,)
    high: Tensor  # (d,)

    @classmethod
    def none(cls, d: int) -> Moments:
        """Return what is known of no rows."""
        zeros = torch.zeros(d, dtype=torch.float64)
        return cls(0.0, zeros, zeros, zeros + torch.inf, zeros - torch.inf)

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        if not weight:
            return self
        share, shift = other.weight / weight, other.mean - self.mean
        return Moments(
            weight,
            self.mean + share * shift,
            self.squares + other.squares + self.weight * share * shift.square(),
            torch.minimum(self.low, other.low),
            torch.maximum(self.high, other.high),
        )

    @property
    def deviation(self) -> Tensor:  # (d,)
        """The standard deviation, of the population; exactly 0 for an input that does not vary."""
        spread = (self.squares / max(self.weight, 1e-300)).sqrt()
        return torch.where(self.low < self.high, spread, 0.0)


def moments(
    x: Tensor,  # (k, d)
    w: Tensor | None = None,  # (k,)
) -> Moments:
    """Return the moments of some rows; a row of weight 2 counts as the row twice, one of weight 0 as none."""
    if w is not None:
        x, w = x[w > 0], w[w > 0].double().to(x.device)
    if not len(x):
        return Moments.none(x.shape[1])
    low, high = (bound.double().cpu() for bound in torch.aminmax(x, dim=0))
    x = x.double()
    weight = float(len(x)) if w is None else float(w.sum())
    mean = x.mean(0) if w is None else w @ x / weight
    spread = (x - mean).square_()
    return Moments(weight, mean.cpu(), (spread.sum(0) if w is None else w @ spread).cpu(), low, high)


def gather(parts: Iterable[Moments], d: int) -> Moments:
    """Return the moments of all parts together."""
    return sum(parts, Moments.none(d))
