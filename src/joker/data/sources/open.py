"""One door for every kind of file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from joker.data.schema import Schema
from joker.data.sources.arrays import array_source
from joker.data.sources.base import Source
from joker.data.sources.choice import Name
from joker.data.sources.csv import open_csv
from joker.data.sources.npy import open_npy
from joker.data.sources.text import OPENERS
from joker.data.sources.types import check_dtype
from joker.errors import InvalidFile, MissingFile, UnknownName

CATEGORIES = ("refuse", "one-hot")


@dataclass(frozen=True)
class Wish:
    """What a user asks of a file."""

    path: Path
    target: Name | None
    columns: Sequence[Name] | None
    header: bool | str
    one_hot: bool
    schema: Schema | None
    delimiter: str | None
    dtype: np.dtype[Any] | None


def open_source(
    path: str | os.PathLike[str],
    *,
    target: Name | None = None,
    columns: Sequence[Name] | None = None,
    header: bool | str = "auto",
    categories: str = "refuse",
    schema: Schema | None = None,
    delimiter: str | None = None,
    dtype: Any = None,
) -> Source:
    """Open a table on disk, to be read in bounded memory.

    Parameters
    ----------
    path : path
        A file: .csv, .tsv, .txt or .data, perhaps with .gz, .bz2 or .xz after it, or .npy.
    target : str or int, optional
        The column to be predicted: its name, or its number counted from 0 (below 0: from the end).
    columns : list of str or int, optional
        The inputs. By default every column but the target.
    header : {"auto", True, False}
        Whether the first line of a text file names the columns. ``"auto"`` looks at the first two lines.
    categories : {"refuse", "one-hot"}
        What becomes of columns of text: an error, or one 0/1 column for each level, found in a first pass.
    schema : Schema, optional
        The columns of the training data: exactly these are handed out, and the target if it is there.
    delimiter : str, optional
        Between the fields of a text file. By default a tab, semicolon, bar or comma is found.
    dtype : {"float32", "float64"}, optional
        The type of the inputs. By default text gives float32, and arrays keep uint8, int16, float16, float32
        and float64.

    Returns
    -------
    Source
    """
    if categories not in CATEGORIES:
        raise UnknownName.among("categories", categories, CATEGORIES)
    place = Path(path)
    if not place.exists():
        raise MissingFile(f"a file of data must exist; there is no {place}. Check the path.")
    wish = Wish(place, target, columns, header, categories == "one-hot", schema, delimiter, check_dtype(dtype))
    return _reader(place)(wish)


def _reader(path: Path) -> Callable[[Wish], Source]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in OPENERS
    suffix = (suffixes[:-1] if packed else suffixes)[-1:]
    reader = READERS.get(suffix[0] if suffix else "")
    if reader is None or (packed and reader is not _csv):
        raise InvalidFile(
            f"the suffix of a file of data must be one of {', '.join(READERS)}, of text also with "
            f"{', '.join(OPENERS)} after it; got {path.name!r}. Rename or convert the file."
        )
    return reader


def _csv(wish: Wish) -> Source:
    return open_csv(
        wish.path, wish.target, wish.columns, wish.header, wish.one_hot, wish.schema, wish.delimiter, wish.dtype
    )


def _npy(wish: Wish) -> Source:
    """Open an array; the target may be one of its columns or a second file."""
    if isinstance(wish.target, str) and wish.target.endswith(".npy"):
        y = open_npy(wish.path.parent / wish.target)
        return array_source(str(wish.path), open_npy(wish.path), y, "y", None, wish.columns, wish.schema, wish.dtype)
    x = open_npy(wish.path)
    return array_source(str(wish.path), x, None, "y", wish.target, wish.columns, wish.schema, wish.dtype)


READERS: dict[str, Callable[[Wish], Source]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".txt": _csv,
    ".data": _csv,
    ".npy": _npy,
}
