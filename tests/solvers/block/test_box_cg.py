"""Conjugate gradients in a box against the minimum over every face of the box."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from joker.solvers.block import box_cg
from joker.solvers.block.box_cg import box_conjugate_gradients
from joker.solvers.block.model import Box


def objective(K, h, g, a0, kink, a):
    s = a - a0
    return g @ s + 0.5 * s @ (K @ s) + 0.5 * (h * s) @ s + kink * (np.abs(a).sum() - np.abs(a0).sum())


def every_face(K, h, g, a0, low, high, kink):
    """The smallest value over all faces: each coordinate at an end, at 0, or free with a sign."""
    best, A = np.inf, K + np.diag(h)
    free = [(sign, None) for sign in ((-1, 1) if kink else (0,))]
    for choice in product([(0, "low"), (0, "high"), *([(0, "zero")] if kink else []), *free], repeat=len(g)):
        a = np.array(
            [{"low": lo, "high": hi, "zero": 0.0, None: 0.0}[c[1]] for c, lo, hi in zip(choice, low, high, strict=True)]
        )
        F = np.array([c[1] is None for c in choice])
        if F.any():
            signs = np.array([c[0] for c in choice])[F]
            right = A[F] @ a0 - g[F] - kink * signs - A[np.ix_(F, ~F)] @ a[~F]
            a[F] = np.linalg.lstsq(A[np.ix_(F, F)], right, rcond=None)[0]
            if kink and (a[F] * signs < 0).any():
                continue
        if np.isfinite(a).all() and (a >= low - 1e-12).all() and (a <= high + 1e-12).all():
            best = min(best, objective(K, h, g, a0, kink, a))
    return best


@pytest.mark.parametrize("kink", [0.0, 0.4])
@pytest.mark.parametrize("rank", [4, 2], ids=["regular", "singular"])
@settings(max_examples=30)  # each tries hundreds of faces
@given(seed=st.integers(0, 2**20))
def test_minimum_over_every_face(kink: float, rank: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((rank, 4))
    K, h = root.T @ root, rng.uniform(0, 0.5, 4) * (rank == 4)
    low, high = -rng.uniform(0, 1, 4), rng.uniform(0, 1, 4)
    high[0] = low[0] = 0.0 if kink else high[0]  # a coordinate that cannot move
    a0 = np.clip(rng.standard_normal(4) * 0.3, low, high)
    a0[1] = 0.0 if low[1] <= 0 <= high[1] else a0[1]
    g = rng.standard_normal(4)
    column = [torch.from_numpy(v)[:, None] for v in (h, g, a0)]
    box = Box(torch.from_numpy(low)[:, None], torch.from_numpy(high)[:, None], kink)
    found = box_conjugate_gradients(torch.from_numpy(K), *column, box, torch.tensor([1e-11]), 500)
    a = found.a[:, 0].numpy()
    assert (a >= low).all()
    assert (a <= high).all()
    np.testing.assert_allclose(objective(K, h, g, a0, kink, a), every_face(K, h, g, a0, low, high, kink), atol=1e-8)
    np.testing.assert_allclose(found.Ks[:, 0], K @ (a - a0), atol=1e-9)


def test_columns_do_not_disturb_one_another() -> None:
    draw = torch.Generator().manual_seed(0)
    root = torch.randn(60, 40, generator=draw, dtype=torch.float64)
    K, h = root @ root.T, torch.rand(60, 3, generator=draw, dtype=torch.float64)
    g = torch.randn(60, 3, generator=draw, dtype=torch.float64) * torch.tensor([1.0, 1e3, 1e-3])
    zero = torch.zeros(60, 3, dtype=torch.float64)
    box = Box(zero - 1, zero + 1)
    together = box_conjugate_gradients(K, h, g, zero, box, torch.full((3,), 1e-9), 2000)
    for j in range(3):
        alone = box_conjugate_gradients(
            K, h[:, [j]], g[:, [j]], zero[:, [j]], Box(box.low[:, [j]], box.high[:, [j]]), torch.tensor([1e-9]), 2000
        )
        torch.testing.assert_close(together.a[:, [j]], alone.a, atol=1e-7, rtol=0)
    assert len(set(together.products.tolist())) > 1, "each column counts its own products"


def test_a_finished_column_costs_nothing() -> None:
    K = torch.eye(5, dtype=torch.float64)
    g = torch.stack([torch.zeros(5), torch.ones(5)], dim=1).double()
    zero = torch.zeros_like(g)
    found = box_conjugate_gradients(K, zero, g, zero, Box(zero - 9, zero + 9), torch.tensor([1e-9, 1e-9]), 50)
    assert found.products.tolist() == [0, 1]
    assert found.a.tolist() == [[0.0, -1.0]] * 5


def test_limit_on_products_is_kept_and_the_objective_never_rises() -> None:
    draw = torch.Generator().manual_seed(1)
    root = torch.randn(80, 80, generator=draw, dtype=torch.float64)
    K, g = root @ root.T / 80, torch.randn(80, 1, generator=draw, dtype=torch.float64)
    zero = torch.zeros_like(g)
    values = []
    for limit in (1, 3, 10, 30, 100):
        found = box_conjugate_gradients(K, zero, g, zero, Box(zero, zero + 2), torch.tensor([0.0]), limit)
        assert int(found.products) <= limit + 2  # a projection may need two more
        values.append(float((found.a * (g + 0.5 * found.Ks)).sum()))
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0] < 0


def test_above_its_patience_a_search_stops_earlier_and_other_columns_are_the_same() -> None:
    draw = torch.Generator().manual_seed(2)
    K = torch.diag(torch.logspace(-4, 0, 90, dtype=torch.float64))
    g = torch.randn(90, 2, generator=draw, dtype=torch.float64)
    h, zero = torch.tensor([1e-6, 10.0], dtype=torch.float64).expand(90, 2), torch.zeros_like(g)
    turn = torch.linalg.qr(torch.randn(90, 90, generator=draw, dtype=torch.float64)).Q
    task = (turn @ K @ turn.T, h, g, zero, Box(zero - 1e9, zero + 1e9), 1e-3 * g.norm(dim=0), 500)
    exact, loose = box_conjugate_gradients(*task), box_conjugate_gradients(*task, 8)
    assert exact.products[1] <= 8 < loose.products[0] < exact.products[0]
    assert torch.equal(loose.a[:, 1], exact.a[:, 1])
    left = g + loose.Ks + h * loose.a
    assert bool(loose.reached.all())
    assert left[:, 0].norm() <= loose.products[0] / 8 * 1e-3 * g[:, 0].norm()


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("kink", [0.0, 0.3])
def test_a_search_goes_on_among_the_coordinates_that_may_move(
    monkeypatch: pytest.MonkeyPatch, kink: float, curved: bool
) -> None:
    """Most coordinates are held by their wall, or by the kink: products with the others are smaller."""
    b, rng = 2 * box_cg.MANY, np.random.default_rng(0)
    x = rng.standard_normal((b, 3))
    K = torch.from_numpy(np.exp(-((x[:, None] - x) ** 2).sum(2) / 2))
    g = np.where(np.arange(b) < 60, -rng.uniform(1, 2, b), kink * rng.uniform(-1, 1, b) if kink else 30.0)
    h = torch.from_numpy(rng.uniform(0, 0.5, b) * curved)[:, None]
    a = torch.zeros(b, 1, dtype=torch.float64)
    box = Box(a - (1.0 if kink else 0.0), a + 1.0, kink)
    sizes, product = [], box_cg.SymmetricProduct

    class Counted(product):
        def __call__(self, v):
            sizes.append(len(v))
            return super().__call__(v)

    monkeypatch.setattr(box_cg, "SymmetricProduct", Counted)
    task = K, h, torch.from_numpy(g)[:, None], a, box, torch.tensor([1e-9], dtype=torch.float64), 3_000
    found, expected = box_cg.minimise_columns(*task, np.inf), box_conjugate_gradients(*task)
    assert bool(found.reached.all())
    assert found.products.tolist() == [len(sizes)]
    torch.testing.assert_close(found.a, expected.a, rtol=0, atol=1e-8)
    torch.testing.assert_close(found.Ks, K @ (found.a - a), rtol=0, atol=1e-9)
    assert sizes.count(b) < len(sizes) / 2


def test_a_search_without_products_left_has_not_reached_its_tolerance() -> None:
    b = 2 * box_cg.MANY
    K = torch.eye(b, dtype=torch.float64) + 0.5
    g = torch.where(torch.arange(b) < 50, -torch.arange(b) - 1.0, 9e3).double()[:, None]
    a = torch.zeros(b, 1, dtype=torch.float64)
    for limit in (1, 3, 10):
        found = box_cg.minimise_columns(K, a, g, a, Box(a, a + 9.0), torch.tensor([0.0]), limit, np.inf)
        assert int(found.products) <= limit + 3  # a projection, and the step among all coordinates
        assert float((found.a * g + 0.5 * found.a * found.Ks).sum()) < 0
