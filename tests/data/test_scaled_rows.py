"""Rows as z-scores, and the pass that computes their mean and deviation."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose

from joker.data import Moments, Rows, TensorRows, as_rows, moments, scaled, scaling_of
from joker.errors import InvalidData


@pytest.fixture
def x(rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy(rng.normal([1e6, -3, 0.1], [1e-2, 5, 0], size=(500, 3)))


def test_statistics_in_chunks_are_those_of_all_rows(x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the mean is a hundred million times the deviation, and with chunks of any length."""
    for entries in (3, 50, 10_000):
        monkeypatch.setattr("joker.runtime.devices.CHUNK_ENTRIES", entries)
        found = scaling_of(TensorRows(x))
        assert_allclose(found.mean, x.mean(0), rtol=1e-14)
        assert_allclose(found.deviation, x.numpy().std(0) * [1, 1, 0], rtol=1e-7)
        assert float(found.deviation[2]) == 0


def test_a_row_of_weight_two_counts_twice_and_of_weight_zero_not_at_all(
    x: torch.Tensor, rng: np.random.Generator
) -> None:
    w = torch.from_numpy(rng.integers(0, 3, len(x)))
    x[w == 0] = 1e9
    weighed, repeated = scaling_of(TensorRows(x), w), scaling_of(TensorRows(x.repeat_interleave(w, 0)))
    assert_allclose(weighed.mean, repeated.mean, rtol=1e-13)
    assert_allclose(weighed.deviation, repeated.deviation, rtol=1e-6)
    assert float(weighed.deviation[2]) == 0


def test_moments_of_no_rows_change_nothing(x: torch.Tensor) -> None:
    found = moments(x)
    for both in (found + Moments.none(3), Moments.none(3) + found, found + moments(x, torch.zeros(500))):
        assert (both.weight, both.low.tolist(), both.high.tolist()) == (500, found.low.tolist(), found.high.tolist())
        assert_allclose(both.mean, found.mean)
        assert_allclose(both.squares, found.squares)


@pytest.mark.parametrize("kind", ["float64", "float32", "sparse", "uint8"])
def test_rows_are_read_as_z_scores(x: torch.Tensor, kind: str) -> None:
    x = x if kind.startswith("f") else (x.abs() % 7).round()
    forms: dict[str, Any] = {"sparse": lambda: as_rows(x.to_sparse()), "uint8": lambda: TensorRows(x.byte(), x.dtype)}
    whole: Rows = forms.get(kind, lambda: TensorRows(x))()
    rows = scaled(whole, scaling_of(whole), torch.float32 if kind == "float32" else torch.float64)
    mean, deviation = x.numpy().mean(0), x.numpy().std(0)
    expected = (x.numpy() - mean) / np.where(deviation > 1e-9, deviation, np.inf)
    numbers = torch.tensor([4, 2, 2, 499])
    assert rows.dtype == (torch.float32 if kind == "float32" else torch.float64)
    tolerance = {"atol": 1e-6, "rtol": 1e-6}  # also in float32: a mean of 1e6 is taken off in float64
    assert_allclose(rows[:], expected, **tolerance)
    assert_allclose(rows[numbers], expected[numbers], **tolerance)
    assert_allclose(rows.some(numbers)[1:3], expected[numbers][1:3], **tolerance)
    assert rows.row_bytes > whole.row_bytes


def test_a_constant_input_is_zero_also_for_other_rows(x: torch.Tensor) -> None:
    scaling = scaling_of(TensorRows(x))
    later = x.clone()
    later[:, 2] = 77
    assert (scaled(TensorRows(later), scaling, torch.float32)[:][:, 2] == 0).all()


def test_inputs_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(InvalidData, match=r"column 1 reach 1e\+200\. Divide"):
        scaling_of(TensorRows(torch.tensor([[0.0, 1e200], [1.0, -1e200]], dtype=torch.float64)))


def test_stored_types_are_converted_and_their_bytes_are_counted(rng: np.random.Generator) -> None:
    for dtype in (torch.uint8, torch.int16, torch.float16, torch.float64):
        x = torch.from_numpy(rng.integers(0, 200, (20, 4))).to(dtype)
        rows = TensorRows(x, torch.float32)
        assert rows[2:7].dtype == rows[torch.tensor([3])].dtype == torch.float32
        assert torch.equal(rows[2:7], x[2:7].float())
        assert rows.row_bytes == 4 * (4 + x.element_size())
    same = torch.ones(5, 2)
    assert TensorRows(same).row_bytes == 0
    assert TensorRows(same.T).row_bytes > 0  # rows of a turned array are gathered
    assert TensorRows(same.T)[0:2].is_contiguous()


def test_a_value_that_overflows_the_output_type_is_refused() -> None:
    x = torch.zeros(4, 2, dtype=torch.float64)
    x[3, 1] = 1e60
    TensorRows(x).check("X")
    with pytest.raises(InvalidData, match="found inf at row 3, column 1"):
        TensorRows(x, torch.float32).check("X")


def test_statistics_of_sparse_rows_count_the_zeros(rng: np.random.Generator) -> None:
    x = sp.random_array((60, 5), density=0.2, rng=rng, format="csr")
    found = scaling_of(as_rows(torch.from_numpy(x.toarray()).to_sparse()))
    assert_allclose(found.mean, x.toarray().mean(0))
    assert_allclose(found.deviation, x.toarray().std(0))
