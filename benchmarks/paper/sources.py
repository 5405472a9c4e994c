"""Sources of rows: parts of a source, several sources as one, generated rows, and the file of HEPC."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data.readers import Batch, Source
from joker.data.readers.source import CheckedSource, TableSource, decoding
from joker.data.schema import Schema
from joker.errors import InvalidData, InvalidFile, InvalidParameter, UnknownName
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


# Generated rows have the shape of a large data set, to measure time and memory, not accuracy.

DRAWN_BYTES = 2**21  # of float32 numbers that are drawn at a time
INFORMATIVE = 6  # columns that depend on the class
IMAGE = (32, 32, 3)
CLASSES = 10

Drawn = tuple[NDArray[Any], NDArray[Any]]  # (k, d) and (k,)


@dataclass(frozen=True)
class Shape:
    """The properties that generated rows share with a data set: number and type of inputs, shares of classes."""

    width: int
    dtype: np.dtype[Any]
    draw: Callable[[torch.Generator, int, int], Drawn]  # (generator, seed, number of rows)


@dataclass(frozen=True, eq=False)
class GeneratedSource(TableSource):
    """Generated rows, which depend on the name and the seed only, not on the size of batches."""

    rows: int
    shape: Shape
    kind: str
    seed: int

    def read(self, rows: int) -> Iterator[Batch]:
        block = max(1, DRAWN_BYTES // (4 * self.shape.width))
        for start in range(0, self.rows, block):
            x, y = self.shape.draw(generator(self.seed, f"{self.kind}/{start // block}"), self.seed, block)
            count = min(block, self.rows - start)
            for first in range(0, count, rows):
                part = slice(first, min(first + rows, count))
                yield Batch(x[part], y[part], start + first)


def generate(name: str, n: int, seed: int = 0) -> GeneratedSource:
    """Return n generated rows with the shape of a data set.

    They have its number and type of inputs and its shares of classes, and the classes can be learned. In all other
    respects they are different. The columns are named ``generated0``, ``generated1``, ..., so that a result is not
    mistaken for one on the real data.

    Parameters
    ----------
    name : {"higgs", "susy", "cifar5m", "msd", "hepc"}
        The data set. higgs and susy have 28 and 18 inputs in float32 and two classes, cifar5m has 3,072 inputs in uint8
        and ten classes, msd and hepc have 90 and 11 inputs in float32 and a number as target.
    n : int
        The number of rows. The first rows do not depend on it.
    seed : int
        The seed.

    Examples
    --------
    >>> source = generate("higgs", 1000)
    >>> source.schema.width, source.rows, source.name
    (28, 1000, 'generated rows of the shape of higgs')
    """
    if name not in SHAPES:
        raise UnknownName.among("name", name, SHAPES)
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise InvalidParameter(f"n must be a whole number of at least 1; got {n!r}. Use 1000000.")
    shape = SHAPES[name]
    schema = Schema.numbers([f"generated{j}" for j in range(shape.width)], "label")
    title = f"generated rows of the shape of {name}"
    return GeneratedSource(title, schema, shape.dtype, int(n), shape, f"generate/{name}", int(seed))


def _two_classes(width: int, share: float) -> Shape:
    """Return the shape of two classes that differ in the correlation of pairs of columns, which is not linear."""

    def draw(source: torch.Generator, seed: int, rows: int) -> Drawn:
        y = torch.rand(rows, generator=source) < share
        x = torch.randn(rows, width, generator=source)
        sign = torch.where(y, 1.0, -1.0)[:, None]
        x[:, :INFORMATIVE:2] += 0.8 * sign * x[:, 1:INFORMATIVE:2]
        x[:, -2:] = x[:, -2:].exp()  # as energies, they are not normally distributed
        return x.numpy(), y.numpy().astype(np.float64)

    return Shape(width, np.dtype(np.float32), draw)


def _regression(width: int, centre: float, spread: float) -> Shape:
    """Return the shape of a regression with a nonlinear function and noise."""

    def draw(source: torch.Generator, seed: int, rows: int) -> Drawn:
        x = torch.randn(rows, width, generator=source)
        y = x[:, 0].sin() + 0.5 * x[:, 1] * x[:, 2] + 0.1 * torch.randn(rows, generator=source)
        return x.numpy(), (centre + spread * y).numpy().astype(np.float64)

    return Shape(width, np.dtype(np.float32), draw)


def _images(source: torch.Generator, seed: int, rows: int) -> Drawn:
    """Return images of ten classes: a coarse pattern for each class, and noise."""
    y = torch.randint(CLASSES, (rows,), generator=source)
    noise = torch.randn(rows, *IMAGE, generator=source)
    x = noise.mul_(50).add_(_patterns(seed)[y]).clamp_(0, 255).to(torch.uint8)
    return x.reshape(rows, -1).numpy(), y.numpy()


@lru_cache(maxsize=2)
def _patterns(seed: int) -> torch.Tensor:  # (CLASSES, *IMAGE)
    """Return an image of 4 × 4 patches for each class."""
    coarse = torch.randn(CLASSES, 4, 4, IMAGE[2], generator=generator(seed, "generate/patterns"))
    return 128 + 30 * coarse.repeat_interleave(8, 1).repeat_interleave(8, 2)


SHAPES = {
    "higgs": _two_classes(28, 0.530),  # the share of signal rows
    "susy": _two_classes(18, 0.458),  # the share of signal rows
    "msd": _regression(90, 1998.0, 11.0),  # approximate mean and standard deviation of the years
    "hepc": _regression(11, -0.3, 1.0),  # approximate mean and standard deviation of the log of the power
    "cifar5m": Shape(32 * 32 * 3, np.dtype(np.uint8), _images),
}


# HEPC, household electric power: eleven inputs, and the log of the active power as target.

METERS = ("reactive", "voltage", "intensity", "sub1", "sub2", "sub3")
POWER_SCHEMA = Schema.numbers(("day", "month", "year", "hour", "minute", *METERS), "log_active")
SUB_METERS = ("Sub_metering_1", "Sub_metering_2", "Sub_metering_3")
POWER_COLUMNS = ("Global_active_power", "Global_reactive_power", "Voltage", "Global_intensity", *SUB_METERS)
FLOAT32 = np.dtype(np.float32)
PACKED_ROWS = 2_049_280
PACKED_SCALES = (1000, 1000, 100, 10, 1, 1, 1)  # active, reactive, voltage, intensity, three sub-meters
PACKED_START = np.datetime64("2006-12-16T17:24", "m")


@dataclass(frozen=True, eq=False)
class PowerSource(CheckedSource):
    """The rows of household_power_consumption.txt without missing values."""

    path: Path

    def read(self, rows: int) -> Iterator[Batch]:
        first = 0
        for whole in self._complete():
            for start in range(0, len(whole), rows):
                part = whole.slice(start, rows)
                yield _batch(part.columns, first)
                first += len(part)

    def _complete(self) -> Iterator[Any]:
        """Yield record batches without the rows that have missing values."""
        import pyarrow
        from pyarrow import csv

        kinds = dict.fromkeys(("Date", "Time"), pyarrow.string()) | dict.fromkeys(POWER_COLUMNS, pyarrow.float64())
        convert = csv.ConvertOptions(column_types=kinds, null_values=["?", ""])
        with decoding("text file", (pyarrow.ArrowInvalid,), self.path):
            reader = csv.open_csv(self.path, parse_options=csv.ParseOptions(delimiter=";"), convert_options=convert)
            if tuple(reader.schema.names) != tuple(kinds):
                raise InvalidFile(
                    f"{self.path} must have the columns {', '.join(kinds)}; it has {', '.join(reader.schema.names)}. "
                    "Use the official file."
                )
            for batch in reader:
                yield batch.drop_null()


def open_power(path: Path) -> PowerSource:
    """Open the official file."""
    return PowerSource(str(path), POWER_SCHEMA, FLOAT32, None, path)


def _batch(columns: list[Any], first: int) -> Batch:
    dates = _split_numbers(columns[0], "/")  # day, month, year
    times = _split_numbers(columns[1], ":")[:, :2]  # hour, minute
    meters = np.column_stack([column.to_numpy() for column in columns[3:]])
    x = np.concatenate([dates, times, meters], axis=1, dtype=FLOAT32)
    return Batch(x, np.log(columns[2].to_numpy()), first)


def _split_numbers(column: Any, mark: str) -> NDArray[Any]:  # (k, 3)
    """Return the numbers that ``mark`` separates in each text; each distinct text is parsed once."""
    coded = column.dictionary_encode()
    parts = [[int(number) for number in text.split(mark)] for text in coded.dictionary.to_pylist()]
    numbers: NDArray[Any] = np.array(parts)[coded.indices.to_numpy()]
    return numbers


@dataclass(frozen=True, eq=False)
class PackedPowerSource(CheckedSource):
    """The same rows from a compact copy of 37 MB: one column of minutes (int32), then seven columns of uint16."""

    minutes: NDArray[np.int32]  # (n,), since the previous row
    columns: tuple[NDArray[np.uint16], ...]  # (n,) each, in units of 1 / PACKED_SCALES

    def read(self, rows: int) -> Iterator[Batch]:
        elapsed = 0
        for first in range(0, len(self.minutes), rows):
            part = slice(first, first + rows)
            minutes = elapsed + np.cumsum(self.minutes[part], dtype=np.int64)
            elapsed = int(minutes[-1])
            meters = [column[part] / scale for column, scale in zip(self.columns, PACKED_SCALES, strict=True)]
            x = np.column_stack([*_calendar(PACKED_START + minutes), *meters[1:]]).astype(FLOAT32)
            yield Batch(x, np.log(meters[0]), first)


def open_packed_power(path: Path, rows: int = PACKED_ROWS) -> PackedPowerSource:
    """Open the compact copy."""
    with decoding("compressed file", (EOFError, lzma.LZMAError), path), lzma.open(path) as file:
        raw = file.read()
    if len(raw) != (wanted := rows * (4 + 2 * len(PACKED_SCALES))):
        raise InvalidFile(f"{path} must have {wanted} bytes after decompression; it has {len(raw)}. Copy it again.")
    columns = tuple(np.frombuffer(raw, np.uint16, rows, 4 * rows + 2 * rows * j) for j in range(len(PACKED_SCALES)))
    return PackedPowerSource(str(path), POWER_SCHEMA, FLOAT32, rows, np.frombuffer(raw, np.int32, rows), columns)


def _calendar(when: Any) -> tuple[NDArray[Any], ...]:
    """Return day, month, year, hour and minute."""
    days, months = when.astype("M8[D]"), when.astype("M8[M]")
    minute = (when - days).astype(np.int64)
    day = (days - months).astype(np.int64) + 1
    month, year = months.astype(np.int64) % 12 + 1, when.astype("M8[Y]").astype(np.int64) + 1970
    return day, month, year, minute // 60, minute % 60
