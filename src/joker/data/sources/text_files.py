"""Text files: decompressed as they are read, with their delimiter and header found in the first lines."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import IO, Any

from joker.data.schema import unnamed
from joker.data.sources.validation import refuse_empty
from joker.errors import InvalidFile, InvalidParameter

HEAD = 2**20  # bytes that decide on delimiter, header and kinds of columns
BLOCK = 2**20  # bytes of whole rows that are parsed at a time
LONGEST = 2**26  # bytes of a row, beyond which something is wrong
MARK = b"\xef\xbb\xbf"  # with which some programs begin a file in UTF-8
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
DELIMITERS = ("\t", ";", "|", ",")  # the first that splits the lines into equally many fields


def open_text(path: Path) -> IO[bytes]:
    """Open a file for reading, decompressed."""
    file: IO[bytes] = OPENERS.get(path.suffix.lower(), open)(path, "rb")
    return file


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what decompression fails with into a sentence."""
    try:
        yield
    except EOFError as error:
        raise InvalidFile(f"{path} must be whole; its compressed data end early. Write or copy it again.") from error
    except (OSError, zlib.error, lzma.LZMAError) as error:
        if getattr(error, "errno", None) is not None:  # of the operating system: no fault of the contents
            raise
        raise InvalidFile(
            f"{path} must be a sound compressed file; decompressing it failed ({error}). Write or copy it again."
        ) from error


def read_head(path: Path) -> bytes:
    """Return the first lines, whole."""
    with reading(path), open_text(path) as file:
        head = file.read(HEAD)
        head += file.readline(HEAD)
    if not head.removeprefix(MARK).strip():
        refuse_empty(str(path), "the file is empty")
    return head


@dataclass(frozen=True)
class Layout:
    """How the columns of a text file are laid out."""

    names: tuple[str, ...]
    named: bool  # by a header
    delimiter: str
    offset: int  # bytes before the first row
    newline: bytes  # with which a line ends


def find_layout(path: Path, head: bytes, header: bool | str, delimiter: str | None) -> Layout:
    """Find delimiter and header in the first lines, where the user does not name them."""
    if header not in (True, False, "auto"):
        raise InvalidParameter(f"header must be True, False or 'auto'; got {header!r}. Use 'auto'.")
    text = _decode(path, head)
    delimiter = delimiter or _delimiter(path, text)
    records = _records(path, text, delimiter)
    first, lines = records[0]
    second = records[1][0] if len(records) > 1 else []
    named = _is_header(first, second) if header == "auto" else bool(header)
    if named and not second:
        refuse_empty(str(path), "the file has a header and no rows")
    names = tuple(name.strip() or f"x{j}" for j, name in enumerate(first)) if named else unnamed(len(first))
    before = list(StringIO(text, newline=""))[:lines] if named else []
    offset = len(head) - len(head.removeprefix(MARK)) + len("".join(before).encode())
    return Layout(names, named, delimiter, offset, b"\n" if b"\n" in head else b"\r")


def blocks(path: Path, layout: Layout) -> Iterator[bytes]:
    """Return whole rows, about BLOCK bytes at a time; a line that ends within quotation marks ends no row."""
    with reading(path), open_text(path) as file:
        file.read(layout.offset)
        rest = b""
        while fresh := file.read(BLOCK):
            rest += fresh
            end = _last_row(rest, layout.newline)
            if rest[:end].strip():
                yield rest[:end]
            rest = rest[end:]
            if len(rest) > LONGEST:
                raise InvalidFile(
                    f"{path}: a row must be shorter than {LONGEST} bytes; one is longer, or a quotation mark is never "
                    "closed. Check the file."
                )
        if rest.strip():
            yield rest


def _last_row(text: bytes, newline: bytes) -> int:
    """Return where the last whole row ends: at the last line before which all quotation marks are closed."""
    end = text.rfind(newline) + 1
    open_marks = text.count(b'"', 0, end) % 2
    while end and open_marks:
        before = text.rfind(newline, 0, end - 1) + 1
        open_marks ^= text.count(b'"', before, end) % 2
        end = before
    return end


def _decode(path: Path, head: bytes) -> str:
    try:
        return head.removeprefix(MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        if error.end >= len(head) - 4:  # a letter that the end of the head cuts in two
            return head.removeprefix(MARK).decode("utf-8", "ignore")
        raise InvalidFile(f"{path} must be text in UTF-8; {error}. Save it in that encoding.") from error


def _delimiter(path: Path, text: str) -> str:
    for delimiter in DELIMITERS:
        widths = {len(fields) for fields, _ in _records(path, text, delimiter)}
        if len(widths) == 1 and widths != {1}:
            return delimiter
    return ","


def _parsed(text: str, delimiter: str, most: int = 2) -> list[tuple[list[str], int]]:
    """Return the first records that are not blank, and how many lines end with each."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
    found: list[tuple[list[str], int]] = []
    for fields in reader:
        if fields:
            found.append((fields, reader.line_num))
        if len(found) == most:
            break
    return found


def _records(path: Path, text: str, delimiter: str) -> list[tuple[list[str], int]]:
    try:
        return _parsed(text, delimiter)
    except (csv.Error, TypeError) as error:
        raise InvalidFile(
            f"{path} must be delimited text; reading its first line failed ({error}). Check it."
        ) from error


def _is_header(first: list[str], second: list[str]) -> bool:
    """Whether the first record names columns: text above a number, or nothing but text."""
    if any(not reads_as_number(above) and reads_as_number(below) for above, below in zip(first, second, strict=False)):
        return True
    return not any(reads_as_number(field) for field in first) and len(set(first)) == len(first)


def reads_as_number(text: str | None) -> bool:
    """Whether text reads as a number, or there is none."""
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True
