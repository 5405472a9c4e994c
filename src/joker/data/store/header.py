"""What a row store says of itself: a JSON document in front of the rows, with a checksum of its own.

A file begins with 64 bytes: the magic, the version of the format, the length of the document and its SHA-256. The
document follows, then at multiples of 4,096 bytes the inputs, row after row, and the targets. Magic, version and the
place of the checksum are the same in all versions, so that any joker can tell a damaged file from a newer one.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Schema
from joker.errors import InvalidFile, JokerError

MAGIC = b"joker\x00rs"
VERSION = 1  # raised when a reader that does not know of the change would read something else
PREAMBLE = struct.Struct("<8sQQ32s8x")
ALIGNED = 4096  # bytes: a page
CHUNK = 2**24  # bytes that one checksum is of
MOST_DOCUMENT = 2**28  # bytes
UNSEALED = "0" * 64
EXAMPLE = "train.rows"  # a file name, for messages
STORED = tuple(np.dtype(kind) for kind in ("u1", "<i2", "<f2", "<f4", "<f8"))  # types of inputs
TARGETS = tuple(np.dtype(kind) for kind in ("u1", "<u2", "<u4", "<f4", "<f8"))  # classes by number, or numbers
DAMAGED = "Copy the file again from where it came, or convert the data again."
SENSELESS = (JokerError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, eq=False)
class Section:
    """A matrix in the file, row after row."""

    offset: int  # bytes from the beginning of the file
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    checksums: tuple[str, ...]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.shape[1] * self.dtype.itemsize

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.offset + self.shape[0] * self.row_bytes

    def to_json(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "offset": self.offset,
            "shape": list(self.shape),
            "dtype": self.dtype.str,
            "sha256": list(self.checksums),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any], kinds: tuple[np.dtype[Any], ...]) -> Section:
        """Return the section that ``to_json`` described, if it makes sense."""
        n, width = (int(length) for length in document["shape"])
        found = cls(int(document["offset"]), (n, width), np.dtype(document["dtype"]), tuple(document["sha256"]))
        sound = found.dtype in kinds and min(n, width, found.offset) > 0 and document["dtype"] == found.dtype.str
        if not sound or len(found.checksums) != chunks(n * found.row_bytes):
            raise InvalidFile(f"a section is not what it should be: {document['shape']}, {document['dtype']}")
        return found


def chunks(size: int) -> int:
    """How many checksums so many bytes have."""
    return -(-size // CHUNK)


def empty_section(offset: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> Section:
    """A section that begins at the next page, and whose checksums are not known yet."""
    size = shape[0] * shape[1] * dtype.itemsize
    return Section(-(-offset // ALIGNED) * ALIGNED, shape, dtype, (UNSEALED,) * chunks(size))


@dataclass(frozen=True, eq=False)
class Header:
    """What is known of a store beside its rows."""

    schema: Schema
    x: Section  # (n, d)
    y: Section | None  # (n, t): numbers, or one column with the number of the class
    task: str | None  # "classification" or "regression"
    classes: NDArray[Any] | None  # sorted
    figures: dict[str, list[float]]  # of each input: mean, deviation, low, high; of each class: its rows
    seed: int
    source: str
    version: str  # of the joker that wrote it

    @property
    def end(self) -> int:
        """The length of the file."""
        return (self.y or self.x).end

    def to_json(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        classes = None if self.classes is None else {"kind": self.classes.dtype.kind, "values": self.classes.tolist()}
        return {
            "written_by": {"joker": self.version},
            "source": self.source,
            "rows": self.x.shape[0],
            "task": self.task,
            "seed": self.seed,
            "schema": self.schema.to_json(),
            "classes": classes,
            "figures": self.figures,
            "chunk": CHUNK,
            "x": self.x.to_json(),
            "y": None if self.y is None else self.y.to_json(),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Header:
        """Return the header that ``to_json`` described, if it makes sense."""
        x = Section.from_json(document["x"], STORED)
        y = None if document["y"] is None else Section.from_json(document["y"], TARGETS)
        classes = None if document["classes"] is None else _classes(**document["classes"])
        figures = {str(name): [float(v) for v in values] for name, values in document["figures"].items()}
        found = cls(
            Schema.from_json(document["schema"]), x, y, document["task"], classes, figures,
            int(document["seed"]), str(document["source"]), str(document["written_by"]["joker"]),
        )  # fmt: skip
        _check(found, document["chunk"])
        return found


def _classes(kind: str, values: list[Any]) -> NDArray[Any]:
    return np.array(values, dtype={"U": str, "b": bool, "f": np.float64, "i": np.int64, "u": np.uint64}[kind])


def _check(header: Header, chunk: object) -> None:
    """Refuse parts that do not fit one another."""
    n, width = header.x.shape
    columns = [header.figures[name] for name in ("mean", "deviation", "low", "high")]
    if chunk != CHUNK or header.schema.width != width or any(len(values) != width for values in columns):
        raise InvalidFile(f"there must be a name and figures for each of {width} inputs")
    if header.y is None:
        return
    if header.y.shape[0] != n or header.y.offset < header.x.end:
        raise InvalidFile(f"there must be a target for each of {n} rows")
    if (header.task == "classification") != (header.classes is not None):
        raise InvalidFile("there must be classes where the task is classification, and nowhere else")


def pack(header: Header) -> bytes:
    """Return the bytes in front of the rows; their number does not depend on the checksums."""
    text = json.dumps(header.to_json(), ensure_ascii=False, allow_nan=False).encode()
    return PREAMBLE.pack(MAGIC, VERSION, len(text), hashlib.sha256(text).digest()) + text


def document_length(preamble: bytes, path: object) -> int:
    """The length of the document after these first bytes of a file, if it is a store that can be read."""
    if len(preamble) < PREAMBLE.size or not preamble.startswith(MAGIC):
        raise InvalidFile(f"path must name a row store; {path} is none. Make one with joker.data.convert.")
    _, version, length, _ = PREAMBLE.unpack(preamble)
    if version > VERSION:
        raise InvalidFile(
            f"{path} was written by a newer joker (format {version}); this one reads up to {VERSION}. Upgrade joker."
        )
    if length > MOST_DOCUMENT:
        raise InvalidFile(f"the header of {path} must be as written, and is damaged. {DAMAGED}")
    return int(length)


def unpack(preamble: bytes, text: bytes, path: object) -> Header:
    """Return the header of a file, once it is known that none of its bytes has changed."""
    checksum: bytes = PREAMBLE.unpack(preamble)[3]
    if hashlib.sha256(text).digest() != checksum:
        raise InvalidFile(f"the header of {path} must match its checksum, and does not: it is damaged. {DAMAGED}")
    try:
        return Header.from_json(json.loads(text))
    except SENSELESS as error:
        raise InvalidFile(f"{path} must describe rows that can be read, and does not: {error}. {DAMAGED}") from error
