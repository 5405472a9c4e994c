"""Parquet and Arrow files, one or a folder of them, through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from joker.data.schema import Column, Schema
from joker.data.sources.arrow_batches import is_number, is_text, need_pyarrow, to_batches, with_levels
from joker.data.sources.base import Batch, CheckedSource
from joker.data.sources.column_selection import Choice, Table, choose
from joker.data.sources.dtypes import handed_out
from joker.data.sources.read_options import Wish
from joker.data.sources.validation import refuse_empty
from joker.errors import InvalidData, InvalidFile

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc"}
SCANNED = 2**15  # rows decoded at a time, at most


@dataclass(frozen=True, eq=False)
class DatasetSource(CheckedSource):
    """Rows of Parquet or Arrow files."""

    name: str
    schema: Schema
    dtype: np.dtype[Any]
    rows: int | None
    files: tuple[Path, ...]
    columns: tuple[str, ...]  # of the files: the inputs in order, perhaps the target

    def read(self, rows: int) -> Iterator[Batch]:
        return to_batches(scanned(self.files, self.columns, rows), rows, self.schema, self.dtype, self.name)


@contextmanager
def _decoding(name: object) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        found = str(error).splitlines()[0]
        raise InvalidFile(
            f"{name} must be a sound Parquet or Arrow file; reading it failed ({found}). Write or copy it again."
        ) from error


def open_dataset(wish: Wish) -> DatasetSource:
    """Open a Parquet or Arrow file, or a folder of such files."""
    wish.without("header", "delimiter", "inputs")
    need_pyarrow(wish.name)
    files = _files(wish.path)
    kinds, count = _heads(files)
    table = Table(wish.name, tuple(kinds))
    choice = choose(table, wish.target, wish.columns, wish.schema)
    if not count or not choice.inputs:
        refuse_empty(wish.name, f"it has {count} rows and {len(choice.inputs)} inputs")
    types = {name: kinds[name] for name in (table.names[j] for j in choice.inputs)}
    schema = _schema(wish, table, choice, kinds) if wish.schema is None else wish.schema
    _check_kinds(wish.name, schema, list(types.values()))
    if choice.target is not None:
        _check_target(wish.name, table.names[choice.target], kinds[table.names[choice.target]])
    if wish.schema is None and not schema.is_numeric:
        text = [column.name for column in schema.inputs if column.levels is not None]
        schema = with_levels(schema, text, scanned(files, text, SCANNED), wish.name)
    numbers = [kind for kind, column in zip(types.values(), schema.inputs, strict=True) if column.levels is None]
    dtype = handed_out(map(_numpy, numbers), wish.dtype)
    names = (*types, *([] if choice.target is None else [table.names[choice.target]]))
    return DatasetSource(wish.name, schema, dtype, count, files, names)


def scanned(files: Sequence[Path], columns: Sequence[str], rows: int) -> Iterator[Any]:
    """Return record batches of some columns, file after file."""
    for path in files:
        with _decoding(path):
            yield from SCANS[FORMATS[path.suffix.lower()]](path, list(columns), min(rows, SCANNED))


def _scan_parquet(path: Path, columns: list[str], rows: int) -> Iterator[Any]:
    """Decode pages as they are needed: a row group may be larger than memory."""
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
    """Open a file of record batches so that nothing but these columns is read from it."""
    from pyarrow import ipc

    names = ipc.open_file(raw).schema.names
    return ipc.open_file(raw, options=ipc.IpcReadOptions(included_fields=[names.index(name) for name in columns]))


SCANS = {"parquet": _scan_parquet, "ipc": _scan_ipc}


def _files(path: Path) -> tuple[Path, ...]:
    """Return the files of a folder in order of their names, or the one file."""
    if not path.is_dir():
        return (path,)
    visible = [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith((".", "_"))]
    kinds = {file.suffix.lower() for file in visible}
    if len({FORMATS.get(kind) for kind in kinds}) != 1 or not kinds <= FORMATS.keys():
        found = ", ".join(sorted(kind or "no suffix" for kind in kinds)) or "no files"
        raise InvalidFile(
            f"{path}: a folder of data must hold Parquet files or Arrow files and nothing else; found {found}. "
            "Move the others away, or name one file."
        )
    return tuple(visible)


def _heads(files: Sequence[Path]) -> tuple[dict[str, Any], int]:
    """Return the types of the columns, the same in every file, and the number of rows."""
    first, count = None, 0
    for path in files:
        with _decoding(path):
            schema, rows = HEADS[FORMATS[path.suffix.lower()]](path)
        first = first or schema
        missing = set(first.names) ^ set(schema.names)
        if missing or any(schema.field(name).type != first.field(name).type for name in first.names):
            odd = missing or {name for name in first.names if schema.field(name).type != first.field(name).type}
            raise InvalidData(
                f"{path}: all files of a folder must have the same columns and types; {sorted(odd)[0]!r} is not as in "
                f"{files[0].name}. Write the files again, alike."
            )
        count += rows
    assert first is not None
    return dict(zip(first.names, first.types, strict=True)), count


def _head_of_parquet(path: Path) -> tuple[Any, int]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        return file.schema_arrow, file.metadata.num_rows


def _head_of_ipc(path: Path) -> tuple[Any, int]:
    """Return the columns and the number of rows, for which one column is gone through."""
    import pyarrow
    from pyarrow import ipc

    with pyarrow.OSFile(str(path)) as raw:
        schema = ipc.open_file(raw).schema
        file = _ipc_reader(raw, schema.names[:1])
        return schema, sum(file.get_batch(number).num_rows for number in range(file.num_record_batches))


HEADS = {"parquet": _head_of_parquet, "ipc": _head_of_ipc}


def _schema(wish: Wish, table: Table, choice: Choice, kinds: dict[str, Any]) -> Schema:
    """Return the schema of these columns; levels are to be collected where they are ()."""
    names = [table.names[j] for j in choice.inputs]
    inputs = tuple(Column(name, () if wish.one_hot and is_text(kinds[name]) else None) for name in names)
    target = None if choice.target is None else table.names[choice.target]
    return Schema(inputs, target, target is not None and not is_number(kinds[target]))


def _check_kinds(source: str, schema: Schema, kinds: Sequence[Any]) -> None:
    """Refuse types that are neither numbers nor, where they may be, categories."""
    for column, kind in zip(schema.inputs, kinds, strict=True):
        if not (is_number(kind) if column.levels is None else is_text(kind) or is_number(kind)):
            remedy = 'Use categories="one-hot", or choose' if is_text(kind) else "Turn it into numbers, or choose"
            found = f"column {column.name!r} has type {kind}"
            raise InvalidData(f"{source}: inputs must be numbers; {found}. {remedy} others with columns=.")


def _check_target(source: str, name: str, kind: Any) -> None:
    if not (is_number(kind) or is_text(kind)):
        raise InvalidData(
            f"{source}: a target must be numbers or text; column {name!r} has type {kind}. Turn it into numbers."
        )


def _numpy(kind: Any) -> np.dtype[Any]:
    import pyarrow

    if pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind):
        return np.dtype(np.float64)
    found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return found
