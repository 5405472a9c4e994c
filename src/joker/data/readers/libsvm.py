"""LIBSVM text: each line has a label and the non-zero entries as index:value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from joker.data.readers.source import (
    TEXT_DTYPE,
    Batch,
    CheckedSource,
    ReadOptions,
    TableColumns,
    refuse_empty,
    select_columns,
)
from joker.data.readers.text import TEXT_BLOCK_BYTES, open_text, reading, reads_as_number
from joker.data.schema import Schema
from joker.errors import InvalidData, InvalidFile, UnknownName

LABEL = "label"
ENTRY_PATTERN = re.compile(r"([0-9]+):(\S+)")
ENTRY_BYTES = 24  # of an entry in a line, with many digits
PYTHON_NUMBER = re.compile(rb"(?m)^[^#\n]*[0-9]_[0-9]")  # which Python's float reads, and no other program


@dataclass(frozen=True, eq=False)
class LibsvmSource(CheckedSource):
    """The rows of a file of LIBSVM text, in CSR format."""

    path: Path
    places: NDArray[np.int64]  # the column of each index in the file, or -1; the last one is for all larger indices
    strict: bool  # whether an index without a column is an error
    max_inputs: int

    def read(self, rows: int) -> Iterator[Batch]:
        from scipy.sparse import csr_array

        first = 0
        for entries, y in parsed(self.path, self.dtype, self.max_inputs):
            columns = self._columns(entries, first)
            whole = csr_array((entries.data, columns, entries.indptr), (len(y), self.schema.width + 1))
            inputs = whole[:, : self.schema.width]
            for start in range(0, len(y), rows):
                yield Batch(inputs[start : start + rows], y[start : start + rows], first + start)
            first += len(y)

    def _columns(self, entries: Any, first: int) -> NDArray[np.int64]:
        """Return the columns of the entries; entries that are left out go to an additional last column."""
        columns = self.places[np.minimum(entries.indices, len(self.places) - 1)]
        if self.strict and (columns < 0).any():
            entry = int(np.argmax(columns < 0))
            row = int(np.searchsorted(entries.indptr, entry, "right")) - 1
            names = self.schema.names
            raise InvalidData(
                f"{self.name}: an index must be one of the training data, {names[0]} to {names[-1]}; found "
                f"{entries.indices[entry]} at row {first + row}. Leave such entries out, or train on rows that have "
                "them."
            )
        return np.where(columns < 0, self.schema.width, columns)


def open_libsvm(options: ReadOptions) -> LibsvmSource:
    """Open a file of LIBSVM text, compressed or not; without a schema it is read once to find its width."""
    options.without("header", "delimiter", "inputs")
    if options.target not in (None, LABEL):
        raise UnknownName(
            f"{options.name}: target must be {LABEL!r} for LIBSVM text; got {options.target!r}. Leave it out."
        )
    dtype = TEXT_DTYPE if options.dtype is None else options.dtype
    if options.schema is not None:
        names = [column.name for column in options.schema.inputs]
        # The index of a column is its name if all names are numbers, else its position counted from 1.
        numbered = all(name.isdigit() for name in names)
        places = _places(np.array(names, np.int64) if numbered else np.arange(1, len(names) + 1))
        return LibsvmSource(options.name, options.schema, dtype, None, options.path, places, True, options.max_inputs)
    base, width, count = _extent(options)
    table = TableColumns(options.name, tuple(str(base + j) for j in range(width)))
    selection = select_columns(table, None, options.columns, None, options.drop)
    schema = Schema.numbers(selection.names, LABEL)
    places = _places(np.array(selection.inputs, np.int64) + base)
    return LibsvmSource(options.name, schema, dtype, count, options.path, places, False, options.max_inputs)


def _extent(options: ReadOptions) -> tuple[int, int, int]:
    """Return the first index (1, or 0 if the file contains it), the number of columns and the number of rows."""
    low, high, count = 1, -1, 0
    for entries, y in parsed(options.path, TEXT_DTYPE, options.max_inputs):
        if len(entries.indices):
            low, high = min(low, int(entries.indices.min())), max(high, int(entries.indices.max()))
        if high > options.max_inputs:
            row = count + int(np.searchsorted(entries.indptr, int(entries.indices.argmax()), "right")) - 1
            raise InvalidData(
                f"{options.name}: an index must be at most {options.max_inputs}; found {high} at row {row}. Correct "
                "the row, or allow more columns with max_inputs=."
            )
        count += len(y)
    if not count or high < low:
        refuse_empty(options.name, f"it has {count} rows and no entries" if count else "the file is empty")
    return low, high + 1 - low, count


def _places(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    places = np.full(int(indices.max()) + 2, -1)
    places[indices] = np.arange(len(indices))
    return places


def parsed(path: Path, dtype: np.dtype[Any], max_inputs: int) -> Iterator[tuple[Any, NDArray[np.float64]]]:
    """Yield CSR matrices whose columns are the indices in the file, and the labels, a block of lines at a time."""
    from sklearn.datasets import load_svmlight_file

    first = 0
    for block in _blocks(path, max_inputs * ENTRY_BYTES):
        try:
            if b"_" in block and PYTHON_NUMBER.search(block):
                raise InvalidData("it has a number with an underscore")
            x, y = load_svmlight_file(BytesIO(block), dtype=dtype, zero_based=True)
        except (ValueError, OverflowError, UnicodeDecodeError) as error:
            _explain(path, block, first, error)
        if len(y):
            yield x, y
        first += len(y)


def _blocks(path: Path, max_line: int) -> Iterator[bytes]:
    """Yield complete lines, about TEXT_BLOCK_BYTES at a time."""
    with reading(path), open_text(path) as file:
        while block := file.read(TEXT_BLOCK_BYTES):
            rest = file.readline(max_line)
            if len(rest) == max_line and not rest.endswith(b"\n"):
                raise InvalidFile(
                    f"{path}: a line must be shorter than {max_line} bytes; one is longer. Check the file, or allow "
                    "longer lines with max_inputs=."
                )
            yield block + rest


def looks_like_libsvm(head: bytes) -> bool:
    """Return whether the first lines have only entries of the form index:value."""
    lines = [line.partition(b"#")[0].split() for line in head.splitlines()[:10]]
    entries = [entry.decode("latin-1") for line in lines for entry in line[1:]]
    return bool(entries) and all(ENTRY_PATTERN.fullmatch(entry) or entry.startswith("qid:") for entry in entries)


def _explain(path: Path, block: bytes, first: int, error: Exception) -> NoReturn:
    """Raise an error that names the first wrong row, which is found by parsing the lines one by one."""
    row = first
    for line in block.decode("latin-1").splitlines():
        fields = line.partition("#")[0].split()
        if fields and (fault := _fault(fields)):
            raise InvalidData(
                f"{path}: a row must be a number and then index:value, with rising indices; row {row} has {fault}. "
                "Correct the row."
            ) from error
        row += bool(fields)
    raise InvalidData(f"{path} must be LIBSVM text; reading it failed ({error}). Check the file.") from error


def _fault(fields: list[str]) -> str | None:
    """Return the wrong field of a row; None if all are right."""
    if not reads_as_number(fields[0]):
        return f"the label {fields[0]!r}"
    last = -1
    for entry in fields[1:]:
        parts = ENTRY_PATTERN.fullmatch(entry)
        if entry.startswith("qid:"):
            continue
        if parts is None or not reads_as_number(parts[2]) or int(parts[1]) <= last:
            return repr(entry)
        last = int(parts[1])
    return None
