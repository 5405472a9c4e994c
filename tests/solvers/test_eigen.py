"""The largest eigenvalues are those of a dense decomposition, and the residuals bound the errors."""

import pytest
import torch
from torch import Tensor

from joker.solvers.eigen import WHOLE, largest


def matrix(n: int, decay: float) -> Tensor:
    """A positive semidefinite matrix with eigenvalues that fall by a power."""
    draw = torch.Generator().manual_seed(0)
    q = torch.linalg.qr(torch.randn(n, n, generator=draw, dtype=torch.float64)).Q
    return q @ torch.diag(torch.arange(1, n + 1, dtype=torch.float64).pow(-decay)) @ q.T


@pytest.mark.parametrize("decay", [0.5, 2.0])
@pytest.mark.parametrize("n", [100, WHOLE + 100])
def test_they_are_those_of_a_dense_decomposition(n: int, decay: float) -> None:
    A = matrix(n, decay)
    found = largest(A.matmul, n, 3, 1e-8, 0, A)
    wanted = torch.linalg.eigvalsh(A).flip(0)[:3]
    torch.testing.assert_close(found.values, wanted, rtol=1e-7, atol=0)
    assert bool((found.residuals <= 1e-8 * wanted[0]).all())
    torch.testing.assert_close((A @ found.vectors - found.vectors * found.values).norm(dim=0), found.residuals)
    torch.testing.assert_close(found.vectors.T @ found.vectors, torch.eye(3, dtype=torch.float64))


def test_a_loose_tolerance_gives_residuals_that_bound_the_errors() -> None:
    A = matrix(WHOLE + 100, 0.7)
    found = largest(A.matmul, len(A), 3, 0.05, 0, A)
    exact = torch.linalg.eigvalsh(A)
    nearest = (exact[:, None] - found.values).abs().amin(0)
    assert bool((nearest <= found.residuals).all())
    assert float(found.residuals.max()) > 1e-6  # it has ended early


def test_a_matrix_of_low_rank_and_one_of_zeros() -> None:
    n = WHOLE + 50
    v = torch.ones(n, 1, dtype=torch.float64)
    found = largest((v @ v.T).matmul, n, 2, 1e-8, 0, v)
    torch.testing.assert_close(found.values, torch.tensor([float(n), 0.0], dtype=torch.float64))
    assert not largest(torch.zeros_like, n, 2, 1e-8, 0, v).values.any()


def test_the_seed_decides() -> None:
    A = matrix(WHOLE + 100, 1.0)
    first, second = (largest(A.matmul, len(A), 2, 1e-6, 3, A).vectors for _ in range(2))
    assert torch.equal(first, second)
