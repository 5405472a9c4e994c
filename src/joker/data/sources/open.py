"""Opening a table on disk, by the kind of its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from joker.data.schema import Schema
from joker.data.sources.arrays import ArraySource, array_source
from joker.data.sources.base import Source
from joker.data.sources.column_selection import Name
from joker.data.sources.csv import open_csv
from joker.data.sources.dtypes import check_categories, check_dtype
from joker.data.sources.hdf5 import open_hdf5
from joker.data.sources.libsvm import looks_like_libsvm, open_libsvm
from joker.data.sources.npy import open_npy
from joker.data.sources.npz import open_npz
from joker.data.sources.parquet import FORMATS, open_dataset
from joker.data.sources.read_options import MAX_INPUTS, ReadOptions
from joker.data.sources.text_files import OPENERS, read_head
from joker.data.sources.validation import existing_file
from joker.errors import InvalidFile, MissingFile


def open_source(
    path: str | os.PathLike[str],
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
TEXTS = (open_csv, _text, open_libsvm)


def _reader(path: Path) -> Reader:
    """Return the reader for the suffix of a file; LIBSVM text may have any suffix."""
    if path.is_dir():
        return open_dataset
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] and suffixes[-1] in OPENERS
    inner = suffixes[-2:-1] if packed else suffixes[-1:]
    reader = READERS.get(inner[0]) if inner else None
    if reader is not None and (not packed or reader in TEXTS):
        return reader
    if looks_like_libsvm(read_head(path)):
        return open_libsvm
    raise InvalidFile(
        f"the suffix of a file of data must be one of {', '.join(READERS)}, for text also followed by "
        f"{', '.join(OPENERS)}; got {path.name!r}. Rename or convert the file."
    )
