"""z-scores of inputs, computed as rows are read, without a second copy of the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from joker.data.rows import Rows, RowsOfOthers
from joker.errors import InvalidData
from joker.runtime import chunks


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


@dataclass(frozen=True, eq=False)
class Scaling:
    """The mean and the standard deviation of each input over the training rows, in float64.

    Parameters
    ----------
    mean : Tensor of shape (d,)
        What inputs are shifted by.
    deviation : Tensor of shape (d,)
        What inputs are divided by; 0 for a constant input.

    Examples
    --------
    >>> import torch
    >>> from joker.data import as_rows, scaling_of
    >>> scaling_of(as_rows(torch.tensor([[1.0], [3.0]]))).mean
    tensor([2.], dtype=torch.float64)
    """

    mean: Tensor  # (d,)
    deviation: Tensor  # (d,), 0 for a constant input

    @property
    def moves(self) -> bool:
        """Whether a mean is not 0, so that scaled rows are not sparse."""
        return bool(self.mean.any())

    def factor(self, dtype: torch.dtype) -> Tensor:  # (d,)
        """Return the factors of the inputs: 1 / deviation, and 0 for a constant input."""
        deviation = self.deviation.to(dtype)
        return torch.where(deviation >= torch.finfo(dtype).tiny, 1 / deviation, 0.0)

    @classmethod
    def of(cls, statistics: Moments) -> Scaling:
        """Return the scaling from moments; raise InvalidData if a mean or deviation is not finite."""
        bad = (~(statistics.mean.isfinite() & statistics.deviation.isfinite())).nonzero()
        if len(bad):
            raise InvalidData(
                f"standardize needs inputs whose squares are finite numbers; those of column {int(bad[0])} reach "
                f"{float(statistics.high[bad[0]]):g}. Divide such inputs by a large number first."
            )
        return cls(statistics.mean, statistics.deviation)


def scaling_of(x: Rows, w: Tensor | None = None) -> Scaling:  # (n, d), (n,)
    """Return the scaling of some rows, in one pass over them; a row of weight 2 counts twice.

    Parameters
    ----------
    x : Rows
        The rows.
    w : Tensor of shape (n,), optional
        The weights of the rows.

    Returns
    -------
    Scaling
        The mean and the deviation of each input.

    Examples
    --------
    >>> import torch
    >>> from joker.data import as_rows, scaling_of
    >>> scaling_of(as_rows(torch.tensor([[1.0], [3.0]]))).mean
    tensor([2.], dtype=torch.float64)
    """
    parts = (moments(x[rows], None if w is None else w[rows]) for rows in chunks(*x.shape))
    return Scaling.of(gather(parts, x.shape[1]))


@dataclass(frozen=True, eq=False)
class ScaledRows(RowsOfOthers):
    """Rows with z-scores as inputs, (x − mean) / deviation; 0 for a constant input.

    They are scaled in the type of the underlying rows and then converted.

    Parameters
    ----------
    whole : Rows
        The rows as they are.
    mean : Tensor of shape (d,)
        What inputs are shifted by.
    factor : Tensor of shape (d,)
        What inputs are multiplied by.
    floating : torch.dtype
        The type in which rows are read.

    Examples
    --------
    >>> import torch
    >>> from joker.data import as_rows, scaled, scaling_of
    >>> rows = as_rows(torch.tensor([[1.0], [3.0]]))
    >>> scaled(rows, scaling_of(rows), torch.float32)[0:2].tolist()
    [[-1.0], [1.0]]
    """

    mean: Tensor  # (d,)
    factor: Tensor  # (d,)
    floating: torch.dtype

    @property
    def shape(self) -> tuple[int, int]:
        return self.whole.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.floating

    @property
    def row_bytes(self) -> int:
        cast = 0 if self.whole.dtype == self.floating else self.floating.itemsize
        return self.whole.row_bytes + self.shape[1] * (self.whole.dtype.itemsize + cast)

    @property
    def shuffled(self) -> bool:
        return self.whole.shuffled

    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        return self._scale(self.whole.take(rows))

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        return self._scale(self.whole.tile(rows))

    def expect(self, rows: slice) -> None:
        self.whole.expect(rows)

    def check(self, what: str) -> None:
        self.whole.check(what)

    def _scale(self, x: Tensor) -> Tensor:
        return (x - self.mean).mul_(self.factor).to(self.floating)


def scaled(x: Rows, scaling: Scaling, dtype: torch.dtype) -> ScaledRows:
    """Return rows as z-scores with this mean and deviation, in ``dtype``.

    Parameters
    ----------
    x : Rows
        The rows.
    scaling : Scaling
        The mean and the deviation.
    dtype : torch.dtype
        The type in which rows are read.

    Returns
    -------
    ScaledRows
        The rows as z-scores.

    Examples
    --------
    >>> import torch
    >>> from joker.data import as_rows, scaled, scaling_of
    >>> rows = as_rows(torch.tensor([[1.0], [3.0]]))
    >>> scaled(rows, scaling_of(rows), torch.float32)[0:2].tolist()
    [[-1.0], [1.0]]
    """
    return ScaledRows(x, scaling.mean.to(x.device, x.dtype), scaling.factor(x.dtype).to(x.device), dtype)
