"""All rows of a source in one array, with checks of its batches."""

from typing import Any

import numpy as np

from joker.data import Source


def read_whole(source: Source, rows: int = 7) -> tuple[Any, Any]:
    """Return inputs and targets; check types, shapes, sizes and the number of the first row of each batch."""
    found, count = [], 0
    for batch in source.batches(rows):
        assert batch.first == count
        assert 1 <= len(batch) <= rows
        assert batch.x.dtype == source.dtype
        assert batch.x.shape == (len(batch), source.schema.width)
        assert batch.y is None or len(batch.y) == len(batch)
        found.append(batch)
        count += len(batch)
    assert source.rows in (None, count)
    y = None if found[0].y is None else np.concatenate([batch.y for batch in found])
    return np.concatenate([batch.dense for batch in found]), y
