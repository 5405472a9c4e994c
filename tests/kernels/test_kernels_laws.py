"""The laws of every kernel, checked for a list of instances: add a new kernel to the list."""

import math
from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
import torch
from case_names import without_address
from hypothesis import given
from hypothesis import strategies as st
from peak_memory import ROUNDING, peak_bytes
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics import pairwise

from joker import kernels
from joker.errors import InvalidParameter, UnknownName
from joker.kernels import Kernel, Stationary, squared_distance
from joker.kernels.kernel import KernelWithConstant, absolute_distance, decay

SIGMA = 1.7


def _l2(x, z):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(x, z, strict=True)))


def _l1(x, z):
    return sum(abs(a - b) for a, b in zip(x, z, strict=True))


def _dot(x, z):
    return sum(a * b for a, b in zip(x, z, strict=True))


def _matern32(x, z):
    s = math.sqrt(3) * _l2(x, z) / SIGMA
    return (1 + s) * math.exp(-s)


def _matern52(x, z):
    s = math.sqrt(5) * _l2(x, z) / SIGMA
    return (1 + s + s**2 / 3) * math.exp(-s)


# Each kernel with its formula for two rows that are lists of numbers.
FORMULAS = [
    (kernels.Gaussian(SIGMA), lambda x, z: math.exp(-(_l2(x, z) ** 2) / (2 * SIGMA**2))),
    (kernels.Laplacian(SIGMA), lambda x, z: math.exp(-_l1(x, z) / SIGMA)),
    (kernels.Matern12(SIGMA), lambda x, z: math.exp(-_l2(x, z) / SIGMA)),
    (kernels.Matern32(SIGMA), _matern32),
    (kernels.Matern52(SIGMA), _matern52),
    (kernels.Cauchy(SIGMA), lambda x, z: 1 / (1 + _l2(x, z) ** 2 / SIGMA**2)),
    (kernels.Linear(), _dot),
    (kernels.Polynomial(SIGMA), lambda x, z: (_dot(x, z) / SIGMA**2 + 1) ** 3),
    (kernels.Polynomial(SIGMA, degree=2), lambda x, z: (_dot(x, z) / SIGMA**2 + 1) ** 2),
    (KernelWithConstant(kernels.Matern12(SIGMA)), lambda x, z: math.exp(-_l2(x, z) / SIGMA) + 1),
]
SKLEARN = [
    (kernels.Gaussian(SIGMA), lambda x, z: pairwise.rbf_kernel(x, z, gamma=1 / (2 * SIGMA**2))),
    (kernels.Laplacian(SIGMA), lambda x, z: pairwise.laplacian_kernel(x, z, gamma=1 / SIGMA)),
    (kernels.Matern12(SIGMA), Matern(SIGMA, nu=0.5)),
    (kernels.Matern32(SIGMA), Matern(SIGMA, nu=1.5)),
    (kernels.Matern52(SIGMA), Matern(SIGMA, nu=2.5)),
    (kernels.Linear(), pairwise.linear_kernel),
    (kernels.Polynomial(SIGMA), lambda x, z: pairwise.polynomial_kernel(x, z, 3, gamma=1 / SIGMA**2, coef0=1)),
]
INSTANCES = [kernel for kernel, _ in FORMULAS]
STATIONARY = [kernel for kernel in INSTANCES if isinstance(kernel, Stationary)]
EPS32 = torch.finfo(torch.float32).eps

every_kernel = pytest.mark.parametrize("kernel", INSTANCES, ids=repr)
every_stationary = pytest.mark.parametrize("kernel", STATIONARY, ids=repr)


def rows(n, d=4, seed=0, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize(("kernel", "formula"), FORMULAS, ids=without_address)
def test_the_value_is_the_formula(kernel, formula):
    x, z = rows(7, seed=1), rows(5, seed=2)
    naive = [[formula(a, b) for b in z.tolist()] for a in x.tolist()]
    np.testing.assert_allclose(kernel(x, z).numpy(), naive, rtol=1e-12)


@pytest.mark.parametrize(("kernel", "reference"), SKLEARN, ids=without_address)
def test_the_value_is_that_of_scikit_learn(kernel, reference):
    x, z = rows(30, 6, seed=1), rows(20, 6, seed=2)
    np.testing.assert_allclose(kernel(x, z).numpy(), reference(x.numpy(), z.numpy()), rtol=1e-12)


@every_kernel
def test_it_is_symmetric(kernel):
    x, z = rows(9, seed=1), rows(6, seed=2)
    torch.testing.assert_close(kernel(x, z), kernel(z, x).T, rtol=1e-13, atol=1e-14)


@every_kernel
@given(seed=st.integers(0, 1000), d=st.integers(1, 6), sigma=st.floats(0.1, 10), duplicates=st.booleans())
def test_it_is_positive_semidefinite(kernel, seed, d, sigma, duplicates):
    x = rows(12, d, seed)
    x = torch.cat([x, x[:4]]) if duplicates else x
    values = torch.linalg.eigvalsh(kernel.with_bandwidth(sigma)(x, x))
    assert values[0] > -1e-12 * max(1.0, values[-1].item())


@every_kernel
def test_diag_is_the_diagonal(kernel):
    x = rows(11)
    torch.testing.assert_close(kernel.diag(x), kernel(x, x).diagonal(), rtol=1e-13, atol=0)


@every_kernel
def test_the_bandwidth_is_a_length(kernel):
    x, z = rows(8, seed=1), rows(6, seed=2)
    if not kernel.has_bandwidth:
        torch.testing.assert_close(kernel.with_bandwidth(3.0)(x, z), kernel(x, z))
        return
    wide, unit = kernel.with_bandwidth(3.0), kernel.with_bandwidth(1.0)
    torch.testing.assert_close(wide(x, z), unit(x / 3.0, z / 3.0), rtol=1e-12, atol=1e-14)


@every_stationary
def test_the_distance_is_the_kernels_own(kernel):
    """Kernel values are equal for equal values of ``distance``, and smaller for larger ones."""
    x, z = rows(1), rows(50, seed=3)
    order = kernel.distance(x, z)[0].argsort()
    assert kernel(x, z)[0, order].diff().max() < 0
    norm = 1 if kernel.name == "laplacian" else 2
    torch.testing.assert_close(kernel.distance(x, z), torch.cdist(x, z, p=norm), rtol=1e-12, atol=0)


@every_kernel
def test_distances_grow_with_the_rows(kernel):
    x, z = rows(5, seed=1), rows(7, seed=2)
    torch.testing.assert_close(kernel.distance(2 * x, 2 * z), 2 * kernel.distance(x, z), rtol=1e-12, atol=0)


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_arguments_are_not_changed(kernel, dtype):
    x, z = rows(8, 6, dtype=dtype)[:, ::2], rows(6, 3, dtype=dtype)
    before = x.clone(), z.clone()
    value = kernel(x, z)
    kernel.diag(x)
    kernel.distance(x, z)
    assert torch.equal(x, before[0])
    assert torch.equal(z, before[1])
    assert value.dtype == dtype
    assert value.shape == (8, 6)
    assert kernel(x[:0], z).shape == (0, 6)
    assert kernel(x, z[:0]).shape == (8, 0)


@every_stationary
@pytest.mark.parametrize("d", [1, 9, 300])
def test_equal_rows_give_one_in_float32(kernel, d):
    """Rounding must not make a row differ from itself, at any distance of the data from the origin."""
    x = rows(200, d, dtype=torch.float32) * torch.logspace(-2, 1, 200).unsqueeze(1) + 1000
    narrow, most = kernel.with_bandwidth(0.1), 1e-3 if isinstance(kernel, kernels.Gaussian) else 0.0
    values = narrow(x, x).diagonal(), narrow(x[-3:], torch.cat([x[-3:], x[-3:]]))[:, 3:].diagonal()
    assert all(bool((1 - most <= found).all() and (found <= 1).all()) for found in values)
    assert torch.equal(values[1], torch.ones(3))


@every_stationary
def test_float32_is_near_float64_away_from_the_origin(kernel):
    """Without centring the error of the Gaussian kernel is larger than 0.01 here."""
    x, z = rows(300, seed=1, dtype=torch.float32) + 1000, rows(200, seed=2, dtype=torch.float32) + 1000
    torch.testing.assert_close(kernel(x, z).double(), kernel(x.double(), z.double()), rtol=0, atol=40 * EPS32)


@every_stationary
def test_float32_tells_near_rows_apart(kernel):
    """The square root in Matern12 magnifies the rounding error of a small squared distance."""
    x = rows(100, 8, seed=1, dtype=torch.float32)
    z = x + 1e-3 * rows(100, 8, seed=2, dtype=torch.float32)
    exact = kernel(x.double(), z.double()).diagonal()
    torch.testing.assert_close(kernel(x, z).diagonal().double(), exact, rtol=0, atol=100 * EPS32)


@pytest.mark.parametrize("name", ["gaussian", "matern12", "matern32", "matern52", "cauchy"])
def test_float64_tells_rows_apart_that_are_nearer_than_their_length_by_far(name):
    """A certificate in float64 relies on it. The product form has errors of 1e-9 here, and 4e-5 after a square root."""
    x = rows(50, 3, seed=1)
    z = x + 1e-3 * rows(50, 3, seed=2)
    kernel = kernels.get(name).with_bandwidth(1e-3)
    differences = ((x.unsqueeze(1) - z) / 1e-3).square().sum(-1)
    exact = kernel.profile(differences)
    torch.testing.assert_close(kernel(x, z), exact, rtol=0, atol=1e-11)


@given(seed=st.integers(0, 1000), d=st.integers(1, 40), scale=st.floats(1e-3, 1e3), offset=st.floats(-1e3, 1e3))
def test_squared_distances_are_within_their_rounding(seed, d, scale, offset):
    x, z = rows(10, d, seed), rows(8, d, seed + 1)
    exact = (x.unsqueeze(1) - z).div(scale).square().sum(-1)
    found = squared_distance(x + offset, z + offset, scale)
    eps = torch.finfo(torch.float64).eps
    lost = 2 * abs(offset) * eps / scale  # rounding error of adding the offset to each input
    norms = (x.square().sum(1).max() + z.square().sum(1).max()) / scale**2
    bound = 8 * (2 + math.sqrt(d)) * eps * norms + 4 * lost * math.sqrt(d) * exact.max().sqrt() + d * lost**2
    assert (found - exact).abs().max() <= bound
    assert found.min() >= 0


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("b", "k", "d"), [(200, 300, 5), (20, 15, 800), (1, 1, 3)])
def test_the_work_space_is_counted(kernel, dtype, b, k, d):
    x, z = rows(b, d, dtype=dtype), rows(k, d, dtype=dtype)
    assert peak_bytes(lambda: kernel(x, z)) <= kernel.work_bytes(b, k, d, x.element_size()) + ROUNDING


def two_valued(n: int, d: int, continuous: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Rows of d inputs with two values each, and some others."""
    source = torch.Generator().manual_seed(seed)
    sizes = torch.rand(d, generator=torch.Generator().manual_seed(9))
    two = (torch.rand(n, d, generator=source) < 0.3) * sizes - 0.1
    return torch.hstack([two, torch.randn(n, continuous, generator=source)]).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("d", "continuous"), [(40, 5), (40, 0), (3, 5), (8, 1)])
def test_absolute_distances_of_two_valued_inputs(d, continuous, dtype):
    """A product of matrices gives what differences give, exactly 0 for equal rows, and the same gradient."""
    x, z = two_valued(30, d, continuous, dtype), two_valued(20, d, continuous, dtype, seed=1)
    z[:10] = x[:10]
    found, exact = absolute_distance(x, z), torch.cdist(x.double(), z.double(), p=1.0)
    assert (found.double() - exact).abs().max() <= 4 * torch.finfo(dtype).eps * exact.max()
    assert not found[range(10), range(10)].any()
    weights = torch.rand(d + continuous, dtype=dtype, requires_grad=True)
    slopes = [
        torch.autograd.grad(f(x * weights, z * weights).square().sum(), weights)[0]
        for f in (absolute_distance, lambda x, z: torch.cdist(x, z, p=1.0))
    ]
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-4 * float(slopes[1].abs().max()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("b", "k", "d"), [(200, 300, 40), (20, 15, 800), (1, 1, 9)])
def test_the_work_space_of_two_valued_inputs_is_counted(b, k, d, dtype):
    x, z, kernel = two_valued(b, d, 2, dtype), two_valued(k, d, 2, dtype, seed=1), kernels.Laplacian(SIGMA)
    assert peak_bytes(lambda: kernel(x, z)) <= kernel.work_bytes(b, k, d + 2, x.element_size()) + ROUNDING


@every_kernel
def test_the_work_space_is_not_counted_twice(kernel):
    x, z = rows(200, 5, dtype=torch.float32), rows(300, 5, dtype=torch.float32)
    assert peak_bytes(lambda: kernel(x, z)) >= 0.8 * kernel.work_bytes(200, 300, 5, x.element_size())


@pytest.mark.parametrize("name", kernels.KERNELS)
def test_get_finds_every_kernel(name):
    kernel = kernels.get(name, bandwidth=2.5)
    assert kernel.name == name
    assert kernel.bandwidth == (2.5 if kernel.has_bandwidth else 1.0)
    assert kernels.get(kernel) is kernel
    assert kernels.get(kernel, bandwidth=3.5) == kernel.with_bandwidth(3.5)


def test_the_polynomial_keeps_its_degree():
    assert kernels.get(kernels.Polynomial(degree=5), bandwidth=2.0) == kernels.Polynomial(2.0, degree=5)
    assert kernels.get("polynomial").degree == 3


@pytest.mark.parametrize("name", ["gausian", "", None, 3])
def test_get_names_the_known_kernels(name):
    with pytest.raises(UnknownName, match=r"kernel .* must be one of cauchy, gaussian, .*; got"):
        kernels.get(name)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, math.inf, math.nan, 10**400, "wide", None, True, [1.0]])
@pytest.mark.parametrize(
    "make", [kernels.Gaussian, kernels.Laplacian, kernels.Polynomial, kernels.Linear().with_bandwidth]
)
def test_a_bandwidth_must_be_positive_and_finite(make, bandwidth):
    with pytest.raises(InvalidParameter, match=r"bandwidth must be a positive finite number; got .* Use"):
        make(bandwidth)


@pytest.mark.parametrize("bandwidth", [2, 0.5, np.float32(0.5), np.int64(3)])
def test_a_bandwidth_may_be_any_real_number(bandwidth):
    found = kernels.Gaussian(bandwidth).bandwidth
    assert found == bandwidth
    assert type(found) is float


@pytest.mark.parametrize("degree", [0, -1, 2.5, "two"])
def test_a_degree_must_be_a_positive_whole_number(degree):
    with pytest.raises(InvalidParameter, match="degree must be a whole number of at least 1"):
        kernels.Polynomial(1.0, degree=degree)


@every_kernel
def test_kernels_are_values(kernel):
    with pytest.raises(FrozenInstanceError):
        kernel.bandwidth = 2.0
    assert kernel == kernel.with_bandwidth(kernel.bandwidth)
    assert len({kernel, kernel.with_bandwidth(kernel.bandwidth)}) == 1


@dataclass(frozen=True)
class Sinc(Kernel):
    """A user-defined kernel, ∏ sinc((x − z)/σ), with the required methods only."""

    name = "sinc"

    def __call__(self, x, z):
        return torch.sinc((x.unsqueeze(1) - z) / self.bandwidth).prod(-1)

    def diag(self, x):
        return x.new_ones(len(x))


def test_a_user_defined_kernel_is_a_kernel():
    kernel = kernels.get(Sinc(), bandwidth=2.0)
    x = rows(6)
    torch.testing.assert_close(kernel(x, x).diagonal(), kernel.diag(x))
    assert kernel.with_bandwidth(0.5).bandwidth == 0.5
    torch.testing.assert_close(kernel.distance(x, x[:3]), torch.cdist(x, x[:3]), rtol=1e-6, atol=1e-6)


@pytest.mark.gpu
@every_kernel
@pytest.mark.parametrize("d", [1, 28, 300])
def test_the_accelerator_agrees(kernel, d):
    x, z = rows(300, d, seed=1, dtype=torch.float32), rows(200, d, seed=2, dtype=torch.float32)
    kernel = kernel.with_bandwidth(SIGMA * math.sqrt(d))
    torch.testing.assert_close(kernel(x.cuda(), z.cuda()).cpu(), kernel(x, z), rtol=1e-4, atol=1e-5)
    if isinstance(kernel, Stationary):
        least = 1 - 1e-3 if isinstance(kernel, kernels.Gaussian) else 1.0  # as on the CPU
        found = kernel.with_bandwidth(0.1)(x.cuda(), x.cuda()).diagonal()
        assert bool((found >= least).all() and (found <= 1).all())


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "matern12", "matern32", "matern52"])
def test_rows_far_apart_give_no_subnormal_numbers(name: str) -> None:
    """A CPU computes with them about twenty times slower."""
    x, z = torch.linspace(0, 300, 500)[:, None], torch.zeros(1, 1)
    k = kernels.get(name, 1.0)(x, z)
    assert float(k.min()) >= torch.finfo(torch.float32).tiny
    torch.testing.assert_close(k.double(), kernels.get(name, 1.0)(x.double(), z.double()), rtol=1e-4, atol=1e-20)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.01, 1.0, 1e3])  # subnormal values, usual ones, and nearly equal rows
def test_the_gaussian_in_fewer_passes_is_that_of_its_distances(dtype: torch.dtype, scale: float) -> None:
    draw = torch.Generator().manual_seed(0)
    x, z = (3 * torch.randn(n, 6, generator=draw, dtype=dtype) for n in (40, 30))
    z[:10] = x[:10]
    by_distances = decay(squared_distance(x, z, scale).mul_(0.5))
    rounding = 10 * torch.finfo(dtype).eps * (1 + min(54 / scale**2, 88))
    torch.testing.assert_close(kernels.Gaussian(bandwidth=scale)(x, z), by_distances, rtol=rounding, atol=1e-20)
    assert (by_distances.diagonal()[:10] == 1).all()


def test_rounding_does_not_raise_the_values_of_the_gaussian() -> None:
    """A sum of them would have an error that grows with the number of rows, and gaps would be below the true ones."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(600, 100, generator=draw)
    found, exact = (kernels.Gaussian(bandwidth=7.0)(rows, rows) for rows in (x, x.double()))
    errors = (found.double() / exact - 1)[~torch.eye(600, dtype=torch.bool)]
    assert float(errors.mean().abs()) < 0.1 * float(errors.std())
    assert float(errors.std()) < 5 * torch.finfo(torch.float32).eps


def test_long_rows_have_the_value_one_with_themselves() -> None:
    """Their neighbours decide whether a narrow kernel reduces their norms: a row and its copy are treated alike."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(400, 5, generator=draw) * torch.logspace(0, 3, 400)[:, None]
    K = kernels.Gaussian(bandwidth=1.0)(x, x.clone())
    assert float((K.diagonal() - 1).abs().max()) <= 1e-3
    assert (K.diagonal()[300:] == 1).all()


def test_a_kernel_derived_from_the_gaussian_has_a_profile_of_its_own() -> None:
    class Double(kernels.Gaussian):
        def profile(self, r2: torch.Tensor) -> torch.Tensor:
            return 2 * super().profile(r2)

    x = torch.arange(6.0).reshape(3, 2)
    torch.testing.assert_close(Double()(x, x), 2 * kernels.Gaussian()(x, x))
