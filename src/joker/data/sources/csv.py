"""Delimited text, parsed by pyarrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

from joker.data.schema import Schema
from joker.data.sources.arrow_batches import arrow_schema, is_number, need_pyarrow, to_batches, with_levels
from joker.data.sources.base import Batch, CheckedSource
from joker.data.sources.column_selection import ColumnSelection, TableColumns, select_columns
from joker.data.sources.dtypes import TEXT_DTYPE
from joker.data.sources.read_options import ReadOptions
from joker.data.sources.text_files import (
    TextFormat,
    blocks,
    detect_format,
    read_head,
    reads_as_number,
    single_spaces,
)
from joker.data.sources.validation import refuse_empty, refuse_text
from joker.errors import InvalidData, InvalidFile

MISSING_VALUES = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "NULL", "null", "#N/A", "<NA>")
MIN_NUMBER_SHARE = 0.9  # of the first entries of a column must read as numbers to make it a column of numbers
BAD_VALUE = re.compile(r"CSV column #(\d+): Row #(\d+): CSV conversion error to [^:]+: invalid value '(.*)'", re.DOTALL)
BAD_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


@dataclass(frozen=True, eq=False)
class CsvSource(CheckedSource):
    """The rows of a file of delimited text."""

    path: Path
    text_format: TextFormat
    kinds: Mapping[str, Any]  # the Arrow type of each column to read: the inputs in order, perhaps the target

    def read(self, rows: int) -> Iterator[Batch]:
        return to_batches(self, parsed(self.path, self.text_format, self.kinds), rows)


def open_csv(options: ReadOptions) -> CsvSource:
    """Open a file of delimited text, compressed or not."""
    options.without("inputs")
    need_pyarrow(options.name)
    head = read_head(options.path)
    text_format = detect_format(options.path, head, options.header, options.delimiter, options.decimal)
    table = TableColumns(options.name, text_format.names, text_format.named)
    selection = select_columns(table, options.target, options.columns, options.schema, options.drop)
    if not selection.inputs:
        refuse_empty(options.name, "the target is its only column")
    inferred = _kinds_at_head(head, text_format)
    dtype = TEXT_DTYPE if options.dtype is None else options.dtype
    schema = options.schema or arrow_schema(selection, inferred, options.one_hot)
    kinds = _kinds(schema, selection, inferred, dtype)
    if options.schema is None and not schema.is_numeric:
        text = {column.name: kinds[column.name] for column in schema.inputs if column.levels is not None}
        schema = with_levels(schema, list(text), parsed(options.path, text_format, text), options.name)
    source = CsvSource(options.name, schema, dtype, None, options.path, text_format, kinds)
    next(source.batches(1))  # raises an error in the first rows at once
    return source


def parsed(path: Path, text_format: TextFormat, kinds: Mapping[str, Any]) -> Iterator[Any]:
    """Yield record batches of these columns and types; in columns of text an empty field is a missing value.

    Blocks of complete rows are parsed one by one. The streaming reader of pyarrow would read 32 blocks ahead.
    """
    import pyarrow

    first = 0
    for block in blocks(path, text_format):
        try:
            table = _parse(block, text_format, kinds)
        except pyarrow.ArrowInvalid as error:
            _explain(path, text_format, first, error)
        yield from map(_empty_is_missing, table.to_batches())
        first += table.num_rows


def _parse(block: bytes, text_format: TextFormat, kinds: Mapping[str, Any] | None = None, skip: bool = False) -> Any:
    """Return a table of these columns and types, or of all columns with types that pyarrow infers."""
    from pyarrow import csv

    def handle_invalid(row: Any) -> str:
        return "skip" if skip else "error"

    return csv.read_csv(
        BytesIO(block),
        # With one thread, error messages contain the number of the row.
        csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=text_format.names),
        csv.ParseOptions(delimiter=text_format.delimiter, newlines_in_values=True, invalid_row_handler=handle_invalid),
        csv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds or ()),
            null_values=MISSING_VALUES,
            decimal_point=text_format.decimal,
        ),
    )


def _empty_is_missing(batch: Any) -> Any:
    import pyarrow
    from pyarrow import compute

    for j, column in enumerate(batch.columns):
        if pyarrow.types.is_string(column.type) and compute.any(compute.equal(column, "")).as_py():
            filled = compute.if_else(compute.equal(column, ""), None, column)
            batch = batch.set_column(j, batch.schema.names[j], filled)
    return batch


def _kinds_at_head(head: bytes, text_format: TextFormat) -> Mapping[str, Any]:
    """Return the Arrow types of the columns, from the first rows."""
    import pyarrow

    try:
        table = _parse(single_spaces(head[text_format.offset :], text_format), text_format, skip=True)
    except pyarrow.ArrowInvalid:  # the same error is explained when the rows are read
        return dict.fromkeys(text_format.names, pyarrow.float64())
    return {name: _kind(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def _kind(column: Any) -> Any:
    """Return the type of a column; a few entries of text in a column of numbers do not make it text."""
    import pyarrow

    if is_number(column.type):
        return column.type
    entries = column.cast(pyarrow.string()).to_pylist()
    share = sum(map(reads_as_number, entries)) / len(entries)
    return pyarrow.float64() if share >= MIN_NUMBER_SHARE else pyarrow.string()


def _kinds(schema: Schema, selection: ColumnSelection, inferred: Mapping[str, Any], dtype: Any) -> dict[str, Any]:
    """Return the types in which the columns are parsed, by column name."""
    import pyarrow

    def kind(name: str, text: bool, number: Any) -> Any:
        if text:
            return pyarrow.string()
        return pyarrow.bool_() if inferred[name] == pyarrow.bool_() else number

    kinds = {}
    for name, column in zip(selection.names, schema.inputs, strict=True):
        kinds[name] = kind(name, column.levels is not None, pyarrow.from_numpy_dtype(dtype))
    if (target := selection.target_name) is not None:
        kinds[target] = kind(target, schema.text_target, pyarrow.float64())
    return kinds


def _explain(path: Path, text_format: TextFormat, first: int, error: Exception) -> NoReturn:
    """Raise an error that names the row and the column that could not be parsed; the block starts at row ``first``."""
    text = str(error)
    if bad := BAD_VALUE.search(text):
        refuse_text(str(path), bad[3], first + int(bad[2]) - 1, text_format.names[int(bad[1])])
    if bad := BAD_WIDTH.search(text):
        raise InvalidData(
            f"{path}: every row must have {bad[2]} fields; row {first + int(bad[1]) - 1} has {bad[3]}. Correct the "
            "row, quote text that contains the delimiter, or use another delimiter=."
        ) from error
    raise InvalidFile(f"{path} must be delimited text in UTF-8; reading it failed ({text}). Check the file.") from error
