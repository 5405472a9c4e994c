"""Rows are checked where they enter; a message names the first wrong entry."""

import math
from importlib import import_module

import numpy as np
import pytest
import torch
from peak_memory import peak_bytes

from joker.data import TensorRows, as_rows, as_source, check_finite, check_floating, check_rows, check_tensor, convert
from joker.errors import InvalidData
from joker.runtime.devices import CHUNK_ENTRIES


def rows(n=5, d=3, dtype=torch.float64):
    return torch.arange(n * d, dtype=dtype).reshape(n, d)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5)])
def test_valid_rows_are_not_copied(dtype, shape):
    x = rows(*shape, dtype=dtype)
    checked = check_rows(x)
    assert checked.shape == shape
    assert (checked.dtype, checked.device) == (x.dtype, x.device)
    whole = checked[:]
    assert torch.equal(whole, x)
    assert whole.data_ptr() == x.data_ptr()  # no copy: rows may be all the memory there is
    assert check_rows(checked) is checked


def test_rows_need_not_be_contiguous():
    x = rows(6, 4).T[::2]
    assert torch.equal(check_rows(x)[:], x)


def test_tensors_are_detached_from_their_gradient():
    """Otherwise torch would record every step of a solve for a backward pass."""
    assert not check_rows(rows().requires_grad_())[:].requires_grad


def test_rows_are_read_by_number_and_by_slice():
    x = rows(6, 4)
    handed, numbers = check_rows(x), torch.tensor([5, 0, 0, 3])
    assert len(handed) == 6
    assert torch.equal(handed[numbers], x[numbers])
    assert torch.equal(handed[2:5], x[2:5])
    some = handed.some(numbers)
    assert some.shape == (4, 4)
    assert torch.equal(some[:], x[numbers])
    assert torch.equal(some[1:3], x[numbers[1:3]])
    assert torch.equal(some[torch.tensor([3, 1])], x[torch.tensor([3, 0])])
    assert torch.equal(some.some(torch.tensor([0]))[:], x[5:])


WRONG = [
    (lambda: check_rows([[1.0]]), "X must be a torch tensor", "got list", "torch.as_tensor(X)"),
    (lambda: check_rows(np.ones((2, 2))), "X must be a torch tensor", "got ndarray", "torch.as_tensor(X)"),
    (lambda: check_rows(None, "rows"), "rows must be a torch tensor", "got NoneType", "torch.as_tensor(rows)"),
    (lambda: check_rows(torch.ones(3)), "two dimensions", "got shape (3,)", "X[:, None]"),
    (lambda: check_rows(torch.ones(2, 3, 4)), "two dimensions", "got shape (2, 3, 4)", "Reshape"),
    (lambda: check_rows(torch.tensor(1.0)), "two dimensions", "got shape ()", "Reshape"),
    (lambda: check_rows(torch.ones(0, 3)), "at least one row", "got shape (0, 3)", "Add data"),
    (lambda: check_rows(torch.ones(3, 0)), "one input", "got shape (3, 0)", "Add data"),
    (lambda: check_rows(rows(dtype=torch.int64)), "float32 or float64", "got int64", "X.to(torch.float32)"),
    (lambda: check_rows(rows(dtype=torch.float16)), "float32 or float64", "got float16", "X.to(torch.float32)"),
    (lambda: check_rows(rows(dtype=torch.bfloat16)), "float32 or float64", "got bfloat16", "X.to"),
    (lambda: check_rows(rows() > 2), "float32 or float64", "got bool", "X.to"),
    (lambda: check_rows(rows().to(torch.complex64)), "float32 or float64", "got complex64", "X.to"),
    (lambda: check_rows(rows().to_sparse_csc()), "X must be a dense tensor", "layout sparse_csc", "X.to_dense()"),
    (lambda: check_floating(rows(dtype=torch.int32), "y"), "y must be float32", "got int32", "y.to(torch.float32)"),
    (lambda: check_tensor("rows", "y"), "y must be a torch tensor", "got str", "torch.as_tensor(y)"),
]


@pytest.mark.filterwarnings("ignore:Sparse CSC tensor support")
@pytest.mark.parametrize(("check", "rule", "found", "remedy"), WRONG)
def test_wrong_tensors_are_refused(check, rule, found, remedy):
    with pytest.raises(InvalidData) as caught:
        check()
    message = str(caught.value)
    assert rule in message
    assert found in message
    assert remedy in message


@pytest.mark.parametrize(("value", "written"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (2, 1), (4, 2)])
def test_the_first_value_that_is_not_finite_is_named(value, written, row, column):
    x = rows()
    x[row, column] = value
    x[4, 2] = math.nan if (row, column) != (4, 2) else value
    with pytest.raises(InvalidData, match=rf"X must be finite; found {written} at row {row}, column {column}\. Remove"):
        check_rows(x)


def test_the_message_for_one_column_names_the_row_only():
    with pytest.raises(InvalidData, match=r"y must be finite; found nan at row 2\. Remove"):
        check_finite(torch.tensor([0.0, 1.0, math.nan]), "y")


def test_the_last_rows_of_many_are_checked():
    """The rows are checked in chunks; the row in the message is counted from the first row."""
    n = CHUNK_ENTRIES // 2 + 7
    x = torch.zeros(n, 2)
    check_finite(x, "X")
    x[n - 3, 1] = math.inf
    with pytest.raises(InvalidData, match=f"found inf at row {n - 3}, column 1"):
        check_finite(x, "X")


def test_the_check_needs_little_memory():
    x = torch.zeros(2**16, 256)  # 64 MiB
    assert peak_bytes(lambda: check_finite(x, "X")) < 12e6


def test_rows_wider_than_a_chunk_are_checked():
    x = torch.zeros(2, CHUNK_ENTRIES + 1)
    x[1, -1] = math.nan
    with pytest.raises(InvalidData, match=f"at row 1, column {CHUNK_ENTRIES}"):
        check_finite(x, "X")


# Once, where data enter.


def test_rows_are_checked_once(monkeypatch):
    found = []
    for module in ("joker.data.sparse", "joker.data.rows"):
        monkeypatch.setattr(import_module(module), "check_finite", lambda x, *others: found.append(len(x)))
    checked = check_rows(rows(5))
    as_rows(checked)
    as_rows(checked.some(torch.tensor([0, 2])))
    assert found == [5]
    as_rows(TensorRows(rows(7)))  # of which nobody has said that they are finite
    assert found == [5, 7]


def test_a_table_is_checked_once_when_it_is_converted(monkeypatch, tmp_path):
    found = []
    for module in ("joker.data.readers.source", "joker.data.store.convert"):
        monkeypatch.setattr(import_module(module), "check_values", lambda x, *others: found.append(len(x)))
    convert(as_source(np.ones((9, 2)), np.arange(9) % 3), tmp_path / "a.rows")
    assert found == [9]
