"""Labels in columns of data frames, numbered a few rows at a time: an array of all labels would take more memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data import Labels
from joker.errors import InvalidData
from joker.runtime import chunks

CHUNK_WIDTH = 64  # entries that a label counts as: a Python string of a few characters takes some 60 bytes


def labels_of_column(y: Any) -> Labels | None:
    """Return the labels of a pandas column of categories or text; None for anything else, whose array is small."""
    if not (hasattr(y, "iloc") and hasattr(y, "dtype") and np.ndim(y) == 1 and len(y)):
        return None
    if hasattr(y, "cat"):
        return _of_categories(np.asarray(y.cat.categories), np.asarray(y.cat.codes))
    return _of_text(y) if y.dtype.kind == "O" else None


def _of_categories(categories: NDArray[Any], codes: NDArray[Any]) -> Labels:
    """Return the categories that occur, sorted, and the number of each row among them."""
    if codes.min() < 0:
        row = int(codes.argmin())
        raise InvalidData(f"y must have a class for each row; found a missing one in row {row}. Leave such rows out.")
    used = np.zeros(len(categories), dtype=bool)
    for rows in chunks(len(codes)):
        used[codes[rows]] = True
    classes, order = np.unique(categories[used], return_inverse=True)
    numbers = np.zeros(len(categories), dtype=np.min_scalar_type(len(classes)))
    numbers[used] = order
    return Labels(classes, _looked_up(codes, numbers))


def _looked_up(codes: NDArray[Any], numbers: NDArray[Any]) -> NDArray[Any]:
    found = np.empty(len(codes), dtype=numbers.dtype)
    for rows in chunks(len(codes)):
        found[rows] = numbers[codes[rows]]
    return found


def _of_text(y: Any) -> Labels | None:
    """Return the labels of a column whose values are all text; None if there are others."""
    names: set[str] = set()
    for rows in chunks(len(y), CHUNK_WIDTH):
        some = set(y.iloc[rows])
        if not all(type(value) is str for value in some):
            return None
        names |= some
    classes = np.array(sorted(names), dtype=object)
    numbers = {name: number for number, name in enumerate(classes)}
    codes = np.empty(len(y), dtype=np.min_scalar_type(len(classes)))
    for rows in chunks(len(y), CHUNK_WIDTH):
        codes[rows] = [numbers[name] for name in y.iloc[rows]]
    return Labels(classes, codes)
