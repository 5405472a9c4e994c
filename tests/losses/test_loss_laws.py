"""The laws of every loss, checked for a list of instances: add a new loss to the list."""

import math

import numpy as np
import pytest
import torch
from case_names import without_address
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from sklearn import metrics

from joker import losses
from joker.data import make_targets
from joker.errors import InvalidData, InvalidParameter, UnknownName
from joker.losses import (
    Absolute,
    EpsilonInsensitive,
    Expectile,
    Gamma,
    Hinge,
    Huber,
    InfimalConvolution,
    Logistic,
    LogLinkLoss,
    Lp,
    Poisson,
    Quantile,
    Scaled,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    ThresholdHinge,
    Tube,
    Tweedie,
)
from joker.losses.loss import conjugate
from joker.solvers import Problem

T = 3  # columns of every grid, so that a tensor parameter has one value for each column
LEVELS = torch.tensor([0.1, 0.5, 0.93], dtype=torch.float64)
WEIGHTS = torch.tensor([0.0, 0.3, 4.1], dtype=torch.float64)  # the first column has no weight
THRESHOLDS = torch.tensor([0.2, 1.0, 3.0], dtype=torch.float64)
LAMBDAS = (0.3, 0.7, 3.0, 1e-3, 49.0)  # 1/λ is not a power of two

NAMED = [
    Squared(),
    *map(Huber, (0.3, 1.0, 2.5)),
    Absolute(),
    *map(EpsilonInsensitive, (0.0, 0.1, 1.3)),
    *map(SquaredEpsilonInsensitive, (0.0, 0.2, 1.1)),
    *map(Quantile, (0.1, 0.5, 0.93, LEVELS)),
    *map(Expectile, (0.1, 0.5, 0.93)),
    *map(Lp, (1.2, 1.5, 3.0)),
    Hinge(),
    SquaredHinge(),
    *map(ThresholdHinge, (0.3, 4.0, THRESHOLDS)),
    Logistic(),
    Poisson(),
    Gamma(),
    *map(Tweedie, (1.05, 1.5, 1.9)),
]
COMPOSED = [
    InfimalConvolution((Squared(), Scaled(Absolute(), 0.7))),
    InfimalConvolution((Absolute(), Tube(0.3))),
    InfimalConvolution((Squared(), Tube(0.2), Scaled(Absolute(), 0.7))),
    InfimalConvolution((Quantile(LEVELS), Squared())),
    InfimalConvolution((Lp(1.5), Scaled(Absolute(), 0.6))),
    InfimalConvolution((Lp(3.0), Tube(0.2))),
    InfimalConvolution((Hinge(), Scaled(SquaredHinge(), 2.0))),
    InfimalConvolution((Logistic(), SquaredHinge())),
]
ONE_OF_EACH = list({type(loss): loss for loss in NAMED}.values())
SCALED = [Scaled(loss, WEIGHTS) for loss in [*ONE_OF_EACH, *COMPOSED[2:5], COMPOSED[-1]]]
SCALED += [Scaled(loss, 0.37) for loss in (Huber(0.5), SquaredEpsilonInsensitive(0.2), Lp(3.0), Logistic())]
EVERY = [*NAMED, *COMPOSED, *SCALED]
TUBES = [Tube(0.3), Scaled(Tube(0.3), 2.0)]  # infinite outside the tube: some laws hold inside it only

every_loss = pytest.mark.parametrize("loss", EVERY, ids=repr)
every_loss_and_tube = pytest.mark.parametrize("loss", [*EVERY, *TUBES], ids=repr)
every_float = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
close = torch.testing.assert_close


def targets(loss, dtype=torch.float64):  # (k, 1, T)
    values = [-1.7, 0.0, 0.43, 2.3] if loss.frame.task == "regression" else [-1.0, 1.0]
    if loss.frame is losses.LOG_MEAN:  # the gamma loss needs positive targets
        values = [0.02 if getattr(loss, "loss", loss) == Gamma() else 0.0, 0.43, 1.0, 7.3]
    return torch.tensor(values, dtype=dtype)[:, None, None].expand(-1, 1, T)


def predictions(dtype=torch.float64):  # (101, T), at least 0.001 away from every kink
    return torch.linspace(-7.0031, 7.0052, 101, dtype=dtype)[:, None].expand(-1, T)


def across(loss, y, shares):  # (k, s, T)
    """Dual variables at these shares of the box; an infinite end is replaced by ±5."""
    low, high = (end.clamp(-5, 5) for end in loss.box(y))
    return low + (high - low) * torch.as_tensor(shares, dtype=y.dtype)[None, :, None]


def inside(loss, y):
    """Points away from the ends, from the kink at 0 and from the singularity of Lp at 0."""
    a = across(loss, y, np.linspace(0.04, 0.96, 14))
    low, high = loss.box(y)
    return a, (low < high) & (a.abs() > 1e-3) & torch.ones_like(a, dtype=torch.bool)


def of_type(loss, dtype):
    """The loss with its weights in the type of the data, as in a solve."""
    c = getattr(loss, "c", None)
    return Scaled(loss.loss, c.to(dtype)) if isinstance(c, torch.Tensor) else loss


def smooth(loss, y, a):
    return loss.psi(y, a) - loss.kink * a.abs()


@every_loss
@pytest.mark.parametrize("k", [0.7])
def test_the_gain_is_the_decrease_that_one_variable_can_cause(loss, k):
    """By definition: J of the best point of a fine grid over the box; a non-quadratic loss may reach less of it."""
    y = targets(loss)
    a = across(loss, y, np.linspace(0, 1, 7))[:, :, None]  # (k, s, 1, T)
    f = predictions()[None, None, ::10]  # (1, 1, p, T)
    low, high = loss.box(y)
    shares = torch.linspace(0, 1, 3_001, dtype=torch.float64)[None, :, None]
    grid = torch.lerp(low.clamp(min=-40), high.clamp(max=40), shares)
    gain = loss.gain(y[:, None], a, f, torch.tensor(k, dtype=torch.float64))
    assert bool((gain >= 0).all())
    for at in range(a.shape[1]):
        s = grid[:, None] - a[:, at, :, None]  # (k, 1, g, T)
        change = (
            s * (f[:, 0, :, None] + 0.5 * k * s) + loss.psi(y[:, None], grid[:, None]) - loss.psi(y, a[:, at])[:, None]
        )
        best = (-change).amax(2).clamp(min=0)  # (k, p, T)
        found = gain[:, at]
        free = (low < high).expand_as(found)
        unbounded = (low.isinf() | high.isinf()).expand_as(found)
        assert bool((found >= best - 1e-4 * (1 + best))[free].all()) or not loss.quadratic
        assert bool((found <= best + 1e-3 * (1 + best))[free & ~unbounded].all())
        assert bool((found >= 0.1 * best - 2e-3)[free].all())
        assert not found[~free].any()


@every_loss
def test_alpha_rises_where_a_little_more_of_it_lowers_the_objective(loss):
    y = targets(loss)[:, None]
    a = across(loss, targets(loss), np.linspace(0, 0.9, 7))[:, :, None]  # (k, s, 1, T)
    f = predictions()[None, None, ::10]  # (1, 1, p, T)
    step = 1e-6
    slope = f + (loss.psi(y, a + step) - loss.psi(y, a)) / step
    clear = (a + step < loss.box(y)[1]) & (slope.abs() > 1e-3)
    assert bool(clear.any())
    assert bool((loss.can_increase(y, a, f) == (slope < 0))[clear].all())


@pytest.mark.parametrize("loss", [EpsilonInsensitive(0.4), SquaredEpsilonInsensitive(0.4)], ids=repr)
@pytest.mark.parametrize(
    ("residual", "rises"), [(-0.5, False), (-0.3, False), (0.3, False), (0.39, False), (0.41, True)]
)
def test_alpha_leaves_a_kink_only_for_a_residual_outside_the_tube(loss, residual, rises):
    """At α = 0 the loss of a row inside the tube is 0, so that nothing is gained by a larger α."""
    y, zero = torch.tensor([[1.2]], dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    assert bool(loss.can_increase(y, zero, y - residual)) is rises


# The Fenchel–Young inequality, from which the duality gap follows.


@every_loss
def test_no_term_of_the_gap_is_negative(loss):
    y = targets(loss)[:, :, None]  # (k, 1, 1, T)
    a = across(loss, targets(loss), np.linspace(0, 1, 21))[:, :, None]  # (k, s, 1, T)
    f = predictions()[None, None]  # (1, 1, p, T)
    value, psi = loss.value(y, f), loss.psi(y, a)
    gap = value + psi + a * f
    assert (gap >= -1e-13 * (1 + value.abs() + psi.abs())).all()


@every_loss
def test_the_term_is_zero_at_minus_the_derivative(loss):
    """If value or dual lacked a constant, or a had the wrong sign, the term would not be 0."""
    y, f = targets(loss), predictions().clone().requires_grad_()
    value = loss.value(y, f[None])
    a = []
    for k in range(len(y)):
        (slope,) = torch.autograd.grad(value[k].sum(), f, retain_graph=True)
        a.append(-slope)
    a, value, f = torch.stack(a), value.detach(), f.detach()
    low, high = loss.box(y)
    assert ((a >= low - 1e-12) & (a <= high + 1e-12)).all()
    a = torch.clamp(a, low, high)
    close((value + loss.psi(y, a) + a * f) / (100 + value), torch.zeros_like(a), rtol=0, atol=1e-13)


@every_loss
def test_the_box_is_the_range_of_the_slopes_of_the_loss(loss):
    """For large arguments the slope of the loss is an end of the box, or grows without bound."""
    distance = 340.0 if loss.frame is losses.LOG_MEAN else 1e12  # the exponential of twice as much is finite
    y, far = targets(loss), torch.full((1, T), distance, dtype=torch.float64)
    slopes = [-(loss.value(y, 2 * f) - loss.value(y, f)) / f for f in (far, -far)]
    for end, slope in zip(loss.box(y), slopes, strict=True):
        finite = end.isfinite()
        close(slope[finite], end[finite], rtol=1e-9, atol=1e-6 if loss.frame is losses.LOG_MEAN else 1e-11)
        assert (slope[~finite] * end[~finite].sign() > 50).all()


# Derivatives.


@every_loss_and_tube
def test_the_slope_is_the_derivative(loss):
    y = targets(loss)
    a, valid = inside(loss, y)
    low, high = loss.box(y)
    h = 1e-5 * torch.minimum(a - low, high - a).clamp(max=1.0)
    h = torch.where(valid, torch.minimum(h, 1e-3 * a.abs()), 1.0)
    found = (smooth(loss, y, a + h) - smooth(loss, y, a - h)) / (2 * h)
    close(found[valid], loss.psi_slope(y, a).expand_as(a)[valid], rtol=1e-6, atol=1e-6)


@every_loss_and_tube
def test_the_curvature_is_the_derivative_of_the_slope(loss):
    y = targets(loss)
    a, valid = inside(loss, y)
    low, high = loss.box(y)
    h = 1e-4 * torch.minimum(a - low, high - a).clamp(max=1.0)
    h = torch.where(valid, torch.minimum(h, 1e-3 * a.abs()), 1.0)
    found = (loss.psi_slope(y, a + h) - loss.psi_slope(y, a - h)) / (2 * h)
    curvature = loss.psi_curvature(y, a).expand_as(a)
    close(found[valid], curvature[valid], rtol=1e-5, atol=1e-7)
    assert (curvature >= 0).all()


@every_loss_and_tube
def test_the_bend_is_the_bregman_divergence(loss):
    y = targets(loss)
    a, valid = inside(loss, y)
    for share in (0.0, 0.3, 1.0):  # also across 0 and up to both ends of the box
        d = across(loss, y, [share]) - a
        naive = smooth(loss, y, a + d) - smooth(loss, y, a) - loss.psi_slope(y, a) * d
        found = loss.psi_bend(y, a, d)
        assert found.dtype == torch.float64
        close(found.expand_as(a)[valid], naive[valid], rtol=1e-9, atol=1e-12)
        assert (found >= -1e-13).all()


NODES, MASSES = (torch.from_numpy(v) for v in np.polynomial.legendre.leggauss(40))


def remainder(loss, a, d):
    """The bend as an integral of the curvature, without a difference of large numbers for small d."""
    t, mass = (1 + NODES) / 2, MASSES / 2
    points = a.double()[..., None] + t * d.double()[..., None]
    return d.double().square() * (mass * (1 - t) * loss.curvature(points)).sum(-1)


@every_float
@pytest.mark.parametrize("c", [1.0, 1 / 0.3])
def test_the_bend_of_the_logistic_dual_is_precise(c, dtype):
    """The four logarithms cancel up to a share (d/a)²: in float32 their sum would have no correct digit."""
    loss = Scaled(Logistic(), c)
    share = torch.tensor([1e-3, 0.02, 0.4, 0.5, 0.9, 0.999], dtype=dtype)[:, None]
    relative = torch.tensor([1e-7, 1e-6, 1e-4, 1e-2, 0.4], dtype=dtype)
    a = loss.upper * share
    for sign in (1, -1):
        d = sign * relative * torch.minimum(a, loss.upper - a)
        close(loss.bend(a, d), c * remainder(Logistic(), a / c, d / c), rtol=1e-5, atol=0)


@every_loss
def test_a_loss_and_its_dual_are_convex(loss):
    y = targets(loss)
    f = predictions()
    value = loss.value(y, f)
    assert (value[:, 2:] + value[:, :-2] - 2 * value[:, 1:-1] >= -1e-12 * (1 + value[:, 1:-1])).all()
    a = across(loss, y, np.linspace(0, 1, 41))
    psi = loss.psi(y, a)
    assert (psi[:, 2:] + psi[:, :-2] - 2 * psi[:, 1:-1] >= -1e-12 * (1 + psi[:, 1:-1].abs())).all()
    assert (value >= 0).all()


# Consistency of loss and dual.


@every_loss_and_tube
def test_primal_is_the_conjugate_of_dual(loss):
    half = 0.3 if loss in TUBES else 6.0
    u = torch.linspace(-half, half, 101, dtype=torch.float64)[:, None].expand(-1, T)
    close(loss.primal(u), conjugate(loss, u), rtol=1e-10, atol=1e-12)


@every_loss_and_tube
def test_the_kink_is_the_half_width_of_the_tube_where_the_loss_is_zero(loss):
    if loss.frame.task == "classification":
        assert loss.kink == 0
        return
    counts = torch.as_tensor(getattr(loss, "c", 1.0)).expand(T) > 0
    for sign in (1, -1):
        within = loss.primal(torch.full((1, T), sign * 0.999 * loss.kink, dtype=torch.float64))
        beyond = loss.primal(torch.full((1, T), sign * (loss.kink + 0.01), dtype=torch.float64))
        assert (within.abs() < 1e-12).all()
        assert ((beyond[0] > 1e-9) == counts).all()


@every_loss_and_tube
def test_a_quadratic_loss_has_one_curvature(loss):
    """If it were wrongly declared quadratic, the linear solver would solve another problem."""
    y = targets(loss)
    curvature = loss.psi_curvature(y, across(loss, y, np.linspace(0.01, 0.99, 15)))
    constant = bool((curvature == curvature[:1, :1]).all())
    assert constant == loss.quadratic


@every_loss_and_tube
def test_unbounded_means_no_bounds_and_no_kink(loss):
    kept = torch.as_tensor(getattr(loss, "c", 1.0)).expand(T) > 0
    low, high = (end[..., kept] for end in loss.box(targets(loss)))
    free = bool((low == -math.inf).all() and (high == math.inf).all()) and loss.kink == 0
    assert loss.unbounded == free


@every_loss
def test_a_barrier_is_an_infinite_slope_at_the_ends(loss):
    y = targets(loss)
    low, high = loss.box(y)
    middle = loss.psi_slope(y, (low + high).nan_to_num(0) / 2).expand_as(low)
    pushed = [loss.psi_slope(y, end.clamp(-1e3, 1e3)).expand_as(low) for end in (low, high)]
    free = low < high
    if loss.frame is losses.LOG_MEAN:  # one end at most is finite
        a = loss.clamp(y, torch.zeros_like(y))
        inwards = torch.where(high.isfinite(), -1.0, 1.0)
        middle = loss.psi_slope(y, a + inwards)
        bounded = free & (low.isfinite() ^ high.isfinite())
        end = torch.where(high.isfinite(), high, low)
        assert ((loss.psi_slope(y, end) - middle).abs() > 30)[bounded].all()
        return
    steep = [((slope - middle).abs() > 30) & free & low.isfinite() & high.isfinite() for slope in pushed]
    assert bool((steep[0] & steep[1]).any()) == loss.barrier


@every_loss_and_tube
@every_float
def test_the_derivatives_at_a_start_are_finite(loss, dtype):
    loss, y = of_type(loss, dtype), targets(loss, dtype).expand(-1, 5, -1)
    low, high = loss.box(y)
    a = across(loss, y, [0.0, 0.25, 0.5, 0.75, 1.0])
    a = torch.clamp(a, low, high)
    origin = torch.clamp(torch.zeros_like(a), low, high)
    for point in (a, origin):
        for toward in (torch.ones_like(a), -torch.ones_like(a)):
            start = loss.psi_start(y, point, toward)
            kept = torch.clamp(start, low, high)  # the solver clamps to the box
            assert loss.psi_slope(y, kept).isfinite().all()
            assert loss.psi_curvature(y, kept).isfinite().all()
            assert loss.psi(y, kept).isfinite().all()
            if loss.barrier:
                assert ((start > low) & (start < high) | (low == high)).all()


@every_loss_and_tube
def test_a_start_keeps_valid_points(loss):
    y = targets(loss)
    a, _ = inside(loss, y)
    close(loss.psi_start(y, a, torch.ones_like(a)), a, rtol=1e-14, atol=0)


@every_loss
@every_float
def test_results_have_the_type_and_shape_of_the_arguments(loss, dtype):
    loss, y = of_type(loss, dtype), targets(loss, dtype)[0].expand(4, T)
    a = loss.psi_start(y, torch.zeros_like(y), torch.ones_like(y))
    results = [loss.psi(y, a), loss.psi_slope(y, a), loss.psi_curvature(y, a), a, *loss.box(y)]
    assert {(r.dtype, r.shape) for r in results} == {(dtype, y.shape)}
    assert loss.value(y, y / 2).shape == y.shape
    assert loss.psi_bend(y, a, 0 * a).shape == y.shape


@pytest.mark.parametrize("loss", [*ONE_OF_EACH, COMPOSED[2], COMPOSED[-1]], ids=repr)
@settings(max_examples=60)
@given(y=st.floats(-50, 50), f=st.floats(-50, 50), share=st.floats(0, 1), c=st.floats(1e-3, 1e3))
def test_no_term_of_the_gap_is_negative_anywhere(loss, y, f, share, c):
    scaled = Scaled(loss, c)
    y = max(abs(y), 1e-3) if loss.frame is losses.LOG_MEAN else y
    y = torch.full((1, T), y if loss.frame.task == "regression" else math.copysign(1, y), dtype=torch.float64)
    f = torch.full((1, T), f, dtype=torch.float64)
    low, high = (end.clamp(-100 * c, 100 * c) for end in scaled.box(y))
    a = torch.clamp(low + share * (high - low), low, high)
    value, psi = scaled.value(y, f), scaled.psi(y, a)
    assert (value + psi + a * f >= -1e-12 * (1 + value.abs() + psi.abs())).all()


# Each loss against independent formulas for two numbers.


def entropy(p):
    return sum(q * math.log(q) for q in (p, 1 - p) if q > 0)


def huber(r, delta):
    return r * r / 2 if abs(r) <= delta else delta * (abs(r) - delta / 2)


def power(p):
    q = 1 / (1 - 1 / p)
    return lambda y, f: abs(y - f) ** p / p, lambda y, a: abs(a) ** q / q - a * y


def expectile(level):
    return (
        lambda y, f: (level if y > f else 1 - level) * (y - f) ** 2,
        lambda y, a: a * a / 4 / (level if a > 0 else 1 - level) - a * y,
    )


def times_log(v):
    return special.xlogy(v, v)


def root_tweedie(y, a):
    """The conjugate for p = 3/2, where exp(w/2) - exp(-w/2) = z has the solution w = 2 asinh(z/2)."""
    f = math.log(y) + 2 * math.asinh(-a / math.sqrt(y) / 2) if y > 0 else 2 * math.log(-a) if a < 0 else -INF
    return (-a * f if a else 0.0) - metrics.mean_tweedie_deviance([y], [max(math.exp(f), 1e-300)], power=1.5) / 2


INF = math.inf
# Loss, ℓ(y, f), ψ(y, a) and the box as a function of y.
FORMULAS = [
    (Squared(), lambda y, f: (y - f) ** 2 / 2, lambda y, a: a * a / 2 - a * y, lambda y: (-INF, INF)),
    (Huber(0.8), lambda y, f: huber(y - f, 0.8), lambda y, a: a * a / 2 - a * y, lambda y: (-0.8, 0.8)),
    (Absolute(), lambda y, f: abs(y - f), lambda y, a: -a * y, lambda y: (-1, 1)),
    (
        EpsilonInsensitive(0.4),
        lambda y, f: max(abs(y - f) - 0.4, 0),
        lambda y, a: 0.4 * abs(a) - a * y,
        lambda y: (-1, 1),
    ),
    (
        SquaredEpsilonInsensitive(0.4),
        lambda y, f: max(abs(y - f) - 0.4, 0) ** 2 / 2,
        lambda y, a: a * a / 2 + 0.4 * abs(a) - a * y,
        lambda y: (-INF, INF),
    ),
    (
        Quantile(0.2),
        lambda y, f: max(0.2 * (y - f), -0.8 * (y - f)),
        lambda y, a: -a * y,
        lambda y: (-0.8, 0.2),
    ),
    *((Expectile(e), *expectile(e), lambda y: (-INF, INF)) for e in (0.2, 0.5, 0.9)),
    *((Lp(p), *power(p), lambda y: (-INF, INF)) for p in (1.2, 1.5, 3.0)),
    (
        Poisson(),
        lambda y, f: math.exp(f) - y * f + times_log(y) - y,
        lambda y, a: times_log(y - a) - (y - a) - times_log(y) + y,
        lambda y: (-INF, y),
    ),
    (
        Gamma(),
        lambda y, f: y * math.exp(-f) + f - math.log(y) - 1,
        lambda y, a: times_log(1 + a) - a - a * math.log(y),
        lambda y: (-1, INF),
    ),
    (
        Tweedie(1.5),
        lambda y, f: metrics.mean_tweedie_deviance([y], [math.exp(f)], power=1.5) / 2,
        root_tweedie,
        lambda y: (-INF, INF if y > 0 else 0),
    ),
    (Hinge(), lambda y, f: max(1 - y * f, 0), lambda y, a: -a * y, lambda y: (0, 1) if y > 0 else (-1, 0)),
    (
        SquaredHinge(),
        lambda y, f: max(1 - y * f, 0) ** 2 / 2,
        lambda y, a: a * a / 2 - a * y,
        lambda y: (0, INF) if y > 0 else (-INF, 0),
    ),
    (
        Logistic(),
        lambda y, f: math.log(1 + math.exp(-y * f)),
        lambda y, a: entropy(a * y),
        lambda y: (0, 1) if y > 0 else (-1, 0),
    ),
]


def test_every_name_has_a_formula():
    assert {type(loss) for loss, *_ in FORMULAS} == set(losses.NAMES.values())
    assert {type(loss) for loss in NAMED} - {ThresholdHinge} == set(losses.NAMES.values())  # it is that of ν-machines


@pytest.mark.parametrize("rho", [0.3, 4.0])
def test_the_threshold_hinge_is_a_multiple_of_the_hinge_of_a_fraction(rho):
    """max(ρ − u, 0) = ρ max(1 − u/ρ, 0)."""
    y, a = targets(Hinge()), across(Hinge(), targets(Hinge()), np.linspace(0, 1, 5))
    f = predictions()
    close(ThresholdHinge(rho).value(y, f), rho * Hinge().value(y, f / rho))
    close(ThresholdHinge(rho).psi(y, a), rho * Hinge().psi(y, a))


@pytest.mark.parametrize(
    ("loss", "value", "psi", "box"), FORMULAS, ids=lambda x: repr(x) if isinstance(x, losses.Loss) else ""
)
def test_a_loss_is_its_formula(loss, value, psi, box):
    numbers = (
        (0.6, 1.0, 7.3) if loss == Gamma() else (0.0, 0.6, 7.3) if isinstance(loss, LogLinkLoss) else (-1.3, 0.0, 0.6)
    )
    for y in (-1.0, 1.0) if loss.frame.task == "classification" else numbers:
        target = torch.tensor([[y]], dtype=torch.float64)
        f = torch.linspace(-4, 4, 33, dtype=torch.float64)[:, None]
        np.testing.assert_allclose(
            loss.value(target, f)[:, 0], [value(y, v) for v in f[:, 0].tolist()], rtol=1e-13, atol=1e-14
        )
        low, high = box(y)
        assert [end.item() for end in loss.box(target)] == [low, high]
        a = torch.linspace(max(low, -4), min(high, 4), 33, dtype=torch.float64)[:, None]
        expected = [psi(y, v) for v in a[:, 0].tolist()]
        np.testing.assert_allclose(loss.psi(target, a)[:, 0], expected, rtol=1e-13, atol=1e-13)


SAMPLE = np.random.default_rng(0).normal(scale=2, size=(2, 40))
REFERENCES = [
    (Squared(), lambda y, f: metrics.mean_squared_error(y, f) / 2),
    (Absolute(), metrics.mean_absolute_error),
    (EpsilonInsensitive(0.0), metrics.mean_absolute_error),
    (Quantile(0.2), lambda y, f: metrics.mean_pinball_loss(y, f, alpha=0.2)),
    (Quantile(0.93), lambda y, f: metrics.mean_pinball_loss(y, f, alpha=0.93)),
    (Huber(0.7), lambda y, f: special.huber(0.7, y - f).mean()),
    *((Tweedie(p), lambda y, f, p=p: metrics.mean_tweedie_deviance(y, np.exp(f), power=p) / 2) for p in (1.2, 1.8)),
    (Poisson(), lambda y, f: metrics.mean_poisson_deviance(y, np.exp(f)) / 2),
    (Gamma(), lambda y, f: metrics.mean_gamma_deviance(y, np.exp(f)) / 2),
    (Hinge(), metrics.hinge_loss),
    (Logistic(), lambda y, f: metrics.log_loss(y, special.expit(f))),
    (Logistic(), lambda y, f: -special.log_expit(y * f).mean()),
]


@pytest.mark.parametrize(("loss", "reference"), REFERENCES, ids=without_address)
def test_a_loss_is_that_of_other_libraries(loss, reference):
    y, f = SAMPLE if loss.frame.task == "regression" else (np.sign(SAMPLE[0]), SAMPLE[1])
    y = np.abs(y) if isinstance(loss, LogLinkLoss) else y
    found = loss.value(torch.from_numpy(y), torch.from_numpy(f)).mean().item()
    assert found == pytest.approx(reference(y, f), rel=1e-12)


LOG_LINKS = [Poisson(), Gamma(), *map(Tweedie, (1.001, 1.05, 1.3, 1.5, 1.9, 1.999))]


@pytest.mark.parametrize("loss", LOG_LINKS, ids=repr)
@pytest.mark.parametrize("y", [1e-12, 0.02, 1.0, 7.3, 1e6])
def test_the_slope_of_the_conjugate_is_the_inverse_of_that_of_the_loss(loss, y):
    """To the last bits of f, or of the dual variable, which has no more digits of f where it is near its end."""
    f = torch.linspace(-20, 20, 401, dtype=torch.float64)
    y = torch.full_like(f, y)
    a = loss.best(y, f)
    found = -loss.psi_slope(y, a)
    digits = 1 + f.abs() + y.log().abs()
    lost = (y * (-loss.r * f).exp() + (loss.s * f).exp()) * loss.psi_curvature(y, a)  # a is a difference of both terms
    assert ((found - f).abs() <= 4e-16 * (digits + 2 * lost * digits)).all()


@pytest.mark.parametrize("loss", LOG_LINKS, ids=repr)
@pytest.mark.parametrize("factor", [1e-3, 7.0, 1e4])
def test_a_deviance_has_a_unit(loss, factor):
    """In another unit of y the loss is multiplied by a constant: that of a scaled target is the same problem."""
    y, f = targets(Gamma()), predictions()
    same = factor**loss.s * loss.value(y, f)
    close(loss.value(factor * y, f + math.log(factor)), same, rtol=1e-10, atol=1e-11 * factor**loss.s)


@pytest.mark.parametrize("loss", LOG_LINKS, ids=repr)
def test_a_large_prediction_has_an_infinite_loss_and_finite_derivatives(loss):
    y = targets(loss, torch.float32)
    f = torch.full_like(y, 2_000.0 if loss.s else -2_000.0)
    assert not loss.value(y, f).isnan().any()
    a = loss.clamp(y, loss.best(y, f))
    for found in (a, loss.psi(y, a), loss.psi_slope(y, a), loss.psi_curvature(y, a), loss.psi_bend(y, a, -a / 2)):
        assert found.isfinite().all()


@pytest.mark.parametrize(
    ("loss", "wrong", "rule"),
    [(Poisson(), -1.0, "at least 0"), (Tweedie(), -0.5, "at least 0"), (Gamma(), 0.0, "positive")],
)
def test_a_target_outside_the_domain_is_refused(loss, wrong, rule):
    y = torch.tensor([[1.0], [wrong]])
    with pytest.raises(InvalidData, match=rf"y must be {rule} for the {type(loss).__name__} loss; found {wrong:g}\."):
        Problem(loss, make_targets(y, [1.0]))


@pytest.mark.parametrize("margin", [-700.0, -40.0, -20.5, -19.5, 0.0, 19.5, 30.0, 40.0, 700.0])
def test_the_logistic_loss_is_precise_at_large_margins(margin):
    """softplus is linear from 20, with an error of 2e-9: the gap would be negative."""
    found = Logistic().primal(torch.tensor(margin, dtype=torch.float64)).item()
    assert found == pytest.approx(-special.log_expit(margin), rel=1e-15)


# A multiple of a loss.


@pytest.mark.parametrize("loss", [*NAMED, *COMPOSED, Tube(0.3)], ids=repr)
@pytest.mark.parametrize("c", [0.37, 1.0, 6.0])
def test_a_multiple_scales_the_dual_and_its_box(loss, c):
    scaled, y = Scaled(loss, c), targets(loss)
    a = across(loss, y, np.linspace(0.02, 0.98, 15))
    close(scaled.psi(y, c * a), c * loss.psi(y, a), rtol=1e-12, atol=1e-12)
    close(scaled.psi_slope(y, c * a), loss.psi_slope(y, a), rtol=1e-12, atol=1e-12)
    close(scaled.psi_curvature(y, c * a), loss.psi_curvature(y, a) / c, rtol=1e-12, atol=1e-12)
    close(scaled.psi_bend(y, c * a, -c * a / 2), c * loss.psi_bend(y, a, -a / 2), rtol=1e-9, atol=1e-13)
    close(scaled.value(y, y / 2), c * loss.value(y, y / 2))
    for end, wide in zip(loss.box(y), scaled.box(y), strict=True):
        close(wide, c * end)
    assert scaled.kink == loss.kink
    assert (scaled.quadratic, scaled.barrier, scaled.frame) == (loss.quadratic, loss.barrier, loss.frame)


@pytest.mark.parametrize("loss", [*NAMED, *COMPOSED], ids=repr)
def test_a_multiple_may_differ_between_columns_and_rows(loss):
    c = torch.tensor([[0.2, 1.0, 3.0], [0.0, 2.0, 0.7]], dtype=torch.float64)
    y = targets(loss)[0].expand(2, T)
    a = c * across(loss, y[None], [0.3])[0]
    together = Scaled(loss, c)
    for column in range(T):
        for row in range(2):
            if c[row, column] == 0:
                continue
            alone = Scaled(loss, c[row, column].item())
            for name in ("psi", "psi_slope", "psi_curvature"):
                one = getattr(alone, name)(y, a).expand_as(a)[row, column]
                close(getattr(together, name)(y, a).expand_as(a)[row, column], one, rtol=1e-13, atol=0)
            for end, single in zip(together.box(y), alone.box(y), strict=True):
                close(end[row, column], single[row, column])


@pytest.mark.parametrize("loss", [*NAMED, *COMPOSED], ids=repr)
@every_float
def test_a_multiple_of_zero_leaves_a_point(loss, dtype):
    """A weight of 0 must not cause a division by 0: one NaN would make the sums of its column NaN."""
    scaled = Scaled(loss, torch.zeros(T, dtype=dtype))
    y = targets(loss, dtype).expand(-1, 2, -1)
    low, high = scaled.box(y)
    zero = torch.zeros_like(y)
    assert torch.equal(low, zero)
    assert torch.equal(high, zero)
    assert torch.equal(scaled.value(y, y / 2).to(dtype), zero)
    assert torch.equal(scaled.psi(y, zero), zero)
    assert torch.equal(scaled.psi_bend(y, zero, zero), zero.double())
    assert torch.equal(scaled.psi_start(y, zero, torch.ones_like(y)), zero)
    assert scaled.psi_slope(y, zero).isfinite().all()
    assert scaled.psi_curvature(y, zero).isfinite().all()


# Infimal convolutions.

TWINS = [
    *((InfimalConvolution((Squared(), Scaled(Absolute(), d))), Huber(d)) for d in (0.3, 0.7, 1.0, 2.5)),
    *((InfimalConvolution((Absolute(), Tube(e))), EpsilonInsensitive(e)) for e in (0.0, 0.1, 1.3)),
    *((InfimalConvolution((Tube(e), Squared())), SquaredEpsilonInsensitive(e)) for e in (0.0, 0.4)),
    (InfimalConvolution((Lp(1.5),)), Lp(1.5)),
    (InfimalConvolution((Scaled(Quantile(LEVELS), 1.0), Tube(0.0))), Quantile(LEVELS)),
    (InfimalConvolution((Huber(0.4), Huber(0.4))), Scaled(Huber(0.8), 0.5)),  # a sum of equal duals
]


@pytest.mark.parametrize(("composed", "named"), TWINS, ids=repr)
@pytest.mark.parametrize("c", [1.0, 0.3, WEIGHTS], ids=str)
def test_a_composed_loss_is_the_named_one(composed, named, c):
    composed, named = Scaled(composed, c), Scaled(named, c)
    y = targets(named)
    for end, twin in zip(composed.box(y), named.box(y), strict=True):
        assert torch.equal(end, twin)
    a = across(named, y, np.linspace(0, 1, 21))
    d = across(named, y, [0.4]) - a
    for name in ("psi", "psi_slope", "psi_curvature"):
        close(getattr(composed, name)(y, a), getattr(named, name)(y, a), rtol=1e-13, atol=1e-14)
    close(composed.psi_bend(y, a, d), named.psi_bend(y, a, d), rtol=1e-10, atol=1e-14)
    assert composed.kink == named.kink
    assert (composed.quadratic, composed.barrier) == (named.quadratic, named.barrier)
    close(composed.value(y, predictions()), named.value(y, predictions()), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loss", COMPOSED, ids=repr)
def test_an_infimal_convolution_is_the_least_sum_of_its_parts(loss):
    """Against a search over the ways to divide u, which uses no dual."""
    first, *rest = loss.parts
    rest = InfimalConvolution(tuple(rest)) if len(rest) > 1 else rest[0]
    split = torch.linspace(-4, 4, 8001, dtype=torch.float64)[:, None].expand(-1, T)
    for u in (-2.0, -0.35, 0.0, 0.6, 3.0):
        sums = first.primal(split) + rest.primal(u - split)
        found = loss.primal(torch.full((1, T), u, dtype=torch.float64))
        close(found[0], sums.amin(0), rtol=0, atol=8e-3)  # the spacing of the grid times a slope
        assert (found[0] <= sums.amin(0) + 1e-12).all()


def test_a_number_meets_a_tensor_without_losing_digits():
    loss = InfimalConvolution((Huber(0.7), Quantile(LEVELS)))
    assert loss.upper.tolist() == [0.1, 0.5, 0.7]
    assert loss.lower.tolist() == [-0.7, -0.5, 0.93 - 1]
    swapped = InfimalConvolution((Quantile(LEVELS), Huber(0.7)))
    assert torch.equal(loss.upper, swapped.upper)
    assert torch.equal(loss.lower, swapped.lower)


@every_loss_and_tube
def test_clamp_gives_the_nearest_point_of_the_box(loss):
    y = targets(loss)
    low, high = loss.box(y)
    a = torch.linspace(-9, 9, 37, dtype=torch.float64)[:, None].expand(-1, T)
    kept = loss.clamp(y, a)
    assert ((kept >= low) & (kept <= high)).all()
    assert torch.equal(loss.clamp(y, kept), kept)
    moved = (kept - a).abs()
    for other in (low, high):
        assert (moved <= (other - a).abs()).all()
    within = (a >= low) & (a <= high)
    assert (moved[within] == 0).all()


# Errors of the paper or its code.


@pytest.mark.parametrize("lam", LAMBDAS)
def test_the_logistic_dual_keeps_its_constant(lam):
    """ψ(a) = a log a + (1/λ − a) log(1/λ − a) + (1/λ) log λ for y = 1, and the gap is 0 at the optimum."""
    loss, one = Scaled(Logistic(), 1 / lam), torch.ones(1, dtype=torch.float64)
    a = torch.linspace(0.01, 0.99, 23, dtype=torch.float64) / lam
    written = a * a.log() + (1 / lam - a) * (1 / lam - a).log() + math.log(lam) / lam
    close(loss.psi(one, a), written, rtol=1e-12, atol=1e-13 / lam)
    f = torch.linspace(-6, 6, 23, dtype=torch.float64)
    best = torch.sigmoid(-f) / lam
    close(loss.value(one, f) + loss.psi(one, best) + best * f, torch.zeros_like(f), rtol=0, atol=1e-13 / lam)


def test_the_logistic_dual_is_the_entropy_of_plus_a_y():
    y = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    close(Logistic().psi(y, 0.2 * y), torch.full_like(y, entropy(0.2)))
    assert Logistic().box(y)[0].tolist() == [-1, 0]


@pytest.mark.parametrize("lam", LAMBDAS)
@every_float
def test_rounding_at_the_end_of_the_box_does_not_give_a_logarithm_of_zero(lam, dtype):
    """(c·1) / c may be larger than 1, and 1 − a/c may be 0."""
    c = (1 / torch.tensor([lam], dtype=dtype)).expand(2, 1)
    loss = Scaled(Logistic(), c)
    y = torch.tensor([[1.0], [-1.0]], dtype=dtype)
    low, high = loss.box(y)
    eps = torch.finfo(dtype).eps
    for a in (low, high, low * (1 + eps), high * (1 + eps), 0 * low):
        inwards = -a.sign() * 0.1 * c
        for result in (loss.psi(y, a), loss.psi_slope(y, a), loss.psi_curvature(y, a), loss.psi_bend(y, a, inwards)):
            assert result.isfinite().all()
        start = loss.psi_start(y, a, torch.ones_like(a))
        assert ((start > low) & (start < high)).all()


def test_the_logistic_start_is_near_the_corner():
    start = Logistic().start(torch.zeros(1), torch.ones(1))
    assert start.item() == pytest.approx(1e-3)


def test_huber_is_linear_beyond_delta():
    u = torch.tensor([-5.0, -0.5, 0.0, 0.5, 5.0])
    assert Huber(1.0).primal(u).tolist() == [4.5, 0.125, 0.0, 0.125, 4.5]


@pytest.mark.parametrize("p", [1.05, 1.2, 1.5, 2.0, 3.0, 20.0])
@every_float
def test_the_curvature_of_lp_is_finite_at_zero(p, dtype):
    zero = torch.zeros(1, dtype=dtype)
    loss = Lp(p)
    assert loss.curvature(zero).isfinite().all()
    assert loss.curvature(zero) >= 0
    for toward in (-1.0, 1.0):
        start = loss.start(zero, torch.full_like(zero, toward))
        assert start.sign().item() == toward
        assert loss.slope(start).isfinite().all()
        assert loss.curvature(start).isfinite().all()


def test_the_dual_of_the_tube_pulls_towards_zero():
    """ψ′ is −y + ε·sign(a); at 0 the subgradient is an interval, which the solver knows from the kink."""
    loss, y = EpsilonInsensitive(0.3), torch.tensor([1.0], dtype=torch.float64)
    for a in torch.tensor([[-0.5], [0.5]], dtype=torch.float64):
        slope = (loss.psi(y, a + 1e-6) - loss.psi(y, a - 1e-6)) / 2e-6
        close(slope, -y + 0.3 * a.sign(), rtol=1e-8, atol=0)
        close(loss.psi_slope(y, a) + loss.kink * a.sign(), slope, rtol=1e-8, atol=0)


# Names and parameters.


@pytest.mark.parametrize("name", losses.NAMES)
def test_get_finds_every_loss(name):
    loss = losses.get(name)
    assert type(loss) is losses.NAMES[name]
    assert losses.get(loss) is loss


def test_get_passes_parameters_on():
    assert losses.get("huber", delta=2.0) == Huber(2.0)
    assert losses.get("quantile", quantile=0.9) == Quantile(0.9)


WRONG = [
    (lambda: Huber(0.0), "delta must be positive and finite", "got delta=0.0", "such as 1.0"),
    (lambda: Huber(-1.0), "delta must be positive", "got delta=-1.0", "Use"),
    (lambda: Huber(math.nan), "delta must be positive", "got delta=nan", "Use"),
    (lambda: Huber(math.inf), "finite", "got delta=inf", "Use"),
    (lambda: Huber("wide"), "delta must be positive", "got delta='wide'", "Use"),
    (lambda: Huber(None), "delta must be positive", "got delta=None", "Use"),
    (lambda: Huber(True), "delta must be positive", "got delta=True", "Use"),
    (lambda: EpsilonInsensitive(-0.1), "epsilon must be at least 0", "got epsilon=-0.1", "such as 0.1"),
    (lambda: EpsilonInsensitive(math.nan), "epsilon must be at least 0", "got epsilon=nan", "Use"),
    (lambda: SquaredEpsilonInsensitive(-1), "epsilon must be at least 0", "got epsilon=-1", "Use"),
    (lambda: SquaredEpsilonInsensitive(math.inf), "finite", "got epsilon=inf", "Use"),
    (lambda: Tube(-0.1), "epsilon must be at least 0", "got epsilon=-0.1", "Use"),
    (lambda: Lp(1.0), "p must be greater than 1", "got p=1.0", "such as 1.5"),
    (lambda: Lp(0.5), "p must be greater than 1", "got p=0.5", "Use"),
    (lambda: Lp(math.inf), "p must be greater than 1 and finite", "got p=inf", "Use"),
    (lambda: Lp(math.nan), "p must be greater than 1", "got p=nan", "Use"),
    (lambda: Expectile(1.0), "expectile must be a number between 0 and 1", "got expectile=1.0", "such as 0.5"),
    (lambda: Expectile(None), "expectile must be a number between 0 and 1", "got expectile=None", "Use"),
    (lambda: Tweedie(1.0), "power must be between 1 and 2", "got power=1.0", "the Poisson loss is 1"),
    (lambda: Tweedie(2.0), "power must be between 1 and 2", "got power=2.0", "Gamma is 2"),
    (lambda: Tweedie(math.nan), "power must be between 1 and 2", "got power=nan", "Use"),
    (lambda: InfimalConvolution((Poisson(), Squared())), "of one task", "Poisson()", "Combine"),
    (lambda: Quantile(0.0), "quantile must be a number or tensor between 0 and 1", "got quantile=0.0", "such as 0.5"),
    (lambda: Quantile(1.0), "between 0 and 1", "got quantile=1.0", "Use"),
    (lambda: Quantile(math.nan), "between 0 and 1", "got quantile=nan", "Use"),
    (lambda: Quantile([0.1, 0.9]), "a number or tensor", "got quantile=[0.1, 0.9]", "Use"),
    (lambda: Quantile(None), "a number or tensor", "got quantile=None", "Use"),
    (lambda: Quantile(torch.tensor([0.5, 1.0])), "between 0 and 1", "got quantile=tensor([0.5000, 1.0000])", "Use"),
    (lambda: Scaled(Squared(), 0.0), "a positive finite number", "c=0.0", "Scaled(Absolute(), 0.5)"),
    (lambda: Scaled(Squared(), -1.0), "a positive finite number", "c=-1.0", "Use"),
    (lambda: Scaled(Squared(), math.nan), "a positive finite number", "c=nan", "Use"),
    (lambda: Scaled("squared", 2.0), "must be a loss", "got 'squared'", "Use"),
    (lambda: InfimalConvolution(()), "one or more losses of one task", "got ()", "Combine"),
    (lambda: InfimalConvolution((Hinge(), Tube())), "of one task", "(Hinge(), Tube(epsilon=0.1))", "Combine"),
    (lambda: InfimalConvolution(("squared", "absolute")), "a tuple of one or more losses", "'squared'", "Combine"),
    (lambda: InfimalConvolution(Squared()), "a tuple of one or more losses", "got Squared()", "Combine"),
    (lambda: losses.get("huber", delta=-1.0), "delta must be positive", "got delta=-1.0", "Use"),
    (lambda: losses.get("huber", epsilon=0.1), "must be among ['delta']", "got ['epsilon']", "Leave out"),
    (lambda: losses.get("squared", delta=1.0), "must be among none", "got ['delta']", "Leave out"),
    (
        lambda: losses.get(Huber(), delta=1.0),
        "must be set in the loss itself",
        "got Huber(delta=1.0) and ['delta']",
        "Set them",
    ),
]


@pytest.mark.parametrize(("make", "rule", "found", "remedy"), WRONG)
def test_a_wrong_parameter_is_refused(make, rule, found, remedy):
    with pytest.raises(InvalidParameter) as caught:
        make()
    message = str(caught.value)
    assert rule in message
    assert found in message
    assert remedy in message


@pytest.mark.parametrize(
    ("name", "hint"), [("hubr", "'huber'"), ("epsilon_insensitiv", "'epsilon_insensitive'"), ("hinge_", "'hinge'")]
)
def test_a_misspelt_loss_is_named(name, hint):
    with pytest.raises(UnknownName, match=rf"loss must be one of absolute, .*; got '{name}'\. Did you mean {hint}\?"):
        losses.get(name)


@pytest.mark.parametrize("name", ["zzz", "", None, 3, ["huber"], Huber])
def test_an_object_that_is_not_a_loss_is_refused(name):
    with pytest.raises(UnknownName, match=r"loss must be one of absolute, .*, tweedie; got"):
        losses.get(name)


@pytest.mark.parametrize("number", [1, np.float32(0.5), np.int64(2)])
def test_a_parameter_may_be_any_real_number(number):
    assert Huber(number).primal(torch.ones(1)).shape == (1,)
    assert Lp(number + 1).p == number + 1


def test_extreme_levels_are_levels():
    """These levels round to 0 and 1 in float32."""
    assert Quantile(1e-60).quantile == 1e-60
    assert Quantile(1 - 1e-12).quantile < 1


def test_losses_are_values():
    assert Huber(0.5) == Huber(0.5)
    assert len({Huber(0.5), Huber(0.5), Huber(0.6)}) == 2
    with pytest.raises(AttributeError):
        Huber(0.5).delta = 1.0
