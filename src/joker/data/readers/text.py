"""Delimited text: decompression, the delimiter and the header found in the first lines, and rows parsed by pyarrow."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO, StringIO
from itertools import islice
from pathlib import Path
from typing import IO, Any, NoReturn

from joker.data.readers.source import (
    INDEX_NAME,
    TEXT_DTYPE,
    ColumnSelection,
    Name,
    ReadOptions,
    TableColumns,
    check_names,
    refuse_empty,
    refuse_text,
    select_columns,
)
from joker.data.readers.table import NO_COLUMNS, ArrowSource, arrow_schema, is_number, need_pyarrow, with_columns
from joker.data.schema import unnamed
from joker.errors import InvalidData, InvalidFile, InvalidParameter
from joker.runtime import format_bytes

HEAD_BYTES = 2**20  # from which delimiter, header and kinds of columns are found
MAX_HEAD_BYTES = 2**23  # the same of wide tables, whose header and first row are longer
TEXT_BLOCK_BYTES = 2**20  # of complete rows that are parsed at a time
MAX_ROW_BYTES = 2**26  # a longer row is an error, for example a quotation mark that is never closed
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # of UTF-8, which some programs write
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# A plain number, for Python and for Arrow; Python's float reads more. `joker.tables.parsing` reads $1,234 and 12%.
NUMBER = r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan|inf(?:inity)?))"
CODE = r"^[+-]?0[0-9]"  # digits with a leading zero are codes, such as ZIP codes
MISSING_WORDS = frozenset({"", "?", "na", "n/a", "nan", "-nan", "null", "none", "#n/a", "<na>", "nat"})  # in lower case
# The spellings that files have. Python's None and NaT are missing among inputs, and may be classes of a target.
NULL_VALUES = sorted({form for word in MISSING_WORDS - {"none", "nat"} for form in (word, word.upper())} | {"NaN"})
DELIMITERS = ("\t", ";", "|", ",")  # in this order: the first that splits the lines into equally many fields
SPACE = " "  # as a delimiter it stands for any number of spaces and tabs
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
MIN_NUMBER_SHARE = 0.9  # of the first entries of a column must read as numbers to make it a column of numbers
BAD_VALUE = re.compile(r"CSV column #(\d+): Row #(\d+): CSV conversion error to [^:]+: invalid value '(.*)'", re.DOTALL)
BAD_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


def open_text(path: Path) -> IO[bytes]:
    """Open a file for reading and decompress it."""
    file: IO[bytes] = OPENERS.get(path.suffix.lower(), open)(path, "rb")
    return file


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise InvalidFile for errors of decompression."""
    try:
        yield
    except EOFError as error:
        raise InvalidFile(f"{path} must be complete; its compressed data end early. Write or copy it again.") from error
    except (OSError, zlib.error, lzma.LZMAError) as error:
        if getattr(error, "errno", None) is not None:  # an error of the operating system
            raise
        raise InvalidFile(
            f"{path} must be a valid compressed file; decompressing it failed ({error}). Write or copy it again."
        ) from error


def read_head(path: Path) -> bytes:
    """Return the first complete lines, two at least."""
    with reading(path), open_text(path) as file:
        head = file.read(HEAD_BYTES)
        head += file.readline(HEAD_BYTES)
        while len((head + b".").splitlines()) <= 2 and (more := file.readline(MAX_HEAD_BYTES - len(head))):
            head += more
    if not head.removeprefix(BYTE_ORDER_MARK).strip():
        refuse_empty(str(path), "the file is empty")
    return head


@dataclass(frozen=True)
class TextFormat:
    """The columns of a text file, and how its rows are delimited."""

    names: tuple[str, ...]
    named: bool  # whether the file has a header
    delimiter: str
    offset: int  # bytes before the first row
    newline: bytes  # the end of a line
    decimal: str = "."  # the character before the fraction of a number


def detect_format(
    path: Path, head: bytes, header: bool | str, delimiter: str | None, decimal: str | None = None
) -> TextFormat:
    """Return the format of a text file; what is not given is found in its first lines."""
    if decimal not in (None, ".", ","):
        raise InvalidParameter(f"decimal must be '.' or ','; got {decimal!r}. Use ',' for numbers such as 0,5.")
    if header not in (True, False, "auto"):
        raise InvalidParameter(f"header must be True, False or 'auto'; got {header!r}. Use 'auto'.")
    if len(head) >= MAX_HEAD_BYTES and len(head.splitlines()) == 1:
        raise InvalidFile(
            f"{path} must be delimited text whose first line takes at most {format_bytes(MAX_HEAD_BYTES)}; it takes "
            "more. Write wider tables as .parquet."
        )
    text = _decode(path, head)
    delimiter = delimiter or _delimiter(path, text)
    records = _records(path, text, delimiter)
    first, lines = records[0]
    second = records[1][0] if len(records) > 1 else []
    decimal = decimal or ("," if delimiter != "," and any(map(DECIMAL_COMMA.fullmatch, second)) else ".")
    points = [field.replace(",", ".") if decimal == "," else field for field in second]
    named = _is_header(first, points) if header == "auto" else bool(header)
    if named and not second:
        refuse_empty(str(path), "the file has a header and no rows")
    usual = (INDEX_NAME, *unnamed(len(first))[1:]) if named else unnamed(len(first))
    names = tuple(name.strip() or other for name, other in zip(first, usual, strict=True)) if named else usual
    before = list(StringIO(text, newline=""))[:lines] if named else []
    offset = len(head) - len(head.removeprefix(BYTE_ORDER_MARK)) + len("".join(before).encode())
    return TextFormat(names, named, delimiter, offset, b"\n" if b"\n" in head else b"\r", decimal)


def single_spaces(block: bytes, text_format: TextFormat) -> bytes:
    """Return rows with one space between fields, where spaces are the delimiter; else the rows themselves."""
    if text_format.delimiter != SPACE:
        return block
    lines = (b" ".join(line.split()) for line in block.split(text_format.newline))
    return text_format.newline.join(lines)


def blocks(path: Path, text_format: TextFormat) -> Iterator[bytes]:
    """Yield complete rows, about TEXT_BLOCK_BYTES at a time; a line break inside quotation marks does not end a row."""
    with reading(path), open_text(path) as file:
        file.read(text_format.offset)
        rest = b""
        while fresh := file.read(TEXT_BLOCK_BYTES):
            rest += fresh
            end = _last_row(rest, text_format.newline)
            if rest[:end].strip():
                yield single_spaces(rest[:end], text_format)
            rest = rest[end:]
            if len(rest) > MAX_ROW_BYTES:
                raise InvalidFile(
                    f"{path}: a row must be shorter than {MAX_ROW_BYTES} bytes; one is longer, or a quotation mark is "
                    "never closed. Check the file."
                )
        if rest.strip():
            yield single_spaces(rest, text_format)


def _last_row(text: bytes, newline: bytes) -> int:
    """Return the end of the last complete row: the last line break outside quotation marks."""
    end = text.rfind(newline) + 1
    open_marks = text.count(b'"', 0, end) % 2
    while end and open_marks:
        before = text.rfind(newline, 0, end - 1) + 1
        open_marks ^= text.count(b'"', before, end) % 2
        end = before
    return end


def _decode(path: Path, head: bytes) -> str:
    try:
        return head.removeprefix(BYTE_ORDER_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        cut = len(head) in (2 * HEAD_BYTES, MAX_HEAD_BYTES) and error.end >= len(head) - 4
        if cut:  # in the last character of the head
            return head.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "ignore")
        raise InvalidFile(f"{path} must be text in UTF-8; {error}. Save it in that encoding.") from error


def _delimiter(path: Path, text: str) -> str:
    for delimiter in DELIMITERS:
        try:
            widths = {len(fields) for fields, _ in _records(path, text, delimiter)}
        except InvalidFile:  # where another delimiter splits a long header, it is one field, which is too long
            continue
        if len(widths) == 1 and widths != {1}:
            return delimiter
    widths = {len(line.split()) for line in text.splitlines()[:2]}
    return SPACE if len(widths) == 1 and widths != {1} and '"' not in text[:1_000] else ","


def _records(path: Path, text: str, delimiter: str) -> list[tuple[list[str], int]]:
    """Return the first two records that are not blank, each with the number of lines up to its end."""
    try:
        reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=delimiter == SPACE)
        return list(islice(((fields, reader.line_num) for fields in reader if fields), 2))
    except (csv.Error, TypeError) as error:
        raise InvalidFile(
            f"{path} must be delimited text with fields of at most {csv.field_size_limit():,} characters in its first "
            f"line; reading it failed ({error}). Shorten the names, or correct the quotation marks."
        ) from error


def _is_header(first: list[str], second: list[str]) -> bool:
    """Return whether the first record has the names of columns: text above a number, or distinct texts only."""
    if any(not reads_as_number(above) and reads_as_number(below) for above, below in zip(first, second, strict=False)):
        return True
    return not any(reads_as_number(field) for field in first) and len(set(first)) == len(first)


def reads_as_number(text: str | None) -> bool:
    """Return whether text is a decimal number in ASCII digits, nan, inf, or empty; Python's float reads more."""
    return not text or re.fullmatch(NUMBER, text.strip()) is not None


@dataclass(frozen=True, eq=False)
class CsvSource(ArrowSource):
    """The rows of a file of delimited text."""

    path: Path
    text_format: TextFormat
    kinds: Mapping[str, Any]  # the Arrow type in which each column is parsed

    def scan(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        return parsed(self.path, self.text_format, {name: self.kinds[name] for name in columns})


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
    options = replace(options, dtype=TEXT_DTYPE if options.dtype is None else options.dtype)
    kinds = _kinds(options, selection, _kinds_at_head(head, text_format))
    empty = CsvSource(options.name, NO_COLUMNS, TEXT_DTYPE, None, (), options.path, text_format, kinds)
    source = with_columns(empty, options, selection, kinds)
    next(source.batches(1))  # raises an error in the first rows at once
    return source


def read_text(path: Path, header: bool | str, delimiter: str | None, decimal: str | None) -> tuple[Any, TableColumns]:
    """Return all rows of delimited text as an Arrow table of numbers, truth values and text, and its columns."""
    pyarrow = need_pyarrow(str(path))
    text_format = detect_format(path, read_head(path), header, delimiter, decimal)
    check_names(path, text_format.names)
    batches = list(parsed(path, text_format, dict.fromkeys(text_format.names, pyarrow.string())))
    if not batches:
        refuse_empty(str(path), "the file has no rows")
    table = pyarrow.Table.from_batches(batches)
    columns = {name: _inferred(table[name].combine_chunks(), text_format.decimal) for name in table.column_names}
    return pyarrow.table(columns), TableColumns(str(path), text_format.names, text_format.named)


def scan_text(
    path: Path, columns: Sequence[Name], header: bool | str, delimiter: str | None, decimal: str | None
) -> tuple[list[str], Iterator[Any]]:
    """Return the names of some columns of delimited text, and record batches of them as text."""
    pyarrow = need_pyarrow(str(path))
    text_format = detect_format(path, read_head(path), header, delimiter, decimal)
    table = TableColumns(str(path), text_format.names, text_format.named)
    names = list(select_columns(table, None, columns, None).names)
    return names, parsed(path, text_format, dict.fromkeys(names, pyarrow.string()))


def _inferred(values: Any, decimal: str) -> Any:
    """Return a column of text as numbers or truth values if all of its values are such, else as text."""
    import pyarrow
    from pyarrow import compute

    values = compute.utf8_trim_whitespace(values)
    missing = compute.is_in(values, value_set=pyarrow.array(NULL_VALUES))
    values = compute.if_else(missing, pyarrow.scalar(None, pyarrow.string()), values)
    if values.null_count == len(values):
        return values
    words = compute.utf8_lower(values)
    if compute.all(compute.match_substring_regex(words, "^(true|false)$")).as_py():
        return compute.equal(words, "true")
    numbers = compute.replace_substring(values, ",", ".") if decimal == "," else values
    codes = compute.match_substring_regex(numbers, CODE)
    plain = compute.and_not(compute.match_substring_regex(numbers, f"^(?:{NUMBER})$"), codes)
    return compute.cast(numbers, pyarrow.float64()) if compute.all(plain).as_py() else values


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

    invalid = "skip" if skip else "error"
    return csv.read_csv(
        BytesIO(block),
        # With one thread, error messages contain the number of the row.
        csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=text_format.names),
        csv.ParseOptions(
            delimiter=text_format.delimiter, newlines_in_values=True, invalid_row_handler=lambda _: invalid
        ),
        csv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds or ()),
            null_values=NULL_VALUES,
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


def _kinds(options: ReadOptions, selection: ColumnSelection, inferred: Mapping[str, Any]) -> dict[str, Any]:
    """Return the types in which the columns are parsed, by column name."""
    import pyarrow

    def kind(name: str, text: bool, number: Any) -> Any:
        if text:
            return pyarrow.string()
        return pyarrow.bool_() if inferred[name] == pyarrow.bool_() else number

    schema = options.schema or arrow_schema(selection, inferred, options.one_hot)
    kinds = {}
    for name, column in zip(selection.names, schema.inputs, strict=True):
        kinds[name] = kind(name, column.levels is not None, pyarrow.from_numpy_dtype(options.dtype))
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
