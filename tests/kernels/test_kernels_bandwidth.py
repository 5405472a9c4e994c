"""Bandwidth rules against their definitions over all pairs."""

import math

import numpy as np
import pytest
import torch
from peak_memory import peak_bytes

from joker import kernels
from joker.errors import DegenerateBandwidth, InvalidParameter, UnknownName
from joker.kernels import kernel as kernel_module
from joker.kernels.kernel import choose_bandwidth

INSTANCES = [kernels.get(name) for name in kernels.KERNELS if name != "linear"]
every_kernel = pytest.mark.parametrize("kernel", INSTANCES, ids=repr)


def rows(n, d=3, dtype=torch.float64):
    """Skewed rows with a scale for each input, which are not centred."""
    source = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=source, dtype=torch.float64).exp() * torch.arange(1, d + 1) + 50
    return x.to(dtype)


def all_pairs(x, norm):
    i, j = np.triu_indices(len(x), 1)
    return torch.cdist(x, x, p=norm, compute_mode="donot_use_mm_for_euclid_dist").numpy()[i, j]


def norm_of(kernel):
    return 1 if kernel.name == "laplacian" else 2


@every_kernel
@pytest.mark.parametrize("n", [2, 3, 4, 60, 700])
def test_the_median_of_few_rows_is_exact(kernel, n):
    x = rows(n)
    assert choose_bandwidth("median", kernel, x, seed=0) == pytest.approx(
        np.median(all_pairs(x, norm_of(kernel))), rel=1e-12
    )


@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_the_median_of_many_rows_is_near(name):
    """The groups are random: sorted rows must not be compared with rows of similar size only."""
    kernel, x = kernels.get(name), rows(2000)
    x = x[x[:, 2].argsort()]
    exact = np.median(all_pairs(x, norm_of(kernel)))
    found = [choose_bandwidth("median", kernel, x, seed) for seed in range(5)]
    np.testing.assert_allclose(found, exact, rtol=0.01)
    assert len(set(found)) == 5


@pytest.mark.parametrize("rule", ["median", "paper"])
def test_large_data_are_sampled(rule):
    """The rows are sorted here too: the median within a group of neighbours is a third of the true one."""
    x = rows(300_000, dtype=torch.float32)
    x, few = x[x[:, 2].argsort()], x[:1500].double()
    kernel = kernels.Gaussian()
    sigma = choose_bandwidth(rule, kernel, x, seed=3)
    assert sigma == choose_bandwidth(rule, kernel, x, seed=3)
    exact = {"median": np.median(all_pairs(few, 2)), "paper": x.double().var(dim=0).sum().sqrt().item()}
    assert sigma == pytest.approx(exact[rule], rel=0.15 if rule == "paper" else 0.05)
    assert peak_bytes(lambda: choose_bandwidth(rule, kernel, x, seed=3)) < 16e6  # all pairs of 10,000 rows: 800 MB


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_paper_rule_is_one_over_the_mean_squared_distance(kernel, dtype):
    """γ is the same for every kernel, and each kernel computes σ from it."""
    x = rows(400, dtype=dtype)
    gamma = 1 / np.mean(all_pairs(x.double(), 2) ** 2)
    sigma = choose_bandwidth("paper", kernel, x, seed=0)
    expected = {"gaussian": 1 / math.sqrt(2 * gamma), "laplacian": 1 / gamma}
    assert sigma == pytest.approx(expected.get(kernel.name, 1 / math.sqrt(gamma)), rel=1e-5)


def test_the_paper_rule_writes_the_kernels_with_gamma():
    x, r = rows(300), torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64)
    gamma = 1 / np.mean(all_pairs(x, 2) ** 2)
    written = {
        "gaussian": math.exp(-gamma * r.square().sum().item()),
        "laplacian": math.exp(-gamma * r.abs().sum().item()),
        "cauchy": 1 / (1 + gamma * r.square().sum().item()),
    }
    for name, value in written.items():
        kernel = kernels.get(name)
        kernel = kernel.with_bandwidth(choose_bandwidth("paper", kernel, x, seed=0))
        assert kernel(r, torch.zeros_like(r)).item() == pytest.approx(value, rel=1e-9)


@every_kernel
@pytest.mark.parametrize("rule", ["median", "paper"])
def test_a_rule_follows_the_units_of_the_rows(kernel, rule):
    x = rows(100)
    power = 2 if (kernel.name, rule) == ("laplacian", "paper") else 1  # 1/γ is a squared length
    assert choose_bandwidth(rule, kernel, 10 * x, 0) == pytest.approx(
        10**power * choose_bandwidth(rule, kernel, x, 0), rel=1e-9
    )
    assert choose_bandwidth(rule, kernel.with_bandwidth(9.0), x, 0) == choose_bandwidth(rule, kernel, x, 0)


@every_kernel
@pytest.mark.parametrize("rule", ["median", "paper"])
@pytest.mark.parametrize("n", [0, 1, 2, 50, 2000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rows_that_do_not_differ_have_no_bandwidth(kernel, rule, n, dtype):
    """0.1 is not a binary fraction: a mean of equal rows may differ from the rows by rounding."""
    x = torch.full((n, 3), 0.1, dtype=dtype)
    with pytest.raises(DegenerateBandwidth, match=rf"bandwidth='{rule}' needs rows that differ; .*\. Give .*number"):
        choose_bandwidth(rule, kernel, x, 0)


def test_the_median_needs_half_of_the_pairs_to_differ():
    x = torch.zeros(100, 2, dtype=torch.float64)
    x[0] = 1
    with pytest.raises(DegenerateBandwidth, match=r"median distance over 100 rows is 0\.0"):
        choose_bandwidth("median", kernels.Gaussian(), x, 0)
    assert choose_bandwidth("paper", kernels.Gaussian(), x, 0) > 0


def test_rows_that_are_not_finite_have_no_bandwidth():
    x = rows(10)
    x[3, 1] = math.nan
    for rule in ("median", "paper"):
        with pytest.raises(DegenerateBandwidth, match="is nan"):
            choose_bandwidth(rule, kernels.Gaussian(), x, 0)


@pytest.mark.parametrize("number", [2, 0.25, np.float32(0.25)])
def test_a_number_is_the_bandwidth(number):
    assert choose_bandwidth(number, kernels.Gaussian(), torch.zeros(3, 1), 0) == number


@pytest.mark.parametrize("number", [0, -1.0, math.nan, math.inf, None, [1.0]])
def test_a_number_must_be_positive(number):
    with pytest.raises(InvalidParameter, match="bandwidth must be a positive finite number"):
        choose_bandwidth(number, kernels.Gaussian(), rows(5), 0)


@pytest.mark.parametrize("kernel", [kernels.Gaussian(), kernels.Linear()], ids=repr)
def test_a_misspelt_rule_is_named(kernel):
    with pytest.raises(UnknownName, match=r"must be one of median, paper; got 'medain'\. Did you mean 'median'\?"):
        choose_bandwidth("medain", kernel, rows(5), 0)


@pytest.mark.parametrize("rule", ["median", "paper", 3.0])
def test_the_linear_kernel_needs_none(rule):
    assert choose_bandwidth(rule, kernels.Linear(), torch.zeros(5, 2), 0) == 1.0


def test_rows_with_many_inputs_are_read_in_small_groups(monkeypatch):
    """Fewer rows in small groups: the results stay near those of all pairs."""
    x = rows(900, 40)
    x[:, 7] = 0.1  # its variance, computed group by group, must be 0
    kernel = kernels.Gaussian()
    whole = choose_bandwidth("paper", kernel, x, seed=0)
    monkeypatch.setattr(kernel_module, "GROUP_ENTRIES", 40 * 30)
    assert choose_bandwidth("paper", kernel, x, seed=0) == pytest.approx(whole, rel=1e-12)
    assert choose_bandwidth("median", kernel, x, seed=0) == pytest.approx(np.median(all_pairs(x, 2)), rel=0.02)
    assert peak_bytes(lambda: choose_bandwidth("paper", kernel, x, seed=0)) < 8 * 900 * 40 / 2
    with pytest.raises(DegenerateBandwidth):
        choose_bandwidth("paper", kernel, torch.full((900, 40), 0.1), seed=0)


def test_rows_with_more_inputs_are_sampled_less():
    found = [len(kernel_module.sample_rows(20_000, d, seed=0)) for d in (3, 1_600, 5_000, 10**6)]
    assert found == sorted(found, reverse=True)
    assert 900 < found[-1] <= kernel_module.MIN_SAMPLED_ROWS < found[2] < found[0] <= kernel_module.MAX_SAMPLED_ROWS


def test_the_variance_of_many_groups_is_that_of_all_rows(monkeypatch):
    """Also if the rows are sorted, so that the groups have different means."""
    x = rows(100)
    x = x[x[:, 0].argsort()]
    monkeypatch.setattr(kernel_module, "GROUP_ENTRIES", 7 * 3)
    found = kernel_module._variance(x, torch.arange(100))
    np.testing.assert_allclose(found, np.var(x.numpy(), axis=0, ddof=1), rtol=1e-12)


def test_the_sample_of_a_rule_depends_on_the_seed():
    first, again, other = (kernel_module.sample_rows(10**6, 3, seed) for seed in (4, 4, 5))
    assert torch.equal(first, again)
    assert len(first) > 9_900  # of 10,000 draws, a few are equal
    assert len(set(first.tolist()) & set(other.tolist())) < 300
