"""The base class of tables that are read in order, a batch of rows at a time."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from joker.data.schema import Schema, listed, repeated
from joker.errors import InvalidData, InvalidFile, InvalidParameter, MissingFile, UnknownName
from joker.runtime.files import parse_path

CATEGORIES = ("refuse", "one-hot")
BATCH_DTYPES = tuple(np.dtype(kind) for kind in (np.uint8, np.int16, np.float16, np.float32, np.float64))
TEXT_DTYPE = np.dtype(np.float32)  # of numbers in text, and of columns without a common type
# The types of batches that represent these types exactly.
_EXACT = {np.dtype(np.bool_): BATCH_DTYPES[0], np.dtype(np.int8): BATCH_DTYPES[1]}


def batch_dtype(kinds: Iterable[np.dtype[Any]], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    """Return the type of batches with columns of these types: one of BATCH_DTYPES if all share it, else float32.

    Without columns of numbers it is uint8, for the 0 and 1 of categories.
    """
    if wanted is not None:
        return wanted
    native = {kind.newbyteorder("=") for kind in kinds}
    exact = {_EXACT.get(kind, kind) for kind in native} or {BATCH_DTYPES[0]}
    return exact.pop() if len(exact) == 1 and exact <= set(BATCH_DTYPES) else TEXT_DTYPE


def check_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Return the floating-point type that the user asks for; None if any type is allowed."""
    if dtype is None:
        return None
    try:
        kind: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.float32, np.float64):
        raise InvalidParameter(f"dtype must be float32, float64 or None; got {dtype!r}. Use 'float64' for more digits.")
    return kind


def check_categories(categories: str) -> bool:
    """Return whether columns of text become one 0/1 column for each level."""
    if categories not in CATEGORIES:
        raise UnknownName.among("categories", categories, CATEGORIES)
    return categories == "one-hot"


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return a path of data. Opening a pipe would wait for ever, and reading a device may never end."""
    place = parse_path(path, "train.csv")
    if not place.exists():
        raise MissingFile(f"a file of data must exist; {place} does not. Check the path.")
    if not (place.is_file() or place.is_dir()):
        raise InvalidFile(
            f"a file of data must be a regular file or a folder, since it is read more than once; {place} is a pipe or "
            "a device. Copy the data to a file first."
        )
    return place


def check_values(x: Any, y: NDArray[Any] | None, first: int, schema: Schema, source: str) -> None:
    """Raise InvalidData for the first NaN or infinite value, with its row and column.

    The inputs x are an array or a csr_array of shape (k, width); the targets y have shape (k,) or (k, t).
    """
    if not _finite(x if isinstance(x, np.ndarray) else x.data):
        row, column, value = _first_of(x)
        refuse_value(source, value, first + row, schema.names[column])
    if y is not None and not _finite(y):
        row, column, value = _first_of(y.reshape(len(y), -1))
        refuse_value(source, value, first + row, schema.target or "y")


def refuse_value(source: str, value: object, row: int, column: str) -> NoReturn:
    """Raise InvalidData for a value that is not finite."""
    raise InvalidData(
        f"{source}: values must be finite; found {value} at row {row}, column {column!r}. Leave such rows out, or "
        "replace such values, for example by the median of the column."
    )


def refuse_text(source: str, value: object, row: int, column: str) -> NoReturn:
    """Raise InvalidData for text in a column of numbers."""
    raise InvalidData(
        f"{source}: inputs must be numbers; found {value!r} at row {row}, column {column!r}. Use "
        'categories="one-hot" if the whole column is text, choose others with columns=, or correct the value.'
    )


@contextmanager
def decoding(kind: str, errors: tuple[type[Exception], ...], path: object) -> Iterator[None]:
    """Raise InvalidFile for these errors of the library that reads a kind of file."""
    try:
        yield
    except errors as error:
        message = str(error).partition("\n")[0]
        raise InvalidFile(
            f"{path} must be a valid {kind}; reading it failed ({message}). Write or copy it again."
        ) from error


def check_names(source: object, names: Iterable[str]) -> None:
    """Raise InvalidData for a table with two columns of one name."""
    if twice := repeated(names):
        raise InvalidData(
            f"{source}: names of columns must differ; {listed(twice)} occurs more than once. Rename the others."
        )


def refuse_empty(source: str, found: str) -> NoReturn:
    """Raise InvalidData for a table without rows or columns."""
    raise InvalidData(f"{source}: a table must have at least one row and one input; {found}. Add data.")


def _finite(values: NDArray[Any]) -> bool:
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def _first_of(x: Any) -> tuple[int, int, object]:
    """Return the row, the column and the value of the first entry that is not finite."""
    if isinstance(x, np.ndarray):
        row, column = np.argwhere(~np.isfinite(x))[0]
        return int(row), int(column), x[row, column]
    entry = int(np.flatnonzero(~np.isfinite(x.data))[0])
    row = int(np.searchsorted(x.indptr, entry, side="right")) - 1
    return row, int(x.indices[entry]), x.data[entry]


Matrix = Any  # an ndarray or a scipy.sparse.csr_array


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive rows of a source.

    Parameters
    ----------
    x : array or sparse matrix of shape (k, d)
        The inputs.
    y : array of shape (k,) or None
        The targets.
    first : int
        The number of the first row in the source.

    Examples
    --------
    >>> import numpy as np
    >>> from joker.data import as_source
    >>> [batch.first for batch in as_source(np.zeros((5, 2))).batches(2)]
    [0, 2, 4]
    """

    x: Matrix  # (k, width), an array or a csr_array
    y: NDArray[Any] | None  # (k,) numbers or text, or (k, t)
    first: int  # the number of the first row in the source, counted from 0

    def __len__(self) -> int:
        return int(self.x.shape[0])

    @property
    def dense(self) -> NDArray[Any]:  # (k, width)
        """The inputs as a dense array."""
        return self.x if isinstance(self.x, np.ndarray) else np.asarray(self.x.toarray())


class Source(ABC):
    """A table whose rows are read in order and in bounded memory, as often as needed.

    Write a subclass for your own data: it sets the four attributes and has one method, ``batches``.

    Attributes
    ----------
    name : str
        The name in messages, for example the path of a file.
    schema : Schema
        The names and kinds of the columns.
    dtype : numpy.dtype
        The type of the inputs in batches: uint8, int16, float16, float32 or float64.
    rows : int or None
        The number of rows; None if it is not known before all rows are read.

    Examples
    --------
    >>> import numpy as np
    >>> from joker.data import as_source
    >>> source = as_source(np.zeros((5, 2)), np.arange(5))
    >>> source.rows, source.schema.names
    (5, ('x0', 'x1'))
    """

    name: str
    schema: Schema
    dtype: np.dtype[Any]
    rows: int | None
    checked: bool = False  # whether ``batches`` itself raises an error for values that are not finite

    @abstractmethod
    def batches(self, rows: int) -> Iterator[Batch]:
        """Yield all rows in order, in batches of at least one and at most ``rows`` rows."""


@dataclass(frozen=True, eq=False)
class TableSource(Source):
    """A source whose attributes are given to its constructor."""

    name: str
    schema: Schema
    dtype: np.dtype[Any]
    rows: int | None

    def batches(self, rows: int) -> Iterator[Batch]:
        if not isinstance(rows, Integral) or rows < 1:
            raise InvalidParameter(f"rows must be a whole number of at least 1; got {rows!r}. Use 10000.")
        return self.read(int(rows))

    @abstractmethod
    def read(self, rows: int) -> Iterator[Batch]:
        """Yield the batches without checking their values."""


class CheckedSource(TableSource):
    """A source that raises InvalidData for values that are not finite."""

    checked = True

    def batches(self, rows: int) -> Iterator[Batch]:
        return map(self._check, super().batches(rows))

    def _check(self, batch: Batch) -> Batch:
        check_values(batch.x, batch.y, batch.first, self.schema, self.name)
        return batch


INDEX_NAME = "Unnamed: 0"  # of a first column without a name, as pandas calls a saved index; it is no input
Name = str | int  # of a column: its name, or its number counted from 0, or from the end if negative
Names = Sequence[Name]


@dataclass(frozen=True)
class TableColumns:
    """The columns of a file."""

    source: str
    names: tuple[str, ...]
    named: bool = True  # the file has names; otherwise they are x0, x1, ...

    def place(self, name: Name, what: str) -> int:
        """Return the number of a column."""
        if isinstance(name, str) and name in self.names:
            return self.names.index(name)
        number = _number(name, self.named)
        if number is not None and -len(self.names) <= number < len(self.names):
            return number % len(self.names)
        close = get_close_matches(str(name), self.names, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "Use one of these names, or a number counted from 0."
        raise UnknownName(
            f"{self.source}: {what} must be one of the columns {listed(self.names)}; got {name!r}. {hint}"
        )


@dataclass(frozen=True)
class ColumnSelection:
    """The numbers of the input columns of a table, in order, and of the target."""

    table: TableColumns
    inputs: tuple[int, ...]
    target: int | None

    @property
    def names(self) -> list[str]:
        """The names of the input columns."""
        return [self.table.names[j] for j in self.inputs]

    @property
    def target_name(self) -> str | None:
        """The name of the target."""
        return None if self.target is None else self.table.names[self.target]


def select_columns(
    table: TableColumns, target: Name | None, columns: Names | None, schema: Schema | None, drop: Names | None = None
) -> ColumnSelection:
    """Return the columns that the user names, or those of a schema."""
    check_names(table.source, table.names)
    if schema is not None:
        if columns is not None:
            raise InvalidParameter(
                f"columns must not be given with a schema, which names them; got {columns!r}. Leave it out."
            )
        return _by_schema(table, target, schema)
    selection = _by_user(table, target, columns)
    if drop is None:
        return selection
    left_out = {table.place(name, "drop") for name in drop}
    inputs = tuple(j for j in selection.inputs if j not in left_out)
    if not inputs or selection.target in left_out:
        raise InvalidParameter(
            f"drop must leave the target and at least one input; got {list(drop)!r}. Leave out fewer columns."
        )
    return replace(selection, inputs=inputs)


def _by_user(table: TableColumns, target: Name | None, columns: Sequence[Name] | None) -> ColumnSelection:
    label = None if target is None else table.place(target, "target")
    if columns is None:
        inputs = tuple(
            j for j, name in enumerate(table.names) if j != label and not (table.named and name == INDEX_NAME)
        )
        return ColumnSelection(table, inputs, label)
    if isinstance(columns, str):
        raise InvalidParameter(f"columns must be a list of names; got {columns!r}. Use columns=[{columns!r}].")
    inputs = tuple(table.place(name, "columns") for name in columns)
    if label in inputs or len(set(inputs)) < len(inputs) or not inputs:
        raise InvalidParameter(
            f"columns must name at least one column, each once, and not the target; got {list(columns)!r}. "
            "Leave out repeated names."
        )
    return ColumnSelection(table, inputs, label)


def _by_schema(table: TableColumns, target: Name | None, schema: Schema) -> ColumnSelection:
    """Return the columns of a schema: by name, or by order in a file without names."""
    places = {name: j for j, name in enumerate(table.names)}
    label = places.get(schema.target or "") if target is None else table.place(target, "target")
    wanted = [column.name for column in schema.inputs]
    missing = [name for name in wanted if name not in places]
    if not missing:
        return ColumnSelection(table, tuple(places[name] for name in wanted), label)
    if not table.named:
        others = tuple(j for j in range(len(table.names)) if target is None or j != label)
        if len(others) == len(wanted):
            return ColumnSelection(table, others, label if target is not None else None)
        raise InvalidData(
            f"{table.source}: the columns must be those of the training data, {len(wanted)} inputs; the file has "
            f"{len(table.names)} columns without names. Leave out the others, or give the file a header."
        )
    known = {*wanted, schema.target}
    unknown = [name for name in table.names if name not in known]
    also = f"; unknown: {listed(unknown)}" if unknown else ""
    raise InvalidData(
        f"{table.source}: the columns must be those of the training data; missing: {listed(missing)}{also}. "
        "Rename or add the columns."
    )


def _number(name: Name, named: bool) -> int | None:
    """Return the number of a column from its name; text is a number if the file has no names, or if it is negative."""
    if isinstance(name, int) and not isinstance(name, bool):
        return name
    try:
        number = int(name)
    except ValueError:
        return None
    return None if named and number >= 0 else number


MAX_INPUTS = 1_000_000  # columns of LIBSVM text, unless the user allows more


@dataclass(frozen=True)
class ReadOptions:
    """A path and the options with which it is read, as :func:`joker.data.open_source` has them."""

    path: Path
    target: Name | None = None
    columns: Sequence[Name] | None = None
    header: bool | str = "auto"
    one_hot: bool = False
    schema: Schema | None = None
    delimiter: str | None = None
    inputs: str | None = None
    dtype: np.dtype[Any] | None = None
    max_inputs: int = MAX_INPUTS
    decimal: str | None = None
    drop: Sequence[Name] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.max_inputs, int) or isinstance(self.max_inputs, bool) or self.max_inputs < 1:
            raise InvalidParameter(
                f"max_inputs must be a whole number of at least 1; got {self.max_inputs!r}. Use {MAX_INPUTS}."
            )

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return str(self.path)

    def without(self, *options: str) -> ReadOptions:
        """Raise InvalidParameter for options that have no meaning for this kind of file; return the options."""
        defaults = ReadOptions(self.path)
        for option in options:
            if (value := getattr(self, option)) != getattr(defaults, option):
                raise InvalidParameter(
                    f"{self.path}: {option} must not be given for this kind of file, where it has no meaning; got "
                    f"{value!r}. Leave it out."
                )
        return self
