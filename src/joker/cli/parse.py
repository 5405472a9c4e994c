"""What is written on a command line as numbers, paths of λ and lists."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from joker.errors import InvalidParameter

AUTO, EXACT = "auto", "exact"
MOST = 1_000  # values that a range may have: more is a slip of the pen
_POWER = re.compile(r"([^^]+)\^([^^]+)")


def number(text: str, what: str) -> float:
    """Read a number: 0.1, 1e-3 or a power such as 2^-7.

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
    """Read λ: one number, or a path of them.

    A path is a list with commas. ``2^-7:2^7`` in it stands for all powers in between, each one exponent after the
    other; ``0.001:10:5`` stands for five numbers from 0.001 to 10, each the same multiple of the one before.

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
    """Read the number of features: a whole number, "auto", or "exact" for the kernel itself."""
    return None if text == EXACT else whole(text, "-m", AUTO, EXACT)


def whole(text: str, what: str, *words: str) -> int | str:
    """Read a whole number, or one of the words that may stand in its place."""
    if text in words:
        return text
    try:
        return int(text.replace("_", ""))
    except ValueError:
        others = "".join(f" or {word!r}" for word in words)
        raise InvalidParameter(f"{what} must be a whole number{others}; got {text!r}. Use 512, for one.") from None


def number_or_word(text: str, what: str) -> float | str:
    """Read a number where the text begins like one; else it is a word, which the library knows or not."""
    return number(text, what) if re.match(r"[-+.\d]", text) else text


def bandwidth(text: str) -> float | str | list[float]:
    """Read a bandwidth: a number, a rule, or a list with a number for each input.

    >>> bandwidth("median"), bandwidth("0.5,2")
    ('median', [0.5, 2.0])
    """
    return numbers(text, "--bandwidth") if "," in text else number_or_word(text, "--bandwidth")


def numbers(text: str, what: str) -> float | list[float]:
    """Read a number, or several with commas in between."""
    values = [number(term.strip(), what) for term in text.split(",")]
    return values if len(values) > 1 else values[0]


def names(text: str | None) -> list[str] | None:
    """Read names of columns with commas in between."""
    return None if text is None else [name.strip() for name in text.split(",")]


def class_weights(text: str | None, classes: Any) -> dict[Any, float] | str | None:
    """Read "balanced", or weights of classes: ``ham=1,spam=5``.

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
    """The class that is written so: by its text, or by its value where classes are numbers."""
    if name in known:
        return known[name]
    same = [label for label in known.values() if not isinstance(label, str) and str(float(label)) == _plain(name)]
    return same[0] if same else None


def _plain(name: str) -> str:
    try:
        return str(float(name))
    except ValueError:
        return name


def _range(term: str) -> list[float]:
    """The values that a term of a path stands for."""
    ends = term.split(":")
    if len(ends) == 1:
        return [number(term, "lam")]
    low, high = number(ends[0], "lam"), number(ends[1], "lam")
    if len(ends) == 2:
        return _powers(term, *ends)
    count = whole(ends[2], "the number of values of lam")
    if len(ends) > 3 or not isinstance(count, int) or not 2 <= count <= MOST or not 0 < low < math.inf or high <= 0:
        raise InvalidParameter(
            f"a range of lam must be FIRST:LAST:COUNT, with two positive numbers and a count from 2 to {MOST}; "
            f"got {term!r}. Use 0.001:10:5, for one."
        )
    return [float(value) for value in np.geomspace(low, high, count)]


def _powers(term: str, first: str, last: str) -> list[float]:
    """The powers of a base from one exponent to another."""
    ends = _POWER.fullmatch(first), _POWER.fullmatch(last)
    if not ends[0] or not ends[1] or float(ends[0][1]) != float(ends[1][1]):
        raise InvalidParameter(
            f"a range of lam must be of powers of one number, such as 2^-7:2^7, or have a count, such as 0.001:10:5; "
            f"got {term!r}. Correct it."
        )
    base, begin, end = float(ends[0][1]), float(ends[0][2]), float(ends[1][2])
    steps = abs(end - begin)
    if not steps.is_integer() or steps >= MOST:
        raise InvalidParameter(
            f"the exponents of a range of lam must differ by a whole number below {MOST}; got {term!r}. "
            "Give a count, such as 0.001:10:5."
        )
    return [base ** (begin + math.copysign(step, end - begin)) for step in range(int(steps) + 1)]
