"""The types of inputs in batches, and options that concern types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from joker.errors import InvalidParameter, UnknownName

CATEGORIES = ("refuse", "one-hot")
BATCH_DTYPES = tuple(np.dtype(kind) for kind in (np.uint8, np.int16, np.float16, np.float32, np.float64))
TEXT_DTYPE = np.dtype(np.float32)  # of numbers in text, and of columns without a common type
# The types of batches that represent these types exactly.
_EXACT = {np.dtype(np.bool_): BATCH_DTYPES[0], np.dtype(np.int8): BATCH_DTYPES[1]}


def batch_dtype(kinds: Iterable[np.dtype[Any]], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    """Return the type of batches with columns of these types: one of BATCH_DTYPES if all share it, else float32.

    Without columns of numbers it is uint8, for the 0 and 1 of categories.
    """
    if wanted is not None:
        return wanted
    native = {kind.newbyteorder("=") for kind in kinds}
    exact = {_EXACT.get(kind, kind) for kind in native} or {BATCH_DTYPES[0]}
    return exact.pop() if len(exact) == 1 and exact <= set(BATCH_DTYPES) else TEXT_DTYPE


def check_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Return the floating-point type that the user asks for; None if any type is allowed."""
    if dtype is None:
        return None
    try:
        kind: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.float32, np.float64):
        raise InvalidParameter(f"dtype must be float32, float64 or None; got {dtype!r}. Use 'float64' for more digits.")
    return kind


def check_categories(categories: str) -> bool:
    """Return whether columns of text become one 0/1 column for each level."""
    if categories not in CATEGORIES:
        raise UnknownName.among("categories", categories, CATEGORIES)
    return categories == "one-hot"
