"""One file: tensors and a JSON document in the safetensors format, with a checksum of every byte.

The document is the text under the key ``joker`` of the safetensors metadata. Its first three fields, ``format``,
``version`` and ``sha256``, and the definition of the checksum are the same in all versions of the format. So every
joker can distinguish a damaged file from a file of a newer version.
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

from joker.distributed import current
from joker.errors import InvalidFile, MissingFile
from joker.runtime import format_bytes
from joker.runtime.atomic_file import AnyPath, parse_path, replace_file

FORMAT = "joker"
VERSION = 3  # the newest version; raised when an older reader would compute other predictions
KEY = "joker"  # of the safetensors metadata
PREFIX_BYTES = 8  # the length of the header, as an integer
MAX_HEADER_BYTES = 100_000_000  # the limit of safetensors
READ_BYTES = 2**20  # of one read while the checksum is computed
NO_CHECKSUM = "0" * 64  # takes the place of the checksum while it is computed
REMEDY = "Copy the file again from its source, or save the model again."

EXAMPLE = "model.joker"  # a file name, for messages
Document = dict[str, Any]


def write(path: AnyPath, document: Mapping[str, Any], tensors: Mapping[str, Tensor], *, version: int = 1) -> None:
    """Write a file, or replace it in one step.

    Parameters
    ----------
    path : str or PathLike
        The file, in a folder that exists.
    document : mapping
        The document, as values that JSON can represent.
    tensors : mapping
        Tensors by name, on any device.
    version : int
        The lowest version of the format that can represent the model: 2 has a bandwidth of each input, 3 a scale
        of the targets or a table.
    """
    text = json.dumps({"format": FORMAT, "version": version, "sha256": NO_CHECKSUM, **document}, allow_nan=False)
    if len(text) > MAX_HEADER_BYTES // 2:  # in the header the quotes of the text are escaped
        raise InvalidFile(
            f"the document of a model must take at most {format_bytes(MAX_HEADER_BYTES // 2)}; this one takes "
            f"{format_bytes(len(text))}, mostly names of inputs or records of epochs. Fit on an array without names."
        )
    if current().rank == 0:
        with replace_file(path, EXAMPLE) as temporary:
            _serialize(temporary, text, tensors)
            with temporary.open("r+b") as file:
                _seal(file)
    current().decide(True)  # the other processes wait for the file


def read(path: AnyPath) -> tuple[Document, dict[str, Tensor]]:
    """Return the document and the tensors of a file, on the CPU.

    Raises
    ------
    MissingFile
        If the file does not exist.
    InvalidFile
        If the file is damaged, of another program or of a newer joker.
    """
    source = parse_path(path, EXAMPLE)
    if not source.exists():
        raise MissingFile(f"path must name a file; {source} does not exist. Check the name and the folder.")
    if not source.is_file():
        raise InvalidFile(f"path must name a file; {source} is not a file. Give the name of a file that save() wrote.")
    before = source.stat()
    with source.open("rb") as file:
        document = _verified(file, source)
        _check_version(document.get("version"), source)
        tensors = _tensors(source)
    # Another file may have replaced this one between the two reads.
    return (document, tensors) if os.path.samestat(before, source.stat()) else read(path)


def _check_version(version: object, source: Path) -> None:
    if type(version) is not int:
        raise InvalidFile(_not_joker(source, "the version of its format is not a number"))
    if version > VERSION:
        raise InvalidFile(
            f"{source} was written by a newer joker (format {version}); this joker reads formats up to {VERSION}. "
            "Upgrade joker."
        )


def _serialize(path: Path, text: str, tensors: Mapping[str, Tensor]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(ready, path, metadata={KEY: text})
    except SafetensorError as error:
        raise InvalidFile(
            f"a model must be in a folder with room for it; writing to {path.parent} failed: {error}. Free some space."
        ) from error


def _seal(file: IO[bytes]) -> None:
    """Write the checksum of the whole file into its header."""
    header = file.read(PREFIX_BYTES + _length(file))
    checksum = _checksum(header, file)
    file.seek(header.index(NO_CHECKSUM.encode()))  # the first one is ours: all text of the user comes later
    file.write(checksum.encode())


def _verified(file: IO[bytes], source: Path) -> Document:
    """Return the document if no byte of the file has changed."""
    size = os.fstat(file.fileno()).st_size
    length = _length(file)
    if size < PREFIX_BYTES or length > min(size - PREFIX_BYTES, MAX_HEADER_BYTES):
        raise InvalidFile(_not_joker(source, "its first bytes are wrong, or its end is missing"))
    header = file.read(PREFIX_BYTES + length)
    end, document = _parse(header[PREFIX_BYTES:], source)
    extra = size - len(header) - end
    if extra:
        raise InvalidFile(
            f"a file of joker must have the length that its header says; {source} is {format_bytes(abs(extra))} too "
            f"{'long' if extra > 0 else 'short'}. {REMEDY}"
        )
    sealed = str(document.get("sha256"))
    unsealed = header.replace(sealed.encode(), NO_CHECKSUM.encode(), 1) if re.fullmatch("[0-9a-f]{64}", sealed) else b""
    if _checksum(unsealed, file) != sealed:
        raise InvalidFile(f"the bytes of {source} must match its checksum; they do not, the file is damaged. {REMEDY}")
    return document


def _length(file: IO[bytes]) -> int:
    """Return the length of the header that the first bytes state, and go back to the start of the file."""
    length = int.from_bytes(file.read(PREFIX_BYTES), "little")
    file.seek(0)
    return length


def _parse(header: bytes, source: Path) -> tuple[int, Document]:
    """Return the end of the tensors, counted from the end of the header, and the document."""
    try:
        layout = json.loads(header)
        document = json.loads(layout.pop("__metadata__")[KEY])
        end = max((int(tensor["data_offsets"][1]) for tensor in layout.values()), default=0)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InvalidFile(_not_joker(source, "it has no document of joker")) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidFile(_not_joker(source, "its document is of another program"))
    return end, document


def _checksum(header: bytes, file: IO[bytes]) -> str:
    """Return the SHA-256 of a header and of the rest of the file."""
    state = hashlib.sha256(header)
    while chunk := file.read(READ_BYTES):
        state.update(chunk)
    return state.hexdigest()


def _tensors(source: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(source, framework="pt", device="cpu") as file:
            # Copied, as a tensor may be a view of the file, which another program may change.
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  # it is no dict
    except SafetensorError as error:
        raise InvalidFile(f"{source} must be a safetensors file; reading it failed: {error}. {REMEDY}") from error


def _not_joker(source: Path, why: str) -> str:
    return f"path must name a file that save() wrote; {source} is not, or it is damaged: {why}. {REMEDY}"
