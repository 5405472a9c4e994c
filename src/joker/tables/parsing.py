"""Text columns parsed as numbers, dates or times of day.

The format is found on the training rows and stored, so that 2/3/2024 is the same day at prediction.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidData
from joker.tables.table import DATE, DATE_TYPE, NUMBER, TEXT, RawColumn, RawTable, read_table

Array = NDArray[Any]
MIN_SHARE = 0.95  # of the values of a column must have one format; a few words among them are then missing values
MAX_ODD_WORDS = 3  # distinct words of such a column
MIN_VALUES = 20  # distinct values of numbers with a unit or a bound; with fewer, a category has more information
CODE_DIGITS = 5  # whole numbers with at least so many digits, all of equal length, are codes such as ZIP codes
MAX_DAYS = 2**16  # distinct days that are kept: the times of a column share few of them
YEARS = (1900, 2100)  # of dates that are written as one number
EPOCH, ONE_DAY = datetime.datetime(1970, 1, 1), datetime.timedelta(days=1)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

# Words that mean a missing value where the other values of a column are numbers or dates; elsewhere they are levels.
MARKS = frozenset({"-", "--", "---", ".", "..", "...", "–", "—", "n.a.", "missing", "unknown", "not available"})
MONEY = r"(?:[$€£¥]\s?)?"
SIGN = r"[+\-\u2212]?"  # the minus sign of typography is not that of keyboards
UNIT = re.compile(r"(.*[\d.])\s?([A-Za-zµ°²³/]+)\.?")
BOUND = re.compile(r"(?:[<>≤≥~]=?)?\s?(.*?)\+?")
TIME = r"(\d{1,3}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?\s?([AaPp][Mm])?"
TIME_AFTER_DATE = re.compile(rf"(?:T|,?\s+){TIME}\s?(?:Z|UTC|[+-]\d{{2}}:?\d{{2}})?\Z")
CLOCK = re.compile(TIME)
MONTH_NAME = re.compile(r"([A-Za-z]{3})[A-Za-z]{0,6}\.?")
ZERO_FIRST = re.compile(r"0\d+")
CODE_NAME = re.compile(r"zip|post|plz|code|fips|phone|licen[cs]e|number|(^|[_ .-])(id|no|nr)$", re.IGNORECASE)
ONE_NUMBER, NAMED_MONTH = "one number", "named month"
# Formats of strptime by the names that model files have. The name of a month is replaced by @ and its number before:
# strptime reads the names of the language of the computer.
DATE_FORMATS = {
    "year first": ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d"),
    "month first": ("%m/%d/%Y", "%m-%d-%Y", "%m/%d/%y"),
    "day first": ("%d/%m/%Y", "%d-%m-%Y", "%d.%m.%Y", "%d/%m/%y"),
    NAMED_MONTH: ("@%m %d %Y", "@%m %d, %Y", "%d @%m %Y", "%d-@%m-%Y", "%d @%m %y", "%d-@%m-%y"),
    ONE_NUMBER: ("%Y%m%d",),
}


def parse_number(text: str, group: str, point: str) -> float | None:
    """A number such as ``1,234.5``, ``$12``, ``-$12``, ``12%``, or ``(12)`` for −12.

    ``group`` is the character between thousands, and ``point`` that before the fraction.
    """
    text = "-" + text[1:-1] if text[:1] == "(" and text[-1:] == ")" else text
    found = _number_pattern(group, point).fullmatch(text)
    signs = [] if found is None else [character for character in found[1] if character in "+-\u2212"]
    if found is None or len(signs) > 1:
        return None
    size = float(found[2].replace(group, "").replace(point, ".") + (found[3] or ""))
    return size if signs in ([], ["+"]) else -size


@cache
def _number_pattern(group: str, point: str) -> re.Pattern[str]:
    group, point = re.escape(group), re.escape(point)
    digits = rf"(?:\d{{1,3}}(?:{group}\d{{3}})+|\d+)(?:{point}\d*)?|{point}\d+"
    return re.compile(rf"({SIGN}{MONEY}{SIGN})({digits})([eE][+-]?\d+)?\s?[%$€£¥]?")


def parse_date(text: str, name: str) -> datetime.datetime | None:
    """A date, perhaps with a time of day, in one of the formats of a name."""
    found = TIME_AFTER_DATE.search(text)
    day = _parse_day(text if found is None else text[: found.start()], name)
    if day is None or found is None:
        return day
    time = _parse_time(found.groups())
    return None if time is None or time >= ONE_DAY else day + time


@lru_cache(maxsize=MAX_DAYS)
def _parse_day(text: str, name: str) -> datetime.datetime | None:
    """A day in one of the formats of a name; None if it has none of them, or there is no such day."""
    if name == NAMED_MONTH:
        text = MONTH_NAME.sub(_month_number, text)
    if name == ONE_NUMBER and not (len(text) == 8 and text.isdecimal() and YEARS[0] <= int(text[:4]) < YEARS[1]):
        return None
    for date_format in DATE_FORMATS[name]:
        with suppress(ValueError):
            return datetime.datetime.strptime(text, date_format)
    return None


def _month_number(found: re.Match[str]) -> str:
    name = found[1].lower()
    return f"@{MONTHS.index(name) + 1}" if name in MONTHS else found[0]


def parse_clock(text: str) -> datetime.datetime | None:
    """A time of day or a duration, such as ``9:05``, ``18:30:00`` or ``6:30 PM``, as a time after 1970-01-01."""
    found = CLOCK.fullmatch(text)
    time = None if found is None else _parse_time(found.groups())
    return None if time is None else EPOCH + time


DECIMAL_POINT = "decimal point"
NUMBERS: dict[str, Callable[[str], float | None]] = {
    DECIMAL_POINT: partial(parse_number, group=",", point="."),
    "decimal comma": partial(parse_number, group=".", point=","),
}
DATES: dict[str, Callable[[str], datetime.datetime | None]] = {
    **{name: partial(parse_date, name=name) for name in DATE_FORMATS},
    ONE_NUMBER: partial(_parse_day, name=ONE_NUMBER),  # without a time of day
    "clock": parse_clock,
}
IN_UNIT, WITH_BOUNDS = " in ", " with bounds"  # after the name of a format of numbers
# The formats that a column may have, by the kind that the user gives it.
TEXT_FORMATS = {"auto": (*DATES, *NUMBERS), "date": (*DATES,), "number": (*NUMBERS,), "group": (*NUMBERS,)}


def parse_text(table: RawTable, given: Mapping[str, str] | None) -> RawTable:
    """Return the table with numbers and dates in place of text that contains numbers, dates or times.

    ``given`` are the kinds that the user gives to some columns. Declared categories and codes remain text.
    """
    kinds = given if isinstance(given, Mapping) else {}
    return replace(table, columns=tuple(_parse_column(column, kinds.get(column.name)) for column in table.columns))


def _parse_column(column: RawColumn, kind: str | None) -> RawColumn:
    if column.declared_category and kind is None:
        return column
    text_format = find_text_format(column, TEXT_FORMATS.get(kind or "auto", ()))
    if text_format is None or (kind is None and text_format not in DATES and has_codes(column)):
        return column
    return parse_as(column, text_format)


def find_text_format(column: RawColumn, names: Collection[str]) -> str | None:
    """Return the first of some formats that the values of a column have; None if they have none of them."""
    if column.form == NUMBER:
        names = [name for name in names if name == ONE_NUMBER and _in_years(column.values)]
    elif column.form != TEXT:
        return None
    counts = _counts(column) if names else Counter()
    found = next((name for name in names if _fits(counts, parser(name))), None)
    if found is None and len(counts) >= MIN_VALUES:
        more = [name + how for name in names if name in NUMBERS for how in _number_suffixes(counts)]
        found = next((name for name in more if _fits(counts, parser(name))), None)
    return found


def _number_suffixes(counts: Counter[str]) -> list[str]:
    """Return the formats of numbers with bounds, and with the unit of the most frequent text with digits."""
    most = max(filter(has_digits, counts), key=counts.__getitem__, default="")
    unit = UNIT.fullmatch(BOUND.fullmatch(most)[1])  # type: ignore[index]  # it matches any text
    return [WITH_BOUNDS, *([] if unit is None else [IN_UNIT + _singular(unit[2])])]


def parser(text_format: str) -> Callable[[str], Any]:
    """Return the function that parses one value of a format."""
    if text_format in DATES:
        return DATES[text_format]
    name, _, unit = text_format.removesuffix(WITH_BOUNDS).partition(IN_UNIT)
    read = NUMBERS[name]
    if unit:
        return lambda text: parse_in_unit(text, read, unit)
    return (lambda text: parse_bound(text, read)) if text_format.endswith(WITH_BOUNDS) else read


def parse_bound(text: str, read: Callable[[str], float | None]) -> float | None:
    """A number that may be a bound: ``<0.5``, ``>= 100`` or ``10+``."""
    found = BOUND.fullmatch(text)
    return None if found is None else read(found[1].strip())


def parse_in_unit(text: str, read: Callable[[str], float | None], unit: str) -> float | None:
    """A number in a unit, perhaps a bound: ``12 km``, ``1 year``, ``2 years`` or ``10+ years``."""
    found = UNIT.fullmatch(text.replace("+", ""))
    return None if found is None or _singular(found[2]) != unit else parse_bound(found[1].strip(), read)


def _singular(unit: str) -> str:
    return unit.lower().removesuffix("s") or unit.lower()


def _in_years(values: Array) -> bool:
    low, high = np.nanmin(values, initial=np.inf), np.nanmax(values, initial=-np.inf)
    return bool(YEARS[0] * 10_000 < low < high < YEARS[1] * 10_000)


def _fits(counts: Counter[str], read: Callable[[str], Any]) -> bool:
    """Whether almost all values can be parsed; the others are marks of missing values or a few words without digits."""
    odd: list[str] = []
    total = 0
    for text, count in counts.items():
        if text.lower() in MARKS:
            continue
        total += count
        if read(text) is None:
            odd.append(text)
            if len(odd) > MAX_ODD_WORDS or has_digits(text):
                return False
    return total > 0 and sum(counts[text] for text in odd) <= (1 - MIN_SHARE) * total


def parse_numbers(
    values: Array,  # (n,)
    *,
    codes: bool = True,
) -> Array | None:  # (n,)
    """Return text such as ``$1,234`` as numbers, with NaN where a value is missing; None if it is other text.

    Without ``codes``, digits with a leading zero are other text.
    """
    column = read_table({"y": values}).columns[0]
    text_format = find_text_format(column, NUMBERS) if column.form == TEXT else None
    if text_format is None or (not codes and has_codes(column)):
        return None
    return parse_as(column, text_format).values


def has_digits(text: str) -> bool:
    """Whether a text contains a digit."""
    return any(character.isdigit() for character in text)


def has_codes(column: RawColumn) -> bool:
    """Whether text is codes of digits: some begin with 0, or all are long, equally long, and called a code."""
    present = {value.strip() for value in column.levels.names}
    if any(ZERO_FIRST.fullmatch(value) for value in present):
        return True
    lengths = {len(value) for value in present}
    equal = len(lengths) == 1 and min(lengths) >= CODE_DIGITS and all(value.isdigit() for value in present)
    return equal and CODE_NAME.search(column.name) is not None


def parse_as(column: RawColumn, text_format: str) -> RawColumn:
    """Return the values of a column of text; a word without digits is a missing value."""
    read, (texts, codes) = parser(text_format), _texts(column)
    present = {texts[code] for code in np.unique(codes[codes >= 0])}
    values = {text: read(text) for text in present if text.lower() not in MARKS}
    wrong = sorted(text for text, value in values.items() if value is None)
    what, form, dtype = ("dates or times", DATE, DATE_TYPE) if text_format in DATES else ("numbers", NUMBER, "float64")
    all_wrong = len(wrong) == len(present) and not column.missing.any()
    if bad := list(filter(has_digits, wrong)) or (wrong if all_wrong else []):
        raise InvalidData(
            f"column {column.name!r} must have {what}, as the training rows have, written alike ({text_format}); got "
            f"{bad[0]!r}. Correct it, or use a missing value."
        )
    parsed = np.array([*(values.get(text) for text in texts), None], dtype=dtype)
    return RawColumn(column.name, form, parsed[codes], text_format=text_format)


def _texts(column: RawColumn) -> tuple[list[str], Array]:
    """The distinct values of a column as text without spaces around it, and the place of each value; −1 if missing."""
    if column.form == NUMBER:
        present = ~np.isnan(column.values)
        distinct, places = np.unique(column.values[present], return_inverse=True)
        codes = np.full(len(column.values), -1)
        codes[present] = places.ravel()
        return [f"{value:.15g}" for value in distinct.tolist()], codes
    return [name.strip() for name in column.levels.names], column.levels.codes


def _counts(column: RawColumn) -> Counter[str]:
    """The number of values of each text."""
    texts, codes = _texts(column)
    counts: Counter[str] = Counter()
    for text, count in zip(texts, np.bincount(codes[codes >= 0], minlength=len(texts)).tolist(), strict=True):
        if count:
            counts[text] += count
    return counts


def _parse_time(parts: Sequence[str | None]) -> datetime.timedelta | None:
    """Hours, minutes, seconds, their fraction, and AM or PM, as a time; None if there is no such time."""
    hours, minutes, seconds = (int(part or 0) for part in parts[:3])
    if minutes > 59 or seconds > 60:
        return None
    if parts[4] is not None:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + (12 if parts[4].lower() == "pm" else 0)
    microseconds = int(f"{parts[3] or '0':0<6}"[:6])
    return datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=microseconds)
