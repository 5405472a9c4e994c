"""The laws of the losses that couple the classes of a row."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import special

from joker import losses
from joker.errors import InvalidParameter, UnknownName
from joker.losses import CrammerSinger, Hinge, Logistic, RowLoss, ScaledRowLoss, Softmax, scaled

CLASSES = (2, 3, 10, 100)
KINDS = tuple(losses.ROW_NAMES.values())
close = torch.testing.assert_close

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
every_size = pytest.mark.parametrize("k", CLASSES)


def rows(k: int, n: int = 60, groups: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Targets, predictions and shares of the classes; shares of some rows are exactly 0 or 1."""
    rng = np.random.default_rng(k)
    own = rng.integers(k, size=(n, groups))
    y = np.where(np.arange(k) == own[..., None], 1.0, -1.0).reshape(n, -1)
    f = rng.normal(scale=3.0, size=(n, groups * k))
    p = rng.dirichlet(np.full(k, 0.3), size=(n, groups))
    p[:5] = np.eye(k)[rng.integers(k, size=(5, groups))]
    return torch.from_numpy(y), torch.from_numpy(f), torch.from_numpy(p.reshape(n, -1))


def total(loss: RowLoss | ScaledRowLoss, v: torch.Tensor) -> torch.Tensor:  # (n, groups)
    return loss.grouped(v).sum(-1)


def scaled_by(loss: RowLoss, n: int, groups: int = 2) -> ScaledRowLoss:
    """The loss with a weight for each row, of which one is 0, and a penalty for each group."""
    weights = torch.linspace(0, 2.3, n, dtype=torch.float64)[:, None]
    lam = torch.tensor([0.3, 7.0], dtype=torch.float64)[:groups].repeat_interleave(loss.classes)
    found = scaled(loss, weights / lam)
    assert isinstance(found, ScaledRowLoss)
    return found


@every_kind
@every_size
def test_value_is_the_formula(kind: type[RowLoss], k: int) -> None:
    y, f, _ = rows(k)
    loss = kind(k)
    for at in range(0, len(y), 7):
        for group in range(2):
            scores = f[at, group * k : (group + 1) * k].numpy()
            own = int(y[at, group * k : (group + 1) * k].argmax())
            if kind is Softmax:
                expected = special.logsumexp(scores) - scores[own]
            else:
                expected = max(s + (j != own) for j, s in enumerate(scores)) - scores[own]
            assert math.isclose(float(total(loss, loss.value(y, f))[at, group]), expected, rel_tol=1e-12, abs_tol=1e-12)


@every_kind
@every_size
def test_psi_is_the_conjugate_at_minus_alpha(kind: type[RowLoss], k: int) -> None:
    """By definition ψ(α) = sup over f of -α·f - ℓ(f); any f is a lower bound, and the best one of many comes close."""
    y, _, p = rows(k, n=12)
    loss = kind(k)
    a = loss.from_shares(y, p)
    psi = total(loss, loss.psi(y, a))
    # For the softmax the supremum is at f = log p; for the maximum at f = -margin.
    f = p.clamp(min=1e-300).log() if kind is Softmax else -(y < 0).to(p)
    at_best = total(loss, -a * f - loss.value(y, f))
    close(psi, at_best, rtol=1e-10, atol=1e-10)
    for scale in (0.1, 1.0, 10.0):
        other = f + scale * torch.from_numpy(np.random.default_rng(3).normal(size=f.shape))
        assert bool((total(loss, -a * other - loss.value(y, other)) <= psi + 1e-9).all())


@every_kind
@every_size
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
def test_no_row_has_a_negative_gap(kind: type[RowLoss], k: int, weighted: bool) -> None:
    y, f, p = rows(k)
    loss = scaled_by(kind(k), len(y)) if weighted else kind(k)
    a = kind(k).from_shares(y, p) * (loss.c if isinstance(loss, ScaledRowLoss) else 1.0)
    gap = total(loss, loss.value(y, f) + loss.psi(y, a) + a * f)
    assert float(gap.min()) >= -1e-9
    assert float(gap.max()) > 0.1


@every_kind
@every_size
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
def test_the_gap_is_zero_at_the_best_point(kind: type[RowLoss], k: int, weighted: bool) -> None:
    y, f, _ = rows(k)
    loss = scaled_by(kind(k), len(y)) if weighted else kind(k)
    a = loss.best(y, f)
    gap = total(loss, loss.value(y, f) + loss.psi(y, a) + a * f)
    close(gap, torch.zeros_like(gap), rtol=0, atol=1e-9)


@every_size
def test_the_best_point_of_the_softmax_is_minus_its_gradient(k: int) -> None:
    y, f, _ = rows(k)
    f.requires_grad_()
    loss = Softmax(k)
    (gradient,) = torch.autograd.grad(loss.value(y, f).sum(), f)
    close(loss.best(y, f.detach()), -gradient)


@every_kind
@every_size
def test_dual_points_are_feasible(kind: type[RowLoss], k: int) -> None:
    y, f, p = rows(k)
    loss = scaled_by(kind(k), len(y))
    noise = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for point in (loss.best(y, f), noise, loss.c * (y + p)):
        a = loss.clamp(y, point)
        assert bool((a[y < 0] <= 0).all())
        assert bool((a <= loss.c + 1e-12)[y > 0].all())
        close(total(loss, a), torch.zeros(len(y), 2, dtype=torch.float64), rtol=0, atol=1e-12)
        assert not a[0].any()  # the row of weight 0
        close(loss.clamp(y, a), a, rtol=1e-12, atol=1e-12)


@every_kind
def test_zero_and_rounding_errors_of_the_sum_stay_where_they_are(kind: type[RowLoss]) -> None:
    loss, (y, _, p) = kind(10), rows(10)
    assert not loss.clamp(y, torch.zeros_like(y)).any()
    a = loss.from_shares(y, p).float()
    moved = loss.clamp(y, a * (1 + 1e-6))
    assert float((moved - a).abs().max()) < 1e-5
    assert bool((moved[(y < 0) & (p == 0)] == 0).all())


@every_size
def test_derivatives_of_psi(k: int) -> None:
    y, _, p = rows(k)
    loss = scaled_by(Softmax(k), len(y))
    shares = torch.where(p < 1e-3, 1e-3, p)
    a = (loss.c * loss.loss.from_shares(y, shares / loss.grouped(shares).sum(-1).repeat_interleave(k, 1)))[1:]
    y, loss = y[1:], ScaledRowLoss(loss.loss, loss.c[1:])
    h = 1e-5 * loss.c
    slope = (loss.psi(y, a + h) - loss.psi(y, a - h)) / (2 * h)
    close(loss.psi_slope(y, a), slope, rtol=1e-4, atol=1e-5)
    curvature = (loss.psi_slope(y, a + h) - loss.psi_slope(y, a - h)) / (2 * h)
    close(loss.psi_curvature(y, a), curvature, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("kind", "other"), [(Softmax, Logistic()), (CrammerSinger, Hinge())])
def test_two_classes_are_a_loss_of_the_margin(kind: type[RowLoss], other: losses.Loss) -> None:
    """With f = (-u/2, u/2) the loss of a row is that of the margin, and so is its conjugate."""
    loss = kind(2)
    assert loss.two_classes == other
    u = torch.linspace(-6, 6, 41, dtype=torch.float64)[:, None]
    f = torch.cat([-u / 2, u / 2], dim=1)
    second = torch.tensor([[-1.0, 1.0]], dtype=torch.float64).expand_as(f)
    one = torch.ones_like(u)
    close(total(loss, loss.value(second, f)), other.value(one, u))
    close(total(loss, loss.value(-second, f)), other.value(-one, u))
    b = torch.linspace(0, 1, 21, dtype=torch.float64)[:, None]
    a = torch.cat([-b, b], dim=1)
    close(total(loss, loss.psi(second[:21], a)), other.psi(one[:21], b))
    close(loss.best(second, f)[:, 1:], torch.sigmoid(-u) if kind is Softmax else (u <= 1).to(u))


@every_kind
@pytest.mark.parametrize("k", [3, 10])
def test_the_gain_is_a_decrease_that_one_row_can_cause(kind: type[RowLoss], k: int) -> None:
    """It is reached on the line to the best point, and no point of the simplex does better than the gap allows."""
    y, f, p = rows(k, n=40)
    loss = scaled_by(kind(k), len(y))
    a, diagonal = loss.c * kind(k).from_shares(y, p), torch.full((len(y), 1), 0.7, dtype=torch.float64)
    gain = total(loss, loss.gain(y, a, f, diagonal))
    gap = total(loss, loss.value(y, f) + loss.psi(y, a) + a * f)
    s = loss.best(y, f) - a

    def decrease(share: float) -> torch.Tensor:
        move = share * s
        return -total(loss, move * f + 0.35 * move.square() + loss.psi(y, a + move) - loss.psi(y, a))

    best = torch.stack([decrease(share) for share in np.linspace(0, 1, 401)]).amax(0)
    assert bool((gain >= 0).all())
    assert bool((gain <= best + 1e-4 * (1 + best)).all())  # the best of a grid
    assert bool((gain <= gap + 1e-9).all())
    assert bool((gain >= 0.2 * best - 1e-9).all())


@pytest.mark.parametrize("name", losses.ROW_NAMES)
def test_get_finds_the_loss(name: str) -> None:
    assert losses.get(name, classes=7) == losses.ROW_NAMES[name](7)


@pytest.mark.parametrize("classes", [1, 0, -3, 2.5, True, "3"])
def test_a_wrong_number_of_classes_is_refused(classes: object) -> None:
    with pytest.raises(InvalidParameter, match="classes must be a whole number of at least 2; got"):
        Softmax(classes)  # type: ignore[arg-type]


def test_an_unknown_name_offers_the_row_losses_too() -> None:
    with pytest.raises(UnknownName, match="softmax"):
        losses.get("softmaxx")
