"""Tables of any library as named columns: numbers, text or dates, with one mark for missing values each."""

from __future__ import annotations

import datetime
import math
import numbers
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import Tensor

from joker.data import Store, StoreRows
from joker.data.arrays import as_array
from joker.data.readers.open import (
    CATEGORIES,
    WORDS,
    booleans_of_numbers,
    is_frame,
    is_object,
    is_raw_table,
    numbers_of_frame,
    objects_of_frame,
    open_frame,
    read_raw_table,
    text_and_dates_of_frame,
)
from joker.data.readers.table import is_number, is_text
from joker.data.readers.text import MISSING_WORDS
from joker.data.schema import listed, repeated, unnamed
from joker.errors import BudgetTooSmall, InvalidCell, InvalidData, InvalidParameter
from joker.estimators import resolve
from joker.runtime import format_bytes, format_least

Array = NDArray[Any]
NUMBER, BOOLEAN, TEXT, DATE = "number", "boolean", "text", "date"
DATE_TYPE = "datetime64[us]"
MICROSECONDS = 1e6  # of one second
LARGEST_NUMBER = 1e150  # in size, of numbers in a table: their squares are finite
BLOCK_ENTRIES = 2**20  # values of several columns that are converted or checked at a time


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

    @cached_property
    def missing(self) -> Array:  # (n,)
        """Whether each value is missing."""
        if self.form == TEXT:
            return np.asarray(self.levels.codes < 0)
        return np.isnat(self.values) if self.form == DATE else np.isnan(self.values)

    def some(self, rows: Array | slice) -> RawColumn:
        """Some rows of the column."""
        part = replace(self, values=self.values[rows])
        if "levels" in vars(self):  # computed for all rows, they need not be for some of them
            vars(part)["levels"] = Levels(self.levels.names, self.levels.codes[rows])
        return part

    @cached_property
    def levels(self) -> Levels:
        """The values as levels of a category; whole numbers are written without a fraction."""
        if self.form == TEXT:
            values = self.values.tolist()
            names = sorted(set(values) - {None})
            places = {name: j for j, name in enumerate(names)} | {None: -1}
            codes = np.fromiter(map(places.__getitem__, values), dtype=np.int32, count=len(values))
            return Levels(tuple(names), codes)
        missing = self.missing
        distinct, of_present = np.unique(self.values[~missing], return_inverse=True)
        write = str if self.form == DATE else _written_number
        written = [write(value) for value in (distinct if self.form == DATE else distinct.tolist())]
        order = sorted(range(len(written)), key=lambda j: written[j])
        codes = np.full(len(self.values), -1, dtype=np.int32)
        codes[~missing] = np.argsort(order)[of_present.ravel()]
        return Levels(tuple(written[j] for j in order), codes)


def _written_number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


@dataclass(frozen=True, eq=False)
class Levels:
    """The values of a column as levels of a category, by number."""

    names: tuple[str, ...]  # sorted; of some rows of a column, also those that these rows do not have
    codes: Array  # (n,), int32; −1 where the value is missing


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

    def without(self, name: str) -> RawTable:
        """The table without the column of that name."""
        return replace(self, columns=tuple(column for column in self.columns if column.name != name))

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
    """Return the columns of a frame, an array, a tensor, a list of dicts or of rows, a dict, or a file."""
    if isinstance(X, RawTable):
        return X
    if isinstance(X, str | os.PathLike):
        table, named = _read_file(X)
        return replace(_from_frame(table), named=named)
    if isinstance(X, Tensor):
        X = as_array(X)
    if isinstance(X, Mapping):
        return _from_mapping(X)
    if _is_records(X):
        return _from_records(X)
    if is_frame(X):
        return _from_frame(X)
    return _from_array(X)


def split_target(X: Any, name: str) -> tuple[RawTable, Any]:
    """Return a table without the column of that name, and this column as its library has it."""
    if isinstance(X, str | os.PathLike):
        X, named = _read_file(X)
        table = replace(_from_frame(X), named=named)
    else:
        table = read_table(X) if not is_matrix(X) else RawTable((), 0, False)
    rule = f"y must be the target of each row, or the name of a column of X; got {name!r}"
    if not table.named and name not in table.names:
        raise InvalidParameter(f"{rule}, and X has no names of columns. Use y=X[:, 0] and X[:, 1:], or a data frame.")
    if name not in table.names:
        close = get_close_matches(name, table.names, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "Give the name of one of them."
        raise InvalidParameter(f"{rule}, and the columns are {listed(table.names)}. {hint}")
    return table.without(name), _given_column(X, table, table.names.index(name))


def _given_column(X: Any, table: RawTable, place: int) -> Any:
    if isinstance(X, Mapping):
        return list(X.values())[place]
    if _is_records(X):
        return [{str(key): value for key, value in row.items()}.get(table.names[place]) for row in X]
    if is_frame(X):
        return open_frame(X)[:, place].to_native()
    return X[table.names[place]] if isinstance(X, np.ndarray) else table.columns[place].values


def _read_file(path: str | os.PathLike[str]) -> tuple[Any, bool]:
    """Return a file as an Arrow table, and whether its columns have names."""
    if Path(path).exists() and not is_raw_table(Path(path)):
        raise InvalidData(
            f"X as a file must be delimited text, Parquet or Arrow; got {os.fspath(path)!r}. Use "
            "joker.data.open_store for a row store, numpy.load for .npy, and sklearn.datasets.load_svmlight_file for "
            "LIBSVM text."
        )
    table, columns = read_raw_table(path)
    return table, columns.named


def _is_records(X: Any) -> bool:
    return isinstance(X, Sequence) and not isinstance(X, str) and len(X) > 0 and isinstance(X[0], Mapping)


def _from_mapping(X: Mapping[Any, Any]) -> RawTable:
    """Return one row as a dict of values, or a dict of columns."""
    cells = [str(name) for name, value in X.items() if _is_cell(value)]
    if X and len(cells) == len(X):
        return _from_records([X])
    if cells:
        raise InvalidData(
            f"a dict must be one row, whose values are numbers, text or dates, or a dict of columns; {cells[0]!r} has "
            "one value, and others have several. Give one form."
        )
    return _checked([_from_values(str(name), values) for name, values in X.items()], named=True)


def _is_cell(value: Any) -> bool:
    return isinstance(value, str) or not hasattr(value, "__len__") or getattr(value, "ndim", None) == 0


def _from_records(X: Sequence[Mapping[str, Any]]) -> RawTable:
    if not all(isinstance(row, Mapping) for row in X):
        raise InvalidData("a list of rows must have one form; some rows are dicts and some are not. Use dicts only.")
    names = dict.fromkeys(name for row in X for name in row)
    return _checked([_from_values(str(name), [row.get(name) for row in X]) for name in names], named=True)


def _from_frame(X: Any) -> RawTable:
    frame = open_frame(X)
    names = [str(name) for name in frame.columns]
    found = _number_columns(frame, names) | _text_and_date_columns(frame, names)
    others = [j for j in range(len(names)) if j not in found]
    if others:  # one by one, frame[:, j] would list all names each time
        rest = frame[:, others] if found else frame
        found |= {j: _from_series(names[j], series) for j, series in zip(others, rest.iter_columns(), strict=True)}
    return _checked([found[j] for j in range(len(names))], named=True, rows=len(frame))


def _number_columns(frame: Any, names: Sequence[str]) -> dict[int, RawColumn]:
    """Return the columns of numbers of a frame of pandas or polars by their places.

    Many columns are converted at a time: one by one, a row of a wide table would take half a millisecond for each.
    """
    forms = {j: BOOLEAN if boolean else NUMBER for j, boolean in booleans_of_numbers(frame).items()}
    places = list(forms)
    step = max(1, BLOCK_ENTRIES // max(1, len(frame)))
    found = {}
    for start in range(0, len(places), step):
        some = places[start : start + step]
        for j, values in zip(some, numbers_of_frame(frame, some).T, strict=True):
            found[j] = RawColumn(names[j], forms[j], values)
    return found


def _text_and_date_columns(frame: Any, names: Sequence[str]) -> dict[int, RawColumn]:
    """Return the columns of text and dates of a frame of pandas with few rows by their places.

    Many columns are converted at a time, as those of numbers are. With many rows that would hold many columns of
    Python objects at a time, and each column has enough work of its own.
    """
    if len(frame) * len(names) > BLOCK_ENTRIES:
        return {}
    kinds = text_and_dates_of_frame(frame)
    found = {}
    for kind in set(kinds.values()):
        places = [j for j, other in kinds.items() if other == kind]
        for j, values in zip(places, objects_of_frame(frame, places).T, strict=True):
            if kind in (WORDS, CATEGORIES):
                found[j] = RawColumn(names[j], TEXT, _as_text(values.tolist()), declared_category=kind == CATEGORIES)
            else:
                found[j] = RawColumn(names[j], DATE, values.astype(DATE_TYPE))
    return found


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
    if hasattr(X, "to_frame"):
        raise InvalidData(
            f"Expected 2D array, a table of rows and columns; got a {type(X).__name__}. Use frame.iloc[[i]] in place "
            "of frame.iloc[i] for one row, or to_frame() for one column."
        )
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
    raise InvalidCell(
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
    if set(map(type, values)) <= {str, type(None)}:
        return _text(values)
    return _text([None if is_missing(value) else str(value) for value in values])


def _text(values: Sequence[str | None]) -> Array:
    """Return text without the words that mean a missing value."""
    # Equal texts are one object, which takes less memory.
    kept = {
        value: None if value is None or value.strip().lower() in MISSING_WORDS else str(value) for value in set(values)
    }
    result = np.empty(len(values), dtype=object)
    result[:] = list(map(kept.__getitem__, values))
    return result


def _checked(columns: list[RawColumn], *, named: bool, rows: int | None = None) -> RawTable:
    """Return the table after the checks that its columns need."""
    if twice := repeated(column.name for column in columns):
        raise InvalidData(f"names of columns must differ; {listed(twice)} occurs more than once. Rename the others.")
    lengths = {len(column.values) for column in columns} | (set() if rows is None else {rows})
    if len(lengths) > 1:
        raise InvalidData(f"columns must have equal lengths; got {sorted(lengths)}. Correct the table.")
    rows = lengths.pop() if lengths else 0
    numbers = [column for column in columns if column.form == NUMBER]
    step = max(1, BLOCK_ENTRIES // max(1, rows))
    for start in range(0, len(numbers), step):
        _check_finite(numbers[start : start + step])
    return RawTable(tuple(columns), rows, named)


def _check_finite(columns: Sequence[RawColumn]) -> None:
    def too_large(values: Array) -> Array:
        return np.abs(values) > LARGEST_NUMBER

    if not too_large(np.concatenate([column.values for column in columns])).any():
        return
    column = next(column for column in columns if too_large(column.values).any())
    row = int(np.flatnonzero(too_large(column.values))[0])
    what = "infinity" if np.isinf(column.values[row]) else f"{column.values[row]:g}"
    raise InvalidData(
        f"numbers must be finite, and at most {LARGEST_NUMBER:g} in size, so that their squares are finite too; column "
        f"{column.name!r} contains {what} in row {row}. Replace it by a number, or by a missing value (NaN)."
    )


def as_batches(table: RawTable, size: int) -> Iterator[RawTable]:
    """Yield the rows of a table in batches."""
    if table.rows <= size:
        yield table
        return
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
    taken = beside_models(inputs, width)
    if budget < taken + MIN_LEFT:
        refuse_budget(budget, inputs, width, MIN_LEFT)
    return budget - taken


def beside_models(inputs: RawTable, width: int) -> int:
    """Return the bytes that a fit takes beside its kernel models: of the table, its encodings and the libraries."""
    table = sum(column.values.nbytes for column in inputs.columns)
    table += TEXT_BYTES * inputs.rows if any(column.form == TEXT for column in inputs.columns) else 0
    return table + COPIES * 4 * inputs.rows * width + LIBRARIES


def refuse_budget(budget: int, inputs: RawTable, width: int, models: int) -> NoReturn:
    """Raise the error for a budget that leaves less than ``models`` bytes for the kernel models."""
    beside = beside_models(inputs, width)
    raise BudgetTooSmall.naming(
        beside + models,
        f"the table, {COPIES} copies of its {width} inputs and a kernel model; {format_bytes(budget)} is given and it "
        f"takes at least {format_least(beside + models)}, {format_bytes(models)} of it for the model",
        ", or fewer rows",
    )
