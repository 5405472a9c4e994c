"""Mean, standard deviation and range of each input, computed in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Moments:
    """Statistics of each input over some rows, in float64.

    Two sets of rows are merged by the update of Chan, Golub and LeVeque (1983), which is accurate also if the mean is
    much larger than the standard deviation.

    Parameters
    ----------
    weight : float
        The sum of the weights of the rows.
    mean : Tensor of shape (d,)
        The means.
    squares : Tensor of shape (d,)
        The sums of squared differences from the means.
    low, high : Tensor of shape (d,)
        The smallest and the largest values.

    Examples
    --------
    >>> import torch
    >>> from joker.data import moments
    >>> found = moments(torch.tensor([[1.0], [3.0]], dtype=torch.float64))
    >>> found.mean, found.deviation
    (tensor([2.], dtype=torch.float64), tensor([1.], dtype=torch.float64))
    """

    weight: float  # the sum of the weights; without weights the number of rows
    mean: Tensor  # (d,)
    squares: Tensor  # (d,), the weighted sum of squared differences from the mean
    low: Tensor  # (d,)
    high: Tensor  # (d,)

    @classmethod
    def none(cls, d: int) -> Moments:
        """Return the moments of no rows."""
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
        """The standard deviation of the population; exactly 0 for a constant input."""
        spread = (self.squares / max(self.weight, 1e-300)).sqrt()
        return torch.where(self.low < self.high, spread, 0.0)


def moments(x: Tensor, w: Tensor | None = None) -> Moments:  # (k, d), (k,)
    """Return the moments of some rows; a row of weight 2 counts twice, a row of weight 0 is left out.

    Parameters
    ----------
    x : Tensor of shape (n, d)
        The rows.
    w : Tensor of shape (n,), optional
        The weights of the rows.

    Returns
    -------
    Moments
        The statistics of each input.

    Examples
    --------
    >>> import torch
    >>> from joker.data import moments
    >>> found = moments(torch.tensor([[1.0], [3.0]], dtype=torch.float64))
    >>> found.mean, found.deviation
    (tensor([2.], dtype=torch.float64), tensor([1.], dtype=torch.float64))
    """
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
