"""Rows from columns; a category becomes one 0/1 column for each of its levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Column, Schema, listed
from joker.errors import InvalidData

MAX_LEVELS = 1000


def assemble(schema: Schema, columns: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:  # (k, width)
    """Return the rows of these columns, (k,) each: numbers, or the level numbers of a category."""
    x = np.zeros((len(columns[0]), schema.width), dtype)
    place = 0
    for column, values in zip(schema.inputs, columns, strict=True):
        if column.levels is None:
            x[:, place] = values
        else:
            x[np.arange(len(values)), place + values] = 1
        place += len(column.names)
    return x


def refuse_level(source: str, column: Column, value: object, row: int) -> NoReturn:
    """Raise InvalidData for a level that the training data do not have."""
    raise InvalidData(
        f"{source}: column {column.name!r} must have the levels of the training data, {listed(column.levels or ())}; "
        f"found {value!r} at row {row}. Leave such rows out, or train with that level."
    )


class Levels:
    """The levels of a category, collected batch by batch."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source
        self._levels: set[str] = set()

    def add(self, levels: Iterable[str]) -> None:
        """Add the levels of more rows."""
        self._levels.update(levels)
        if len(self._levels) > MAX_LEVELS:
            raise InvalidData(
                f"{self.source}: a category may have at most {MAX_LEVELS} levels; column {self.name!r} has more. "
                "Leave it out with columns=, or turn it into numbers."
            )

    @property
    def column(self) -> Column:
        """The column, its levels in alphabetical order."""
        return Column(self.name, tuple(sorted(self._levels)))
