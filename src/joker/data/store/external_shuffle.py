"""A uniformly random order of records that do not fit in memory.

Every record has a random key of 64 bits, and the order is that of the keys. Records are distributed to buckets by the
first bits of their keys. A bucket that fits in memory is sorted there; a larger one is distributed again by the next
bits. So the order depends on the keys only, not on the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.store.positional_file import as_bytes

BITS = 6  # of the key at each level, for 64 buckets and at most 64 files
PIECE_BYTES = 2**20  # of records that are read or returned at a time
KEY_BITS = 64


class Buckets:
    """Records that are added in any order and returned in the order of their field ``key``.

    Parameters
    ----------
    folder : Path
        For the files of records that do not fit in memory; a file is removed when it has been read.
    memory : int
        The largest number of bytes of records in memory.
    """

    def __init__(self, folder: Path, memory: int, level: int = 0, name: str = "bucket") -> None:
        self.folder, self.memory, self.level, self.name = folder, memory, level, name
        self.held: list[list[NDArray[Any]]] = [[] for _ in range(2**BITS)]
        self.bytes = 0  # of the records in memory

    def put(self, records: NDArray[Any]) -> None:
        """Add records."""
        shift = KEY_BITS - BITS * (self.level + 1)
        which = (records["key"] >> np.uint64(shift)) & np.uint64(2**BITS - 1)
        order = np.argsort(which, kind="stable")
        ordered = records[order]
        ends = np.searchsorted(which[order], np.arange(2**BITS), side="right")
        for bucket, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
            if stop > start:
                self.held[bucket].append(ordered[start:stop])
        self.bytes += ordered.nbytes
        if self.bytes > self.memory:
            self._write()

    def sorted(self) -> Iterator[NDArray[Any]]:
        """Yield all records in order, about PIECE_BYTES at a time, and remove them."""
        if any(self._path(bucket).exists() for bucket in range(2**BITS)):
            self._write()
        for bucket, held in enumerate(self.held):
            path = self._path(bucket)
            if not path.exists():
                yield from _sorted(held)
            elif path.stat().st_size <= self.memory or BITS * (self.level + 2) > KEY_BITS:
                records = np.fromfile(path, self.dtype)
                path.unlink()
                yield from _sorted([records])
            else:
                yield from self._next_level(path)
            held.clear()

    def _next_level(self, path: Path) -> Iterator[NDArray[Any]]:
        deeper = Buckets(self.folder, self.memory, self.level + 1, path.name)
        step = max(1, PIECE_BYTES // self.dtype.itemsize)
        with path.open("rb") as file:
            while len(records := np.fromfile(file, self.dtype, step)):
                deeper.put(records)
        path.unlink()
        return deeper.sorted()

    def _write(self) -> None:
        for bucket, held in enumerate(self.held):
            if held:
                self.dtype = held[0].dtype
                with self._path(bucket).open("ab") as file:
                    for records in held:
                        file.write(as_bytes(records))
                held.clear()
        self.bytes = 0

    def _path(self, bucket: int) -> Path:
        return self.folder / f"{self.name}-{bucket:02}"


def _sorted(held: list[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    if not held:
        return
    records = np.concatenate(held) if len(held) > 1 else held[0]
    held.clear()
    order = np.argsort(records["key"], kind="stable")
    step = max(1, PIECE_BYTES // records.dtype.itemsize)
    for start in range(0, len(order), step):
        yield records[order[start : start + step]]
