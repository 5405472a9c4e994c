"""Whether the score on random held-out rows is too optimistic: it is compared with that on new groups or on later rows.

A column that names persons or days, or one that orders rows in time, is a reason to ask. Two fits with the settings of
the best member are compared: one with random rows held out, and one with whole groups or the latest rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from joker.tables.columns import DROP, GROUP, MIN_GROUP_ROWS, ColumnKind
from joker.tables.encoding import Encoding, fit_encoding, in_memory
from joker.tables.problem import TableProblem, validation_of
from joker.tables.table import BOOLEAN, DATE, NUMBER, TEXT, RawColumn
from joker.tables.targets import NumberTarget
from joker.tuning.splits import Split, strata
from joker.tuning.validation import GROUPS, RANDOM, TIME, Validation

Array = NDArray[Any]
MAX_SUSPECTS = 3
CHECKED_ROWS = 3_000
MIN_CHECKED_ROWS = 100
MIN_SUSPECT_GROUPS = 10
MIN_DROP = 0.05  # of accuracy or R²
MIN_DROP_OF_CODES = 0.25  # the same for a column whose name says nothing: numbers of equal rows may be quantities
DROP_ERRORS = 3.0  # standard errors
GROUP_NAME = re.compile(
    r"(.*[_ .-])?(id|person|subject|patient|individual|user|customer|client|household|family|school|firm|company|player"
    r"|animal|plot|site|station|session|nr|no)([_ .-]?(id|no|nr|num|number|code))?|(?-i:.*[a-z0-9]I[dD])",
    re.IGNORECASE,
)
TIME_NAME = re.compile(r"(.*[_ .-])?(date|datetime|time|timestamp|year|yr|day|month|week|quarter|trend|period|t)", re.I)


@dataclass(frozen=True)
class Optimism:
    """A score on random rows that is clearly above the one on new groups or later rows."""

    column: str
    kind: str  # GROUPS or TIME
    random_score: float
    score: float
    metric: str

    @property
    def drop(self) -> float:
        """By how much the score is lower."""
        return self.random_score - self.score

    def __str__(self) -> str:
        what = "new groups" if self.kind == GROUPS else "later rows"
        given = "groups" if self.kind == GROUPS else "time"
        reason = "names groups of rows" if self.kind == GROUPS else "orders the rows in time"
        return (
            f"column {self.column!r} {reason}: {self.metric} is {self.random_score:.2f} on random held-out rows, but "
            f"{self.score:.2f} on {what} (a fit of some rows each). If you predict {what}, pass "
            f"{given}={self.column!r}, so that settings, scores and intervals are for them."
        )


def find_optimism(
    problem: TableProblem, encoding: Encoding | None, model: Any, target: NumberTarget | None, trends: Any = None
) -> Optimism | None:
    """Return the column under which the score falls most, if it falls clearly; ``trends`` are those of the model."""
    if problem.validation.kind != RANDOM or encoding is None or len(problem.y) < MIN_CHECKED_ROWS:
        return None
    found: list[tuple[Optimism, RawColumn]] = []
    if problem.clock.is_over():
        return None
    for column, kind in suspects(problem, encoding.kinds):
        if problem.clock.is_over():
            break
        values = (column.name, None) if kind == GROUPS else (None, column.name)
        validation = validation_of(problem.inputs, problem.y, problem.classes, None, *values)
        compared = _compared(problem, encoding, model, target, trends, validation)
        named = kind == TIME or GROUP_NAME.fullmatch(column.name) is not None
        if compared is not None and compared.drop >= (MIN_DROP if named else MIN_DROP_OF_CODES):
            found.append((compared, column))
    # New schools mean new pupils, too: then it is those whose rows are alike.
    kept = [one for one, column in found if not any(_is_inside(other, column) for _, other in found)]
    return max(kept, key=lambda one: one.drop, default=None)


def _is_inside(fine: RawColumn, coarse: RawColumn) -> bool:
    """Whether each value of a column has only one value of another column, which has fewer values."""
    one, other = (np.unique(column.values.astype(str), return_inverse=True)[1] for column in (fine, coarse))
    pairs = len(np.unique(np.stack([one, other]), axis=1).T)
    return bool(pairs == one.max() + 1 > other.max() + 1)


def suspects(problem: TableProblem, kinds: tuple[ColumnKind, ...]) -> Iterator[tuple[RawColumn, str]]:
    """Yield columns that may name groups or order rows in time."""
    given, count = problem.columns or {}, 0
    for column, kind in zip(problem.inputs.columns, kinds, strict=True):
        if column.name in given or count >= MAX_SUSPECTS:
            continue
        what = _suspected(column, kind)
        if what is not None and not column.missing.any():
            count += 1
            yield column, what


def time_column(problem: TableProblem) -> RawColumn | None:
    """Return the first column that may order the rows in time."""
    columns = (column for column in problem.inputs.columns if not column.missing.any())
    return next((c for c in columns if _may_be_time(c, c.form) and _distinct(c) >= MIN_SUSPECT_GROUPS), None)


def _distinct(column: RawColumn) -> int:
    return len(np.unique(column.levels.codes if column.form == TEXT else column.values))


def _may_be_time(column: RawColumn, kind: str) -> bool:
    named = column.form == NUMBER and TIME_NAME.fullmatch(column.name) is not None
    return kind == DATE or (named and _is_sorted(column.values))


def _suspected(column: RawColumn, kind: ColumnKind) -> str | None:
    timed = _may_be_time(column, kind.kind)
    if not timed and GROUP_NAME.fullmatch(column.name) is None and kind.kind != GROUP:
        return None  # most columns, whose values are not counted
    distinct = _distinct(column)
    if timed:
        return TIME if distinct >= MIN_SUSPECT_GROUPS else None
    return GROUPS if MIN_SUSPECT_GROUPS <= distinct <= len(column.values) / MIN_GROUP_ROWS else None


def _is_sorted(values: Array) -> bool:
    steps = np.diff(values)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _compared(
    problem: TableProblem,
    encoding: Encoding,
    model: Any,
    target: NumberTarget | None,
    trends: Any,
    validation: Validation,
) -> Optimism | None:
    """Compare the scores of two fits; None: they do not differ clearly."""
    codes = strata(problem.y, problem.classes)
    (split,) = validation.folds(codes, 1, 1, problem.seed)[:1]
    random = np.random.RandomState(problem.seed)
    train, new = (random.permutation(part)[: round(CHECKED_ROWS * share)] for part, share in _shares(split))
    halves = np.array_split(new, 2)
    if min(len(train), len(new)) < 4:
        return None
    # All fits have as many rows, and all new rows are predicted: by fits that have the other half of them, with others
    # of the same groups or as late, and by one that has none.
    mixed = [np.concatenate([train[: len(train) - len(half)], half]) for half in halves]
    # A number stays an input: new groups may have similar ones, as with years of school.
    kinds = {kind.name: kind.kind for kind in encoding.kinds}
    names = validation.kind == GROUPS and kinds[validation.column or ""] not in (NUMBER, BOOLEAN)
    without = validation.column if names else None
    if problem.classes and min(len(np.unique(problem.y[rows])) for rows in (train, *mixed)) < 2:
        return None
    scores = partial(_scores, problem, encoding, model, target, trends)
    after = scores(Split(np.sort(train), new), without)
    before = np.concatenate([scores(Split(np.sort(mixed[1 - j]), halves[j]), None) for j in (0, 1)])
    error = float((before - after).std() / len(new) ** 0.5)
    if (before - after).mean() < max(MIN_DROP, DROP_ERRORS * error):
        return None
    assert validation.column is not None
    metric = "accuracy" if problem.classes else "R²"
    return Optimism(validation.column, validation.kind, float(before.mean()), float(after.mean()), metric)


def _shares(split: Split) -> list[tuple[Array, float]]:
    n = len(split.train) + len(split.held)
    return [(split.train, len(split.train) / n), (split.held, len(split.held) / n)]


def _scores(
    problem: TableProblem,
    encoding: Encoding,
    model: Any,
    target: NumberTarget | None,
    trends: Any,
    split: Split,
    without: str | None,
) -> Array:
    """Return the part of each held-out row in the score, relative to the variance of all targets.

    The encoding is fitted to the training rows.
    """
    kinds = [replace(kind, kind=DROP) if kind.name == without else kind for kind in encoding.kinds]
    y = problem.targets(target)
    table = problem.inputs.some(split.train)
    own, x = fit_encoding(table, y[split.train], problem.classes, kinds=kinds, seed=problem.seed)
    weights = encoding.weights_for(own)
    own, x = replace(own, weights=weights), in_memory(x) * weights
    fitted = clone(model).set_params(bandwidth=model.bandwidth_, callbacks=None, max_time=np.inf)
    trend = None if trends is None else trends.fit(split.train).values(trends.inputs.x)
    left = y if trend is None else y - trend
    fitted.fit_sample((x, left[split.train], problem.given_weights(split.train)))
    values = problem.values(fitted, own.transform(problem.inputs.some(split.held)))
    values = values if trend is None else values + trend[split.held, None]
    truth = problem.y[split.held]
    if problem.classes:
        return np.asarray(values.argmax(axis=1) == truth, dtype=np.float64)
    predicted = problem.decoded(values, split.held, target)[0][:, 0]
    return np.asarray(1 - (truth - predicted) ** 2 / (problem.y.var() or 1.0))
