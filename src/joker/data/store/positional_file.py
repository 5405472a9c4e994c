"""A file that is read at any position, by several threads at the same time."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidFile, MissingFile

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
