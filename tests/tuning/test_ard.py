"""Leave-one-out errors: their values, their gradient, the size of the sample, and weights that reduce them."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
import torch

from joker.tuning.ard import (
    CONSTANT,
    LAPLACIAN,
    MATERN12,
    MIN_SAMPLE_ROWS,
    SAMPLE_ROWS,
    Adam,
    ArdSample,
    LeaveOneOut,
    ard_samples,
    fit_ard,
    loo_errors,
    minibatches,
    sample_rows,
)


def kernel(rows: int, seed: int = 0) -> torch.Tensor:
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, 3)))
    return torch.exp(-torch.cdist(x, x))


def test_errors_are_those_of_fits_without_the_row() -> None:
    k, y, lam = kernel(12), torch.from_numpy(np.random.default_rng(1).normal(size=(12, 2))), 0.3
    found = loo_errors(k, y, lam)
    for i in range(12):
        others = [j for j in range(12) if j != i]
        matrix = k[others][:, others] + CONSTANT + lam * torch.eye(11)
        predicted = (k[i, others] + CONSTANT) @ torch.linalg.solve(matrix, y[others])
        assert torch.allclose(found[i], y[i] - predicted)


def test_the_gradient_is_that_of_differences() -> None:
    y = torch.from_numpy(np.random.default_rng(1).normal(size=(10, 2)))
    matrix = (kernel(10) + 0.3 * torch.eye(10)).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: LeaveOneOut.apply((m + m.T) / 2, y), (matrix,))


def test_a_short_time_limit_has_a_smaller_sample() -> None:
    assert sample_rows(1e6) == sample_rows(60) == SAMPLE_ROWS
    assert sample_rows(60 / 8) == SAMPLE_ROWS // 2
    assert sample_rows(0) == MIN_SAMPLE_ROWS


def test_float32_has_the_errors_of_float64() -> None:
    k, y = kernel(600), torch.from_numpy(np.random.default_rng(1).normal(size=(600, 1)))
    expected = loo_errors(k, y, 0.01)
    assert torch.allclose(loo_errors(k.float(), y.float(), 0.01).double(), expected, rtol=1e-2, atol=1e-2)


def test_minibatches_have_every_row_before_any_twice() -> None:
    rows = np.arange(100, 110)
    drawn = list(islice(minibatches(rows, 3, 0), 6))
    assert all(len(piece) == 3 for piece in drawn)
    for three in (drawn[:3], drawn[3:]):
        together = np.concatenate(three)
        assert len(set(together)) == 9
        assert set(together) <= set(rows)
    assert not np.array_equal(drawn[0], drawn[3])


def drawn_samples(y: np.ndarray, rows: np.ndarray, count: int) -> Iterator[ArdSample]:
    return ard_samples(minibatches(rows, count, 0), y, 0)


@pytest.mark.parametrize("name", [MATERN12, LAPLACIAN])
def test_weights_grow_with_the_influence_of_a_column(name: str, rng: np.random.Generator) -> None:
    x = rng.normal(size=(1_000, 6)).astype(np.float32)
    y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.normal(size=1_000)
    groups = np.array([0, 1, 2, 3, 3, 3])  # the last three inputs are those of one column
    fitted = fit_ard(x, groups, drawn_samples(y, np.arange(1_000), 300), name, lambda: False)
    assert fitted is not None
    found = fitted.weights(groups)
    assert found[0] == found.max() == 1
    assert found[0] > found[1] > found[2:].max()
    assert np.ptp(found[3:]) == 0


def test_weights_of_noise_stay_nearly_equal(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2_000, 5)).astype(np.float32), rng.normal(size=2_000)
    fitted = fit_ard(x, np.arange(5), drawn_samples(y, np.arange(2_000), 300), MATERN12, lambda: False)
    assert fitted is not None
    found = fitted.weights(np.arange(5))
    assert found.min() > 0.3


def test_without_time_there_are_no_weights(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(50, 2)).astype(np.float32), rng.normal(size=50)
    samples = drawn_samples(y, np.arange(50), 20)
    assert fit_ard(x, np.arange(2), samples, MATERN12, lambda: True) is None


def test_adam_takes_the_steps_of_torch() -> None:
    start = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    own, other = start.clone().requires_grad_(), start.clone().requires_grad_()
    mine, reference = Adam([own]), torch.optim.Adam([other])
    for step in range(5):
        size = 0.2 / (1 + step)
        for p in (own, other):
            (p**4).sum().backward()
        mine.step(size)
        reference.param_groups[0]["lr"] = size
        reference.step()
        reference.zero_grad()
        assert torch.allclose(own, other, rtol=1e-12)


def test_rows_of_nearly_no_weight_do_not_choose_feature_weights(rng: np.random.Generator) -> None:
    """The target of half of the rows follows the second input and is huge; their weight is a millionth."""
    x = rng.normal(size=(160, 2)).astype(np.float32)
    y, w = np.where(np.arange(160) < 80, np.sin(2 * x[:, 0]), 200 * np.sin(2 * x[:, 1])), np.ones(160)
    w[80:] = 1e-6
    samples = [ArdSample(np.arange(160), torch.from_numpy(y)[:, None].double(), w=w)] * 10
    fitted = fit_ard(x, np.arange(2), samples, "matern12", lambda: False)
    assert fitted is not None
    found = fitted.weights(np.arange(2))
    assert found[0] == 1
    assert found[1] < 0.5
