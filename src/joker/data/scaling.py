"""Inputs as z-scores: centred and divided by their deviation as rows are handed out, without a second copy."""

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
    """The mean and the deviation of each input over the training rows, in float64."""

    mean: Tensor  # (d,)
    deviation: Tensor  # (d,), 0 where the input does not vary

    @property
    def moves(self) -> bool:
        """Whether inputs are moved, so that what was 0 no longer is."""
        return bool(self.mean.any())

    def factor(self, dtype: torch.dtype) -> Tensor:  # (d,)
        """What inputs are multiplied by: one over the deviation, 0 for an input that does not vary."""
        deviation = self.deviation.to(dtype)
        return torch.where(deviation >= torch.finfo(dtype).tiny, 1 / deviation, 0.0)

    @classmethod
    def of(cls, found: Moments) -> Scaling:
        """Return the figures of moments, if they are finite."""
        bad = (~(found.mean.isfinite() & found.deviation.isfinite())).nonzero()
        if len(bad):
            raise InvalidData(
                f"standardize needs inputs whose squares are finite numbers; those of column {int(bad[0])} reach "
                f"{float(found.high[bad[0]]):g}. Divide such inputs by a large number first."
            )
        return cls(found.mean, found.deviation)


def scaling_of(
    x: Rows,  # (n, d)
    w: Tensor | None = None,  # (n,)
) -> Scaling:
    """Return the figures of some rows, in one pass over them; a row of weight 2 counts as the row twice."""
    parts = (moments(x[rows], None if w is None else w[rows]) for rows in chunks(*x.shape))
    return Scaling.of(gather(parts, x.shape[1]))


@dataclass(frozen=True, eq=False)
class ScaledRows(Rows):
    """Rows with each input as its z-score, (x − mean) / deviation; 0 for an input that does not vary.

    They are scaled in the type in which the rows below are handed out, and then cast.
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

    def take(
        self,
        rows: Tensor,  # (b,)
    ) -> Tensor:  # (b, d)
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
    """Return rows as z-scores by these figures, in ``dtype``."""
    return ScaledRows(x, scaling.mean.to(x.device, x.dtype), scaling.factor(x.dtype).to(x.device), dtype)
