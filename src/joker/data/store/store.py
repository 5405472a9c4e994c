"""A table in one file, in random order, ready to be trained on from the disk."""

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
from joker.data.store.header import CHUNK, DAMAGED, EXAMPLE, PREAMBLE, Header, Section, document_length, unpack
from joker.data.store.positional_file import RowFile, as_bytes
from joker.data.store.rows import StoreRows
from joker.errors import InvalidFile
from joker.runtime import format_bytes
from joker.runtime.atomic_file import AnyPath, parse_path

READ = 2**20  # bytes that are verified in one go


@dataclass(frozen=True, eq=False)
class Labels:
    """Classes, and which of them each row is of."""

    classes: NDArray[Any]  # sorted
    codes: NDArray[Any]  # (n,)

    @property
    def labels(self) -> NDArray[Any]:  # (n,)
        """The class of each row, as a user knows it."""
        found: NDArray[Any] = self.classes[self.codes]
        return found

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False, repr=False)
class Store:
    """A table in a file: inputs ``x`` that are read as they are needed, and targets ``y``.

    Made by :func:`joker.data.convert` and opened by :func:`joker.data.open_store`. Estimators take it in place of
    X and y.

    Attributes
    ----------
    x : Rows
        The inputs; nothing is read before it is asked for.
    y : ndarray of shape (n,) or (n, t)
        The targets as they were in the table, read each time.
    schema : Schema
        Names and kinds of the columns.
    task : {"classification", "regression"} or None
        What the targets are for; None where there are none.
    classes : ndarray or None
        The classes, sorted.
    scaling : Scaling
        Mean and deviation of each input.
    """

    file: RowFile
    header: Header

    @property
    def path(self) -> Path:
        """Where the file was when it was opened."""
        return self.file.path

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and inputs."""
        return self.header.x.shape

    @property
    def schema(self) -> Schema:
        """Names and kinds of the columns."""
        return self.header.schema

    @property
    def task(self) -> str | None:
        """What the targets are for."""
        return self.header.task

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes, sorted."""
        return self.header.classes

    @cached_property
    def x(self) -> StoreRows:
        """The inputs."""
        return StoreRows(self.file, self.header.x, 0, len(self), scaling=self.scaling)

    @property
    def y(self) -> NDArray[Any]:
        """The targets as they were in the table."""
        return self.labels.labels if self.classes is not None else self.numbers

    @property
    def labels(self) -> Labels:
        """The targets as classes."""
        assert self.classes is not None
        codes = self._targets()[:, 0]
        if int(codes.max()) >= len(self.classes):
            raise InvalidFile(f"a class of {self.path} has no name: it is damaged. {DAMAGED}")
        return Labels(self.classes, codes)

    @property
    def numbers(self) -> NDArray[Any]:
        """The targets as numbers, of one dimension where there is one column."""
        if self.classes is not None:
            return self.labels.labels
        found = self._targets()
        return found[:, 0] if found.shape[1] == 1 else found

    @property
    def scaling(self) -> Scaling:
        """Mean and deviation of each input over all rows."""
        figures = self.header.figures
        return Scaling(*(torch.tensor(figures[name], dtype=torch.float64) for name in ("mean", "deviation")))

    def verify(self) -> None:
        """Read the whole file once and refuse it if a byte has changed since it was written."""
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
            raise InvalidFile(f"{self.path} has no targets. Convert the data with target=, or give y.")
        y = np.empty(self.header.y.shape, self.header.y.dtype)
        self.file.fill(as_bytes(y), self.header.y.offset)
        return y


def open_store(path: AnyPath, *, verify: bool = True) -> Store:
    """Open a row store.

    Parameters
    ----------
    path : path
        A file that :func:`joker.data.convert` wrote.
    verify : bool
        Whether to read all of it once and compare its checksums. Without that only the header and the length
        are checked.

    Raises
    ------
    MissingFile
        If there is none.
    InvalidFile
        If it is damaged, of another program or of a newer joker.
    """
    file = RowFile(parse_path(path, EXAMPLE))
    preamble = file.read(PREAMBLE.size, 0)
    store = Store(file, unpack(preamble, file.read(document_length(preamble, path), PREAMBLE.size), path))
    if extra := file.size - store.header.end:
        raise InvalidFile(
            f"a row store must be as long as its header says; {path} has {format_bytes(abs(extra))} too "
            f"{'much' if extra > 0 else 'little'}. {DAMAGED}"
        )
    if verify:
        store.verify()
    return store


def _verify(file: RowFile, section: Section) -> None:
    buffer = memoryview(bytearray(READ))
    for number, checksum in enumerate(section.checksums):
        start = section.offset + number * CHUNK
        stop, state = min(start + CHUNK, section.end), hashlib.sha256()
        for place in range(start, stop, READ):
            piece = buffer[: min(READ, stop - place)]
            file.fill(piece, place)
            state.update(piece)
        if state.hexdigest() != checksum:
            raise InvalidFile(
                f"the bytes of {file.path} must match their checksums, and those from {start:,} to {stop:,} do not: it "
                f"is damaged. {DAMAGED}"
            )
