"""A table in one file, in random order, from which models are trained."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data.scaling import Scaling
from joker.data.schema import Schema
from joker.data.store.header import CHECKSUM_BYTES, EXAMPLE, PREAMBLE, REMEDY, Header, Section, document_length, unpack
from joker.data.store.positional_file import RowFile, as_bytes
from joker.data.store.rows import StoreRows
from joker.errors import InvalidFile
from joker.runtime import format_bytes
from joker.runtime.atomic_file import AnyPath, parse_path

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
        for section in (self.header.x, self.header.y):
            if section is not None:
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
    >>> X, y = np.arange(20.0).reshape(10, 2), np.linspace(0, 1, 10)
    >>> with TemporaryDirectory() as folder:
    ...     store = convert(as_source(X, y), f"{folder}/numbers.rows", task="regression")
    ...     open_store(f"{folder}/numbers.rows").shape
    (10, 2)
    """
    file = RowFile(parse_path(path, EXAMPLE))
    preamble = file.read(PREAMBLE.size, 0)
    store = Store(file, unpack(preamble, file.read(document_length(preamble, path), PREAMBLE.size), path))
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
