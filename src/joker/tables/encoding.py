"""The encoding of a whole table: from its columns to a matrix of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import listed
from joker.errors import InvalidData
from joker.tables.columns import CATEGORY, DROP, GROUP, ColumnKind, decide_kinds
from joker.tables.encoders import (
    CODE_INPUTS,
    ROBUST,
    DateEncoder,
    GroupEncoder,
    LevelEncoder,
    NumberBlock,
    NumberEncoder,
    StatisticEncoder,
    count_levels,
    fit_date,
    fit_group,
    fit_levels,
    fit_numbers,
    fit_target_encoding,
    number_block,
)
from joker.tables.parsing import DECIMAL_POINT, TEXT_FORMATS, find_text_format, parse_as
from joker.tables.steps import AND_STEPS, SteppedNumberEncoder, fit_stepped_number
from joker.tables.table import BLOCK_ENTRIES, BOOLEAN, DATE, DATE_TYPE, NUMBER, TEXT, RawColumn, RawTable
from joker.tables.text import TextEncoder, fit_text

Array = NDArray[Any]
AnyEncoder = (
    NumberEncoder | LevelEncoder | StatisticEncoder | DateEncoder | GroupEncoder | SteppedNumberEncoder | TextEncoder
)
SCALED = (NumberEncoder, GroupEncoder, SteppedNumberEncoder)  # encoders that depend on the scaling of numbers
MIN_ORDERED = 3  # levels: a category with at least so many also has its mean target as an input
MAX_STATISTIC_CLASSES = 32  # with more classes there is no mean target, which would take an input for each of them
MIN_STATISTIC_ROWS = 100  # with fewer rows the mean of a level is noise
MAX_ONE_HOT = 64  # levels that may have columns of their own
FREQUENT_LEVELS = 20  # that have columns of their own, of a category with more levels
RARE_ROWS = 10  # a level with fewer rows is pooled with the other rare ones
RARE_SHARE = 0.005  # the same, as a share of the rows of a small table
CHUNK = 65_536  # rows that are encoded at a time
MAX_STORED = 2**24  # entries of an encoding of all rows; a larger one is computed again for the rows that are asked for


@dataclass(frozen=True, eq=False)
class Encoding:
    """The kind and the encoder of each column."""

    kinds: tuple[ColumnKind, ...]
    encoders: tuple[AnyEncoder, ...]  # of the columns that are not left out, in order
    named: bool
    weights: Array | None = None  # (d,), of the inputs; None: all are 1

    @cached_property
    def width(self) -> int:
        """The number of inputs."""
        return sum(len(encoder.names) for encoder in self.encoders) or 1

    @property
    def groups(self) -> Array:  # (d,)
        """The number of the set of inputs that each input belongs to: a column, the number of a group or its code."""
        sizes = [size for encoder in self.encoders for size in _sizes(encoder)]
        return np.repeat(np.arange(len(sizes)), sizes)

    def weights_for(self, other: Encoding) -> Array:  # (k,), float32
        """Return the weights of the same columns for the inputs of another encoding, which may have fewer columns."""
        of_set = np.ones(int(self.groups.max(initial=0)) + 1, dtype=np.float32)
        of_set[self.groups] = 1.0 if self.weights is None else self.weights
        ends = np.cumsum([len(_sizes(encoder)) for encoder in self.encoders])
        of_column = {e.name: part for e, part in zip(self.encoders, np.split(of_set, ends[:-1]), strict=True)}
        parts = [of_column[encoder.name][: len(_sizes(encoder))] for encoder in other.encoders]
        return np.concatenate([np.ones(0, dtype=np.float32), *parts])[other.groups]

    def transform(self, table: RawTable) -> Array:  # (n, d), float32
        """Return the inputs of some rows."""
        columns = self.matched(table)
        if not columns:
            return np.zeros((table.rows, self.width), dtype=np.float32)
        result = self.inputs(None, columns, lambda j, rows: self.encoders[j].transform(columns[j].some(rows)))
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(result.sum(axis=0)).all()  # no sum hides an infinite value
        if not finite:
            self._check_finite(result, columns)
        if self.weights is not None:
            result *= self.weights.astype(np.float32)
        return result

    def inputs(
        self, rows: Array | None, columns: Sequence[RawColumn], other: Callable[[int, Array | slice], Array]
    ) -> Array:  # (k,) -> (k, d), float32
        """Return the inputs of some rows, or of all, without weights.

        ``other`` computes those of a column that is not a number. No column has all of its inputs in float64.
        """
        n = len(columns[0].values) if rows is None else len(rows)
        result = np.zeros((n, self.width), dtype=np.float32)
        step = max(1, min(CHUNK, BLOCK_ENTRIES // max(1, len(columns))))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, n, step):
                part = slice(start, min(start + step, n))
                some = part if rows is None else rows[part]
                self._numbers.write(result[part], columns, some)
                for j, place in self._others:
                    encoded = other(j, some)
                    result[part, place : place + encoded.shape[1]] = encoded
        return result

    def without(self, name: str) -> Array:  # (k,)
        """Return the numbers of the inputs that other columns than this one have."""
        sizes = [(encoder.name, len(encoder.names)) for encoder in self.encoders]
        return np.flatnonzero(np.concatenate([np.full(size, own != name) for own, size in sizes]))

    def _check_finite(self, part: Array, columns: Sequence[RawColumn]) -> None:  # (n, d)
        """Refuse values that float32 does not hold after scaling."""
        finite = np.isfinite(part).all(axis=0)
        if not finite.all():
            column = columns[int(np.searchsorted(self.places, np.argmin(finite), side="right")) - 1]
            raise InvalidData(
                f"the values of a column must be of the size that they had in the training rows; column "
                f"{column.name!r} has others, which are too large for float32 when they are scaled. Check it."
            )

    @cached_property
    def places(self) -> Array:  # (columns,)
        """The first input of each column."""
        return np.cumsum([0, *(len(encoder.names) for encoder in self.encoders)])[:-1]

    @cached_property
    def _numbers(self) -> _Numbers:
        numbers = {j: encoder for j, encoder in enumerate(self.encoders) if isinstance(encoder, NumberEncoder)}
        block = number_block(list(numbers.values()))
        places = self.places[list(numbers)]
        return _Numbers(list(numbers), block, places, places[block.indicated] + 1)

    @cached_property
    def _others(self) -> list[tuple[int, int]]:
        """The columns that are not numbers, with the place of their inputs."""
        numbers = set(self._numbers.columns)
        return [(j, int(place)) for j, place in enumerate(self.places) if j not in numbers]

    def matched(self, table: RawTable) -> list[RawColumn]:
        """The columns that are encoded, found by name, or by place in a table without names."""
        by_name = {column.name: column for column in table.columns}
        if self.named and not table.named and len(table.columns) == len(self.kinds):
            by_name = dict(zip((kind.name for kind in self.kinds), table.columns, strict=True))
        wanted = [kind for kind in self.kinds if kind.kind != DROP]
        missing = [kind.name for kind in wanted if kind.name not in by_name]
        if missing:
            unknown = sorted(by_name.keys() - {kind.name for kind in self.kinds})
            also = f"; unknown: {listed(unknown)}" if unknown else ""
            raise InvalidData(
                f"the columns must be those of the training data; missing: {listed(missing)}{also}. Rename or add the "
                "columns."
            )
        return [_as_kind(by_name[kind.name], kind) for kind in wanted]

    def facts(self, importances: Sequence[float] | None = None) -> list[dict[str, Any]]:
        """Return what was decided for each column, as rows of a table."""
        encoders = iter(self.encoders)
        values = iter(importances if importances is not None else [None] * len(self.encoders))
        rows = []
        for kind in self.kinds:
            if kind.kind == DROP:
                rows.append(_fact(kind.name, "left out", kind.reason, 0, 0.0 if importances is not None else None))
            else:
                encoder = next(encoders)
                how = encoder.encoding + (f", {kind.reason}" if kind.reason else "")
                rows.append(_fact(kind.name, kind.kind, how, len(encoder.names), next(values)))
        return rows


@dataclass(frozen=True, eq=False)
class _Numbers:
    """The columns of numbers of an encoding, which are encoded together."""

    columns: list[int]  # their numbers among the encoded columns
    block: NumberBlock
    places: Array  # of their inputs
    indicators: Array  # the places of the inputs that say that a value is missing

    def write(self, result: Array, columns: Sequence[RawColumn], rows: Array | slice) -> None:  # (n, d)
        """Write the inputs of some rows."""
        if not self.columns:
            return
        scaled, missing = self.block.transform(np.stack([columns[j].values[rows] for j in self.columns]))
        result[:, self.places] = scaled.T
        result[:, self.indicators] = missing.T


def _sizes(encoder: AnyEncoder) -> tuple[int, ...]:
    """The sizes of the sets of inputs of a column that have a weight of their own."""
    if isinstance(encoder, GroupEncoder) and encoder.number is not None:
        return len(encoder.number.names), CODE_INPUTS
    return encoder.sizes if isinstance(encoder, TextEncoder | SteppedNumberEncoder) else (len(encoder.names),)


def _fact(name: str, kind: str, encoding: str, width: int, importance: float | None) -> dict[str, Any]:
    return {"name": name, "kind": kind, "encoding": encoding, "width": width, "importance": importance}


def _as_kind(column: RawColumn, kind: ColumnKind) -> RawColumn:
    """The values of a column in the form that its encoder reads."""
    if kind.kind in (CATEGORY, TEXT, column.form):
        return column
    wanted = DATE if kind.kind == DATE else NUMBER
    if column.missing.all():  # the values of a file say nothing of their kind
        empty = np.datetime64("NaT") if wanted == DATE else np.nan
        return RawColumn(column.name, wanted, np.full(len(column.values), empty, DATE_TYPE if wanted == DATE else None))
    if column.form == TEXT or (column.form == NUMBER and wanted == DATE):
        text_format = kind.writing or find_text_format(column, TEXT_FORMATS[wanted])
        if text_format is None and kind.kind == NUMBER and column.form == TEXT:  # a few rows, which may have marks only
            text_format = DECIMAL_POINT
        if text_format is not None:
            return parse_as(column, text_format)
    if DATE in (wanted, column.form) or column.form == TEXT:
        what = "dates such as 2024-01-31" if wanted == DATE else "numbers"
        raise InvalidData(
            f"column {column.name!r} must have {what}, as the training rows have; got {column.form}. Convert it, or "
            "fit again."
        )
    return column


def fit_encoding(
    table: RawTable,
    y: Array,  # (n,) numbers, or codes of classes
    classes: int,  # 0 for numbers
    *,
    given: Mapping[str, str] | None = None,
    kinds: Sequence[ColumnKind] | None = None,
    scaling: str = ROBUST,
    seed: int = 0,
    like: tuple[Encoding, Inputs] | None = None,
) -> tuple[Encoding, Inputs]:
    """Learn the encoding, and return it with the inputs of the training rows.

    Statistics of targets are cross-fitted: no training row is encoded with its own target. ``given`` replaces the
    decision on the kind of some columns, and ``kinds`` are the kinds of all columns, if they are known. ``like`` is the
    encoding and the inputs of the same rows with another scaling, which only numbers have.
    """
    kinds = kinds or decide_kinds(table, given)
    pairs = zip(table.columns, kinds, strict=True)
    used = [(_as_kind(column, kind), kind) for column, kind in pairs if kind.kind != DROP]
    columns = [column for column, _ in used]
    encoders: list[Any] = [None] * len(used)
    parts: dict[int, InputsOf] = {}
    plain = (
        [] if scaling.endswith(AND_STEPS) else [j for j, (_, kind) in enumerate(used) if kind.kind in (NUMBER, BOOLEAN)]
    )
    for j, encoder in zip(plain, fit_numbers([columns[j] for j in plain], scaling), strict=True):
        encoders[j] = encoder
    for j, (column, kind) in enumerate(used):
        known = like[0].encoders[j] if like else None
        if like and known is not None and not isinstance(known, SCALED):
            encoders[j], parts[j] = known, _part_of(like[1], j, int(like[0].places[j]), len(known.names))
        elif encoders[j] is None:
            encoders[j], parts[j] = fit_column(column, kind, y, classes, scaling, seed)
    encoding = Encoding(tuple(kinds), tuple(encoders), table.named)
    rows = EncodedRows((table.rows, encoding.width), encoding, columns, parts)
    return encoding, rows if table.rows * encoding.width > MAX_STORED else in_memory(rows)


InputsOf = Callable[[Array | slice], Array]  # k rows -> (k, width), the inputs of these training rows


def _encoded_by(encoder: AnyEncoder, column: RawColumn) -> InputsOf:
    return lambda rows: encoder.transform(column.some(rows))


def _part_of(x: Inputs, j: int, place: int, width: int) -> InputsOf:
    return x.parts[j] if isinstance(x, EncodedRows) else lambda rows: x[rows, place : place + width]


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """The inputs of many training rows, which are computed each time for the rows that are asked for.

    The rows of most searches and fits are few, so that no encoding of all rows is in memory.
    """

    shape: tuple[int, int]  # (n, d)
    encoding: Encoding
    columns: Sequence[RawColumn]  # that are encoded
    parts: Mapping[int, InputsOf]  # the inputs of those that are not numbers
    changes: tuple[tuple[np.ufunc, Array], ...] = ()  # multiplications and divisions by (d,), in turn

    def __getitem__(self, rows: Array | None) -> Array:  # (k,) -> (k, d), float32
        """Return the inputs of some rows, or of all."""
        if not self.columns:
            return np.zeros((self.shape[0] if rows is None else len(rows), self.shape[1]), dtype=np.float32)
        result = self.encoding.inputs(rows, self.columns, lambda j, some: self.parts[j](some))
        for change, factors in self.changes:
            change(result, factors, out=result)
        return result

    def __mul__(self, weights: Array) -> EncodedRows:
        return replace(self, changes=(*self.changes, (np.multiply, weights)))

    def __truediv__(self, weights: Array) -> EncodedRows:
        return replace(self, changes=(*self.changes, (np.divide, weights)))


Inputs = Any  # an array (n, d) in float32, or EncodedRows of this shape


def in_memory(x: Inputs) -> Inputs:
    """Return inputs of all rows in memory."""
    return x[None] if isinstance(x, EncodedRows) else x


def fit_column(
    column: RawColumn, kind: ColumnKind, y: Array, classes: int, scaling: str, seed: int
) -> tuple[AnyEncoder, InputsOf]:
    """Learn the encoding of one column, and return it with a function that computes the inputs of training rows."""
    encoder: AnyEncoder
    if kind.kind == DATE:
        encoder = fit_date(column)
    elif kind.kind == GROUP:
        encoder = fit_group(column, scaling.removesuffix(AND_STEPS), kind.code_size, with_number=kind.with_number)
    elif kind.kind == TEXT:
        return fit_text(column, y, classes, seed)
    elif kind.kind != CATEGORY:
        encoder = fit_stepped_number(column, scaling)
    else:
        rare = max(2, min(RARE_ROWS, round(RARE_SHARE * len(column.values))))
        levels = len(count_levels(column))
        frequent = fit_levels(column, rare, MAX_ONE_HOT if levels <= MAX_ONE_HOT else FREQUENT_LEVELS)
        enough = levels >= MIN_ORDERED and len(column.values) >= MIN_STATISTIC_ROWS
        if enough and classes <= MAX_STATISTIC_CLASSES:
            statistic, means = fit_target_encoding(column, y, classes, frequent, seed)
            return statistic, lambda rows: statistic.joined(means[rows], column.some(rows))
        encoder = frequent
    return encoder, _encoded_by(encoder, column)
