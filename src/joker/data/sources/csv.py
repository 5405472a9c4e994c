"""Delimited text, through pyarrow's reader of streams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from joker.data.schema import Column, Schema
from joker.data.sources.arrow import Levels, cut, is_number, need_pyarrow, to_batch
from joker.data.sources.base import Batch, CheckedSource
from joker.data.sources.checks import refuse_text
from joker.data.sources.choice import Choice, Name, Table, choose
from joker.data.sources.text import Layout, find_layout, open_text, read_head, reading, reads_as_number
from joker.data.sources.types import TEXT
from joker.errors import InvalidData, InvalidFile

BLOCK = 2**20  # bytes of text that are parsed at a time
MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "NULL", "null", "#N/A", "<NA>")
MOSTLY = 0.9  # of the entries at the head of a column that read as numbers make it a column of numbers
BAD_VALUE = re.compile(r"CSV column #(\d+): Row #(\d+): CSV conversion error to [^:]+: invalid value '(.*)'", re.DOTALL)
BAD_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


@dataclass(frozen=True, eq=False)
class CsvSource(CheckedSource):
    """Rows of a file of delimited text."""

    name: str
    schema: Schema
    dtype: np.dtype[Any]
    rows: int | None
    path: Path
    layout: Layout
    kinds: Mapping[str, Any]  # Arrow types of the columns that are read: the inputs in order, perhaps the target

    def read(self, rows: int) -> Iterator[Batch]:
        first = 0
        has_target = len(self.kinds) > len(self.schema.inputs)
        for whole in parsed(self.path, self.layout, self.kinds):
            for part in cut(whole, rows):
                yield to_batch(part.columns, self.schema, self.dtype, first, self.name, has_target)
                first += part.num_rows


def open_csv(
    path: Path,
    target: Name | None = None,
    columns: Sequence[Name] | None = None,
    header: bool | str = "auto",
    one_hot: bool = False,
    schema: Schema | None = None,
    delimiter: str | None = None,
    dtype: np.dtype[Any] | None = None,
) -> CsvSource:
    """Open a file of delimited text, compressed or not."""
    need_pyarrow(str(path))
    head = read_head(path)
    layout = find_layout(path, head, header, delimiter)
    choice = choose(Table(str(path), layout.names, layout.named), target, columns, schema)
    found = _kinds_at_head(head, layout)
    dtype = TEXT if dtype is None else dtype
    if schema is None:
        schema = _schema(layout, choice, found, one_hot)
    kinds = _kinds(schema, layout, choice, found, dtype)
    if not schema.is_numeric and any(column.levels == () for column in schema.inputs):
        schema = _with_levels(path, layout, kinds, schema)
    source = CsvSource(str(path), schema, dtype, None, path, layout, kinds)
    next(source.batches(1))  # what is wrong with the first rows is said at once
    return source


def parsed(path: Path, layout: Layout, kinds: Mapping[str, Any]) -> Iterator[Any]:
    """Return record batches of some columns in these types; in text an empty field is missing."""
    import pyarrow

    try:
        with reading(path), open_text(path) as file:
            file.read(layout.offset)
            yield from map(_empty_is_missing, _stream(file, layout, kinds))
    except pyarrow.ArrowInvalid as error:
        _explain(path, layout, error)


def _stream(file: IO[bytes], layout: Layout, kinds: Mapping[str, Any]) -> Any:
    from pyarrow import csv

    return csv.open_csv(
        file,
        # One thread: the memory stays that of a block, and errors come with the number of the row.
        csv.ReadOptions(use_threads=False, block_size=max(BLOCK, 2 * layout.longest), column_names=layout.names),
        csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True),
        csv.ConvertOptions(column_types=kinds, include_columns=list(kinds), null_values=MISSING),
    )


def _empty_is_missing(batch: Any) -> Any:
    import pyarrow
    from pyarrow import compute

    for j, column in enumerate(batch.columns):
        if pyarrow.types.is_string(column.type) and compute.any(compute.equal(column, "")).as_py():
            filled = compute.if_else(compute.equal(column, ""), None, column)
            batch = batch.set_column(j, batch.schema.names[j], filled)
    return batch


def _kinds_at_head(head: bytes, layout: Layout) -> Mapping[str, Any]:
    """Return the Arrow types that the first rows suggest."""
    from pyarrow import ArrowInvalid, csv

    try:
        table = csv.read_csv(
            BytesIO(head[layout.offset :]),
            csv.ReadOptions(use_threads=False, block_size=2 * len(head), column_names=layout.names),
            csv.ParseOptions(
                delimiter=layout.delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip"
            ),
            csv.ConvertOptions(null_values=MISSING),
        )
    except ArrowInvalid:  # reading the rows will say what is wrong
        return {}
    return {name: _kind(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def _kind(column: Any) -> Any:
    """Return the type of a column: that of numbers for one in which a stray entry is not."""
    import pyarrow

    if is_number(column.type):
        return column.type
    entries = column.cast(pyarrow.string()).to_pylist()
    share = sum(map(reads_as_number, entries)) / len(entries)
    return pyarrow.float64() if share >= MOSTLY else pyarrow.string()


def _schema(layout: Layout, choice: Choice, found: Mapping[str, Any], one_hot: bool) -> Schema:
    """Return the schema of these columns; levels are to be collected where they are ()."""
    names = [layout.names[j] for j in choice.inputs]
    inputs = tuple(Column(name, () if one_hot and _is_text(found, name) else None) for name in names)
    target = None if choice.target is None else layout.names[choice.target]
    return Schema(inputs, target, target is not None and _is_text(found, target))


def _is_text(found: Mapping[str, Any], name: str) -> bool:
    return name in found and not is_number(found[name])


def _kinds(
    schema: Schema, layout: Layout, choice: Choice, found: Mapping[str, Any], dtype: np.dtype[Any]
) -> dict[str, Any]:
    """Return the types in which the columns are parsed, by their names in the file."""
    import pyarrow

    def kind(name: str, text: bool, number: Any) -> Any:
        if text:
            return pyarrow.string()
        return pyarrow.bool_() if found.get(name) == pyarrow.bool_() else number

    kinds = {}
    for place, column in zip(choice.inputs, schema.inputs, strict=True):
        name = layout.names[place]
        kinds[name] = kind(name, column.levels is not None, pyarrow.from_numpy_dtype(dtype))
    if choice.target is not None:
        name = layout.names[choice.target]
        kinds[name] = kind(name, schema.text_target, pyarrow.float64())
    return kinds


def _with_levels(path: Path, layout: Layout, kinds: Mapping[str, Any], schema: Schema) -> Schema:
    """Read the categories once, for their levels."""
    levels = [Levels(column.name, str(path)) for column in schema.inputs if column.levels is not None]
    first = 0
    for batch in parsed(path, layout, {each.name: kinds[each.name] for each in levels}):
        for each, values in zip(levels, batch.columns, strict=True):
            each.add(values, first)
        first += batch.num_rows
    known = {each.name: each.column for each in levels}
    return replace(schema, inputs=tuple(known.get(column.name, column) for column in schema.inputs))


def _explain(path: Path, layout: Layout, error: Exception) -> NoReturn:
    """Say which row and column the parser stumbled over."""
    text = str(error)
    if bad := BAD_VALUE.search(text):
        refuse_text(str(path), bad[3], int(bad[2]) - 1, layout.names[int(bad[1])])
    if bad := BAD_WIDTH.search(text):
        raise InvalidData(
            f"{path}: every row must have {bad[2]} fields; row {int(bad[1]) - 1} has {bad[3]}. Correct the row, put "
            "text that holds the delimiter in quotation marks, or name another delimiter=."
        ) from error
    if "straddl" in text:
        raise InvalidFile(
            f"{path}: a row must be shorter than {max(BLOCK, 2 * layout.longest)} bytes; one is longer, or a quotation "
            "mark is never closed. Check the file."
        ) from error
    raise InvalidFile(f"{path} must be delimited text in UTF-8; reading it failed ({text}). Check the file.") from error
