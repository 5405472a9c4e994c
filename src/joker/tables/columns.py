"""The kind of each column, decided once on the training rows: number, category, date, or left out with a reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidData, InvalidParameter, UnknownName
from joker.tables.frames import DATE, NUMBER, TEXT, RawColumn, RawTable

Array = NDArray[Any]
CATEGORY, GROUP, DROP, AUTO = "category", "group", "drop", "auto"
KINDS = (NUMBER, CATEGORY, GROUP, DATE, DROP, AUTO)
MIN_IDENTIFIER_ROWS = 30  # with fewer rows a column of distinct words may still be a category
IDENTIFIER_SHARE = 0.95  # distinct values, as a share of the rows, of a column of text that is an identifier
FREE_TEXT_WORDS = 5.0  # mean number of words of a column of distinct values that is free text
FREE_TEXT = "free text"
SAME_CORRELATION = 0.99999  # of two columns of numbers that are one up to unit and rounding
MAX_WHOLE = 2.0**53  # whole numbers of float64 are exact up to it
MAX_COMPARED = 512  # columns of numbers that are compared with one another
MAX_COMPARED_ROWS = 20_000
# With or without another word before it: id, record_id, PassengerId, caseid, rownames, seqno, row number.
IDENTIFIER_NAME = re.compile(
    r"|index|unnamed: \d+|uuid|guid|rows?|row[_ .-]?names?|(.*[_ .-])?id([_ .-]?(no|nr|num|number))?"
    r"|(?-i:.*[a-z0-9]I[dD])"
    r"|(case|customer|client|person|patient|user|subject|record|order|row|seq|serial)[_ .-]?(id|no|nr|number|index)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ColumnKind:
    """What a column is, and why it is left out if it is."""

    name: str
    kind: str  # NUMBER, BOOLEAN, CATEGORY, GROUP, DATE or DROP
    reason: str = ""  # of a column that is left out
    code_size: float = 1.0  # of the codes of a column of groups; 1: two groups differ like two z-scores
    with_number: bool = True  # whether a column of groups is also a number: neighbouring groups are similar
    writing: str = ""  # of numbers and dates that were text


def decide_kinds(table: RawTable, given: Mapping[str, str] | None = None) -> list[ColumnKind]:
    """Return the kind of each column; ``given`` replaces the decision for some columns."""
    given = checked_kinds(table, given)
    kinds = [replace(_kind(column, given.get(column.name, AUTO)), writing=column.writing) for column in table.columns]
    kinds = _without_same(table, kinds, given)
    if table.columns and all(kind.kind == DROP for kind in kinds):
        kinds = [_constant_kept(kind) for kind in kinds]
    return kinds


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
        return ColumnKind(name, DROP, "an identifier: whole numbers, all different")
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
    words = float(np.mean([len(value.split()) for value in list(distinct)[:1_000]]))
    if words >= FREE_TEXT_WORDS:
        return ColumnKind(name, DROP, f"{FREE_TEXT}: {words:.0f} words on average")
    return ColumnKind(name, DROP, f"an identifier: {len(distinct):,} distinct values")


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


def _constant_kept(kind: ColumnKind) -> ColumnKind:
    """A table whose columns are all constant still gives a model: the constant one."""
    return kind
