"""Tables in arrays: inputs of one type, and the target as a second array or as one of the columns."""

from __future__ import annotations

import lzma
import shutil
import struct
import tempfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from joker.data.readers.source import (
    Batch,
    CheckedSource,
    ColumnSelection,
    ReadOptions,
    TableColumns,
    batch_dtype,
    decoding,
    refuse_empty,
    select_columns,
)
from joker.data.schema import MAX_LISTED, Schema, listed, unnamed
from joker.errors import InvalidData, InvalidFile, MissingPackage, UnknownName


@dataclass(frozen=True, eq=False)
class StreamedArray(ABC):
    """An array in memory or in a file, which is read in order along its first dimension."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        """Yield the whole array, ``rows`` rows at a time."""


@dataclass(frozen=True, eq=False)
class ArraySource(CheckedSource):
    """The rows of an array; rows of several dimensions are flattened."""

    x: StreamedArray
    y: StreamedArray | None
    selection: ColumnSelection

    def read(self, rows: int) -> Iterator[Batch]:
        first = 0
        targets = None if self.y is None else self.y.chunks(rows)
        for chunk in self.x.chunks(rows):
            whole = chunk.reshape(len(chunk), -1)  # (k, columns)
            column = None if self.selection.target is None else whole[:, self.selection.target].copy()
            y = column if targets is None else next(targets)
            if self.selection.inputs != tuple(range(whole.shape[1])):
                whole = whole[:, list(self.selection.inputs)]
            yield Batch(np.ascontiguousarray(whole, self.dtype), y, first)
            first += len(chunk)


def array_source(
    options: ReadOptions, x: StreamedArray, y: StreamedArray | None = None, y_name: str = "y"
) -> ArraySource:  # x (n, d) or (n, ...), y (n,) or (n, t)
    """Return the source of an array of inputs; without ``y`` the target is one of its columns, or absent."""
    options.without("header", "delimiter")
    _check_arrays(options.name, x, y)
    table = TableColumns(options.name, unnamed(prod(x.shape[1:])), named=False)
    selection = select_columns(
        table, options.target if y is None else None, options.columns, options.schema, options.drop
    )
    found = (selection.target_name, False) if y is None else (y_name, y.dtype.kind in "US")
    schema = options.schema or Schema.numbers(selection.names, *found)
    if not schema.is_numeric:
        raise InvalidData(
            f"{options.name}: the columns must be those of the training data, which have categories; an array has no "
            "categories. Use a table with names."
        )
    return ArraySource(options.name, schema, batch_dtype([x.dtype], options.dtype), x.shape[0], x, y, selection)


def _check_arrays(name: str, x: StreamedArray, y: StreamedArray | None) -> None:
    if x.dtype.kind not in "fiub":
        raise InvalidData(f"{name}: inputs must be numbers; {x.name} has type {x.dtype}. Convert it to float32.")
    if len(x.shape) < 2:
        raise InvalidData(
            f"{name}: inputs must have two or more dimensions, rows first; {x.name} has shape {x.shape}. "
            "Use x[:, None] for one input."
        )
    if 0 in x.shape:
        refuse_empty(name, f"{x.name} has shape {x.shape}")
    if y is None:
        return
    if y.dtype.kind not in "fiubUS":
        raise InvalidData(f"{name}: a target must be numbers or text; {y.name} has type {y.dtype}. Convert it.")
    if len(y.shape) not in (1, 2) or y.shape[0] != x.shape[0]:
        raise InvalidData(
            f"{name}: a target must be (n,) or (n, t) with as many rows as the inputs, {x.shape[0]}; {y.name} has "
            f"shape {y.shape}. Check that the arrays belong together."
        )


_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


Header = tuple[tuple[int, ...], np.dtype[Any], bool, int]  # the fields shape, dtype, fortran and offset of NpyArray


def read_header(file: Any, name: str) -> Header:
    """Read the header of a .npy file, and leave the file at the data."""
    # A header is the text of a Python dictionary: a damaged one may lead to any error of Python's parser or of NumPy.
    with decoding("array that numpy.save wrote", (Exception,), name):
        shape, fortran, dtype = _READERS[npy.read_magic(file)](file)
    if any(length < 0 for length in shape):
        raise InvalidFile(f"{name} must have a shape of whole numbers; it has {shape}. Write or copy it again.")
    if dtype.hasobject or not shape:
        found = "Python objects" if dtype.hasobject else "a single number"
        raise InvalidFile(f"{name} must be an array of numbers or of text; it holds {found}. Convert it and save it.")
    return shape, dtype, fortran and len(shape) > 1, file.tell()


@dataclass(frozen=True, eq=False)
class NpyArray(StreamedArray):
    """The array of a .npy file."""

    fortran: bool  # whether columns, not rows, are consecutive
    offset: int  # of the data, in bytes
    path: Path

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        n = self.shape[0]
        read = self._columns if self.fortran else self._run
        with self.path.open("rb", buffering=0) as file:
            for first in range(0, n, rows):
                yield read(file, first, min(rows, n - first))

    def _run(self, file: BinaryIO, first: int, count: int) -> NDArray[Any]:
        """Read consecutive rows of an array in C order."""
        out = np.empty((count, *self.shape[1:]), self.dtype)
        self._fill(file, first * prod(self.shape[1:]), out)
        return out

    def _columns(self, file: BinaryIO, first: int, count: int) -> NDArray[Any]:
        """Read consecutive rows of an array in Fortran order."""
        out = np.empty((prod(self.shape[1:]), count), self.dtype)
        for column, part in enumerate(out):
            self._fill(file, column * self.shape[0] + first, part)
        return out.T.reshape((count, *self.shape[1:]), order="F")

    def _fill(self, file: BinaryIO, item: int, out: NDArray[Any]) -> None:
        file.seek(self.offset + item * self.dtype.itemsize)
        fill(file, out, self.name)


def fill(file: Any, out: NDArray[Any], name: str) -> None:
    """Fill an array with the next bytes of a file."""
    view = out.reshape(-1).view(np.uint8).data
    done = 0
    while done < len(view):
        count = file.readinto(view[done:])
        if not count:
            raise InvalidFile(
                f"{name} must be complete; it ends {len(view) - done} bytes early. Write or copy it again."
            )
        done += count


def open_npy(path: Path) -> NpyArray:
    """Open the array of a .npy file, whose length must be that of its header."""
    with path.open("rb") as file:
        array = NpyArray(str(path), *read_header(file, str(path)), path)
    wanted = array.offset + prod(array.shape) * array.dtype.itemsize
    if (found := path.stat().st_size) < wanted:
        raise InvalidFile(f"{path} must be complete; it has {found} of {wanted} bytes. Write or copy it again.")
    return array


INPUT_NAMES = ("X", "x", "data")
TARGET_NAMES = ("y", "Y", "target", "label", "labels")
Shapes = Mapping[str, tuple[int, ...]]


def _picked(options: ReadOptions, arrays: Mapping[str, StreamedArray]) -> ArraySource:
    """Return the source of the arrays of a file that are the inputs and the target."""
    shapes = {name: array.shape for name, array in arrays.items()}
    y = _target(options, shapes)
    x = _inputs(options, shapes, y) if options.inputs is None else _existing(options, "inputs", options.inputs, shapes)
    return array_source(options, arrays[x], None if y is None else arrays[y], y or "y")


def _inputs(options: ReadOptions, shapes: Shapes, y: str | None) -> str:
    usual = [name for name in INPUT_NAMES if name in shapes and name != y]
    tables = [name for name, shape in shapes.items() if name != y and len(shape) > 1]
    if len(usual) == 1 or len(tables) == 1:
        return (usual or tables)[0]
    raise InvalidData(
        f"{options.name}: one array must be the inputs, called {', '.join(INPUT_NAMES)}; found {_described(shapes)}. "
        "Name it with inputs=."
    )


def _target(options: ReadOptions, shapes: Shapes) -> str | None:
    """Return the name of the array of targets; None if the target is a column or absent."""
    # The name of a column of an array is its number, or x and its number.
    if isinstance(options.target, str) and not options.target.removeprefix("x").removeprefix("-").isdigit():
        return _existing(options, "target", options.target, shapes)
    if options.target is not None:
        return None  # a column of the inputs
    trained = [options.schema.target] if options.schema is not None and options.schema.target in shapes else []
    usual = trained or [name for name in TARGET_NAMES if name in shapes and name != options.inputs]
    return usual[0] if len(usual) == 1 else None


def _existing(options: ReadOptions, what: str, name: str, shapes: Shapes) -> str:
    if name in shapes:
        return name
    raise UnknownName(f"{options.name}: {what} must be one of its arrays, {_described(shapes)}; got {name!r}. Use one.")


def _described(shapes: Shapes) -> str:
    if not shapes:
        return "none"
    largest = sorted(shapes, key=lambda name: -prod(shapes[name]))
    if len(largest) > MAX_LISTED:
        return listed(largest)
    return ", ".join(f"{name!r} {shapes[name]}" for name in largest)


# A damaged directory has wrong offsets and lengths: seeking to them raises an OSError or a ValueError.
_UNZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    UnicodeDecodeError,
)
_unzipping = partial(decoding, "file of numpy.savez", _UNZIP_ERRORS)


@dataclass(frozen=True, eq=False)
class NpzArray(NpyArray):
    """An array of a .npz file."""

    member: str

    def chunks(self, rows: int) -> Iterator[NDArray[Any]]:  # (k, ...)
        with _unzipping(self.path), zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            yield from self._unpacked(file, rows) if self.fortran else self._in_order(file, rows)
            file.read(1)  # zipfile compares the checksum at the end of the file

    def _in_order(self, file: Any, rows: int) -> Iterator[NDArray[Any]]:
        """Yield the rows of an array in C order."""
        n = self.shape[0]
        read_header(file, self.name)
        for first in range(0, n, rows):
            out = np.empty((min(rows, n - first), *self.shape[1:]), self.dtype)
            fill(file, out, self.name)
            yield out

    def _unpacked(self, file: Any, rows: int) -> Iterator[NDArray[Any]]:
        """Yield the rows of an array in Fortran order, which is unpacked to a temporary file first."""
        # A folder, because Windows does not open a temporary file a second time.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "array.npy"
            with path.open("wb") as unpacked:
                shutil.copyfileobj(file, unpacked)
            yield from NpyArray(self.name, self.shape, self.dtype, self.fortran, self.offset, path).chunks(rows)


def open_npz(options: ReadOptions) -> ArraySource:
    """Open the arrays of a .npz file."""
    path = options.path
    arrays: dict[str, NpzArray] = {}
    with _unzipping(path), zipfile.ZipFile(path) as archive:
        members = [member for member in archive.namelist() if member.endswith(".npy")]
        if {"indptr.npy", "indices.npy"} <= set(members):
            raise InvalidFile(
                f"{path} must hold the rows of a table; it is a sparse matrix of SciPy. Load it with "
                "scipy.sparse.load_npz and use the matrix, or write it as LIBSVM text."
            )
        for member in members:
            name = member.removesuffix(".npy")
            title = f"{path}, array {name!r},"
            with archive.open(member) as file, suppress(InvalidFile):  # it may hold arrays that cannot be tables
                array = NpzArray(title, *read_header(file, title), path, member)
                wanted = array.offset + prod(array.shape) * array.dtype.itemsize
                if wanted <= archive.getinfo(member).file_size:
                    arrays[name] = array
    return _picked(options, arrays)


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
    return _picked(options, arrays)
