"""From any source of rows to a row store: one pass over the source, a shuffle, one file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data.moments import Moments, gather, moments
from joker.data.scaling import Scaling
from joker.data.schema import Schema
from joker.data.sources import Batch, Source, open_source
from joker.data.sources.validation import check_values, refuse_empty
from joker.data.store.external_shuffle import Buckets
from joker.data.store.header import CHUNK, EXAMPLE, STORED, Header, Section, empty_section, pack
from joker.data.store.positional_file import as_bytes
from joker.data.store.store import Store, open_store
from joker.data.store.target_kind import Finder, Goal
from joker.errors import InvalidData, InvalidParameter
from joker.runtime import VERSION, chunks, parse_bytes
from joker.runtime.atomic_file import RESULT, AnyPath, check_free_space, work_folder

MOST_DENSE = 4096  # inputs of sparse rows that are kept dense
PARTS = 16  # a batch takes one of so many parts of the memory, and its copies a few more
HELD = 4  # and the records on their way one of so many
MARGIN = 1.05  # of the room that is needed, for the buckets' own ends and the header

Progress = Callable[[int, int | None], object]


def convert(
    source: Source | AnyPath,
    path: AnyPath,
    *,
    target: str | int | None = None,
    columns: Sequence[str | int] | None = None,
    header: bool | str = "auto",
    categories: str = "refuse",
    schema: Schema | None = None,
    task: str | None = None,
    dtype: Any = None,
    seed: int = 0,
    memory: int | str = "256MB",
    progress: Progress | None = None,
) -> Store:
    """Write the rows of a table to a row store, in random order, and open it.

    Parameters
    ----------
    source : Source or path
        A source, or a file that :func:`joker.data.open_source` opens with ``target``, ``columns``, ``header``,
        ``categories`` and ``schema``.
    path : path
        The store, such as ``"train.rows"``; one of that name is replaced once the new one is whole.
    task : {"classification", "regression"}, optional
        What the target is for. By default classification for text, truth values and whole numbers with at most 100
        distinct values, else regression.
    dtype : {"uint8", "int16", "float16", "float32", "float64"}, optional
        The type in which inputs are kept. By default that of the source, and float32 for float64.
    seed : int
        Of the order. It does not depend on ``memory``.
    memory : int or str
        Bytes to use, about; what does not fit goes through files in the folder of ``path``.
    progress : callable, optional
        Called with the rows read so far and with the number of all, None where it is not known.

    Returns
    -------
    Store

    Raises
    ------
    InvalidData
        If a value is not finite or does not fit the type; row and column are named.
    InvalidFile
        If the disk is full. Nothing is left then, or after an interrupt.
    """
    if not isinstance(source, Source):
        wide = "float64" if dtype is not None and np.dtype(dtype) == np.float64 else None
        source = open_source(
            source, target=target, columns=columns, header=header, categories=categories, schema=schema, dtype=wide
        )
    elif (target, columns, schema) != (None, None, None):
        raise InvalidParameter("target, columns and schema are for files; a Source has its own. Leave them out.")
    with work_folder(path, EXAMPLE) as folder:
        table = _Table(source, _kept_type(source, dtype), Finder(task, source.name, source.schema.target or "y"))
        buckets = Buckets(folder, parse_bytes(memory) // HELD)
        for records in table.records(seed, parse_bytes(memory) // PARTS, folder, progress):
            buckets.put(records)
        _write(folder / RESULT, table.header(seed), buckets, table.goal)
    return open_store(path, verify=False)


class _Table:
    """One pass over a source: records for the shuffle, and what is found on the way."""

    def __init__(self, source: Source, kept: np.dtype[Any], finder: Finder) -> None:
        self.source, self.kept, self.finder = source, kept, finder
        self.found = Moments.none(source.schema.width)
        self.rows = 0
        self.goal: Goal | None = None
        self.record: np.dtype[Any] | None = None

    def records(self, seed: int, memory: int, folder: Path, progress: Progress | None) -> Iterator[NDArray[Any]]:
        """Return all rows as records with a random key."""
        keys, width = np.random.Generator(np.random.PCG64(seed)), self.source.schema.width
        for batch in self.source.batches(max(1, memory // (8 * width))):
            x, y = self._inputs(batch), self._targets(batch)
            if self.record is None:
                self.record = np.dtype([("key", "<u8"), ("y", "<f8", (y.shape[1],)), ("x", self.kept, (width,))])
                check_free_space(folder, int((self.source.rows or 0) * self.record.itemsize * MARGIN))
            records = np.empty(len(x), self.record)
            records["key"] = keys.integers(0, 2**64, len(x), np.uint64)
            records["x"], records["y"] = x, y
            self.rows += len(x)
            yield records
            if progress is not None:
                progress(self.rows, self.source.rows)
        if not self.rows:
            refuse_empty(self.source.name, "it has no rows")
        self.goal = self.finder.found() if self.finder.width else None

    def header(self, seed: int) -> Header:
        """Return what is known now; checksums are not."""
        goal, source, width = self.goal, self.source, self.source.schema.width
        scaling = Scaling.of(self.found)
        figures = {"mean": scaling.mean, "deviation": scaling.deviation, "low": self.found.low, "high": self.found.high}
        parts: dict[str, Any] = {
            "figures": {**{name: values.tolist() for name, values in figures.items()}, "rows": self._class_rows()},
            "task": None if goal is None else goal.task,
            "classes": None if goal is None else goal.classes,
        }
        x = empty_section(0, (self.rows, width), self.kept)
        y = None if goal is None else empty_section(0, (self.rows, self.finder.width), goal.dtype)
        draft = Header(source.schema, x, y, seed=seed, source=source.name, version=VERSION, **parts)
        # Offsets are numbers in the document whose digits count in its length: room for the longest.
        begin = len(pack(draft)) + 64
        x = empty_section(begin, x.shape, x.dtype)
        return replace(draft, x=x, y=None if y is None else empty_section(x.end, y.shape, y.dtype))

    def _class_rows(self) -> list[int]:
        """The rows of each class."""
        return [] if self.goal is None or self.goal.rows is None else self.goal.rows.tolist()

    def _inputs(self, batch: Batch) -> NDArray[Any]:  # (k, d)
        """The inputs in the type they are kept in, once they are known to be finite and to fit it."""
        source = self.source
        if batch.x.shape[1] != source.schema.width:
            raise InvalidData(
                f"{source.name}: a batch must have the {source.schema.width} columns of the schema; the one from row "
                f"{batch.first} on has {batch.x.shape[1]}. Correct the source."
            )
        if not isinstance(batch.x, np.ndarray) and batch.x.shape[1] > MOST_DENSE:
            raise InvalidData(
                f"{source.name}: sparse rows are kept dense in a row store, of at most {MOST_DENSE} inputs; got "
                f"{batch.x.shape[1]}. Choose columns, or fit on a SciPy matrix in memory."
            )
        if not source.checked:
            check_values(batch.x, batch.y, batch.first, source.schema, source.name)
        x = batch.dense
        kept = x if x.dtype == self.kept else self._cast(x, batch.first)
        self.found = gather([self.found, *_moments(kept)], kept.shape[1])
        return kept

    def _cast(self, x: NDArray[Any], first: int) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            kept = x.astype(self.kept)
        bad = ~np.isfinite(kept) if self.kept.kind == "f" else kept != x
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise InvalidData(
                f"{self.source.name}: values must fit the type they are kept in, {self.kept.name}; found "
                f"{x[row, column]} at row {first + row}, column {self.source.schema.names[column]!r}. Use "
                "dtype='float32' or 'float64'."
            )
        return kept

    def _targets(self, batch: Batch) -> NDArray[np.float64]:  # (k, t)
        if batch.y is None:
            return np.zeros((len(batch), 0))
        return self.finder.write_down(batch.y, batch.first)


def _moments(x: NDArray[Any]) -> Iterator[Moments]:
    return (moments(torch.from_numpy(np.ascontiguousarray(x[rows]))) for rows in chunks(*x.shape))


def _kept_type(source: Source, dtype: Any) -> np.dtype[Any]:
    try:
        kind: np.dtype[Any] = np.dtype(source.dtype if dtype is None else dtype)
    except TypeError:
        kind = np.dtype(object)
    kind = kind.newbyteorder("<") if kind.kind in "uif" else kind
    if dtype is None and (kind == np.float64 or kind not in STORED):
        return np.dtype("<f4")
    if kind not in STORED:
        names = ", ".join(stored.name for stored in STORED)
        raise InvalidParameter(f"dtype must be one of {names}, or None; got {dtype!r}. Use 'float32'.")
    return kind


def _write(path: Path, header: Header, buckets: Buckets, goal: Goal | None) -> None:
    """Write rows in the order of their keys, then the header with the checksums of what was written."""
    with path.open("wb", buffering=0) as file:
        x = _Writer(file, header.x)
        y = None if header.y is None else _Writer(file, header.y)
        for records in buckets.sorted():
            x.write(records["x"])
            if y is not None and goal is not None:
                y.write(goal.kept(records["y"]))
        sealed = replace(header, x=x.sealed(), y=None if y is None else y.sealed())
        file.seek(0)
        _write_all(file, memoryview(pack(sealed)))


class _Writer:
    """Writes a section from its beginning to its end, and takes the checksum of every chunk."""

    def __init__(self, file: IO[bytes], section: Section) -> None:
        self.file, self.section, self.place = file, section, section.offset
        self.checksums: list[str] = []
        self.state, self.left = hashlib.sha256(), CHUNK

    def write(self, rows: NDArray[Any]) -> None:
        """Write some rows."""
        view = as_bytes(np.ascontiguousarray(rows))
        self.file.seek(self.place)
        _write_all(self.file, view)
        self.place += len(view)
        while len(view):
            part, view = view[: self.left], view[self.left :]
            self.state.update(part)
            self.left -= len(part)
            if not self.left:
                self._end()

    def sealed(self) -> Section:
        """Return the section with its checksums."""
        if self.left < CHUNK:
            self._end()
        return replace(self.section, checksums=tuple(self.checksums))

    def _end(self) -> None:
        self.checksums.append(self.state.hexdigest())
        self.state, self.left = hashlib.sha256(), CHUNK


def _write_all(file: IO[bytes], view: memoryview) -> None:
    while len(view):
        view = view[file.write(view) :]
