"""Rows of arrays and sparse matrices: the bytes that a plan counts are those of the rows that a fit reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from joker.data import Scaling
from joker.data.arrays import INPUT_DTYPES, RowSubset, row_bytes_of, rows_of
from joker.errors import InvalidData

CPU = torch.device("cpu")
X = np.random.default_rng(0).integers(0, 100, size=(40, 6))
SUBSET = np.arange(0, 40, 3)
SCALINGS = {
    "unscaled": None,
    "z-scores": Scaling(torch.ones(6), torch.full((6,), 2.0)),
    "divided": Scaling(torch.zeros(6), torch.full((6,), 2.0)),
}


def forms(dtype: Any) -> dict[str, Any]:
    """The same numbers as a row-major, a column-major and a sparse matrix, and as subsets of them."""
    whole = {"rows": X.astype(dtype), "columns": np.asfortranarray(X.astype(dtype))}
    if np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize > 2:
        whole["sparse"] = sp.csr_array(X.astype(dtype))
    return whole | {f"some {name}": RowSubset(data, SUBSET) for name, data in whole.items()}


@pytest.mark.parametrize("copy", [False, True], ids=["view", "copy"])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("stored", INPUT_DTYPES, ids=lambda stored: stored.__name__)
def test_planned_row_bytes_are_those_of_the_rows(stored: Any, dtype: torch.dtype, scaling: str, copy: bool) -> None:
    how = {"copy": copy, "scaling": SCALINGS[scaling]}
    for name, data in forms(stored).items():
        rows = rows_of(data, dtype, CPU, **how)
        assert row_bytes_of(data, dtype, CPU, **how) == rows.row_bytes, name
        assert rows[:].dtype == dtype, name
        assert rows.shape == data.shape, name


def test_a_copied_subset_is_stored_in_the_smaller_type() -> None:
    """A copy in float64 would take twice the memory that is planned, and be cast again for every tile."""
    rows = rows_of(RowSubset(X.astype(np.float64), SUBSET), torch.float32, CPU, copy=True)
    assert rows.x.dtype == torch.float32
    np.testing.assert_array_equal(rows[:].numpy(), X[SUBSET].astype(np.float32))


@pytest.mark.parametrize("copy", [False, True], ids=["view", "copy"])
@pytest.mark.parametrize("subset", [False, True], ids=["all rows", "some rows"])
def test_values_that_float32_cannot_hold_are_found(copy: bool, subset: bool) -> None:
    """The check of a user's float64 array passes; a copy in float32 has an infinite value."""
    x = np.where(np.arange(12).reshape(6, 2) == 7, 1e39, 1.0)
    data = RowSubset(x, np.array([1, 3, 4])) if subset else x
    with pytest.raises(InvalidData, match="X must be finite; found inf at row"):
        rows_of(data, torch.float32, CPU, copy=copy)
    rows_of(data, torch.float64, CPU, copy=copy)


def test_rows_of_a_checked_array_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joker.data.rows.check_finite", lambda *_: pytest.fail("the rows are checked twice"))
    for stored in (np.float32, np.float64):
        for data in forms(stored).values():
            rows_of(data, torch.float64, CPU, copy=False).check("X")
