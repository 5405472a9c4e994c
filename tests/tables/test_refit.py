"""The work of a plan: steps, the choice on held-out rows, the fits on more rows, and what a time limit leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from raw_tables import FAST

import joker
from joker.errors import OutOfTime
from joker.runtime.warning_filters import ignoring
from joker.solvers.loop import Descent
from joker.tables import plan as plans
from joker.tables import refit
from joker.tables.candidates import EnsembleCandidate
from joker.tables.ensemble import EnsembleMember
from joker.tables.plan import EFFORTS, REFIT, Step
from joker.tables.problem import TableProblem
from joker.tables.refit import LEAST_LEFT, TableSearch, fit_table, plan_of
from joker.tables.search import Encodings
from joker.tables.targets import IDENTITY
from joker.tuning import ard
from joker.tuning.halving import TimeBudget
from joker.tuning.splits import Split
from joker.tuning.validation import GIVEN, Validation

pytestmark = pytest.mark.usefixtures("few_trials")
ROWS, SEARCHED = 900, 600
FOLD = Split(np.arange(SEARCHED), np.arange(SEARCHED, ROWS))
HOUR = 3600.0
LEAST_WORK = 25  # steps and matrices of the smallest model, and of the step that the limit ends


# The same data, seed and effort give the same model


def small_table(rows: int = 90, classes: bool = False) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    x = rng.lognormal(size=(rows, 3))
    y = np.sin(x[:, 0]) + 0.5 * (x[:, 1] > 1) + 0.2 * rng.normal(size=rows)
    frame = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "d": rng.choice(["u", "v", "w"], rows)}
    return frame, np.where(y > np.median(y), "high", "low") if classes else y


def words_and_numbers(rows: int, columns: int, classes: int) -> tuple[Any, Any]:
    """A column of words, and others of numbers."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(rows, columns))
    y = x[:, 0] + np.exp(x[:, 1])
    frame = {f"n{j}": x[:, j] for j in range(columns)} | {"w": rng.choice(["u", "v", "w", "x"], rows)}
    return frame, np.argsort(np.argsort(y)) * classes // rows if classes else y


def estimator(classes: bool = False, **settings: Any) -> Any:
    return (joker.JokerClassifier if classes else joker.JokerRegressor)(**{**FAST, **settings})


def values(model: Any, frame: Any) -> Any:
    return model.predict_proba(frame) if hasattr(model, "classes_") else model.predict(frame)


@pytest.fixture(scope="module", params=[False, True], ids=["numbers", "classes"])
def fitted(request: pytest.FixtureRequest, few_trials: None) -> Any:
    """A fit with effort 1."""
    return estimator(request.param).fit(*small_table(classes=request.param))


def again(fitted: Any, **settings: Any) -> tuple[Any, Any, Any]:
    """Return another fit of the same data, and the predictions of both."""
    frame, y = small_table(classes=hasattr(fitted, "classes_"))
    other = estimator(hasattr(fitted, "classes_"), **settings).fit(frame, y)
    return other, values(fitted, frame), values(other, frame)


def test_two_fits_are_equal_while_other_threads_compute(fitted: Any) -> None:
    ended = threading.Event()

    def burn() -> None:
        x = np.ones((200, 200))
        while not ended.is_set():
            x @ x

    threads = [threading.Thread(target=burn) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        other, first, second = again(fitted)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert first.tobytes() == second.tobytes()
    assert other.held_out_score_ == fitted.held_out_score_
    assert other.held_out_losses_ == fitted.held_out_losses_
    assert other.feature_importances_.tobytes() == fitted.feature_importances_.tobytes()


@pytest.fixture
def threads() -> Iterator[Any]:
    """A function that sets the number of threads of torch; the old one is set at the end."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_two_fits_are_equal_with_one_and_two_threads(fitted: Any, threads: Any) -> None:
    threads(2 if torch.get_num_threads() == 1 else 1)
    _, first, second = again(fitted)
    assert first.tobytes() == second.tobytes()


def test_another_seed_gives_another_model(fitted: Any) -> None:
    _, first, second = again(fitted, random_state=1)
    assert first.tobytes() != second.tobytes()


PROCESS = """
import sys
from raw_tables import split
import joker
frame, y = split(80)
sys.stdout.write(joker.JokerRegressor(effort=1, random_state=0).fit(frame, y).predict(frame).tobytes().hex())
"""


@pytest.mark.slow
def test_processes_with_other_numbers_of_threads_give_the_same_model() -> None:
    places = os.pathsep.join(path for path in sys.path if path)
    found = [
        subprocess.run(
            [sys.executable, "-c", PROCESS],
            env={**os.environ, "PYTHONPATH": places, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        ).stdout
        for threads in ("1", "2")
    ]
    assert found[0]
    assert found[0] == found[1]


@pytest.mark.parametrize(("rows", "classes"), [(210, False), (80, True)])
def test_more_effort_is_not_worse_on_held_out_rows(rows: int, classes: bool) -> None:
    """What a smaller effort finds is what a larger one has found after its first steps."""
    frame, y = small_table(rows, classes)
    one, three = (estimator(classes, effort=effort).fit(frame, y) for effort in (1, 3))
    assert list(three.held_out_losses_) == [1, 2, 3]
    losses = list(three.held_out_losses_.values())
    assert losses == sorted(losses, reverse=True)
    assert one.held_out_losses_ == {1: losses[0]}
    assert one.leaderboard_ == [] or untimed(one.leaderboard_) == untimed(three.leaderboard_)[: len(one.leaderboard_)]
    assert one.plan_.steps == three.plan_.steps[: len(one.plan_.steps)]


def six_tables() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Small tables of numbers, words, classes, groups and times, and a sparse matrix."""
    frame, y = words_and_numbers(240, 3, 0)
    person = np.repeat(np.arange(24), 10)
    return {
        "numbers": (np.column_stack([frame[name] for name in ("n0", "n1", "n2")]), y, {}),
        "words": (*small_table(80), {}),
        "two classes": (*small_table(120, classes=True), {}),
        "five classes": (*words_and_numbers(200, 3, 5), {}),
        "groups": (frame, y + person % 5, {"groups": person}),
        "times": (frame, y, {"time": np.arange(240)}),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", six_tables())
def test_each_effort_begins_with_the_smaller_ones(name: str) -> None:
    frame, y, given = six_tables()[name]
    classes = np.asarray(y).dtype.kind != "f"
    models = [estimator(classes, effort=effort, **given).fit(frame, y) for effort in EFFORTS]
    losses = [list(model.held_out_losses_.values()) for model in models]  # an effort may have no steps of its own
    assert [found[-1] for found in losses] == sorted((found[-1] for found in losses), reverse=True)
    for model, more in pairwise(models):
        assert model.plan_.steps == more.plan_.steps[: len(model.plan_.steps)]
        assert untimed(model.leaderboard_) == untimed(more.leaderboard_)[: len(model.leaderboard_)]
    for fewer, found in pairwise(losses):
        assert found[: len(fewer)] == fewer


def untimed(leaderboard: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in trial.items() if name != "seconds"} for trial in leaderboard]


# A time limit is a brake


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of a clock that stands still, but for an hour with each step of a plan."""
    now, do = [0.0], TableSearch._do

    def slow(work: TableSearch, step: Step) -> None:
        do(work, step)
        now[0] += HOUR

    monkeypatch.setattr(TableSearch, "_do", slow)
    monkeypatch.setattr(TimeBudget, "spent", property(lambda budget: now[0]))
    return now


@pytest.mark.parametrize("classes", [False, True])
def test_a_limit_returns_the_best_model_of_the_steps_so_far(classes: bool, clock: list[float]) -> None:
    frame, y = small_table(classes=classes)
    with pytest.warns(UserWarning, match=r"max_time=3600 ended the fit before the work of effort=4 was done"):
        model = estimator(classes, effort=4, max_time=HOUR).fit(frame, y)
    assert model.stopped_by_time_
    assert clock == [HOUR]
    assert list(model.held_out_losses_) == [1]
    assert model.score(frame, y) > 0.5
    clock[0] = 0.0
    whole = estimator(classes, effort=1, max_time=2 * HOUR).fit(frame, y)
    assert not whole.stopped_by_time_
    assert whole.held_out_score_ == model.held_out_score_
    assert whole.held_out_losses_[1] == model.held_out_losses_[1]
    assert whole.members_[0]["lam"] == model.members_[0]["lam"]


def test_a_limit_after_the_last_step_leaves_members_as_they_are(clock: list[float]) -> None:
    """Only the fit on all rows is missing."""
    frame, y = small_table()
    with pytest.warns(UserWarning, match="max_time=3600 ended the fit"):
        cut = estimator(max_time=HOUR).fit(frame, y)
    assert len(cut.ensemble.members[0].model.dual_coef_) == 72  # four fifths of 90 rows
    assert len(estimator().fit(frame, y).ensemble.members[0].model.dual_coef_) == 90


@pytest.mark.parametrize("classes", [False, True])
def test_a_limit_within_the_first_step_gives_a_usable_model(classes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock has an hour more whenever it is asked."""
    seconds = count(step=HOUR)
    monkeypatch.setattr(TimeBudget, "spent", property(lambda budget: next(seconds)))
    frame, y = small_table(classes=classes)
    with pytest.warns(UserWarning, match="max_time=36000 ended the fit"):
        model = estimator(classes, max_time=10 * HOUR).fit(frame, y)
    assert model.stopped_by_time_
    assert np.isfinite(values(model, frame)).all()
    assert model.score(frame, y) > 0.4
    assert np.isfinite(model.feature_importances_).all()


def test_a_limit_before_many_classes_are_searched_leaves_a_model_that_has_learnt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search ends at once; the model that was fitted before it has all classes."""
    now = [0.0]
    monkeypatch.setattr(TimeBudget, "spent", property(lambda budget: now[0]))

    def over(*given: Any, **named: Any) -> Any:
        now[0] = HOUR
        raise OutOfTime("the time limit ended a step, which has no result")

    monkeypatch.setattr(refit, "searched", over)
    monkeypatch.setattr(refit, "MIN_SECONDS", 1e-6)
    x = np.random.default_rng(0).normal(size=(900, 20))
    y = np.arange(900) % 150
    with pytest.warns(UserWarning, match="max_time=3600 ended the fit"):
        model = estimator(True, max_time=HOUR).fit(x, y)
    assert model.score(x, y) > 0.5


def test_a_fit_is_not_begun_where_too_little_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now, fits = [0.0], []
    monkeypatch.setattr(TimeBudget, "spent", property(lambda budget: now[0]))
    search, fit = refit.searched, refit.rows_fit

    def slow(*given: Any, **named: Any) -> Any:
        now[0] = (1 - LEAST_LEFT / 2) * HOUR
        return search(*given, **named)

    monkeypatch.setattr(refit, "searched", slow)
    monkeypatch.setattr(refit, "rows_fit", lambda *given: fits.append(given) or fit(*given))
    frame, y = small_table()
    with pytest.warns(UserWarning, match="max_time=3600 ended the fit"):
        model = estimator(effort=1, max_time=HOUR).fit(frame, y)
    assert not fits
    assert model.stopped_by_time_
    assert model.score(frame, y) > 0.4


@pytest.mark.parametrize("limit", [2, 15, 40, 100])
@pytest.mark.parametrize(("rows", "columns", "classes"), [(300, 3, 0), (240, 3, 60), (80, 400, 0), (40, 2, 2)])
def test_little_is_done_after_the_limit(
    rows: int, columns: int, classes: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of a solver and each leave-one-out matrix takes a second."""
    now = [0.0]

    def counted(function: Any) -> Any:
        def run(*arguments: Any, **named: Any) -> Any:
            now[0] += 1
            return function(*arguments, **named)

        return run

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Descent, "step", counted(Descent.step))
    monkeypatch.setattr(ard, "loo_errors", counted(ard.loo_errors))
    frame, y = words_and_numbers(rows, columns, classes)
    with ignoring(category=UserWarning):
        model = estimator(bool(classes), effort=5, max_time=limit).fit(frame, y)
    assert model.stopped_by_time_
    assert now[0] <= 1.2 * limit + LEAST_WORK
    assert np.isfinite(values(model, frame)).all()


def test_without_a_limit_no_clock_decides(fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading of the clock is a day later; the time of the fit is the only one that is read."""
    days, read = count(step=86_400.0), []
    monkeypatch.setattr(time, "perf_counter", lambda: next(days))
    spent = TimeBudget.spent.fget

    def noted(budget: TimeBudget) -> float:
        read.append(budget)
        return spent(budget)

    monkeypatch.setattr(TimeBudget, "spent", property(noted))
    other, first, second = again(fitted)
    assert first.tobytes() == second.tobytes()
    assert not other.stopped_by_time_
    assert len(read) == 1


# Candidates and the fits on more rows


@pytest.fixture
def x(rng: np.random.Generator) -> Any:
    return rng.standard_normal((ROWS, 2)).astype(np.float32)


def work_of(x: Any, y: Any, classes: int = 0, **settings: Any) -> TableSearch:
    """Return the work of a matrix whose last rows are held out."""
    kind = joker.KernelClassifier if classes else joker.KernelRidge
    given = {"validation": Validation(GIVEN, given=[FOLD]), **settings}
    problem = TableProblem(x, y, classes, kind(standardize=False), **given)
    encodings = Encodings(problem)
    return TableSearch(problem, encodings, {False: None if classes else IDENTITY}, plan_of(1, encodings))


def candidate_of(work: TableSearch, *, lam: float = 0.01, encoding: int = 0, **settings: Any) -> EnsembleCandidate:
    """Return a candidate that was fitted on the first rows."""
    problem = work.problem
    model = type(problem.estimator)(lam=lam, random_state=0, standardize=False, **settings)
    (goal,) = work.goals
    model.fit(problem.inputs[:SEARCHED], goal.left[:SEARCHED])
    member = EnsembleMember(encoding, model, 1.0, goal.target)
    bare = EnsembleCandidate(member, np.zeros(0), None, problem.inputs, goal=goal)
    return work._with_model(bare, model, SEARCHED)


def mean_square(candidate: EnsembleCandidate, y: Any) -> float:
    return float(np.mean((candidate.held[:, 0] - y[SEARCHED:]) ** 2))


@pytest.mark.parametrize(("kernel", "bandwidth"), [("gaussian", 1.4), ("matern32", 8.0)])
def test_a_bandwidth_that_is_too_wide_becomes_narrower(x: Any, kernel: str, bandwidth: float) -> None:
    y = np.sin(4 * x[:, 0]).astype(np.float64)
    work = work_of(x, y)
    wide = candidate_of(work, kernel=kernel, bandwidth=bandwidth)
    narrow = work.refined(wide)
    assert narrow.member.model.bandwidth_ < 0.9 * wide.member.model.bandwidth_
    assert mean_square(narrow, y) < 0.5 * mean_square(wide, y)


def test_a_good_bandwidth_stays(x: Any, rng: np.random.Generator) -> None:
    work = work_of(x, x[:, 0] + 0.5 * rng.standard_normal(ROWS))
    candidate = candidate_of(work, lam=1.0, bandwidth=1.0)
    assert work.refined(candidate) is candidate


@pytest.mark.parametrize(("lam", "smaller"), [(300.0, True), (0.3, False)])
def test_a_penalty_that_is_too_large_for_classes_becomes_smaller(
    x: Any, rng: np.random.Generator, lam: float, smaller: bool
) -> None:
    y = (np.sin(2 * x[:, 0]) + rng.standard_normal(ROWS) > 0).astype(np.intp)
    work = work_of(x, y, 2)
    candidate = candidate_of(work, lam=lam, bandwidth=0.5)
    found = work.refined(candidate)
    assert (found.member.model.lam < lam) == smaller
    assert found.member.model.lam == pytest.approx(found.member.model.lam_)
    loss = work.problem.loss(np.arange(SEARCHED, ROWS))
    assert loss(found.held) <= loss(candidate.held)


STEP = Step(1, REFIT, SEARCHED, 1, 1.0, epochs=5)


@pytest.mark.parametrize("excess", [0.02, 0.2])
def test_the_best_candidate_that_had_no_such_fit_is_fitted_on_more_rows(x: Any, excess: float) -> None:
    """One with far larger errors is not."""
    y = np.sin(x[:, 0]).astype(np.float64)
    work = work_of(x, y)
    good = candidate_of(work, bandwidth=1.0)
    errors = good.held - y[SEARCHED:, None]
    poor = replace(good, member=replace(good.member, encoding=1), held=good.held + ((1 + excess) ** 0.5 - 1) * errors)
    work.candidates = [poor, good]
    near = [poor] if excess < 0.1 else []
    assert work._candidates_to_refit(STEP) == [good, *near]
    work.candidates.append(replace(good, larger_fits=(STEP,)))
    assert work._candidates_to_refit(STEP) == near
    assert work._candidates_to_refit(replace(STEP, epochs=9)) == [good, *near]
    work.candidates.append(replace(poor, larger_fits=(STEP,)))
    assert work._candidates_to_refit(STEP) == []


def test_a_fit_that_is_worse_on_held_out_rows_has_no_weight(x: Any) -> None:
    y = np.sin(4 * x[:, 0]).astype(np.float64)
    work = work_of(x, y)
    good, bad = candidate_of(work, bandwidth=0.4), candidate_of(work, bandwidth=30.0)
    work.used, work.candidates = [None], [bad, good]
    found = work._ensemble()
    assert [candidate is good for candidate in found.kept] == [True]


@pytest.mark.parametrize(("rows", "refits"), [(SEARCHED, ()), (SEARCHED, (STEP,)), (100, ())])
def test_members_are_fitted_on_all_rows_unless_they_had_a_part_of_them(
    x: Any, rows: int, refits: tuple[Step, ...]
) -> None:
    y = np.sin(4 * x[:, 0]).astype(np.float64)
    work = work_of(x, y)
    candidate = replace(candidate_of(work, bandwidth=0.4), rows=rows, larger_fits=refits)
    work.used, work.candidates = [None], [candidate]
    before = work._ensemble()
    found = work._on_all_rows(before)
    (member,) = found.ensemble.members
    assert len(member.model.dual_coef_) == (ROWS if rows == SEARCHED else SEARCHED)
    assert found.held_ensemble is not None
    assert len(found.held_ensemble.members[0].model.dual_coef_) == SEARCHED  # it must not know the held-out rows
    assert (found.residuals is before.residuals) == (rows != SEARCHED) or (found.residuals == before.residuals).all()
    assert np.mean((member.values(x, 0)[:, 0] - y) ** 2) < 0.1 * y.var()


def test_the_fit_on_a_gpu_has_all_rows_and_many_features(x: Any) -> None:
    """The CPU stands in for the GPU."""
    y = np.sin(2 * x[:, 0]).astype(np.float64)
    work = work_of(x, y, gpu="cpu")
    step = Step(1, REFIT, SEARCHED, 1, 1.0, epochs=40, n_features=300)
    found = work._refitted([candidate_of(work, bandwidth=0.7)], step)
    model = found.member.model
    assert (model.device, model.n_features, model.momentum, model.coef_.shape) == ("cpu", 300, True, (300,))
    assert found.larger_fits == (step,)
    assert mean_square(found, y) < 0.05 * y.var()


def test_settings_of_a_fit_on_a_gpu_are_compared_with_more_rows_than_the_search_has(
    x: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU stands in for the GPU; a step of a third of the training rows for the one of effort 1."""
    work = work_of(x, np.sin(4 * x[:, 0]).astype(np.float64), gpu="cpu")
    trials = Step(1, REFIT, SEARCHED // 3, 1, 1.0, epochs=20)
    work.plan = replace(work.plan, steps=(trials,))
    wide = replace(candidate_of(work, kernel="matern12", bandwidth=8.0), rows=10)
    fit_of, fitted = work._fit_of, []
    monkeypatch.setattr(work, "_fit_of", lambda c, step, **given: fitted.append(step.rows) or fit_of(c, step, **given))
    found = work._refitted([wide], Step(3, REFIT, SEARCHED, 1, 1.0, epochs=20))
    assert set(fitted[:-1]) == {SEARCHED // 3}
    assert found.rows == fitted[-1] == SEARCHED
    assert found.member.model.bandwidth_ < 0.9 * wide.member.model.bandwidth_
    assert work._step_of_trials(trials) is None
    assert work_of(x, x[:, 0])._step_of_trials(replace(trials, rows=SEARCHED)) is None


def test_candidates_of_a_fit_on_a_gpu_are_compared_with_more_rows_than_the_search_has(x: Any) -> None:
    """One that seemed a little worse with few rows may be the better one with more."""
    work = work_of(x, np.sin(4 * x[:, 0]).astype(np.float64), gpu="cpu")
    trials = Step(1, REFIT, SEARCHED // 3, 1, 1.0, epochs=20)
    work.plan = replace(work.plan, steps=(trials,))
    good, bad = candidate_of(work, bandwidth=0.4), candidate_of(work, bandwidth=30.0)
    step = replace(trials, rows=SEARCHED)
    for candidates in ([bad, good], [good, bad]):
        assert work._refitted(candidates, step).member.model.bandwidth_ == pytest.approx(0.4)


@pytest.mark.parametrize(("epochs", "smaller"), [(20, True), (0, False)])
def test_a_smaller_penalty_pays_only_if_all_rows_have_enough_epochs_for_it(x: Any, epochs: int, smaller: bool) -> None:
    """Of a linear system on a GPU, for which the CPU stands in."""
    y = np.sin(4 * x[:, 0]).astype(np.float64)
    work = work_of(x, y, gpu="cpu")
    step = Step(1, REFIT, SEARCHED, 1, 1.0, epochs=20)
    candidate = candidate_of(work, lam=30.0, bandwidth=0.5)
    found = work.refined(candidate, step, epochs)
    assert (found.member.model.lam_ < 0.9 * candidate.member.model.lam_) == smaller


@pytest.mark.parametrize(("given", "expected"), [("auto", "float32"), ("float64", "auto")])
def test_the_exact_kernel_on_a_gpu_has_float32_unless_another_type_is_given(x: Any, given: str, expected: str) -> None:
    """Float64 takes several times as long there, and the gap of the fit counts rounding errors."""
    work = work_of(x, np.sin(2 * x[:, 0]), gpu="cpu")
    step = Step(1, REFIT, SEARCHED, 1, 1.0, epochs=3)
    model = work.for_more_rows(candidate_of(work, bandwidth=0.7, dtype=given), step, SEARCHED)
    assert (model.precision, model.dtype) == (expected, given)


def test_many_rows_are_searched_on_a_sample_and_fitted_again(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With smaller numbers in place of 10,000 rows of a search and 2,048 of its first step."""
    for name, value in {"MANY_ROWS": 300, "SEARCH_ROWS": 300, "QUICK_ROWS": 100, "QUICK_REFIT_ROWS": 400}.items():
        monkeypatch.setattr(plans, name, value)
    x = rng.normal(size=(700, 2)).astype(np.float32)
    y = np.sin(2 * x[:, 0])
    problem = TableProblem(x, y, 0, joker.KernelRidge(standardize=False))
    found = fit_table(problem, 2)
    assert found.plan is not None
    assert (found.plan.sample, found.plan.held_out) == (300, 70)
    kinds = [(step.kind, step.rows) for step in found.plan.steps]
    assert kinds == [("search", 100), ("fit", 400), ("search", 300), ("fit", 630)]
    assert {trial["rows"] <= 300 for trial in found.leaderboard} == {True}
    assert list(found.losses) == [1, 2]
    assert found.losses[2] <= found.losses[1]
    assert len(found.held_rows) == 70
    (member,) = found.ensemble.members
    assert len(member.model.dual_coef_) == (700 if found.plan.all_rows else 630)
    assert np.mean((member.values(x, 0)[:, 0] - y) ** 2) < 0.05 * y.var()
