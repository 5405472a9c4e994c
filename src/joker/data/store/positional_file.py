"""A file that is read in pieces, by place, by any thread."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidFile, MissingFile

READAHEAD = 2**17  # bytes that a system fetches for one piece of advice, at least


def as_bytes(array: NDArray[Any]) -> memoryview:
    """The memory of a contiguous array, byte by byte."""
    return array.reshape(-1).view(np.uint8).data


class RowFile:
    """A file open for reading. What replaces it under its name does not change what is read."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise MissingFile(f"path must name a row store; there is nothing at {path}. Check the name and the folder.")
        if not path.is_file():
            raise InvalidFile(f"path must name a file; {path} is none. Give the name of a row store.")
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = Lock()
        weakref.finalize(self, os.close, self._handle)

    @property
    def size(self) -> int:
        """Its bytes."""
        return os.fstat(self._handle).st_size

    def read(self, size: int, offset: int) -> bytes:
        """Return at most ``size`` bytes from a place on: fewer at the end."""
        data = bytearray(size)
        return bytes(data[: self._fill(memoryview(data), offset)])

    def fill(self, view: memoryview, offset: int) -> None:
        """Read into memory from a place on, all that it holds."""
        if self._fill(view, offset) < len(view):
            raise InvalidFile(f"{self.path} has become shorter while it was read. Convert the data again.")

    def advise(self, size: int, offset: int) -> None:
        """Say that a piece is wanted soon: the system fetches it from the disk meanwhile, if it can."""
        if hasattr(os, "posix_fadvise"):
            for start in range(offset, offset + size, READAHEAD):
                length = min(READAHEAD, offset + size - start)
                os.posix_fadvise(self._handle, start, length, os.POSIX_FADV_WILLNEED)

    def _fill(self, view: memoryview, offset: int) -> int:
        done = 0
        while done < len(view) and (got := self._read(view[done:], offset + done)):
            done += got
        return done

    def _read(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._handle, [view], offset)
        with self._lock:  # Windows
            os.lseek(self._handle, offset, os.SEEK_SET)
            data = os.read(self._handle, len(view))
        view[: len(data)] = data
        return len(data)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowFile, (self.path,)
