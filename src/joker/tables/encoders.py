"""From one column to inputs of a kernel: each encoder is a frozen value that is learnt on the training rows.

A kernel sees distances. Every encoder scales its inputs so that the squared distance of two random rows is about 2, as
that of two z-scores is. So no column counts more because it has more levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.runtime.warning_filters import ignoring
from joker.tables.table import BLOCK_ENTRIES, RawColumn

Array = NDArray[Any]
Z_SCORE, ROBUST, QUANTILE = "z-score", "robust", "quantile"
SCALINGS = (Z_SCORE, ROBUST, QUANTILE)
CLIP = 3.0  # robust scaling soft-clips values to (−3, 3), as Holzmüller et al. (2024) do for tables
QUANTILES = 256  # points of the distribution that quantile scaling stores
QUANTILE_RANGE = 1e-3  # the smallest share of rows below a value, in quantile scaling
HALF_OF_THE_DISTANCE = 2.0**-0.5  # a factor of inputs
MAX_LEVEL_FACTOR = 2.0**0.5  # of a one-hot column: two levels of equal frequency then differ like two z-scores
DEVIATION_OF_QUARTILES = 1.349  # interquartile range of a normal variable with deviation 1
PERIODS = {"year": 365.2425, "month": 365.2425 / 12, "weekday": 7.0, "hour": 1.0}  # days
DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")  # microseconds
SCALED_ROWS = 50_000  # of a column with more rows, so many determine the scaling


@dataclass(frozen=True, eq=False)
class NumberEncoder:
    """A number as one input of mean 0 and deviation 1; where values are missing, a second input says so."""

    name: str
    method: str
    fill: float  # in place of a missing value
    centre: float
    scale: float
    mean: float  # of the scaled values, and their deviation
    deviation: float
    points: tuple[float, ...] = ()  # of the distribution, with quantile scaling
    indicator: float = 0.0  # the size of the input that says that a value is missing; 0: there is none
    two_values: bool = False

    @property
    def encoding(self) -> str:
        return self.method + (", indicator" if self.indicator else "")

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} is missing") if self.indicator else (self.name,)

    def transform(self, column: RawColumn) -> Array:
        scaled, missing = self._block.transform(column.values[None])
        return np.column_stack([scaled[0], missing[0]]) if self.indicator else scaled[0, :, None]

    @cached_property
    def _block(self) -> NumberBlock:
        return number_block((self,))


@dataclass(frozen=True, eq=False)
class NumberBlock:
    """The encoders of several columns of numbers, which are applied to all of them at once."""

    centre_and_scale: tuple[Array, Array]  # (k, 1) each
    mean_and_deviation: tuple[Array, Array]  # (k, 1) each
    fill: Array  # (k, 1)
    robust: Array  # numbers of the columns that are soft-clipped
    quantile: tuple[tuple[int, Distribution], ...]  # the numbers of columns with quantile scaling
    indicators: Array  # (m, 1), of the columns that have an indicator
    indicated: Array  # (m,), the numbers of these columns

    def transform(self, values: Array) -> tuple[Array, Array]:  # (k, n) -> (k, n), (m, n)
        """Return the scaled values, and the inputs that say that a value is missing."""
        missing = np.isnan(values)
        mean, deviation = self.mean_and_deviation
        some = bool(missing.any())
        scaled = self.scaled(np.where(missing, self.fill, values) if some else values)
        scaled -= mean
        scaled /= deviation
        if some:
            scaled[missing] = 0.0
        return scaled, missing[self.indicated] * self.indicators

    def scaled(self, values: Array) -> Array:  # (k, n)
        """Return values, none of which is missing, on the scale of each encoder, before its mean is subtracted."""
        centre, scale = self.centre_and_scale
        result: Array = (values - centre) / scale
        if len(self.robust):
            some = result[self.robust]
            result[self.robust] = some / np.sqrt(1 + (some / CLIP) ** 2)
        if self.quantile:
            for j, distribution in self.quantile:
                result[j] = distribution.normal_scores(values[j])
        return result


def number_block(encoders: Sequence[NumberEncoder]) -> NumberBlock:
    """Return the encoders of several columns as one."""

    def column(name: str) -> Array:  # (k, 1)
        return np.array([[getattr(encoder, name)] for encoder in encoders], dtype=np.float64)

    methods = [encoder.method for encoder in encoders]
    points = {j: np.asarray(encoder.points) for j, encoder in enumerate(encoders) if encoder.method == QUANTILE}
    indicators = column("indicator")
    indicated = np.flatnonzero(indicators)
    return NumberBlock(
        (column("centre"), column("scale")),
        (column("mean"), column("deviation")),
        column("fill"),
        np.flatnonzero([method == ROBUST for method in methods]),
        tuple((j, distribution_of(p)) for j, p in points.items()),
        indicators[indicated],
        indicated,
    )


def fit_number(column: RawColumn, method: str) -> NumberEncoder:
    """Learn the scaling of a column of numbers or booleans."""
    return fit_numbers([column], method)[0]


def fit_numbers(columns: Sequence[RawColumn], method: str) -> list[NumberEncoder]:
    """Learn the scaling of columns of numbers or booleans, of many at a time where no value is missing."""
    found: dict[int, NumberEncoder] = {}
    whole = [j for j, column in enumerate(columns) if not column.missing.any()]
    step = max(1, BLOCK_ENTRIES // max(1, len(columns[0].values))) if columns else 1
    for start in range(0, len(whole), step):
        some = whole[start : start + step]
        values = np.stack([columns[j].values for j in some])
        found |= zip(some, _fitted([columns[j].name for j in some], values, method, 0.0), strict=True)
    for j in sorted(set(range(len(columns))) - found.keys()):
        missing = columns[j].missing
        present = np.zeros(1) if missing.all() else columns[j].values[~missing]  # all are, in a part of the rows
        found[j] = _fitted([columns[j].name], present[None], method, _indicator_factor(missing))[0]
    return [found[j] for j in range(len(columns))]


def _fitted(names: Sequence[str], values: Array, method: str, indicator: float) -> list[NumberEncoder]:  # (k, n)
    """Learn the scaling of columns of which no value is missing."""
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    two_values = ((values == low) | (values == high)).all(axis=1)
    fill = values.mean(axis=1)
    if values.shape[1] > SCALED_ROWS:
        values = values[:, np.random.RandomState(0).randint(values.shape[1], size=SCALED_ROWS)]
    mean, deviation = values.mean(axis=1), values.std(axis=1)
    quartiles = np.quantile(values, [0.25, 0.5, 0.75], axis=1).T if method != Z_SCORE else values[:, :0]
    points = np.quantile(values, np.linspace(0, 1, QUANTILES), axis=1).T.tolist() if method == QUANTILE else []
    rough = []
    for j, name in enumerate(names):
        own = Z_SCORE if two_values[j] else method
        centre, scale = (mean[j], deviation[j]) if own == Z_SCORE else _quartile_scale(quartiles[j], values[j])
        of_column = tuple(points[j]) if own == QUANTILE else ()
        facts = float(fill[j]), float(centre), float(scale) or 1.0, 0.0, 1.0, of_column, indicator, bool(two_values[j])
        rough.append(NumberEncoder(name, own, *facts))
    scaled = number_block(rough).scaled(values)
    means, deviations = scaled.mean(axis=1).tolist(), scaled.std(axis=1).tolist()
    for j, one in enumerate(rough):
        if one.two_values:  # two values differ like two levels of equal frequency, however rare one of them is
            deviations[j] = float(high[j, 0] - low[j, 0]) / one.scale / 2
    return [replace(one, mean=m, deviation=d or 1.0) for one, m, d in zip(rough, means, deviations, strict=True)]


def _indicator_factor(missing: Array) -> float:  # (n,)
    """The size of the input that says that a value is missing; 0 if none is."""
    share = float(missing.mean())
    return level_factor(np.array([share, 1 - share])) if share else 0.0


def _quartile_scale(quartiles: Array, values: Array) -> tuple[float, float]:
    """The median, and the deviation that the quartiles suggest; the whole deviation where quartiles are equal."""
    low, centre, high = quartiles.tolist()
    scale = (high - low) / DEVIATION_OF_QUARTILES
    if scale <= 0:
        away = np.abs(values - centre)
        scale = float(np.mean(away[away > 0])) if (away > 0).any() else 1.0
    return centre, scale


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution function of the training rows: straight lines between distinct points.

    At a point it jumps from ``below`` to ``upto``, where a value occurs often, and has the middle of both.
    """

    points: Array  # (k,), ascending and distinct
    below: Array  # (k,)
    upto: Array  # (k,)
    slopes: Array  # (k,), after each point; the last one is 0

    def normal_scores(self, values: Array) -> Array:  # (n,)
        """Return the values that a normal variable has where the distribution has these values."""
        from scipy.special import ndtri

        place = np.searchsorted(self.points, values, side="right") - 1
        np.maximum(place, 0, out=place)
        away = values - self.points[place]
        levels = self.upto[place] + self.slopes[place] * away
        at_point = away == 0
        levels[at_point] = ((self.below + self.upto) / 2)[place[at_point]]
        levels[away < 0] = 0.0  # before the first point
        scores: Array = ndtri(np.clip(levels, QUANTILE_RANGE, 1 - QUANTILE_RANGE, out=levels))
        return scores


def distribution_of(points: Array) -> Distribution:
    """Return the distribution whose quantiles, at equal steps from 0 to 1, are some points."""
    levels = np.linspace(0, 1, len(points))
    distinct, first, count = np.unique(points, return_index=True, return_counts=True)
    below, upto = levels[first], levels[first + count - 1]
    with np.errstate(over="ignore"):  # between denormal numbers
        steps = (below[1:] - upto[:-1]) / np.diff(distinct)
    slopes = np.append(np.minimum(steps, np.finfo(np.float64).max), 0.0)
    return Distribution(distinct, below, upto, slopes)


def level_factor(shares: Array) -> float:
    """The size of one-hot columns for which two random rows differ like two z-scores, with an upper limit."""
    differ = 1 - float(np.sum(shares**2))
    return min(differ**-0.5, MAX_LEVEL_FACTOR) if differ > 0 else 1.0


@dataclass(frozen=True, eq=False)
class LevelEncoder:
    """A category as one column for each frequent level, one for all others, and one for missing values."""

    name: str
    levels: tuple[str, ...]
    other: bool  # whether rare and unknown levels have a column, else they are 0 in all columns
    missing: bool
    factor: float

    @property
    def encoding(self) -> str:
        return "one-hot" + (", rare pooled" if self.other else "")

    @property
    def names(self) -> tuple[str, ...]:
        extra = [*(["other"] if self.other else []), *(["missing"] if self.missing else [])]
        return tuple(f"{self.name}={level}" for level in [*self.levels, *extra])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {level: j for j, level in enumerate(self.levels)}

    def transform(self, column: RawColumn) -> Array:
        other = len(self.levels) if self.other else -1
        missing = len(self.levels) + self.other if self.missing else other
        codes = codes_among(column, self._places, other, missing)
        result = np.zeros((len(codes), len(self.levels) + self.other + self.missing))
        known = codes >= 0
        result[np.flatnonzero(known), codes[known]] = self.factor
        return result


def as_levels(column: RawColumn) -> list[str | None]:
    """The values of a column as levels; whole numbers are written without a fraction."""
    names = (*column.levels.names, None)  # −1 is the last one
    return [names[code] for code in column.levels.codes.tolist()]


def codes_among(column: RawColumn, places: Mapping[str, int], other: int, missing: int) -> Array:  # (n,)
    """Return the place of the level of each row, ``other`` for one that has no place, and ``missing`` for none."""
    of_code = np.array([*(places.get(name, other) for name in column.levels.names), missing], dtype=np.intp)
    codes: Array = of_code[column.levels.codes]
    return codes


def fit_levels(column: RawColumn, min_rows: int, max_levels: int) -> LevelEncoder:
    """Learn the levels of a category: the most frequent ones, with at least ``min_rows`` rows."""
    counts = count_levels(column)
    rows = len(column.values)
    missing = rows - sum(counts.values())
    ranked = sorted(counts, key=lambda level: (-counts[level], level))
    kept = [level for level in ranked if counts[level] >= min_rows][:max_levels]
    kept = kept if len(kept) > 1 or len(ranked) < 2 else ranked[:2]
    rest = rows - missing - sum(counts[level] for level in kept)
    shares = np.array([*(counts[level] for level in kept), rest, missing]) / rows
    return LevelEncoder(column.name, tuple(sorted(kept)), rest > 0, missing > 0, level_factor(shares))


def count_levels(column: RawColumn) -> dict[str, int]:
    """The number of rows of each level."""
    names, codes = column.levels.names, column.levels.codes
    counts = np.bincount(codes[codes >= 0], minlength=len(names)).tolist()
    return {name: count for name, count in zip(names, counts, strict=True) if count}


@dataclass(frozen=True, eq=False)
class StatisticEncoder:
    """Target encoding of a category: the mean target of each level, shrunk towards that of all rows, and its levels.

    The mean orders the levels, and the columns of the levels keep them apart. Both have half of the distance.
    """

    name: str
    levels: tuple[str, ...]
    values: Array  # (levels, t), scaled
    default: Array  # (t,), of missing and unknown levels
    frequent: LevelEncoder | None = None  # the levels that have columns of their own too

    @property
    def encoding(self) -> str:
        return "mean target" + (f" and {self.frequent.encoding}" if self.frequent else "")

    @property
    def names(self) -> tuple[str, ...]:
        t = self.values.shape[1]
        own = [f"mean target of {self.name}" + (f" {j}" if t > 1 else "") for j in range(t)]
        return (*own, *(self.frequent.names if self.frequent else ()))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {level: j for j, level in enumerate(self.levels)}

    def transform(self, column: RawColumn) -> Array:
        codes = codes_among(column, self._places, -1, -1)
        return self.joined(np.where(codes[:, None] >= 0, self.values[codes], self.default), column)

    def joined(self, means: Array, column: RawColumn) -> Array:  # (n, t) -> (n, k)
        """Return target encodings with the columns of the levels."""
        if self.frequent is None:
            return means
        joined: Array = np.concatenate([means, self.frequent.transform(column)], axis=1)
        joined *= HALF_OF_THE_DISTANCE
        return joined


@dataclass(frozen=True, eq=False)
class DateEncoder:
    """A date as a trend and as points on circles for the parts that vary: year, month, weekday and hour."""

    name: str
    mean: float  # of the days since 1970, and their deviation
    deviation: float
    parts: tuple[str, ...]
    indicator: float = 0.0

    @property
    def encoding(self) -> str:
        return ", ".join(self.parts) + (", indicator" if self.indicator else "")

    @property
    def names(self) -> tuple[str, ...]:
        circles = [f"{self.name} {part} {way}" for part in self.parts[1:] for way in ("cos", "sin")]
        return (f"{self.name} trend", *circles, *([f"{self.name} is missing"] if self.indicator else []))

    def transform(self, column: RawColumn) -> Array:
        missing = np.isnat(column.values)
        days = np.where(missing, self.mean, days_of(column.values))
        inputs = [(days - self.mean) / self.deviation]
        for part in self.parts[1:]:
            angle = 2 * np.pi * phase(days, part)
            # Two random points of a circle of radius 1 differ by 2 in their squared distance.
            inputs += [np.where(missing, 0.0, np.cos(angle)), np.where(missing, 0.0, np.sin(angle))]
        if self.indicator:
            inputs.append(missing * self.indicator)
        return np.column_stack(inputs)


def days_of(values: Array) -> Array:
    """Days since 1970, with the time as a fraction; NaN where missing."""
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / DAY)


def phase(days: Array, part: str) -> Array:
    """The place of a date in its year, week or day, from 0 to 1."""
    phases: Array = (days / PERIODS[part]) % 1.0
    return phases


def fit_date(column: RawColumn) -> DateEncoder:
    """Learn which parts of a date vary."""
    missing = np.isnat(column.values)
    days = np.zeros(1) if missing.all() else days_of(column.values[~missing])
    span = float(days.max() - days.min())
    steps = np.diff(np.unique(days[:100_000]))
    step = float(np.median(steps)) if len(steps) else 0.0
    has_time = bool((days % 1 != 0).any())
    parts = ["trend"]
    parts += ["year"] if span > 180 else []
    parts += ["month"] if span > 45 and step < 20 else []
    parts += ["weekday"] if span > 10 and step < 5 else []
    parts += ["hour"] if has_time else []
    deviation = float(days.std()) or 1.0
    return DateEncoder(column.name, float(days.mean()), deviation, tuple(parts), _indicator_factor(missing))


# A whole number that names a group of rows, such as the number of a person or a day, as inputs of a kernel.
#
# A smooth function of the number has the same value for neighbouring groups, which may have nothing in common. Each
# group therefore has a code: a random direction, so that two rows of different groups differ like two z-scores and
# two rows of one group do not differ. The kernel learns from the rows of the same group. Target encodings of groups
# would help as well, but they make held-out rows of small groups appear better than new rows; codes do not depend on
# targets.


DIRECTIONS = 16  # inputs of a random direction: the squared distance of two groups is 2, with a deviation of 1/2
CODE_INPUTS = DIRECTIONS + 1  # the last one is for rows of no known group
MAX_COUNTED = 4  # times the number of rows: whole numbers in such a range are counted, and in a larger one sorted
CODE_SEED = 0  # the draws of RandomState are the same in every version of NumPy, so that no file has to hold codes


@dataclass(frozen=True, eq=False)
class GroupEncoder:
    """The code of a group, and its number where neighbouring groups are similar.

    Missing and unknown groups have a code of their own, whose squared distance to all others is 2: a row of a new group
    is as far from all groups as those are from one another, and its prediction is that of a group without rows.
    """

    name: str
    groups: tuple[float, ...]  # the values of the training rows, sorted
    size: float = 1.0  # of the codes
    number: NumberEncoder | None = None

    @property
    def encoding(self) -> str:
        return f"{self.number.encoding} and group codes" if self.number else "group codes"

    @property
    def names(self) -> tuple[str, ...]:
        codes = (f"{self.name} code {j}" for j in range(CODE_INPUTS))
        return (*(self.number.names if self.number else ()), *codes)

    def transform(self, column: RawColumn) -> Array:
        codes = self.codes(column.values)
        return np.hstack([self.number.transform(column), codes]) if self.number else codes

    def codes(self, values: Array) -> Array:  # (n,) -> (n, CODE_INPUTS)
        """Return the code of each value."""
        groups = np.asarray(self.groups)
        places = np.minimum(np.searchsorted(groups, values), len(groups) - 1)
        codes: Array = self.size * self._table[np.where(groups[places] == values, places, len(groups))]
        return codes

    @cached_property
    def _table(self) -> Array:  # (groups + 1, CODE_INPUTS), rows of length 1
        random = np.random.RandomState(CODE_SEED).standard_normal((len(self.groups), DIRECTIONS))
        table = np.zeros((len(self.groups) + 1, CODE_INPUTS))
        table[:-1, :-1] = random / np.linalg.norm(random, axis=1, keepdims=True)
        table[-1, -1] = 1.0
        return table


def fit_group(column: RawColumn, method: str, size: float = 1.0, *, with_number: bool = True) -> GroupEncoder:
    """Learn the groups of a column of whole numbers, and the scaling of its numbers."""
    values = column.values.astype(np.float64)
    groups = tuple(distinct_whole_numbers(values[~np.isnan(values)]).tolist())
    return GroupEncoder(column.name, groups, size, fit_number(column, method) if with_number else None)


def distinct_whole_numbers(values: Array) -> Array:
    """Return the distinct ones of some whole numbers, sorted."""
    low = values.min(initial=np.inf)
    if values.max(initial=-np.inf) - low < MAX_COUNTED * len(values):
        values = np.flatnonzero(np.bincount((values - low).astype(np.intp))) + low
    distinct: Array = np.unique(values)
    return distinct


FOLDS = 5


def fit_target_encoding(
    column: RawColumn,
    y: Array,  # (n,) numbers, or codes of classes
    classes: int,  # 0 for numbers
    frequent: LevelEncoder | None,
    seed: int,
) -> tuple[StatisticEncoder, Array]:
    """Return the encoder, and the cross-fitted means of the training rows: none is encoded by its own target."""
    from sklearn.preprocessing import TargetEncoder

    kind = "continuous" if not classes else "binary" if classes == 2 else "multiclass"
    folds = max(2, min(FOLDS, int(np.bincount(y.astype(np.intp)).min()) if classes else FOLDS))
    encoder = TargetEncoder(target_type=kind, cv=folds, random_state=seed)
    with ignoring():  # classes with fewer rows than folds
        crossed = encoder.fit_transform(column.levels.codes[:, None], y)
    codes = encoder.categories_[0].tolist()
    values = np.stack(encoder.encodings_, axis=1)
    default = np.atleast_1d(np.asarray(encoder.target_mean_, dtype=np.float64))
    mean, deviation = crossed.mean(axis=0), crossed.std(axis=0)
    # The columns of several classes share the weight of one number.
    scale = np.where(deviation > 0, deviation, 1.0) * (values.shape[1] ** 0.5 if values.shape[1] > 1 else 1.0)
    if codes[0] < 0:  # of missing values
        default, values, codes = values[0], values[1:], codes[1:]
    known = tuple(column.levels.names[code] for code in codes)
    fitted = StatisticEncoder(column.name, known, (values - mean) / scale, (default - mean) / scale, frequent)
    return fitted, (crossed - mean) / scale
