"""A table file with all of its columns as they are: numbers, text, dates and missing values, in one Arrow table."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import Any

from joker.data.sources.arrow_batches import need_pyarrow
from joker.data.sources.column_selection import TableColumns
from joker.data.sources.csv import MISSING_VALUES
from joker.data.sources.parquet import FORMATS, decoding_arrow
from joker.data.sources.text_files import OPENERS, TextFormat, blocks, detect_format, read_head
from joker.data.sources.validation import check_names, existing_file, refuse_empty
from joker.errors import InvalidData, InvalidFile

# Digits with a leading zero are codes, such as ZIP codes, and remain text.
NUMBER = r"^[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?$|^[+-]?(?i:inf(inity)?)$"
TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".data")


def is_raw_table(path: Path) -> bool:
    """Whether a file name is that of delimited text, Parquet or Arrow, whose columns may be of any kind."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    inner = suffixes[-2:-1] if suffixes[-1:] and suffixes[-1] in OPENERS else suffixes[-1:]
    return path.is_dir() or bool(inner and (inner[0] in TEXT_SUFFIXES or inner[0] in FORMATS))


def read_raw_table(
    path: str | os.PathLike[str],
    *,
    header: bool | str = "auto",
    delimiter: str | None = None,
    decimal: str | None = None,
) -> tuple[Any, TableColumns]:
    """Return a file as an Arrow table, and the names of its columns."""
    place = existing_file(path)
    pyarrow = need_pyarrow(str(place))
    if place.is_dir() or place.suffix.lower() in FORMATS:
        return _dataset(place)
    text_format = detect_format(place, read_head(place), header, delimiter, decimal)
    check_names(place, text_format.names)
    parts = [_texts(block, text_format, place) for block in blocks(place, text_format)]
    if not parts:
        refuse_empty(str(place), "the file has no rows")
    table = pyarrow.concat_tables(parts)
    columns = {name: _inferred(table[name].combine_chunks(), text_format.decimal) for name in table.column_names}
    return pyarrow.table(columns), TableColumns(str(place), text_format.names, text_format.named)


def _dataset(place: Path) -> tuple[Any, TableColumns]:
    from pyarrow import dataset

    with decoding_arrow(place):
        kind = FORMATS.get(place.suffix.lower(), "parquet")
        table = dataset.dataset(place, format=kind).to_table()
        return table, TableColumns(str(place), tuple(table.column_names))


def _texts(block: bytes, text_format: TextFormat, path: Path) -> Any:
    """Parse rows; every column is text."""
    import pyarrow
    from pyarrow import csv

    names = text_format.names
    try:
        return csv.read_csv(
            BytesIO(block),
            csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
            csv.ParseOptions(delimiter=text_format.delimiter, newlines_in_values=True),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pyarrow.string()),
                null_values=MISSING_VALUES,
                strings_can_be_null=True,
            ),
        )
    except pyarrow.ArrowInvalid as error:
        if "Expected" in str(error):
            raise InvalidData(
                f"{path}: every row must have {len(names)} fields; {error}. Correct the row, quote text that contains "
                "the delimiter, or use another delimiter=."
            ) from error
        raise InvalidFile(f"{path} must be delimited text in UTF-8; reading it failed ({error}). Check it.") from error


def _inferred(values: Any, decimal: str) -> Any:
    """Return a column of text as numbers or truth values if all of its values are such, else as text.

    The tables of `joker.tables` read other ways of writing numbers, with marks of missing values among them.
    """
    import pyarrow
    from pyarrow import compute

    values = compute.utf8_trim_whitespace(values)
    words = compute.utf8_lower(values)
    if values.null_count == len(values):
        return values
    truths = pyarrow.array(["true", "false"])
    if _all_in(words, truths):
        return compute.equal(words, "true")
    numbers = compute.replace_substring(values, ",", ".") if decimal == "," else values
    if compute.all(compute.match_substring_regex(numbers, NUMBER)).as_py():
        return compute.cast(numbers, pyarrow.float64())
    return values


def _all_in(words: Any, values: Any) -> bool:
    from pyarrow import compute

    return bool(compute.all(compute.is_in(compute.drop_null(words), value_set=values)).as_py())
