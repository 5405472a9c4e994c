"""Tables of predictions, written a batch at a time: CSV or Parquet, whole or not there at all."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedWriter, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidFile, InvalidParameter, MissingFile, MissingPackage
from joker.runtime.atomic_file import explain_errors, replace_file

Columns = Sequence[NDArray[Any]]
Write = Callable[[Columns], None]


@contextmanager
def writing(path: Path, names: Sequence[str]) -> Iterator[Write]:
    """Yield a function that writes a batch of columns; ``path`` is replaced once all of them are written."""
    form = FORMS[check_target(path)]
    with replace_file(path, "predictions.csv") as temporary, temporary.open("wb") as file:
        write, finish = form(file, names)
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


def check_target(path: Path, *read: Path) -> str:
    """Refuse a name that no predictions can be written to; return its suffix."""
    suffix = path.suffix.lower()
    if suffix not in FORMS:
        raise InvalidParameter(
            f"--out must end in {' or '.join(FORMS)}, which says what is written; got {path.name!r}. Rename it."
        )
    check_place(path, *read)
    return suffix


def check_place(path: Path, *read: Path) -> None:
    """Refuse a place where no file can be put, and the files that are read."""
    if not path.resolve().parent.is_dir():
        raise MissingFile(f"--out must be in a folder that exists; {path.resolve().parent} does not. Create it first.")
    if path.exists() and not path.is_file():
        raise InvalidFile(f"--out must name a file; {path} is none. Choose another name.")
    for other in read:
        if path.exists() and other.exists() and path.samefile(other):
            raise InvalidParameter(f"--out must not be a file that is read; got {path}. Choose another name.")


def _csv(file: BufferedWriter, names: Sequence[str]) -> tuple[Write, Callable[[], object]]:
    text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)  # a few bytes, which are only buffered here

    def write(columns: Columns) -> None:
        # As text an array has the fewest digits that give its numbers back.
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


FORMS: dict[str, Callable[[BufferedWriter, Sequence[str]], tuple[Write, Callable[[], object]]]] = {
    ".csv": _csv,
    ".parquet": _parquet,
}
