"""Kernel matrices by differences, and products without the matrix: fused, against the kernels in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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
    by_differences = profile.by_differences(arguments[0].shape[1])
    launch = gram.launch_difference_product if by_differences else gram.launch_radial_product
    return launch(*arguments, profile, SIGMA, **options)


@pytest.mark.parametrize("name", ["exponential", "matern12"])
def test_matrices(name, draw):
    x, z = rows(draw, 70, 18, 7)
    for matrix in (gram.launch_gram(x, z, gram.PROFILES[name], SIGMA), gram.gram(x, z, name, SIGMA)):
        torch.testing.assert_close(matrix.double(), exact(name, x, z), rtol=0, atol=1e-6)


def test_the_distance_itself(draw):
    x, z = rows(draw, 20, 10, 3)
    distance = gram.launch_gram(x, z, gram.PROFILES["distance"], 2.0)
    torch.testing.assert_close(distance, torch.cdist(x, z, p=1.0) / 2)
    assert distance.diagonal()[:5].abs().max() == 0


# A GPU compiles each of them: profiles that differ from another in one line are tested in the interpreter only.
PRODUCTS = [
    ("exponential", 1, {}),
    ("exponential", 3, {}),
    ("matern12", 1, {}),
    ("gaussian", 1, {}),
    ("gaussian", 3, {}),
    ("gaussian", 40, {}),
    ("matern12", 3, {}),
    ("cauchy", 1, {}),
    ("matern52", 1, {}),
]


@pytest.mark.parametrize(("name", "t", "options"), PRODUCTS, ids=str)
def test_products(name, t, options, device, draw):
    if device == "cuda" and name in {"cauchy", "matern52"}:
        pytest.skip("the interpreter has shown that the formula is right")
    x, z = rows(draw, 130, 70, 7)
    v = draw(70, t)
    want, mass = exact(name, x, z) @ v.double(), v.abs().double().sum(0)
    assert ((run(name, x, z, v, **options) - want).abs() <= 2e-6 * mass).all()


@pytest.mark.parametrize(("name", "t"), [("exponential", 1), ("gaussian", 3), ("matern12", 1), ("matern52", 40)])
def test_products_in_float64(name, t, draw):
    """All distances by differences: the certificate of a fit in float32 is computed so."""
    x, z = rows(draw, 130, 70, 7)
    x, z, v = x.double(), z.double() + 1e-9, draw(70, t).double()
    want, mass = (gram.gram(x.cpu(), z.cpu(), name, SIGMA) @ v.cpu()).to(v.device), v.abs().sum(0)
    found = gram.launch_difference_product(x, z, v, gram.PROFILES[name], SIGMA)
    assert found.dtype == torch.float64
    assert ((found - want).abs() <= 1e-14 * mass).all()


def test_roots_of_small_distances(draw):
    """Rows far from the centre with a near neighbour each: of their squared distance, a product keeps no digit."""
    x = 30 * draw(40, 7)
    z = torch.cat([x[:20] + 1e-2 * draw(20, 7), 30 * draw(20, 7)])
    v = draw(40, 2)
    for some in (v, v[:, :1]):
        want, mass = exact("matern12", x, z) @ some.double(), some.abs().double().amax(0)
        assert ((run("matern12", x, z, some) - want).abs() <= 2e-5 * mass).all()


def test_equal_rows_are_at_distance_zero(draw):
    """Rows so far apart that nothing but the diagonal counts, of a kernel that sees the root of an error."""
    x = 100 * draw(40, 33)
    assert torch.equal(run("matern32", x, x, x.new_ones(40, 1)), x.new_ones(40, 1))


@pytest.mark.parametrize("name", ["gaussian", "exponential"])
def test_products_are_added_run_by_run(name, draw, monkeypatch):
    """Runs of 128 rows, the last ones shorter, within the budget that they need."""
    x, z = rows(draw, 150, 130, 3)
    v, out = draw(130, 1), torch.ones(150, 1, device=x.device)
    want = exact(name, x, z) @ v.double()
    monkeypatch.setattr(gram, "fuses", lambda *tensors, dtype: True)
    budget = next(b for b in range(0, 2**24, 2**10) if gram.product_side(150, 130, 3, 1, b, (0, 0)))
    assert gram.product_side(150, 130, 3, 1, budget, (0, 0)) == gram.TILE
    assert gram.add_product(x, z, v, out, name, SIGMA, budget)
    torch.testing.assert_close(out.double() - 1, want, rtol=0, atol=1e-4)


def test_precise_products_are_computed_by_differences(draw, monkeypatch):
    """Rows at a distance of a thousand bandwidths, with neighbours: a matrix product keeps three digits of them."""
    x = draw(1, 5) * 400 + torch.cat([3 * draw(40, 5), 3 * draw(40, 5) + 8_000])
    kernel, v = kernels.Gaussian(SIGMA), draw(80, 1)
    want = kernel(x.double(), x.double()) @ v.double()
    monkeypatch.setattr(gram, "fuses", lambda *tensors, dtype: True)
    errors = {}
    for one in (kernel, kernel.precisely()):
        out = torch.zeros(80, 1, device=x.device)
        assert one.add_product(x, x, v, out, 2**30)
        errors[one.precise] = float((out - want).abs().max())
    assert errors[True] < 1e-3 < errors[False]


def test_products_that_list_near_rows_are_short(draw, monkeypatch):
    """Each row is near itself, and is multiplied again with the rows of a run: the runs must not be all rows."""
    x, v, lengths = draw(300, 7), draw(300, 1), []
    wanted = {"matern12": [128, 128, 44], "gaussian": [300]}
    products = {name: exact(name, x, x) @ v.double() for name in wanted}
    launch = gram.launch_radial_product
    monkeypatch.setattr(gram, "fuses", lambda *tensors, dtype: True)
    monkeypatch.setattr(gram, "NEAR_LENGTH", 128)
    monkeypatch.setattr(
        gram, "launch_radial_product", lambda x, z, *more: lengths.append(len(z)) or launch(x, z, *more)
    )
    for name, runs in wanted.items():
        out = torch.zeros(300, 1, device=x.device)
        assert gram.add_product(x, x, v, out, name, SIGMA, 2**30)
        torch.testing.assert_close(out.double(), products[name], rtol=0, atol=1e-4)
        assert lengths == runs
        lengths.clear()


def test_few_rows_in_float64_need_no_fused_kernel(monkeypatch):
    monkeypatch.setattr(gram, "fuses", lambda *tensors, dtype: True)
    x, z = torch.ones(gram.FEW_ROWS, 2, dtype=torch.float64), torch.ones(4, 2, dtype=torch.float64)
    out = torch.zeros(len(x), 1, dtype=torch.float64)
    assert not gram.add_product(x, z, z[:, :1], out, "gaussian", SIGMA, 2**30)
    assert out.abs().max() == 0


def test_float64_needs_twice_the_memory():
    """Of copies and sums: what is just enough in float32 is not enough in float64."""
    budget = next(b for b in range(0, 2**24, 2**10) if gram.product_side(150, 130, 3, 1, b, (0, 0)))
    assert not gram.product_side(150, 130, 3, 1, 2 * budget - 2**11, (0, 0), itemsize=8)
    assert gram.product_side(150, 130, 3, 1, 2 * budget, (0, 0), itemsize=8) == gram.TILE


def test_nothing_is_added_where_the_copies_do_not_fit(draw, monkeypatch):
    monkeypatch.setattr(gram, "fuses", lambda *tensors, dtype: True)
    x, z = rows(draw, 300, 260, 3)
    v, out = draw(260, 1), torch.ones(300, 1, device=x.device)
    assert not gram.add_product(x, z, v, out, "gaussian", SIGMA, 10_000)
    wide = gram.MOST_COLUMNS + 1
    assert not gram.add_product(x, z, v.expand(-1, wide), out.expand(-1, wide), "gaussian", SIGMA, 2**30)
    assert torch.equal(out, torch.ones_like(out))


@given(
    n=st.integers(1, 10**7), b=st.integers(1, 10**5), d=st.integers(1, 4000), t=st.integers(1, 64), mb=st.integers(1, 9)
)
def test_runs_are_long_or_none(n, b, d, t, mb):
    """Reading rows takes of the budget; and no run is so short that most of a tile would be padding."""
    side = gram.product_side(n, b, d, t, mb * 10**6, (0, 0))
    assert side == 0 or side >= min(gram.TILE, max(n, b))
    assert gram.product_side(n, b, d, t, mb * 10**6, (4 * d, 4 * d)) <= side


def test_elsewhere_nothing_is_fused():
    x, z = torch.ones(3, 2, dtype=torch.float64), torch.zeros(4, 2, dtype=torch.float64)
    for name in PROFILES:
        out = torch.zeros(3, 1, dtype=torch.float64)
        assert not gram.add_product(x, z, torch.ones(4, 1, dtype=torch.float64), out, name, SIGMA, 2**30)
        assert out.abs().max() == 0
        torch.testing.assert_close(gram.gram(x, z, name, SIGMA), exact(name, x, z))
