"""The properties of each kind of feature map."""

import math

import pytest
import torch

from joker import features, kernels
from joker.features.fourier import SHORTEST_TRANSFORM

RADIAL = [kernels.get(name, bandwidth=0.8) for name in ("gaussian", "matern12", "matern32", "matern52", "cauchy")]


def rows(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def draw(kernel, kind, d, m, seed=0):
    return features.draw(kernel, kind, d, m, seed, dtype=torch.float64)


def dense(signs, radii, d):
    """The matrix of a structured map, from its definition: R HD₃ HD₂ HD₁, block by block."""
    p = signs.shape[2]
    h = torch.tensor([[(-1.0) ** (i & j).bit_count() for j in range(p)] for i in range(p)], dtype=torch.float64)
    blocks = [h @ torch.diag(s[2]) @ h @ torch.diag(s[1]) @ h @ torch.diag(s[0]) for s in signs]
    return (torch.cat(blocks)[: len(radii), :d] * radii.unsqueeze(1)).T  # (d, m)


def test_fourier_is_the_scaled_cosine():
    """Without √(2/m), as in the paper's algorithm, λ would be wrong by the factor m/2."""
    psi, x = draw(kernels.Gaussian(), "fourier", 4, 500), rows(6, 4)
    torch.testing.assert_close(psi(x), math.sqrt(2 / 500) * torch.cos(x @ psi.weights + psi.phase))
    assert psi.phase.min() >= 0
    assert 6 < psi.phase.max() < 2 * math.pi


def test_pairs_are_cosines_and_sines():
    psi, x = draw(kernels.Laplacian(), "fourier_pairs", 4, 30), rows(6, 4)
    angle = x @ psi.weights
    torch.testing.assert_close(psi(x), math.sqrt(1 / 15) * torch.cat([angle.cos(), angle.sin()], dim=1))


@pytest.mark.parametrize("kernel", [*RADIAL, kernels.Laplacian(0.8)], ids=repr)
def test_pairs_have_length_one(kernel):
    psi = draw(kernel, "fourier_pairs", 3, 64).to(torch.float32, "cpu")
    x = rows(50, 3).float()
    torch.testing.assert_close(psi(x).square().sum(dim=1), torch.ones(50), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("d", "m"), [(1, 5), (5, 5), (5, 3), (5, 23), (40, 100)])
def test_orthogonal_frequencies_are_orthogonal_in_blocks(d, m):
    w = draw(kernels.Gaussian(), "orthogonal", d, m).weights
    assert w.shape == (d, m)
    for block in w.split(d, dim=1):
        unit = block / block.norm(dim=0)
        torch.testing.assert_close(unit.T @ unit, torch.eye(unit.shape[1], dtype=torch.float64), rtol=0, atol=1e-12)


def test_orthogonal_blocks_differ():
    first, second = (
        block / block.norm(dim=0) for block in draw(kernels.Gaussian(), "orthogonal", 5, 10).weights.split(5, 1)
    )
    assert not torch.allclose(first, second, atol=0.1)


@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
@pytest.mark.parametrize("kind", ["orthogonal", "structured"])
def test_lengths_are_those_of_independent_frequencies(kernel, kind):
    """In 64 dimensions, which need no padding. Constant lengths √d would pass a test of the mean only."""
    d, m = 64, 2**13
    there = draw(kernel, kind, d, m)
    w = there.weights if kind == "orthogonal" else there.project(torch.eye(d, dtype=torch.float64))
    shares = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9], dtype=torch.float64)
    lengths = draw(kernel, "fourier", d, m, seed=1).weights.norm(dim=0)
    below = (w.norm(dim=0).unsqueeze(1) < torch.quantile(lengths, shares)).double().mean(dim=0)
    assert (below - shares).abs().max() < 5 * math.sqrt(2 * 0.25 / m)


@pytest.mark.parametrize("kind", ["orthogonal", "structured"])
def test_orthogonal_features_have_a_smaller_error_than_independent_ones(kind):
    kernel, d, m = kernels.Gaussian(math.sqrt(64)), 64, 128
    x = rows(20, d)
    exact = kernel(x, x)

    def mean_squared_error(kind):
        maps = [draw(kernel, kind, d, m, seed) for seed in range(60)]
        # Without the phase, whose noise is the same for all kinds.
        frequencies = [psi.slice(0, m).project(x) if kind == "structured" else x @ psi.weights for psi in maps]
        pairs = [torch.cat([f.cos(), f.sin()], dim=1) / math.sqrt(m) for f in frequencies]
        return torch.stack([(psi @ psi.T - exact).square().mean() for psi in pairs]).mean()

    assert mean_squared_error(kind) < 0.7 * mean_squared_error("fourier")


@pytest.mark.parametrize(("d", "m"), [(1, 1), (3, 64), (64, 100), (65, 300), (100, 128)])
def test_structured_is_the_dense_product(d, m):
    psi = draw(kernels.Matern32(0.7), "structured", d, m)
    w = dense(psi.signs, psi.radii, d)
    torch.testing.assert_close(psi.project(torch.eye(d, dtype=torch.float64)), w, rtol=1e-10, atol=1e-12)
    x = rows(6, d)
    torch.testing.assert_close(psi(x), math.sqrt(2 / m) * torch.cos(x @ w + psi.phase), rtol=1e-9, atol=1e-11)


def test_structured_stores_no_matrix():
    d, m = 1000, 4096
    psi = draw(kernels.Gaussian(), "structured", d, m)
    stored = psi.signs.numel() + psi.radii.numel() + psi.phase.numel()
    assert stored == 5 * m
    assert psi.signs.unique().tolist() == [-1.0, 1.0]


@pytest.mark.parametrize(
    ("d", "p"),
    [
        (1, SHORTEST_TRANSFORM),
        (SHORTEST_TRANSFORM, SHORTEST_TRANSFORM),
        (SHORTEST_TRANSFORM + 1, 2 * SHORTEST_TRANSFORM),
        (129, 256),
    ],
)
def test_structured_pads_to_a_power_of_two(d, p):
    assert draw(kernels.Gaussian(), "structured", d, 10).signs.shape == (1, 3, p)


def test_identity_is_the_linear_kernel_exactly():
    psi, x = draw(kernels.Linear(), "identity", 4, 4), rows(6, 4)
    assert torch.equal(psi(x), x)
    assert torch.equal(psi.slice(1, 3)(x), x[:, 1:3])


def test_a_tensor_sketch_is_the_count_sketch_of_the_tensor_power():
    """Computed directly: entry (i, j) of x̃ ⊗ x̃ goes to bucket h₁(i) + h₂(j) mod m with sign s₁(i) s₂(j)."""
    kernel, m = kernels.Polynomial(1.3, degree=2), 11
    psi, x = draw(kernel, "tensor_sketch", 3, m), rows(4, 3)
    lifted = torch.cat([x / 1.3, torch.ones(4, 1, dtype=torch.float64)], dim=1)
    slow = torch.zeros(4, m, dtype=torch.float64)
    for i in range(4):
        for j in range(4):
            bucket = (psi.buckets[0, i] + psi.buckets[1, j]) % m
            slow[:, bucket] += psi.signs[0, i] * psi.signs[1, j] * lifted[:, i] * lifted[:, j]
    torch.testing.assert_close(psi(x), slow, rtol=1e-10, atol=1e-12)
