"""Validation splits and cross-validation: the rows that a model is trained on, and the held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from joker.errors import InvalidData
from joker.runtime.warning_filters import ignoring

Array = NDArray[Any]
FIVE_FOLDS_BELOW = 500  # rows: with fewer, scores are averaged over five folds
THREE_FOLDS_BELOW = 2_000  # rows: with fewer, scores are averaged over three folds
HELD_OUT_ONE_IN = 5  # without folds, one row in five is held out
MAX_HELD_OUT = 5_000  # rows: the standard error of an accuracy is then at most 0.7 percentage points
MIN_RARE_HELD_OUT = 50  # rows of a rare class: with fewer, scores are averaged over three folds
MAX_RARE_FIRST = 256  # rows of a rare class that every sample of the training rows has, at most
STRATA = 10  # of numbers: their quantiles


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to train on, and held-out rows."""

    train: NDArray[np.intp]
    held: NDArray[np.intp]


def quiet_splits() -> AbstractContextManager[None]:
    """Leave out scikit-learn's warnings of rare and of many classes, which are no mistake here."""
    return ignoring("The least populated class", "The number of unique classes")


def stratified_splits(codes: Array, parts: int, count: int, random: Any) -> list[Split]:  # (n,)
    """Return the first ``count`` of the ``parts`` splits of stratified cross-validation.

    Where all classes have fewer rows than parts, the splits are not stratified.
    """
    if np.bincount(codes).max() < parts:
        part = check_random_state(random).permutation(len(codes)) % parts
        return [Split(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(count)]
    splitter = StratifiedKFold(parts, shuffle=True, random_state=random)
    with quiet_splits():
        return [Split(train, held) for train, held in islice(splitter.split(codes, codes), count)]


def strata(y: Array, classes: int) -> Array:  # (n,)
    """Return the codes by which splits are stratified: classes, or the tenths of the distribution of numbers."""
    if classes:
        return y.astype(np.intp)
    tenths: Array = np.empty(len(y), dtype=np.intp)
    tenths[np.argsort(y, kind="stable")] = np.arange(len(y)) * STRATA // max(len(y), 1)
    return tenths


def make_splits(
    rows: NDArray[np.intp],
    codes: NDArray[np.intp],  # (n,) of all rows
    random: np.random.RandomState,
    rare: bool = False,
) -> list[Split]:
    """Split ``rows``: once if they are many, in folds if a score on few held-out rows would be too noisy.

    The first k training rows of a split are a random sample for every k, which has rows of every class, and of rare
    classes as many as there are, up to a limit. Held-out rows are sorted by class. With ``rare``, all codes except the
    most frequent are those of rare classes: one in five of their rows is held out, also if only few rows of the most
    frequent class are.
    """
    n = len(rows)
    counts = np.bincount(codes[rows])
    fewest = counts[counts > 0].min() if rare else n
    folds = 5 if n < FIVE_FOLDS_BELOW else 3 if n < THREE_FOLDS_BELOW else 1
    if folds == 1 and fewest < HELD_OUT_ONE_IN * MIN_RARE_HELD_OUT:
        folds = 3
    parts = folds if n < THREE_FOLDS_BELOW else max(HELD_OUT_ONE_IN, -(-n // MAX_HELD_OUT))
    groups, first = [(rows, parts)], np.empty(0, np.intp)
    if rare:
        first = np.flatnonzero(counts < counts.max())
        few = np.isin(codes[rows], first)
        groups = [(rows[~few], parts), (rows[few], folds if folds > 1 else HELD_OUT_ONE_IN)]
    held = [
        [some[split.held] for split in stratified_splits(codes[some], of_group, folds, random)]
        for some, of_group in groups
    ]
    together = [np.concatenate(parts_of_fold) for parts_of_fold in zip(*held, strict=True)]
    by_class = [one[np.argsort(codes[one], kind="stable")] for one in together]
    return [Split(_order(np.setdiff1d(rows, one), codes, random, first), one) for one in by_class]


def scorable_splits(splits: Sequence[Split], codes: NDArray[np.intp]) -> list[Split]:  # (n,)
    """Return the splits that can train and score a classifier: those that hold out the only row of a class may not.

    Their training rows must have two classes, and a held-out row must be of one of these.
    """

    def can_score(split: Split) -> bool:
        known = np.unique(codes[split.train])
        return len(known) > 1 and bool(np.isin(codes[split.held], known).any())

    if found := [split for split in splits if can_score(split)]:
        return found
    raise InvalidData(
        "a search of settings must train on rows of two classes, and hold out other rows of these; no split of the "
        "rows does so. Add rows of each class, hold out other ones, or fit an estimator such as KernelSVC."
    )


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


MAX_COMMON_SHARE = 0.95  # if one class has more of the rows, a constant prediction has nearly the best accuracy


def has_rare_class(codes: NDArray[np.intp]) -> bool:  # (n,)
    """Whether nearly all rows are of one class, so that the others are rare."""
    counts = np.bincount(codes)
    return bool(np.count_nonzero(counts) > 1 and counts.max() > MAX_COMMON_SHARE * counts.sum())


def ranking_score(estimator: Any, X: Any, y: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> float:
    """Return the area under the ROC curve, for several classes the mean over one-vs-rest.

    It compares the ranks of rows, and does not depend on the share of a class. It is NaN if all rows are of one class.
    """
    f, classes = estimator.decision_function(X), estimator.classes_
    columns = {classes[1]: f} if len(classes) == 2 else dict(zip(classes, f.T, strict=True))
    areas = [
        roc_auc_score(y == label, column, sample_weight=sample_weight)
        for label, column in columns.items()
        if 0 < np.count_nonzero(y == label) < len(y)
    ]
    return float(np.mean(areas)) if areas else float("nan")
