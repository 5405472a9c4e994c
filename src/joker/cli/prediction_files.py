"""Tables of predictions, written in batches as CSV or Parquet; an error leaves no partial file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedWriter, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.cli.parse import FolderPath
from joker.errors import InvalidFile, InvalidParameter, MissingFile, MissingPackage
from joker.runtime.atomic_file import explain_errors, replace_file

Columns = Sequence[NDArray[Any]]
Write = Callable[[Columns], None]


@contextmanager
def write_table(path: Path, names: Sequence[str]) -> Iterator[Write]:
    """Provide a function that writes a batch of columns; ``path`` is replaced once all of them are written."""
    open_writer = WRITERS[check_table_output(path)]
    with replace_file(path, "predictions.csv") as temporary, temporary.open("wb") as file:
        write, finish = open_writer(file, names)
        try:
            yield explain_errors(path)(write)
            with explain_errors(path):
                finish()
                file.flush()
        except BaseException:
            with suppress(Exception):
                finish()  # otherwise the writer does so when it is collected
            file.raw.close()  # without the buffer: the disk may be full
            raise


def check_table_output(path: Path, *inputs: Path) -> str:
    """Refuse a path that no table of predictions can be written to; return its suffix."""
    suffix = path.suffix.lower()
    if suffix not in WRITERS:
        raise InvalidParameter(
            f"--out must end in {' or '.join(WRITERS)}, which sets the format; got {path.name!r}. Rename it."
        )
    check_output(path, *inputs)
    return suffix


def check_output(path: Path, *inputs: Path) -> None:
    """Refuse a path that no file can be written to, and the paths of input files."""
    if isinstance(path, FolderPath):
        raise InvalidParameter(f"--out must name a file; '{path}/' ends in a slash. Add the name of a file.")
    if not path.resolve().parent.is_dir():
        raise MissingFile(f"--out must be in a folder that exists; {path.resolve().parent} does not. Create it first.")
    if path.exists() and not path.is_file():
        raise InvalidFile(f"--out must name a file; {path} is not one. Choose another name.")
    for other in inputs:
        if path.exists() and other.exists() and path.samefile(other):
            raise InvalidParameter(f"--out must not be an input file; got {path}. Choose another name.")


def _csv(file: BufferedWriter, names: Sequence[str]) -> tuple[Write, Callable[[], object]]:
    text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)

    def write(columns: Columns) -> None:
        # The text of a NumPy array has the fewest digits from which the same numbers are read.
        writer.writerows(zip(*(column.astype(str) for column in columns), strict=True))

    return write, text.detach


def _parquet(file: BufferedWriter, names: Sequence[str]) -> tuple[Write, Callable[[], object]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingPackage(
            "Parquet needs pyarrow, which is not installed. Run pip install 'joker-kernels[tables]', or write .csv."
        ) from error
    writers: list[Any] = []

    def write(columns: Columns) -> None:
        table = pyarrow.table(dict(zip(names, map(_arrow_ready, columns), strict=True)))
        if not writers:
            writers.append(parquet.ParquetWriter(file, table.schema))
        writers[0].write_table(table)

    return write, lambda: [writer.close() for writer in writers]


def _arrow_ready(column: NDArray[Any]) -> Any:
    return column.tolist() if column.dtype.kind == "U" else np.ascontiguousarray(column)


WRITERS: dict[str, Callable[[BufferedWriter, Sequence[str]], tuple[Write, Callable[[], object]]]] = {
    ".csv": _csv,
    ".parquet": _parquet,
}
