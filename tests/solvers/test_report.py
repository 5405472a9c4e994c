"""What a report says of a solve, and the gaps that count rounding errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import joker
from joker.solvers import Reason, Settings, report
from joker.solvers.report import certify, certify_in_float64, certify_unrounded, conclusion, ended_far

N = 2_000
CASES: dict[str, dict[str, Any]] = {
    "hinge": {"loss": "hinge", "lam": 0.01},
    "ε-insensitive": {"loss": "epsilon_insensitive", "lam": 0.05},
    "squared hinge, three λ": {"loss": "squared_hinge", "lam": [0.01, 0.1, 1.0]},
    "coupled classes": {"loss": joker.losses.CrammerSinger(4), "lam": 0.1},
}


def solved(name: str, noise: float = 0.0) -> tuple[Any, Any, Any]:
    """Return the state, the problem and a point of a fit in float32, with errors of the predictions."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(N, 5, generator=draw)
    loss = CASES[name]["loss"]
    y = torch.where(x[:, 0] + 0.5 * torch.randn(N, generator=draw) > 0, 1.0, -1.0)
    if loss == "epsilon_insensitive":
        y = x[:, 0].sin() + 0.3 * y
    elif not isinstance(loss, str):
        y = torch.where((x[:, :4].argmax(1))[:, None] == torch.arange(4), 1.0, -1.0)
    training = joker.prepare(x, y, bandwidth=2.0, settings=Settings(tol=1e-4, max_epochs=50), **CASES[name])
    _, found = training.run()
    state = training.descent.state
    image = state.image_of(found.alpha)
    image += noise * torch.randn(image.shape, generator=draw)
    return state, training.descent.problem, (found.alpha, image)


@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize("name", CASES)
def test_a_gap_from_a_sample_holds_and_is_smaller_than_the_bound(name: str, noise: float) -> None:
    state, problem, point = solved(name, noise)
    bound = certify_unrounded(state, problem, [point], 0)
    exact = state.precise_image(point[0])
    true = report._sums(state, problem, [(point[0], exact)])[0]
    for seed in range(3):
        found = certify_unrounded(state, problem, [point], seed, enough=0.0)
        assert bool((true[:3].sum(0) <= found.gap * (1 + 1e-9)).all())
        # It is little more than the gap itself, where the bound has the largest error in every row.
        if noise and len(true[0]) == 1:
            assert float(found.gap - true[:3].sum(0)) <= 0.5 * float(bound.gap - true[:3].sum(0))
        assert found.worst <= bound.worst
    assert certify_unrounded(state, problem, [point], 0, enough=bound.worst).worst == bound.worst


def test_the_gap_of_a_sample_is_that_of_the_errors_where_they_lower_it() -> None:
    """Errors of the working precision may make its gap too large as well: then nothing is added, and nothing taken."""
    state, problem, (alpha, _) = solved("hinge")
    image = state.precise_image(alpha).float()
    found = certify_unrounded(state, problem, [(alpha, image)], 0, enough=0.0)
    precise = certify_in_float64(state, problem, (alpha, image), 0)[1]
    assert precise.worst * (1 - 1e-3) <= found.worst <= 1.1 * precise.worst
    assert found.worst >= certify(state, problem, [(alpha, image)])[0].worst


@pytest.mark.parametrize("name", CASES)
def test_errors_of_predictions_add_up_to_less_than_the_largest_one_in_every_row(name: str) -> None:
    """They have both signs. Their sum with the weights α says how large the objectives are at least."""
    state, problem, point = solved(name, 1e-3)
    alpha, image = point
    errors = image.double() - state.precise_image(alpha)
    group = problem.loss.group
    true, worst = (report._mean(one, group) for one in ((alpha * errors).sum(0).abs(), alpha.abs().sum(0) * 4e-3))
    (sums,) = report._sums(state, problem, [point])[:, :4]
    for seed in range(5):
        found, largest = report._sampled_slack(state, problem, point, sums, 0 * worst + 4e-3, seed, 512)
        assert bool((largest <= errors.abs().amax(0)).all())
        assert bool((true <= found).all())
        assert bool((found <= 0.2 * worst).all())


def test_an_error_above_the_bound_raises_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows had small errors only; then the bound is twice the largest error that was found later."""
    state, problem, point = solved("hinge", 1e-4)
    bound = certify_unrounded(state, problem, [point], 0)
    measured, calls = state.prediction_errors, []

    def larger(*args: Any) -> torch.Tensor:
        calls.append(args)
        errors = measured(*args)
        return errors if len(calls) == 1 else 5 * errors.abs().max() + 0 * errors

    monkeypatch.setattr(state, "prediction_errors", larger)
    monkeypatch.setattr(report, "MORE_SAMPLED", {128: 1.0})
    found = certify_unrounded(state, problem, [point], 0, enough=0.0)
    assert len(calls) == 2
    assert found.worst > 2 * bound.worst


def test_few_rows_are_not_sampled_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample costs as much as all of them."""
    state, problem, point = solved("hinge", 1e-4)
    bound = certify_unrounded(state, problem, [point], 0)
    monkeypatch.setattr(report, "MORE_SAMPLED", dict.fromkeys(report.MORE_SAMPLED, 0.05))
    assert certify_unrounded(state, problem, [point], 0, enough=0.0).worst == bound.worst


def test_a_solve_that_stalls_far_away_has_ended_far() -> None:
    """A longer solve would not help; another precision would."""
    assert ended_far(0.9, 1e-3, 0.0, Reason.STALLED.value)
    assert not ended_far(0.9, 1e-3, 0.0, Reason.EPOCHS.value)
    assert not ended_far(1e-4, 1e-6, 0.0, Reason.STALLED.value)
    assert "use precision='float64', or a larger lam" in conclusion(0.9, 1e-3, 0.0, Reason.STALLED.value)
    assert "A longer fit would change little" in conclusion(1e-4, 1e-6, 0.0, Reason.STALLED.value)
