"""Delimited text, through pyarrow's parser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from joker.data.schema import Column, Schema
from joker.data.sources.arrow_batches import is_number, need_pyarrow, to_batches, with_levels
from joker.data.sources.base import Batch, CheckedSource
from joker.data.sources.column_selection import Choice, Table, choose
from joker.data.sources.dtypes import TEXT
from joker.data.sources.read_options import Wish
from joker.data.sources.text_files import Layout, blocks, find_layout, read_head, reads_as_number
from joker.data.sources.validation import refuse_text
from joker.errors import InvalidData, InvalidFile

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
        return to_batches(parsed(self.path, self.layout, self.kinds), rows, self.schema, self.dtype, self.name)


def open_csv(wish: Wish) -> CsvSource:
    """Open a file of delimited text, compressed or not."""
    wish.without("inputs")
    need_pyarrow(wish.name)
    head = read_head(wish.path)
    layout = find_layout(wish.path, head, wish.header, wish.delimiter)
    choice = choose(Table(wish.name, layout.names, layout.named), wish.target, wish.columns, wish.schema)
    found = _kinds_at_head(head, layout)
    dtype = TEXT if wish.dtype is None else wish.dtype
    schema = _schema(layout, choice, found, wish.one_hot) if wish.schema is None else wish.schema
    kinds = _kinds(schema, layout, choice, found, dtype)
    if wish.schema is None and not schema.is_numeric:
        text = {column.name: kinds[column.name] for column in schema.inputs if column.levels is not None}
        schema = with_levels(schema, list(text), parsed(wish.path, layout, text), wish.name)
    source = CsvSource(wish.name, schema, dtype, None, wish.path, layout, kinds)
    next(source.batches(1))  # what is wrong with the first rows is said at once
    return source


def parsed(path: Path, layout: Layout, kinds: Mapping[str, Any]) -> Iterator[Any]:
    """Return record batches of some columns in these types; in text an empty field is missing.

    Blocks of whole rows are parsed one by one. pyarrow's own reader of streams would read 32 blocks ahead.
    """
    import pyarrow

    first = 0
    for block in blocks(path, layout):
        try:
            table = _parse(block, layout, kinds)
        except pyarrow.ArrowInvalid as error:
            _explain(path, layout, first, error)
        yield from map(_empty_is_missing, table.to_batches())
        first += table.num_rows


def _parse(block: bytes, layout: Layout, kinds: Mapping[str, Any] | None = None, skip: bool = False) -> Any:
    """Return a table of some columns, or of all of them in types that are guessed."""
    from pyarrow import csv

    def judge(row: Any) -> str:
        return "skip" if skip else "error"

    return csv.read_csv(
        BytesIO(block),
        # With one thread errors come with the number of the row.
        csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=layout.names),
        csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True, invalid_row_handler=judge),
        csv.ConvertOptions(column_types=kinds, include_columns=list(kinds or ()), null_values=MISSING),
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
    from pyarrow import ArrowInvalid

    try:
        table = _parse(head[layout.offset :], layout, skip=True)
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


def _explain(path: Path, layout: Layout, first: int, error: Exception) -> NoReturn:
    """Say which row and column the parser stumbled over, in a block that begins with row ``first``."""
    text = str(error)
    if bad := BAD_VALUE.search(text):
        refuse_text(str(path), bad[3], first + int(bad[2]) - 1, layout.names[int(bad[1])])
    if bad := BAD_WIDTH.search(text):
        raise InvalidData(
            f"{path}: every row must have {bad[2]} fields; row {first + int(bad[1]) - 1} has {bad[3]}. Correct the "
            "row, put text that holds the delimiter in quotation marks, or name another delimiter=."
        ) from error
    raise InvalidFile(f"{path} must be delimited text in UTF-8; reading it failed ({text}). Check the file.") from error
