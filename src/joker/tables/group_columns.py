"""Which columns of whole numbers name groups of rows: decided on the training rows, first alone, then with all columns.

Alone: the mean target of the other rows of a group must predict better than the mean of the neighbouring groups does.
With all columns: the code of the group must reduce the leave-one-out error of a kernel ridge regression. Both have
samples of whole groups, since a sample of rows leaves too few of each group. Where codes do not help, the mean target
of the group may: the column is then a category.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.tables.columns import CATEGORY, GROUP, ColumnKind, has_whole_numbers
from joker.tables.encoders import ROBUST, as_levels
from joker.tables.encoding import fit_column
from joker.tables.frames import NUMBER, RawColumn, RawTable
from joker.tables.group_encoder import GroupEncoder, fit_group
from joker.tables.leave_one_out import Sample, best_error, coded_targets, make_sample

Array = NDArray[Any]
MIN_ROWS = 200
MIN_GROUPS = 20  # a kernel separates fewer values as numbers
MIN_GROUP_ROWS = 2.5  # on average
MIN_GAIN = 0.01  # share of the squared error that a group, or its neighbours, must save
MIN_CODE_GAIN = 0.06  # share of the leave-one-out error that codes must save: codes of quantities save a little, too
MIN_CATEGORY_GAIN = 0.01  # the same, of a category in place of a number
MAX_JUDGED = 3  # columns that are judged with all other columns, the most promising first
SCREENED_ROWS = 20_000  # of the first judgement
JUDGED_ROWS = 800  # of the second, whose cost is cubic in these
MAX_ROWS_OF_A_GROUP = 20  # in a sample, if there are enough groups: more rows of one group say little more of it
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
    found = [j for j, gain in gains.items() if gain > MIN_GAIN]
    return sorted(found, key=lambda j: -gains[j])[:MAX_JUDGED]


def useful_groups(
    table: RawTable,
    kinds: Sequence[ColumnKind],
    places: Sequence[int],
    x: Array,  # (n, d), all columns as they are encoded without codes
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
        if len(rows) < MIN_ROWS:
            continue
        sample = Sample(rows, coded_targets(y[rows], classes))
        before = np.hstack([x[rows], *(one.codes(table.columns[i].values[rows]) for i, one in encoders.items())])
        encoder = fit_group(column, ROBUST, with_number=False)
        codes = encoder.codes(column.values[rows])
        found = {size: best_error(np.hstack([before, size * codes]), sample) for size in (1.0, before.shape[1] ** 0.5)}
        best = min(found, key=lambda size: found[size])
        if found[best] < (1 - MIN_CODE_GAIN) * best_error(before, sample):
            smooth = gains_of_groups(column, y, classes, seed).neighbours > MIN_GAIN
            useful[j] = replace(kinds[j], kind=GROUP, code_size=best, with_number=smooth)
            encoders[j] = replace(encoder, size=best)
    return useful


def useful_categories(
    table: RawTable,
    kinds: Sequence[ColumnKind],
    places: Sequence[int],
    x: Array,  # (n, d), all columns as they are encoded with numbers
    y: Array,  # (n,)
    classes: int,
    seed: int,
    out_of_time: Callable[[], bool],
) -> dict[int, ColumnKind]:
    """Return the columns of numbers that reduce the leave-one-out error as categories, such as codes of occupations."""
    useful: dict[int, ColumnKind] = {}
    sample = make_sample(y, classes, seed, JUDGED_ROWS)
    before = x[sample.rows]
    error = best_error(before, sample) if places else 0.0
    for j in places:
        kind = replace(kinds[j], kind=CATEGORY)
        _, part = fit_column(table.columns[j], kind, y, classes, ROBUST, seed)
        joined = np.hstack([before, part[sample.rows]])
        found = best_error(joined, sample)
        if found < (1 - MIN_CATEGORY_GAIN) * error:
            useful[j], before, error = kind, joined, found
        if out_of_time():
            break
    return useful


def same_categories(
    table: RawTable,
    kinds: Sequence[ColumnKind],
    given: Collection[str],  # names of columns whose kind is not to be decided
    places: Sequence[int],
) -> dict[int, int]:
    """Return the categories that have the groups of one of some columns under other names, each with that column.

    The mean targets of a category and the codes of the same groups must not meet: in a small group, the mean target
    without a row says what the target of that row is.
    """
    found: dict[int, int] = {}
    for c, (column, kind) in enumerate(zip(table.columns, kinds, strict=True)):
        if kind.kind != CATEGORY or kind.name in given:
            continue
        levels = as_levels(column)
        for j in places:
            numbers = table.columns[j].values.tolist()
            if len(set(numbers)) == len(set(levels)) == len(set(zip(numbers, levels, strict=True))):
                found.setdefault(c, j)
    return found


def may_be_group(column: RawColumn) -> bool:
    """Whether a column has whole numbers, many of them and each in several rows."""
    values = column.values[~np.isnan(column.values)]
    if len(values) < MIN_ROWS or not has_whole_numbers(column):
        return False
    return MIN_GROUPS <= len(np.unique(values)) <= len(values) / MIN_GROUP_ROWS


def rows_of_groups(values: Array, count: int, seed: int) -> Array:
    """Return at most ``count`` rows: all rows of some groups, or some rows of large groups."""
    random = np.random.RandomState(seed)
    present = np.flatnonzero(~np.isnan(values))
    present = present[random.permutation(len(present))]
    _, group, sizes = np.unique(values[present], return_inverse=True, return_counts=True)
    shuffled = random.permutation(len(sizes))  # the place of each group
    order = np.argsort(shuffled[group], kind="stable")
    sizes = sizes[np.argsort(shuffled)]
    in_group = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    most = max(MAX_ROWS_OF_A_GROUP, -(-count // max(1, len(sizes))))
    return np.sort(present[order[in_group < most][:count]])


def gains_of_groups(column: RawColumn, y: Array, classes: int, seed: int) -> Gains:
    """Return what the other rows of a group and its neighbours say of the targets of a row."""
    rows = rows_of_groups(column.values, SCREENED_ROWS, seed)
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
