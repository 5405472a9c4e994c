"""Kernels of numbers: the entries of a matrix, and the values of a function of two arrays."""

from itertools import product

import numpy as np
import pytest
import torch

from joker.errors import InvalidData
from joker.kernels import get
from joker.kernels.kernel import KernelWithConstant
from joker.kernels.precomputed import FunctionKernel, Precomputed

N = 30
MATRIX = torch.randn(N, N, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
MATRIX = MATRIX + MATRIX.T  # symmetric to the last bit
NUMBERS = {
    "all": torch.arange(N),
    "run": torch.arange(4, 11),
    "one": torch.tensor([7]),
    "backwards": torch.arange(N - 1, -1, -1),
    "repeated": torch.tensor([3, 3, 4]),
    "same ends as a run": torch.tensor([2, 9, 1, 5]),
    "none": torch.arange(0),
}


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("rows", "columns"), list(product(NUMBERS, NUMBERS)))
def test_values_are_entries_of_the_matrix(rows: str, columns: str, symmetric: bool) -> None:
    i, j = NUMBERS[rows], NUMBERS[columns]
    for dtype in (torch.float32, torch.float64):
        kernel = Precomputed(matrix=MATRIX, symmetric=symmetric)
        found = kernel(i[:, None].to(dtype), j[:, None].to(dtype))
        assert torch.equal(found, MATRIX[i][:, j].to(dtype))
        assert torch.equal(kernel.diag(i[:, None].to(dtype)), MATRIX.diagonal()[i].to(dtype))


def test_new_rows_are_not_taken_for_columns() -> None:
    """A square matrix of new rows is not symmetric."""
    matrix = MATRIX + torch.arange(N)
    x = torch.tensor([[5.0], [2.0]], dtype=torch.float64)
    found = Precomputed().reading(matrix)(torch.arange(N, dtype=torch.float64)[:, None], x)
    assert torch.equal(found, matrix[:, [5, 2]])


def test_a_kernel_without_its_matrix_is_equal_and_says_what_it_needs() -> None:
    kernel = KernelWithConstant(get("precomputed").reading(MATRIX, symmetric=True))
    assert kernel.precomputed
    assert kernel.reading(None) == KernelWithConstant(Precomputed())
    assert kernel.without_constant.digest() != Precomputed(matrix=MATRIX.roll(1, 0)).digest()
    with pytest.raises(InvalidData, match="it has no matrix"):
        kernel.reading(None)(torch.zeros(1, 1), torch.zeros(1, 1))


def test_a_function_is_called_with_float64_and_read_in_the_type_of_the_rows() -> None:
    x = torch.randn(70, 3, generator=torch.Generator().manual_seed(0))
    kernel = get(lambda a, b: a @ b.T)
    assert isinstance(kernel, FunctionKernel)
    assert kernel(x, x[:5]).dtype == torch.float32
    assert torch.allclose(kernel(x, x[:5]), x @ x[:5].T, atol=1e-5)
    assert torch.allclose(kernel.diag(x), x.square().sum(1), atol=1e-5)
    assert kernel(x[:0], x).shape == (0, 70)
    assert kernel.diag(x[:0]).shape == (0,)


def test_a_function_may_return_the_same_array_again() -> None:
    kept = np.ones((2, 2))
    kernel = get(lambda a, b: kept)
    first = kernel(torch.zeros(2, 1, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64))
    first += 1
    assert (kept == 1).all()
