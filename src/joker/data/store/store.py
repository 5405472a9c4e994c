"""A table in one file, in random order, from which models are trained."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.data.rows import UploadedRows
from joker.data.scaling import Scaling
from joker.data.schema import Schema
from joker.data.store.format import CHECKSUM_BYTES, EXAMPLE, REMEDY, Header, RowFile, Section, as_bytes, load_header
from joker.errors import InvalidFile
from joker.runtime import format_bytes
from joker.runtime.cuda_graphs import Upload
from joker.runtime.files import AnyPath, parse_path

MAX_GAP_BYTES = 2**13  # between two rows that one call reads: a second call takes longer
WINDOW_BYTES = 2**20  # that one call reads, at most, for rows that are not consecutive


@dataclass(frozen=True, eq=False)
class StoreRows(UploadedRows):
    """Consecutive rows of a store, which are in random order and are read from the file when they are used.

    The file is not mapped into memory, because mapped pages count as resident memory of the process.

    Parameters
    ----------
    file : RowFile
        The open file.
    section : Section
        The part of the file that has the inputs.
    start, stop : int
        The first row, and the row after the last one.
    floating : torch.dtype
        The type in which rows are read.
    upload : Upload
        The buffers and the device that rows are copied to.
    scaling : Scaling, optional
        What inputs are shifted and divided by.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from joker.data import as_source, convert
    >>> with TemporaryDirectory() as folder:
    ...     len(convert(as_source(np.zeros((10, 2))), f"{folder}/zeros.rows").x)
    10
    """

    file: RowFile
    section: Section
    start: int
    stop: int
    floating: torch.dtype = torch.float32
    upload: Upload = field(default_factory=lambda: Upload(torch.device("cpu")))
    scaling: Scaling | None = None  # of these rows, if it is known

    @property
    def shape(self) -> tuple[int, int]:
        return self.stop - self.start, self.section.shape[1]

    @property
    def stored(self) -> torch.dtype:
        """The type in the file."""
        return torch.from_numpy(np.empty(0, self.section.dtype)).dtype

    @property
    def row_bytes(self) -> int:
        cast = 0 if self.stored == self.floating else self.floating.itemsize
        return self.section.row_bytes + self.shape[1] * cast

    @property
    def shuffled(self) -> bool:
        return True

    def like(self, dtype: torch.dtype, device: torch.device) -> StoreRows:
        """Return the same rows, read in ``dtype`` on ``device``."""
        return replace(self, floating=dtype, upload=Upload(device))

    def run(self, start: int, stop: int) -> StoreRows:
        """Return the rows from ``start`` to ``stop``, without ``stop``, as StoreRows."""
        whole = (start, stop) == (0, len(self))
        return self if whole else replace(self, start=self.start + start, stop=self.start + stop, scaling=None)

    def array(self, rows: slice | NDArray[Any]) -> NDArray[Any]:  # (b, d)
        """Return some rows as an array, in the type of the file."""
        plain = replace(self, floating=self.stored, upload=Upload(torch.device("cpu")))
        return plain[rows if isinstance(rows, slice) else torch.from_numpy(rows)].numpy()

    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        numbers = rows.cpu().numpy()
        return self._uploaded(len(numbers), lambda out: self._gather(out.numpy(), numbers))

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        start, stop, _ = rows.indices(len(self))
        return self._uploaded(max(0, stop - start), lambda out: self._read(out.numpy(), start))

    def expect(self, rows: slice) -> None:
        start, stop, _ = rows.indices(len(self))
        self.file.advise(max(0, stop - start) * self.section.row_bytes, self._place(start))

    def check(self, what: str) -> None:
        """Do nothing: `convert` has checked the values."""

    def _uploaded(self, k: int, fill: Any) -> Tensor:
        return self.upload((k, self.shape[1]), self.stored, fill).to(self.floating)

    def _place(self, row: int) -> int:
        return self.section.offset + (self.start + row) * self.section.row_bytes

    def _read(self, out: NDArray[Any], start: int) -> None:
        """Fill ``out`` with the rows from ``start``."""
        if out.size:
            self.file.fill(as_bytes(out), self._place(start))

    def _gather(self, out: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Read the rows with these numbers; one call reads rows that are close to each other."""
        order = np.argsort(numbers, kind="stable")
        for group in self._groups(numbers[order]):
            places = order[group]
            first, last = int(numbers[places[0]]), int(numbers[places[-1]])
            buffer = np.empty((last - first + 1, self.shape[1]), self.section.dtype)
            self._read(buffer, first)
            out[places] = buffer[numbers[places] - first]

    def _groups(self, numbers: NDArray[np.int64]) -> Iterator[slice]:
        """Yield slices of sorted numbers, cut where a gap is large and at multiples of WINDOW_BYTES."""
        far = np.diff(numbers) > max(1, MAX_GAP_BYTES // self.section.row_bytes)
        window = np.diff(numbers // max(1, WINDOW_BYTES // self.section.row_bytes)) > 0
        ends = [*(np.flatnonzero(far | window) + 1).tolist(), len(numbers)]
        return (slice(start, stop) for start, stop in zip([0, *ends], ends, strict=False) if stop > start)


VERIFIED_BYTES = 2**20  # of one read while checksums are compared


@dataclass(frozen=True, eq=False)
class Labels:
    """The class of each row.

    Parameters
    ----------
    classes : array of shape (classes,)
        The classes, sorted.
    codes : array of shape (n,)
        The place of the class of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from joker.data import Labels
    >>> labels = Labels(np.array(["no", "yes"]), np.array([1, 0, 1]))
    >>> labels.classes[labels.codes]
    array(['yes', 'no', 'yes'], dtype='<U3')
    """

    classes: NDArray[Any]  # sorted
    codes: NDArray[Any]  # (n,), indices into classes

    @property
    def labels(self) -> NDArray[Any]:  # (n,)
        """The class of each row, as it was in the table."""
        labels: NDArray[Any] = self.classes[self.codes]
        return labels

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False, repr=False)
class Store:
    """A table in a file: inputs ``x``, which are read when they are used, and targets ``y``.

    :func:`joker.data.convert` makes it and :func:`joker.data.open_store` opens it. Estimators accept it in place of X
    and y.

    Parameters
    ----------
    file : RowFile
        The open file.
    header : Header
        The description of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from joker.data import as_source, convert
    >>> X, y = np.arange(20.0).reshape(10, 2), np.linspace(0, 1, 10)
    >>> with TemporaryDirectory() as folder:
    ...     store = convert(as_source(X, y), f"{folder}/numbers.rows", task="regression")
    ...     store.shape, store.task
    ((10, 2), 'regression')
    """

    file: RowFile
    header: Header

    @property
    def path(self) -> Path:
        """The path of the file when it was opened."""
        return self.file.path

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and inputs."""
        return self.header.x.shape

    @property
    def schema(self) -> Schema:
        """The names and kinds of the columns."""
        return self.header.schema

    @property
    def task(self) -> str | None:
        """The kind of the targets: "classification" or "regression"; None without targets."""
        return self.header.task

    @property
    def classes(self) -> NDArray[Any] | None:
        """The sorted classes; None for regression."""
        return self.header.classes

    @cached_property
    def x(self) -> StoreRows:
        """The inputs, which are read when they are used."""
        return StoreRows(self.file, self.header.x, 0, len(self), scaling=self.scaling)

    @property
    def y(self) -> NDArray[Any]:  # (n,) or (n, t)
        """The targets as they were in the table; they are read at each access."""
        if self.classes is not None:
            return self.labels.labels
        targets = self._targets()
        return targets[:, 0] if targets.shape[1] == 1 else targets

    @property
    def labels(self) -> Labels:
        """The targets as classes."""
        assert self.classes is not None
        codes = self._targets()[:, 0]
        if int(codes.max()) >= len(self.classes):
            raise InvalidFile(
                f"{self.path} must have a name for each class; one has none, the file is damaged. {REMEDY}"
            )
        return Labels(self.classes, codes)

    @property
    def scaling(self) -> Scaling:
        """The mean and the standard deviation of each input over all rows."""
        statistics = self.header.statistics
        return Scaling(*(torch.tensor(statistics[name], dtype=torch.float64) for name in ("mean", "deviation")))

    def verify(self) -> None:
        """Read the whole file and raise InvalidFile if a byte has changed since it was written."""
        for section in filter(None, (self.header.x, self.header.y)):
            _verify(self.file, section)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n, d = self.shape
        target = "no target" if self.task is None else f"{self.schema.target or 'y'!r} for {self.task}"
        return (
            f"Store({str(self.path)!r}: {n:,} rows of {d} inputs in {self.header.x.dtype.name}, {target}, "
            f"{format_bytes(self.header.end)})"
        )

    def _targets(self) -> NDArray[Any]:  # (n, t)
        if self.header.y is None:
            raise InvalidFile(f"{self.path} must have targets; it has none. Convert the data with target=, or give y.")
        return self.target_rows(slice(0, len(self)))

    def target_rows(self, rows: slice) -> NDArray[Any]:  # (k, t)
        """Return the targets of consecutive rows as they are stored: numbers, or the number of the class."""
        section = self.header.y
        assert section is not None
        y = np.empty((rows.stop - rows.start, section.shape[1]), section.dtype)
        self.file.fill(as_bytes(y), section.offset + rows.start * section.row_bytes)
        return y


def open_store(path: AnyPath, *, verify: bool = True) -> Store:
    """Open a row store.

    Parameters
    ----------
    path : path
        A file that :func:`joker.data.convert` wrote.
    verify : bool
        Whether to read the whole file and compare its checksums. Otherwise only the header and the length are checked.

    Returns
    -------
    Store
        The store.

    Raises
    ------
    MissingFile
        If the file does not exist.
    InvalidFile
        If the file is damaged, of another program or of a newer joker.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from joker.data import as_source, convert, open_store
    >>> with TemporaryDirectory() as folder:
    ...     store = convert(as_source(np.zeros((10, 2))), f"{folder}/zeros.rows")
    ...     open_store(f"{folder}/zeros.rows").shape
    (10, 2)
    """
    file = RowFile(parse_path(path, EXAMPLE))
    store = Store(file, load_header(file, path))
    if extra := file.size - store.header.end:
        raise InvalidFile(
            f"a row store must have the length that its header says; {path} is {format_bytes(abs(extra))} too "
            f"{'long' if extra > 0 else 'short'}. {REMEDY}"
        )
    if verify:
        store.verify()
    return store


def _verify(file: RowFile, section: Section) -> None:
    buffer = memoryview(bytearray(VERIFIED_BYTES))
    for number, checksum in enumerate(section.checksums):
        start = section.offset + number * CHECKSUM_BYTES
        stop, state = min(start + CHECKSUM_BYTES, section.end), hashlib.sha256()
        for place in range(start, stop, VERIFIED_BYTES):
            piece = buffer[: min(VERIFIED_BYTES, stop - place)]
            file.fill(piece, place)
            state.update(piece)
        if state.hexdigest() != checksum:
            raise InvalidFile(
                f"the bytes of {file.path} must match their checksums; those from {start:,} to {stop:,} do not, the "
                f"file is damaged. {REMEDY}"
            )
