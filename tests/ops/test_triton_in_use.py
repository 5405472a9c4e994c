"""Maps and kernels that are fused on a GPU, with the fused kernels in Triton's interpreter."""

import pytest
import torch

from joker import features, kernels
from joker.features.feature_map import FeaturesWithConstant
from joker.kernels.kernel import KernelWithConstant, matvec
from joker.ops import fourier, gram

KINDS = ["fourier", "fourier_pairs", "structured"]
FUSED = ["gaussian", "cauchy", "matern12", "matern32", "matern52", "laplacian"]


@pytest.fixture
def fused(device, monkeypatch):
    """Use the fused kernels on the CPU too, as on a GPU."""
    if device == "cpu":
        for module in (fourier, gram, fourier):
            monkeypatch.setattr(
                module, "fuses", lambda *tensors, dtype=torch.float32: all(t.dtype == dtype for t in tensors)
            )
        plain = fourier.launch_structured
        monkeypatch.setattr(fourier, "launch_structured", lambda *args: plain(*args, parts="float32"))


@pytest.fixture
def spied(monkeypatch):
    """The names of the fused kernels that were run."""
    ran = []
    for module, name in (
        (fourier, "launch_cosines"),
        (fourier, "launch_cosine_sum"),
        (fourier, "launch_structured"),
        (gram, "launch_gram"),
        (gram, "launch_radial_product"),
        (gram, "launch_difference_product"),
    ):
        launch = getattr(module, name)
        spy = lambda *args, name=name, launch=launch, **kw: (ran.append(name), launch(*args, **kw))[1]  # noqa: E731
        monkeypatch.setattr(module, name, spy)
    return ran


@pytest.mark.parametrize("kind", KINDS)
def test_a_map_of_a_machine_with_an_intercept(kind, device, draw, spied, fused):
    """Its features, their bfloat16 and its predictions, all of a slice, agree with float64 on the CPU."""
    whole = features.draw(kernels.Gaussian(2.0), kind, 3, 40, 0, dtype=torch.float64)
    wide = FeaturesWithConstant(whole, 8).slice(5, 41)
    psi = FeaturesWithConstant(whole.to(torch.float32, device), 4).slice(5, 41)
    x, theta = draw(5, 3), draw(36, 1)
    want = wide(x.double().cpu())
    high, low = psi.mixed(x)
    predictions = psi.apply(x, theta)
    torch.testing.assert_close(high.double().cpu(), want, rtol=0, atol=1e-5)
    torch.testing.assert_close(low[:5, :36], high.bfloat16(), rtol=2**-7, atol=0)
    torch.testing.assert_close(predictions.double().cpu(), want @ theta.double().cpu(), rtol=0, atol=1e-4)
    launched = {"structured": ["launch_structured"] * 2}.get(kind, ["launch_cosines", "launch_cosine_sum"])
    assert spied == launched


@pytest.mark.parametrize("kind", KINDS[:2])
def test_sums_take_no_room_for_the_features(kind, device, fused):
    """So that a machine predicts many rows at a time; with too many columns or inputs it does not."""
    psi = features.draw(kernels.Gaussian(2.0), kind, 3, 2000, 0, device=device)
    assert psi.apply_bytes(10**5, 1) < psi.work_bytes(10**5) / 50
    assert psi.apply_bytes(10**5, fourier.MOST_COLUMNS + 1) == psi.work_bytes(10**5)
    psi = features.draw(kernels.Gaussian(2.0), kind, fourier.MOST_INPUTS + 1, 2000, 0, device=device)
    assert psi.apply_bytes(10**5, 2) == psi.work_bytes(10**5)


def test_pairs_are_applied_as_two_sums(device, draw, spied, fused):
    psi = features.draw(kernels.Gaussian(2.0), "fourier_pairs", 3, 40, 0, device=device)
    x, theta = draw(5, 3), draw(40, 1)
    applied = psi.apply(x, theta)
    assert spied == ["launch_cosine_sum"] * 2
    torch.testing.assert_close(applied, psi(x) @ theta, rtol=0, atol=1e-5)
    norm = psi(x).square().sum(1)
    torch.testing.assert_close(norm, torch.ones_like(norm), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", FUSED)
def test_products_without_the_matrix(name, device, draw, spied, fused):
    if device == "cuda" and name not in {"gaussian", "laplacian"}:
        pytest.skip("the kernels are compared one by one elsewhere")
    kernel = KernelWithConstant(kernels.get(name, 4.0))
    x, z, v = draw(7, 3), draw(5, 3), draw(5, 2)
    product = matvec(kernel, x, z, v)
    assert len(spied) == 1
    assert spied[0].endswith("_product")
    want = kernel(x.double(), z.double()) @ v.double()
    torch.testing.assert_close(product.double(), want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["laplacian", "matern12"])
def test_matrices_by_differences(name, device, draw, spied, fused):
    if device == "cuda" and name == "matern12":
        pytest.skip("the kernels are compared one by one elsewhere")
    kernel = kernels.get(name, 4.0)
    x, z = draw(7, 3), draw(5, 3)
    torch.testing.assert_close(kernel(x, z).double(), kernel(x.double(), z.double()), rtol=0, atol=1e-6)
    assert spied == ["launch_gram"]


def test_a_small_budget_is_kept_by_tiles(device, draw, spied, fused):
    kernel = kernels.Gaussian(4.0)
    x, z, v = draw(200, 3), draw(5, 3), draw(5, 2)
    torch.testing.assert_close(matvec(kernel, x, z, v, 10_000), kernel(x, z) @ v)
    assert spied == []


def test_a_kernel_of_ones_own_keeps_its_own_product(device, draw, spied, fused):
    class Half(kernels.Gaussian):
        def profile(self, r2):
            return super().profile(r2) / 2

    class Twice(kernels.Laplacian):
        def distance(self, x, z):
            return 2 * super().distance(x, z)

    x, z, v = draw(7, 3), draw(5, 3), draw(5, 2)
    torch.testing.assert_close(2 * matvec(Half(4.0), x, z, v), kernels.Gaussian(4.0)(x, z) @ v)
    spied.clear()
    torch.testing.assert_close(matvec(Twice(4.0), x, z, v), kernels.Laplacian(2.0)(x, z) @ v)
    assert "launch_difference_product" not in spied
