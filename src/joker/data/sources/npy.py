"""Arrays in files of NumPy, which are read and not mapped: mapped pages count as memory of the process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from joker.data.sources.arrays import StreamedArray
from joker.errors import InvalidFile

_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@dataclass(frozen=True)
class NpyHeader:
    """The header of a .npy file."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int  # of the data, in bytes

    @property
    def row_items(self) -> int:
        """The number of entries of a row."""
        return prod(self.shape[1:])


def read_header(file: Any, name: str) -> NpyHeader:
    """Read the header of a .npy file, and leave the file at the data."""
    try:
        version = npy.read_magic(file)
        shape, fortran, dtype = _READERS[version](file)
    except (ValueError, KeyError, EOFError, OSError) as error:
        raise InvalidFile(
            f"{name} must be an array that numpy.save wrote; reading its header failed ({error}). Save it again."
        ) from error
    if dtype.hasobject or not shape:
        found = "Python objects" if dtype.hasobject else "a single number"
        raise InvalidFile(f"{name} must be an array of numbers or of text; it holds {found}. Convert it and save it.")
    return NpyHeader(shape, fortran, dtype, file.tell())


@dataclass(frozen=True, eq=False)
class HeadedArray(StreamedArray):
    """An array in the format of NumPy, whose header has been read."""

    path: Path
    name: str
    header: NpyHeader

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.header.shape

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        return self.header.dtype


@dataclass(frozen=True, eq=False)
class NpyArray(HeadedArray):
    """The array of a .npy file."""

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        n = self.shape[0]
        read = self._columns if self.header.fortran and len(self.shape) > 1 else self._run
        with self.path.open("rb", buffering=0) as file:
            for first in range(0, n, rows):
                yield read(file, first, min(rows, n - first))

    def _run(self, file: BinaryIO, first: int, count: int) -> NDArray[Any]:
        """Read consecutive rows of an array in C order."""
        out = np.empty((count, *self.shape[1:]), self.dtype)
        self._fill(file, first * self.header.row_items, out)
        return out

    def _columns(self, file: BinaryIO, first: int, count: int) -> NDArray[Any]:
        """Read consecutive rows of an array in Fortran order."""
        out = np.empty((self.header.row_items, count), self.dtype)
        for column, part in enumerate(out):
            self._fill(file, column * self.shape[0] + first, part)
        return out.T.reshape((count, *self.shape[1:]), order="F")

    def _fill(self, file: BinaryIO, item: int, out: NDArray[Any]) -> None:
        file.seek(self.header.offset + item * self.dtype.itemsize)
        fill(file, out, self.name)


def fill(file: Any, out: NDArray[Any], name: str) -> None:
    """Fill an array with the next bytes of a file."""
    view = out.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        count = file.readinto(view[done:])
        if not count:
            raise InvalidFile(
                f"{name} must be complete; it ends {len(view) - done} bytes early. Write or copy it again."
            )
        done += count


def open_npy(path: Path) -> NpyArray:
    """Open the array of a .npy file, whose length must be that of its header."""
    with path.open("rb") as file:
        header = read_header(file, str(path))
    wanted = header.offset + prod(header.shape) * header.dtype.itemsize
    if (found := path.stat().st_size) < wanted:
        raise InvalidFile(f"{path} must be complete; it has {found} of {wanted} bytes. Write or copy it again.")
    return NpyArray(path, str(path), header)
