"""Parsers for the values of options: numbers, several λ, and lists."""

from __future__ import annotations

import csv
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from joker.errors import InvalidParameter

AUTO, EXACT = "auto", "exact"
MAX_RANGE_VALUES = 1_000  # a range of λ with more values is a mistake
_POWER = re.compile(r"([^^]+)\^([^^]+)")


class FolderPath(type(Path())):  # type: ignore[misc]
    """A path that ends in a slash, which a Path does not keep."""


def output_path(text: str) -> Path:
    """Return the path of a file to write; a FolderPath, which is refused later, if it ends in a slash."""
    return FolderPath(text) if text.endswith(("/", os.sep)) else Path(text)


def number(text: str, what: str) -> float:
    """Parse a number: 0.1, 1e-3 or a power such as 2^-7.

    >>> number("2^-3", "lam")
    0.125
    """
    power = _POWER.fullmatch(text)
    try:
        value = float(power[1]) ** float(power[2]) if power else float(text)
    except (ArithmeticError, ValueError):
        value = math.nan
    if not isinstance(value, float) or math.isnan(value):
        raise InvalidParameter(f"{what} must be a number such as 0.1, 1e-3 or 2^-7; got {text!r}. Correct it.")
    return value


def penalties(text: str) -> float | list[float]:
    """Parse λ: one number, or a list of numbers and ranges with commas.

    The range ``2^-7:2^7`` stands for all powers with exponents −7, −6, … 7. The range ``0.001:10:5`` stands for five
    numbers from 0.001 to 10 with equal ratios.

    >>> penalties("0.5")
    0.5
    >>> penalties("2^-1:2^2,100")
    [0.5, 1.0, 2.0, 4.0, 100.0]
    >>> penalties("0.1:10:3")
    [0.1, 1.0, 10.0]
    """
    terms = [term.strip() for term in text.split(",")]
    values = [value for term in terms for value in _range(term)]
    return values if len(terms) > 1 or ":" in text else values[0]


def features(text: str) -> int | str | None:
    """Parse the number of features: a whole number, "auto", or "exact" for the exact kernel."""
    return None if text == EXACT else whole(text, "-m", AUTO, EXACT)


def whole(text: str, what: str, *words: str) -> int | str:
    """Parse a whole number, or one of the words that may replace it."""
    if text in words:
        return text
    try:
        return int(text.replace("_", ""))
    except ValueError:
        others = "".join(f" or {word!r}" for word in words)
        raise InvalidParameter(f"{what} must be a whole number{others}; got {text!r}. Use for example 512.") from None


def number_or_word(text: str, what: str) -> float | str:
    """Parse a number if the text begins like one; else return the text, which the library checks."""
    return number(text, what) if re.match(r"[-+.\d]", text) else text


def bandwidth(text: str) -> float | str | list[float]:
    """Parse a bandwidth: a number, a rule, or a list with a number for each input.

    >>> bandwidth("median"), bandwidth("0.5,2")
    ('median', [0.5, 2.0])
    """
    return numbers(text, "--bandwidth") if "," in text else number_or_word(text, "--bandwidth")


def numbers(text: str, what: str) -> float | list[float]:
    """Parse a number, or several numbers with commas."""
    values = [number(term.strip(), what) for term in text.split(",")]
    return values if len(values) > 1 else values[0]


def names(text: str | None) -> list[str] | None:
    """Parse names with commas; a name with a comma is in quotation marks.

    >>> names('age, "height, in cm"')
    ['age', 'height, in cm']
    """
    if text is None:
        return None
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True))]


def kinds(text: str | None) -> dict[str, str] | None:
    """Parse kinds of columns: ``zip=category,note=drop``.

    >>> kinds("zip=category, note=drop")
    {'zip': 'category', 'note': 'drop'}
    """
    if text is None:
        return None
    pairs = [term.rpartition("=") for term in names(text) or []]
    if not all(name and kind for name, _, kind in pairs):
        raise InvalidParameter(f"--kinds must be names with kinds, such as zip=category; got {text!r}. Correct it.")
    return {name.strip(): kind.strip() for name, _, kind in pairs}


def class_weights(text: str | None, classes: Any) -> dict[Any, float] | str | None:
    """Parse "balanced", or weights of classes: ``ham=1,spam=5``.

    >>> class_weights("0=1,1=2.5", np.array([0, 1]))
    {0: 1.0, 1: 2.5}
    """
    if text is None or text == "balanced":
        return text
    known = {str(label): label for label in np.asarray(classes).tolist()}
    weights = {}
    for term in text.split(","):
        name, equals, weight = term.strip().rpartition("=")
        if not equals or _label(name, known) is None:
            raise InvalidParameter(
                f"--class-weight must be 'balanced', or a weight for some of the classes {', '.join(known)}, such as "
                f"{next(iter(known))}=2; got {text!r}. Correct it."
            )
        weights[_label(name, known)] = number(weight, "--class-weight")
    return weights


def _label(name: str, known: dict[str, Any]) -> Any:
    """The class with this name, or with this value if classes are numbers; None if there is none."""
    by_value = {float(label): label for label in known.values() if not isinstance(label, str)}
    try:
        return known[name] if name in known else by_value.get(float(name))
    except ValueError:
        return None


def _range(term: str) -> list[float]:
    """The values of a term of a list of λ."""
    ends = term.split(":")
    if len(ends) == 1:
        return [number(term, "lam")]
    low, high = number(ends[0], "lam"), number(ends[1], "lam")
    if len(ends) == 2:
        return _powers(term, *ends)
    count = whole(ends[2], "the number of values of lam")
    valid = len(ends) == 3 and 0 < low < math.inf and high > 0
    if not valid or not isinstance(count, int) or not 2 <= count <= MAX_RANGE_VALUES:
        raise InvalidParameter(
            f"a range of lam must be FIRST:LAST:COUNT, with two positive numbers and a count from 2 to "
            f"{MAX_RANGE_VALUES}; got {term!r}. Use for example 0.001:10:5."
        )
    return [float(value) for value in np.geomspace(low, high, count)]


def _powers(term: str, first: str, last: str) -> list[float]:
    """The powers of a base for all exponents of a range."""
    ends = _POWER.fullmatch(first), _POWER.fullmatch(last)
    if not ends[0] or not ends[1] or float(ends[0][1]) != float(ends[1][1]):
        raise InvalidParameter(
            f"a range of lam must be of powers of one number, such as 2^-7:2^7, or have a count, such as 0.001:10:5; "
            f"got {term!r}. Correct it."
        )
    base, begin, end = float(ends[0][1]), float(ends[0][2]), float(ends[1][2])
    steps = abs(end - begin)
    if not steps.is_integer() or steps >= MAX_RANGE_VALUES:
        raise InvalidParameter(
            f"the exponents of a range of lam must differ by a whole number below {MAX_RANGE_VALUES}; got {term!r}. "
            "Give a count, such as 0.001:10:5."
        )
    return [base ** (begin + math.copysign(step, end - begin)) for step in range(int(steps) + 1)]
