"""Arrays in .npz files of NumPy, decompressed as they are read."""

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
from joker.data.sources.npy import HeadedArray, NpyArray, NpyHeader, fill, read_header
from joker.data.sources.read_options import ReadOptions
from joker.errors import InvalidFile


@dataclass(frozen=True, eq=False)
class NpzArray(HeadedArray):
    """An array of a .npz file."""

    member: str

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        with _unzipping(self.path), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            fortran = self.header.fortran and len(self.shape) > 1
            yield from self._unpacked(file, rows) if fortran else self._run(file, rows)
            file.read(1)  # zipfile compares the checksum at the end of the file

    def _run(self, file: Any, rows: int) -> Iterator[NDArray[Any]]:
        """Yield the rows of an array in C order."""
        n = self.shape[0]
        read_header(file, self.name)
        for first in range(0, n, rows):
            out = np.empty((min(rows, n - first), *self.shape[1:]), self.dtype)
            fill(file, out, self.name)
            yield out

    def _unpacked(self, file: Any, rows: int) -> Iterator[NDArray[Any]]:
        """Yield the rows of an array in Fortran order, which is unpacked to a temporary file first."""
        # A folder, because Windows does not open a temporary file a second time.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "array.npy"
            with path.open("wb") as unpacked:
                shutil.copyfileobj(file, unpacked)
            yield from NpyArray(path, self.name, self.header).chunks(rows)


@contextmanager
def _unzipping(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InvalidFile(
            f"{path} must be a valid file of numpy.savez; unpacking it failed ({error}). Write or copy it again."
        ) from error


def open_npz(options: ReadOptions) -> ArraySource:
    """Open the arrays of a .npz file."""
    members = _members(options.path)
    x, y = pick(options, {name: array.shape for name, array in members.items()})
    return array_source(options, members[x], None if y is None else members[y], y or "y")


def _members(path: Path) -> dict[str, NpzArray]:
    arrays = {}
    with _unzipping(path), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.namelist() if member.endswith(".npy")]
        if {"indptr.npy", "indices.npy"} <= set(members):
            raise InvalidFile(
                f"{path} must hold the rows of a table; it is a sparse matrix of SciPy. Load it with "
                "scipy.sparse.load_npz and use the matrix, or write it as LIBSVM text."
            )
        for member in members:
            name = member.removesuffix(".npy")
            with archive.open(member) as file:
                header = _header_or_none(file, f"{path}, array {name!r},")
            if header is not None:
                arrays[name] = NpzArray(path, f"{path}, array {name!r},", header, member)
    return arrays


def _header_or_none(file: Any, name: str) -> NpyHeader | None:
    """Return the header of an array; None for an array that cannot be a table, which may be in the file unused."""
    try:
        return read_header(file, name)
    except InvalidFile:
        return None
