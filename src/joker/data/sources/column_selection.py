"""The selection of input columns and target of a table, by the user or by a schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from joker.data.schema import Schema, listed
from joker.data.sources.validation import check_names
from joker.errors import InvalidData, InvalidParameter, UnknownName

INDEX_NAME = "Unnamed: 0"  # of a first column without a name, as pandas calls a saved index; it is no input
Name = str | int  # of a column: its name, or its number counted from 0, or from the end if negative


@dataclass(frozen=True)
class TableColumns:
    """The columns of a file."""

    source: str
    names: tuple[str, ...]
    named: bool = True  # the file has names; otherwise they are x0, x1, ...

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
class ColumnSelection:
    """The numbers of the input columns of a table, in order, and of the target."""

    table: TableColumns
    inputs: tuple[int, ...]
    target: int | None

    @property
    def names(self) -> list[str]:
        """The names of the input columns."""
        return [self.table.names[j] for j in self.inputs]

    @property
    def target_name(self) -> str | None:
        """The name of the target."""
        return None if self.target is None else self.table.names[self.target]


def select_columns(
    table: TableColumns,
    target: Name | None,
    columns: Sequence[Name] | None,
    schema: Schema | None,
    drop: Sequence[Name] | None = None,
) -> ColumnSelection:
    """Return the columns that the user names, or those of a schema."""
    check_names(table.source, table.names)
    if schema is None:
        return _without(_by_user(table, target, columns), drop)
    if columns is not None:
        raise InvalidParameter(
            f"columns must not be given with a schema, which names them; got {columns!r}. Leave it out."
        )
    return _by_schema(table, target, schema)


def _without(selection: ColumnSelection, drop: Sequence[Name] | None) -> ColumnSelection:
    """Return the selection without the inputs that the user leaves out."""
    if drop is None:
        return selection
    left_out = {selection.table.place(name, "drop") for name in drop}
    inputs = tuple(j for j in selection.inputs if j not in left_out)
    if not inputs or selection.target in left_out:
        raise InvalidParameter(
            f"drop must leave the target and at least one input; got {list(drop)!r}. Leave out fewer columns."
        )
    return replace(selection, inputs=inputs)


def _by_user(table: TableColumns, target: Name | None, columns: Sequence[Name] | None) -> ColumnSelection:
    label = None if target is None else table.place(target, "target")
    if columns is None:
        inputs = tuple(
            j for j, name in enumerate(table.names) if j != label and not (table.named and name == INDEX_NAME)
        )
        return ColumnSelection(table, inputs, label)
    if isinstance(columns, str):
        raise InvalidParameter(f"columns must be a list of names; got {columns!r}. Use columns=[{columns!r}].")
    inputs = tuple(table.place(name, "columns") for name in columns)
    if label in inputs or len(set(inputs)) < len(inputs) or not inputs:
        raise InvalidParameter(
            f"columns must name at least one column, each once, and not the target; got {list(columns)!r}. "
            "Leave out repeated names."
        )
    return ColumnSelection(table, inputs, label)


def _by_schema(table: TableColumns, target: Name | None, schema: Schema) -> ColumnSelection:
    """Return the columns of a schema: by name, or by order in a file without names."""
    places = {name: j for j, name in enumerate(table.names)}
    label = places.get(schema.target or "") if target is None else table.place(target, "target")
    wanted = [column.name for column in schema.inputs]
    missing = [name for name in wanted if name not in places]
    if not missing:
        return ColumnSelection(table, tuple(places[name] for name in wanted), label)
    if not table.named:
        others = tuple(j for j in range(len(table.names)) if target is None or j != label)
        if len(others) == len(wanted):
            return ColumnSelection(table, others, label if target is not None else None)
    raise InvalidData(_mismatch(table, schema, missing))


def _mismatch(table: TableColumns, schema: Schema, missing: list[str]) -> str:
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
    """Return the number of a column from its name; text is a number if the file has no names, or if it is negative."""
    if isinstance(name, int) and not isinstance(name, bool):
        return name
    try:
        number = int(name)
    except ValueError:
        return None
    return None if named and number >= 0 else number
