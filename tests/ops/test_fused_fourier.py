"""The cosines of a Fourier map and their sums: fused and plain, against float64."""

import pytest
import torch

from joker.ops import fourier

UNIT = 2.0**-24
SHAPES = [(1, 1, 1), (65, 28, 130), (3, 40, 70)]


def exact(x, weights, phase, scale):
    return (x.double() @ weights.double() + phase.double()).cos() * scale


def noise(x, weights, phase, scale):
    """How far float32 cosines may be off: a few roundings of the largest partial sum of the phase, and 10⁻⁶."""
    return scale * (8 * UNIT * (x.abs() @ weights.abs() + phase.abs()).double() + 1e-6)


def within(got, want, bound):
    assert got.dtype == torch.float32
    assert ((got.double() - want).abs() <= bound).all()


@pytest.mark.parametrize(("n", "d", "m"), SHAPES)
@pytest.mark.parametrize("run", [fourier.cosines, fourier.launch_cosines])
def test_cosines(run, n, d, m, draw):
    x, weights, phase = draw(n, d), 3 * draw(d, m), draw(m)
    low = torch.full((n, m), torch.nan, dtype=torch.bfloat16, device=x.device)
    psi = run(x, weights, phase, 0.7, low=low)
    within(psi, exact(x, weights, phase, 0.7), noise(x, weights, phase, 0.7))
    torch.testing.assert_close(low.float(), psi, rtol=2**-7, atol=0)


@pytest.mark.parametrize(("n", "d", "m"), SHAPES)
@pytest.mark.parametrize("t", [1, 3, 17])
@pytest.mark.parametrize("run", [fourier.cosine_sum, fourier.launch_cosine_sum])
def test_sums(run, n, d, m, t, draw):
    x, weights, phase, theta = draw(n, d), draw(d, m), draw(m), draw(m, t)
    bound = (noise(x, weights, phase, 0.7) + 8 * UNIT) @ theta.abs().double()
    within(run(x, weights, phase, theta, 0.7), exact(x, weights, phase, 0.7) @ theta.double(), bound)


def test_a_slice_of_a_map(draw):
    x, weights, phase, theta = draw(5, 6)[:, 1:4], draw(3, 90)[:, 20:60], draw(90)[20:60], draw(40, 6)[:, 2:4]
    bound = noise(x, weights, phase, 1)
    within(fourier.launch_cosines(x, weights, phase, 1.0), exact(x, weights, phase, 1), bound)
    sums = fourier.launch_cosine_sum(x, weights, phase, theta, 1.0)
    within(sums, exact(x, weights, phase, 1) @ theta.double(), bound @ theta.abs().double() + 1e-6)


def test_no_rows_and_no_features(draw):
    x, weights, phase = draw(3, 2), draw(2, 5), draw(5)
    assert fourier.launch_cosines(x[:0], weights, phase, 1.0).shape == (0, 5)
    assert fourier.launch_cosine_sum(x[:0], weights, phase, draw(5, 2), 1.0).shape == (0, 2)
    assert torch.equal(fourier.launch_cosine_sum(x, weights[:, :0], phase[:0], draw(0, 2), 1.0), x.new_zeros(3, 2))


@pytest.mark.parametrize("largest", [1.0, 1e3, 4e4])
def test_large_phases_keep_their_digits(largest, draw):
    """One input of 1 makes the phase exact, so that all of the error is the cosine's."""
    weights = largest * draw(1, 3000).clamp(-1, 1)
    psi = fourier.launch_cosines(weights.new_ones(1, 1), weights, weights.new_zeros(3000), 1.0)
    within(psi, weights.double().cos(), 1e-6)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # by the interpreter; infinity is meant
def test_huge_phases_stay_bounded(draw):
    weights = torch.tensor([[1e8, -3e9, 1e15, 1e30, -3e38]], device=draw(1).device)
    psi = fourier.launch_cosines(weights.new_ones(1, 1), weights, weights.new_zeros(5), 1.0)
    assert (psi.abs() <= 1 + 1e-6).all()
