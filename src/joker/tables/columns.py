"""The kind of each column, decided once on the training rows: number, category, group, date, or left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidData, InvalidParameter, UnknownName
from joker.tables.encoders import ROBUST, GroupEncoder, distinct_whole_numbers, fit_group
from joker.tables.table import DATE, NUMBER, TEXT, RawColumn, RawTable
from joker.tuning.ard import ArdSample, coded_targets, loo_mean_square

Array = NDArray[Any]
CATEGORY, GROUP, DROP, AUTO = "category", "group", "drop", "auto"
KINDS = (NUMBER, CATEGORY, GROUP, DATE, TEXT, DROP, AUTO)
MIN_IDENTIFIER_ROWS = 30  # with fewer rows a column of distinct words may still be a category
IDENTIFIER_SHARE = 0.95  # distinct values, as a share of the rows, of a column of text that is an identifier
FREE_TEXT_WORDS = 5.0  # mean number of words of a column of distinct values that is free text
SAME_CORRELATION = 0.99999  # of two columns of numbers that are one up to unit and rounding
MAX_WHOLE = 2.0**53  # whole numbers of float64 are exact up to it
MAX_COMPARED = 512  # columns of numbers that are compared with one another
MAX_COMPARED_ROWS = 20_000
SAVED_INDEX = re.compile(r"|index|unnamed: \d+|rows?|row[_ .-]?names?", re.IGNORECASE)
# With or without another word before it: id, record_id, PassengerId, caseid, rownames, seqno, row number.
IDENTIFIER_NAME = re.compile(
    r"|index|unnamed: \d+|uuid|guid|rows?|row[_ .-]?names?|(.*[_ .-])?id([_ .-]?(no|nr|num|number))?"
    r"|(?-i:.*[a-z0-9]I[dD])"
    r"|(case|customer|client|person|patient|user|subject|record|order|row|seq|serial)[_ .-]?(id|no|nr|number|index)",
    re.IGNORECASE,
)


IDENTIFIER = "an identifier: "  # the reason why a column is left out begins with it


@dataclass(frozen=True)
class ColumnKind:
    """What a column is, and why it is left out if it is."""

    name: str
    kind: str  # NUMBER, BOOLEAN, CATEGORY, GROUP, DATE, TEXT or DROP
    reason: str = ""  # of a column that is left out, or of one that is kept for its held-out error
    code_size: float = 1.0  # of the codes of a column of groups; 1: two groups differ like two z-scores
    with_number: bool = True  # whether a column of groups is also a number: neighbouring groups are similar
    writing: str = ""  # the text format of numbers and dates that were text, under its name in model files


def decide_kinds(table: RawTable, given: Mapping[str, str] | None = None) -> list[ColumnKind]:
    """Return the kind of each column; ``given`` replaces the decision for some columns."""
    given = checked_kinds(table, given)
    kinds = [
        replace(_kind(column, given.get(column.name, AUTO)), writing=column.text_format) for column in table.columns
    ]
    return _without_same(table, kinds, given)


def checked_kinds(table: RawTable, given: Mapping[str, str] | None) -> dict[str, str]:
    """Return the kinds that the user gives, after checking names and kinds."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidParameter(
            f"columns must be a dictionary from names to kinds; got {given!r}. Use columns={{'zip': 'category'}}."
        )
    for name, kind in given.items():
        if name not in table.names:
            raise UnknownName.among("columns", name, table.names)
        if kind not in KINDS:
            raise UnknownName.among(f"the kind of column {name!r}", kind, KINDS)
    return dict(given)


def _kind(column: RawColumn, given: str) -> ColumnKind:
    name = column.name
    if given == DROP:
        return ColumnKind(name, DROP, "as asked")
    missing = column.missing
    if missing.all():
        return ColumnKind(name, DROP, "all values are missing")
    if given == AUTO and _is_constant(column, missing):
        return ColumnKind(name, DROP, "constant")
    if given == DATE and column.form != DATE:
        raise InvalidData(
            f"a column of dates must have dates such as 2024-01-31; column {name!r} has others. Convert it first."
        )
    if given == NUMBER and column.form == TEXT:
        raise InvalidData(f"a column of numbers must have numbers; column {name!r} has text. Convert it first.")
    if given == TEXT and column.form != TEXT:
        raise InvalidData(
            f"a column of text must have text; column {name!r} has {column.form}. Leave it out of columns."
        )
    if given == GROUP and not has_whole_numbers(column):
        raise InvalidData(
            f"a column of groups must have whole numbers; column {name!r} has others. Use "
            f"columns={{{name!r}: 'category'}}."
        )
    if given != AUTO:
        return ColumnKind(name, given)
    if column.form == TEXT:
        return _text_kind(column, missing)
    if column.form == NUMBER and _is_numbered(column, missing):
        saved = SAVED_INDEX.fullmatch(name) is not None
        return ColumnKind(name, DROP, "a saved index" if saved else f"{IDENTIFIER}whole numbers, all different")
    return ColumnKind(name, column.form)


def has_whole_numbers(column: RawColumn) -> bool:
    """Whether all values that are present are whole numbers that float64 holds exactly."""
    if column.form != NUMBER:
        return False
    present = column.values[~column.missing]
    return bool((present == np.floor(present)).all() and (np.abs(present) < MAX_WHOLE).all())


def _is_constant(column: RawColumn, missing: Array) -> bool:
    present = column.values[~missing]
    return not missing.any() and bool((present == present[0]).all())


def _text_kind(column: RawColumn, missing: Array) -> ColumnKind:
    name = column.name
    if column.declared_category:
        return ColumnKind(name, CATEGORY)
    present = column.values[~missing]
    distinct = set(present)
    many = len(distinct) >= IDENTIFIER_SHARE * len(present) and len(present) >= MIN_IDENTIFIER_ROWS
    if not many:
        return ColumnKind(name, CATEGORY)
    if mean_words(distinct) >= FREE_TEXT_WORDS:
        return ColumnKind(name, TEXT)
    return ColumnKind(name, DROP, f"{IDENTIFIER}{len(distinct):,} distinct values")


def mean_words(values: Collection[str]) -> float:
    """Return the mean number of words of some texts."""
    return float(np.mean([len(value.split()) for value in sorted(values)[:1_000]])) if values else 0.0


def _is_numbered(column: RawColumn, missing: Array) -> bool:
    """Whether a column is a saved index or a key: whole numbers, all different, under the name of an identifier."""
    values = column.values
    if len(values) < MIN_IDENTIFIER_ROWS or missing.any() or IDENTIFIER_NAME.fullmatch(column.name) is None:
        return False
    return has_whole_numbers(column) and len(np.unique(values)) == len(values)


def _without_same(table: RawTable, kinds: list[ColumnKind], given: Mapping[str, str]) -> list[ColumnKind]:
    """Leave out columns that repeat an earlier one: with equal values, or numbers with another unit."""
    kinds = list(kinds)
    seen: dict[Any, str] = {}
    for j, (column, kind) in enumerate(zip(table.columns, kinds, strict=True)):
        if kind.kind == DROP or column.name in given:
            continue
        key = (column.form, _digest(column))
        if key in seen:
            kinds[j] = replace(kind, kind=DROP, reason=f"the same as {seen[key]!r}")
        seen.setdefault(key, column.name)
    numbers = [j for j, kind in enumerate(kinds) if kind.kind == NUMBER and kind.name not in given]
    for j, first in _same_up_to_unit([table.columns[j] for j in numbers]).items():
        name = table.columns[numbers[first]].name
        kinds[numbers[j]] = replace(kinds[numbers[j]], kind=DROP, reason=f"the same as {name!r}, in another unit")
    return kinds


def _digest(column: RawColumn) -> Any:
    if column.form == TEXT:
        return tuple(column.values.tolist()).__hash__()
    return column.values.tobytes().__hash__()


def _same_up_to_unit(columns: list[RawColumn]) -> dict[int, int]:
    """Return for each column that repeats an earlier one the place of that one."""
    if not 2 <= len(columns) <= MAX_COMPARED:
        return {}
    x = np.stack([column.values[:MAX_COMPARED_ROWS] for column in columns])
    missing = np.isnan(x)
    x = np.where(missing, 0.0, x - np.nanmean(np.where(missing.all(axis=1, keepdims=True), 0.0, x), axis=1)[:, None])
    scale = np.sqrt((x**2).mean(axis=1))
    x = x / np.where(scale > 0, scale, 1.0)[:, None]
    correlation = np.abs(x @ x.T) / x.shape[1]
    found: dict[int, int] = {}
    for j in range(1, len(columns)):
        for i in range(j):
            same_missing = np.array_equal(missing[i], missing[j])
            if i not in found and correlation[i, j] > SAME_CORRELATION and same_missing:
                found[j] = i
                break
    return found


# Which columns of whole numbers name groups of rows: decided on the training rows, first alone, then with all columns.
#
# Alone: the mean target of the other rows of a group must predict better than the mean of the neighbouring groups does.
# With all columns: the code of the group must reduce the leave-one-out error of a kernel ridge regression. Both have
# samples of whole groups, since a sample of rows leaves too few of each group.

MIN_ROWS_OF_GROUPS = 200
MIN_GROUPS = 20  # a kernel separates fewer values as numbers
MIN_GROUP_ROWS = 2.5  # on average
MIN_GROUP_GAIN = 0.01  # share of the squared error that a group, or its neighbours, must save
MIN_CODE_GAIN = 0.06  # share of the leave-one-out error that codes must save: codes of quantities save a little, too
MAX_JUDGED = 3  # columns that are judged with all other columns, the most promising first
SCREENED_ROWS = 20_000  # of the first judgement
JUDGED_ROWS = 800  # of the second, whose cost is cubic in these
MAX_ROWS_OF_A_GROUP = 20  # in a sample, if there are enough groups: more rows of one group say little more of it
QUICK_ROWS = 1_000  # that show that most columns of numbers have fractions
DRAWN_ROWS = 50_000  # of a column with more rows, from which rows of groups are chosen
MANY_DRAWN_GROUPS = 1_000
SCREENED_TARGETS = 2_000_000  # rows times classes of the first judgement
WIDTHS = (1, 2, 4, 8, 16)  # groups on each side that are neighbours
PRIOR_ROWS = (2.0, 8.0, 32.0)  # rows of a group that count as much as the mean of its neighbours


@dataclass(frozen=True)
class Gains:
    """Shares of the squared error that are saved."""

    group: float  # by the other rows of the group, beside its neighbours
    neighbours: float  # by the neighbouring groups, beside the mean of all rows


def promising_groups(
    table: RawTable,
    kinds: Sequence[ColumnKind],
    given: Collection[str],  # names of columns whose kind is not to be decided
    y: Array,  # (n,)
    classes: int,
    seed: int,
) -> list[int]:
    """Return the places of the columns whose groups predict better than their neighbours, the best first."""
    gains = {
        j: gains_of_groups(column, y, classes, seed).group
        for j, (column, kind) in enumerate(zip(table.columns, kinds, strict=True))
        if kind.kind == NUMBER and kind.name not in given and may_be_group(column)
    }
    found = [j for j, gain in gains.items() if gain > MIN_GROUP_GAIN]
    return sorted(found, key=lambda j: -gains[j])[:MAX_JUDGED]


def useful_groups(
    table: RawTable,
    kinds: Sequence[ColumnKind],
    places: Sequence[int],
    x: Any,  # (n, d), all columns as they are encoded without codes; rows are picked from it
    y: Array,  # (n,)
    classes: int,
    seed: int,
    out_of_time: Callable[[], bool],
) -> dict[int, ColumnKind]:
    """Return the columns of groups whose codes reduce the leave-one-out error, each beside those before it."""
    useful: dict[int, ColumnKind] = {}
    encoders: dict[int, GroupEncoder] = {}
    for j in places:
        column = table.columns[j]
        rows = rows_of_groups(column.values, JUDGED_ROWS, seed)
        if out_of_time():
            break
        if len(rows) < MIN_ROWS_OF_GROUPS:
            continue
        sample = ArdSample(rows, coded_targets(y[rows], classes))
        before = np.hstack([x[rows], *(one.codes(table.columns[i].values[rows]) for i, one in encoders.items())])
        encoder = fit_group(column, ROBUST, with_number=False)
        codes = encoder.codes(column.values[rows])
        found = {
            size: loo_mean_square(np.hstack([before, size * codes]), sample) for size in (1.0, before.shape[1] ** 0.5)
        }
        best = min(found, key=lambda size: found[size])
        if found[best] < (1 - MIN_CODE_GAIN) * loo_mean_square(before, sample):
            smooth = gains_of_groups(column, y, classes, seed).neighbours > MIN_GROUP_GAIN
            useful[j] = replace(kinds[j], kind=GROUP, code_size=best, with_number=smooth)
            encoders[j] = replace(encoder, size=best)
    return useful


def same_categories(
    table: RawTable,
    kinds: Sequence[ColumnKind],
    given: Collection[str],  # names of columns whose kind is not to be decided
    places: Sequence[int],
) -> dict[int, int]:
    """Return the categories that have the groups of one of some columns under other names, each with that column.

    Target encoding of a category beside codes of the same groups is leakage: in a small group, the mean target without
    a row determines the target of that row.
    """
    found: dict[int, int] = {}
    for c, (column, kind) in enumerate(zip(table.columns, kinds, strict=True)):
        if kind.kind != CATEGORY or kind.name in given:
            continue
        codes = column.levels.codes
        for j in places:
            numbers, values = np.unique(table.columns[j].values, return_inverse=True)
            pairs = np.unique(values.ravel() * (len(column.levels.names) + 1) + codes)
            if len(numbers) == len(np.unique(codes)) == len(pairs):
                found.setdefault(c, j)
    return found


def may_be_group(column: RawColumn) -> bool:
    """Whether a column has whole numbers, many of them and each in several rows."""
    if not has_whole_numbers(column.some(slice(0, QUICK_ROWS))):  # most columns of numbers
        return False
    values = column.values[~column.missing]
    if len(values) < MIN_ROWS_OF_GROUPS or not has_whole_numbers(column):
        return False
    return MIN_GROUPS <= len(distinct_whole_numbers(values)) <= len(values) / MIN_GROUP_ROWS


def rows_of_groups(values: Array, count: int, seed: int) -> Array:
    """Return at most ``count`` rows: all rows of some groups, or some rows of large groups."""
    random = np.random.RandomState(seed)
    present = np.flatnonzero(~np.isnan(values))
    if len(present) > DRAWN_ROWS:
        present = _whole_groups(values, present, random)
    present = present[random.permutation(len(present))]
    _, group, sizes = np.unique(values[present], return_inverse=True, return_counts=True)
    shuffled = random.permutation(len(sizes))  # the place of each group
    order = np.argsort(shuffled[group], kind="stable")
    sizes = sizes[np.argsort(shuffled)]
    in_group = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    most = max(MAX_ROWS_OF_A_GROUP, -(-count // max(1, len(sizes))))
    return np.sort(present[order[in_group < most][:count]])


def _whole_groups(values: Array, rows: Array, random: np.random.RandomState) -> Array:
    """Return about DRAWN_ROWS of more rows: the rows of some groups at random, or of few groups some rows of all.

    A group is drawn by a multiplicative hash of its number, so that no row is sorted.
    """
    some = rows[np.unique(random.randint(len(rows), size=DRAWN_ROWS))]
    if len(np.unique(values[some])) < MANY_DRAWN_GROUPS:
        return some
    factor = np.uint64(2 * int(random.randint(2**31)) + 2**62 + 1)
    hashed = ((values[rows] + 0.0).view(np.uint64) * factor) >> np.uint64(32)
    drawn = rows[hashed < DRAWN_ROWS / len(rows) * 2**32]
    return drawn if len(drawn) >= DRAWN_ROWS // 2 else some


def gains_of_groups(column: RawColumn, y: Array, classes: int, seed: int) -> Gains:
    """Return what the other rows of a group and its neighbours say of the targets of a row."""
    rows = rows_of_groups(column.values, min(SCREENED_ROWS, SCREENED_TARGETS // max(1, classes)), seed)
    targets = coded_targets(y[rows], classes).numpy()
    _, group, sizes = np.unique(column.values[rows], return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), targets.shape[1]))
    np.add.at(sums, group, targets)
    alone, together = [], []
    for width in WIDTHS:
        near = _near_means(sums, sizes, width)[group]
        alone.append(float(np.mean((targets - near) ** 2)))
        for prior in PRIOR_ROWS:
            others = sums[group] - targets + prior * near
            found = others / (sizes[group] - 1 + prior)[:, None]
            together.append(float(np.mean((targets - found) ** 2)))
    variance = float(targets.var(axis=0).mean())
    if variance == 0 or min(alone) == 0:
        return Gains(0.0, 0.0)
    return Gains(1 - min(together) / min(alone), 1 - min(alone) / variance)


def _near_means(sums: Array, sizes: Array, width: int) -> Array:  # (groups, t)
    """The mean target of the groups at most ``width`` places away, without the group itself."""
    total = np.vstack([np.zeros(sums.shape[1]), np.cumsum(sums, axis=0)])
    count = np.append(0, np.cumsum(sizes))
    places = np.arange(len(sizes))
    low, high = np.maximum(places - width, 0), np.minimum(places + width + 1, len(sizes))
    means: Array = (total[high] - total[low] - sums) / (count[high] - count[low] - sizes)[:, None]
    return means
