"""Which columns of a table are inputs and which is the target, as the user or a schema has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from joker.data.schema import Schema, listed, repeated
from joker.errors import InvalidData, InvalidParameter, UnknownName

Name = str | int  # of a column: its name or its number, counted from 0 or, below 0, from the end


@dataclass(frozen=True)
class Table:
    """The columns of a file."""

    source: str
    names: tuple[str, ...]
    named: bool = True  # by the file itself; otherwise x0, x1, ... for want of names

    def place(self, name: Name, what: str) -> int:
        """Return the number of a column."""
        if isinstance(name, str) and name in self.names:
            return self.names.index(name)
        number = _number(name, self.named)
        if number is not None and -len(self.names) <= number < len(self.names):
            return number % len(self.names)
        close = get_close_matches(str(name), self.names, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "Use one of these names, or a number counted from 0."
        raise UnknownName(
            f"{self.source}: {what} must be one of the columns {listed(self.names)}; got {name!r}. {hint}"
        )


@dataclass(frozen=True)
class Choice:
    """The numbers of the columns that are inputs, in order, and of the one that is the target."""

    inputs: tuple[int, ...]
    target: int | None


def choose(table: Table, target: Name | None, columns: Sequence[Name] | None, schema: Schema | None) -> Choice:
    """Return the columns that a user names, or that a schema asks for."""
    if twice := repeated(table.names):
        raise InvalidData(
            f"{table.source}: names of columns must differ; {listed(twice)} is there more than once. Rename the others."
        )
    if schema is None:
        return _named(table, target, columns)
    if columns is not None:
        raise InvalidParameter(
            f"columns must not be given with a schema, which has them; got {columns!r}. Leave it out."
        )
    return _as_before(table, target, schema)


def _named(table: Table, target: Name | None, columns: Sequence[Name] | None) -> Choice:
    goal = None if target is None else table.place(target, "target")
    if columns is None:
        return Choice(tuple(j for j in range(len(table.names)) if j != goal), goal)
    if isinstance(columns, str):
        raise InvalidParameter(f"columns must be a list of names; got {columns!r}. Use columns=[{columns!r}].")
    inputs = tuple(table.place(name, "columns") for name in columns)
    if goal in inputs or len(set(inputs)) < len(inputs) or not inputs:
        raise InvalidParameter(
            f"columns must name at least one column, each once, and not the target; got {list(columns)!r}. "
            "Leave out what is there twice."
        )
    return Choice(inputs, goal)


def _as_before(table: Table, target: Name | None, schema: Schema) -> Choice:
    """Return the columns of a schema: by their names, or by their order in a file that has none."""
    places = {name: j for j, name in enumerate(table.names)}
    goal = places.get(schema.target or "") if target is None else table.place(target, "target")
    wanted = [column.name for column in schema.inputs]
    missing = [name for name in wanted if name not in places]
    if not missing:
        return Choice(tuple(places[name] for name in wanted), goal)
    if not table.named:
        others = tuple(j for j in range(len(table.names)) if target is None or j != goal)
        if len(others) == len(wanted):
            return Choice(others, goal if target is not None else None)
    raise InvalidData(_mismatch(table, schema, missing))


def _mismatch(table: Table, schema: Schema, missing: list[str]) -> str:
    if not table.named:
        return (
            f"{table.source}: the columns must be those of the training data, {len(schema.inputs)} inputs; the file "
            f"has {len(table.names)} columns without names. Leave out the others, or give the file a header."
        )
    known = {column.name for column in schema.inputs} | {schema.target}
    unknown = [name for name in table.names if name not in known]
    also = f"; unknown: {listed(unknown)}" if unknown else ""
    return (
        f"{table.source}: the columns must be those of the training data; missing: {listed(missing)}{also}. "
        "Rename or add the columns."
    )


def _number(name: Name, named: bool) -> int | None:
    """Return the number that stands for a column; text does so only where the file has no names."""
    if isinstance(name, int) and not isinstance(name, bool):
        return name
    try:
        return None if named else int(name)
    except ValueError:
        return None
