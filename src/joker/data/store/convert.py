"""Conversion of a table to a row store: one pass over the table, a shuffle, one file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data.readers import Batch, Source, open_source
from joker.data.readers.source import check_values, refuse_empty
from joker.data.scaling import Moments, Scaling, gather, moments
from joker.data.schema import Schema, TargetKind, TargetReader
from joker.data.store.format import CHECKSUM_BYTES, EXAMPLE, INPUT_TYPES, Header, Section, as_bytes, empty_section, pack
from joker.data.store.store import Store, open_store
from joker.errors import InvalidData, InvalidParameter
from joker.runtime import VERSION, chunks, parse_bytes
from joker.runtime.files import RESULT, AnyPath, check_free_space, work_folder

BITS = 6  # of the key at each level, for 64 buckets and at most 64 files
PIECE_BYTES = 2**20  # of records that are read or returned at a time
KEY_BITS = 64


class Buckets:
    """Records that are added in any order and returned in the order of their field ``key``, of 64 bits.

    With random keys that order is uniformly random. Records are distributed to buckets by the first bits of their keys.
    A bucket that fits in memory is sorted there; a larger one is distributed again by the next bits. So the order
    depends on the keys only, not on the memory. At most ``memory`` bytes of records are in memory; the others are in
    files in ``folder``, which are removed when they have been read.
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
                deeper = Buckets(self.folder, self.memory, self.level + 1, path.name)
                with path.open("rb") as file:
                    while len(records := np.fromfile(file, self.dtype, max(1, PIECE_BYTES // self.dtype.itemsize))):
                        deeper.put(records)
                path.unlink()
                yield from deeper.sorted()
            held.clear()

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


MAX_DENSE_INPUTS = 4096  # sparse rows with more inputs are not converted, as a store is dense
BATCH_SHARE = 1 / 16  # of the memory, for a batch; its copies take a few times as much
BUCKETS_SHARE = 1 / 4  # of the memory, for records that are not written yet
SPACE_MARGIN = 1.05  # disk space relative to the size of the records, for the header and partly filled disk blocks

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
        The store, such as ``"train.rows"``. An existing file is replaced when the new one is complete.
    task : {"classification", "regression"}, optional
        The kind of the target. The default is the guess of :func:`joker.data.guess_task`; a warning says so if
        another reading is likely.
    dtype : {"uint8", "int16", "float16", "float32", "float64"}, optional
        The type in which inputs are stored. By default the type of the source, and float32 for float64.
    seed : int
        The seed of the random order, which does not depend on ``memory``.
    memory : int or str
        The approximate number of bytes to use. Data that do not fit are written to temporary files in the folder of
        ``path``.
    progress : callable, optional
        Called with the number of rows read so far and with the total number, None if that is not known.
    target, columns, header, categories, schema : optional
        As for :func:`joker.data.open_source`, if ``source`` is a path.

    Returns
    -------
    Store

    Raises
    ------
    InvalidData
        If a value is not finite or not representable in the type; the message names its row and column.
    InvalidFile
        If the disk is full. Then, and after an interrupt, an existing file is unchanged and no other file is left.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from joker.data import as_source, convert
    >>> X, y = np.arange(20.0).reshape(10, 2), np.linspace(0, 1, 10)
    >>> with TemporaryDirectory() as folder:
    ...     store = convert(as_source(X, y), f"{folder}/numbers.rows", task="regression")
    ...     store.shape
    (10, 2)
    """
    if not isinstance(source, Source):
        wide = "float64" if dtype is not None and np.dtype(dtype) == np.float64 else None
        source = open_source(
            source, target=target, columns=columns, header=header, categories=categories, schema=schema, dtype=wide
        )
    elif (target, columns, schema) != (None, None, None):
        raise InvalidParameter(
            "target, columns and schema must not be given with a Source; a Source has its own. Leave them out."
        )
    budget = parse_bytes(memory)
    with work_folder(path, EXAMPLE) as folder:
        targets = TargetReader(task, source.name, source.schema.target or "y")
        table = _Table(source, _stored_type(source, dtype), targets)
        buckets = Buckets(folder, int(budget * BUCKETS_SHARE))
        for records in table.records(seed, int(budget * BATCH_SHARE), folder, progress):
            buckets.put(records)
        _write(folder / RESULT, table.header(seed), buckets, table.kind)
    return open_store(path, verify=False)


class _Table:
    """One pass over a source, which returns records for the shuffle and collects statistics."""

    def __init__(self, source: Source, dtype: np.dtype[Any], targets: TargetReader) -> None:
        self.source, self.dtype, self.targets = source, dtype, targets
        self.moments = Moments.none(source.schema.width)
        self.rows = 0
        self.kind: TargetKind | None = None
        self.record: np.dtype[Any] | None = None

    def records(self, seed: int, memory: int, folder: Path, progress: Progress | None) -> Iterator[NDArray[Any]]:
        """Yield all rows as records with a random key, and then determine the kind of the targets."""
        keys, width = np.random.Generator(np.random.PCG64(seed)), self.source.schema.width
        for batch in self.source.batches(max(1, memory // (8 * width))):
            x = self._inputs(batch)
            y = np.zeros((len(batch), 0)) if batch.y is None else self.targets.read(batch.y, batch.first)  # (k, t)
            if self.record is None:
                self.record = np.dtype([("key", "<u8"), ("y", "<f8", (y.shape[1],)), ("x", self.dtype, (width,))])
                check_free_space(folder, int((self.source.rows or 0) * self.record.itemsize * SPACE_MARGIN))
            records = np.empty(len(x), self.record)
            records["key"] = keys.integers(0, 2**64, len(x), np.uint64)
            records["x"], records["y"] = x, y
            self.rows += len(x)
            yield records
            if progress is not None:
                progress(self.rows, self.source.rows)
        if not self.rows:
            refuse_empty(self.source.name, "it has no rows")
        self.kind = self.targets.kind() if self.targets.width else None

    def header(self, seed: int) -> Header:
        """Return the header, without checksums."""
        kind, source, width = self.kind, self.source, self.source.schema.width
        scaling, low, high = Scaling.of(self.moments), self.moments.low, self.moments.high
        columns = {"mean": scaling.mean, "deviation": scaling.deviation, "low": low, "high": high}
        class_rows = [] if kind is None or kind.rows is None else kind.rows.tolist()
        parts: dict[str, Any] = {
            "statistics": {**{name: values.tolist() for name, values in columns.items()}, "rows": class_rows},
            "task": None if kind is None else kind.task,
            "classes": None if kind is None else kind.classes,
        }
        x = empty_section(0, (self.rows, width), self.dtype)
        y = None if kind is None else empty_section(0, (self.rows, self.targets.width), kind.dtype)
        draft = Header(source.schema, x, y, seed=seed, source=source.name, version=VERSION, **parts)
        # The draft has offsets of one digit; 64 bytes are enough for the digits of the final ones.
        begin = len(pack(draft)) + 64
        x = empty_section(begin, x.shape, x.dtype)
        return replace(draft, x=x, y=None if y is None else empty_section(x.end, y.shape, y.dtype))

    def _inputs(self, batch: Batch) -> NDArray[Any]:  # (k, d)
        """Return the inputs in the type in which they are stored; raise InvalidData if a value does not fit it."""
        source = self.source
        if batch.x.shape[1] != source.schema.width:
            raise InvalidData(
                f"{source.name}: a batch must have the {source.schema.width} columns of the schema; the one that "
                f"starts at row {batch.first} has {batch.x.shape[1]}. Correct the source."
            )
        if not isinstance(batch.x, np.ndarray) and batch.x.shape[1] > MAX_DENSE_INPUTS:
            raise InvalidData(
                f"{source.name}: sparse rows are stored dense in a row store, with at most {MAX_DENSE_INPUTS} inputs; "
                f"got {batch.x.shape[1]}. Choose columns, or fit on a SciPy matrix in memory."
            )
        if not source.checked:
            check_values(batch.x, batch.y, batch.first, source.schema, source.name)
        x = batch.dense
        x = x if x.dtype == self.dtype else self._cast(x, batch.first)
        parts = (moments(torch.from_numpy(np.ascontiguousarray(x[rows]))) for rows in chunks(*x.shape))
        self.moments = gather([self.moments, *parts], x.shape[1])
        return x

    def _cast(self, x: NDArray[Any], first: int) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            cast = x.astype(self.dtype)
        bad = ~np.isfinite(cast) if self.dtype.kind == "f" else cast != x
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise InvalidData(
                f"{self.source.name}: values must fit the type in which they are stored, {self.dtype.name}; found "
                f"{x[row, column]} at row {first + row}, column {self.source.schema.names[column]!r}. Use "
                "dtype='float32' or 'float64'."
            )
        return cast


def _stored_type(source: Source, dtype: Any) -> np.dtype[Any]:
    try:
        kind: np.dtype[Any] = np.dtype(source.dtype if dtype is None else dtype)
    except TypeError:
        kind = np.dtype(object)
    kind = kind.newbyteorder("<") if kind.kind in "uif" else kind
    if dtype is None and (kind == np.float64 or kind not in INPUT_TYPES):
        return np.dtype("<f4")
    if kind not in INPUT_TYPES:
        names = ", ".join(stored.name for stored in INPUT_TYPES)
        raise InvalidParameter(f"dtype must be one of {names}, or None; got {dtype!r}. Use 'float32'.")
    return kind


def _write(path: Path, header: Header, buckets: Buckets, kind: TargetKind | None) -> None:
    """Write the rows in the order of their keys, then the header with the checksums."""
    with path.open("wb", buffering=0) as file:
        x = _Writer(file, header.x)
        y = None if header.y is None else _Writer(file, header.y)
        for records in buckets.sorted():
            x.write(records["x"])
            if y is not None and kind is not None:
                y.write(kind.stored(records["y"]))
        sealed = replace(header, x=x.sealed(), y=None if y is None else y.sealed())
        file.seek(0)
        _write_all(file, memoryview(pack(sealed)))


class _Writer:
    """Writes a section from start to end, and computes the checksum of each CHECKSUM_BYTES bytes."""

    def __init__(self, file: IO[bytes], section: Section) -> None:
        self.file, self.section, self.place = file, section, section.offset
        self.checksums: list[str] = []
        self.state, self.left = hashlib.sha256(), CHECKSUM_BYTES

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
        if self.left < CHECKSUM_BYTES:
            self._end()
        return replace(self.section, checksums=tuple(self.checksums))

    def _end(self) -> None:
        self.checksums.append(self.state.hexdigest())
        self.state, self.left = hashlib.sha256(), CHECKSUM_BYTES


def _write_all(file: IO[bytes], view: memoryview) -> None:
    while len(view):
        view = view[file.write(view) :]
