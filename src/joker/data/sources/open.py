"""One door for every kind of file."""

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
from joker.data.sources.read_options import Wish
from joker.data.sources.text_files import OPENERS, read_head
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
) -> Source:
    """Open a table on disk, to be read in bounded memory.

    Parameters
    ----------
    path : path
        Delimited text (.csv, .tsv, .txt, .data) or LIBSVM text (.svm, .libsvm, .svmlight, .txt), perhaps with
        .gz, .bz2 or .xz after it; .npy, .npz; HDF5 (.h5, .hdf5); Parquet (.parquet, .pq) or Arrow (.arrow,
        .feather, .ipc), also a folder of such files.
    target : str or int, optional
        The column to be predicted: its name, or its number counted from 0 (below 0: from the end). In .npz
        and HDF5 files also the name of an array; y, Y, target, label and labels are found without it. For a
        .npy file also the name of a second one beside it.
    columns : list of str or int, optional
        The inputs. By default every column but the target.
    header : {"auto", True, False}
        Whether the first line of delimited text names the columns. ``"auto"`` looks at the first two lines.
    categories : {"refuse", "one-hot"}
        What becomes of columns of text: an error, or one 0/1 column for each level, found in a first pass.
    schema : Schema, optional
        The columns of the training data: exactly these are handed out, and the target if it is there.
    delimiter : str, optional
        Between the fields of delimited text. By default a tab, semicolon, bar or comma is found.
    inputs : str, optional
        In .npz and HDF5 files the name of the array of inputs; X, x and data are found without it.
    dtype : {"float32", "float64"}, optional
        The type of the inputs. By default text gives float32, and binary files keep uint8, int16, float16,
        float32 and float64 where all inputs share it; anything else becomes float32.

    Returns
    -------
    Source
        Rows in batches, as often as they are asked for.
    """
    one_hot, kind = check_categories(categories), check_dtype(dtype)
    place = Path(path)
    if not place.exists():
        raise MissingFile(f"a file of data must exist; there is no {place}. Check the path.")
    wish = Wish(place, target, columns, header, one_hot, schema, delimiter, inputs, kind)
    try:
        return _reader(place)(wish)
    except PermissionError as error:
        raise InvalidFile(
            f"{place} must be one that you may read; {error.strerror}. Change its permissions."
        ) from error


Reader = Callable[[Wish], Source]


def _text(wish: Wish) -> Source:
    """Open text whose suffix leaves open which kind it is."""
    return (open_libsvm if looks_like_libsvm(read_head(wish.path)) else open_csv)(wish)


def _npy(wish: Wish) -> ArraySource:
    """Open an array; the target may be one of its columns or a second file."""
    x = open_npy(wish.path)
    if not (isinstance(wish.target, str) and wish.target.endswith(".npy")):
        return array_source(wish.without("inputs"), x)
    beside = wish.path.parent / wish.target
    if not beside.exists():
        raise MissingFile(f"{wish.name}: the file of the target must exist; there is no {beside}. Check the path.")
    return array_source(replace(wish.without("inputs"), target=None), x, open_npy(beside))


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
    """Return what reads a file of this suffix, or for another one what its first lines show."""
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
        f"the suffix of a file of data must be one of {', '.join(READERS)}, for text also with {', '.join(OPENERS)} "
        f"after it; got {path.name!r}. Rename or convert the file."
    )
