"""The bound on a step: kept for every loss, halved at the right step; every step still descends inside the box."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from solvers.problems import CASES

from joker import losses, prepare
from joker.errors import InvalidParameter, StateMismatch
from joker.losses import Loss
from joker.solvers import Settings
from joker.solvers.gap import certify

LAMS = (0.1, 1.0)
all_losses = pytest.mark.parametrize("loss", [losses.get(name, **p) for name, p in CASES], ids=repr)


def descent(loss: Loss, **settings):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(240, 3, generator=draw)
    y = 3 * x[:, 0].sin() + x[:, 1]
    y = torch.where(y > 0, 1.0, -1.0) if loss.frame.task == "classification" else y
    chosen = Settings(block_size=60, order="random", averaging=False, tol=0, **settings)
    return prepare(x, y, loss=loss, lam=LAMS, n_features=80, settings=chosen).descent


@all_losses
def test_no_row_moves_further_and_every_step_descends_inside_the_box(loss: Loss) -> None:
    solve = descent(loss, radius=0.05, halve_every=3)
    lam, duals, moves = torch.tensor(LAMS), [], []
    for _ in range(12):
        before = solve.state.alpha.clone()
        solve.step()
        moves.append(((solve.state.alpha - before).abs() * lam).amax(0))
        y, scaled = solve.problem.take(slice(None))
        assert torch.equal(scaled.clamp(y, solve.state.alpha), solve.state.alpha)
        duals.append(certify(solve.state, solve.problem, [(solve.state.alpha, solve.state.image)])[0].dual)
    bounds = [0.05 * 0.5 ** (k // 3) for k in range(12)]
    assert all(bool((move <= bound * (1 + 1e-5)).all()) for move, bound in zip(moves, bounds, strict=True))
    assert bool((moves[0] > 0.99 * bounds[0]).all())  # the bound shortens the first step
    assert all(bool((after <= before + 1e-4 * before.abs()).all()) for before, after in pairwise(duals))


def test_a_radius_that_is_not_reached_changes_nothing() -> None:
    plain, bounded = descent(losses.Huber()), descent(losses.Huber(), radius=1e6)
    for _ in range(8):
        plain.step()
        bounded.step()
    assert torch.equal(plain.state.alpha, bounded.state.alpha)


def test_a_solve_is_continued_with_its_own_radius_only() -> None:
    first, other = descent(losses.Squared(), radius=0.1, halve_every=2), descent(losses.Squared(), radius=0.1)
    first.step()
    with pytest.raises(StateMismatch, match="halve_every"):
        other.load_state_dict(first.state_dict())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"radius": 0.0}, "radius must be a positive number"),
        ({"radius": float("nan")}, "radius must be a positive number"),
        ({"halve_every": 10}, "radius must be finite"),
        ({"halve_every": -1, "radius": 1.0}, "halve_every must be a whole number"),
        ({"radius": 1.0, "momentum": True}, "momentum must not be used with a radius"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Settings(**settings)
