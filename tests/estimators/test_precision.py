"""How a fit computes: the floating-point type and the form of the distances, from rounding errors of its kernel."""

import pytest
import torch

from joker.estimators.precision import KernelFacts, precision_of
from joker.kernels import Gaussian, Laplacian
from joker.losses.classification import Hinge
from joker.losses.regression import Squared
from joker.solvers import ProblemSize

FLOAT32, FLOAT64 = torch.float32, torch.float64
N = 100_000


def facts(bandwidth, kernel=Gaussian):
    draw = torch.Generator().manual_seed(0)
    return KernelFacts(kernel(bandwidth), torch.randn(400, 5, generator=draw, dtype=FLOAT64) + 3)


def chosen(bandwidth, penalty, *, loss=None, kernel=Gaussian, **flags):
    size = ProblemSize(loss=loss or Squared(), rows=N)
    return precision_of(size, False, loss or Squared(), penalty, 0.01, lambda: facts(bandwidth, kernel), 2_048, **flags)


def test_precise_distances_have_much_smaller_errors():
    found = facts(0.05)
    assert found.precise.error(N) < 0.01 * found.error(N)
    assert facts(1.0, Laplacian).precise is None  # it has no cancellation


@pytest.mark.parametrize(
    ("bandwidth", "fused", "dtype", "precise"),
    [(2.0, True, FLOAT32, False), (0.05, True, FLOAT32, True), (0.05, False, FLOAT64, False)],
)
def test_where_products_are_fused_precise_distances_replace_float64(bandwidth, fused, dtype, precise):
    found = chosen(bandwidth, 0.01, fused=fused)
    assert (found.dtype, found.precise) == (dtype, precise)
    assert "errors of about" in found.why


def test_float64_where_not_even_precise_distances_are_enough():
    assert chosen(0.05, 3e-3, loss=Hinge(), fused=True).precise
    assert chosen(0.05, 1e-9, loss=Hinge(), fused=True).dtype == FLOAT64
    assert chosen(0.05, 1e-9, fused=True).dtype == FLOAT64  # λ is below the rounding errors of the eigenvalues


@pytest.mark.parametrize(("bandwidth", "precise"), [(2.0, False), (0.05, True)])
def test_float32_as_asked_has_precise_distances_where_these_are_better(bandwidth, precise):
    found = chosen(bandwidth, 1e-3 if precise else 0.01, given=FLOAT32, fused=True)
    assert (found.dtype, found.precise) == (FLOAT32, precise)
    assert not chosen(bandwidth, 1e-3, given=FLOAT32, fused=False).precise
    assert chosen(bandwidth, 1e-3, given=FLOAT64, fused=True).why == "as asked"
