"""One file: tensors and a JSON document in the safetensors format, sealed by a checksum of every byte.

The document is the text under the key ``joker`` of the safetensors metadata. Its first three fields,
``format``, ``version`` and ``sha256``, and the way the checksum is taken are the same in all versions, so
that any joker can tell a damaged file from one that is only newer.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from joker.errors import InvalidFile, MissingFile
from joker.runtime import format_bytes
from joker.runtime.atomic_file import AnyPath, parse_path, replace_file

FORMAT = "joker"
VERSION = 2  # the newest; raised when a reader that does not know of the change would predict something else
KEY = "joker"  # of the safetensors metadata
PREFIX = 8  # bytes that hold the length of the header
MOST_HEADER = 100_000_000  # bytes; the limit of safetensors itself
CHUNK = 2**20  # bytes read in one go
UNSEALED = "0" * 64  # stands for the checksum while the checksum is taken
DAMAGED = "Copy the file again from where it came, or save the model again."

EXAMPLE = "model.joker"  # a file name, for messages
Document = dict[str, Any]


def write(path: AnyPath, document: Mapping[str, Any], tensors: Mapping[str, Tensor], *, version: int = 1) -> None:
    """Write a file that is there either whole or not at all; one of that name is replaced.

    Parameters
    ----------
    path : str or PathLike
        Where to, in a folder that exists.
    document : mapping
        What JSON can hold.
    tensors : mapping
        Tensors by name, on any device.
    version : int
        The lowest version of the format that can hold it: 2 has bandwidths of each input.
    """
    text = json.dumps({"format": FORMAT, "version": version, "sha256": UNSEALED, **document}, allow_nan=False)
    if len(text) > MOST_HEADER // 2:  # the header holds the text with its quotes escaped
        raise InvalidFile(
            f"what a file keeps beside its tensors must take at most {format_bytes(MOST_HEADER // 2)}; this model has "
            f"{format_bytes(len(text))}, mostly names of inputs or records of epochs. Fit on an array without names."
        )
    with replace_file(path, EXAMPLE) as temporary:
        _serialize(temporary, text, tensors)
        with temporary.open("r+b") as file:
            _seal(file)


def read(path: AnyPath) -> tuple[Document, dict[str, Tensor]]:
    """Return the document and the tensors, on the CPU, of a file that is whole and ours.

    Raises
    ------
    MissingFile
        If there is none.
    InvalidFile
        If it is damaged, of another program or of a newer joker.
    """
    source = parse_path(path, EXAMPLE)
    if not source.exists():
        raise MissingFile(f"path must name a file; there is nothing at {source}. Check the name and the folder.")
    if not source.is_file():
        raise InvalidFile(f"path must name a file; {source} is none. Give the name of a file that save() wrote.")
    before = source.stat()
    with source.open("rb") as file:
        document = _verified(file, source)
        _check_version(document.get("version"), source)
        tensors = _tensors(source)
    # Another file may have replaced this one between the two reads.
    return (document, tensors) if os.path.samestat(before, source.stat()) else read(path)


def _check_version(version: object, source: Path) -> None:
    if type(version) is not int:
        raise InvalidFile(_foreign(source, "the version of its format is no number"))
    if version > VERSION:
        raise InvalidFile(
            f"{source} was written by a newer joker (format {version}); this one reads up to {VERSION}. Upgrade joker."
        )


def _serialize(path: Path, text: str, tensors: Mapping[str, Tensor]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(ready, path, metadata={KEY: text})
    except SafetensorError as error:
        raise InvalidFile(f"a file could not be written to {path.parent}: {error}. Check its space.") from error


def _seal(file: IO[bytes]) -> None:
    """Put the checksum of the whole file in its place."""
    header = file.read(PREFIX + _length(file))
    checksum = _checksum(header, file)
    file.seek(header.index(UNSEALED.encode()))  # the first place: nothing of the user's comes before
    file.write(checksum.encode())


def _verified(file: IO[bytes], source: Path) -> Document:
    """Return the document, once it is known that no byte of the file has changed."""
    size = os.fstat(file.fileno()).st_size
    length = _length(file)
    if size < PREFIX or length > min(size - PREFIX, MOST_HEADER):
        raise InvalidFile(_foreign(source, "its beginning is not that of such a file, or its end is missing"))
    header = file.read(PREFIX + length)
    end, document = _parse(header[PREFIX:], source)
    extra = size - len(header) - end
    if extra:
        raise InvalidFile(
            f"a file of joker must be as long as its header says; {source} has {format_bytes(abs(extra))} too "
            f"{'much' if extra > 0 else 'little'}. {DAMAGED}"
        )
    sealed = str(document.get("sha256"))
    unsealed = header.replace(sealed.encode(), UNSEALED.encode(), 1) if re.fullmatch("[0-9a-f]{64}", sealed) else b""
    if _checksum(unsealed, file) != sealed:
        raise InvalidFile(f"the bytes of {source} must match its checksum, and do not: it is damaged. {DAMAGED}")
    return document


def _length(file: IO[bytes]) -> int:
    """The length of the header, which the first bytes claim; the file is left at its beginning."""
    length = int.from_bytes(file.read(PREFIX), "little")
    file.seek(0)
    return length


def _parse(header: bytes, source: Path) -> tuple[int, Document]:
    """Return where the tensors end, counted from the header's end, and joker's document in the header."""
    try:
        layout = json.loads(header)
        document = json.loads(layout.pop("__metadata__")[KEY])
        end = max((int(tensor["data_offsets"][1]) for tensor in layout.values()), default=0)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InvalidFile(_foreign(source, "it has no document of joker's")) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidFile(_foreign(source, "its document is not joker's"))
    return end, document


def _checksum(header: bytes, file: IO[bytes]) -> str:
    """The SHA-256 of the header given and all that follows it in the file."""
    state = hashlib.sha256(header)
    while chunk := file.read(CHUNK):
        state.update(chunk)
    return state.hexdigest()


def _tensors(source: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(source, framework="pt", device="cpu") as file:
            # Copies: what is handed out may be a view of the file, which someone may write to.
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  # it is no dict
    except SafetensorError as error:
        raise InvalidFile(f"{source} must be a safetensors file, and is not: {error}. {DAMAGED}") from error


def _foreign(source: Path, why: str) -> str:
    return f"path must name a file that save() wrote; {source} is none, or it is damaged: {why}. {DAMAGED}"
