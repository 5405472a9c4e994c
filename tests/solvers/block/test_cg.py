"""Conjugate gradients without walls against a direct solve."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from joker.solvers.block.trust_region import Jacobi, Preconditioner, SharedInverse, conjugate_gradients

B, T = 120, 9
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
kinds = pytest.mark.parametrize("kind", ["jacobi", "shared"])


def problem(dtype: torch.dtype = torch.float64, fixed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A badly conditioned kernel matrix, curvatures from 10⁻⁴ to 10⁴ with weights, a gradient, and which rows move."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(B, 3, generator=draw, dtype=torch.float64)
    K = torch.exp(-torch.cdist(x, x).square() / 4)
    weights = torch.rand(B, generator=draw, dtype=torch.float64) + 0.5
    h = torch.logspace(-4, 4, T, dtype=torch.float64)[:, None] * weights
    free = torch.ones(B, dtype=torch.float64)
    free[:fixed] = 0
    g = torch.randn(T, B, generator=draw, dtype=torch.float64) * free
    return K.to(dtype), torch.where(free > 0, h, 1.0).to(dtype), g.to(dtype), free.to(dtype)


def preconditioner(kind: str, K: Tensor, h: Tensor, free: Tensor) -> Preconditioner:
    return SharedInverse(K, h, free) if kind == "shared" else Jacobi(K, h, free.expand_as(h))


def left(K: Tensor, h: Tensor, g: Tensor, s: Tensor) -> Tensor:  # (t,)
    """What is left of the gradient in each column, as a share of the first."""
    return (g + s @ K + h * s).norm(dim=1) / g.norm(dim=1)


@kinds
@dtypes
def test_it_reaches_the_tolerance_it_is_given(kind: str, dtype: torch.dtype) -> None:
    K, h, g, free = problem(dtype)
    s, _ = conjugate_gradients(preconditioner(kind, K, h, free), h, g, 0.01 * g.norm(dim=1), 2000)
    assert bool((left(K, h, g, s) <= 0.03).all())  # the residual of a recursion is a little off the true one


@kinds
def test_it_is_the_direct_solution(kind: str) -> None:
    K, h, g, free = problem()
    s, _ = conjugate_gradients(preconditioner(kind, K, h, free), h, g, 1e-12 * g.norm(dim=1), 5000)
    for j in range(T):
        direct = -torch.linalg.solve(K + torch.diag(h[j]), g[j])
        torch.testing.assert_close(s[j], direct, rtol=1e-5, atol=1e-5 * float(direct.abs().max()))


def test_one_inverse_between_all_curvatures_needs_few_products_in_every_column() -> None:
    K, h, g, free = problem()
    tolerance = 0.01 * g.norm(dim=1)
    shared = conjugate_gradients(SharedInverse(K, h, free), h, g, tolerance, 2000)[1]
    alone = conjugate_gradients(Jacobi(K, h, free.expand_as(h)), h, g, tolerance, 2000)[1]
    assert int(shared.max()) < int(alone.max()) / 3


def test_where_all_columns_are_alike_one_product_will_do() -> None:
    K, h, g, free = problem()
    same = h[4:5].expand_as(h)
    _, products = conjugate_gradients(SharedInverse(K, same, free), same, g, 1e-6 * g.norm(dim=1), 10)
    assert products.tolist() == [1] * T


@kinds
def test_rows_that_cannot_move_stay(kind: str) -> None:
    K, h, g, free = problem(fixed=17)
    s, _ = conjugate_gradients(preconditioner(kind, K, h, free), h, g, 1e-10 * g.norm(dim=1), 5000)
    assert bool((s[:, :17] == 0).all())
    inner, _ = conjugate_gradients(
        preconditioner(kind, K[17:, 17:], h[:, 17:], free[17:]), h[:, 17:], g[:, 17:], 1e-10 * g.norm(dim=1), 5000
    )
    torch.testing.assert_close(s[:, 17:], inner, rtol=1e-5, atol=1e-6 * float(inner.abs().max()))


@kinds
def test_columns_that_are_done_are_left_alone_and_the_limit_is_kept(kind: str) -> None:
    K, h, g, free = problem()
    tolerance = torch.zeros(T, dtype=torch.float64)
    tolerance[3] = torch.inf
    s, products = conjugate_gradients(preconditioner(kind, K, h, free), h, g, tolerance, 4)
    assert products.tolist() == [4, 4, 4, 0, 4, 4, 4, 4, 4]
    assert bool((s[3] == 0).all())


@kinds
def test_a_column_whose_gradient_is_zero_stays_finite(kind: str) -> None:
    K, h, g, free = problem()
    g[2] = 0  # nothing to do: no 0/0 may come of it
    s, products = conjugate_gradients(preconditioner(kind, K, h, free), h, g, 0.1 * g.norm(dim=1), 60)
    assert bool((s[2] == 0).all())
    assert int(products[2]) == 0
    assert bool(s.isfinite().all())
