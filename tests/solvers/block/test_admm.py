"""ADMM against the solution of the same box problem."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from joker.solvers.block.box_cg import Admm, box_conjugate_gradients
from joker.solvers.block.model import Box

kinks = pytest.mark.parametrize("kink", [0.0, 0.3])


def problem(kink: float, dtype: torch.dtype = torch.float64):
    """A kernel matrix with eigenvalues from 75 to 10⁻³, a wide box, three columns: no curvature, little, more."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(160, 4, generator=draw, dtype=torch.float64)
    K = torch.exp(-torch.cdist(x, x).square() / 8) + 1e-3 * torch.eye(160)
    g = torch.randn(160, 3, generator=draw, dtype=torch.float64)
    h = torch.tensor([0.0, 0.01, 0.1], dtype=torch.float64).expand(160, 3)
    a = torch.rand(160, 3, generator=draw, dtype=torch.float64) - 0.5
    box = Box(torch.full_like(a, -20.0).to(dtype), torch.full_like(a, 40.0).to(dtype), kink)
    return K.to(dtype), h.to(dtype), g.to(dtype), a.to(dtype), box


def change(K: Tensor, h: Tensor, g: Tensor, a: Tensor, box: Box, new: Tensor) -> Tensor:  # (t,)
    s = new - a
    return (s * (g + 0.5 * (K @ s + h * s)) + box.kink * (new.abs() - a.abs())).sum(0)


@kinks
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_it_comes_near_the_minimum_where_conjugate_gradients_do_not(kink: float, dtype: torch.dtype) -> None:
    K, h, g, a, box = problem(kink, dtype)
    near = Admm(K).approach(h, g, a, box)
    exact = box_conjugate_gradients(K, h, g, a, box, torch.full((3,), 1e-4, dtype=dtype), 5000)
    best = change(K, h, g, a, box, exact.a)
    few = box_conjugate_gradients(K, h, g, a, box, torch.zeros(3, dtype=dtype), int(near.products[0]))
    assert bool(((near.a >= box.low) & (near.a <= box.high)).all())
    torch.testing.assert_close(near.Ks, K @ (near.a - a), rtol=1e-3, atol=1e-4)
    assert bool((change(K, h, g, a, box, near.a) <= 0.98 * best).all())
    assert float(change(K, h, g, a, box, few.a)[0]) > 0.9 * float(best[0])


@kinks
def test_it_stays_at_the_minimum(kink: float) -> None:
    K, h, g, a, box = problem(kink)
    found = box_conjugate_gradients(K, h, g, a, box, torch.full((3,), 1e-10), 20_000)
    there = g + found.Ks + h * (found.a - a)
    again = Admm(K).approach(h, there, found.a, box)
    torch.testing.assert_close(again.a, found.a, rtol=0, atol=1e-7)


def test_it_never_makes_a_column_worse() -> None:
    K, h, g, a, box = problem(0.3)
    huge = 1e6 * torch.ones_like(h)  # such curvature asks for many more steps
    assert bool((change(K, huge, g, a, box, Admm(K).approach(huge, g, a, box).a) <= 0).all())


def test_equal_rows_make_no_trouble() -> None:
    K = torch.ones(40, 40)
    g, zero = torch.linspace(-1, 1, 40)[:, None], torch.zeros(40, 1)
    found = Admm(K).approach(zero, g, zero, Box(zero - 1, zero + 1))
    assert bool(found.a.isfinite().all())
    assert float((found.a * (g + 0.5 * found.Ks)).sum()) < 0
