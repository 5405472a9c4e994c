"""Text files: decompression, and the delimiter and the header, which are found in the first lines."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import IO, Any

from joker.data.schema import unnamed
from joker.data.sources.column_selection import INDEX_NAME
from joker.data.sources.validation import refuse_empty
from joker.errors import InvalidFile, InvalidParameter

HEAD_BYTES = 2**20  # from which delimiter, header and kinds of columns are found
TEXT_BLOCK_BYTES = 2**20  # of complete rows that are parsed at a time
MAX_ROW_BYTES = 2**26  # a longer row is an error, for example a quotation mark that is never closed
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # of UTF-8, which some programs write
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf(?:inity)?)", re.IGNORECASE)
DELIMITERS = ("\t", ";", "|", ",")  # in this order: the first that splits the lines into equally many fields
SPACE = " "  # as a delimiter it stands for any number of spaces and tabs
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")


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
    """Return the first complete lines."""
    with reading(path), open_text(path) as file:
        head = file.read(HEAD_BYTES)
        head += file.readline(HEAD_BYTES)
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
    names = tuple(name.strip() or _unnamed(j) for j, name in enumerate(first)) if named else unnamed(len(first))
    before = list(StringIO(text, newline=""))[:lines] if named else []
    offset = len(head) - len(head.removeprefix(BYTE_ORDER_MARK)) + len("".join(before).encode())
    return TextFormat(names, named, delimiter, offset, b"\n" if b"\n" in head else b"\r", decimal)


def _unnamed(place: int) -> str:
    return f"x{place}" if place else INDEX_NAME


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
        if len(head) == 2 * HEAD_BYTES and error.end >= len(head) - 4:  # a character that is cut at the end of the head
            return head.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "ignore")
        raise InvalidFile(f"{path} must be text in UTF-8; {error}. Save it in that encoding.") from error


def _delimiter(path: Path, text: str) -> str:
    for delimiter in DELIMITERS:
        widths = {len(fields) for fields, _ in _records(path, text, delimiter)}
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
            f"{path} must be delimited text; reading its first line failed ({error}). Check it."
        ) from error


def _is_header(first: list[str], second: list[str]) -> bool:
    """Return whether the first record has the names of columns: text above a number, or distinct texts only."""
    if any(not reads_as_number(above) and reads_as_number(below) for above, below in zip(first, second, strict=False)):
        return True
    return not any(reads_as_number(field) for field in first) and len(set(first)) == len(first)


def reads_as_number(text: str | None) -> bool:
    """Return whether text is a decimal number in ASCII digits, nan, inf, or empty; Python's float reads more."""
    return not text or NUMBER.fullmatch(text.strip()) is not None
