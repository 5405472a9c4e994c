"""A table of which each process of a group has a part on its disk, and reads nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data.readers import open_source
from joker.data.readers.table import DatasetSource
from joker.data.scaling import Moments, gather
from joker.data.schema import TASKS, guess_task
from joker.data.store.convert import convert
from joker.data.store.format import Header
from joker.data.store.store import Store, StoreRows, open_store
from joker.distributed import Group, current
from joker.errors import InvalidData, InvalidFile, InvalidParameter, MissingFile, ProcessesDiffer, UnknownName
from joker.runtime.files import AnyPath, parse_path


@dataclass(frozen=True, eq=False)
class SharedRows(StoreRows):
    """Rows of a shared store. All processes must read the same rows at the same time; each reads its own from disk.

    ``start`` and ``stop`` count the rows of all processes.
    """

    own: StoreRows = field(kw_only=True)  # the rows of this process
    numbers: NDArray[np.int64] = field(kw_only=True)  # what they are counted as among those of all, ascending
    group: Group = field(kw_only=True)

    @property
    def shared(self) -> bool:
        return True

    def expect(self, rows: slice) -> None:
        start, stop, _ = rows.indices(len(self))
        self.own.expect(self._own_run(start, stop))

    def _own_run(self, start: int, stop: int) -> slice:
        """Return the rows of this process among consecutive rows."""
        first, last = np.searchsorted(self.numbers, (self.start + start, self.start + stop)).tolist()
        return slice(first, last)

    def _read(self, out: NDArray[Any], start: int) -> None:
        self._check_request(len(out), start)
        at = self._own_run(start, start + len(out))
        out[...] = 0
        if at.start < at.stop:
            out[self.numbers[at] - (self.start + start)] = self.own.array(at)
        combine(self.group, out)

    def _gather(self, out: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        self._check_request(len(out), float(numbers.sum()))
        wanted = numbers + self.start
        at = np.searchsorted(self.numbers, wanted)
        mine = np.append(self.numbers, -1)[at] == wanted
        out[...] = 0
        if mine.any():
            out[mine] = self.own.array(at[mine])
        combine(self.group, out)

    def _check_request(self, *request: float) -> None:
        """Raise ProcessesDiffer if rank 0 reads other rows, whose values would be mixed with these."""
        if self.group.numbers(*request) != request:
            raise ProcessesDiffer(
                "all processes of a group must read the same rows of a shared store at the same time; process "
                f"{self.group.rank} reads other rows than process 0. Run the same lines in every process, with the "
                "same memory."
            )


@dataclass(frozen=True, eq=False, repr=False)
class SharedStore(Store):
    """A store whose header describes the rows of all processes; the file has those of this process."""

    part: Store
    own: StoreRows  # the rows of this process
    numbers: NDArray[np.int64]  # what they are counted as among all rows
    targets: NDArray[Any] | None  # (n, t), of all processes
    group: Group

    @cached_property
    def x(self) -> SharedRows:
        """The inputs, which are read when they are used, by all processes together."""
        place = self.file, self.header.x, 0, len(self)
        return SharedRows(*place, scaling=self.scaling, own=self.own, numbers=self.numbers, group=self.group)

    def verify(self) -> None:
        """Read the file of this process and raise InvalidFile if a byte has changed since it was written."""
        self.part.verify()

    def __repr__(self) -> str:
        n, d = self.shape
        return (
            f"SharedStore({str(self.path)!r}: {len(self.numbers):,} of the {n:,} rows of {d} inputs, process "
            f"{self.group.rank} of {self.group.size})"
        )

    def _targets(self) -> NDArray[Any]:
        if self.targets is None:
            raise InvalidFile(f"{self.path} must have targets; it has none. Give target=, or give y.")
        return self.targets


def open_shared(
    path: AnyPath,
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    task: str | None = None,
    dtype: Any = None,
    scratch: AnyPath | None = None,
) -> Store:
    """Open a table of which each process of a group reads only its part from disk.

    Use it inside :func:`joker.distributed.group` for data that no machine can store or read as a whole. The parts are
    never gathered: when the processes need a block of rows, each sends those it has to all others. Every process must
    fit, predict and score with the result at the same time, with random features (``n_features``). Targets and α of
    all rows are in the memory of each process.

    Parameters
    ----------
    path : path
        A row store that every process can read, which then reads consecutive rows of it; or a folder of Parquet or
        Arrow files with numbers, of which it reads every p-th file.
    target : str, optional
        The column to predict, of numbers; a row store has its own.
    columns : list of str, optional
        The inputs. By default all columns except the target.
    task : {"classification", "regression"}, optional
        The kind of the target. The default is the guess of :func:`joker.data.guess_task`.
    dtype : str, optional
        The type in which inputs are stored, as in :func:`joker.data.convert`.
    scratch : path, optional
        For a folder of files: a folder on a disk of this machine, in which each process writes its part as a row store.

    Returns
    -------
    Store
        The table, for estimators. With one process, a store of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from joker.data import as_source, convert, open_shared
    >>> with TemporaryDirectory() as folder:
    ...     store = convert(as_source(np.zeros((10, 2))), f"{folder}/zeros.rows")
    ...     open_shared(f"{folder}/zeros.rows").shape
    (10, 2)
    """
    group, place = current(), parse_path(path, "train/")
    if task is not None and task not in TASKS:
        raise UnknownName.among("task", task, TASKS)
    if not place.exists():
        raise MissingFile(f"path must name a row store or a folder of files; {place} does not exist. Check the name.")
    if place.is_file():
        if (target, columns, task, dtype, scratch) != (None,) * 5:
            raise InvalidParameter(
                f"target, columns, task, dtype and scratch are for a folder of files; {place} is a row store, which "
                "has its own. Leave them out."
            )
        return _rows_of_one_file(open_store(place, verify=False), group)
    if scratch is None or not parse_path(scratch, "/tmp").is_dir():
        raise InvalidParameter(
            f"scratch must be a folder that exists, for the part of this process; got {scratch!r}. Use a folder on a "
            "disk of this machine."
        )
    own = Path(scratch) / f"part-{group.rank}-of-{group.size}.rows"
    if group.size == 1:
        return convert(place, own, target=target, columns=columns, task=task, dtype=dtype)
    return _rows_of_own_files(place, target, columns, task, dtype, own, group)


def combine(group: Group, filled: NDArray[Any]) -> None:
    """Replace a contiguous array, in which each process has filled its rows and left 0, by that of all processes."""
    group.sum_bytes_(torch.from_numpy(filled.reshape(-1).view(np.uint8)))


def interleaved(counts: Sequence[int], rank: int) -> NDArray[np.int64]:
    """Return the numbers of the rows of a process among all rows, so that any run of rows has its share of each.

    Row i of n rows is at (2i + 1) / 2n of the way; rows at the same place are in the order of the processes. Parts in
    random order then are together in random order, up to the shares.
    """
    n = counts[rank]
    i = np.arange(n, dtype=np.int64)
    numbers = i.copy()
    for other, count in enumerate(counts):
        if other != rank:
            place = (2 * i + 1) * count - (other > rank)
            numbers += np.minimum((place // n + 1) // 2, count)
    return numbers


def _rows_of_one_file(store: Store, group: Group) -> Store:
    if group.size == 1:
        return store
    n = len(store)
    group.check_equal({"number of rows": n, "checksums of X": store.header.x.checksums})
    at = group.part(n)
    if n < group.size:
        raise InvalidData(
            f"a shared store must have a row for each of {group.size} processes; it has {n}. Use fewer processes."
        )
    own, numbers = store.x.run(at.start, at.stop), np.arange(at.start, at.stop)
    targets = None if store.header.y is None else _whole(store.target_rows(at), numbers, n, group)
    return SharedStore(store.file, store.header, store, own, numbers, targets, group)


def _rows_of_own_files(
    path: Path, target: str | None, columns: Sequence[str] | None, task: str | None, dtype: Any, own: Path, group: Group
) -> Store:
    """Convert every p-th file, and return the store of all rows."""
    wide = "float64" if dtype is not None and np.dtype(dtype) == np.float64 else None
    source = open_source(path, target=target, columns=columns, dtype=wide)
    assert isinstance(source, DatasetSource)
    if len(source.files) < group.size:
        raise InvalidData(
            f"a shared folder must have at least one file for each of {group.size} processes; {path} has "
            f"{len(source.files)}. Write more and smaller files, or use fewer processes."
        )
    source = replace(source, files=source.files[group.rank :: group.size], rows=None)
    kind = _target_type(source)
    # The classes of a part may not be all classes, so that its targets are stored as numbers.
    part = convert(source, own, task=None if kind is None else "regression", dtype=dtype)
    header = part.header
    group.check_equal({"columns": header.schema.names, "type of X": header.x.dtype.name, "target": str(kind)})
    counts = group.collect(len(part))
    numbers, n = interleaved(counts, group.rank), sum(counts)
    targets = None if kind is None else _whole(part.target_rows(slice(0, len(part))), numbers, n, group)
    header = replace(header, x=replace(header.x, shape=(n, part.shape[1])), statistics=_statistics(header, group))
    if targets is not None and kind is not None and task is None:
        guessed = guess_task(targets[:, 0].astype(kind))
        guessed.say("the target")
        task = guessed.task
    if targets is not None and kind is not None and task == "classification":
        classes, codes = np.unique(targets, return_inverse=True)
        classes = classes.astype(kind if kind.kind in "biu" else np.float64)
        targets = codes.reshape(n, 1).astype(np.min_scalar_type(len(classes) - 1))
        header = replace(header, task="classification", classes=classes)
    return SharedStore(part.file, header, part, part.x, numbers, targets, group)


def _target_type(source: DatasetSource) -> np.dtype[Any] | None:
    """Return the type of the targets, None without targets; raise InvalidData if they are not numbers."""
    first = next(source.batches(1), None)
    if first is None or first.y is None:
        return None
    if first.y.dtype.kind not in "biuf":
        raise InvalidData(
            f"{source.name}: the target of a shared folder must be numbers; {source.schema.target!r} is text. Number "
            "the classes."
        )
    return first.y.dtype


def _whole(own: NDArray[Any], numbers: NDArray[np.int64], n: int, group: Group) -> NDArray[Any]:  # (k, t) -> (n, t)
    """Return the targets of all processes."""
    whole = np.zeros((n, own.shape[1]), own.dtype)
    whole[numbers] = own
    combine(group, whole)
    return whole


def _statistics(header: Header, group: Group) -> dict[str, list[float]]:
    """Return the statistics of the inputs of all processes."""
    n, d = header.x.shape
    mean, deviation, low, high = (
        torch.tensor(header.statistics[name], dtype=torch.float64) for name in ("mean", "deviation", "low", "high")
    )
    own = [each.tolist() for each in (mean, n * deviation.square(), low, high)]
    parts = ((float(count), torch.tensor(sums, dtype=torch.float64)) for count, sums in group.collect((n, own)))
    whole = gather((Moments(count, *sums) for count, sums in parts), d)
    found = {"mean": whole.mean, "deviation": whole.deviation, "low": whole.low, "high": whole.high}
    return {**{name: values.tolist() for name, values in found.items()}, "rows": []}
