"""Numbers with steps: beside the number, inputs that say which quantiles of the training rows it exceeds.

The squared distance of two rows then grows with the number of quantiles between them, and not with its square, so that
a kernel can follow thresholds of a column where many rows are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.tables.encoders import NumberEncoder, fit_number
from joker.tables.table import RawColumn

Array = NDArray[Any]
AND_STEPS = " and steps"  # after the name of a scaling of numbers
STEPS = 15  # quantiles
MIN_DISTINCT = 8  # values: fewer have no need of steps
MAX_STEP_INPUTS = 512  # of all columns
SIZE = 2.0  # of all steps of a column: the squared distance of two random rows is 4/3, and that of the number is 2


@dataclass(frozen=True, eq=False)
class SteppedNumberEncoder:
    """A number, and an input for each of some quantiles: whether the number is greater."""

    name: str
    number: NumberEncoder
    edges: tuple[float, ...]
    size: float  # of an input

    @property
    def encoding(self) -> str:
        return f"{self.number.encoding} and {len(self.edges)} steps"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of inputs with a weight of their own."""
        return len(self.number.names), len(self.edges)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.number.names, *(f"{self.name} > {edge:.6g}" for edge in self.edges))

    def transform(self, column: RawColumn) -> Array:  # (n, k)
        values = column.values.astype(np.float64)
        present = np.where(np.isnan(values), self.number.fill, values)
        steps = (present[:, None] > np.asarray(self.edges)) * self.size
        return np.hstack([self.number.transform(column), steps])


def fit_stepped_number(column: RawColumn, scaling: str) -> NumberEncoder | SteppedNumberEncoder:
    """Learn the scaling of a number, and its quantiles if it has many values."""
    number = fit_number(column, scaling.removesuffix(AND_STEPS))
    values = column.values.astype(np.float64)
    present = values[~np.isnan(values)]
    if not scaling.endswith(AND_STEPS) or len(np.unique(present)) < MIN_DISTINCT:
        return number
    # The middle between two neighbouring values: rounding must not move a value over an edge.
    ordered = np.unique(present)
    quantiles = np.quantile(present, np.linspace(0, 1, STEPS + 2)[1:-1], method="lower")
    places = np.unique(np.searchsorted(ordered, quantiles))
    places = places[places < len(ordered) - 1]
    edges = tuple(((ordered[places] + ordered[places + 1]) / 2).tolist())
    return SteppedNumberEncoder(column.name, number, edges, SIZE / STEPS**0.5) if edges else number
