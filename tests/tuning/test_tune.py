"""``joker.tune`` finds a bandwidth that suits the data, fits on all rows, and returns a correct table."""

import math
import time
from itertools import count
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, get_scorer, make_scorer

import joker
from joker.callbacks import Callback, Run
from joker.errors import InvalidData, InvalidParameter, UnknownName
from joker.estimators import resolve
from joker.estimators.scoring import score_path
from joker.tuning import halving
from joker.tuning.halving import TimeBudget, stage_rows
from joker.tuning.trials import TrialRunner, penalty_scale
from joker.tuning.tune import COLUMNS, Tuned

Array = NDArray[Any]
QUICK: dict[str, Any] = {"kernels": "gaussian", "bandwidths": [0.3, 1.0], "lam": [0.1, 1.0], "rows": [80]}
QUICK["random_state"] = 0
SIGMA = 0.2  # the true bandwidth, about a tenth of the median distance


def waves(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """A draw from a Gaussian process with the bandwidth SIGMA, with a little noise."""
    X = rng.uniform(-1.5, 1.5, (n, 2))
    W, b = np.random.default_rng(5).normal(size=(2, 400)) / SIGMA, np.random.default_rng(6).uniform(0, 7, 400)
    return X, np.cos(X @ W + b).sum(axis=1) / 20 + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def tuned() -> tuple[Tuned, Array, Array]:
    X, y = waves(np.random.default_rng(0), 900)
    return joker.tune(X, y, random_state=0), X, y


def test_the_true_bandwidth_is_found(tuned: tuple[Tuned, Array, Array]) -> None:
    model = tuned[0].estimator
    assert isinstance(model, joker.KernelRidge)
    assert model.kernel == "gaussian"
    assert abs(math.log2(model.bandwidth_ / SIGMA)) <= 1


def test_it_is_better_than_the_median_bandwidth(tuned: tuple[Tuned, Array, Array], rng: np.random.Generator) -> None:
    model, X, y = tuned[0].estimator, *tuned[1:]
    X_test, y_test = waves(rng, 1000)
    median = joker.KernelRidge(lam=10.0 ** np.arange(-4, 2), random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.9
    assert model.score(X_test, y_test) > median.score(X_test, y_test) + 0.1


def test_the_winner_is_fitted_on_all_rows(tuned: tuple[Tuned, Array, Array]) -> None:
    """The model equals a fit with its settings."""
    result, X, y = tuned
    assert len(result.estimator.dual_coef_) == len(X)
    best = {name: result.best[name] for name in ("kernel", "bandwidth", "lam")}
    by_hand = joker.KernelRidge(**best, random_state=0).fit(X, y)
    assert_allclose(result.estimator.predict(X), by_hand.predict(X))
    assert clone(result.estimator).get_params()["lam"] == result.best["lam"]


def test_the_table_has_every_trial(tuned: tuple[Tuned, Array, Array]) -> None:
    result = tuned[0]
    for entry in result.table:
        assert tuple(entry) == COLUMNS
        assert entry["seconds"] > 0
        assert entry["rows"] == 600  # two of three folds
    latest = [entry for entry in result.table if entry["stage"] == result.table[-1]["stage"]]
    assert result.best in latest
    assert result.best["loss"] == min(entry["loss"] for entry in latest)
    assert {entry["kernel"] for entry in result.table} == {"gaussian", "laplacian", "matern12"}
    assert sum(entry["seconds"] for entry in result.table) <= result.search_seconds


def test_the_table_as_text(tuned: tuple[Tuned, Array, Array]) -> None:
    result = tuned[0]
    lines = str(result).splitlines()
    assert lines[0].split() == list(COLUMNS)
    assert len(lines) == 1 + len(result.table) + 1
    assert [line for line in lines if "<- best" in line] == [lines[1 + result.table.index(result.best)]]
    assert repr(result) == lines[-1]
    assert "gaussian kernel" in repr(result)
    model, table = result
    assert (model, table) == (result.estimator, result.table)


def test_scores_are_computed_on_held_out_rows(rng: np.random.Generator) -> None:
    """A scorer records its arguments: no row that was trained on, and the λ of the table."""
    X, y = waves(rng, 2000)
    seen: list[tuple[float, int, float]] = []

    def watch(model: Any, X_held: Array, y_held: Array) -> float:
        trained = model._machine.x[:].numpy()
        assert len(X_held) == 400
        assert not set(X_held[:, 0]) & set(trained[:, 0])
        mse = float(np.mean(((model.predict(X_held) - y_held) / model.target_scale_) ** 2))
        seen.append((model.lam_, len(trained), mse))
        return -seen[-1][-1]

    in_double = joker.KernelRidge(dtype="float64")  # so that rows can be compared
    result = joker.tune(X, y, estimator=in_double, scoring=watch, **QUICK)
    assert seen == [(entry["lam"], entry["rows"], -entry["score"]) for entry in result.table]
    assert_allclose([entry["loss"] for entry in result.table], [mse / 2 for *_, mse in seen])


@pytest.mark.parametrize("n_features", [None, 50])
def test_the_scores_of_a_path_are_those_of_its_models(rng: np.random.Generator, n_features: int | None) -> None:
    """One prediction for all models gives the same scores as a prediction for each model."""
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
    model = joker.KernelLogistic(n_features=n_features, lam=[0.1, 1.0, 10.0], random_state=0)
    w = rng.uniform(size=300)
    path = model.fit(X, y, eval_set=(X, y)).path_
    score = get_scorer("neg_log_loss")
    losses, scores = score_path(path.models, (X, y, None), score)
    assert_allclose(scores, [score(one, X, y) for one in path.models], rtol=1e-5)
    assert_allclose(losses, -path.scores, rtol=1e-5)
    weighted, _ = score_path(path.models, (X, y, w), lambda *_, **__: 0.0)
    values = [one.decision_function(X) for one in path.models]
    by_hand = [np.average(logsumexp(f, axis=1) - f[np.arange(300), y], weights=w) for f in values]
    assert_allclose(weighted, by_hand, rtol=1e-5)


def test_it_stops_when_nothing_changes_unless_rows_are_given_or_features_used(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage with half of the rows is run only if the stage with a quarter has changed the choice."""
    for name in ("FIRST_STAGE_ROWS", "MIN_QUARTER_ROWS", "MIN_LAST_ROWS"):
        monkeypatch.setattr(halving, name, getattr(halving, name) // 5)
    X, y = waves(rng, 1_250)
    model = joker.KernelRidge(max_epochs=2)
    free: dict[str, Any] = {"kernels": "gaussian", "estimator": model, "random_state": 0}
    stages = stage_rows(1_000)
    settled, again = (joker.tune(X, y, **free).table for _ in range(2))
    assert {entry["rows"] for entry in settled} == set(stages[:-1])
    assert [{**entry, "seconds": 0} for entry in again] == [{**entry, "seconds": 0} for entry in settled]
    told = joker.tune(X, y, rows=stages, **free).table
    assert {entry["rows"] for entry in told} == set(stages)
    assert [entry["loss"] for entry in told][: len(settled)] == [entry["loss"] for entry in settled]
    blurred = joker.tune(X, y, **{**free, "estimator": model.set_params(n_features=50)}).table
    assert {entry["rows"] for entry in blurred} == set(stages)


def test_the_first_stage_scores_on_some_of_the_held_out_rows(rng: np.random.Generator) -> None:
    """The shares of the classes are those of all rows."""
    y = np.repeat([0, 1, 2], [4_200, 1_200, 600])
    X = rng.normal(size=(6_000, 2)) + y[:, None]
    seen: list[tuple[int, Array]] = []

    def watch(model: Any, X_held: Array, y_held: Array) -> float:
        seen.append((len(y_held), np.bincount(y_held) / len(y_held)))
        return 0.0

    model = joker.KernelClassifier(max_epochs=1, n_features=20)
    joker.tune(X, y, estimator=model, scoring=watch, **{**QUICK, "rows": [80, 80]})
    assert {count for count, _ in seen} == {512, 1_200}
    for _, shares in seen:
        assert_allclose(shares, [0.7, 0.2, 0.1], atol=2e-3)


def test_the_same_seed_gives_the_same_result(rng: np.random.Generator) -> None:
    X, y = waves(rng, 100)
    one, other = (joker.tune(X, y, **QUICK) for _ in range(2))
    timeless = [[{**entry, "seconds": 0} for entry in result.table] for result in (one, other)]
    assert timeless[0] == timeless[1]
    assert_allclose(one.estimator.predict(X), other.estimator.predict(X))
    different = joker.tune(X, y, **{**QUICK, "random_state": 1})
    assert [entry["score"] for entry in different.table] != [entry["score"] for entry in one.table]


def test_classes_are_recognised_and_kept(rng: np.random.Generator) -> None:
    X = rng.normal(size=(400, 2))
    y = np.array(["ant", "bee", "cat"])[np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])]
    result = joker.tune(X, y, **QUICK)
    assert isinstance(result.estimator, joker.KernelClassifier)
    assert result.estimator.classes_.tolist() == ["ant", "bee", "cat"]
    assert result.estimator.score(X, y) > 0.8


def test_several_outputs_are_fitted_together(rng: np.random.Generator) -> None:
    X, y = waves(rng, 200)
    result = joker.tune(X, np.stack([y, -2 * y], axis=1), **QUICK)
    assert result.estimator.predict(X).shape == (200, 2)


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        ([0, 1] * 10, joker.KernelClassifier),
        ([True, False] * 10, joker.KernelClassifier),
        ([1.0, 2.0, 3.0, 4.0] * 5, joker.KernelClassifier),
        (np.arange(200), joker.KernelRidge),  # whole numbers, too many for classes
        (np.arange(20) / 3, joker.KernelRidge),
        (np.ones((20, 2)) * np.arange(20)[:, None], joker.KernelRidge),
    ],
)
def test_the_targets_imply_the_task(y: Any, kind: type[Any]) -> None:
    X = np.arange(len(y))[:, None] / len(y)
    assert type(joker.tune(X, y, **QUICK).estimator) is kind


def test_the_task_can_be_given(rng: np.random.Generator) -> None:
    X = rng.normal(size=(40, 1))
    result = joker.tune(X, (X[:, 0] > 0).astype(int), task="regression", **QUICK)
    assert isinstance(result.estimator, joker.KernelRidge)


def test_the_settings_of_an_estimator_are_kept(rng: np.random.Generator) -> None:
    """Also in the trials; the given estimator is not changed."""
    X, y = waves(rng, 200)
    given = joker.KernelQuantile(quantile=[0.1, 0.9], n_features=40, fit_intercept=False, memory="60MB")
    features: list[int] = []

    def watch(model: Any, X: Array, y: Array) -> float:
        features.append(model.coef_.shape[1])
        return float(model.score(X, y))

    result = joker.tune(X, y, estimator=given, scoring=watch, **{**QUICK, "bandwidths": ["median", 0.3]})
    assert set(features) == {40}
    assert result.estimator.coef_.shape == (2, 40)
    changed = {"kernel", "bandwidth", "lam", "random_state", "standardize"}
    for name, value in given.get_params().items():
        assert name in changed or result.estimator.get_params()[name] == value
    assert given.lam == 1.0
    assert not hasattr(given, "lam_")


def test_callbacks_of_the_estimator_are_called_in_the_last_fit_only(rng: np.random.Generator) -> None:
    X, y = waves(rng, 100)
    seen: list[int] = []

    class Watch(Callback):
        def start(self, run: Run) -> None:
            seen.append(len(run.training.descent.state.x))

    given = joker.KernelRidge(callbacks=[Watch()], early_stopping=False)
    joker.tune(X, y, estimator=given, **QUICK)
    assert seen == [100]
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    monitor = callback.ScoringMonitor(scoring="r2")
    joker.tune(X, y, estimator=joker.KernelRidge().set_callbacks(monitor), **QUICK)
    assert [row["task_name"] for row in monitor.get_logs().data].count("fit") == 1


def test_features_that_do_not_suit_every_kernel(rng: np.random.Generator) -> None:
    X, y = waves(rng, 100)
    given = joker.KernelRidge(n_features=32, features="orthogonal")
    result = joker.tune(X, y, estimator=given, **{**QUICK, "kernels": None})
    assert {entry["kernel"] for entry in result.table} == {"gaussian", "matern12"}


def test_kernels_that_need_no_features_are_preferred(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = waves(rng, 100)
    monkeypatch.setattr(resolve, "FEW_ROWS", 50)
    monkeypatch.setattr(resolve, "EXACT_NUMBERS", 50)
    tried = joker.tune(X, y, **{**QUICK, "kernels": None}).table
    assert {entry["kernel"] for entry in tried} == {"gaussian", "matern12"}
    monkeypatch.setattr(resolve, "EXACT_ROWS", 50)
    tried = joker.tune(X, y, **{**QUICK, "kernels": None}).table
    assert {entry["kernel"] for entry in tried} == {"gaussian", "matern12", "laplacian"}


def test_a_column_of_classes(rng: np.random.Generator) -> None:
    X = rng.normal(size=(60, 2))
    with pytest.warns(UserWarning, match="column-vector"):
        result = joker.tune(X, (X[:, :1] > 0).astype(int), **QUICK)
    assert result.estimator.classes_.tolist() == [0, 1]


def test_only_given_candidates_are_tried(rng: np.random.Generator) -> None:
    X, y = waves(rng, 200)
    kernels = [joker.kernels.Polynomial(degree=2), "linear", "laplacian"]
    result = joker.tune(X, y, kernels=kernels, bandwidths=[0.5, 2.0], lam=[0.1, 1.0], rows=[60, 160], random_state=0)
    assert {entry["lam"] for entry in result.table} == {0.1, 1.0}
    tried = {(entry["kernel"], entry["bandwidth"]) for entry in result.table if entry["stage"] == 0}
    assert tried == {(kernels[0], 0.5), (kernels[0], 2.0), ("linear", 1.0), ("laplacian", 0.5), ("laplacian", 2.0)}
    assert {entry["rows"] for entry in result.table} == {60, 160}
    assert "polynomial" in str(result)


def test_weights_count_in_fits_and_scores(rng: np.random.Generator) -> None:
    """Rows of weight 0 have no effect, even if their targets are wrong."""
    X, y = waves(rng, 300)
    spoilt, w = y.copy(), np.ones(300)
    spoilt[::3], w[::3] = 1e3, 0
    free = {**QUICK, "lam": None}
    result = joker.tune(X, spoilt, sample_weight=w, **free)
    assert all(entry["score"] > -1 for entry in result.table)
    assert result.estimator.score(X[w > 0], y[w > 0]) > 0.5
    heavy = joker.tune(X, spoilt, sample_weight=100 * w, **free)
    assert_allclose([e["lam"] for e in heavy.table], [100 * e["lam"] for e in result.table])
    assert_allclose([e["score"] for e in heavy.table], [e["score"] for e in result.table], atol=1e-2)


def test_a_scorer_replaces_the_loss(rng: np.random.Generator) -> None:
    """A scorer can be named or given; one that prefers the worst fit gets it."""
    X = rng.normal(size=(100, 2))
    y = (X[:, 0] > 0.8).astype(int)
    result = joker.tune(X, y, scoring=make_scorer(balanced_accuracy_score), **QUICK)
    named = joker.tune(X, y, scoring="balanced_accuracy", **QUICK)
    assert [entry["score"] for entry in result.table] == [entry["score"] for entry in named.table]
    worst = joker.tune(X, y, scoring=lambda model, X, y: -model.score(X, y), **QUICK)
    assert worst.best["score"] == max(entry["score"] for entry in worst.table)
    assert worst.best["loss"] > result.best["loss"]


def test_penalties_follow_the_units_of_y_and_the_loss(rng: np.random.Generator) -> None:
    """The first λ are as strong for y in metres as for y in millimetres."""
    y = rng.normal(size=2000)
    for model, power in [(joker.KernelRidge(), 0), (joker.KernelSVR(epsilon=0.0), -1), (joker.KernelLp(p=3), 1)]:
        scaled, plain = model, clone(model).set_params(scale_target=False)
        ratios = [penalty_scale(one, 1000 * y, None) / penalty_scale(one, y, None) for one in (scaled, plain)]
        assert_allclose(ratios, [1, 1000.0**power])
    assert_allclose(penalty_scale(joker.KernelRidge(), y + 7, None), 1)
    assert_allclose(penalty_scale(joker.KernelSVC(), y > 0, None), 1)
    assert penalty_scale(joker.KernelRidge(), np.ones(5), None) == 1
    assert_allclose(penalty_scale(joker.KernelQuantile(quantile=[0.5, 0.5]), y, None), 1 / np.std(y), rtol=0.3)


def test_rows_come_as_tensors_frames_and_sparse_matrices(rng: np.random.Generator) -> None:
    X, y = waves(rng, 100)
    X[np.abs(X) < 0.3] = 0
    dense = joker.tune(X, y, **QUICK)
    for given in (torch.from_numpy(X), sp.csr_array(X)):
        result = joker.tune(given, torch.from_numpy(y), **QUICK)
        assert_allclose([e["score"] for e in result.table], [e["score"] for e in dense.table], atol=1e-4)
    pandas = pytest.importorskip("pandas")
    named = joker.tune(pandas.DataFrame(X, columns=["a", "b"]), pandas.Series(y), **QUICK)
    assert named.estimator.feature_names_in_.tolist() == ["a", "b"]
    assert [e["score"] for e in named.table] == [e["score"] for e in dense.table]


def test_a_rare_class_does_not_stop_the_search(rng: np.random.Generator) -> None:
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] > 0, 1, 0)
    y[7] = 2
    result = joker.tune(X, y, **{**QUICK, "rows": [20, 100]})
    assert result.estimator.classes_.tolist() == [0, 1, 2]


def test_the_callback_gets_each_entry(rng: np.random.Generator) -> None:
    X, y = waves(rng, 100)
    told: list[dict[str, Any]] = []
    result = joker.tune(X, y, callback=told.append, **QUICK)
    assert told == result.table


def test_time_limits_the_search_and_not_the_fit(rng: np.random.Generator) -> None:
    X, y = waves(rng, 100)
    with pytest.warns(UserWarning, match=r"max_time=0 has ended the search after 2 trials\. Use a longer time, or n_t"):
        result = joker.tune(X, y, max_time=0, **QUICK)
    assert {entry["bandwidth"] for entry in result.table} == {0.3}
    assert len(result.estimator.dual_coef_) == 100
    assert result.stopped_by_time


def losses(result: Tuned) -> list[tuple[str, float, float, float]]:
    """The settings and the losses of the trials, in their order."""
    return [(entry["kernel"], entry["bandwidth"], entry["lam"], entry["loss"]) for entry in result.table]


FREE: dict[str, Any] = {"rows": [80], "random_state": 0, "lam": [0.1, 1.0], "kernels": ["gaussian", "laplacian"]}


def test_fewer_trials_are_the_first_ones_of_a_longer_search(rng: np.random.Generator) -> None:
    """One fit tries both λ. The first bandwidth of each kernel comes first."""
    X, y = waves(rng, 120)
    whole = losses(joker.tune(X, y, **FREE))
    assert len(whole) > 10
    for trials in (1, 3):
        found = joker.tune(X, y, n_trials=trials, **FREE)
        assert losses(found) == whole[: 2 * trials]
        assert not found.stopped_by_time


def test_the_default_of_the_estimator_is_tried_beside_the_limited_trials(rng: np.random.Generator) -> None:
    """So a search of one trial is never worse than none."""
    X, y = waves(rng, 120)
    given = joker.KernelRidge(bandwidth=SIGMA, lam=0.1)
    found = joker.tune(X, y, estimator=given, n_trials=1, rows=[80], random_state=0)
    assert len({entry["bandwidth"] for entry in found.table}) == 2
    assert found.best["bandwidth"] == pytest.approx(SIGMA)


def no_clock() -> float:
    raise AssertionError("the clock is asked")


def test_without_a_limit_the_clock_decides_nothing(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reading of the clock is a day later than the one before: the trials are those of any other day."""
    X, y = waves(rng, 100)
    usual = losses(joker.tune(X, y, **QUICK))
    days = count(step=86_400.0)
    monkeypatch.setattr(time, "perf_counter", lambda: next(days))
    assert losses(joker.tune(X, y, **QUICK)) == usual
    monkeypatch.setattr(TimeBudget, "spent", property(lambda budget: no_clock()))
    budget = TimeBudget()
    assert (budget.left, budget.is_over(), budget.stopped) == (math.inf, False, False)


@pytest.mark.parametrize("hours", [1, 5])
def test_a_limit_returns_the_best_trial_so_far(
    hours: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock stands still, but for an hour with the fit of a trial on one of five folds."""
    X, y = waves(rng, 120)
    now, run = [0.0], TrialRunner.fit_and_score

    def slow(runner: Any, fit: Any) -> Any:
        found = run(runner, fit)
        now[0] += 3600.0
        return found

    monkeypatch.setattr(TrialRunner, "fit_and_score", slow)
    monkeypatch.setattr(TimeBudget, "spent", property(lambda budget: now[0]))
    whole = losses(joker.tune(X, y, **FREE))
    now[0] = 0.0
    limit = 3600.0 * 5 * hours
    with pytest.warns(UserWarning, match=f"max_time={limit:g} has ended the search after {2 * hours} trials"):
        found = joker.tune(X, y, max_time=limit, **FREE)
    assert found.stopped_by_time
    assert losses(found) == whole[: 2 * hours]
    assert found.best["loss"] == min(loss for *_, loss in losses(found))


def test_an_interrupt_ends_the_search(rng: np.random.Generator) -> None:
    X, y = waves(rng, 100)

    def interrupt(entry: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    given = joker.KernelRidge()
    with pytest.raises(KeyboardInterrupt):
        joker.tune(X, y, estimator=given, callback=interrupt, **QUICK)
    assert not hasattr(given, "lam_")


X = np.random.default_rng(0).normal(size=(30, 2))
Y = X[:, 0] - X[:, 1]
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"estimator": joker.KernelRidge}, InvalidParameter, r"got the class KernelRidge. Use estimator=KernelRidge\(\)"),
    ({"estimator": "ridge"}, InvalidParameter, "got 'ridge'"),
    ({"estimator": joker.KernelRidge(), "task": "classification"}, InvalidParameter, "task must be that of the est"),
    ({"task": "clasification"}, UnknownName, "Did you mean 'classification'"),
    ({"kernels": "gausian"}, UnknownName, "Did you mean 'gaussian'"),
    ({"kernels": []}, InvalidParameter, "kernels must be a kernel or a seq"),
    ({"kernels": 3}, InvalidParameter, "kernels must be"),
    ({"bandwidths": [0.0]}, InvalidParameter, "bandwidth must be a positive"),
    ({"bandwidths": ["mean"]}, UnknownName, "bandwidth .* must be one of"),
    ({"bandwidths": []}, InvalidParameter, "bandwidths must be"),
    ({"bandwidths": 1.0}, InvalidParameter, "bandwidths must be"),
    ({"lam": 0.0}, InvalidParameter, "lam must be a positive"),
    ({"lam": []}, InvalidParameter, "lam must be a positive"),
    ({"relevance": "some"}, InvalidParameter, "relevance must be 'auto', True or False"),
    ({"rows": 3}, InvalidParameter, "rows must be a whole number of at least 10"),
    ({"rows": []}, InvalidParameter, "rows must be a whole number"),
    ({"rows": [100.5]}, InvalidParameter, "rows must be a whole number"),
    ({"scoring": "acuracy"}, InvalidParameter, "scoring must be the name of a scikit-learn scorer"),
    ({"max_time": -1}, InvalidParameter, "max_time must be"),
    ({"max_time": "long"}, InvalidParameter, "max_time must be"),
    ({"max_time": math.nan}, InvalidParameter, "max_time must be"),
    ({"n_trials": 0}, InvalidParameter, "n_trials must be a whole number of at least 1, or None; got 0"),
    ({"n_trials": 2.5}, InvalidParameter, "n_trials must be a whole number"),
    ({"n_trials": True}, InvalidParameter, "n_trials must be a whole number"),
    ({"n_trials": "20"}, InvalidParameter, "n_trials must be a whole number"),
    ({"memory": "lots"}, InvalidParameter, "memory must be"),
    ({"device": "gpu"}, UnknownName, "device must name"),
    ({"callback": 3}, InvalidParameter, "callback must be"),
    ({"sample_weight": np.ones(3)}, InvalidData, "sample_weight must have shape"),
    ({"sample_weight": np.eye(30)[0]}, InvalidData, "at least 10 rows of positive weight; got 1"),
    ({"y": np.where(Y > 0, np.nan, Y)}, ValueError, "NaN"),
    ({"y": Y[:-1]}, ValueError, "inconsistent numbers of samples"),
    ({"y": np.zeros(30, int)}, InvalidData, "rows of two classes"),
    ({"y": [["a", "b"]] * 30}, InvalidData, "y must be numbers, or one column of classes"),
    ({"y": [{}] * 30}, InvalidData, "y must be numbers, or one column of classes"),
    ({"y": ["a", "b"] * 15, "estimator": joker.KernelRidge()}, ValueError, "numeric"),
    ({"y": np.ones((30, 2)), "estimator": joker.KernelSVC()}, ValueError, "1d array"),
    ({"X": X * np.nan}, ValueError, "NaN"),
    ({"X": X[:, 0]}, ValueError, "2D array"),
    ({"estimator": joker.KernelRidge(max_epochs="many")}, InvalidParameter, "max_epochs must be"),
    ({"estimator": joker.KernelRidge(block_size="big")}, InvalidParameter, "block_size must be"),
    ({"estimator": joker.KernelRidge(n_features="many")}, InvalidParameter, "n_features must be"),
    ({"estimator": joker.KernelQuantile(quantile=[])}, InvalidParameter, "quantile must be"),
]


@pytest.mark.parametrize(("given", "error", "sentence"), BAD, ids=[f"{next(iter(g))}-{s[:30]}" for g, _, s in BAD])
def test_bad_input_is_refused(given: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        joker.tune(**{"X": X, "y": Y, "random_state": 0, **given})


def test_a_misspelt_keyword() -> None:
    with pytest.raises(TypeError, match="kernel"):
        joker.tune(X, Y, kernel="gaussian")  # type: ignore[call-arg]
