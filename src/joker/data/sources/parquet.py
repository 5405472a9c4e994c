"""Parquet and Arrow files, or folders of them, read by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from joker.data.schema import Schema
from joker.data.sources.arrow_batches import arrow_schema, is_number, is_text, need_pyarrow, to_batches, with_levels
from joker.data.sources.base import Batch, CheckedSource
from joker.data.sources.column_selection import TableColumns, select_columns
from joker.data.sources.dtypes import batch_dtype
from joker.data.sources.read_options import ReadOptions
from joker.data.sources.validation import check_names, decoding, refuse_empty
from joker.errors import InvalidData, InvalidFile

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
MAX_DECODED_ROWS = 2**15  # decoded at a time


@dataclass(frozen=True, eq=False)
class DatasetSource(CheckedSource):
    """The rows of Parquet or Arrow files."""

    files: tuple[Path, ...]
    columns: tuple[str, ...]  # to read: the inputs in order, perhaps the target

    def read(self, rows: int) -> Iterator[Batch]:
        return to_batches(self, scanned(self.files, self.columns, rows), rows)


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
    types = {name: kinds[name] for name in selection.names}
    schema = options.schema or arrow_schema(selection, kinds, options.one_hot)
    _check_kinds(options.name, schema, list(types.values()))
    target = [] if selection.target_name is None else [selection.target_name]
    for name in target:
        _check_target(options.name, name, kinds[name])
    if options.schema is None and not schema.is_numeric:
        text = [column.name for column in schema.inputs if column.levels is not None]
        schema = with_levels(schema, text, scanned(files, text, MAX_DECODED_ROWS), options.name)
    numbers = [kind for kind, column in zip(types.values(), schema.inputs, strict=True) if column.levels is None]
    dtype = batch_dtype(map(_numpy, numbers), options.dtype)
    return DatasetSource(options.name, schema, dtype, count, files, (*types, *target))


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
        missing = set(first.names) ^ set(schema.names)
        if missing or any(schema.field(name).type != first.field(name).type for name in first.names):
            other = missing or {name for name in first.names if schema.field(name).type != first.field(name).type}
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


def _check_target(source: str, name: str, kind: Any) -> None:
    if not (is_number(kind) or is_text(kind)):
        raise InvalidData(
            f"{source}: a target must be numbers or text; column {name!r} has type {kind}. Convert it to numbers."
        )


def _numpy(kind: Any) -> np.dtype[Any]:
    import pyarrow

    if pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind):
        return np.dtype(np.float64)
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype
