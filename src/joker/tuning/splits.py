"""The rows that a candidate is trained on, and the rows it is scored on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FIVE_FOLDS_BELOW = 500  # rows: with fewer, scores are averaged over five folds
THREE_FOLDS_BELOW = 2_000  # rows: with fewer, scores are averaged over three folds
HELD_OUT_ONE_IN = 5  # without folds, one row in five is held out
MAX_HELD_OUT = 5_000  # rows: the standard error of an accuracy is then at most 0.7 percentage points


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to train on, ordered so that the first k of them are a random sample for every k, and rows to score on."""

    train: NDArray[np.intp]
    held: NDArray[np.intp]


def make_splits(
    rows: NDArray[np.intp],
    codes: NDArray[np.intp],  # (n,) of all rows: rows of one code are spread evenly
    random: np.random.RandomState,
) -> list[Split]:
    """Split ``rows``: once if they are many, in folds if a score on few held-out rows would be too noisy."""
    n = len(rows)
    folds = 5 if n < FIVE_FOLDS_BELOW else 3 if n < THREE_FOLDS_BELOW else 1
    parts = folds if folds > 1 else max(HELD_OUT_ONE_IN, -(-n // MAX_HELD_OUT))
    by_code = rows[np.lexsort((random.permutation(n), codes[rows]))]
    part = np.arange(n) % parts
    return [Split(_order(by_code[part != k], codes, random), by_code[part == k]) for k in range(folds)]


def _order(train: NDArray[np.intp], codes: NDArray[np.intp], random: np.random.RandomState) -> NDArray[np.intp]:
    """Shuffle, and put one row of each code first, so that the smallest sample has every class."""
    train = random.permutation(train)
    _, first = np.unique(codes[train], return_index=True)
    return np.concatenate([train[first], np.delete(train, first)])
