"""Parts of sources, and several sources as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data.schema import Schema
from joker.data.sources import Batch, Source
from joker.data.sources.base import TableSource
from joker.errors import InvalidData
from joker.runtime import generator

DRAWN_ROWS = 2**16  # for which random numbers are drawn at a time


@dataclass(frozen=True)
class Span:
    """The rows from ``start`` to ``stop``, without ``stop``."""

    start: int
    stop: int

    def count(self, rows: int) -> int:
        """Return the number of the first ``rows`` rows that belong to the part."""
        return max(0, min(self.stop, rows) - self.start)

    def mask(self, first: int, count: int) -> NDArray[np.bool_]:
        """Return which of the rows ``first`` to ``first + count`` belong to the part."""
        numbers = np.arange(first, first + count)
        return (numbers >= self.start) & (numbers < self.stop)

    def ends_before(self, row: int) -> bool:
        """Return whether neither this row nor a later one belongs to the part."""
        return row >= self.stop


@dataclass(frozen=True)
class RandomPart:
    """A random share of the rows by number and seed, or with ``inside=False`` all other rows; read like a Span."""

    share: float
    seed: int
    inside: bool = True

    def count(self, rows: int) -> int:
        return sum(int(self.mask(first, min(DRAWN_ROWS, rows - first)).sum()) for first in range(0, rows, DRAWN_ROWS))

    def mask(self, first: int, count: int) -> NDArray[np.bool_]:
        blocks = range(first // DRAWN_ROWS, (first + count - 1) // DRAWN_ROWS + 1)
        drawn = np.concatenate([_uniform(self.seed, block) for block in blocks])
        start = first % DRAWN_ROWS
        inside: NDArray[np.bool_] = drawn[start : start + count] < self.share
        return inside if self.inside else ~inside

    def ends_before(self, row: int) -> bool:
        return False


@lru_cache(maxsize=2)
def _uniform(seed: int, block: int) -> NDArray[np.float32]:  # (DRAWN_ROWS,)
    return torch.rand(DRAWN_ROWS, generator=generator(seed, f"split/{block}")).numpy()


@dataclass(frozen=True, eq=False)
class PartSource(TableSource):
    """Some rows of a source, with a schema that may have other names."""

    whole: Source
    part: Span | RandomPart
    expected: int | None  # the number of rows of the whole source, if it is known
    checked: bool

    def read(self, rows: int) -> Iterator[Batch]:
        seen = returned = 0
        for batch in self.whole.batches(rows):
            inside = self.part.mask(seen, len(batch))
            seen += len(batch)
            if inside.any():
                yield Batch(batch.x[inside], None if batch.y is None else batch.y[inside], returned)
                returned += int(inside.sum())
            if self.part.ends_before(seen):
                return
        if self.expected is not None and seen != self.expected:
            raise InvalidData(
                f"{self.whole.name} must have the {self.expected:,} rows of the data set; it has {seen:,}. Download it "
                "again, or read a part of it with joker.data.open_source."
            )


def part_of(
    whole: Source, part: Span | RandomPart, expected: int | None = None, schema: Schema | None = None
) -> PartSource:
    """Return some rows of a source; if ``expected`` is given, the number of rows of the whole source is checked."""
    total = whole.rows if expected is None else expected
    count = None if total is None else part.count(total)
    return PartSource(whole.name, schema or whole.schema, whole.dtype, count, whole, part, expected, whole.checked)


@dataclass(frozen=True, eq=False)
class JoinedSource(TableSource):
    """The rows of several sources with the same columns."""

    sources: tuple[Source, ...]
    checked: bool

    def read(self, rows: int) -> Iterator[Batch]:
        before = 0
        for source in self.sources:
            for batch in source.batches(rows):
                yield Batch(batch.x, batch.y, before)
                before += len(batch)


def joined(name: str, sources: tuple[Source, ...]) -> JoinedSource:
    """Return several sources with the same columns and type as one."""
    first = sources[0]
    for source in sources:
        if source.schema.names != first.schema.names or source.dtype != first.dtype:
            raise InvalidData(
                f"{source.name} must have the columns of {first.name}, {first.schema.width} of {first.dtype}; it has "
                f"{source.schema.width} of {source.dtype}. Check that the files belong together."
            )
    counts = [source.rows for source in sources]
    total = None if None in counts else sum(count for count in counts if count is not None)
    checked = all(source.checked for source in sources)
    return JoinedSource(name, first.schema, first.dtype, total, sources, checked)
