"""Rows that are held out to weight the members of an ensemble, to calibrate it and to measure its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MANY_ROWS = 6_000  # with more rows, one part is held out instead of folds
FOLDS = 5
HELD_OUT_ONE_IN = 5
MAX_HELD_OUT = 10_000


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to train on, and rows that are held out."""

    train: Array
    held: Array


def make_folds(codes: Array, seed: int) -> list[Fold]:
    """Return five folds of few rows, or one split of many; rows of one code are spread evenly."""
    n = len(codes)
    order = np.lexsort((np.random.RandomState(seed).permutation(n), codes))
    count = FOLDS if n <= MANY_ROWS else max(HELD_OUT_ONE_IN, -(-n // MAX_HELD_OUT))
    part = np.empty(n, dtype=np.intp)
    part[order] = np.arange(n) % count
    used = count if n <= MANY_ROWS else 1
    return [Fold(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(used)]


def strata(y: Array, classes: int) -> Array:
    """Return codes of rows that folds spread evenly: classes, or tenths of the range of numbers."""
    if classes:
        return y.astype(np.intp)
    ranks = np.argsort(np.argsort(y, kind="stable"), kind="stable")
    tenths: Array = ranks * 10 // max(len(y), 1)
    return tenths
