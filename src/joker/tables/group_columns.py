"""Which columns of whole numbers name groups of rows: decided on the training rows, first alone, then with all columns.

Alone: the mean target of the other rows of a group must predict better than the mean of the neighbouring groups does.
With all columns: the code of the group must reduce the leave-one-out error of a kernel ridge regression. Both have
samples of whole groups, since a sample of rows leaves too few of each group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.tables.columns import GROUP, ColumnKind, has_whole_numbers
from joker.tables.encoders import ROBUST
from joker.tables.frames import NUMBER, RawColumn, RawTable
from joker.tables.group_encoder import fit_group
from joker.tables.leave_one_out import Sample, best_errors, coded_targets

Array = NDArray[Any]
MIN_ROWS = 200
MIN_GROUPS = 20  # a kernel separates fewer values as numbers
MIN_GROUP_ROWS = 2.5  # on average
MIN_GAIN = 0.01  # share of the squared error that a group, or its neighbours, must save
MIN_CODE_GAIN = (
    0.06  # share of the leave-one-out error that codes must save: groups save 9% to 80%, other columns less than 6%
)
MAX_JUDGED = 3  # columns that are judged with all other columns, the most promising first
SCREENED_ROWS = 20_000  # of the first judgement
JUDGED_ROWS = 800  # of the second, whose cost is cubic in these
MAX_ROWS_OF_A_GROUP = 20  # in a sample: more rows of one group say little more of it
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
    for j in places:
        if out_of_time():
            break
        column = table.columns[j]
        rows = rows_of_groups(column.values, JUDGED_ROWS, seed)
        sample = Sample(rows, coded_targets(y[rows], classes))
        codes = fit_group(column, ROBUST, with_number=False).codes(column.values)
        found = {size: _error(np.hstack([x[rows], size * codes[rows]]), sample) for size in (1.0, x.shape[1] ** 0.5)}
        best = min(found, key=lambda size: found[size])
        if found[best] < (1 - MIN_CODE_GAIN) * _error(x[rows], sample):
            smooth = gains_of_groups(column, y, classes, seed).neighbours > MIN_GAIN
            useful[j] = replace(kinds[j], kind=GROUP, code_size=best, with_number=smooth)
            x = np.hstack([x, best * codes])
    return useful


def _error(x: Array, sample: Sample) -> float:
    return float(best_errors(x, sample).square().mean())


def may_be_group(column: RawColumn) -> bool:
    """Whether a column has whole numbers, many of them and each in several rows."""
    values = column.values[~np.isnan(column.values)]
    if len(values) < MIN_ROWS or not has_whole_numbers(column):
        return False
    return MIN_GROUPS <= len(np.unique(values)) <= len(values) / MIN_GROUP_ROWS


def rows_of_groups(values: Array, count: int, seed: int) -> Array:
    """Return about ``count`` rows: all of some groups, but not more than a limit of one."""
    random = np.random.RandomState(seed)
    present = np.flatnonzero(~np.isnan(values))
    present = present[random.permutation(len(present))]
    _, group, sizes = np.unique(values[present], return_inverse=True, return_counts=True)
    shuffled = random.permutation(len(sizes))  # the place of each group
    order = np.argsort(shuffled[group], kind="stable")
    sizes = sizes[np.argsort(shuffled)]
    in_group = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(present[order[in_group < MAX_ROWS_OF_A_GROUP][:count]])


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
