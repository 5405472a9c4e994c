"""Arrays in .npz files of NumPy, decompressed as they are read."""

from __future__ import annotations

import lzma
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.sources.arrays import ArraySource, array_source
from joker.data.sources.named_arrays import pick
from joker.data.sources.npy import NpyArray, fill, read_header
from joker.data.sources.read_options import ReadOptions
from joker.data.sources.validation import decoding
from joker.errors import InvalidFile

# A damaged directory has wrong offsets and lengths: seeking to them raises an OSError or a ValueError.
_UNZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    UnicodeDecodeError,
)
_unzipping = partial(decoding, "file of numpy.savez", _UNZIP_ERRORS)


@dataclass(frozen=True, eq=False)
class NpzArray(NpyArray):
    """An array of a .npz file."""

    member: str

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        with _unzipping(self.path), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            yield from self._unpacked(file, rows) if self.fortran else self._in_order(file, rows)
            file.read(1)  # zipfile compares the checksum at the end of the file

    def _in_order(self, file: Any, rows: int) -> Iterator[NDArray[Any]]:
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
            yield from NpyArray(self.name, self.shape, self.dtype, self.fortran, self.offset, path).chunks(rows)


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
            title = f"{path}, array {name!r},"
            with archive.open(member) as file, suppress(InvalidFile):  # it may hold arrays that cannot be tables
                array = NpzArray(title, *read_header(file, title), path, member)
                wanted = array.offset + prod(array.shape) * array.dtype.itemsize
                if wanted <= archive.getinfo(member).file_size:
                    arrays[name] = array
    return arrays
