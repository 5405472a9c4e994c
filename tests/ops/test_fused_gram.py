"""Kernel matrices by differences, and products without the matrix: fused, against the kernels in float64."""

import pytest
import torch

from joker import kernels
from joker.ops import gram

PROFILES = {
    "exponential": kernels.Laplacian,
    "gaussian": kernels.Gaussian,
    "cauchy": kernels.Cauchy,
    "matern12": kernels.Matern12,
    "matern32": kernels.Matern32,
    "matern52": kernels.Matern52,
}
DIFFERENCES = [name for name, profile in gram.PROFILES.items() if profile.differences]
SIGMA = 4.0


def rows(draw, n, b, d):
    """Rows far from the origin, some of them on both sides."""
    x, z = draw(n, d) + 5, draw(b, d) + 5
    both = min(n, b) // 2
    z[:both] = x[:both]
    return x, z


def exact(name, x, z):
    kernel = PROFILES[name](SIGMA)
    return kernel(x.double(), z.double())


def run(name, *arguments, **options):
    profile = gram.PROFILES[name]
    launch = gram.launch_difference_product if profile.differences else gram.launch_radial_product
    return launch(*arguments, profile, SIGMA, **options)


@pytest.mark.parametrize("name", ["exponential", "matern12"])
@pytest.mark.parametrize("shape", [(70, 20, 7), (1, 1, 1)])
def test_matrices(name, shape, draw):
    x, z = rows(draw, *shape)
    for matrix in (gram.launch_gram(x, z, gram.PROFILES[name], SIGMA), gram.gram(x, z, name, SIGMA)):
        torch.testing.assert_close(matrix.double(), exact(name, x, z), rtol=0, atol=1e-6)


def test_the_distance_itself(draw):
    x, z = rows(draw, 20, 10, 3)
    distance = gram.launch_gram(x, z, gram.PROFILES["distance"], 2.0)
    torch.testing.assert_close(distance, torch.cdist(x, z, p=1.0) / 2)
    assert distance.diagonal()[:5].abs().max() == 0


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("t", [1, 3])
def test_products(name, t, draw):
    x, z = rows(draw, 70, 150, 7)
    v = draw(150, t)
    want, mass = exact(name, x, z) @ v.double(), v.abs().double().sum(0)
    options = [{}] if gram.PROFILES[name].differences else [{"split": True}, {"split": False}]
    for option in options:
        assert ((run(name, x, z, v, **option) - want).abs() <= 2e-6 * mass).all()


def test_equal_rows_are_at_distance_zero(draw):
    x = draw(40, 33)
    for split in (True, False):
        product = run("matern32", x, x, torch.eye(40, device=x.device), split=split)
        assert torch.equal(product.diagonal(), x.new_ones(40))


@pytest.mark.parametrize("name", ["gaussian", "exponential"])
def test_products_are_added_tile_by_tile(name, draw, monkeypatch):
    monkeypatch.setattr(gram, "fuses", lambda *tensors: True)
    x, z = rows(draw, 300, 260, 3)
    v, out = draw(260, 1), torch.ones(300, 1, device=x.device)
    budget = next(b for b in range(2**22, 2**24, 2**10) if gram.product_rows(x, z, v, b))
    assert gram.product_rows(x, z, v, budget) == gram.TILE
    gram.add_product(x, z, v, out, name, SIGMA, budget)
    torch.testing.assert_close(out.double() - 1, exact(name, x, z) @ v.double(), rtol=0, atol=1e-4)


def test_a_small_budget_has_no_room_for_the_copies(draw, monkeypatch):
    monkeypatch.setattr(gram, "fuses", lambda *tensors: True)
    x, z = rows(draw, 300, 260, 3)
    assert gram.product_rows(x, z, draw(260, 1), 1000) == 0
    assert gram.product_rows(x, z, draw(260, gram.MOST_COLUMNS + 1), 2**30) == 0


def test_elsewhere_the_plain_form_serves():
    x, z = torch.ones(3, 2, dtype=torch.float64), torch.zeros(4, 2, dtype=torch.float64)
    for name in PROFILES:
        out = torch.zeros(3, 1, dtype=torch.float64)
        gram.add_product(x, z, torch.ones(4, 1, dtype=torch.float64), out, name, SIGMA, 2**20)
        torch.testing.assert_close(out, exact(name, x, z).sum(1, keepdim=True))
