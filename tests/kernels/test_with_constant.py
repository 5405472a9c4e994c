"""The kernel with the constant of an intercept: k(x, z) + 1, in every way that it is computed."""

import pytest
import torch
from peak_memory import ROUNDING, peak_bytes

from joker import kernels
from joker.kernels.kernel import KernelWithConstant, matvec

KERNELS = [kernels.get(name, bandwidth=1.7) for name in kernels.KERNELS]
every_kernel = pytest.mark.parametrize("inner", KERNELS, ids=repr)


def rows(n, d=4, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(n), dtype=dtype)


@every_kernel
def test_matrix_and_diagonal_are_those_of_the_kernel_and_one(inner):
    kernel, x, z = KernelWithConstant(inner), rows(9), rows(7)
    torch.testing.assert_close(kernel(x, z), inner(x, z) + 1)
    torch.testing.assert_close(kernel.diag(x), kernel(x, x).diagonal(), rtol=1e-9, atol=1e-9)
    assert (kernel.constant, kernel.without_constant) == (1.0, inner)


class WithoutMatrix(kernels.Gaussian):
    """A kernel that multiplies without tiles, as a GPU does."""

    def add_product(self, x, z, v, out, budget, row_bytes=(0, 0)):
        out += self(x, z) @ v
        return True


def test_a_product_without_the_matrix_has_the_constant_too():
    x, z, v = rows(30), rows(20), rows(20, 3)
    expected = WithoutMatrix(1.3)(x, z) @ v + v.sum(dim=0)
    torch.testing.assert_close(matvec(KernelWithConstant(WithoutMatrix(1.3)), x, z, v), expected)


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_call_stays_inside_its_work_space(inner, dtype):
    """Also with one input, where the matrices are most of it."""
    x, z = rows(300, 1, dtype), rows(200, 1, dtype)
    for kernel in (inner, KernelWithConstant(inner)):
        planned = kernel.work_bytes(300, 200, 1, dtype.itemsize)
        assert peak_bytes(lambda kernel=kernel: kernel(x, z)) <= planned + ROUNDING


def test_a_derived_kernel_is_not_computed_as_its_base_class():
    """It may be another function of the distance; only a class that names its own function is fused."""
    assert kernels.Gaussian().own_profile == "gaussian"
    assert WithoutMatrix().own_profile is None


class Kept(kernels.Kernel):
    """A kernel that returns a part of a matrix, and not a copy of it."""

    values = torch.ones(9, 9)

    def __call__(self, x, z):
        return self.values[: len(x), : len(z)]

    def diag(self, x):
        return x.new_ones(len(x))


def test_the_constant_is_not_added_to_a_matrix_of_the_kernel_itself():
    kernel = KernelWithConstant(Kept())
    for _ in range(2):
        assert (kernel(rows(9), rows(7)) == 2).all()
    assert (Kept.values == 1).all()
