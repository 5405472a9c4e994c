"""One block of a loss that couples the classes of a row: optimality, feasibility and what the result states."""

from __future__ import annotations

from math import inf

import pytest
import torch
from torch import Tensor

from joker.losses import CrammerSinger, RowLoss, ScaledRowLoss, Softmax, scaled
from joker.ops.block_constants import Outcome
from joker.solvers import BlockSolver
from joker.solvers.block.rows import _newton_shift, _sorted_shift, project_rows

B, K, GROUPS = 50, 5, 2
every_loss = pytest.mark.parametrize("loss", [Softmax(K), CrammerSinger(K)], ids=repr)
TIGHT = BlockSolver(tol=1e-8, max_products=2_000, max_models=600, patience=inf)


def block(loss: RowLoss, rank: int = B) -> tuple[Tensor, Tensor, Tensor, Tensor, ScaledRowLoss]:
    """A kernel matrix, predictions, a feasible point, targets and the loss with weights, of which some are 0."""
    draw = torch.Generator().manual_seed(rank)
    root = torch.randn(B, rank, generator=draw, dtype=torch.float64)
    own = torch.randint(K, (B, GROUPS), generator=draw)
    y = torch.where(torch.arange(K) == own[..., None], 1.0, -1.0).double().flatten(1)
    f = torch.randn(B, K * GROUPS, generator=draw, dtype=torch.float64)
    c = torch.where(torch.arange(B) % 7 == 0, 0.0, 1.0)[:, None] * torch.tensor([0.3, 20.0]).repeat_interleave(K)
    whole = scaled(loss, c.double())
    assert isinstance(whole, ScaledRowLoss)
    return root @ root.T / rank, f, whole.clamp(y, torch.zeros_like(f)), y, whole


def objective(K: Tensor, f: Tensor, a: Tensor, new: Tensor, y: Tensor, loss: ScaledRowLoss) -> Tensor:  # (t,)
    s = new - a
    return (s * (f + 0.5 * (K @ s)) + loss.psi(y, new) - loss.psi(y, a)).sum(0)


@every_loss
@pytest.mark.parametrize("rank", [B, 4], ids=["regular", "singular"])
def test_the_solution_of_a_block_has_no_gap(loss: RowLoss, rank: int) -> None:
    """At the optimum of the block the terms of its rows have the gap 0 at the new predictions."""
    kernel, f, a, y, whole = block(loss, rank)
    result = TIGHT.solve(kernel, f, a, y, whole)
    new_f = f + kernel @ (result.a - a)
    gap = whole.grouped(whole.value(y, new_f) + whole.psi(y, result.a) + result.a * new_f).sum((0, 2))
    size = whole.grouped(whole.value(y, new_f)).sum((0, 2))
    assert bool((gap <= 1e-5 * (size - result.change.reshape(GROUPS, K).sum(1))).all())
    assert bool((result.outcome == Outcome.CONVERGED).all())


@every_loss
def test_the_result_is_feasible_and_states_its_change(loss: RowLoss) -> None:
    kernel, f, a, y, whole = block(loss)
    result = BlockSolver().solve(kernel, f, a, y, whole)
    assert result.group == K
    sums = whole.grouped(result.a).sum(-1)
    torch.testing.assert_close(sums, torch.zeros_like(sums), rtol=0, atol=1e-12)
    assert bool((result.a[y < 0] <= 0).all())
    assert not result.a[::7].any()
    change = objective(kernel, f, a, result.a, y, whole).reshape(GROUPS, K).sum(1)
    torch.testing.assert_close(result.change.reshape(GROUPS, K).sum(1), change, rtol=1e-8, atol=1e-8)
    assert bool((change < 0).all())
    s = result.a - a
    half = 0.5 * (s * (kernel @ s)).sum(0).reshape(GROUPS, K).sum(1)
    torch.testing.assert_close(result.linear.reshape(GROUPS, K).sum(1), change - half, rtol=1e-6, atol=1e-8)


@every_loss
def test_a_solved_block_is_left_where_it_is(loss: RowLoss) -> None:
    kernel, f, a, y, whole = block(loss)
    solved = TIGHT.solve(kernel, f, a, y, whole)
    again = BlockSolver().solve(kernel, f + kernel @ (solved.a - a), solved.a, y, whole)
    torch.testing.assert_close(again.a, solved.a, rtol=1e-3, atol=1e-4)
    assert bool((again.change <= 0).all())


@every_loss
def test_values_that_are_not_finite_are_reported(loss: RowLoss) -> None:
    kernel, f, a, y, whole = block(loss)
    f[3, 1] = torch.nan
    result = BlockSolver().solve(kernel, f, a, y, whole)
    assert bool((result.outcome[:K] == Outcome.BROKEN).all())
    assert not (result.outcome[K:] == Outcome.BROKEN).any()
    torch.testing.assert_close(result.a[:, :K], a[:, :K])


@pytest.mark.parametrize("k", [2, 3, 40])
def test_the_projection_is_the_nearest_point_of_the_simplex(k: int) -> None:
    draw = torch.Generator().manual_seed(k)
    v = 3 * torch.randn(2, k, 30, generator=draw, dtype=torch.float64)
    c = torch.rand(2, 1, 30, generator=draw, dtype=torch.float64)
    c[:, :, 0] = 0
    p = project_rows(v, c)
    assert bool((p >= 0).all())
    torch.testing.assert_close(p.sum(1, keepdim=True), c)
    for _ in range(20):  # v - p makes an obtuse angle with every direction into the simplex
        other = c * torch.rand(v.shape, generator=draw, dtype=torch.float64).softmax(1)
        assert bool((((v - p) * (other - p)).sum(1) <= 1e-10).all())
    torch.testing.assert_close(_newton_shift(v, c)[:, :, 1:], _sorted_shift(v, c)[:, :, 1:])
