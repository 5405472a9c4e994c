"""The columns of a table: the inputs in order, and the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from joker.errors import InvalidData, InvalidFile

MAX_LISTED = 8  # names in a message


@dataclass(frozen=True)
class Column:
    """A column of a table: numbers, or a category that becomes one 0/1 column for each of its levels.

    Parameters
    ----------
    name : str
        The name of the column.
    levels : tuple of str, optional
        The levels of a category; None for numbers.

    Examples
    --------
    >>> from joker.data import Column
    >>> Column("colour", ("blue", "red")).names
    ('colour=blue', 'colour=red')
    """

    name: str
    levels: tuple[str, ...] | None = None  # of a category; None for numbers

    @property
    def kind(self) -> str:
        """``"number"`` or ``"category"``."""
        return "number" if self.levels is None else "category"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of inputs that it becomes."""
        return (self.name,) if self.levels is None else tuple(f"{self.name}={level}" for level in self.levels)

    def to_json(self) -> str | dict[str, Any]:
        """Return the name, with the levels of a category, as JSON can represent it."""
        return self.name if self.levels is None else {"name": self.name, "levels": list(self.levels)}

    @classmethod
    def from_json(cls, document: str | dict[str, Any]) -> Column:
        """Return the column from the result of ``to_json``."""
        if isinstance(document, str):
            return cls(document)
        return cls(str(document["name"]), tuple(str(level) for level in document["levels"]))


@dataclass(frozen=True)
class Schema:
    """The inputs of a table in order, and its target.

    Parameters
    ----------
    inputs : tuple of Column
        The inputs in order.
    target : str, optional
        The name of the target.
    text_target : bool
        Whether the target is text, even if it reads as a number.

    Examples
    --------
    >>> from joker.data import Column, Schema
    >>> schema = Schema((Column("age"), Column("colour", ("blue", "red"))), target="price")
    >>> schema.names
    ('age', 'colour=blue', 'colour=red')
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    inputs: tuple[Column, ...]
    target: str | None = None
    text_target: bool = False  # the target is text, even if it reads as a number

    def __post_init__(self) -> None:
        if twice := repeated(column.name for column in self.inputs):
            raise InvalidData(f"names of columns must differ; {listed(twice)} occurs more than once. Rename it.")

    @classmethod
    def numbers(cls, names: Iterable[str], target: str | None = None, text_target: bool = False) -> Schema:
        """Return a schema whose inputs are all numbers."""
        return cls(tuple(Column(name) for name in names), target, text_target)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of inputs, with one column for each level of a category."""
        return tuple(name for column in self.inputs for name in column.names)

    @property
    def width(self) -> int:
        """The number of columns of inputs."""
        return len(self.names)

    @property
    def is_numeric(self) -> bool:
        """Whether no input is a category."""
        return all(column.levels is None for column in self.inputs)

    def to_json(self) -> dict[str, Any]:
        """Return the schema as JSON can represent it."""
        inputs = [column.to_json() for column in self.inputs]
        return {"inputs": inputs, "target": self.target, "text_target": self.text_target}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Schema:
        """Return the schema from the result of ``to_json``."""
        try:
            inputs = tuple(Column.from_json(column) for column in document["inputs"])
            return cls(inputs, document["target"], bool(document["text_target"]))
        except (KeyError, TypeError) as error:
            raise InvalidFile(
                f"a schema must have inputs, target and text_target; reading one failed with {error!r}. "
                "Write it with Schema.to_json."
            ) from error


def unnamed(width: int) -> tuple[str, ...]:
    """Return the names x0, x1, ... for columns without names."""
    return tuple(f"x{j}" for j in range(width))


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def listed(names: Iterable[object]) -> str:
    """Return names as text for a message; of many only the first MAX_LISTED."""
    every = [repr(name) for name in names]
    more = f" and {len(every) - MAX_LISTED} more" if len(every) > MAX_LISTED else ""
    return ", ".join(every[:MAX_LISTED]) + more
