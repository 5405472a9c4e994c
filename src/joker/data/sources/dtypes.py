"""In which types inputs are handed out, and what becomes of columns of text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from joker.errors import InvalidParameter, UnknownName

CATEGORIES = ("refuse", "one-hot")
STORED = tuple(np.dtype(kind) for kind in (np.uint8, np.int16, np.float16, np.float32, np.float64))
TEXT = np.dtype(np.float32)  # of numbers that are written out, and of what has no type of its own
_EXACT = {np.dtype(np.bool_): STORED[0], np.dtype(np.int8): STORED[1]}  # types that fit into a stored one


def handed_out(kinds: Iterable[np.dtype[Any]], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    """Return the type for columns of these types: theirs where they share one of the five, else float32.

    Without columns of numbers it is uint8, which holds the 0 and 1 of categories.
    """
    if wanted is not None:
        return wanted
    native = {kind.newbyteorder("=") for kind in kinds}
    found = {_EXACT.get(kind, kind) for kind in native} or {STORED[0]}
    return found.pop() if len(found) == 1 and found <= set(STORED) else TEXT


def check_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Return the floating-point type that a user asks for."""
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
    """Return whether categories become columns."""
    if categories not in CATEGORIES:
        raise UnknownName.among("categories", categories, CATEGORIES)
    return categories == "one-hot"
