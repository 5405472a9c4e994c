"""A whole number that names a group of rows, such as the number of a person or a day, as inputs of a kernel.

A smooth function of the number has the same value for neighbouring groups, which may have nothing in common. Each
group therefore has a code: a random direction, so that two rows of different groups differ like two z-scores and two
rows of one group do not differ. The kernel learns from the rows of the same group. Mean targets of groups would help as
well, but they make held-out rows of small groups appear better than new rows; codes do not depend on targets.
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
DIRECTIONS = 16  # inputs of a random direction: the squared distance of two groups is 2, with a deviation of 1/2
CODE_INPUTS = DIRECTIONS + 1  # the last one is for rows of no known group
CODE_SEED = 0  # the draws of RandomState are the same in every version of NumPy, so that no file has to hold codes


@dataclass(frozen=True, eq=False)
class GroupEncoder:
    """The code of a group, and its number where neighbouring groups are similar.

    Missing and unknown groups have a code of their own, whose squared distance to all others is 2: a row of a new group
    is as far from all groups as those are from one another, and its prediction is that of a group without rows.
    """

    name: str
    groups: tuple[float, ...]  # the values of the training rows, sorted
    size: float = 1.0  # of the codes
    number: NumberEncoder | None = None

    @property
    def encoding(self) -> str:
        return f"{self.number.encoding} and group codes" if self.number else "group codes"

    @property
    def names(self) -> tuple[str, ...]:
        codes = (f"{self.name} code {j}" for j in range(CODE_INPUTS))
        return (*(self.number.names if self.number else ()), *codes)

    def transform(self, column: RawColumn) -> Array:
        codes = self.codes(column.values)
        return np.hstack([self.number.transform(column), codes]) if self.number else codes

    def codes(self, values: Array) -> Array:  # (n,) -> (n, CODE_INPUTS)
        """Return the code of each value."""
        groups = np.asarray(self.groups)
        places = np.minimum(np.searchsorted(groups, values), len(groups) - 1)
        codes: Array = self.size * self._table[np.where(groups[places] == values, places, len(groups))]
        return codes

    @cached_property
    def _table(self) -> Array:  # (groups + 1, CODE_INPUTS), rows of length 1
        random = np.random.RandomState(CODE_SEED).standard_normal((len(self.groups), DIRECTIONS))
        table = np.zeros((len(self.groups) + 1, CODE_INPUTS))
        table[:-1, :-1] = random / np.linalg.norm(random, axis=1, keepdims=True)
        table[-1, -1] = 1.0
        return table


def fit_group(column: RawColumn, method: str, size: float = 1.0, *, with_number: bool = True) -> GroupEncoder:
    """Learn the groups of a column of whole numbers, and the scaling of its numbers."""
    values = column.values.astype(np.float64)
    groups = tuple(np.unique(values[~np.isnan(values)]).tolist())
    return GroupEncoder(column.name, groups, size, fit_number(column, method) if with_number else None)
