"""Sparse rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from joker.data.rows import Rows, TensorRows, check_finite, check_floating, check_tensor, refuse_value
from joker.errors import InvalidData

ENTRY_BYTES = 40  # of temporary memory for each entry that is read, without its value: five numbers of 64 bits


@dataclass(frozen=True, eq=False)
class SparseRows(Rows):
    """Rows of a CSR matrix: row i has the entries ``starts[i]`` to ``starts[i + 1]``.

    Build it with :func:`sparse_rows`, which checks the values and sums entries at the same place.

    Parameters
    ----------
    starts : Tensor of shape (n + 1,)
        The first entry of each row, and the end of the last row.
    columns, values : Tensor
        The column and the value of each entry.
    inputs : int
        The number of inputs d.

    Examples
    --------
    >>> import torch
    >>> from joker.data import sparse_rows
    >>> rows = sparse_rows(torch.tensor([0, 1, 2]), torch.tensor([2, 0]), torch.tensor([1.0, 5.0]), inputs=3)
    >>> rows[0:2].tolist()
    [[0.0, 0.0, 1.0], [5.0, 0.0, 0.0]]
    """

    starts: Tensor  # (n + 1,), int64
    columns: Tensor  # (entries,), int32 or int64
    values: Tensor  # (entries,)
    inputs: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts) - 1, self.inputs

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        return self.values.device

    @cached_property
    def row_bytes(self) -> int:
        return dense_row_bytes(self.inputs, int(self.starts.diff().max()) if len(self) else 0, self.dtype.itemsize)

    def take(self, rows: Tensor) -> Tensor:  # (b,) -> (b, d)
        rows = rows.to(self.device)
        first = self.starts[rows]
        counts = self.starts[rows + 1] - first
        before = counts.cumsum(0) - counts
        entries = torch.repeat_interleave(first - before, counts)
        entries += torch.arange(len(entries), device=self.device)
        return self._dense(counts, self.columns[entries], self.values[entries])

    def tile(self, rows: slice) -> Tensor:  # (k, d)
        start, stop, _ = rows.indices(len(self))
        starts = self.starts[start : max(start, stop) + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        return self._dense(starts.diff(), self.columns[entries], self.values[entries])

    def check(self, what: str) -> None:
        """Do nothing: :func:`sparse_rows` has checked the values."""

    def matrix(self, rows: slice = slice(None)) -> Any:
        """Return some rows, or all of them, as a CSR matrix of SciPy; rows on a CPU are not copied."""
        start, stop, _ = rows.indices(len(self))
        return self._whole if (start, stop) == (0, len(self)) else self._part(start, stop)

    @cached_property
    def _whole(self) -> Any:
        return self._part(0, len(self))

    def _part(self, start: int, stop: int) -> Any:
        from scipy.sparse import csr_matrix

        starts = self.starts[start : max(start, stop) + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        parts = (self.values[entries], self.columns[entries], starts - starts[0])
        return csr_matrix(tuple(part.cpu().numpy() for part in parts), shape=(len(starts) - 1, self.inputs))

    def _dense(self, counts: Tensor, columns: Tensor, values: Tensor) -> Tensor:  # (b,), (e,), (e,) -> (b, d)
        """Return dense rows with ``counts`` of the e entries each, in these columns and with these values."""
        dense = torch.zeros(len(counts) * self.inputs, dtype=self.dtype, device=self.device)
        return dense.scatter_(0, _places(counts, columns, self.inputs), values).view(len(counts), self.inputs)


def dense_row_bytes(inputs: int, most_entries: int, itemsize: int) -> int:
    """Return the bytes of a dense row, and the temporary memory for the entries of the row that has most."""
    return inputs * itemsize + (most_entries + 1) * (ENTRY_BYTES + itemsize)


def sparse_rows(starts: Tensor, columns: Tensor, values: Tensor, inputs: int, what: str = "X") -> SparseRows:
    """Return the rows of a CSR matrix, checked; entries at the same place are summed.

    Parameters
    ----------
    starts : Tensor of shape (n + 1,)
        The first entry of each row, and the end of the last row.
    columns, values : Tensor of shape (entries,)
        The column and the value of each entry, in any order within a row.
    inputs : int
        The number of inputs d.
    what : str
        The name of the matrix in messages.

    Returns
    -------
    SparseRows
        The rows.

    Examples
    --------
    >>> import torch
    >>> from joker.data import sparse_rows
    >>> rows = sparse_rows(torch.tensor([0, 1, 2]), torch.tensor([2, 0]), torch.tensor([1.0, 5.0]), inputs=3)
    >>> rows[0:2].tolist()
    [[0.0, 0.0, 1.0], [5.0, 0.0, 0.0]]
    """
    check_floating(values, what)
    starts = starts.detach().to(values.device, torch.int64)
    columns, values = columns.detach().to(values.device), values.detach()
    _check_parts(starts, columns, values, inputs, what)
    entries = int(starts[-1])  # arrays of SciPy may be longer than the entries that are used
    columns, values = columns[:entries], values[:entries]
    rises = columns.diff() > 0
    first = starts[(starts > 0) & (starts < entries)]
    rises[first - 1] = True  # from the last entry of a row to the first of the next
    if not bool(rises.all()):
        places = _places(starts.diff(), columns, inputs)
        starts, columns, values = _merge(places, values, len(starts) - 1, inputs)
    if not bool(values.sum().isfinite()) and len(bad := (~values.isfinite()).nonzero()):  # a sum may overflow
        entry = int(bad[0])
        row = int(torch.searchsorted(starts, entry, right=True)) - 1
        refuse_value(what, float(values[entry]), [row, int(columns[entry])])
    return SparseRows(starts, columns, values, inputs)


def _places(counts: Tensor, columns: Tensor, inputs: int) -> Tensor:  # (b,), (entries,) -> (entries,)
    """Return the position of each entry in a dense matrix, counted row by row, with ``counts`` entries in each row."""
    begin = torch.arange(len(counts), device=counts.device) * inputs
    return torch.repeat_interleave(begin, counts).add_(columns)


def _merge(places: Tensor, values: Tensor, n: int, inputs: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return starts, columns and values of the sorted entries, with entries at the same place summed."""
    places, entry = torch.unique(places, return_inverse=True)
    sums = values.new_zeros(len(places)).index_add_(0, entry, values)
    ends = torch.bincount(places // inputs, minlength=n).cumsum(0)
    return torch.cat([ends.new_zeros(1), ends]), places % inputs, sums


def _check_parts(starts: Tensor, columns: Tensor, values: Tensor, inputs: int, what: str) -> None:
    """Raise InvalidData for arrays that are not a CSR matrix, which could be read out of bounds."""
    flat = starts.dim() == columns.dim() == values.dim() == 1
    if not flat or len(starts) < 1 or int(starts[0]) != 0 or bool((starts.diff() < 0).any()):
        found = "starts that do not rise from 0"
    elif not int(starts[-1]) <= min(len(columns), len(values)):
        found = f"{int(starts[-1])} entries, of which {min(len(columns), len(values))} are there"
    elif len(columns) and not 0 <= int(columns.min()) <= int(columns.max()) < inputs:
        found = f"columns {int(columns.min())} to {int(columns.max())} of {inputs}"
    else:
        return
    raise InvalidData(f"{what} must be a valid CSR matrix; it has {found}. Build it with scipy.sparse.csr_array.")


def as_rows(x: Tensor | Rows, what: str = "X") -> Rows:  # (n, d)
    """Return ``x`` as Rows, detached from any gradient; it must be a finite matrix in float32 or float64.

    Parameters
    ----------
    x : Tensor or Rows
        The rows.
    what : str
        The name of the rows in messages.

    Returns
    -------
    Rows
        The rows.

    Examples
    --------
    >>> import torch
    >>> from joker.data import as_rows
    >>> as_rows(torch.zeros(3, 2)).shape
    (3, 2)
    """
    if isinstance(x, Rows):
        x.check(what)
        return x
    if isinstance(x, Tensor) and x.layout in (torch.sparse_csr, torch.sparse_coo) and x.dim() == 2:
        return _from_sparse(x.detach(), what)
    check_tensor(x, what)
    if x.dim() != 2:
        remedy = f"Use {what}[:, None] for one input." if x.dim() == 1 else "Reshape it."
        raise InvalidData(f"{what} must have two dimensions, rows and inputs; got shape {tuple(x.shape)}. {remedy}")
    check_floating(x, what)
    check_finite(x, what)
    return TensorRows(x.detach(), checked=True)


def _from_sparse(x: Tensor, what: str) -> SparseRows:
    if x.layout == torch.sparse_csr:
        return sparse_rows(x.crow_indices(), x.col_indices(), x.values(), x.shape[1], what)
    x = x.coalesce()
    rows, columns = x.indices()
    ends = torch.bincount(rows, minlength=x.shape[0]).cumsum(0)
    return sparse_rows(torch.cat([ends.new_zeros(1), ends]), columns, x.values(), x.shape[1], what)


def check_rows(x: Tensor | Rows, what: str = "X") -> Rows:  # (n, d)
    """Return ``x`` as Rows; it must also have at least one row and one input.

    Parameters
    ----------
    x : Tensor or Rows
        The rows.
    what : str
        The name of the rows in messages.

    Returns
    -------
    Rows
        The rows.

    Examples
    --------
    >>> import torch
    >>> from joker.data import check_rows
    >>> check_rows(torch.zeros(3, 2)).shape
    (3, 2)
    """
    rows = as_rows(x, what)
    if 0 in rows.shape:
        raise InvalidData(f"{what} must have at least one row and one input; got shape {rows.shape}. Add data.")
    return rows
