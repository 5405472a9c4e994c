"""Tables of any library as named columns: numbers, text or dates, with one mark for missing values each."""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import Tensor

from joker.data import Store, StoreRows
from joker.data.arrays import as_array
from joker.data.readers.open import is_frame, is_object, open_frame
from joker.data.readers.table import is_number, is_text
from joker.data.readers.text import MISSING_WORDS
from joker.data.schema import listed, repeated, unnamed
from joker.errors import BudgetTooSmall, InvalidData
from joker.estimators import resolve
from joker.runtime import format_bytes

Array = NDArray[Any]
NUMBER, BOOLEAN, TEXT, DATE = "number", "boolean", "text", "date"
DATE_TYPE = "datetime64[us]"
MICROSECONDS = 1e6  # of one second


@dataclass(frozen=True, eq=False)
class RawColumn:
    """One column: its values, in one of four forms, with a mark for missing values.

    Numbers are float64 with NaN, booleans are float64 with 0, 1 and NaN, text is an object array with None, and dates
    are datetime64 with NaT.
    """

    name: str
    form: str  # NUMBER, BOOLEAN, TEXT or DATE
    values: Array  # (n,)
    declared_category: bool = False  # the library of the frame says that it is a category
    text_format: str = ""  # of numbers and dates that were text, see `joker.tables.parsing`

    @property
    def missing(self) -> Array:  # (n,)
        """Whether each value is missing."""
        if self.form == TEXT:
            return np.fromiter((value is None for value in self.values), dtype=bool, count=len(self.values))
        return np.isnat(self.values) if self.form == DATE else np.isnan(self.values)

    def some(self, rows: Array) -> RawColumn:
        """Some rows of the column."""
        return replace(self, values=self.values[rows])


@dataclass(frozen=True, eq=False)
class RawTable:
    """Named columns of equal length."""

    columns: tuple[RawColumn, ...]
    rows: int
    named: bool  # whether the columns have names of their own, else x0, x1, ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def some(self, rows: Array) -> RawTable:
        """Some rows of the table."""
        return RawTable(tuple(column.some(rows) for column in self.columns), len(rows), self.named)


def is_matrix(X: Any) -> bool:
    """Whether X has no columns to be read one by one: a sparse matrix or a row store."""
    return (
        sp.issparse(X)
        or isinstance(X, Store | StoreRows)
        or (isinstance(X, Tensor) and X.layout is not None and X.is_sparse)
    )


def read_table(X: Any) -> RawTable:
    """Return the columns of a frame, an array, a tensor, a list of dicts or a list of rows."""
    if isinstance(X, RawTable):
        return X
    if isinstance(X, Tensor):
        X = as_array(X)
    if isinstance(X, Mapping):
        return _checked([_from_values(str(name), values) for name, values in X.items()], named=True)
    if isinstance(X, Sequence) and not isinstance(X, str) and len(X) and isinstance(X[0], Mapping):
        return _from_records(X)
    if is_frame(X):
        return _from_frame(X)
    return _from_array(X)


def _from_records(X: Sequence[Mapping[str, Any]]) -> RawTable:
    if not all(isinstance(row, Mapping) for row in X):
        raise InvalidData("a list of rows must have one form; some rows are dicts and some are not. Use dicts only.")
    names = dict.fromkeys(name for row in X for name in row)
    return _checked([_from_values(str(name), [row.get(name) for row in X]) for name in names], named=True)


def _from_frame(X: Any) -> RawTable:
    frame = open_frame(X)
    return _checked([_from_series(str(name), frame[:, j]) for j, name in enumerate(frame.columns)], named=True)


def _from_series(name: str, series: Any) -> RawColumn:
    import pyarrow
    from pyarrow import types

    if is_object(series):
        return _from_values(name, series.to_list())
    if getattr(series.dtype, "time_zone", None):
        series = series.dt.replace_time_zone(None)
    values = series.to_arrow()
    kind = values.type
    if is_number(kind):
        return RawColumn(name, BOOLEAN if types.is_boolean(kind) else NUMBER, _as_numpy(values, pyarrow.float64()))
    if types.is_date(kind) or types.is_timestamp(kind):
        return RawColumn(name, DATE, _as_numpy(values, pyarrow.timestamp("us")))
    if types.is_duration(kind):
        seconds = _as_numpy(values, pyarrow.duration("us"))
        return RawColumn(name, NUMBER, np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64) / MICROSECONDS))
    if is_text(kind):
        return RawColumn(name, TEXT, _as_text(values.to_pylist()), declared_category=types.is_dictionary(kind))
    return _from_values(name, values.to_pylist())


def _as_numpy(values: Any, kind: Any) -> Array:
    """Return an Arrow array in one type; missing values are NaN or NaT."""
    return np.asarray(values.cast(kind, safe=False).to_numpy(zero_copy_only=False))


def _from_array(X: Any) -> RawTable:
    array = _array_of_rows(X) if isinstance(X, Sequence) and not isinstance(X, str) and len(X) else np.asarray(X)
    if array.dtype.names is not None:
        return _checked([_from_values(name, array[name]) for name in array.dtype.names], named=True)
    if array.dtype.kind == "c":
        raise InvalidData("Complex data not supported. Inputs must be real numbers, text or dates. Use two columns.")
    if array.ndim != 2:
        single = (
            "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
            "array.reshape(1, -1) if it contains a single sample."
        )
        raise InvalidData(f"Expected 2D array, a table of rows and columns; got {array.ndim}D array instead. {single}")
    names = unnamed(array.shape[1])
    columns = [_from_values(name, array[:, j]) for j, name in enumerate(names)]
    return _checked(columns, named=False, rows=array.shape[0])


def _array_of_rows(X: Sequence[Any]) -> Array:
    """Return a list of rows as an array; rows with text keep the type of every value."""
    mixed = any(isinstance(value, str) for row in X[:1] if isinstance(row, Sequence) for value in row)
    try:
        return np.array(list(X), dtype=object) if mixed else np.asarray(X)
    except ValueError as error:
        raise InvalidData(f"rows must have equal lengths; reading them failed: {error}. Correct the rows.") from error


def _from_values(name: str, values: Any) -> RawColumn:
    """Return a column of an array or a list, whose form is that of its values."""
    array = np.asarray(values) if isinstance(values, np.ndarray) else None
    if array is not None and array.dtype.kind in "fiu":
        return RawColumn(name, NUMBER, array.astype(np.float64, copy=False))
    if array is not None and array.dtype.kind == "b":
        return RawColumn(name, BOOLEAN, array.astype(np.float64))
    if array is not None and array.dtype.kind == "M":
        return RawColumn(name, DATE, array.astype(DATE_TYPE))
    found = array.tolist() if array is not None else list(values)
    return _from_objects(name, found)


def _from_objects(name: str, values: list[Any]) -> RawColumn:
    kinds = {_kind_of(name, value) for value in values if not is_missing(value)}
    if kinds <= {NUMBER, BOOLEAN}:
        numbers = [np.nan if is_missing(value) else float(value) for value in values]
        return RawColumn(name, BOOLEAN if kinds == {BOOLEAN} else NUMBER, np.array(numbers, dtype=np.float64))
    if kinds == {DATE}:
        dates = [np.datetime64("NaT") if is_missing(value) else _date(value) for value in values]
        return RawColumn(name, DATE, np.array(dates, dtype=DATE_TYPE))
    return RawColumn(name, TEXT, _as_text(values))


def _date(value: Any) -> Any:
    return np.datetime64(value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value)


def _kind_of(name: str, value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return BOOLEAN
    if isinstance(value, numbers.Real | Decimal):
        return NUMBER
    if isinstance(value, str):
        return TEXT
    if isinstance(value, datetime.date | datetime.datetime | np.datetime64):
        return DATE
    raise TypeError(
        f"the argument must be a string or a real number in every cell; column {name!r} contains "
        f"{type(value).__name__}. Leave the column out, or turn it into columns of numbers or text."
    )


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or NA."""
    if type(value) is str:  # most values of a table that has any
        return False
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, Decimal) and value.is_nan())


def _as_text(values: Sequence[Any]) -> Array:
    """Return any values as text."""
    return _text([None if is_missing(value) else str(value) for value in values])


def _text(values: Sequence[Any]) -> Array:
    """Return text without the words that mean a missing value."""
    # Equal texts are one object, which takes less memory.
    kept = {
        value: None if is_missing(value) or value.strip().lower() in MISSING_WORDS else str(value)
        for value in set(values)
    }
    result = np.empty(len(values), dtype=object)
    result[:] = [kept[value] for value in values]
    return result


def _checked(columns: list[RawColumn], *, named: bool, rows: int | None = None) -> RawTable:
    """Return the table after the checks that its columns need."""
    if twice := repeated(column.name for column in columns):
        raise InvalidData(f"names of columns must differ; {listed(twice)} occurs more than once. Rename the others.")
    lengths = {len(column.values) for column in columns} | (set() if rows is None else {rows})
    if len(lengths) > 1:
        raise InvalidData(f"columns must have equal lengths; got {sorted(lengths)}. Correct the table.")
    for column in columns:
        _check_finite(column)
    return RawTable(tuple(columns), lengths.pop() if lengths else 0, named)


def _check_finite(column: RawColumn) -> None:
    if column.form != NUMBER or not np.isinf(column.values).any():
        return
    row = int(np.flatnonzero(np.isinf(column.values))[0])
    raise InvalidData(
        f"numbers must be finite; column {column.name!r} contains infinity in row {row}. Replace it by a number, or by "
        "a missing value (NaN)."
    )


def as_batches(table: RawTable, size: int) -> Iterator[RawTable]:
    """Yield the rows of a table in batches."""
    for start in range(0, table.rows, size):
        yield table.some(np.arange(start, min(start + size, table.rows)))


COPIES = 3  # of the encoded rows, at the same time: all rows, the rows of a fold or a trial, and those being encoded
LIBRARIES = 64 * 2**20  # bytes that scikit-learn, SciPy and narwhals take at their first use, approximately
TEXT_BYTES = 64  # of a short text as a Python object; one column of text is converted at a time
MIN_LEFT = 48 * 2**20  # bytes for the fit of a kernel model, at least


def is_limited(memory: Any) -> bool:
    """Whether a memory budget is given."""
    return resolve.budget(memory) is not None


def memory_of_models(memory: Any, inputs: Any, width: int) -> Any:
    """Return the memory of one kernel model: the budget without the table, its encoding and the libraries."""
    budget = resolve.budget(memory)
    if budget is None or not isinstance(inputs, RawTable):
        return memory
    table = sum(column.values.nbytes for column in inputs.columns)
    table += TEXT_BYTES * inputs.rows if any(column.form == TEXT for column in inputs.columns) else 0
    taken = table + COPIES * 4 * inputs.rows * width + LIBRARIES
    if budget < taken + MIN_LEFT:
        raise BudgetTooSmall(
            f"memory must be at least {format_bytes(taken + MIN_LEFT)} for this table: its columns take "
            f"{format_bytes(table)} and {COPIES} copies of its {width} inputs "
            f"{format_bytes(COPIES * 4 * inputs.rows * width)}; got memory={memory!r}. Give more, or fewer rows."
        )
    return budget - taken
