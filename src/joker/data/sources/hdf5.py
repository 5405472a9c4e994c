"""Arrays in HDF5 files, which HDF5 calls data sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.sources.arrays import ArraySource, StreamedArray, array_source
from joker.data.sources.named_arrays import pick
from joker.data.sources.read_options import ReadOptions
from joker.data.sources.validation import decoding
from joker.errors import MissingPackage

_opening = partial(decoding, "HDF5 file", (OSError, KeyError, RuntimeError, TypeError, ValueError, OverflowError))


@dataclass(frozen=True, eq=False)
class Hdf5Array(StreamedArray):
    """An array in an HDF5 file."""

    path: Path

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        import h5py

        with _opening(self.path), h5py.File(self.path, "r") as file:
            dataset = file[self.name]
            values = dataset.asstr() if self.dtype.kind == "U" else dataset
            for first in range(0, self.shape[0], rows):
                yield np.asarray(values[first : first + rows], self.dtype)


def open_hdf5(options: ReadOptions) -> ArraySource:
    """Open the arrays of an HDF5 file."""
    try:
        import h5py
    except ImportError as error:
        raise MissingPackage(
            f"{options.name}: HDF5 files need h5py, which is not installed. Run pip install 'joker-kernels[hdf5]'."
        ) from error
    arrays: dict[str, Hdf5Array] = {}

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape:
            kind = np.dtype(np.str_) if h5py.check_string_dtype(item.dtype) else item.dtype
            arrays[name] = Hdf5Array(name, item.shape, kind, options.path)

    with _opening(options.path), h5py.File(options.path, "r") as file:
        file.visititems(add)
    x, y = pick(options, {name: array.shape for name, array in arrays.items()})
    return array_source(options, arrays[x], None if y is None else arrays[y], y or "y")
