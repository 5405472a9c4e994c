"""Which rows are held out: random rows, whole groups, later rows, or those of a splitter of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, check_cv

from joker.errors import InvalidData, InvalidParameter
from joker.tuning.splits import FIVE_FOLDS_BELOW, THREE_FOLDS_BELOW, Split, quiet_splits, stratified_splits

Array = NDArray[Any]
FOLDS = 5  # of cross-validation
MANY_ROWS = 6_000  # with more rows, one fold is held out
RANDOM, GROUPS, TIME, GIVEN = "random rows", "groups", "later rows", "cv"
TIME_BLOCKS = 50  # of equally many rows, for the standard error of a score
LAST_SHARE = 0.2  # of the rows, that are held out if rows have a time
MIN_GROUPS_OF_SPLIT = 2
MANY_GROUPS = 1_000


@dataclass(frozen=True, eq=False)
class Validation:
    """How rows are held out."""

    kind: str = RANDOM  # RANDOM, GROUPS, TIME or GIVEN
    column: str | None = None  # the name of the column of groups or times, if it is one of the table
    groups: Array | None = None  # (n,), codes
    times: Array | None = None  # (n,), numbers; later rows have larger ones
    given: Sequence[Split] = ()  # of a splitter

    def __str__(self) -> str:
        of = f" of {self.column!r}" if self.column else ""
        by = f" by {self.column!r}" if self.column else ""
        return {RANDOM: "random rows", GROUPS: f"whole groups{of}", TIME: f"later rows{by}"}.get(self.kind, "cv")

    @property
    def of_encodings(self) -> bool:
        """Whether an encoding is fitted again for each fold: nothing of the targets of held-out rows is then in it."""
        return self.kind != RANDOM

    def blocks(self) -> Array | None:  # (n,)
        """Return the numbers of sets of rows whose errors are alike: groups, or consecutive times."""
        if self.kind != TIME:
            return self.groups
        assert self.times is not None
        edges = np.unique(np.quantile(self.times, np.linspace(0, 1, TIME_BLOCKS + 1)[1:-1]))
        return np.searchsorted(edges, self.times, side="right")

    def count_of_folds(self, n: int) -> int | None:
        """Return the number of folds; None: that of the plan."""
        if self.kind == GIVEN:
            return len(self.given)
        if self.kind == TIME:
            return 1
        if self.kind == GROUPS:
            assert self.groups is not None
            return 1 if n > MANY_ROWS else min(FOLDS, len(np.unique(self.groups)))
        return None

    def folds(self, codes: Array, count: int, parts: int, seed: int) -> list[Split]:  # (n,)
        """Return the folds whose held-out rows judge models; at random, ``count`` of so many ``parts``."""
        if self.kind == GIVEN:
            return list(self.given)
        if self.kind == TIME:
            return [self._later(np.arange(len(codes)))]
        if self.kind == GROUPS:
            return self._of_groups(np.arange(len(codes)), codes, count, seed)
        return stratified_splits(codes, parts, count, seed) if count else []

    def search_splits(self, rows: Array, codes: Array, seed: int) -> list[Split] | None:
        """Return splits of some rows for the trials of a search, as places among them; None: at random."""
        if self.kind == RANDOM:
            return None
        random = np.random.RandomState(seed)
        if self.kind == TIME:
            assert self.times is not None
            # Of two times, the later one is held out before, and the other one cannot be divided.
            splits = [self._later(rows)] if np.ptp(self.times[rows]) else []
        elif self.kind == GROUPS:
            count = 5 if len(rows) < FIVE_FOLDS_BELOW else 3 if len(rows) < THREE_FOLDS_BELOW else 1
            splits = self._of_groups(rows, codes, count, seed + 1)
        else:
            both = [Split(np.intersect1d(s.train, rows), np.intersect1d(s.held, rows)) for s in self.given]
            splits = [s for s in both if len(s.train) and len(s.held)]
        return [
            Split(
                random.permutation(np.searchsorted(rows, s.train)),
                np.searchsorted(rows, s.held[np.argsort(codes[s.held], kind="stable")]),
            )
            for s in splits
        ] or None

    def _later(self, rows: Array) -> Split:
        assert self.times is not None
        times = self.times[rows]
        cut = np.sort(times)[-max(1, round(LAST_SHARE * len(rows)))]
        late = times >= cut if (times < cut).any() else times > cut
        if not late.any() or late.all():
            raise InvalidData("the column of times must have at least two values; got one. Leave time out.")
        return Split(rows[~late], rows[late])

    def _of_groups(self, rows: Array, codes: Array, count: int, seed: int) -> list[Split]:
        assert self.groups is not None
        groups = self.groups[rows]
        distinct, of_row = np.unique(groups, return_inverse=True)
        parts = min(FOLDS, len(distinct))
        if len(distinct) > MANY_GROUPS:  # so many are in equal shares without stratification, which takes long
            part = (np.random.RandomState(seed).permutation(len(distinct)) % parts)[of_row.ravel()]
            return [Split(rows[part != k], rows[part == k]) for k in range(max(1, count))]
        splitter = StratifiedGroupKFold(max(MIN_GROUPS_OF_SPLIT, parts), shuffle=True, random_state=seed)
        with quiet_splits():
            found = list(splitter.split(rows, codes[rows], groups))
        return [Split(rows[train], rows[held]) for train, held in found[: max(1, count)] if len(train) and len(held)]


def make_validation(
    y: Array, classes: int, cv: Any = None, groups: Any = None, time: Any = None, names: tuple[Any, Any] = (None, None)
) -> Validation:
    """Return how rows are held out, after checking what the user asks for.

    ``groups`` and ``time`` are arrays, and ``names`` those of their columns, if they are columns of a table.
    """
    n = len(y)
    if time is not None:
        if groups is not None or cv is not None:
            raise InvalidParameter(
                "time holds out later rows, and cannot be combined with groups or cv. Give one of the three, or a "
                "splitter of your own as cv."
            )
        return Validation(TIME, names[1], times=_as_times(_of_rows(time, n, "time"), names[1]))
    codes = None
    if groups is not None:
        codes = np.unique(_as_text(_of_rows(groups, n, "groups")), return_inverse=True)[1].ravel()
        if codes.max(initial=0) + 1 < MIN_GROUPS_OF_SPLIT:
            raise InvalidData("groups must have at least two values, so that some can be held out; got one. Check it.")
    if cv is None:
        return Validation() if codes is None else Validation(GROUPS, names[0], codes)
    return Validation(GIVEN, names[0], codes, given=_given_splits(cv, y, classes, codes))


def _of_rows(given: Any, n: int, what: str) -> Array:
    values = np.asarray(given)
    if values.shape != (n,):
        raise InvalidParameter(
            f"{what} must have one value for each of the {n:,} rows; got {given!r:.60}, of shape {values.shape}. Give "
            "an array of that length, or to the estimators of tables the name of a column."
        )
    return values


def _given_splits(cv: Any, y: Array, classes: int, groups: Array | None) -> list[Split]:
    try:
        splitter = check_cv(cv, y, classifier=classes > 0)
        with quiet_splits():
            found = [Split(np.asarray(a), np.asarray(b)) for a, b in splitter.split(np.zeros((len(y), 1)), y, groups)]
    except (TypeError, ValueError) as error:
        raise InvalidParameter(
            f"cv must be a number of folds, a splitter of scikit-learn or pairs of row numbers; got {cv!r}, which "
            f"says: {error}. Use for example cv=5, or GroupKFold() with groups."
        ) from error
    if not found:
        raise InvalidParameter(f"cv must give at least one split; got {cv!r}. Use for example cv=5.")
    for split in found:
        _check_split(split, len(y))
    if classes and any(len(np.unique(y[s.train])) < 2 for s in found):
        raise InvalidParameter("each split of cv must have training rows of two classes. Use another splitter.")
    return found


def _check_split(split: Split, n: int) -> None:
    """Refuse a split that numpy would read as another one, or that would fail far from its cause."""
    for rows, what in ((split.train, "training"), (split.held, "held-out")):
        whole = rows.ndim == 1 and len(rows) > 0 and rows.dtype.kind in "iu"
        if not whole or rows.min() < 0 or rows.max() >= n:
            raise InvalidParameter(
                f"the {what} rows of each split of cv must be numbers from 0 to {n - 1:,}, at least one; got "
                f"{rows.tolist()!r:.60}. Of a mask, use np.flatnonzero(mask)."
            )
    if common := np.intersect1d(split.train, split.held).tolist():
        raise InvalidParameter(
            f"no row of a split of cv may be both a training row and a held-out row; row {common[0]} is. Leave it out "
            "of one of them."
        )


def _as_text(values: Array) -> Array:
    return np.array([str(value) for value in values.tolist()], dtype=str)


def _as_times(values: Array, column: str | None) -> Array:
    if values.dtype.kind == "M":
        missing, numbers = np.isnat(values), values.astype("datetime64[us]").astype(np.int64).astype(float)
    else:
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidData(
                f"time must be a column of dates or numbers; {column or 'the array'!r} has text. Convert it first."
            ) from error
        missing = np.isnan(numbers)
    if missing.any():
        raise InvalidData(f"time must have a value in every row; {missing.sum():,} are missing. Leave these rows out.")
    return np.asarray(numbers)
