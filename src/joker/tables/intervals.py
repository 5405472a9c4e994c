"""Prediction intervals from the residuals of held-out rows: split conformal prediction."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidData, InvalidParameter

Array = NDArray[Any]
MAX_POINTS = 2_000  # residuals that a model stores
MIN_ROWS = 20  # held-out rows


@dataclass(frozen=True, eq=False)
class Residuals:
    """Points of the distribution of truth − prediction on held-out rows."""

    rows: int
    points: Array  # sorted; their levels are equally spaced from 0 to 1

    def limits(self, coverage: float) -> tuple[float, float]:
        """Return what is added to a prediction so that the share ``coverage`` of new rows is between the two limits.

        The levels have the correction for a finite number of rows, (n + 1) / n, at both ends (Lei et al., 2018).
        """
        if not isinstance(coverage, Real) or isinstance(coverage, bool) or not 0 < coverage < 1:
            raise InvalidParameter(f"coverage must be between 0 and 1, both excluded; got {coverage!r}. Use 0.9.")
        if self.rows < MIN_ROWS:
            raise InvalidData(
                f"an interval needs at least {MIN_ROWS} held-out rows; the fit had {self.rows}. Fit on more rows."
            )
        tail = (1 - float(coverage)) / 2
        low = max(0.0, tail * (self.rows + 1) / self.rows - 1 / self.rows)
        levels = np.linspace(0, 1, len(self.points))
        return float(np.interp(low, levels, self.points)), float(np.interp(1 - low, levels, self.points))


def make_residuals(values: Array) -> Residuals:
    """Store the distribution of residuals."""
    if len(values) <= MAX_POINTS:
        return Residuals(len(values), np.sort(values))
    return Residuals(len(values), np.quantile(values, np.linspace(0, 1, MAX_POINTS)))
