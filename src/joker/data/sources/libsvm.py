"""LIBSVM text: a label and the entries that are not 0, as index:value, on each line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Schema
from joker.data.sources.base import Batch, CheckedSource
from joker.data.sources.column_selection import Table, choose
from joker.data.sources.dtypes import TEXT
from joker.data.sources.read_options import Wish
from joker.data.sources.text_files import BLOCK, open_text, reading, reads_as_number
from joker.data.sources.validation import refuse_empty
from joker.errors import InvalidData, UnknownName

TARGET = "label"
ENTRY = re.compile(r"(\d+):(\S+)")


@dataclass(frozen=True, eq=False)
class LibsvmSource(CheckedSource):
    """Rows of a file of LIBSVM text, handed out in compressed form (CSR)."""

    name: str
    schema: Schema
    dtype: np.dtype[Any]
    rows: int | None
    path: Path
    places: NDArray[np.int64]  # for each index of the file its column, or -1; the last stands for all beyond
    strict: bool  # an index without a column is an error

    def read(self, rows: int) -> Iterator[Batch]:
        from scipy.sparse import csr_array

        first = 0
        for found, y in parsed(self.path, self.dtype):
            columns = self._columns(found, first)
            whole = csr_array((found.data, columns, found.indptr), (len(y), self.schema.width + 1))
            inputs = whole[:, : self.schema.width]
            for start in range(0, len(y), rows):
                yield Batch(inputs[start : start + rows], y[start : start + rows], first + start)
            first += len(y)

    def _columns(self, found: Any, first: int) -> NDArray[np.int64]:
        """Return the columns of the entries; those that are left out go to one beyond the last."""
        columns = self.places[np.minimum(found.indices, len(self.places) - 1)]  # the last place is of no column
        if self.strict and (columns < 0).any():
            entry = int(np.argmax(columns < 0))
            row = int(np.searchsorted(found.indptr, entry, "right")) - 1
            self._refuse_index(int(found.indices[entry]), first + row)
        return np.where(columns < 0, self.schema.width, columns)

    def _refuse_index(self, index: int, row: int) -> NoReturn:
        names = self.schema.names
        raise InvalidData(
            f"{self.name}: an index must be one of the training data, {names[0]} to {names[-1]}; found {index} at row "
            f"{row}. Leave such entries out, or train on rows that have them."
        )


def open_libsvm(wish: Wish) -> LibsvmSource:
    """Open a file of LIBSVM text, compressed or not; without a schema it is read once for its width."""
    wish.without("header", "delimiter", "inputs")
    if wish.target not in (None, TARGET):
        raise UnknownName(f"{wish.name}: target must be {TARGET!r} for LIBSVM text; got {wish.target!r}. Leave it out.")
    dtype = TEXT if wish.dtype is None else wish.dtype
    if wish.schema is not None:
        places = _places(_indices(wish.schema))
        return LibsvmSource(wish.name, wish.schema, dtype, None, wish.path, places, True)
    base, width, count = _extent(wish)
    table = Table(wish.name, tuple(str(base + j) for j in range(width)))
    choice = choose(table, None, wish.columns, None)
    schema = Schema.numbers([table.names[j] for j in choice.inputs], TARGET)
    places = _places(np.array(choice.inputs, np.int64) + base)
    return LibsvmSource(wish.name, schema, dtype, count, wish.path, places, False)


def _extent(wish: Wish) -> tuple[int, int, int]:
    """Return the first index (1, or 0 where the file has that), the number of columns and that of the rows."""
    low, high, count = 1, -1, 0
    for found, y in parsed(wish.path, TEXT):
        if len(found.indices):
            low, high = min(low, int(found.indices.min())), max(high, int(found.indices.max()))
        count += len(y)
    if not count or high < low:
        refuse_empty(wish.name, f"it has {count} rows and no entries" if count else "the file is empty")
    return low, high + 1 - low, count


def _indices(schema: Schema) -> NDArray[np.int64]:
    """Return the index of each column: its name, or for other names its place, counted from 1."""
    names = [column.name for column in schema.inputs]
    if all(name.isdigit() for name in names):
        return np.array(names, np.int64)
    return np.arange(1, len(names) + 1)


def _places(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    places = np.full(int(indices.max()) + 2, -1)
    places[indices] = np.arange(len(indices))
    return places


def parsed(path: Path, dtype: np.dtype[Any]) -> Iterator[tuple[Any, NDArray[np.float64]]]:
    """Return the entries by their index in the file, as CSR matrices, and the labels, a block of lines at a time."""
    from sklearn.datasets import load_svmlight_file

    first = 0
    for block in _blocks(path):
        try:
            x, y = load_svmlight_file(BytesIO(block), dtype=dtype, zero_based=True)
        except (ValueError, OverflowError, UnicodeDecodeError) as error:
            _explain(path, block, first, error)
        if len(y):
            yield x, y
        first += len(y)


def _blocks(path: Path) -> Iterator[bytes]:
    """Return whole lines, about BLOCK bytes at a time."""
    with reading(path), open_text(path) as file:
        while block := file.read(BLOCK):
            yield block + file.readline()


def looks_like_libsvm(head: bytes) -> bool:
    """Whether the first lines have entries written as index:value and nothing else."""
    lines = [line.partition(b"#")[0].split() for line in head.splitlines()[:10]]
    entries = [entry.decode("latin-1") for line in lines for entry in line[1:]]
    return bool(entries) and all(ENTRY.fullmatch(entry) or entry.startswith("qid:") for entry in entries)


def _explain(path: Path, block: bytes, first: int, error: Exception) -> NoReturn:
    """Say which row is wrong: the slow way round."""
    row = first
    for line in block.decode("latin-1").splitlines():
        fields = line.partition("#")[0].split()
        if fields and (fault := _fault(fields)):
            raise InvalidData(
                f"{path}: a row must be a number and then index:value, indices rising; row {row} has {fault}. Correct "
                "the row."
            ) from error
        row += bool(fields)
    raise InvalidData(f"{path} must be LIBSVM text; reading it failed ({error}). Check the file.") from error


def _fault(fields: list[str]) -> str | None:
    """Return what is wrong with a row."""
    if not reads_as_number(fields[0]):
        return f"the label {fields[0]!r}"
    last = -1
    for entry in fields[1:]:
        parts = ENTRY.fullmatch(entry)
        if entry.startswith("qid:"):
            continue
        if parts is None or not reads_as_number(parts[2]) or int(parts[1]) <= last:
            return repr(entry)
        last = int(parts[1])
    return None
