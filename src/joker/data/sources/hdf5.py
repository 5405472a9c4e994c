"""Data sets of HDF5 files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.sources.arrays import Array, ArraySource, array_source
from joker.data.sources.named_arrays import pick
from joker.data.sources.read_options import Wish
from joker.errors import InvalidFile, MissingPackage


@dataclass(frozen=True, eq=False)
class Hdf5Array(Array):
    """A data set of a file."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        import h5py

        with _opening(self.path), h5py.File(self.path, "r") as file:
            found = file[self.name]
            values = found.asstr() if self.dtype.kind == "U" else found
            for first in range(0, self.shape[0], rows):
                yield np.asarray(values[first : first + rows], self.dtype)


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError, UnicodeDecodeError) as error:
        raise InvalidFile(
            f"{path} must be a sound HDF5 file; reading it failed ({error}). Write or copy it again."
        ) from error


def open_hdf5(wish: Wish) -> ArraySource:
    """Open the data sets of an HDF5 file."""
    try:
        import h5py
    except ImportError as error:
        raise MissingPackage(
            f"{wish.name}: HDF5 files need h5py, which is not installed. Run pip install 'joker[hdf5]'."
        ) from error
    arrays: dict[str, Hdf5Array] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape:
            kind = np.dtype(np.str_) if h5py.check_string_dtype(item.dtype) else item.dtype
            arrays[name] = Hdf5Array(wish.path, name, item.shape, kind)

    with _opening(wish.path), h5py.File(wish.path, "r") as file:
        file.visititems(note)
    x, y = pick(wish, {name: array.shape for name, array in arrays.items()})
    return array_source(wish, arrays[x], None if y is None else arrays[y], y or "y")
