"""The header of a row store: a JSON document in front of the rows, with a checksum.

A file starts with 64 bytes: a magic number, the version of the format, the length of the document and its SHA-256. The
document follows, then the inputs, row by row, and the targets, each at a multiple of 4,096 bytes. Magic number, version
and the place of the checksum are the same in all versions. So every joker can distinguish a damaged file from a file of
a newer version.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import weakref
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Schema
from joker.errors import InvalidFile, JokerError, MissingFile

MAGIC = b"joker\x00rs"
STORE_VERSION = 1  # of the format; raised when an older reader would read other values
PREAMBLE = struct.Struct("<8sQQ32s8x")
ALIGNMENT_BYTES = 4096  # of sections: the size of a page
CHECKSUM_BYTES = 2**24  # for each of which there is a checksum
MAX_DOCUMENT_BYTES = 2**28
NO_CHECKSUM = "0" * 64  # takes the place of a checksum that is not known yet
EXAMPLE = "train.rows"  # a file name, for messages
INPUT_TYPES = tuple(np.dtype(kind) for kind in ("u1", "<i2", "<f2", "<f4", "<f8"))  # of inputs
TARGET_TYPES = tuple(np.dtype(kind) for kind in ("u1", "<u2", "<u4", "<f4", "<f8"))  # unsigned: the number of a class
REMEDY = "Copy the file again from its source, or convert the data again."
MAX_FILE_BYTES = 2**63  # no file system has larger files
# Errors that a document with wrong contents may lead to.
MALFORMED_DOCUMENT = (JokerError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, eq=False)
class Section:
    """A matrix in the file, stored row by row."""

    offset: int  # bytes from the start of the file
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    checksums: tuple[str, ...]

    @property
    def row_bytes(self) -> int:
        """The bytes of a row."""
        return self.shape[1] * self.dtype.itemsize

    @property
    def end(self) -> int:
        """The offset of its end."""
        return self.offset + self.shape[0] * self.row_bytes

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON can represent them."""
        place = {"offset": self.offset, "shape": list(self.shape)}
        return {**place, "dtype": self.dtype.str, "sha256": list(self.checksums)}

    @classmethod
    def from_json(cls, document: dict[str, Any], kinds: tuple[np.dtype[Any], ...]) -> Section:
        """Return the section from the result of ``to_json``; raise InvalidFile for values that are not possible."""
        n, width = (int(length) for length in document["shape"])
        section = cls(int(document["offset"]), (n, width), np.dtype(document["dtype"]), tuple(document["sha256"]))
        valid = section.dtype in kinds and min(n, width, section.offset) > 0 and document["dtype"] == section.dtype.str
        valid = valid and section.end < MAX_FILE_BYTES
        if not valid or len(section.checksums) != checksum_count(n * section.row_bytes):
            raise InvalidFile(f"a section has impossible values: {document['shape']}, {document['dtype']}")
        return section


def checksum_count(size: int) -> int:
    """Return the number of checksums of ``size`` bytes."""
    return -(-size // CHECKSUM_BYTES)


def empty_section(offset: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> Section:
    """Return a section that starts at the next multiple of ALIGNMENT_BYTES, without checksums."""
    size = shape[0] * shape[1] * dtype.itemsize
    return Section(-(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES, shape, dtype, (NO_CHECKSUM,) * checksum_count(size))


@dataclass(frozen=True, eq=False)
class Header:
    """The contents of a store except its rows."""

    schema: Schema
    x: Section  # (n, d)
    y: Section | None  # (n, t): numbers, or one column with the number of the class
    task: str | None  # "classification" or "regression"
    classes: NDArray[Any] | None  # sorted
    statistics: dict[str, list[float]]  # mean, deviation, low and high of each input; the number of rows of each class
    seed: int
    source: str
    version: str  # of the joker that wrote it

    @property
    def end(self) -> int:
        """The length of the file."""
        return (self.y or self.x).end

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON can represent them."""
        classes = None if self.classes is None else {"kind": self.classes.dtype.kind, "values": self.classes.tolist()}
        return {
            "written_by": {"joker": self.version},
            "source": self.source,
            "rows": self.x.shape[0],
            "task": self.task,
            "seed": self.seed,
            "schema": self.schema.to_json(),
            "classes": classes,
            "figures": self.statistics,
            "chunk": CHECKSUM_BYTES,
            "x": self.x.to_json(),
            "y": None if self.y is None else self.y.to_json(),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Header:
        """Return the header from the result of ``to_json``; raise an error if its parts do not match."""
        x = Section.from_json(document["x"], INPUT_TYPES)
        y = None if document["y"] is None else Section.from_json(document["y"], TARGET_TYPES)
        classes = None if document["classes"] is None else _classes(**document["classes"])
        statistics = {str(name): [float(v) for v in values] for name, values in document["figures"].items()}
        header = cls(
            Schema.from_json(document["schema"]), x, y, document["task"], classes, statistics,
            int(document["seed"]), str(document["source"]), str(document["written_by"]["joker"]),
        )  # fmt: skip
        _check(header, document["chunk"])
        return header


def _classes(kind: str, values: list[Any]) -> NDArray[Any]:
    return np.array(values, dtype={"U": str, "b": bool, "f": np.float64, "i": np.int64, "u": np.uint64}[kind])


def _check(header: Header, chunk: object) -> None:
    """Raise InvalidFile if the parts of a header do not match."""
    n, width = header.x.shape
    columns = [header.statistics[name] for name in ("mean", "deviation", "low", "high")]
    if chunk != CHECKSUM_BYTES or header.schema.width != width or any(len(values) != width for values in columns):
        raise InvalidFile(f"there must be a name and statistics for each of {width} inputs")
    if not np.isfinite(columns).all() or min(header.statistics["deviation"]) < 0:
        raise InvalidFile("the statistics of the inputs must be finite, and deviations at least 0")
    if header.classes is not None and len(set(header.classes.tolist())) != len(header.classes):
        raise InvalidFile("the classes must be different")
    if header.y is None:
        return
    if header.y.shape[0] != n or header.y.offset < header.x.end:
        raise InvalidFile(f"there must be a target for each of {n} rows")
    if (header.task == "classification") != (header.classes is not None):
        raise InvalidFile("there must be classes if and only if the task is classification")


def pack(header: Header) -> bytes:
    """Return the bytes of the preamble and the document; their number does not depend on the checksums."""
    text = json.dumps(header.to_json(), ensure_ascii=False, allow_nan=False).encode()
    return PREAMBLE.pack(MAGIC, STORE_VERSION, len(text), hashlib.sha256(text).digest()) + text


READAHEAD_BYTES = 2**17  # Linux prefetches at least as much for one call of posix_fadvise
MAX_CALL_BYTES = 2**30  # of one read: macOS refuses 2 GiB and more


def as_bytes(array: NDArray[Any]) -> memoryview:
    """Return the memory of a contiguous array as bytes."""
    return array.reshape(-1).view(np.uint8).data


class RowFile:
    """A file that is open for reading. On Linux and macOS a file that replaces it does not change what is read."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise MissingFile(f"path must name a row store; {path} does not exist. Check the name and the folder.")
        if not path.is_file():
            raise InvalidFile(f"path must name a row store; {path} is not a file. Give the name of a row store.")
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = Lock()
        self.close = weakref.finalize(self, os.close, self._handle)  # called with the last reference, or before

    @property
    def size(self) -> int:
        """The size in bytes."""
        return os.fstat(self._handle).st_size

    def read(self, size: int, offset: int) -> bytes:
        """Return ``size`` bytes from ``offset``, or fewer at the end of the file."""
        data = bytearray(size)
        return bytes(data[: self._fill(memoryview(data), offset)])

    def fill(self, view: memoryview, offset: int) -> None:
        """Fill ``view`` with the bytes from ``offset``."""
        if self._fill(view, offset) < len(view):
            raise InvalidFile(
                f"{self.path} must not change while it is read; it is shorter now. Convert the data again."
            )

    def advise(self, size: int, offset: int) -> None:
        """Let the system prefetch ``size`` bytes from ``offset``, where it can."""
        if hasattr(os, "posix_fadvise"):
            for start in range(offset, offset + size, READAHEAD_BYTES):
                length = min(READAHEAD_BYTES, offset + size - start)
                os.posix_fadvise(self._handle, start, length, os.POSIX_FADV_WILLNEED)

    def _fill(self, view: memoryview, offset: int) -> int:
        done = 0
        while done < len(view) and (count := self._read(view[done : done + MAX_CALL_BYTES], offset + done)):
            done += count
        return done

    def _read(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._handle, [view], offset)
        with self._lock:  # Windows has no reads at a position
            os.lseek(self._handle, offset, os.SEEK_SET)
            data = os.read(self._handle, len(view))
        view[: len(data)] = data
        return len(data)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowFile, (self.path,)


def load_header(file: RowFile, path: object) -> Header:
    """Return the header of a file; raise InvalidFile if it is not a store, or if a byte of the header has changed."""
    preamble = file.read(PREAMBLE.size, 0)
    if len(preamble) < PREAMBLE.size or not preamble.startswith(MAGIC):
        raise InvalidFile(f"path must name a row store; {path} is not one. Make one with joker.data.convert.")
    _, version, length, checksum = PREAMBLE.unpack(preamble)
    if version > STORE_VERSION:
        raise InvalidFile(
            f"{path} was written by a newer joker (format {version}); this joker reads formats up to {STORE_VERSION}. "
            "Upgrade joker."
        )
    if length > MAX_DOCUMENT_BYTES:
        raise InvalidFile(f"the header of {path} must be shorter; it is damaged. {REMEDY}")
    text = file.read(length, PREAMBLE.size)
    if hashlib.sha256(text).digest() != checksum:
        raise InvalidFile(f"the header of {path} must match its checksum; it does not, the file is damaged. {REMEDY}")
    try:
        return Header.from_json(json.loads(text))
    except MALFORMED_DOCUMENT as error:
        raise InvalidFile(f"{path} must describe rows that can be read; it does not: {error}. {REMEDY}") from error
