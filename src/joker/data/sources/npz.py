"""Arrays in NumPy's .npz files, streamed out of the archive."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.sources.arrays import ArraySource, array_source
from joker.data.sources.named_arrays import pick
from joker.data.sources.npy import HeadedArray, Header, NpyArray, fill, read_header
from joker.data.sources.read_options import Wish
from joker.errors import InvalidFile


@dataclass(frozen=True, eq=False)
class NpzArray(HeadedArray):
    """A member of a .npz file."""

    member: str

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        with _unzipping(self.path), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            turned = self.header.fortran and len(self.shape) > 1
            yield from self._unpacked(file, rows) if turned else self._run(file, rows)
            file.read(1)  # at its end the checksum is compared

    def _run(self, file: Any, rows: int) -> Iterator[NDArray[Any]]:
        """Read rows that come one after another."""
        n = self.shape[0]
        read_header(file, self.name)
        for first in range(0, n, rows):
            out = np.empty((min(rows, n - first), *self.shape[1:]), self.dtype)
            fill(file, out, self.name)
            yield out

    def _unpacked(self, file: Any, rows: int) -> Iterator[NDArray[Any]]:
        """Read rows of an array that is kept column after column, by way of a file that can be read in any order."""
        with tempfile.NamedTemporaryFile(suffix=".npy") as plain:
            shutil.copyfileobj(file, plain)
            plain.flush()
            yield from NpyArray(Path(plain.name), self.name, self.header).chunks(rows)


@contextmanager
def _unzipping(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InvalidFile(
            f"{path} must be a sound file of numpy.savez; unpacking it failed ({error}). Write or copy it again."
        ) from error


def open_npz(wish: Wish) -> ArraySource:
    """Open the arrays of a .npz file."""
    members = _members(wish.path)
    x, y = pick(wish, {name: array.shape for name, array in members.items()})
    return array_source(wish, members[x], None if y is None else members[y], y or "y")


def _members(path: Path) -> dict[str, NpzArray]:
    found = {}
    with _unzipping(path), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.namelist() if member.endswith(".npy")]
        if {"indptr.npy", "indices.npy"} <= set(members):
            raise InvalidFile(
                f"{path} must hold the rows of a table; it is a sparse matrix of SciPy. Load it with "
                "scipy.sparse.load_npz and pass it on as it is, or write it as LIBSVM text."
            )
        for member in members:
            name = member.removesuffix(".npy")
            with archive.open(member) as file:
                header = _header_or_none(file, f"{path}, array {name!r},")
            if header is not None:
                found[name] = NpzArray(path, f"{path}, array {name!r},", header, member)
    return found


def _header_or_none(file: Any, name: str) -> Header | None:
    """Return the head of an array; None where it holds no table, which is no matter unless it is chosen."""
    try:
        return read_header(file, name)
    except InvalidFile:
        return None
