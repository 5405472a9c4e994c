"""What the fields of a model file must be: one description of each, which is checked when the file is read.

The checksum of a file says that its bytes are those that were written, and nothing of who has written them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from joker.errors import InvalidFile

ANY, FLAG, LABEL, NUMBER, PART, RECORD, TEXT, WHOLE = (
    "any",
    "flag",
    "label",
    "number",
    "part",
    "record",
    "text",
    "whole",
)
TITLES = {  # of a value of a kind, and of several
    FLAG: ("a truth value", "truth values"),
    LABEL: ("a class", "classes: numbers or text"),
    NUMBER: ("a number", "numbers"),
    PART: ("a part of a model", "parts of a model"),
    RECORD: ("a record", "records"),
    TEXT: ("text", "texts"),
    WHOLE: ("a whole number", "whole numbers"),
}
ARRAY_TYPES = {NUMBER: "fiu", WHOLE: "iu", FLAG: "b", TEXT: "U", LABEL: "bfiuU"}  # letters of NumPy
# The kinds of fields of dataclasses that are not described, by their annotations.
ANNOTATED = {"bool": FLAG, "float": NUMBER, "int": WHOLE, "str": TEXT}
MAX_SHOWN = 200  # characters of a wrong value in a message

Sizes = dict[str, int]
Rule = tuple[
    str, Callable[[Mapping[str, Any]], bool]
]  # what must hold, and whether it holds for the values of a record


@dataclass(frozen=True)
class Field:
    """What a value must be: its kind, its shape, its range, and the sizes that it has in common with others.

    A size is a number or a name, which stands for the same number in all fields of a record; None is any number.
    Numbers must be finite unless ``finite`` is False.
    """

    kind: str = ANY
    shape: tuple[int | str | None, ...] = ()
    container: type = np.ndarray  # of several values
    single: bool = False  # whether one value is right too, in place of an array
    low: float = -math.inf
    high: float = math.inf
    open: bool = False  # whether the limits themselves are excluded
    finite: bool = True
    optional: bool = False  # whether it may be missing
    nullable: bool = False  # whether it may be None
    distinct: bool = False
    ascending: bool = False
    among: Collection[Any] = ()
    of: tuple[type, ...] = ()  # the classes of a PART
    record: Fields | None = None  # the fields of a RECORD
    size: str = ""  # the name of the size that a whole number is

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        """Raise InvalidFile if a value is another one than this."""
        if value is None and self.nullable:
            return
        if self.kind == ANY:
            if self.finite:
                _check_finite(name, value)
        elif not self._has_shape(value, sizes) or not self._has_values(value):
            shown = " ".join(repr(value).split())
            shown = shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
            raise InvalidFile(f"{name} must be {self._requirement(sizes)}; got {shown}")
        if self.record is not None:
            for one in value:
                self.record.check(name, one)
        if self.size and sizes.setdefault(self.size, int(value)) != value:
            raise InvalidFile(f"{name} must be {sizes[self.size]}, as other parts of the file say; got {value}")

    def _has_shape(self, value: Any, sizes: Sizes) -> bool:
        shape = _shape(self.kind, value)
        if shape is None or (self.single and shape == ()):
            return shape is not None
        if self.shape and not isinstance(value, self.container):
            return False
        wanted = self.shape
        if len(shape) != len(wanted) or any(type(w) is int and w != n for w, n in zip(wanted, shape, strict=True)):
            return False
        return all(sizes.setdefault(w, n) == n for w, n in zip(wanted, shape, strict=True) if isinstance(w, str))

    def _has_values(self, value: Any) -> bool:
        if self.kind in (PART, RECORD):
            values = value if self.shape else [value]
            kinds = self.of if self.kind == PART else (dict,)
            return all(isinstance(one, kinds) for one in values)
        if self.kind not in (NUMBER, WHOLE):
            values = [value] if self.shape == () else list(value)
            known = not self.among or all(one in self.among for one in values)
            return known and _are_finite(values) and (not self.distinct or len(set(values)) == len(values))
        numbers = np.asarray(value)
        if self.finite and not np.isfinite(numbers).all():
            return False
        inside = (
            (self.low < numbers) & (numbers < self.high)
            if self.open
            else (self.low <= numbers) & (numbers <= self.high)
        )
        if numbers.ndim == 1 and self.ascending and (np.diff(numbers) < 0).any():
            return False
        return bool((inside | np.isnan(numbers)).all()) and (
            not self.distinct or len(np.unique(numbers)) == numbers.size
        )

    def _requirement(self, sizes: Sizes) -> str:
        words = [TITLES[self.kind][bool(self.shape)]]
        if self.kind == PART:
            words = [" or ".join(one.__name__ for one in self.of)]
        words += [f"among {', '.join(map(str, self.among))}"] if self.among else []
        if self.kind in (NUMBER, WHOLE):
            words += ["that are finite" if self.shape else "that is finite"] if self.finite else []
            limits = (
                ("greater than" if self.open else "at least", self.low),
                ("less than" if self.open else "at most", self.high),
            )
            words += [f"{word} {limit:g}" for word, limit in limits if math.isfinite(limit)]
        words += [word for word, on in (("distinct", self.distinct), ("ascending", self.ascending)) if on]
        if any(size is not None for size in self.shape):
            shape = [str(sizes.get(size, size)) if isinstance(size, str) else str(size or "any") for size in self.shape]
            words.append(f"of shape ({', '.join(shape)})")
        return ", ".join(words)


@dataclass(frozen=True)
class Fields:
    """The fields of a part of a file, and the rules for what they have in common beside their sizes.

    ``others`` describes all entries that have no field here.
    """

    fields: Mapping[str, Field] = field(default_factory=dict)
    rules: Sequence[Rule] = ()
    others: Field = Field(nullable=True)  # it is frozen

    def check(self, what: str, values: Mapping[str, Any], sizes: Sizes | None = None, **context: Any) -> None:
        """Raise InvalidFile if values by name are other ones than these; rules see the context too."""
        sizes = {} if sizes is None else sizes
        if not all(isinstance(name, str) for name in values):
            raise InvalidFile(f"the names of the entries of {what} must be text; got {[*values]}")
        for name, one in self.fields.items():
            if name in values:
                one.check(f"{name} of {what}", values[name], sizes)
            elif not one.optional:
                raise InvalidFile(f"{what} must have the entry {name!r}; it has not")
        for name in values.keys() - self.fields.keys():
            self.others.check(f"{name} of {what}", values[name], sizes)
        everything = {**dict.fromkeys(self.fields), **values, **context}
        for sentence, holds in self.rules:
            if not holds(everything):
                raise InvalidFile(f"in {what}, {sentence}; they do not agree")


def annotated(annotation: Any) -> Field:
    """Return the description of a field of a dataclass that has none of its own."""
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    of_tuple = re.fullmatch(r"tuple\[(\w+), \.\.\.\]", name)
    kind = ANNOTATED.get(of_tuple[1] if of_tuple else name, ANY)
    return Field(kind, (None,) if of_tuple else (), container=tuple, nullable=kind == ANY)


def _shape(kind: str, value: Any) -> tuple[int, ...] | None:
    """Return the shape of a value, () of a single one; None if it is of another kind."""
    if isinstance(value, np.ndarray | np.generic):
        text = value.dtype == object and kind in (TEXT, LABEL) and all(type(one) is str for one in value.flat)
        return value.shape if text or value.dtype.kind in ARRAY_TYPES.get(kind, "") else None
    if isinstance(value, list | tuple):
        known = kind in (PART, RECORD) or all(_shape(kind, one) == () for one in value)
        return (len(value),) if known else None
    types: Any = {NUMBER: (float, int), WHOLE: int, FLAG: bool, TEXT: str, LABEL: (str, float, int)}.get(kind, object)
    if not isinstance(value, types) or (isinstance(value, bool) and kind in (NUMBER, WHOLE)):
        return None
    return None if isinstance(value, int) and not -(2**63) <= value < 2**64 else ()


def _are_finite(values: Sequence[Any]) -> bool:
    return all(math.isfinite(value) for value in values if isinstance(value, float | np.floating))


def _check_finite(name: str, value: Any) -> None:
    """Refuse NaN and infinity anywhere in a value."""
    if isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            _check_finite(name, one)
    elif isinstance(value, Tensor):
        if not bool(value.isfinite().all()):
            raise InvalidFile(f"{name} must be finite; it holds NaN or infinite entries")
    elif np.asarray(value).dtype.kind == "f" and not np.isfinite(value).all():
        raise InvalidFile(f"{name} must be finite; got {value!r}")
