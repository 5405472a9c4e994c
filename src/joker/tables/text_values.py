"""Text that is written numbers, dates or times of day: how a column is written, and its values.

The way of writing is found on the training rows and kept, so that 2/3/2024 is the same day at prediction.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidData
from joker.tables.frames import DATE, DATE_TYPE, NUMBER, TEXT, RawColumn, RawTable, read_table

Array = NDArray[Any]
MIN_SHARE = 0.95  # of the values of a column must be of one writing; a few words among them are then missing values
MAX_ODD_WORDS = 3  # distinct words of such a column
MIN_VALUES = 20  # distinct values of numbers with a unit or a bound; with fewer, a category has more information
CODE_DIGITS = 5  # whole numbers with at least so many digits, all of equal length, are codes such as ZIP codes
PIVOT_YEAR = 69  # two-digit years from it on are of the twentieth century
YEARS = (1900, 2100)  # of dates that are written as one number
EPOCH = datetime.datetime(1970, 1, 1)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

# Words that mean a missing value where the other values of a column are numbers or dates; elsewhere they are levels.
MARKS = frozenset({"-", "--", "---", ".", "..", "...", "–", "—", "n.a.", "missing", "unknown", "not available"})
MONEY = r"(?:[$€£¥]\s?)?"
SIGN = r"[+\-\u2212]?"  # the minus sign of typography is not that of keyboards
UNIT = re.compile(r"(.*[\d.])\s?([A-Za-zµ°²³/]+)\.?")
BOUND = re.compile(r"(?:[<>≤≥~]=?)?\s?(.*?)\+?")
TIME = r"(?:(?:T|,?\s+)(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?\s?([AaPp][Mm])?\s?(?:Z|UTC|[+-]\d{2}:?\d{2})?)?"
POINT = re.compile(rf"({SIGN}{MONEY}{SIGN})((?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?\s?[%$€£¥]?")
COMMA = re.compile(rf"({SIGN}{MONEY}{SIGN})((?:\d{{1,3}}(?:\.\d{{3}})+|\d+)(?:,\d*)?)([eE][+-]?\d+)?\s?[%$€£¥]?")
ZERO_FIRST = re.compile(r"0\d+")
CODE_NAME = re.compile(r"zip|post|plz|code|fips|phone|licen[cs]e|number|(^|[_ .-])(id|no|nr)$", re.IGNORECASE)
YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})" + TIME)
YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})" + TIME)
SHORT_YEAR_LAST = re.compile(r"(\d{1,2})(/)(\d{1,2})/(\d{2})" + TIME)
NAMED_MONTH_FIRST = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2}),? (\d{4})" + TIME)
DAY_NAMED_MONTH = re.compile(r"(\d{1,2})([- ])([A-Za-z]{3,9})\.?\2(\d{4}|\d{2})" + TIME)
ONE_NUMBER = re.compile(r"(\d{4})(\d{2})(\d{2})")
CLOCK = re.compile(r"(\d{1,3}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?\s?([AaPp][Mm])?")


def read_point(text: str) -> float | None:
    """A number with a decimal point: ``1,234.5``, ``$12``, ``-$12``, ``12%``, or ``(12)`` for −12."""
    found = POINT.fullmatch(_without_brackets(text))
    return None if found is None else _signed(found, found[2].replace(",", ""))


def read_comma(text: str) -> float | None:
    """A number with a decimal comma: ``1.234,5``."""
    found = COMMA.fullmatch(_without_brackets(text))
    return None if found is None else _signed(found, found[2].replace(".", "").replace(",", "."))


def _without_brackets(text: str) -> str:
    return "-" + text[1:-1] if text[:1] == "(" and text[-1:] == ")" else text


def _signed(found: re.Match[str], digits: str) -> float | None:
    """The number of its digits, its exponent and what is before them; None if that has two signs."""
    signs = [character for character in found[1] if character in "+-\u2212"]
    if len(signs) > 1:
        return None
    size = float(digits + (found[3] or ""))
    return size if signs in ([], ["+"]) else -size


def read_year_first(text: str) -> datetime.datetime | None:
    """A date such as ``2024-01-31 12:30`` or ``2024/1/31``."""
    found = YEAR_FIRST.fullmatch(text)
    return None if found is None else _date(found[1], found[3], found[4], found.groups()[4:])


def read_month_first(text: str) -> datetime.datetime | None:
    """A date such as ``1/31/2024`` or ``1/31/24 18:30``."""
    found = YEAR_LAST.fullmatch(text) or SHORT_YEAR_LAST.fullmatch(text)
    return None if found is None or found[2] == "." else _date(found[4], found[1], found[3], found.groups()[4:])


def read_day_first(text: str) -> datetime.datetime | None:
    """A date such as ``31.1.2024`` or ``31/01/2024``."""
    found = YEAR_LAST.fullmatch(text) or SHORT_YEAR_LAST.fullmatch(text)
    return None if found is None else _date(found[4], found[3], found[1], found.groups()[4:])


def read_named_month(text: str) -> datetime.datetime | None:
    """A date such as ``Jan 31, 2024``, ``31 January 2024`` or ``31-Jan-24``."""
    if (found := NAMED_MONTH_FIRST.fullmatch(text)) is not None:
        return _date(found[3], _month(found[1]), found[2], found.groups()[3:])
    found = DAY_NAMED_MONTH.fullmatch(text)
    return None if found is None else _date(found[4], _month(found[3]), found[1], found.groups()[4:])


def read_one_number(text: str) -> datetime.datetime | None:
    """A date such as ``20240131``."""
    found = ONE_NUMBER.fullmatch(text)
    if found is None or not YEARS[0] <= int(found[1]) < YEARS[1]:
        return None
    return _date(found[1], found[2], found[3], (None,) * 5)


def read_clock(text: str) -> datetime.datetime | None:
    """A time of day or a duration, such as ``9:05``, ``18:30:00`` or ``6:30 PM``, as a time after 1970-01-01."""
    found = CLOCK.fullmatch(text)
    time = None if found is None else _time(found.groups())
    return None if time is None else EPOCH + time


DECIMAL_POINT = "decimal point"
NUMBERS: dict[str, Callable[[str], float | None]] = {DECIMAL_POINT: read_point, "decimal comma": read_comma}
DATES: dict[str, Callable[[str], datetime.datetime | None]] = {
    "year first": read_year_first,
    "month first": read_month_first,
    "day first": read_day_first,
    "named month": read_named_month,
    "one number": read_one_number,
    "clock": read_clock,
}
IN_UNIT, WITH_BOUNDS = " in ", " with bounds"  # after the name of a writing of numbers
# The writings that a column may have, by the kind that the user gives it.
WRITINGS = {"auto": (*DATES, *NUMBERS), "date": (*DATES,), "number": (*NUMBERS,), "group": (*NUMBERS,)}


def with_values(table: RawTable, given: Mapping[str, str] | None) -> RawTable:
    """Return the table with numbers and dates in place of text that is written numbers, dates or times.

    ``given`` are the kinds that the user gives to some columns. Declared categories and codes remain text.
    """
    kinds = given if isinstance(given, Mapping) else {}
    return replace(table, columns=tuple(_with_values(column, kinds.get(column.name)) for column in table.columns))


def _with_values(column: RawColumn, kind: str | None) -> RawColumn:
    if column.declared_category and kind is None:
        return column
    writing = find_writing(column, WRITINGS.get(kind or "auto", ()))
    if writing is None or (kind is None and writing not in DATES and has_codes(column)):
        return column
    return read_as(column, writing)


def find_writing(column: RawColumn, names: Collection[str]) -> str | None:
    """Return how the values of a column are written, among some writings; None if in no such way."""
    if column.form == NUMBER:
        names = [name for name in names if name == "one number" and _in_years(column.values)]
    elif column.form != TEXT:
        return None
    counts = Counter(text for text in _texts(column) if text is not None) if names else Counter()
    found = next((name for name in names if _is_written(counts, reader(name))), None)
    if found is None and len(counts) >= MIN_VALUES:
        more = [name + how for name in names if name in NUMBERS for how in _more_writings(counts)]
        found = next((name for name in more if _is_written(counts, reader(name))), None)
    return found


def _more_writings(counts: Counter[str]) -> list[str]:
    """Return what may be said of numbers beside their digits: bounds, and the unit of the most frequent text."""
    unit = UNIT.fullmatch(BOUND.fullmatch(counts.most_common(1)[0][0])[1])  # type: ignore[index]  # it matches any text
    return [WITH_BOUNDS, *([] if unit is None else [IN_UNIT + _singular(unit[2])])]


def reader(writing: str) -> Callable[[str], Any]:
    """Return the function that reads one value of a writing."""
    if writing in DATES:
        return DATES[writing]
    name, _, unit = writing.removesuffix(WITH_BOUNDS).partition(IN_UNIT)
    read = NUMBERS[name]
    if unit:
        return lambda text: read_in_unit(text, read, unit)
    return (lambda text: read_bound(text, read)) if writing.endswith(WITH_BOUNDS) else read


def read_bound(text: str, read: Callable[[str], float | None]) -> float | None:
    """A number that may be a bound: ``<0.5``, ``>= 100`` or ``10+``."""
    found = BOUND.fullmatch(text)
    return None if found is None else read(found[1].strip())


def read_in_unit(text: str, read: Callable[[str], float | None], unit: str) -> float | None:
    """A number in a unit, perhaps a bound: ``12 km``, ``1 year``, ``2 years`` or ``10+ years``."""
    found = UNIT.fullmatch(text.replace("+", ""))
    return None if found is None or _singular(found[2]) != unit else read_bound(found[1].strip(), read)


def _singular(unit: str) -> str:
    return unit.lower().removesuffix("s") or unit.lower()


def _in_years(values: Array) -> bool:
    low, high = np.nanmin(values, initial=np.inf), np.nanmax(values, initial=-np.inf)
    return bool(YEARS[0] * 10_000 < low < high < YEARS[1] * 10_000)


def _is_written(counts: Counter[str], read: Callable[[str], Any]) -> bool:
    """Whether almost all values can be read; the others are marks of missing values or a few words without digits."""
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


def written_numbers(
    values: Array,  # (n,)
    *,
    codes: bool = True,
) -> Array | None:  # (n,)
    """Return text that is written numbers as numbers, with NaN where a value is missing; None if it is other text.

    Without ``codes``, digits with a leading zero are other text.
    """
    column = read_table({"y": values}).columns[0]
    writing = find_writing(column, NUMBERS) if column.form == TEXT else None
    if writing is None or (not codes and has_codes(column)):
        return None
    return read_as(column, writing).values


def has_digits(text: str) -> bool:
    """Whether a text contains a digit."""
    return any(character.isdigit() for character in text)


def has_codes(column: RawColumn) -> bool:
    """Whether text is codes of digits: some begin with 0, or all are long, equally long, and called a code."""
    present = {value.strip() for value in column.values if value is not None}
    if any(ZERO_FIRST.fullmatch(value) for value in present):
        return True
    lengths = {len(value) for value in present}
    equal = len(lengths) == 1 and min(lengths) >= CODE_DIGITS and all(value.isdigit() for value in present)
    return equal and CODE_NAME.search(column.name) is not None


def read_as(column: RawColumn, writing: str) -> RawColumn:
    """Return the values of a column of text; a word without digits is a missing value."""
    read = reader(writing)
    texts = _texts(column)
    values = {text: None if text is None or text.lower() in MARKS else read(text) for text in set(texts)}
    wrong = [text for text, value in values.items() if value is None and text is not None and text.lower() not in MARKS]
    if bad := sorted(text for text in wrong if has_digits(text)) or (wrong if len(wrong) == len(set(texts)) else []):
        what = "dates or times" if writing in DATES else "numbers"
        raise InvalidData(
            f"column {column.name!r} must have {what}, as the training rows have, written alike ({writing}); got "
            f"{bad[0]!r}. Correct it, or use a missing value."
        )
    if writing not in DATES:
        numbers = [np.nan if (value := values[text]) is None else value for text in texts]
        return RawColumn(column.name, NUMBER, np.array(numbers, dtype=np.float64), writing=writing)
    dates = [np.datetime64("NaT") if (value := values[text]) is None else np.datetime64(value) for text in texts]
    return RawColumn(column.name, DATE, np.array(dates, dtype=DATE_TYPE), writing=writing)


def _texts(column: RawColumn) -> list[str | None]:
    """The values of a column as text without spaces around it; None where missing."""
    if column.form == NUMBER:
        return [None if np.isnan(value) else f"{value:.15g}" for value in column.values]
    return [None if value is None else value.strip() for value in column.values]


def _month(name: str) -> str:
    """The number of a month, or 0."""
    return str(MONTHS.index(name[:3].lower()) + 1) if name[:3].lower() in MONTHS else "0"


def _date(year: str, month: str, day: str, time: Sequence[str | None]) -> datetime.datetime | None:
    """A date of its parts; None if there is no such day or time."""
    full = int(year) + (0 if len(year) == 4 else 1900 if int(year) >= PIVOT_YEAR else 2000)
    of_day = _time(time) if time[0] is not None else datetime.timedelta()
    if of_day is None or of_day >= datetime.timedelta(days=1):
        return None
    try:
        return datetime.datetime(full, int(month), int(day)) + of_day
    except (ValueError, OverflowError):
        return None


def _time(parts: Sequence[str | None]) -> datetime.timedelta | None:
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
