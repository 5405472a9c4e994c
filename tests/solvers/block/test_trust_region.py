"""The block solver: optimal, monotone, honest about how it ended."""

from __future__ import annotations

import math

import pytest
import torch
from solvers.problems import CASES

from joker import losses
from joker.errors import InvalidParameter
from joker.losses import Logistic, Loss, Scaled
from joker.solvers import BlockSolver, Outcome

TIGHT = BlockSolver(tol=1e-9, max_products=5000, max_models=200, patience=math.inf)
all_losses = pytest.mark.parametrize("loss", [losses.get(name, **p) for name, p in CASES], ids=repr)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def block(loss: Loss, dtype: torch.dtype, b: int = 60, rank: int | None = None, c: float = 4.0):
    draw = torch.Generator().manual_seed(b)
    root = torch.randn(b, rank or b, generator=draw, dtype=torch.float64) / math.sqrt(rank or b)
    f, y = torch.randn(2, b, 1, generator=draw, dtype=torch.float64)
    y = torch.where(y > 0, 1.0, -1.0) if loss.frame.task == "classification" else 2 * y
    a = torch.zeros_like(y)
    return [v.to(dtype) for v in (root @ root.T, 0.3 * f, a, y)], Scaled(loss, torch.full((b, 1), c, dtype=dtype))


def block_gap(K, f, a, y, loss, new):
    """P + J of the block's own problem, whose predictions are f + K(new − a)."""
    here = f + K @ (new - a)
    at_zero = (f - K @ a).double()  # what the other blocks predict
    own, here = (here.double() - at_zero), here.double()
    wide = Scaled(loss.loss, loss.c.double())
    terms = wide.value(y.double(), here) + wide.psi(y.double(), new.double()) + new.double() * here
    primal = 0.5 * (new.double() * own).sum() + wide.value(y.double(), here).sum()
    return float(terms.sum() / primal)


@all_losses
@dtypes
@pytest.mark.parametrize("rank", [60, 20], ids=["regular", "singular"])
def test_solves_a_block_to_its_own_duality_gap(loss: Loss, dtype: torch.dtype, rank: int) -> None:
    (K, f, a, y), scaled = block(loss, dtype, rank=rank)
    found = TIGHT.solve(K, f, a, y, scaled)
    gap = block_gap(K, f, a, y, scaled, found.a)
    assert -1e-9 <= gap <= (1e-7 if dtype == torch.float64 else 2e-4)
    assert Outcome(int(found.outcome)) in (Outcome.CONVERGED, Outcome.STALLED)


@all_losses
@dtypes
def test_the_change_it_reports_is_the_change_of_the_objective(loss: Loss, dtype: torch.dtype) -> None:
    (K, f, a, y), scaled = block(loss, dtype)
    first = BlockSolver(tol=0.3).solve(K, f, a, y, scaled)
    here = f + K @ (first.a - a)
    second = TIGHT.solve(K, here, first.a, y, scaled)
    for start, at, found in ((a, f, first), (first.a, here, second)):
        s = (found.a - start).double()
        wide = Scaled(loss, scaled.c.double())
        change = (s * (at.double() + 0.5 * (K.double() @ s))).sum()
        change += (wide.psi(y.double(), found.a.double()) - wide.psi(y.double(), start.double())).sum()
        assert float(found.change) <= 0
        torch.testing.assert_close(found.change[0], change, rtol=1e-4 if dtype == torch.float32 else 1e-8, atol=1e-6)


@all_losses
def test_stays_in_the_box_and_leaves_out_rows_of_weight_zero(loss: Loss) -> None:
    (K, f, a, y), scaled = block(loss, torch.float32, c=1 / 3)
    c = scaled.c.clone()
    c[::3] = 0
    scaled = Scaled(loss, c)
    found = TIGHT.solve(K, f, a, y, scaled)
    low, high = scaled.box(y)
    assert bool(((found.a >= low) & (found.a <= high)).all())
    assert bool((found.a[::3] == 0).all())
    assert bool((found.a[1::3] != 0).any())


@pytest.mark.parametrize("power", range(-10, 11, 2))
@dtypes
def test_logistic_for_every_penalty(power: int, dtype: torch.dtype) -> None:
    c = 2.0**-power * (1 + 1e-3)  # not a power of two: c·(1/c) rounds
    (K, f, a, y), scaled = block(Logistic(), dtype, c=c)
    found = TIGHT.solve(8 * K, f, a, y, scaled)
    gap = block_gap(8 * K, f, a, y, scaled, found.a)
    assert -1e-9 <= gap <= (1e-8 if dtype == torch.float64 else 1e-4)
    beta = found.a * y / scaled.c
    assert bool(((beta > 0) & (beta < 1)).all())


@pytest.mark.parametrize("c", [1e3, 1e4, 1e5])
@pytest.mark.parametrize("width", [2, 10])
@dtypes
def test_a_loose_tolerance_lowers_the_objective_of_new_rows_too(c: float, width: int, dtype: torch.dtype) -> None:
    """Rows at 0 first move inside the barrier. With a large c that raises J by more than the solve may win back."""
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(60), dtype=dtype)
    y = x[:, :1].sign()
    K, scaled = torch.exp(-torch.cdist(x, x) / width), Scaled(Logistic(), torch.full_like(y, c))
    found = BlockSolver(tol=0.2).solve(K, 10 * y, torch.zeros_like(y), y, scaled)
    assert float(found.change) < 0


@all_losses
def test_a_second_solve_from_the_solution_stays_there(loss: Loss) -> None:
    (K, f, a, y), scaled = block(loss, torch.float64)
    found = TIGHT.solve(K, f, a, y, scaled)
    again = BlockSolver().solve(K, f + K @ (found.a - a), found.a, y, scaled)
    assert float(again.change) >= 1e-7 * float(found.change)
    torch.testing.assert_close(again.a, found.a, rtol=1e-3, atol=1e-4)


@all_losses
def test_columns_with_their_own_penalty_equal_separate_solves(loss: Loss) -> None:
    (K, f, a, y), _ = block(loss, torch.float64)
    c = torch.tensor([[0.5, 4.0, 32.0]], dtype=torch.float64).expand(60, 3)
    together = TIGHT.solve(K, f.expand(-1, 3).contiguous(), a.expand(-1, 3).contiguous(), y, Scaled(loss, c))
    for j in range(3):
        alone = TIGHT.solve(K, f, a, y, Scaled(loss, c[:, j : j + 1]))
        torch.testing.assert_close(together.change[j], alone.change[0], rtol=1e-8, atol=0)
        torch.testing.assert_close(K @ together.a[:, [j]], K @ alone.a, rtol=1e-3, atol=1e-3)


def test_ridge_is_solved_directly_and_shares_one_factor() -> None:
    loss = losses.get("squared")
    (K, f, a, y), scaled = block(loss, torch.float64)
    found = BlockSolver(tol=1e-10).solve(K, f, a, y, scaled)
    exact = torch.linalg.solve(K + torch.eye(60) / 4, y - f + K @ a)
    torch.testing.assert_close(found.a, exact)
    assert int(found.products) <= 2
    many = BlockSolver(tol=1e-10).solve(K, f.expand(-1, 4), a.expand(-1, 4), y * torch.arange(1.0, 5.0), scaled)
    torch.testing.assert_close(many.a[:, :1], exact)


def test_outcomes_tell_the_truth() -> None:
    loss = losses.get("hinge")
    (K, f, a, y), scaled = block(loss, torch.float64)
    assert int(BlockSolver(tol=1e-9, max_products=2, max_models=1).solve(K, f, a, y, scaled).outcome) == Outcome.LIMIT
    assert int(BlockSolver(tol=0.5).solve(K, f, a, y, scaled).outcome) == Outcome.CONVERGED
    broken = BlockSolver().solve(K * math.nan, f * math.nan, a, y, scaled)
    assert int(broken.outcome) == Outcome.BROKEN
    assert bool((broken.a == a).all()), "a block that is not finite is left as it was"
    single = [v.float() for v in (K, f, a, y)]
    stalled = BlockSolver(tol=1e-30, max_products=5000).solve(*single, Scaled(loss, scaled.c.float()))
    assert int(stalled.outcome) in (Outcome.STALLED, Outcome.CONVERGED)  # at the rounding of f and y
    assert all(outcome.sentence.endswith(".") for outcome in Outcome)


@pytest.mark.parametrize("name", ["hinge", "epsilon_insensitive"])
def test_precision_that_a_search_gave_up_is_not_asked_for_again(name: str) -> None:
    problem, scaled = block(losses.get(name), torch.float64, rank=50, c=1e3)
    exact, loose = (BlockSolver(tol=1e-6, patience=p).solve(*problem, scaled) for p in (math.inf, 2))
    assert int(loose.outcome) == Outcome.CONVERGED
    assert 2 < int(loose.products) < int(exact.products)
    assert float(exact.change) <= float(loose.change) < 0.9 * float(exact.change)


def test_the_patience_grows_with_the_rows() -> None:
    solver = BlockSolver(patience=10)
    assert [solver.patience_for(b) for b in (3, 512, 1_024)] == [10, 10, 20]
    with pytest.raises(InvalidParameter, match=r"patience of at least 1; got .*patience=0\)"):
        BlockSolver(patience=0)


def test_duplicate_rows_make_no_trouble() -> None:
    for loss in (losses.get("squared"), losses.get("hinge"), losses.get("logistic")):
        (_, f, a, y), _ = block(loss, torch.float32)
        K = torch.ones(60, 60)  # sixty times the same row
        found = TIGHT.solve(K, f, a, y, Scaled(loss, torch.full((60, 1), 1e4)))
        assert bool(found.a.isfinite().all())
        assert block_gap(K, f, a, y, Scaled(loss, torch.full((60, 1), 1e4)), found.a) < 1e-2


@pytest.mark.gpu
@all_losses
def test_on_a_gpu_the_plain_solver_gives_the_same_change(loss: Loss) -> None:
    (K, f, a, y), scaled = block(loss, torch.float32)
    solver = BlockSolver(tol=1e-3, max_products=60, max_models=4)
    found = solver.solve(*(v.cuda() for v in (K, f, a, y)), Scaled(loss, scaled.c.cuda()))
    torch.testing.assert_close(found.change.cpu(), solver.solve(K, f, a, y, scaled).change, rtol=1e-2, atol=1e-3)
