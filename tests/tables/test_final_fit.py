"""The fit on all of many rows: what it takes from the search on some of them, and what it changes."""

from typing import Any

import numpy as np
import pytest

import joker
from joker.estimators import resolve
from joker.tables.blend import Member
from joker.tables.candidates import Candidate
from joker.tables.final_fit import final_settings, narrowed
from joker.tables.problem import Layout, Problem
from joker.tables.search import Clock
from joker.tables.targets import IDENTITY, fit_number_target
from joker.tables.validation import Fold

ROWS, SEARCHED = 1_500, 1_000


def searched(y: Any, x: Any, *, lam: float = 0.01, limit: float = 1e6, **settings: Any) -> tuple[Problem, Candidate]:
    """Return a problem, and a candidate that was fitted on its first rows."""
    target = fit_number_target(y, IDENTITY)
    model = joker.KernelRidge(lam=lam, random_state=0, **settings).fit(x[:SEARCHED], target.encode(y)[:SEARCHED])
    problem = Problem(x, y, 0, joker.KernelRidge(), Clock(limit), 0)
    held = target.decode(model.predict(x[SEARCHED:]), np.zeros(1))[:, None]
    return problem, Candidate(Member(0, model, 1.0, target), held, model, x, seconds=0.1)


def layout() -> Layout:
    rows = np.arange(ROWS)
    return Layout([Fold(rows[:SEARCHED], rows[SEARCHED:])], rows[:SEARCHED])


@pytest.fixture
def x(rng: np.random.Generator) -> Any:
    return rng.standard_normal((ROWS, 2)).astype(np.float32)


def test_a_bandwidth_that_is_too_wide_becomes_narrower(x: Any) -> None:
    y = np.sin(4 * x[:, 0]).astype(np.float64)
    problem, wide = searched(y, x, bandwidth=1.4, standardize=False)
    narrow = narrowed(problem, wide, layout())
    assert narrow.member.model.bandwidth_ < 0.9 * wide.member.model.bandwidth_
    assert np.mean((narrow.held[:, 0] - y[SEARCHED:]) ** 2) < 0.5 * np.mean((wide.held[:, 0] - y[SEARCHED:]) ** 2)


@pytest.mark.parametrize(("settings", "limit"), [({"bandwidth": 1.0}, 1e6), ({"bandwidth": 2.0}, 0.1)])
def test_a_good_bandwidth_stays_and_so_does_any_without_time(
    x: Any, rng: np.random.Generator, settings: dict[str, Any], limit: float
) -> None:
    y = x[:, 0] + 0.5 * rng.standard_normal(ROWS)
    problem, candidate = searched(y, x, lam=1.0, limit=limit, standardize=False, **settings)
    assert narrowed(problem, candidate, layout()) is candidate


def test_the_fit_on_all_rows_needs_no_float64_and_has_a_usable_model_after_an_epoch(x: Any) -> None:
    _, candidate = searched(x[:, 0].astype(np.float64), x, lam=1e-6)
    settings = final_settings(candidate, 50_000)
    assert settings["lam"] == [pytest.approx(50_000 * np.finfo(np.float32).eps)]
    assert (settings["method"], settings["momentum"]) == ("random_blocks", True)
    assert not resolve.rounding_matters(candidate.member.model.set_params(**settings), 50_000, None)
    assert "momentum" not in final_settings(candidate, 60_000)  # with features
