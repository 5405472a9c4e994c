"""Rows that are held out to weight the members of an ensemble, to calibrate it and to measure its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MANY_ROWS = 6_000  # with more rows, one part is held out instead of folds
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to train on, and rows that are held out."""

    train: Array
    held: Array


def make_folds(codes: Array, seed: int) -> list[Fold]:
    """Return five folds of few rows, or the first of them of many; rows of one code are spread evenly."""
    part = _parts(codes, FOLDS, seed)
    used = FOLDS if len(codes) <= MANY_ROWS else 1
    return [Fold(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(used)]


def hold_out(codes: Array, count: int, seed: int) -> Fold:
    """Hold out about ``count`` rows; rows of one code are spread evenly."""
    part = _parts(codes, -(-len(codes) // count), seed)
    return Fold(np.flatnonzero(part), np.flatnonzero(part == 0))


def _parts(codes: Array, count: int, seed: int) -> Array:  # (n,)
    """Return a number below ``count`` for each row."""
    part = np.empty(len(codes), dtype=np.intp)
    order = np.lexsort((np.random.RandomState(seed).permutation(len(codes)), codes))
    part[order] = np.arange(len(codes)) % count
    return part


def strata(y: Array, classes: int) -> Array:
    """Return codes of rows that folds spread evenly: classes, or tenths of the range of numbers."""
    if classes:
        return y.astype(np.intp)
    ranks = np.argsort(np.argsort(y, kind="stable"), kind="stable")
    tenths: Array = ranks * 10 // max(len(y), 1)
    return tenths
