"""The rows that a candidate is trained on, and the rows it is scored on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FIVE_FOLDS_BELOW = 500  # rows: with fewer, scores are averaged over five folds
THREE_FOLDS_BELOW = 2_000  # rows: with fewer, scores are averaged over three folds
HELD_OUT_ONE_IN = 5  # without folds, one row in five is held out
MAX_HELD_OUT = 5_000  # rows: the standard error of an accuracy is then at most 0.7 percentage points
MIN_RARE_HELD_OUT = 50  # rows of a rare class: with fewer, scores are averaged over three folds
MAX_RARE_FIRST = 256  # rows of a rare class that every sample of the training rows has, at most


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to train on, of which the first k are a sample for every k, and rows to score on, sorted by class.

    The sample is random, but it has rows of every class, and of rare classes as many as there are, up to a limit.
    """

    train: NDArray[np.intp]
    held: NDArray[np.intp]


def make_splits(
    rows: NDArray[np.intp],
    codes: NDArray[np.intp],  # (n,) of all rows: rows of one code are spread evenly
    random: np.random.RandomState,
    rare: bool = False,
) -> list[Split]:
    """Split ``rows``: once if they are many, in folds if a score on few held-out rows would be too noisy.

    With ``rare``, all codes except the most frequent are those of rare classes: one in five of their rows is held out,
    also if only few rows of the most frequent class are.
    """
    n = len(rows)
    counts = np.bincount(codes[rows])
    fewest = counts[counts > 0].min() if rare else n
    folds = 5 if n < FIVE_FOLDS_BELOW else 3 if n < THREE_FOLDS_BELOW else 1
    if folds == 1 and fewest < HELD_OUT_ONE_IN * MIN_RARE_HELD_OUT:
        folds = 3
    parts = folds if n < THREE_FOLDS_BELOW else max(HELD_OUT_ONE_IN, -(-n // MAX_HELD_OUT))
    by_code = rows[np.lexsort((random.permutation(n), codes[rows]))]
    part = np.arange(n) % parts
    first: NDArray[np.intp] = np.empty(0, np.intp)
    if rare:
        first = np.flatnonzero(counts < counts.max())
        few = np.isin(codes[by_code], first)
        part[few] = np.arange(np.count_nonzero(few)) % (folds if folds > 1 else HELD_OUT_ONE_IN)
    return [Split(_order(by_code[part != k], codes, random, first), by_code[part == k]) for k in range(folds)]


def screening_rows(
    held: NDArray[np.intp],
    codes: NDArray[np.intp],  # (n,) of all rows
    count: int,
    rare: bool,
) -> NDArray[np.intp]:
    """Return at most ``count`` of the rows to score on, with the same shares of classes.

    With ``rare``, up to half of them are of rare classes.
    """
    if not rare or len(held) <= count:
        return _evenly(held, count)
    common = codes[held] == np.bincount(codes[held]).argmax()
    few = _evenly(held[~common], count // 2)
    return np.concatenate([few, _evenly(held[common], count - len(few))])


def _evenly(rows: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    count = min(count, len(rows))
    return rows[np.arange(count) * len(rows) // max(1, count)]


def _order(
    train: NDArray[np.intp], codes: NDArray[np.intp], random: np.random.RandomState, rare: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Shuffle, and put one row of each code first, so that the smallest sample has every class; then rare classes."""
    train = random.permutation(train)
    _, first = np.unique(codes[train], return_index=True)
    more = [np.flatnonzero(codes[train] == code)[:MAX_RARE_FIRST] for code in rare]
    first = np.concatenate([first, np.setdiff1d(np.concatenate([*more, first[:0]]), first)])
    return np.concatenate([train[first], np.delete(train, first)])
