"""Row stores in the program: one that the user gives, or a temporary one for the rows of a table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joker.cli import parse
from joker.cli.console import MAX_SHOWN, ReportOptions
from joker.cli.options import ComputeOptions, TableFormat, TableOptions
from joker.data import Batch, Source, Store, convert, open_source, open_store
from joker.errors import InvalidData, InvalidParameter

SUFFIX = ".rows"
DEFAULT_MEMORY = "256MB"  # for shuffling the rows of a table, if --memory is not given


def is_store(path: Path) -> bool:
    """Whether a file name is that of a row store."""
    return path.suffix.lower() == SUFFIX


def open_table(data: Path, table: TableOptions, dtype: str | None = None) -> Source:
    """Open a table to train on."""
    source = open_source(data, **table.keywords, dtype="float64" if dtype == "float64" else None)
    if source.schema.target is None:
        raise InvalidParameter(
            f"--target must name the column to predict; it is not given. The columns of {data} are "
            f"{', '.join(source.schema.names[:MAX_SHOWN])}."
        )
    return source


def open_given(data: Path, table: TableOptions) -> Store:
    """Open a row store to train on. Its columns were chosen when it was written."""
    if table.given:
        raise InvalidParameter(
            f"{', '.join(table.given)} must not be given with a row store, whose columns were chosen when it was "
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
    """The path of a temporary row store: in the folder --scratch, else in that of --out."""
    if scratch is not None and not scratch.is_dir():
        raise InvalidParameter(f"--scratch must be a folder that exists; {scratch} is not one. Create it first.")
    folder = scratch or (out.resolve().parent if out else Path(tempfile.gettempdir()))
    return folder / f".{(out or data).name}{SUFFIX}"


def batches(
    model: Any, data: Path, target: str | None, table_format: TableFormat, rows: int
) -> tuple[int, Iterator[Batch]]:
    """The number of rows of a store, and its rows in batches, after checking that they suit the model."""
    store, schema = open_store(data), getattr(model, "schema_", None)
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
    slices = (slice(start, min(start + rows, len(store))) for start in range(0, len(store), rows))
    return len(store), (Batch(store.x[part].numpy(), y[part], part.start) for part in slices)
