"""Which rows a setting is tried on, and which it is scored on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEW, SOME = 500, 2_000  # rows below which scores of five folds, and of three, are averaged
FOLDS_OF_FEW, FOLDS_OF_SOME = 5, 3
SHARE = 5  # else one row in five is held out,
MOST_HELD = 5_000  # but not more: an accuracy then has a standard error of 0.7 points at most


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to train on, in an order of which any beginning is a random sample, and rows to score on."""

    train: NDArray[np.intp]
    held: NDArray[np.intp]


def make_splits(
    rows: NDArray[np.intp],
    codes: NDArray[np.intp],  # (n,) of all rows: those of one code are spread evenly
    random: np.random.RandomState,
) -> list[Split]:
    """Split ``rows``: once where there are many, in folds where the few held out would decide by chance."""
    n = len(rows)
    folds = FOLDS_OF_FEW if n < FEW else FOLDS_OF_SOME if n < SOME else 1
    every = folds if folds > 1 else max(SHARE, -(-n // MOST_HELD))
    dealt = rows[np.lexsort((random.permutation(n), codes[rows]))]
    place = np.arange(n) % every
    return [Split(_order(dealt[place != k], codes, random), dealt[place == k]) for k in range(folds)]


def _order(train: NDArray[np.intp], codes: NDArray[np.intp], random: np.random.RandomState) -> NDArray[np.intp]:
    """Shuffle, and put one row of each code first, so that the smallest sample has every class."""
    train = random.permutation(train)
    _, first = np.unique(codes[train], return_index=True)
    return np.concatenate([train[first], np.delete(train, first)])
