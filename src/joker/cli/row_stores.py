"""Row stores, as the program sees them: one that is given, or one that a table is put in for a while."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joker.cli import parse
from joker.cli.console import Telling
from joker.cli.options import Layout, Place, Reading
from joker.data import Batch, Source, Store, convert, open_source, open_store
from joker.errors import InvalidData, InvalidParameter

SUFFIX = ".rows"
MEMORY = "256MB"  # for putting rows in order, where the user names none


def is_store(path: Path) -> bool:
    """Whether a name is that of a row store."""
    return path.suffix.lower() == SUFFIX


def open_table(data: Path, reading: Reading, dtype: str | None = None) -> Source:
    """Open a table to train on."""
    wide = "float64" if dtype == "float64" else None
    source = open_source(data, **reading.keywords, dtype=wide)
    if source.schema.target is None:
        raise InvalidParameter(
            f"--target must name the column to predict; {data} has no other way to tell. Its columns are "
            f"{', '.join(source.schema.names[:12])}."
        )
    return source


def open_given(data: Path, reading: Reading) -> Store:
    """Open a row store to train on, which has its columns already."""
    if reading.given:
        raise InvalidParameter(
            f"{', '.join(reading.given)} must not be given with a row store, whose columns were chosen when it was "
            "made. Leave it out, or convert the table again."
        )
    return open_store(data)


@contextmanager
def passing(source: Source, beside: Path, task: str, place: Place, telling: Telling) -> Iterator[Store]:
    """Put a table in a row store that is gone when the block ends, and when the process is killed."""
    path = beside.with_name(f".{beside.name}{SUFFIX}")
    memory = MEMORY if place.memory == parse.AUTO else place.memory
    try:
        with telling.bar(f"reading {Path(source.name).name}") as update:
            store = convert(source, path, task=task, seed=place.seed, memory=memory, progress=update)
        if os.name == "posix":
            path.unlink()  # the file is read through its handle, and ends with it
        yield store
    finally:
        path.unlink(missing_ok=True)


def place_of(out: Path | None, scratch: Path | None, data: Path) -> Path:
    """The name beside which a passing store is put."""
    name = (out or data).name
    if scratch is not None and not scratch.is_dir():
        raise InvalidParameter(f"--scratch must be a folder that exists; {scratch} is none. Create it first.")
    folder = scratch or (out.resolve().parent if out else Path(tempfile.gettempdir()))
    return folder / name


def batches(model: Any, data: Path, target: str | None, layout: Layout, rows: int) -> tuple[int, Iterator[Batch]]:
    """The number of rows of a store, and its rows for a model that was fitted on such."""
    store, schema = open_store(data), getattr(model, "schema_", None)
    if layout != Layout() or target not in (None, store.schema.target):
        raise InvalidParameter(
            f"--target, --delimiter and --header must not be given with a row store, whose columns were chosen when it "
            f"was made (the target is {store.schema.target!r}). Leave them out."
        )
    if schema is not None and schema.names != store.schema.names:
        raise InvalidData(
            f"{data}: the columns must be those of the training data, {', '.join(schema.names[:12])}; got "
            f"{', '.join(store.schema.names[:12])}. Convert the table again with those."
        )
    y = store.y
    runs = (slice(start, min(start + rows, len(store))) for start in range(0, len(store), rows))
    return len(store), (Batch(store.x[run].numpy(), y[run], run.start) for run in runs)
