"""The entry for TabArena, with the installed packages of its authors and on generated tables."""

import importlib
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from repository import ROOT

pytest.importorskip("autogluon.tabular", reason="needs autogluon.tabular: docs/tabarena.md")
pytest.importorskip("tabarena", reason="needs tabarena: docs/tabarena.md")
FOLDER = ROOT / "benchmarks" / "tabarena"
PROBLEMS = ("binary", "multiclass", "regression")


@pytest.fixture(scope="module")
def entry() -> Iterator[SimpleNamespace]:
    """The modules of the folder, by their names, as a run imports them."""
    names = ("joker_model", "joker_system", "search_space", "run")
    sys.path.insert(0, str(FOLDER))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    sys.path.remove(str(FOLDER))
    for name in names:
        sys.modules.pop(name)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_model_is_fitted_and_bagged_by_autogluon(entry: SimpleNamespace, problem: str) -> None:
    X, y = entry.run.generated(problem)
    predictor = entry.run.fit_model(problem, X[:300], y[:300])
    assert [name.startswith("JokerKernel") for name in predictor.model_names()] == [True]
    assert entry.run.score_of(predictor, X[300:], y[300:]) > 0.8
    if problem != "regression":
        p = predictor.predict_proba(X[300:])
        assert np.allclose(p.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_system_is_fitted_on_the_raw_table(entry: SimpleNamespace, problem: str) -> None:
    X, y = entry.run.generated(problem)
    system = entry.run.fit_system(problem, X[:300], y[:300])
    assert entry.run.score_of(system, X[300:], y[300:]) > 0.8
    if problem != "regression":
        p = system.predict_proba(X[300:])
        assert set(p.columns) == set(y)
        assert np.allclose(p.sum(axis=1), 1)


def single(entry: SimpleNamespace, problem: str = "regression", **hyperparameters: Any) -> Any:
    """A model that no predictor wraps."""
    return entry.joker_model.JokerKernelModel(problem_type=problem, hyperparameters=hyperparameters)


def test_the_validation_rows_choose_the_penalty(entry: SimpleNamespace) -> None:
    X, y = entry.run.generated("regression")
    model = single(entry)
    model.fit(X=X[:200], y=y[:200], X_val=X[200:300], y_val=y[200:300], num_cpus=1)
    noise = single(entry)
    shuffled = y[200:300].sample(frac=1, random_state=0).set_axis(y[200:300].index)
    noise.fit(X=X[:200], y=y[:200], X_val=X[200:300], y_val=shuffled, num_cpus=1)
    assert model.params_trained["lam"] < noise.params_trained["lam"]
    assert model.model.lam_ == model.params_trained["lam"]


def test_every_configuration_of_the_search_space_can_be_fitted(entry: SimpleNamespace) -> None:
    configs = entry.search_space.MODEL.get_searcher_configs(6)
    assert len({str(config) for config in configs}) > 3
    for problem in PROBLEMS:
        X, y = entry.run.generated(problem, 120)
        codes = y if problem == "regression" else pd.Series(y.astype("category").cat.codes)
        for config in configs:
            model = single(entry, problem, **config)
            model.fit(X=X[:80], y=codes[:80], X_val=X[80:], y_val=codes[80:], num_cpus=1)
            assert np.isfinite(model.predict_proba(X[80:])).all()


def test_missing_values_and_new_levels_are_encoded(entry: SimpleNamespace) -> None:
    X, y = entry.run.generated("regression", 100)
    X["c"] = X["c"].astype("category")
    model = single(entry)
    model.fit(X=X, y=y, num_cpus=1)
    new = X[:3].assign(a=[np.nan, 1.0, np.inf], c=pd.Categorical(["unknown", None, "x"]))[:2]
    assert np.isfinite(model.predict(new)).all()


def test_the_number_of_cores_is_kept(entry: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    seen: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    X, y = entry.run.generated("regression", 100)
    single(entry, ag_args_fit={"num_cpus": 1}).fit(X=X, y=y)  # else AutoGluon decides
    assert seen[0] == 1


def test_the_time_limit_reaches_the_fit(entry: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    from autogluon.core.utils.exceptions import TimeLimitExceeded

    X, y = entry.run.generated("regression", 2_000)
    model = single(entry, exact_rows=0, n_features=1_000)
    started = time.perf_counter()
    model.fit(X=X, y=y, time_limit=5.0, num_cpus=1)
    assert model.model.max_time < 4.5
    assert time.perf_counter() - started < 60  # a fit ends after the block that it is in
    monkeypatch.setattr(entry.joker_model, "TIME_SHARE", 0.0)
    with pytest.raises(TimeLimitExceeded):
        single(entry).fit(X=X, y=y, time_limit=5.0)


def test_more_memory_is_estimated_for_more_rows(entry: SimpleNamespace) -> None:
    estimate = entry.joker_model.JokerKernelModel._estimate_memory_usage_static
    X, _ = entry.run.generated("regression", 1_000)
    assert estimate(X=X) < estimate(X=pd.concat([X] * 10))


def test_the_split_of_the_task_is_that_of_the_system(entry: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    import joker

    X, y = entry.run.generated("regression", 120)
    X["person"] = np.arange(120) // 6
    seen: list[Any] = []
    fit = joker.JokerRegressor.fit

    def watched(self: Any, X: Any, y: Any, **splits: Any) -> Any:
        seen.append((splits, self.max_time))
        return fit(self, X, y, **splits)

    monkeypatch.setattr(joker.JokerRegressor, "fit", watched)
    system = entry.run.fit_system("regression", X, y, time_limit=100, group_on="person")
    assert seen == [({"groups": "person"}, 85.0)]
    assert np.isfinite(system.predict(X)).all()


def test_both_routes_build_experiments(entry: SimpleNamespace) -> None:
    from tabarena.benchmark.experiment import TabArenaV0pt1ExperimentBundle

    model = TabArenaV0pt1ExperimentBundle(models=[(entry.search_space.MODEL, 2)]).build_experiments(time_limit=60)
    assert len(model) == 3
    system = TabArenaV0pt1ExperimentBundle(models=[(entry.search_space.SYSTEM, 0)], system_experiments=True)
    assert len(system.build_experiments(time_limit=60)) == 2


def test_warming_up_compiles_nothing_on_a_cpu(entry: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    import joker

    called: list[str] = []
    monkeypatch.setattr(joker, "warmup", lambda: called.append("warm"))
    entry.joker_model.JokerKernelModel.warmup()
    entry.joker_system._warm_up()
    assert called == ["warm", "warm"]
