"""A stationary kernel is the mean of cos⟨w, x − z⟩ over its own spectrum."""

import math

import pytest
import torch

from joker import kernels
from joker.kernels import Radial, Stationary

M = 2**17
STATIONARY = [k for k in (kernels.get(name, bandwidth=0.6) for name in kernels.KERNELS) if isinstance(k, Stationary)]
RADIAL = [k for k in STATIONARY if isinstance(k, Radial)]


def source(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
@pytest.mark.parametrize("length", [0.1, 0.5, 1.5])
def test_its_characteristic_function_is_the_kernel(kernel, length):
    r = length * torch.tensor([[0.6, -0.8, 0.0]], dtype=torch.float64)
    waves = torch.cos(r @ kernel.spectrum(3, M, source()))
    error = waves.mean() - kernel(r, torch.zeros_like(r))
    assert error.abs() < 5 * waves.std() / math.sqrt(M)


def test_gaussian_frequencies_have_standard_deviation_one_over_sigma():
    """N(0, σ²), as printed in the paper, would give σ."""
    w = kernels.Gaussian(4.0).spectrum(2, M, source())
    torch.testing.assert_close(w.std(dim=1), torch.full((2,), 0.25, dtype=torch.float64), rtol=0.02, atol=0)


def test_laplacian_frequencies_are_cauchy_of_scale_one_over_sigma():
    """The size of a Cauchy variable is below its scale with probability 1/2; of two independent ones, with 1/4."""
    w = kernels.Laplacian(4.0).spectrum(2, M, source())
    within = (w.abs() < 0.25).double()
    torch.testing.assert_close(within.mean(dim=1), torch.full((2,), 0.5, dtype=torch.float64), rtol=0.02, atol=0)
    assert within.prod(dim=0).mean().item() == pytest.approx(0.25, rel=0.03)


@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_the_mixture_mixes_gaussian_kernels(kernel):
    r2 = torch.tensor([0.04, 0.5, 2.0], dtype=torch.float64)
    draws = torch.exp(-0.5 * kernel.mixture(M, source()).square().unsqueeze(1) * r2)
    error = draws.mean(dim=0) - kernel.profile(r2.clone())
    assert (error.abs() < 5 * draws.std(dim=0) / math.sqrt(M) + 1e-12).all()


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
def test_a_draw_is_float64_and_its_generators_own(kernel):
    w = kernel.spectrum(3, 50, source(1))
    assert w.shape == (3, 50)
    assert w.dtype == torch.float64
    torch.manual_seed(7)
    assert torch.equal(w, kernel.spectrum(3, 50, source(1)))
    assert not torch.equal(w, kernel.spectrum(3, 50, source(2)))
