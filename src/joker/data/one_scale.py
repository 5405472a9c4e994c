"""Whether inputs are already on one scale, so that every one of them counts in the distance between two rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data.array_rows import RowSubset, is_sparse
from joker.data.moments import Moments, gather, moments
from joker.data.store import StoreRows
from joker.runtime import chunks

# The constants separate the sets of benchmarks/standardize.py on which z-scores help from those on which they do harm.
MAX_DEVIATION_RATIO = 3.0  # largest deviation over the smallest one
MIN_RANGE = 0.5  # share of the largest range that the range of an input has, where inputs have a common range
MIN_INPUTS = 0.9  # share of inputs that have it: some pixels of images are almost always 0
SAMPLE_ROWS = 65_536  # the decision is made on at most so many rows


def on_one_scale(x: Any, w: NDArray[np.float64] | None) -> bool:  # (n, d), (n,)
    """Whether checked rows are sparse, or their inputs have about the same deviation or about the same range.

    Constant inputs, and rows of weight 0, do not count. Of many rows, an evenly spaced sample decides; rows of a store
    are in random order, and its first ones decide.
    """
    return is_sparse(x) or _one_scale(_moments(x, w))


def _one_scale(found: Moments) -> bool:
    varies = found.low < found.high
    deviation, span = found.deviation[varies], (found.high - found.low)[varies]
    if len(span) < 2:
        return True
    same_range = (span >= MIN_RANGE * span.max()).double().mean() >= MIN_INPUTS
    return bool(same_range or deviation.max() <= MAX_DEVIATION_RATIO * deviation.min())


def _moments(x: Any, w: NDArray[np.float64] | None) -> Moments:
    n, d = x.shape
    rows = np.arange(min(n, SAMPLE_ROWS))
    if not isinstance(x, StoreRows):
        rows = rows * n // len(rows)
    return gather((_moments_of(x, w, rows[few]) for few in chunks(len(rows), d)), d)


def _moments_of(x: Any, w: NDArray[np.float64] | None, rows: NDArray[np.intp]) -> Moments:
    some = x.array(rows) if isinstance(x, RowSubset | StoreRows) else x[rows]
    return moments(torch.from_numpy(some.astype(np.float64)), None if w is None else torch.from_numpy(w[rows]))
