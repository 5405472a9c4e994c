"""What moves beside α: the average, momentum and its restart, and copies of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from solvers.problems import small

from joker.solvers import Reason
from joker.solvers.report import Gap

modes = pytest.mark.parametrize("mode", ["exact", "features"])


def descent_of(mode: str, name: str = "squared_hinge", **settings: object):
    return small(name, {}, mode, weighted=True).descent([1.0], block_size=64, method="random_blocks", **settings)


def image_of(mode: str, name: str, alpha: torch.Tensor) -> torch.Tensor:
    """θ = Ψᵀα or f = Kα, from a dense matrix root with rootᵀ root = K."""
    root = small(name, {}, mode, weighted=True).root
    return root @ alpha if mode == "features" else root.T @ (root @ alpha)


@modes
def test_the_average_with_momentum_is_that_of_all_iterates(mode: str) -> None:
    """Every step moves every row. ᾱ = Σ r (1−r)^(k−j) α_j / (1 − (1−r)^k), summed here from stored iterates."""
    descent = descent_of(mode, momentum=True)
    rate, iterates = 2 / descent.method.steps_per_epoch, []
    for _ in range(7):
        descent.step()
        iterates.append((descent.state.alpha.clone(), descent.state.image.clone()))
    weights = [rate * (1 - rate) ** (6 - j) for j in range(7)]
    for place, found in enumerate(descent.method.average()):
        expected = sum(w * point[place] for w, point in zip(weights, iterates, strict=True)) / sum(weights)
        torch.testing.assert_close(found, expected)


@modes
def test_a_restart_of_momentum_begins_at_alpha_with_its_image(mode: str) -> None:
    descent = descent_of(mode, momentum=True)
    for _ in range(9):
        descent.step()
    momentum, state = descent.method.momentum, descent.state
    assert not torch.equal(momentum.alpha, state.alpha)
    dual = torch.tensor([-1.0], dtype=torch.float64)
    momentum.check(dual, state)
    momentum.check(dual + 0.5, state)  # the objective has risen
    assert torch.equal(momentum.alpha, state.alpha)
    torch.testing.assert_close(momentum.image, image_of(mode, "squared_hinge", state.alpha))
    assert float(momentum.theta) == 1 / descent.method.steps_per_epoch
    assert momentum.image is not state.image


@modes
@pytest.mark.parametrize("averaging", [False, True])
def test_the_tolerance_is_claimed_only_for_an_image_that_is_computed_again(mode: str, averaging: bool) -> None:
    """For any f, α = c (y − f) has no gap with f. If f is not the image of α, nothing is solved."""
    descent = descent_of(mode, "squared", averaging=averaging, max_epochs=0, tol=1e-3)
    state = descent.state
    theta = torch.linspace(-0.1, 0.1, len(state.image), dtype=torch.float64)[:, None]
    f = torch.cat([f for _, f in state.predictions(theta)])
    y, loss = descent.problem.take(slice(None))
    state.reset(loss.c * (y - f), theta)
    report = descent.run()
    assert report.reason is Reason.EPOCHS
    assert report.relative_gap > 1e-3
    torch.testing.assert_close(report.image, image_of(mode, "squared", report.alpha))


def test_the_best_dual_value_of_an_earlier_evaluation_is_kept() -> None:
    descent = descent_of("features", max_epochs=3, tol=0.0)
    descent.run()
    last = descent.records[-1]
    better = last.gap.dual - 0.9 * last.gap.gap  # as if a point near the optimum had been seen there
    descent.records[-1] = replace(last, gap=last.gap.with_dual(better))
    descent.settings = replace(descent.settings, max_epochs=3.2)
    assert torch.allclose(descent.run().gap.dual, better, rtol=1e-9)


def test_a_difference_of_sums_below_their_rounding_is_not_a_gap() -> None:
    """The terms of a point cancel row by row and are precise; P plus the J of another point is not."""
    loss, square, own = 2.0, -1.0, 3e-9
    sums = torch.tensor([[loss], [square], [own - loss - square]], dtype=torch.float64)
    for noise in (0.0, 1e-14, -1e-14):
        gap = Gap(torch.cat([sums, torch.tensor([[-(loss + square / 2) + noise]], dtype=torch.float64)]))
        assert float(gap.gap) == pytest.approx(own)
    clear = Gap(torch.cat([sums, torch.tensor([[-(loss + square / 2) + 1e-9]], dtype=torch.float64)]))
    assert float(clear.gap) == pytest.approx(1e-9, rel=1e-5)


@pytest.mark.parametrize("settings", [{}, {"momentum": True}], ids=str)
def test_a_saved_state_does_not_change_with_the_solve(settings: dict[str, bool]) -> None:
    descent = descent_of("features", **settings)
    descent.step()
    saved = descent.state_dict()
    parts = ["state", "average", *settings]
    before = {(part, name): value.clone() for part in parts for name, value in tensors(saved[part])}
    descent.step()
    descent.step()
    for (part, name), value in before.items():
        assert torch.equal(saved[part][name], value), (part, name)


def tensors(part: dict):
    return ((name, value) for name, value in part.items() if isinstance(value, torch.Tensor))
