"""The data set HEPC, household electric power: eleven inputs, and the log of the active power as target."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Schema
from joker.data.sources import Batch
from joker.data.sources.arrow_batches import need_pyarrow, sliced
from joker.data.sources.base import CheckedSource
from joker.data.sources.csv import parsed
from joker.data.sources.text_files import detect_format, read_head, reading
from joker.errors import InvalidFile

METERS = ("reactive", "voltage", "intensity", "sub1", "sub2", "sub3")
SCHEMA = Schema.numbers(("day", "month", "year", "hour", "minute", *METERS), "log_active")
SUB_METERS = ("Sub_metering_1", "Sub_metering_2", "Sub_metering_3")
COLUMNS = ("Global_active_power", "Global_reactive_power", "Voltage", "Global_intensity", *SUB_METERS)
FLOAT32 = np.dtype(np.float32)
PACKED_ROWS = 2_049_280
PACKED_SCALES = (1000, 1000, 100, 10, 1, 1, 1)  # active, reactive, voltage, intensity, three sub-meters
PACKED_START = np.datetime64("2006-12-16T17:24", "m")


@dataclass(frozen=True, eq=False)
class PowerSource(CheckedSource):
    """The rows of household_power_consumption.txt without missing values."""

    path: Path

    def read(self, rows: int) -> Iterator[Batch]:
        return (_batch(columns, first) for columns, first in sliced(self._complete(), rows))

    def _complete(self) -> Iterator[Any]:
        """Yield record batches without the rows that have missing values."""
        pyarrow = need_pyarrow(self.name)
        text_format = detect_format(self.path, read_head(self.path), True, ";")
        if text_format.names != ("Date", "Time", *COLUMNS):
            raise InvalidFile(
                f"{self.path} must have the columns Date, Time, {', '.join(COLUMNS)}; it has "
                f"{', '.join(text_format.names)}. Use the official file."
            )
        kinds = dict.fromkeys(("Date", "Time"), pyarrow.string()) | dict.fromkeys(COLUMNS, pyarrow.float64())
        for batch in parsed(self.path, text_format, kinds):
            yield batch.drop_null()


def open_power(path: Path) -> PowerSource:
    """Open the official file."""
    return PowerSource(str(path), SCHEMA, FLOAT32, None, path)


def _batch(columns: list[Any], first: int) -> Batch:
    dates = _numbers(columns[0], "/")  # day, month, year
    times = _numbers(columns[1], ":")[:, :2]  # hour, minute
    meters = np.column_stack([column.to_numpy() for column in columns[3:]])
    x = np.concatenate([dates, times, meters], axis=1, dtype=FLOAT32)
    return Batch(x, np.log(columns[2].to_numpy()), first)


def _numbers(column: Any, mark: str) -> NDArray[Any]:  # (k, 3)
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
    with reading(path), lzma.open(path) as file:
        raw = file.read()
    if len(raw) != (wanted := rows * (4 + 2 * len(PACKED_SCALES))):
        raise InvalidFile(f"{path} must have {wanted} bytes after decompression; it has {len(raw)}. Copy it again.")
    columns = tuple(np.frombuffer(raw, np.uint16, rows, 4 * rows + 2 * rows * j) for j in range(len(PACKED_SCALES)))
    return PackedPowerSource(str(path), SCHEMA, FLOAT32, rows, np.frombuffer(raw, np.int32, rows), columns)


def _calendar(when: Any) -> tuple[NDArray[Any], ...]:
    """Return day, month, year, hour and minute."""
    days, months = when.astype("M8[D]"), when.astype("M8[M]")
    minute = (when - days).astype(np.int64)
    day = (days - months).astype(np.int64) + 1
    month, year = months.astype(np.int64) % 12 + 1, when.astype("M8[Y]").astype(np.int64) + 1970
    return day, month, year, minute // 60, minute % 60
