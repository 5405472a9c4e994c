"""Arrays in files of NumPy, which are read and not mapped: mapped pages count as memory of the process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from joker.data.sources.arrays import StreamedArray
from joker.data.sources.validation import decoding
from joker.errors import InvalidFile

# What NumPy raises for a damaged header, which is the text of a Python dictionary.
HEADER_ERRORS = (
    ValueError,
    KeyError,
    EOFError,
    OSError,
    SyntaxError,
    TypeError,
    OverflowError,
    RecursionError,
    MemoryError,
    TokenError,
)
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


Header = tuple[tuple[int, ...], np.dtype[Any], bool, int]  # the fields shape, dtype, fortran and offset of NpyArray


def read_header(file: Any, name: str) -> Header:
    """Read the header of a .npy file, and leave the file at the data."""
    with decoding("array that numpy.save wrote", HEADER_ERRORS, name):
        shape, fortran, dtype = _READERS[npy.read_magic(file)](file)
    if any(length < 0 for length in shape):
        raise InvalidFile(f"{name} must have a shape of whole numbers; it has {shape}. Write or copy it again.")
    if dtype.hasobject or not shape:
        found = "Python objects" if dtype.hasobject else "a single number"
        raise InvalidFile(f"{name} must be an array of numbers or of text; it holds {found}. Convert it and save it.")
    return shape, dtype, fortran and len(shape) > 1, file.tell()


@dataclass(frozen=True, eq=False)
class NpyArray(StreamedArray):
    """The array of a .npy file."""

    fortran: bool  # whether columns, not rows, are consecutive
    offset: int  # of the data, in bytes
    path: Path

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        n = self.shape[0]
        read = self._columns if self.fortran else self._run
        with self.path.open("rb", buffering=0) as file:
            for first in range(0, n, rows):
                yield read(file, first, min(rows, n - first))

    def _run(self, file: BinaryIO, first: int, count: int) -> NDArray[Any]:
        """Read consecutive rows of an array in C order."""
        out = np.empty((count, *self.shape[1:]), self.dtype)
        self._fill(file, first * prod(self.shape[1:]), out)
        return out

    def _columns(self, file: BinaryIO, first: int, count: int) -> NDArray[Any]:
        """Read consecutive rows of an array in Fortran order."""
        out = np.empty((prod(self.shape[1:]), count), self.dtype)
        for column, part in enumerate(out):
            self._fill(file, column * self.shape[0] + first, part)
        return out.T.reshape((count, *self.shape[1:]), order="F")

    def _fill(self, file: BinaryIO, item: int, out: NDArray[Any]) -> None:
        file.seek(self.offset + item * self.dtype.itemsize)
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
        array = NpyArray(str(path), *read_header(file, str(path)), path)
    wanted = array.offset + prod(array.shape) * array.dtype.itemsize
    if (found := path.stat().st_size) < wanted:
        raise InvalidFile(f"{path} must be complete; it has {found} of {wanted} bytes. Write or copy it again.")
    return array
