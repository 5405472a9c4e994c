"""The fit on many rows: what it takes from the search on some of them, and on how many rows it is."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import joker
from joker.estimators.precision import smallest_penalty
from joker.tables import refit
from joker.tables.ensemble import EnsembleMember
from joker.tables.plan import SearchPlan, TableProblem
from joker.tables.refit import (
    EnsembleCandidate,
    Fit,
    fit_ensemble,
    fit_on_many_rows,
    fits,
    fitted,
    on_more_rows,
    penalty,
    refined,
)
from joker.tables.targets import IDENTITY, fit_number_target
from joker.tuning.halving import TimeBudget
from joker.tuning.splits import Split

ROWS, SEARCHED = 1_500, 1_000


def searched(
    y: Any, x: Any, *, lam: float = 0.01, limit: float = 1e6, **settings: Any
) -> tuple[TableProblem, EnsembleCandidate]:
    """Return a problem, and a candidate that was fitted on its first rows."""
    target = fit_number_target(y, IDENTITY)
    model = joker.KernelRidge(lam=lam, random_state=0, **settings).fit(x[:SEARCHED], target.encode(y)[:SEARCHED])
    problem = TableProblem(x, y, 0, joker.KernelRidge(), TimeBudget(limit), 0)
    held = target.decode(model.predict(x[SEARCHED:]), np.zeros(1))[:, None]
    return problem, EnsembleCandidate(EnsembleMember(0, model, 1.0, target), held, model, x, seconds=0.1)


def layout() -> SearchPlan:
    rows = np.arange(ROWS)
    return SearchPlan([Split(rows[:SEARCHED], rows[SEARCHED:])], rows[:SEARCHED])


@pytest.fixture
def x(rng: np.random.Generator) -> Any:
    return rng.standard_normal((ROWS, 2)).astype(np.float32)


@pytest.mark.parametrize(("kernel", "bandwidth"), [("gaussian", 1.4), ("matern32", 8.0)])
def test_a_bandwidth_that_is_too_wide_becomes_narrower(x: Any, kernel: str, bandwidth: float) -> None:
    y = np.sin(4 * x[:, 0]).astype(np.float64)
    problem, wide = searched(y, x, kernel=kernel, bandwidth=bandwidth, standardize=False)
    narrow = refined(problem, wide, layout(), 60.0)
    assert narrow.member.model.bandwidth_ < 0.9 * wide.member.model.bandwidth_
    assert np.mean((narrow.held[:, 0] - y[SEARCHED:]) ** 2) < 0.5 * np.mean((wide.held[:, 0] - y[SEARCHED:]) ** 2)


@pytest.mark.parametrize(("bandwidth", "seconds"), [(1.0, 60.0), (8.0, 0.05)])
def test_a_good_bandwidth_stays_and_so_does_any_without_time(
    x: Any, rng: np.random.Generator, bandwidth: float, seconds: float
) -> None:
    y = x[:, 0] + 0.5 * rng.standard_normal(ROWS)
    problem, candidate = searched(y, x, lam=1.0, standardize=False, bandwidth=bandwidth)
    assert refined(problem, candidate, layout(), seconds) is candidate


@pytest.mark.parametrize(("lam", "smaller"), [(300.0, True), (0.3, False)])
def test_a_penalty_that_is_too_large_for_classes_becomes_smaller(
    x: Any, rng: np.random.Generator, lam: float, smaller: bool
) -> None:
    y = (np.sin(2 * x[:, 0]) + rng.standard_normal(ROWS) > 0).astype(np.intp)
    model = joker.KernelClassifier(lam=lam, bandwidth=0.5, random_state=0, standardize=False)
    model.fit(x[:SEARCHED], y[:SEARCHED])
    problem = TableProblem(x, y, 2, joker.KernelClassifier(), TimeBudget(1e6), 0)
    candidate = EnsembleCandidate(EnsembleMember(0, model), problem.values(model, x[SEARCHED:]), model, x, seconds=0.1)
    found = refined(problem, candidate, layout(), 60.0)
    assert (found.member.model.lam < lam) == smaller
    assert found.member.model.lam == pytest.approx(found.member.model.lam_)
    loss = problem.loss(np.arange(SEARCHED, ROWS))
    assert loss(found.held) <= loss(candidate.held)


@pytest.mark.parametrize(("limit", "worse", "fitted_members"), [(1e6, 1.02, 2), (10.0, 1.02, 1), (1e6, 1.2, 1)])
def test_time_that_is_left_fits_candidates_without_weight(
    x: Any, monkeypatch: pytest.MonkeyPatch, limit: float, worse: float, fitted_members: int
) -> None:
    """The first member takes eight seconds: another one has no place in ten. One with far larger errors has none."""
    y = np.sin(x[:, 0]).astype(np.float64)
    problem, good = searched(y, x, limit=limit, bandwidth=1.0)
    _, poor = searched(y, x, limit=limit, bandwidth=1.0)
    errors = good.held - y[SEARCHED:, None]
    poor = replace(poor, member=replace(poor.member, encoding=1), held=good.held + (worse - 1) * errors)
    learnt = fit_ensemble(problem, [None, None], [good, poor], layout().folds, [])
    assert learnt.weight(poor) == 0
    seen: list[EnsembleCandidate] = []

    def slow(
        problem: TableProblem, candidate: EnsembleCandidate, search: SearchPlan, seconds: float
    ) -> EnsembleCandidate:
        seen.append(candidate)
        problem.clock.started -= 8
        return candidate

    monkeypatch.setattr(refit, "on_more_rows", slow)
    monkeypatch.setattr(refit, "refined", lambda problem, candidate, search, seconds: candidate)
    fit_on_many_rows(problem, learnt, [poor, good], layout())
    assert seen[0] is good
    assert len(seen) == fitted_members


@pytest.mark.parametrize(("limit", "rows"), [(1e6, ROWS), (10.0, SEARCHED)])
def test_time_that_is_left_fits_members_on_all_rows(
    x: Any, monkeypatch: pytest.MonkeyPatch, limit: float, rows: int
) -> None:
    """The member takes nine seconds on the rows that are not held out, so that a second fit has no place in ten."""
    y = np.sin(4 * x[:, 0]).astype(np.float64)
    problem, candidate = searched(y, x, limit=limit, bandwidth=0.4, standardize=False)
    poor = replace(candidate, held=np.zeros_like(candidate.held))
    search = replace(layout(), rows=np.arange(100))
    learnt = fit_ensemble(problem, [None], [poor], search.folds, [])
    times: list[int] = []
    fit_while_fast = refit.fit_while_fast

    def slow(model: Any, inputs: Any, y: Any, *others: Any) -> Any:
        times.append(len(y))
        problem.clock.started -= 9
        return fit_while_fast(model, inputs, y, *others)

    monkeypatch.setattr(refit, "fit_while_fast", slow)
    monkeypatch.setattr(refit, "refined", lambda problem, candidate, search, seconds: candidate)
    found = fit_on_many_rows(problem, learnt, [poor], search)
    assert times == [SEARCHED] + [rows] * (rows > SEARCHED)
    (member,) = found.ensemble.members
    assert len(member.model.dual_coef_) == rows
    assert found.held_ensemble is not None
    assert len(found.held_ensemble.members[0].model.dual_coef_) == SEARCHED  # it must not know the held-out rows
    assert found.residuals.std() < 0.5 * y.std()


def test_the_fit_on_more_rows_needs_no_float64(x: Any) -> None:
    _, candidate = searched(x[:, 0].astype(np.float64), x, lam=1e-6)
    lam = penalty(candidate, 50_000)
    assert lam == pytest.approx(50_000 * np.finfo(np.float32).eps)
    assert lam >= smallest_penalty(50_000)  # a smaller λ of a linear system is solved in float64


def many_rows(n: int, n_features: Any = "auto", gpu: Any = None) -> tuple[TableProblem, SearchPlan]:
    """Return a problem of n rows without inputs, and a search on 10,000 of them."""
    estimator = joker.KernelRidge(n_features=n_features)
    rows = np.arange(n)
    return TableProblem(None, np.zeros(n), 0, estimator, TimeBudget(60), 0, gpu=gpu), SearchPlan(
        [Split(rows, rows[:9])], rows[:10_000]
    )


@pytest.mark.parametrize(("seconds", "rows"), [(4.5, 1_500), (2.0, 1_272), (0.8, 804)])
def test_as_many_rows_are_fitted_as_the_time_allows(
    x: Any, monkeypatch: pytest.MonkeyPatch, seconds: float, rows: int
) -> None:
    """One epoch must be possible; the search had 400 rows."""
    problem, candidate = searched(x[:, 0].astype(np.float64), x)
    slow: list[int] = []

    def fit_while_fast(model: Any, inputs: Any, y: Any, given: float, least: float) -> float | None:
        slow.append(len(y))
        epoch = (len(y) / 1_000) ** 2
        return epoch if least * epoch > given + 1e-3 else None

    monkeypatch.setattr("joker.tables.refit.fit_while_fast", fit_while_fast)
    search = replace(layout(), rows=np.arange(400))
    fitted(problem, candidate, search, Fit(np.arange(ROWS), seconds))
    assert slow[0] == ROWS
    assert slow[-1] == pytest.approx(rows, abs=2)


@pytest.mark.parametrize(
    ("n", "given", "gpu", "expected"),
    [
        (40_000, "auto", None, [(40_000, {})]),
        (400_000, "auto", None, [(50_000, {}), (400_000, {"n_features": 4_000})]),
        (400_000, None, None, [(50_000, {})]),
        (400_000, 700, None, [(400_000, {})]),  # the number of the estimator
        (40_000, "auto", "cuda", [(40_000, {"device": "cuda"})]),
        (400_000, "auto", "cuda", [(400_000, {"device": "cuda", "n_features": 60_000})]),
        (400_000, 700, "cuda", [(400_000, {"device": "cuda"})]),
        (400_000, None, "cuda", [(400_000, {"device": "cuda"})]),  # the exact kernel, as asked
        (400_000, np.int64(700), None, [(400_000, {})]),
    ],
)
def test_the_kernel_itself_on_some_rows_and_features_on_all(
    n: int, given: Any, gpu: Any, expected: list[tuple[int, dict[str, Any]]]
) -> None:
    problem, search = many_rows(n, given, gpu)
    found = list(fits(problem, search, 1e6))
    named = [{k: v for k, v in fit.settings.items() if k in ("device", "n_features")} for fit in found]
    assert list(zip([len(fit.rows) for fit in found], named, strict=True)) == expected


def test_a_fit_that_is_worse_on_held_out_rows_is_not_used(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.sin(4 * x[:, 0]).astype(np.float64)
    problem, candidate = searched(y, x, bandwidth=0.4, standardize=False)
    few, all_rows = np.arange(20), np.arange(SEARCHED)
    for rows, better in ((few, False), (all_rows, True)):
        given = candidate if rows is few else replace(candidate, held=np.zeros_like(candidate.held))
        monkeypatch.setattr("joker.tables.refit.fits", lambda *_, rows=rows: [Fit(rows, 60.0)])
        found = on_more_rows(problem, given, layout(), 10.0)
        assert (found is not given) == better


def test_the_fit_on_a_gpu_has_all_rows_and_many_features(x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU stands in for the GPU."""
    monkeypatch.setattr("joker.tables.refit.EXACT_ROWS", 500)
    monkeypatch.setattr("joker.tables.refit.GPU_FEATURES", 300)
    y = np.sin(2 * x[:, 0]).astype(np.float64)
    problem, candidate = searched(y, x, bandwidth=0.7, standardize=False)
    worse = replace(candidate, held=np.zeros_like(candidate.held))
    model = on_more_rows(replace(problem, gpu="cpu"), worse, layout(), 60.0).member.model
    assert (model.device, model.n_features, model.momentum, model.coef_.shape) == ("cpu", 300, True, (300,))
    assert np.mean((model.predict(x[SEARCHED:]) * y.std() - y[SEARCHED:]) ** 2) < 0.05 * y.var()


def classes_of(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Codes, whole weights and decision values of rows of three classes."""
    y, w = np.arange(90) % 3, rng.integers(1, 5, 90)
    return y, w, np.eye(3)[y] + rng.normal(size=(90, 3))


def problem_of(y: Any, w: Any = None) -> TableProblem:
    return TableProblem(None, y, 3, joker.KernelClassifier(), TimeBudget(1e6), 0, class_weights=w)


def test_a_row_of_weight_two_has_the_loss_of_two_rows(rng: np.random.Generator) -> None:
    y, w, f = classes_of(rng)
    twice = np.repeat(np.arange(90), w)
    weighted = problem_of(y, w.astype(float)).loss(np.arange(90))(f)
    repeated = problem_of(y[twice]).loss(np.arange(len(twice)))(f[twice])
    assert weighted == pytest.approx(repeated, rel=1e-3)
    assert weighted != pytest.approx(problem_of(y).loss(np.arange(90))(f), rel=1e-2)


def test_a_row_of_weight_two_counts_twice_in_the_calibration(rng: np.random.Generator) -> None:
    y, _, f = classes_of(rng)
    w = np.where(y == 0, 6, 1)
    twice = np.repeat(np.arange(90), w)

    def probabilities(problem: TableProblem, held: Any) -> Any:
        candidate = EnsembleCandidate(EnsembleMember(0, None), held, None, None)
        rows = np.arange(len(held))
        fitted = fit_ensemble(problem, [None], [candidate], [Split(rows, rows)], [])
        assert fitted.calibration is not None
        return fitted.calibration.probabilities(f)

    weighted, repeated = probabilities(problem_of(y, w.astype(float)), f), probabilities(problem_of(y[twice]), f[twice])
    np.testing.assert_allclose(weighted, repeated, atol=1e-3)
    assert weighted[:, 0].mean() > probabilities(problem_of(y), f)[:, 0].mean() + 0.1
