"""The cosines of a Fourier map and their sums: fused and plain, against float64."""

import pytest
import torch

from joker.ops import fourier

UNIT = 2.0**-24
# More than one tile of 32 × 128, and more than the 32 inputs of a tile. A GPU compiles one kernel for both.
SHAPES = [(33, 20, 130), (2, 40, 3)]


def room(x, m):
    """A result and its bfloat16 with nothing in them, and the last columns left out: rows need not be adjacent."""
    psi = torch.full((len(x), m + 2), torch.nan, device=x.device)
    return psi[:, :m], psi.bfloat16()[:, :m]


def exact(x, weights, phase, scale):
    angle = x.double() @ weights.double()
    both = (angle + phase.double()).cos() if phase is not None else torch.cat([angle.cos(), angle.sin()], 1)
    return both * scale


def noise(x, weights, phase, scale):
    """How far float32 cosines may be off: a few roundings of the largest partial sum of the phase, and 10⁻⁶."""
    angle = x.abs() @ weights.abs()
    both = angle + phase.abs() if phase is not None else torch.cat([angle, angle], 1)
    return scale * (8 * UNIT * both.double() + 1e-6)


def within(got, want, bound):
    assert got.dtype == torch.float32
    assert ((got.double() - want).abs() <= bound).all()


@pytest.mark.parametrize(("n", "d", "m"), SHAPES)
@pytest.mark.parametrize("phased", [True, False])
@pytest.mark.parametrize("ready", [False, True])
def test_cosines(n, d, m, phased, ready, draw):
    x, weights, phase = draw(n, d), 3 * draw(d, m), draw(m) if phased else None
    for run in (fourier.cosines, lambda *args, out, low: fourier.launch_cosines(*args, out, low, ready=ready)):
        psi, low = room(x, m if phased else 2 * m)
        assert run(x, weights, phase, 0.7, out=psi, low=low) is psi
        within(psi, exact(x, weights, phase, 0.7), noise(x, weights, phase, 0.7))
        torch.testing.assert_close(low.float(), psi, rtol=2**-7, atol=0)


@pytest.mark.parametrize(("shape", "t"), [(SHAPES[0], 1), (SHAPES[0], 3), (SHAPES[1], 1)])
@pytest.mark.parametrize("run", [fourier.cosine_sum, fourier.launch_cosine_sum])
def test_sums(run, shape, t, draw):
    n, d, m = shape
    x, weights, phase, theta = draw(n, d), draw(d, m), draw(m), draw(m, t)
    bound = (noise(x, weights, phase, 0.7) + 8 * UNIT) @ theta.abs().double()
    within(run(x, weights, phase, theta, 0.7), exact(x, weights, phase, 0.7) @ theta.double(), bound)


def test_a_slice_of_a_map(draw):
    x, weights, phase, theta = draw(5, 6)[:, 1:4], draw(3, 90)[:, 20:57], draw(90)[20:57], draw(37, 6)[:, 2:5]
    bound = noise(x, weights, phase, 1)
    psi = fourier.launch_cosines(x, weights, phase, 1.0, *room(x, 37))
    within(psi, exact(x, weights, phase, 1), bound)
    sums = fourier.launch_cosine_sum(x, weights, phase, theta, 1.0)
    within(sums, exact(x, weights, phase, 1) @ theta.double(), bound @ theta.abs().double() + 1e-6)


def test_no_rows_and_no_features(draw):
    x, weights, phase = draw(3, 2), draw(2, 5), draw(5)
    assert fourier.launch_cosines(x[:0], weights, phase, 1.0, draw(0, 5)).shape == (0, 5)
    assert fourier.launch_cosine_sum(x[:0], weights, phase, draw(5, 2), 1.0).shape == (0, 2)
    assert torch.equal(fourier.launch_cosine_sum(x, weights[:, :0], phase[:0], draw(0, 2), 1.0), x.new_zeros(3, 2))


@pytest.mark.parametrize("largest", [1.0, 4e4])
def test_large_angles_keep_their_digits(largest, draw):
    """The angles are given, so that all of the error is the cosine's and the sine's."""
    m = 300
    angle = largest * draw(2, m).clamp(-1, 1)
    psi = torch.cat([angle, draw(2, m)], 1)
    turn(psi)
    within(psi, torch.cat([angle.double().cos(), angle.double().sin()], 1), 1e-6)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # by the interpreter; infinity is meant
def test_huge_angles_stay_bounded(draw):
    angle = torch.tensor([[1e8, -3e9, 1e15, 1e30, -3e38]] * 2, device=draw(1).device)
    psi = torch.cat([angle, angle], 1)
    turn(psi)
    assert (psi.abs() <= 1 + 1e-6).all()


def turn(psi):
    """Turn angles in the first half of the columns into cosines and sines, by the fused kernel alone."""
    x, weights = psi[:, :2], psi[:2, : psi.shape[1] // 2]
    original, fourier._multiply = fourier._multiply, lambda *arguments: None
    try:
        fourier.launch_cosines(x, weights, None, 1.0, psi, psi.bfloat16(), ready=True)
    finally:
        fourier._multiply = original


@pytest.mark.gpu
def test_the_shapes_of_a_large_problem(device):
    """Sides that are multiples of 16 are compiled apart from others."""
    source = torch.Generator(device).manual_seed(0)
    x, weights, phase, theta = (
        torch.randn(shape, device=device, generator=source) for shape in ((512, 28), (28, 4096), (4096,), (4096, 1))
    )
    want, bound = exact(x, weights, phase, 0.1), noise(x, weights, phase, 0.1)
    low = torch.empty(512, 4096, device=device, dtype=torch.bfloat16)
    within(fourier.cosines(x, weights, phase, 0.1, low=low), want, bound)
    torch.testing.assert_close(low.double(), want, rtol=2**-7, atol=1e-4)
    sums = fourier.cosine_sum(x, weights, phase, theta, 0.1)
    within(sums, want @ theta.double(), (bound + UNIT) @ theta.abs().double())
