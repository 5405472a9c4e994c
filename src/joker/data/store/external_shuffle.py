"""A uniformly random order of records that do not fit in memory.

Every record comes with a random key of 64 bits, and the order is that of the keys. They are dealt into buckets by
their leading bits; a bucket that fits in memory is sorted there, and one that does not is dealt again by the next
bits. So the order depends on the keys alone, not on the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.store.positional_file import as_bytes

BITS = 6  # of the key, for 64 buckets: so many files are open to nobody's harm
PIECE = 2**20  # bytes of sorted records that are handed out in one go
KEY_BITS = 64


class Buckets:
    """Records that are put in anyhow and come out in the order of their field ``key``.

    Parameters
    ----------
    folder : Path
        Where to write what does not fit in memory; what is written is removed as it is read.
    memory : int
        Bytes of records to hold, at most.
    """

    def __init__(self, folder: Path, memory: int, level: int = 0, name: str = "bucket") -> None:
        self.folder, self.memory, self.level, self.name = folder, memory, level, name
        self.held: list[list[NDArray[Any]]] = [[] for _ in range(2**BITS)]
        self.bytes = 0  # held

    def put(self, records: NDArray[Any]) -> None:
        """Take in some records."""
        shift = KEY_BITS - BITS * (self.level + 1)
        which = (records["key"] >> np.uint64(shift)) & np.uint64(2**BITS - 1)
        order = np.argsort(which, kind="stable")
        dealt = records[order]
        ends = np.searchsorted(which[order], np.arange(2**BITS), side="right")
        for bucket, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
            if stop > start:
                self.held[bucket].append(dealt[start:stop])
        self.bytes += dealt.nbytes
        if self.bytes > self.memory:
            self._write()

    def sorted(self) -> Iterator[NDArray[Any]]:
        """Return all records in order, a few at a time, and forget them."""
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
                yield from self._dealt_again(path)
            held.clear()

    def _dealt_again(self, path: Path) -> Iterator[NDArray[Any]]:
        deeper = Buckets(self.folder, self.memory, self.level + 1, path.name)
        few = max(1, PIECE // self.dtype.itemsize)
        with path.open("rb") as file:
            while len(records := np.fromfile(file, self.dtype, few)):
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
    few = max(1, PIECE // records.dtype.itemsize)
    for start in range(0, len(order), few):
        yield records[order[start : start + few]]
