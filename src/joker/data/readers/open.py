"""Opening a table: on disk by the kind of its file, or in memory.

Frames of pandas, polars and others are read through narwhals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data.readers.arrays import ArraySource, StreamedArray, array_source, open_hdf5, open_npy, open_npz
from joker.data.readers.libsvm import looks_like_libsvm, open_libsvm
from joker.data.readers.source import (
    MAX_INPUTS,
    TEXT_DTYPE,
    Batch,
    CheckedSource,
    Name,
    ReadOptions,
    Source,
    TableColumns,
    batch_dtype,
    check_categories,
    check_dtype,
    existing_file,
    refuse_empty,
    refuse_text,
    select_columns,
)
from joker.data.readers.table import (
    FORMATS,
    NO_COLUMNS,
    ArrowSource,
    is_text,
    open_dataset,
    read_dataset,
    scan_dataset,
    with_columns,
)
from joker.data.readers.text import OPENERS, open_csv, read_head, read_text, scan_text
from joker.data.schema import Schema, listed, repeated, unnamed
from joker.errors import InvalidData, InvalidFile, MissingFile, MissingPackage
from joker.runtime.files import AnyPath


def open_source(
    path: AnyPath,
    *,
    target: Name | None = None,
    columns: Sequence[Name] | None = None,
    header: bool | str = "auto",
    categories: str = "refuse",
    schema: Schema | None = None,
    delimiter: str | None = None,
    inputs: str | None = None,
    dtype: Any = None,
    max_inputs: int = MAX_INPUTS,
    decimal: str | None = None,
    drop: Sequence[Name] | None = None,
) -> Source:
    r"""Open a table on disk, to be read in bounded memory.

    Parameters
    ----------
    path : path
        Delimited text (.csv, .tsv, .txt, .data) or LIBSVM text (.svm, .libsvm, .svmlight, .txt), also compressed
        (.gz, .bz2 or .xz); .npy, .npz; HDF5 (.h5, .hdf5); Parquet (.parquet, .pq) or Arrow (.arrow, .feather, .ipc),
        also a folder of such files.
    target : str or int, optional
        The column to predict: its name, or its number counted from 0, or from the end if negative. In .npz and HDF5
        files also the name of an array; the names y, Y, target, label and labels are found without it. For a .npy file
        also the name of a second file in the same folder.
    columns : list of str or int, optional
        The inputs. By default all columns except the target.
    header : {"auto", True, False}
        Whether the first line of delimited text contains the names of the columns. ``"auto"`` decides by the first two
        lines.
    categories : {"refuse", "one-hot"}
        For columns of text: raise an error, or use one 0/1 column for each level, which are found in a first pass.
    schema : Schema, optional
        The columns of the training data. Batches have exactly these columns, and the target if the file has it.
    delimiter : str, optional
        The delimiter of delimited text. By default it is found: a tab, semicolon, bar or comma, else spaces.
    inputs : str, optional
        The name of the array of inputs in .npz and HDF5 files; the names X, x and data are found without it.
    dtype : {"float32", "float64"}, optional
        The type of the inputs. By default it is float32 for text. Binary files keep uint8, int16, float16, float32 and
        float64 if all inputs have the same type; all other types become float32.
    max_inputs : int
        The largest number of columns that LIBSVM text may have; it also limits the length of a line. A wrong index
        would otherwise take all memory.
    decimal : {".", ","}, optional
        The character before the fraction of a number in delimited text. By default it is found: a comma if the
        first row has a number such as 0,5 and the delimiter is not a comma.
    drop : list of str or int, optional
        Columns that are neither inputs nor the target.

    Returns
    -------
    Source
        The table, which can be read several times.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from joker.data import open_source
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "points.svm"
    ...     _ = path.write_text("1 1:0.5 3:2\n-1 2:1\n")
    ...     open_source(path).rows
    2
    """
    one_hot, kind = check_categories(categories), check_dtype(dtype)
    place = existing_file(path)
    options = ReadOptions(
        place, target, columns, header, one_hot, schema, delimiter, inputs, kind, max_inputs, decimal, drop
    )
    try:
        return _reader(place)(options)
    except PermissionError as error:
        raise InvalidFile(
            f"{place} must be a file that you may read; {error.strerror}. Change its permissions."
        ) from error


Reader = Callable[[ReadOptions], Source]


def _text(options: ReadOptions) -> Source:
    """Open text whose suffix does not determine its kind."""
    return (open_libsvm if looks_like_libsvm(read_head(options.path)) else open_csv)(options)


def _npy(options: ReadOptions) -> ArraySource:
    """Open an array; the target may be one of its columns, or a second file."""
    x = open_npy(options.path)
    if not (isinstance(options.target, str) and options.target.endswith(".npy")):
        return array_source(options.without("inputs"), x)
    beside = options.path.parent / options.target
    if not beside.exists():
        raise MissingFile(f"{options.name}: the file of the target must exist; {beside} does not. Check the path.")
    return array_source(replace(options.without("inputs"), target=None), x, open_npy(beside))


READERS: dict[str, Reader] = {
    ".csv": open_csv,
    ".tsv": open_csv,
    ".txt": _text,
    ".data": _text,
    ".svm": open_libsvm,
    ".libsvm": open_libsvm,
    ".svmlight": open_libsvm,
    ".npy": _npy,
    ".npz": open_npz,
    ".h5": open_hdf5,
    ".hdf5": open_hdf5,
    **dict.fromkeys(FORMATS, open_dataset),
}


def _by_suffix(path: Path) -> Reader | None:
    """Return the reader for the suffix of a file; None for an unknown one."""
    if path.is_dir():
        return open_dataset
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in OPENERS
    reader = READERS.get("".join(suffixes[-2:-1] if packed else suffixes[-1:]))
    return reader if not packed or reader in (open_csv, _text, open_libsvm) else None


def _reader(path: Path) -> Reader:
    """Return the reader for a file; LIBSVM text may have any suffix."""
    if (reader := _by_suffix(path)) is not None:
        return reader
    if looks_like_libsvm(read_head(path)):
        return open_libsvm
    raise InvalidFile(
        f"the suffix of a file of data must be one of {', '.join(READERS)}, for text also followed by "
        f"{', '.join(OPENERS)}; got {path.name!r}. Rename or convert the file."
    )


def is_raw_table(path: Path) -> bool:
    """Whether a file is delimited text, Parquet or Arrow, whose columns may be of any kind."""
    reader = _by_suffix(path)
    if reader is _text and path.is_file():
        return not looks_like_libsvm(read_head(path))
    return reader in (open_csv, open_dataset, _text)


def read_raw_table(
    path: AnyPath, *, header: bool | str = "auto", delimiter: str | None = None, decimal: str | None = None
) -> tuple[Any, TableColumns]:
    """Return a file with all of its columns as one Arrow table, and the names of the columns."""
    place = existing_file(path)
    if place.is_dir() or place.suffix.lower() in FORMATS:
        return read_dataset(place)
    return read_text(place, header, delimiter, decimal)


def scan_raw_table(
    path: AnyPath,
    columns: Sequence[Name],
    *,
    header: bool | str = "auto",
    delimiter: str | None = None,
    decimal: str | None = None,
) -> tuple[list[str], Iterator[Any]]:
    """Return the names of some columns of a file, and its record batches of them; columns of text files stay text."""
    place = existing_file(path)
    if not is_raw_table(place):
        raise InvalidData(f"{place} must be delimited text, Parquet or Arrow, whose columns have names. Convert it.")
    if place.is_dir() or place.suffix.lower() in FORMATS:
        return scan_dataset(place, columns)
    return scan_text(place, columns, header, delimiter, decimal)


TABLE_NAME = Path("X")  # the name in messages of a table without a file


@dataclass(frozen=True, eq=False)
class MemoryArray(StreamedArray):
    """An array in memory, or a tensor on any device."""

    values: Any

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        for first in range(0, self.shape[0], rows):
            yield _as_numpy(self.values[first : first + rows])


@dataclass(frozen=True, eq=False)
class CsrSource(CheckedSource):
    """The rows of a CSR matrix."""

    x: Any  # (n, width), a csr_array
    y: NDArray[Any] | None  # (n,)

    def read(self, rows: int) -> Iterator[Batch]:
        for first in range(0, self.x.shape[0], rows):
            part = slice(first, first + rows)
            yield Batch(self.x[part].astype(self.dtype, copy=False), None if self.y is None else self.y[part], first)


def is_frame(x: Any) -> bool:
    """Return whether a value is a data frame of some library."""
    return type(x).__module__.partition(".")[0] not in ("numpy", "builtins") and (
        hasattr(type(x), "columns") or hasattr(x, "column_names") or hasattr(x, "__dataframe__")
    )


def _column_names(x: Any) -> list[str]:
    names = x.column_names if hasattr(x, "column_names") else x.columns
    return list(map(str, names.tolist() if hasattr(names, "tolist") else names))  # an index is slow to go through


def open_frame(x: Any) -> Any:
    """Return a data frame in memory as one of narwhals."""
    try:
        import narwhals.stable.v2 as nw
        import pyarrow  # noqa: F401  # its columns become Arrow arrays
    except ImportError as error:
        raise MissingPackage(
            "data frames need narwhals and pyarrow, which are not installed. Run pip install 'joker-kernels[tables]', "
            "or give a NumPy array or a list of dicts."
        ) from error
    lazy = hasattr(x, "collect") and hasattr(x, "collect_schema")
    if lazy and not hasattr(x, "shape"):
        raise InvalidData(f"a frame must be in memory; got {type(x).__name__}, which is lazy. Use frame.collect().")
    if not lazy and (twice := repeated(_column_names(x))):
        raise InvalidData(f"names of columns must differ; {listed(twice)} occurs more than once. Rename the others.")
    try:
        return nw.from_native(x, eager_only=True)
    except TypeError as error:
        if hasattr(x, "__arrow_c_stream__"):  # such as a relation of DuckDB
            return nw.from_arrow(x, backend="pyarrow")
        raise InvalidData(
            f"a table must be a frame of pandas, polars or pyarrow, an array, or a list of dicts; got "
            f"{type(x).__name__}. Convert it first."
        ) from error


def booleans_of_numbers(frame: Any) -> dict[int, bool]:
    """Return the places of the columns of numbers that `numbers_of_frame` reads, and whether each has truth values.

    These are columns of NumPy types in a frame of pandas, and of numbers in one of polars.
    """
    native, implementation = frame.to_native(), frame.implementation
    if implementation.is_pandas():
        types = native.dtypes.tolist()
        return {j: t.kind == "b" for j, t in enumerate(types) if isinstance(t, np.dtype) and t.kind in "fiub"}
    if implementation.is_polars():
        types = native.dtypes
        return {j: not t.is_numeric() for j, t in enumerate(types) if str(t) == "Boolean" or _is_machine_number(t)}
    return {}


def _is_machine_number(kind: Any) -> bool:
    return bool(kind.is_integer() or kind.is_float())


def numbers_of_frame(frame: Any, places: Sequence[int]) -> NDArray[np.float64]:  # (n, k)
    """Return some columns of numbers of a frame of pandas or polars as one array; missing values are NaN."""
    native = frame.to_native()
    every = len(places) == native.shape[1]
    if frame.implementation.is_pandas():
        return np.asarray((native if every else native.iloc[:, list(places)]).to_numpy(np.float64))
    import polars

    some = native if every else native[:, list(places)]
    return np.asarray(some.cast(polars.Float64).to_numpy())


WORDS, CATEGORIES = "text", "categories of text"


def text_and_dates_of_frame(frame: Any) -> dict[int, str]:
    """Return the places of the columns of text and of dates that `objects_of_frame` reads, and the kind of each.

    These are columns of a frame of pandas whose type says that all values are text, or dates without a time zone. The
    kind of dates is their NumPy type, whose unit may differ.
    """
    if not frame.implementation.is_pandas():
        return {}
    return {j: kind for j, t in enumerate(frame.to_native().dtypes.tolist()) if (kind := _pandas_kind(t)) is not None}


def _pandas_kind(kind: Any) -> str | None:
    import pandas as pd

    if isinstance(kind, np.dtype):
        return kind.str if kind.kind == "M" else None
    if isinstance(kind, pd.CategoricalDtype):
        return CATEGORIES if isinstance(kind.categories.dtype, pd.StringDtype) else None
    return WORDS if isinstance(kind, pd.StringDtype) else None


def objects_of_frame(frame: Any, places: Sequence[int]) -> NDArray[Any]:  # (n, k)
    """Return some columns of one kind, text or dates, of a frame of pandas as one array."""
    return np.asarray(frame.to_native().iloc[:, list(places)].to_numpy())


def is_object(series: Any) -> bool:
    """Return whether a column of a frame has Python objects of several types."""
    import narwhals.stable.v2 as nw

    return bool(series.dtype == nw.Object)


@dataclass(frozen=True, eq=False)
class FrameSource(ArrowSource):
    """The rows of a data frame."""

    frame: Any  # of narwhals
    y: NDArray[Any] | None  # (n,), if the target is not one of the columns

    def read(self, rows: int) -> Iterator[Batch]:
        batches = super().read(rows)
        if self.y is None:
            return batches
        return (replace(batch, y=self.y[batch.first : batch.first + len(batch)]) for batch in batches)

    def scan(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        import pyarrow

        places = {str(name): j for j, name in enumerate(self.frame.columns)}
        for first in range(0, len(self.frame), rows):
            part = [self._values(self.frame[first : first + rows, places[name]]) for name in columns]
            yield from pyarrow.Table.from_arrays(part, list(columns)).to_batches()

    def _values(self, series: Any) -> Any:
        import pyarrow

        if not is_object(series):
            return series.to_arrow()
        pairs = zip(series.to_list(), series.is_null().to_list(), strict=True)
        return pyarrow.array([None if missing else str(value) for value, missing in pairs], pyarrow.string())


def frame_source(options: ReadOptions, x: Any, y: NDArray[Any] | None) -> FrameSource:
    """Return the source of a data frame; ``y`` are targets that are not one of its columns."""
    frame = open_frame(x)
    if 0 in frame.shape:
        refuse_empty(options.name, f"the frame has shape {frame.shape}")
    if y is not None and y.shape != (len(frame),):
        raise InvalidData(
            f"y must have shape ({len(frame)},), one target for each row of X; it has shape {y.shape}. Reshape it."
        )
    table = TableColumns(options.name, tuple(map(str, frame.columns)))
    selection = select_columns(table, None if y is not None else options.target, options.columns, options.schema)
    kinds = {name: _frame_kind(frame[:, j]) for j, name in enumerate(table.names)}
    for j, name in zip(selection.inputs, selection.names, strict=True):
        if is_text(kinds[name]) and options.schema is None and not options.one_hot:
            refuse_text(options.name, frame[0, j], 0, name)
    source = FrameSource(options.name, NO_COLUMNS, TEXT_DTYPE, len(frame), (), frame, y)
    typed = with_columns(source, options, selection, kinds)
    if y is None or options.schema is not None:
        return typed
    return replace(typed, schema=replace(typed.schema, target="y", text_target=y.dtype.kind not in "fiub"))


def _frame_kind(series: Any) -> Any:
    """Return the Arrow type of a column; one of objects becomes text."""
    import narwhals.stable.v2 as nw
    import pyarrow

    words = (nw.String, nw.Categorical, nw.Enum, nw.Object)
    return pyarrow.string() if series.dtype in words else series[:0].to_arrow().type


def as_source(
    x: Any,  # (n, d)
    y: Any = None,  # (n,) or (n, t)
    *,
    target: Name | None = None,
    columns: Sequence[Name] | None = None,
    categories: str = "refuse",
    schema: Schema | None = None,
    dtype: Any = None,
) -> Source:
    """Return a table in memory as a source.

    Parameters
    ----------
    x : array, tensor, sparse matrix, data frame or Source
        The inputs. Rows of several dimensions are flattened. Only one batch is copied at a time.
    y : array, optional
        The targets. Without it, ``target`` may name one of the columns.
    target, columns, categories, schema, dtype
        As for :func:`open_source`.

    Returns
    -------
    Source
        The source.

    Examples
    --------
    >>> import numpy as np
    >>> from joker.data import as_source
    >>> source = as_source(np.arange(6.0).reshape(3, 2), [0, 1, 0])
    >>> [batch.x.shape for batch in source.batches(2)]
    [(2, 2), (1, 2)]
    """
    if isinstance(x, Source):
        return x
    one_hot, kind = check_categories(categories), check_dtype(dtype)
    options = ReadOptions(TABLE_NAME, target=target, columns=columns, one_hot=one_hot, schema=schema, dtype=kind)
    if is_frame(x):
        return frame_source(options, x, None if y is None else _labels(y))
    if hasattr(x, "tocsr"):
        return _csr(options, x.tocsr(), y)
    return array_source(options, _array(x, "X"), None if y is None else _array(y, "y"))


def _csr(options: ReadOptions, x: Any, y: Any) -> CsrSource:
    table = TableColumns(options.name, unnamed(x.shape[1]), named=False)
    selection = select_columns(table, None, options.columns, options.schema)
    if options.target is not None:
        raise InvalidData(f"X: the target of a sparse matrix must be a separate array; got {options.target!r}. Use y=.")
    if selection.inputs != tuple(range(x.shape[1])):
        x = x[:, list(selection.inputs)]
    targets = None if y is None else _as_numpy(y)
    if targets is not None and len(targets) != x.shape[0]:
        raise InvalidData(
            f"y must have as many rows as X, {x.shape[0]}; it has {len(targets)}. Check that they belong together."
        )
    schema = options.schema or Schema.numbers(selection.names, None if y is None else "y")
    return CsrSource(options.name, schema, batch_dtype([x.dtype], options.dtype), x.shape[0], x, targets)


def _array(values: Any, name: str) -> MemoryArray:
    if not hasattr(values, "shape") or not hasattr(values, "dtype") or hasattr(values, "iloc"):
        values = np.asarray(values)
    if isinstance(values, np.ndarray) and values.dtype == object and name == "y":
        values = values.astype(np.str_) if all(isinstance(value, str) for value in values.flat) else values
    return MemoryArray(name, tuple(values.shape), _as_numpy(values[:0]).dtype, values)


def _labels(y: Any) -> NDArray[Any]:
    labels = _as_numpy(_array(y, "y").values)
    return labels.astype(np.str_) if labels.dtype == object else labels


def _as_numpy(values: Any) -> NDArray[Any]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        return np.asarray((values.float() if values.dtype == torch.bfloat16 else values).numpy())
    return np.asarray(values)
