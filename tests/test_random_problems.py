"""The gap that is reported, against an independent computation in float64, over random problems."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from random_problems import KERNELS, LOSSES, RandomProblem, kernel_matrix, outcome, relative_gap

from joker import kernels, losses


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_the_true_gap_is_at_most_the_reported_one(first: int) -> None:
    found = [outcome(seed, most_rows=250) for seed in range(first, first + 10)]
    assert not [one for one in found if one.wrong]
    assert not [one for one in found if one.reason.startswith("refused")]
    assert any(one.reason == "TOLERANCE" for one in found)  # else no gap is claimed


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 400, 50))
def test_the_true_gap_of_larger_problems_is_at_most_the_reported_one(first: int) -> None:
    assert not [one for one in map(outcome, range(first, first + 50)) if one.wrong]


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_the_true_gap_is_at_most_the_reported_one_on_a_gpu(first: int) -> None:
    assert not [one for one in (outcome(seed, "cuda", 400) for seed in range(first, first + 10)) if one.wrong]


def test_problems_of_every_kind_are_drawn() -> None:
    drawn = [RandomProblem.draw(seed) for seed in range(200)]
    kinds = Counter((one.loss, one.dtype) for one in drawn)
    assert set(kinds) == {(loss, dtype) for loss in LOSSES for dtype in (torch.float32, torch.float64)}
    assert {one.kernel for one in drawn} == set(KERNELS)
    assert any(one.n_features for one in drawn)
    assert any(one.weights is not None for one in drawn)


@pytest.mark.parametrize("name", KERNELS)
def test_the_reference_has_the_same_kernels(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(30, 3))
    own = kernels.get(name).with_bandwidth(0.7)(torch.tensor(x), torch.tensor(x)).numpy()
    np.testing.assert_allclose(kernel_matrix(name, 0.7, x), own, rtol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_the_reference_has_the_same_gap(name: str) -> None:
    """Of a point that is no optimum, so that no term is 0 by chance."""
    rng = np.random.default_rng(0)
    y, c, share = np.sign(rng.normal(size=20)), rng.uniform(1, 3, size=20), rng.uniform(0.1, 0.9, size=20)
    alpha, f = c * share * y, rng.normal(size=20)
    loss = losses.scaled(losses.get(name), torch.tensor(c))
    parts = loss.value(torch.tensor(y), torch.tensor(f)), loss.psi(torch.tensor(y), torch.tensor(alpha))
    value, psi = (float(part.sum()) for part in parts)
    primal, dual = value + alpha @ f / 2, psi + alpha @ f / 2
    expected = (primal + dual) / max(abs(primal), abs(dual))
    assert relative_gap(name, y, c, alpha, f) == pytest.approx(expected, rel=1e-9)


def test_a_gap_that_is_too_small_is_found() -> None:
    """The check itself would find a certificate that leaves out what is wrong with a point."""
    found = outcome(3, most_rows=250)
    assert found.true > 0
    assert type(found)(found.name, found.true / 2 - 1e-9, found.true, found.reason).wrong
