"""Leave-one-out errors: their values, their gradient, and the size of the sample."""

import numpy as np
import torch

from joker.tables.leave_one_out import CONSTANT, MIN_SAMPLE_ROWS, SAMPLE_ROWS, LeaveOneOut, errors, sample_rows


def kernel(rows: int, seed: int = 0) -> torch.Tensor:
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(rows, 3)))
    return torch.exp(-torch.cdist(x, x))


def test_errors_are_those_of_fits_without_the_row() -> None:
    k, y, lam = kernel(12), torch.from_numpy(np.random.default_rng(1).normal(size=(12, 2))), 0.3
    found = errors(k, y, lam)
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
