"""Tables of Arrow columns: their batches and categories, and Parquet and Arrow files or folders of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from joker.data.readers.source import (
    TEXT_DTYPE,
    Batch,
    CheckedSource,
    ColumnSelection,
    Name,
    ReadOptions,
    TableColumns,
    batch_dtype,
    check_names,
    decoding,
    refuse_empty,
    select_columns,
)
from joker.data.schema import Column, Schema, listed
from joker.errors import InvalidData, InvalidFile, MissingPackage

MAX_LEVELS = 1000
NO_COLUMNS = Schema(())


def need_pyarrow(source: str) -> Any:
    """Return pyarrow; raise MissingPackage if it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingPackage(
            f"{source}: tables as text, Parquet or Arrow need pyarrow, which is not installed. "
            "Run pip install 'joker-kernels[tables]'."
        ) from error
    return pyarrow


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is numeric; booleans are 1 and 0."""
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text or a dictionary."""
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
    return any(test(kind) for test in tests)


def arrow_schema(selection: ColumnSelection, kinds: Mapping[str, Any], one_hot: bool) -> Schema:
    """Return the schema of the selected columns, from the Arrow type of each; empty levels are collected later."""
    inputs = tuple(Column(name, () if one_hot and is_text(kinds[name]) else None) for name in selection.names)
    target = selection.target_name
    return Schema(inputs, target, target is not None and not is_number(kinds[target]))


def with_levels(schema: Schema, record_batches: Iterable[Any], source: str) -> Schema:
    """Return the schema with the levels of its categories, whose columns are those of the record batches, in order."""
    levels: dict[str, set[str]] = {column.name: set() for column in schema.inputs if column.levels is not None}
    first = 0
    for batch in record_batches:
        for (name, known), values in zip(levels.items(), batch.columns, strict=True):
            check_present(values, first, name, source)
            known.update(texts(values).unique().to_pylist())
            if len(known) > MAX_LEVELS:
                raise InvalidData(
                    f"{source}: a category may have at most {MAX_LEVELS} levels; column {name!r} has more. "
                    "Leave it out with columns=, or turn it into numbers."
                )
        first += batch.num_rows
    found = {name: Column(name, tuple(sorted(known))) for name, known in levels.items()}
    return replace(schema, inputs=tuple(found.get(column.name, column) for column in schema.inputs))


def check_present(values: Any, first: int, column: str, source: str) -> None:
    """Raise InvalidData if a value is missing."""
    if values.null_count:
        raise InvalidData(
            f"{source}: no value may be missing; one is at row {first + _first_null(values)}, column {column!r}. Leave "
            "such rows out, or fill in values, for example the median of the column."
        )


def texts(values: Any) -> Any:
    """Return values as an Arrow array of text, without a dictionary."""
    import pyarrow

    if pyarrow.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values.cast(pyarrow.string())


def _batch(columns: list[Any], schema: Schema, dtype: np.dtype[Any], first: int, source: str) -> Batch:
    """Return a batch of these columns: the inputs, perhaps followed by the target."""
    x = np.zeros((len(columns[0]), schema.width), dtype)
    place = 0
    for column, values in zip(schema.inputs, columns, strict=False):
        check_present(values, first, column.name, source)
        if column.levels is None:
            x[:, place] = _numbers(values)
        else:
            x[np.arange(len(x)), place + _codes(column, column.levels, values, first, source)] = 1
        place += len(column.names)
    y = _target(columns[-1], schema, first, source) if len(columns) > len(schema.inputs) else None
    return Batch(x, y, first)


def _numbers(values: Any) -> NDArray[Any]:  # (k,)
    import pyarrow

    if pyarrow.types.is_decimal(values.type):
        values = values.cast(pyarrow.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _codes(column: Column, levels: tuple[str, ...], values: Any, first: int, source: str) -> NDArray[Any]:  # (k,)
    import pyarrow
    from pyarrow import compute

    indices = compute.index_in(texts(values), value_set=pyarrow.array(levels, pyarrow.string()))
    if indices.null_count:
        row = _first_null(indices)
        raise InvalidData(
            f"{source}: column {column.name!r} must have the levels of the training data, {listed(levels)}; found "
            f"{texts(values)[row].as_py()!r} at row {first + row}. Leave such rows out, or train with that level."
        )
    return np.asarray(indices.to_numpy())


def _target(values: Any, schema: Schema, first: int, source: str) -> NDArray[Any]:  # (k,)
    check_present(values, first, schema.target or "y", source)
    if is_number(values.type) and not schema.text_target:
        return _numbers(values)
    return np.array(texts(values).to_pylist(), dtype=np.str_)


def _first_null(values: Any) -> int:
    return int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))


@dataclass(frozen=True, eq=False)
class ArrowSource(CheckedSource):
    """The rows of a table whose columns have Arrow types."""

    columns: tuple[str, ...]  # to read: the inputs in order, perhaps the target

    def read(self, rows: int) -> Iterator[Batch]:
        first = 0
        for whole in self.scan(self.columns, rows):
            for start in range(0, whole.num_rows, rows):
                part = whole.slice(start, rows)
                yield _batch(part.columns, self.schema, self.dtype, first + start, self.name)
            first += whole.num_rows

    @abstractmethod
    def scan(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield record batches of some columns."""


ArrowSourceT = TypeVar("ArrowSourceT", bound=ArrowSource)


def with_columns(
    source: ArrowSourceT, options: ReadOptions, selection: ColumnSelection, kinds: Mapping[str, Any]
) -> ArrowSourceT:
    """Return the source with the schema, the type and the columns that follow from the Arrow types of its columns."""
    schema = options.schema or arrow_schema(selection, kinds, options.one_hot)
    types = [kinds[name] for name in selection.names]
    _check_kinds(options.name, schema, types)
    target = [] if selection.target_name is None else [selection.target_name]
    for name in target:
        if not (is_number(kinds[name]) or is_text(kinds[name])):
            raise InvalidData(
                f"{options.name}: a target must be numbers or text; column {name!r} has type {kinds[name]}. Convert it "
                "to numbers."
            )
    if options.schema is None and not schema.is_numeric:
        text = [column.name for column in schema.inputs if column.levels is not None]
        schema = with_levels(schema, source.scan(text, MAX_DECODED_ROWS), options.name)
    numbers = [kind for kind, column in zip(types, schema.inputs, strict=True) if column.levels is None]
    dtype = batch_dtype(map(_numpy, numbers), options.dtype)
    return replace(source, schema=schema, dtype=dtype, columns=(*selection.names, *target))


FORMATS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
MAX_DECODED_ROWS = 2**15  # decoded at a time


@dataclass(frozen=True, eq=False)
class DatasetSource(ArrowSource):
    """The rows of Parquet or Arrow files."""

    files: tuple[Path, ...]

    def scan(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        return scanned(self.files, columns, rows)


def decoding_arrow(path: Path) -> AbstractContextManager[None]:
    """Raise InvalidFile for the errors of pyarrow; names of columns may not be UTF-8."""
    import pyarrow

    return decoding("Parquet or Arrow file", (pyarrow.ArrowException, OSError, UnicodeDecodeError), path)


def open_dataset(options: ReadOptions) -> DatasetSource:
    """Open a Parquet or Arrow file, or a folder of such files."""
    options.without("header", "delimiter", "inputs", "decimal")
    need_pyarrow(options.name)
    files = _files(options.path)
    kinds, count = _heads(files)
    table = TableColumns(options.name, tuple(kinds))
    selection = select_columns(table, options.target, options.columns, options.schema, options.drop)
    if not count or not selection.inputs:
        refuse_empty(options.name, f"it has {count} rows and {len(selection.inputs)} inputs")
    source = DatasetSource(options.name, NO_COLUMNS, TEXT_DTYPE, count, (), files)
    return with_columns(source, options, selection, kinds)


def read_dataset(path: Path) -> tuple[Any, TableColumns]:
    """Return all rows of a Parquet or Arrow file or of a folder of them, and the names of the columns."""
    pyarrow = need_pyarrow(str(path))
    files = _files(path)
    kinds, _ = _heads(files)
    schema = pyarrow.schema(list(kinds.items()))
    table = pyarrow.Table.from_batches(scanned(files, list(kinds), MAX_DECODED_ROWS), schema)
    return table, TableColumns(str(path), tuple(kinds))


def scan_dataset(path: Path, columns: Sequence[Name]) -> tuple[list[str], Iterator[Any]]:
    """Return the names of some columns of Parquet or Arrow files, and their record batches of these columns."""
    need_pyarrow(str(path))
    files = _files(path)
    names = list(select_columns(TableColumns(str(path), tuple(_heads(files)[0])), None, columns, None).names)
    return names, scanned(files, names, MAX_DECODED_ROWS)


def scanned(files: Sequence[Path], columns: Sequence[str], rows: int) -> Iterator[Any]:
    """Yield record batches of some columns, file by file."""
    for path in files:
        with decoding_arrow(path):
            yield from SCANS[FORMATS[path.suffix.lower()]](path, list(columns), min(rows, MAX_DECODED_ROWS))


def _scan_parquet(path: Path, columns: list[str], rows: int) -> Iterator[Any]:
    """Yield record batches; pages are decoded one by one, as a row group may be larger than memory."""
    from pyarrow import parquet

    with parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False) as file:
        for batch in file.iter_batches(rows, columns=columns, use_threads=False):
            yield batch.select(columns)


def _scan_ipc(path: Path, columns: list[str], rows: int) -> Iterator[Any]:
    import pyarrow

    with pyarrow.OSFile(str(path)) as raw:
        file = _ipc_reader(raw, columns)
        for number in range(file.num_record_batches):
            yield file.get_batch(number).select(columns)


def _ipc_reader(raw: Any, columns: list[str]) -> Any:
    """Open an Arrow file so that only these columns are read."""
    from pyarrow import ipc

    names = ipc.open_file(raw).schema.names
    return ipc.open_file(raw, options=ipc.IpcReadOptions(included_fields=[names.index(name) for name in columns]))


SCANS = {"parquet": _scan_parquet, "ipc": _scan_ipc}


def _files(path: Path) -> tuple[Path, ...]:
    """Return the files of a folder sorted by name, or the one file."""
    if not path.is_dir():
        return (path,)
    visible = [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith((".", "_"))]
    kinds = {file.suffix.lower() for file in visible}
    if len({FORMATS.get(kind) for kind in kinds}) != 1 or not kinds <= FORMATS.keys():
        found = ", ".join(sorted(kind or "no suffix" for kind in kinds)) or "no files"
        raise InvalidFile(
            f"{path}: a folder of data must contain only Parquet files or only Arrow files; found {found}. "
            "Remove the others, or name one file."
        )
    return tuple(visible)


def _heads(files: Sequence[Path]) -> tuple[dict[str, Any], int]:
    """Return the types of the columns, which must be the same in all files, and the number of rows."""
    first, count = None, 0
    for path in files:
        with decoding_arrow(path):
            schema, rows = HEADS[FORMATS[path.suffix.lower()]](path)
            check_names(path, schema.names)
        first = first or schema
        other = set(first.names) ^ set(schema.names)
        other = other or {name for name in first.names if schema.field(name).type != first.field(name).type}
        if other:
            raise InvalidData(
                f"{path}: all files of a folder must have the same columns and types; {sorted(other)[0]!r} differs "
                f"from {files[0].name}. Write the files again with the same columns."
            )
        count += rows
    assert first is not None
    return dict(zip(first.names, first.types, strict=True)), count


def _head_of_parquet(path: Path) -> tuple[Any, int]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        return file.schema_arrow, file.metadata.num_rows


def _head_of_ipc(path: Path) -> tuple[Any, int]:
    """Return the columns and the number of rows, which is counted by reading one column."""
    import pyarrow
    from pyarrow import ipc

    with pyarrow.OSFile(str(path)) as raw:
        schema = ipc.open_file(raw).schema
        file = _ipc_reader(raw, schema.names[:1])
        return schema, sum(file.get_batch(number).num_rows for number in range(file.num_record_batches))


HEADS = {"parquet": _head_of_parquet, "ipc": _head_of_ipc}


def _check_kinds(source: str, schema: Schema, kinds: Sequence[Any]) -> None:
    """Raise InvalidData for columns that are neither numbers nor categories of the schema."""
    for column, kind in zip(schema.inputs, kinds, strict=True):
        if not (is_number(kind) if column.levels is None else is_text(kind) or is_number(kind)):
            remedy = 'Use categories="one-hot", or choose' if is_text(kind) else "Convert it to numbers, or choose"
            found = f"column {column.name!r} has type {kind}"
            raise InvalidData(f"{source}: inputs must be numbers; {found}. {remedy} others with columns=.")


def _numpy(kind: Any) -> np.dtype[Any]:
    import pyarrow

    if pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind):
        return np.dtype(np.float64)
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype
