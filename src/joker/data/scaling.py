"""z-scores of inputs, computed as rows are read, without a second copy of the data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from joker.data.moments import Moments, gather, moments
from joker.data.rows import Rows
from joker.errors import InvalidData
from joker.runtime import chunks


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
    >>> from joker.data import as_rows, scaled, scaling_of
    >>> rows = as_rows(torch.tensor([[1.0], [3.0]]))
    >>> scaled(rows, scaling_of(rows), torch.float32)[0:2]
    tensor([[-1.],
            [ 1.]])
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
    >>> from joker.data import as_rows, scaled, scaling_of
    >>> rows = as_rows(torch.tensor([[1.0], [3.0]]))
    >>> scaled(rows, scaling_of(rows), torch.float32)[0:2]
    tensor([[-1.],
            [ 1.]])
    """
    parts = (moments(x[rows], None if w is None else w[rows]) for rows in chunks(*x.shape))
    return Scaling.of(gather(parts, x.shape[1]))


@dataclass(frozen=True, eq=False)
class ScaledRows(Rows):
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
    >>> scaled(rows, scaling_of(rows), torch.float32)[0:2]
    tensor([[-1.],
            [ 1.]])
    """

    whole: Rows
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
    def device(self) -> torch.device:
        return self.whole.device

    @property
    def index_device(self) -> torch.device:
        return self.whole.index_device

    @property
    def row_bytes(self) -> int:
        cast = 0 if self.whole.dtype == self.floating else self.floating.itemsize
        return self.whole.row_bytes + self.shape[1] * (self.whole.dtype.itemsize + cast)

    @property
    def shuffled(self) -> bool:
        return self.whole.shuffled

    @property
    def shared(self) -> bool:
        return self.whole.shared

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
    >>> scaled(rows, scaling_of(rows), torch.float32)[0:2]
    tensor([[-1.],
            [ 1.]])
    """
    return ScaledRows(x, scaling.mean.to(x.device, x.dtype), scaling.factor(x.dtype).to(x.device), dtype)
