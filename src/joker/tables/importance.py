"""The importance of each column: the increase of the loss on held-out rows when the column is shuffled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.tables.frames import RawTable

Array = NDArray[Any]
MAX_ROWS = 400
SHUFFLES = 2


def column_importances(
    table: RawTable,
    used: list[str],  # the columns that are not left out
    losses: Callable[[RawTable], Array],
    seed: int,
    out_of_time: Callable[[], bool],
) -> Array | None:  # (columns that are used,)
    """Return the share of each column in the sum of all increases; None if time is up before all are known."""
    random = np.random.RandomState(seed)
    before = float(losses(table).mean())
    increases = np.zeros(len(used))
    for j, name in enumerate(used):
        if out_of_time():
            return None
        for _ in range(SHUFFLES):
            order = random.permutation(table.rows)
            shuffled = [column.some(order) if column.name == name else column for column in table.columns]
            increases[j] += max(0.0, float(losses(replace(table, columns=tuple(shuffled))).mean()) - before)
    total = increases.sum()
    return increases / total if total > 0 else increases
