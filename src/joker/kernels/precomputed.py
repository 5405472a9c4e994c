"""Kernels that a user gives as numbers: a matrix, or a function of two NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.errors import InvalidData, InvalidParameter
from joker.kernels.kernel import Kernel, check_bandwidth
from joker.ops.triton_support import RowsLike
from joker.runtime import chunks, generator
from joker.runtime.devices import one_thread

PRECOMPUTED = "precomputed"  # the name in estimators
KernelOfArrays = Callable[[NDArray[np.float64], NDArray[np.float64]], Any]  # (b, d), (k, d) -> (b, k)

# Differences of k(x, z) and k(z, x) that rounding explains, as a share of the largest entry. Matrices may be float32.
ASYMMETRY = 1e-5
NEGATIVE = 1e-6  # the same of a negative eigenvalue, as a share of the trace: 16 rounding errors of float32
MATRIX_ROWS = 500  # rows of a principal submatrix whose eigenvalues are computed, at most
FUNCTION_ROWS = 200  # the same of a function, each of whose values may take long
TILE = 256  # rows and columns of a matrix that are compared with the transposed ones at a time; larger ones are slower
DIAGONAL_ROWS = 32  # rows of a call for k(x, x): a call for each row would take longer
_FLOAT64_BYTES = 8


@dataclass(frozen=True)
class Precomputed(Kernel):
    """k(x_i, z_j) is the entry (i, j) of a matrix; a row of inputs is the number of a row, or column, of the matrix.

    A machine is fitted with the matrix of the training rows, and keeps the numbers of its rows only. For predictions
    it is given the matrix of new rows with all training rows.
    """

    bandwidth: float = field(default=1.0, init=False, repr=False)
    matrix: Tensor | None = field(default=None, repr=False, compare=False)  # (k, n), of any type; None after the fit
    symmetric: bool = field(default=False, repr=False, compare=False)  # whether its rows are those of its columns

    name: ClassVar[str] = PRECOMPUTED
    has_bandwidth: ClassVar[bool] = False
    external: ClassVar[bool] = True

    @property
    def precomputed(self) -> bool:
        return True

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, 1), (k, 1) -> (b, k)
        matrix, rows, columns = self._given, x[:, 0].long(), z[:, 0].long()
        run, column_run = _run(rows), _run(columns)
        if run and column_run:
            tile = matrix[run, column_run]  # a view
        elif run and self.symmetric:  # whole rows are read faster than single entries of all rows
            tile = matrix[:, run].index_select(0, columns).T
        elif column_run:
            tile = matrix[:, column_run].index_select(0, rows)
        else:
            tile = matrix[rows[:, None], columns]
        return tile.to(x.dtype)

    def diag(self, x: Tensor) -> Tensor:  # (b, 1) -> (b,)
        rows = x[:, 0].long()
        return self._given[rows, rows].to(x.dtype)

    def digest(self) -> tuple[float, ...]:
        if self.matrix is None:
            return ()
        sums = torch.empty(len(self.matrix), dtype=torch.float64)
        for rows in chunks(*self.matrix.shape):
            part = self.matrix[rows].double()
            sums[rows] = part @ torch.arange(1, part.shape[1] + 1, dtype=torch.float64).cos()
        return (float(sums.sum()), float(sums.abs().sum()))

    def reading(self, matrix: Tensor | None, symmetric: bool = False) -> Self:
        return replace(self, matrix=matrix, symmetric=symmetric)

    def check(self, x: RowsLike) -> None:  # (n, 1)
        _ = self._given  # raises without a matrix

    def with_bandwidth(self, bandwidth: float) -> Self:
        check_bandwidth(bandwidth)
        return self

    def work_bytes(self, b: int, k: int, d: int, itemsize: int) -> int:
        """Return the bytes of a tile in the type of the matrix, and of its copy in the computing type."""
        stored = _FLOAT64_BYTES if self.matrix is None else self.matrix.element_size()
        return b * k * (itemsize + stored) + 8 * (b + k)

    @property
    def _given(self) -> Tensor:
        if self.matrix is None:
            raise InvalidData(
                "a precomputed kernel has values for the rows of its matrix only; it has no matrix. Use "
                "kernel='precomputed' in an estimator, and give the kernel matrix as X to fit and predict."
            )
        return self.matrix


def refuse_bandwidth(kernel: Kernel, bandwidth: object) -> None:
    """Raise InvalidParameter for the bandwidth of a kernel whose values a user gives."""
    raise InvalidParameter(
        f"bandwidth must be left out with a {kernel.name} kernel, whose values are used as they are; got "
        f"bandwidth={bandwidth!r}. Compute the matrix, or write the function, with the length scale that you want."
    )


def _run(numbers: Tensor) -> slice | None:  # (b,)
    """Return the slice of consecutive numbers; None for other ones."""
    if not len(numbers):
        return None
    first, last = int(numbers[0]), int(numbers[-1])
    consecutive = last - first == len(numbers) - 1 and bool((numbers.diff() == 1).all())
    return slice(first, last + 1) if consecutive else None


@dataclass(frozen=True, repr=False)
class FunctionKernel(Kernel):
    """k(x, z) of a function of two NumPy arrays, which returns the kernel matrix of their rows."""

    bandwidth: float = field(default=1.0, init=False, repr=False)
    function: KernelOfArrays = field(kw_only=True)

    name: ClassVar[str] = "function"
    has_bandwidth: ClassVar[bool] = False
    external: ClassVar[bool] = True

    def __call__(self, x: Tensor, z: Tensor) -> Tensor:  # (b, d), (k, d) -> (b, k)
        if not len(x) or not len(z):
            return x.new_zeros(len(x), len(z))
        # Copies: a function that writes to its arguments must not change the rows.
        returned = self.function(*(rows.numpy().astype(np.float64) for rows in (x, z)))
        try:
            values = np.asarray(returned, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidData(
                f"{self._subject} must return an array of numbers; got {type(returned).__name__}. Return the matrix of "
                "k(x, z), with a row for each row of its first argument."
            ) from error
        if values.shape != (len(x), len(z)):
            raise InvalidData(
                f"{self._subject} must return an array of shape ({len(x)}, {len(z)}) for {len(x)} and {len(z)} rows; "
                f"got shape {values.shape}. Return a row for each row of its first argument, and a column for each row "
                "of its second."
            )
        if not np.isfinite(values).all():
            i, j = np.argwhere(~np.isfinite(values))[0]
            raise InvalidData(
                f"{self._subject} must return finite numbers; found {values[i, j]} for two of the rows. Check the "
                "inputs for values outside the domain of the function."
            )
        return torch.tensor(values, dtype=x.dtype)  # a copy, as the function may return an array that it keeps

    def diag(self, x: Tensor) -> Tensor:  # (b, d) -> (b,)
        parts = x.split(DIAGONAL_ROWS)
        return torch.cat([self(part, part).diagonal() for part in parts]) if len(x) else x.new_zeros(0)

    def with_bandwidth(self, bandwidth: float) -> Self:
        check_bandwidth(bandwidth)
        return self

    def work_bytes(self, b: int, k: int, d: int, itemsize: int) -> int:
        """Return the bytes of the arguments, of some matrices of the function, and of the result."""
        return _FLOAT64_BYTES * (self.matrices * b * k + (b + k) * (d + 1)) + itemsize * b * k

    def __repr__(self) -> str:
        return f"FunctionKernel({getattr(self.function, '__name__', self.function)!s})"

    @property
    def _subject(self) -> str:
        return f"the function kernel={getattr(self.function, '__name__', self.function)!s}"

    def check(self, x: RowsLike) -> None:  # (n, d)
        some = x[_sample(x.shape[0], FUNCTION_ROWS)].double()
        matrix = self(some, some)
        _check_values(matrix, self._subject)
        part = some[: max(1, len(some) // 2)]
        change = (self(part, some) - matrix[: len(part)]).abs().max()
        if change > ASYMMETRY * matrix.abs().max():
            raise InvalidData(
                f"{self._subject} must have the same value for two rows whatever the other rows are, as it is called "
                f"for parts of the rows; values differ by {float(change):.3g}. Remove what it computes from all rows, "
                "such as a mean, or compute the whole matrix first and use kernel='precomputed'."
            )


def check_matrix(matrix: NDArray[Any]) -> None:  # (n, n), finite
    """Raise InvalidData for a matrix that is not square, symmetric and positive semidefinite.

    Eigenvalues are those of at most `MATRIX_ROWS` rows and their columns: the smallest one of the whole matrix is at
    most as large.
    """
    subject = "the matrix X of kernel='precomputed'"
    n, columns = matrix.shape
    if n != columns:
        raise InvalidData(
            f"{subject} must be square in fit, with a row and a column for each training row; got shape "
            f"{matrix.shape}. Give fit the kernel matrix of the training rows with themselves."
        )
    rows = _sample(n, MATRIX_ROWS).numpy()
    _check_values(torch.from_numpy(matrix[np.ix_(rows, rows)].astype(np.float64)), subject, np.diagonal(matrix))
    largest, difference = 0.0, 0.0
    for i in range(0, n, TILE):
        for j in range(i, n, TILE):
            upper = matrix[i : i + TILE, j : j + TILE].astype(np.float64)
            lower = matrix[j : j + TILE, i : i + TILE].T
            largest = max(largest, float(np.abs(upper).max()))
            difference = max(difference, float(np.abs(upper - lower).max()))
    _check_symmetry(difference, largest, subject)


def _sample(n: int, most: int) -> Tensor:  # (at most ``most``,)
    """Return the numbers of some of n rows, always the same."""
    if n <= most:
        return torch.arange(n)
    return torch.randperm(n, generator=generator(0, "checked kernel rows"))[:most].sort().values


def _check_values(matrix: Tensor, subject: str, diagonal: NDArray[Any] | None = None) -> None:  # (k, k), (n,)
    """Refuse a negative diagonal, a matrix that is not symmetric, and negative eigenvalues."""
    smallest = float(matrix.diagonal().min() if diagonal is None else diagonal.min())
    if smallest < 0:
        raise InvalidData(
            f"{subject} must be at least 0 for a row with itself; found {smallest:.3g}. Use similarities, not "
            "distances: exp(-distance) or a scalar product, for example."
        )
    _check_symmetry(float((matrix - matrix.T).abs().max()), float(matrix.abs().max()), subject)
    with one_thread():  # threads of torch would wait for those of NumPy
        least, trace = float(torch.linalg.eigvalsh(matrix)[0]), float(matrix.diagonal().sum())
    if least < -NEGATIVE * trace:
        raise InvalidData(
            f"{subject} must be positive semidefinite; found the eigenvalue {least:.3g} among {len(matrix)} rows, "
            f"where the trace is {trace:.3g}. Use a positive semidefinite kernel, or add {-least:.3g} or more to the "
            "diagonal of the matrix."
        )


def _check_symmetry(difference: float, largest: float, subject: str) -> None:
    if difference > ASYMMETRY * largest:
        raise InvalidData(
            f"{subject} must be symmetric; found a difference of {difference:.3g} between k(x, z) and k(z, x), where "
            f"the largest value is {largest:.3g}. Use the mean of both, (K + K.T) / 2, if it is a kernel."
        )
