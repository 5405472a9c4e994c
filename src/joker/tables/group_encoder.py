"""A whole number that names a group of rows, such as the number of a person or a day, as inputs of a kernel.

A smooth function of such a number cannot tell one group from the next. Each group has a code: a random direction, so
that two rows of different groups have about the distance of two z-scores, and two rows of one group have none. The
kernel then learns from the rows of the same group. Codes do not depend on targets, so that held-out rows stay held out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.tables.encoders import NumberEncoder, fit_number
from joker.tables.frames import RawColumn

Array = NDArray[Any]
CODE_INPUTS = 16  # of a code: the squared distance of two groups is then 2, with a deviation of 1/2
CODE_SEED = 0  # the draws of RandomState are the same in every version of NumPy, so that no file has to hold codes


@dataclass(frozen=True, eq=False)
class GroupEncoder:
    """A number as `NumberEncoder` encodes it, and the code of its group; missing and unknown groups have the code 0.

    The code 0 has the same distance to all groups: the prediction is that of a group like all others.
    """

    number: NumberEncoder
    groups: tuple[float, ...]  # the values of the training rows, sorted
    size: float = 1.0  # of the codes

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.number.name

    @property
    def encoding(self) -> str:
        return f"{self.number.encoding} and group codes"

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.number.names, *(f"{self.name} code {j}" for j in range(CODE_INPUTS)))

    def transform(self, column: RawColumn) -> Array:
        return np.hstack([self.number.transform(column), self.codes(column.values)])

    def codes(self, values: Array) -> Array:  # (n,) -> (n, CODE_INPUTS)
        """Return the code of each value."""
        groups = np.asarray(self.groups)
        places = np.minimum(np.searchsorted(groups, values), len(groups) - 1)
        codes: Array = np.where((groups[places] == values)[:, None], self.size * self._table[places], 0.0)
        return codes

    @cached_property
    def _table(self) -> Array:  # (groups, CODE_INPUTS), rows of length 1
        table = np.random.RandomState(CODE_SEED).standard_normal((len(self.groups), CODE_INPUTS))
        directions: Array = table / np.linalg.norm(table, axis=1, keepdims=True)
        return directions


def fit_group(column: RawColumn, method: str, size: float = 1.0) -> GroupEncoder:
    """Learn the scaling and the groups of a column of whole numbers."""
    values = column.values.astype(np.float64)
    return GroupEncoder(fit_number(column, method), tuple(np.unique(values[~np.isnan(values)]).tolist()), size)
