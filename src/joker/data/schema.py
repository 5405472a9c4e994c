"""What the columns of a table mean: the inputs in order, and the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from joker.errors import InvalidData, InvalidFile

SHOWN = 8  # names that a message lists before it stops


@dataclass(frozen=True)
class Column:
    """A column of a table: numbers, or a category that becomes one 0/1 column for each of its levels."""

    name: str
    levels: tuple[str, ...] | None = None  # of a category

    @property
    def kind(self) -> str:
        """``"number"`` or ``"category"``."""
        return "number" if self.levels is None else "category"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that it becomes."""
        return (self.name,) if self.levels is None else tuple(f"{self.name}={level}" for level in self.levels)

    def to_json(self) -> str | dict[str, Any]:
        """The name, and the levels where there are some."""
        return self.name if self.levels is None else {"name": self.name, "levels": list(self.levels)}

    @classmethod
    def from_json(cls, document: str | dict[str, Any]) -> Column:
        """Return the column that ``to_json`` described."""
        if isinstance(document, str):
            return cls(document)
        return cls(str(document["name"]), tuple(str(level) for level in document["levels"]))


@dataclass(frozen=True)
class Schema:
    """The inputs of a table in order, and its target.

    Examples
    --------
    >>> schema = Schema((Column("age"), Column("colour", ("blue", "red"))), target="price")
    >>> schema.names
    ('age', 'colour=blue', 'colour=red')
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    inputs: tuple[Column, ...]
    target: str | None = None
    text_target: bool = False  # the target is text, also where it looks like a number

    def __post_init__(self) -> None:
        if twice := repeated(column.name for column in self.inputs):
            raise InvalidData(f"names of columns must differ; {listed(twice)} is there more than once. Rename it.")

    @classmethod
    def numbers(cls, names: Iterable[str], target: str | None = None, text_target: bool = False) -> Schema:
        """Return the schema of inputs that are all numbers."""
        return cls(tuple(Column(name) for name in names), target, text_target)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that are handed out, those of a category's levels among them."""
        return tuple(name for column in self.inputs for name in column.names)

    @property
    def width(self) -> int:
        """The number of columns that are handed out."""
        return len(self.names)

    @property
    def is_numeric(self) -> bool:
        """Whether no input is a category."""
        return all(column.levels is None for column in self.inputs)

    def to_json(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        inputs = [column.to_json() for column in self.inputs]
        return {"inputs": inputs, "target": self.target, "text_target": self.text_target}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Schema:
        """Return the schema that ``to_json`` described."""
        try:
            inputs = tuple(Column.from_json(column) for column in document["inputs"])
            return cls(inputs, document["target"], bool(document["text_target"]))
        except (KeyError, TypeError) as error:
            raise InvalidFile(
                f"a schema must have inputs, target and text_target; reading one failed with {error!r}. "
                "Write it with Schema.to_json."
            ) from error


def unnamed(width: int) -> tuple[str, ...]:
    """Return names for columns that have none: x0, x1, ..."""
    return tuple(f"x{j}" for j in range(width))


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that are there more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def listed(names: Iterable[object]) -> str:
    """Return names for a message, the first few of many."""
    every = [repr(name) for name in names]
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more
