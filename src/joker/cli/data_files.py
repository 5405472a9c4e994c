"""Files of data in the program: tables and row stores to read, and tables of predictions to write."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from joker.cli import parse
from joker.cli.command import MAX_SHOWN, ReportOptions
from joker.cli.options import ComputeOptions, Missing, TableFormat, TableOptions, changed
from joker.cli.parse import FolderPath
from joker.data import Batch, Schema, Source, Store, convert, open_source, open_store
from joker.data.readers.open import read_raw_table, scan_raw_table
from joker.data.readers.source import TableColumns, refuse_empty, select_columns
from joker.data.readers.table import is_number, is_text
from joker.errors import InvalidData, InvalidFile, InvalidParameter, MissingFile, MissingPackage
from joker.runtime.files import explain_errors, real_path, replace_file

SUFFIX = ".rows"
DEFAULT_MEMORY = "256MB"  # for shuffling the rows of a table, if --memory is not given


def is_store(path: Path) -> bool:
    """Whether a file name is that of a row store."""
    return path.suffix.lower() == SUFFIX


def open_table(data: Path, table: TableOptions, dtype: str | None = None) -> Source:
    """Open a table to train on."""
    source = open_source(data, **table.keywords, dtype="float64" if dtype == "float64" else None)
    if source.schema.target is None:
        _refuse_without_target(data, source.schema.names)
    return source


def _refuse_without_target(data: Path, names: Sequence[str]) -> NoReturn:
    raise InvalidParameter(
        f"--target must name the column to predict; it is not given. The columns of {data} are "
        f"{', '.join(names[:MAX_SHOWN])}."
    )


def open_given(data: Path, table: TableOptions) -> Store:
    """Open a row store to train on. Its columns were chosen when it was written."""
    if given := changed(table):
        raise InvalidParameter(
            f"{', '.join(given)} must not be given with a row store, whose columns were chosen when it was "
            "written. Leave it out, or convert the table again."
        )
    return open_store(data)


@contextmanager
def temporary_store(
    source: Source, path: Path, task: str | None, compute: ComputeOptions, report: ReportOptions
) -> Iterator[Store]:
    """Provide the rows of a table in a row store that is removed at the end, also if the process is killed."""
    memory = DEFAULT_MEMORY if compute.memory == parse.AUTO else compute.memory
    try:
        with report.progress_bar(f"reading {Path(source.name).name}") as update:
            store = convert(source, path, task=task, seed=compute.seed, memory=memory, progress=update)
        if os.name == "posix":
            path.unlink()  # the open file can still be read, and the system removes it when it is closed
        try:
            yield store
        finally:
            if os.name != "posix":
                store.file.close()  # Windows does not remove a file that is open
    finally:
        path.unlink(missing_ok=True)


def temporary_path(out: Path | None, scratch: Path | None, data: Path) -> Path:
    """Return the path of a temporary row store: in the folder --scratch, else in that of --out."""
    if scratch is not None and not scratch.is_dir():
        raise InvalidParameter(f"--scratch must be a folder that exists; {scratch} is not one. Create it first.")
    folder = scratch or (real_path(out).parent if out else Path(tempfile.gettempdir()))
    return folder / f".{(out or data).name}{SUFFIX}"


@dataclass(frozen=True, eq=False)
class FileRows:
    """The rows of a file, as a model takes them."""

    total: int | None  # None if it is not known before all rows are read
    width: int  # the number of inputs
    batches: Callable[[int], Iterator[Batch]]  # of at most so many rows


def store_rows(data: Path, schema: Schema | None, target: str | None, table_format: TableFormat) -> FileRows:
    """Open a row store whose columns must be those of a schema."""
    store = open_store(data)
    if table_format != TableFormat() or target not in (None, store.schema.target):
        raise InvalidParameter(
            "--target, --delimiter, --header and --inputs must not be given with a row store, whose columns were "
            f"chosen when it was written (the target is {store.schema.target!r}). Leave them out."
        )
    if schema is not None and schema.names != store.schema.names:
        raise InvalidData(
            f"{data}: the columns must be those of the training data, {', '.join(schema.names[:MAX_SHOWN])}; got "
            f"{', '.join(store.schema.names[:MAX_SHOWN])}. Convert the table again with those."
        )
    y = store.y

    def batches(rows: int) -> Iterator[Batch]:
        for start in range(0, len(store), rows):
            part = slice(start, min(start + rows, len(store)))
            yield Batch(store.x[part].numpy(), y[part], start)

    return FileRows(len(store), store.shape[1], batches)


@dataclass(frozen=True, eq=False)
class RawData:
    """Inputs as an Arrow table, and the target."""

    inputs: Any
    target: str
    y: NDArray[Any]
    columns: TableColumns  # of the file

    def input_name(self, given: str | None, what: str) -> str | None:
        """Return the name of the input column that an option names; None if it is not given."""
        if given is None:
            return None
        name = self.columns.names[self.columns.place(given, what)]
        if name not in self.inputs.column_names:
            raise InvalidParameter(
                f"--{what} must name a column that is neither the target nor left out; got {given!r}. Name another "
                "column, or change --target, --columns or --drop."
            )
        return name


def open_training(data: Path, table: TableOptions, missing: Missing, report: ReportOptions) -> RawData:
    """Read a table to train on."""
    whole, columns = read_raw_table(data, **table.raw)
    if not whole.num_rows:
        refuse_empty(str(data), "it has no rows")
    if table.target is None:
        _refuse_without_target(data, columns.names)
    selection = select_columns(columns, table.target, parse.names(table.columns), None, parse.names(table.drop))
    assert selection.target_name is not None
    chosen = _with_numbers(whole.select([*selection.names, selection.target_name]), selection.target_name)
    chosen = _without_gaps(chosen, selection.target_name, missing, data, report)
    y = _values(chosen[selection.target_name])
    return RawData(chosen.select(selection.names), selection.target_name, y, columns)


def table_batches(table: Any, y: NDArray[Any] | None, rows: int) -> Iterator[Batch]:
    """Yield the rows of an Arrow table, with their targets, in batches."""
    for start in range(0, table.num_rows, rows):
        yield Batch(table.slice(start, rows), None if y is None else y[start : start + rows], start)


def _with_numbers(table: Any, target: str) -> Any:
    """Return a table whose target has numbers in place of text such as $1,234; codes with leading zeros are classes."""
    import pyarrow

    from joker.tables.parsing import parse_numbers

    is_text = pyarrow.types.is_string(table[target].type)
    numbers = parse_numbers(np.array(table[target].to_pylist(), dtype=object), codes=False) if is_text else None
    if numbers is None:
        return table
    column = pyarrow.array(numbers, from_pandas=True)  # NaN is a missing value
    return table.set_column(table.column_names.index(target), target, column)


def _values(column: Any) -> NDArray[Any]:
    """The values of an Arrow column: numbers as float64, truth values and text as text."""
    import pyarrow

    if is_number(column.type) and not pyarrow.types.is_boolean(column.type):
        return np.asarray(column.cast(pyarrow.float64()).to_numpy(), dtype=np.float64)
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(pyarrow.string())
    types = pyarrow.types
    is_date = types.is_date(column.type) or types.is_timestamp(column.type)
    if not (is_date or is_text(column.type) or types.is_boolean(column.type)):
        raise InvalidData(f"a target must be numbers, text or dates; it has type {column.type}. Convert it.")
    return np.array([str(value) for value in column.to_pylist()])


def _without_gaps(table: Any, target: str, missing: Missing, data: Path, report: ReportOptions) -> Any:
    """Return the rows to train on. A row without a target is always left out, and a note says so."""
    gaps = {name: table[name].is_null(nan_is_null=True).to_numpy() for name in table.column_names}
    without = [column for column, gap in gaps.items() if gap.any()]
    if missing == "error" and without:
        row = int(np.flatnonzero(gaps[without[0]])[0])
        raise InvalidData(
            f"{data}: no value may be missing with --missing error; one is at row {row}, column {without[0]!r}. Use "
            "--missing impute or --missing drop."
        )
    bad: NDArray[np.bool_] = np.any([*gaps.values()], axis=0) if missing == "drop" else gaps[target]
    if not bad.any():
        return table
    if bad.all():
        raise InvalidData(f"{data}: no row is left without missing values. Use --missing impute, or --drop columns.")
    what = "with missing values" if missing == "drop" else "without a target"
    report.note(f"{int(bad.sum()):,} of {len(bad):,} rows {what} are left out.")
    return table.take(np.flatnonzero(~bad))


def kept_columns(data: Path, names: Sequence[str], table_format: TableFormat) -> tuple[list[str], Callable[[int], Any]]:
    """Return the names of some columns of a table, and a function that returns them for so many of the next rows."""
    found, batches = scan_raw_table(data, names, **table_format.raw)
    return found, partial(_next_rows, [], batches)


def _next_rows(left: list[Any], batches: Iterator[Any], rows: int) -> list[Any]:
    """Return the columns of the next rows; what is left of the last record batch stays in ``left``."""
    import pyarrow

    while sum(batch.num_rows for batch in left) < rows:
        left.append(next(batches))
    table = pyarrow.Table.from_batches(left)
    left[:] = table.slice(rows).to_batches()
    return [column.combine_chunks() for column in table.slice(0, rows).columns]


Columns = Sequence[Any]  # arrays of NumPy, and of Arrow where they are those of the input
Write = Callable[[Columns], None]


@contextmanager
def write_table(path: Path, names: Sequence[str]) -> Iterator[Write]:
    """Provide a function that writes a batch of columns; ``path`` is replaced once all of them are written."""
    open_writer = WRITERS[path.suffix.lower()]
    with replace_file(path, "predictions.csv") as file:
        write, finish = open_writer(file, names)
        try:
            yield explain_errors(path)(write)
            with explain_errors(path):
                finish()
        except BaseException:
            with suppress(Exception):
                finish()  # otherwise the writer does so when it is collected
            raise


def check_table_output(path: Path, *inputs: Path) -> None:
    """Refuse a path that no table of predictions can be written to."""
    if path.suffix.lower() not in WRITERS:
        raise InvalidParameter(
            f"--out must end in {' or '.join(WRITERS)}, which sets the format; got {path.name!r}. Rename it."
        )
    check_output(path, *inputs)


def check_output(path: Path, *inputs: Path) -> None:
    """Refuse a path that no file can be written to, and the paths of input files."""
    if isinstance(path, FolderPath):
        raise InvalidParameter(f"--out must name a file; '{path}/' ends in a slash. Add the name of a file.")
    if not real_path(path).parent.is_dir():
        raise MissingFile(f"--out must be in a folder that exists; {real_path(path).parent} does not. Create it first.")
    if path.exists() and not path.is_file():
        raise InvalidFile(f"--out must name a file; {path} is not one. Choose another name.")
    for other in inputs:
        if path.exists() and other.exists() and path.samefile(other):
            raise InvalidParameter(f"--out must not be an input file; got {path}. Choose another name.")


def _csv(file: IO[bytes], names: Sequence[str]) -> tuple[Write, Callable[[], object]]:
    text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)

    def write(columns: Columns) -> None:
        # The text of a NumPy array has the fewest digits from which the same numbers are read.
        writer.writerows(zip(*map(_texts, columns), strict=True))

    return write, text.detach


def _texts(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return column.astype(str)
    return ["" if value is None else str(value) for value in column.to_pylist()]


def _parquet(file: IO[bytes], names: Sequence[str]) -> tuple[Write, Callable[[], object]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingPackage(
            "Parquet needs pyarrow, which is not installed. Run pip install 'joker-kernels[tables]', or write .csv."
        ) from error
    writers: list[Any] = []

    def write(columns: Columns) -> None:
        ready = [_for_parquet(column) for column in columns]
        table = pyarrow.table(dict(zip(names, ready, strict=True)))
        if not writers:
            writers.append(parquet.ParquetWriter(file, table.schema))
        writers[0].write_table(table)

    return write, lambda: [writer.close() for writer in writers]


def _for_parquet(column: Any) -> Any:
    if not isinstance(column, np.ndarray):
        return column
    return column.tolist() if column.dtype.kind == "U" else np.ascontiguousarray(column)


WRITERS = {".csv": _csv, ".parquet": _parquet}
