"""The product with one half of a symmetric matrix is that with the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from joker.solvers.block.box_cg import MOST_ROWS, SymmetricProduct


def symmetric(b: int, dtype: torch.dtype) -> torch.Tensor:
    half = torch.randn(b, b, generator=torch.Generator().manual_seed(0), dtype=dtype)
    return half + half.T


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("b", [1, 7, 300, MOST_ROWS + 1])
def test_the_product_is_that_of_the_whole_matrix(b: int, dtype: torch.dtype) -> None:
    K, v = symmetric(b, dtype), torch.randn(b, generator=torch.Generator().manual_seed(1), dtype=dtype)
    found = SymmetricProduct(K)(v.numpy())
    assert found.dtype == v.numpy().dtype
    tolerance = 50 * torch.finfo(dtype).eps * b**0.5
    np.testing.assert_allclose(found, (K.double() @ v.double()).numpy(), atol=tolerance, rtol=tolerance)


def test_a_matrix_with_gaps_between_its_rows() -> None:
    padded = torch.full((50, 64), torch.nan)
    padded[:, :50] = K = symmetric(50, torch.float32)
    v = np.ones(50, dtype=np.float32)
    np.testing.assert_allclose(SymmetricProduct(padded[:, :50])(v), K.sum(1).numpy(), rtol=1e-4, atol=1e-4)


def test_blas_reads_the_matrix_where_it_is() -> None:
    """A copy of the matrix for each product would take longer than the product."""
    K = symmetric(20, torch.float64)
    product = SymmetricProduct(K)
    assert product.K is not None
    assert product.K.flags.f_contiguous
    assert np.shares_memory(product.K, K.numpy())
