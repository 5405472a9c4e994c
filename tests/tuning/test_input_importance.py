"""Weights of inputs by their importance, which is measured without the rows that trials are scored on."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from program import well, write_table
from threadpoolctl import threadpool_info

import joker
from joker.errors import InvalidParameter
from joker.tuning import input_importance, trial_runner
from joker.tuning.halving import Candidate, Family, Search, Trial
from joker.tuning.input_importance import (
    POWERS,
    InputImportance,
    max_importance_rows,
    measure_importance,
    powers_to_try,
)
from joker.tuning.result import Tuned
from joker.tuning.trial_runner import TrialRunner, make_trial_runner

Array = NDArray[Any]
SETTINGS: dict[str, Any] = {"kernels": "gaussian", "rows": 600, "random_state": 0}


def hidden(n: int, seed: int = 0) -> tuple[Array, Array]:
    """Three inputs that matter, the first one most, and ten inputs of noise."""
    X = np.random.default_rng(seed).normal(size=(n, 13))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]


def never() -> bool:
    return False


def runner_of(X: Array, y: Array, **settings: Any) -> TrialRunner:
    model = joker.KernelRidge(random_state=0, **settings)
    return make_trial_runner(model, lambda *_: 0.0, X, y, None, torch.device("cpu"), None, never)


@pytest.fixture(scope="module")
def tuned() -> dict[Any, Tuned]:
    X, y = hidden(2_000)
    return {way: joker.tune(X, y, relevance=way, **SETTINGS) for way in (False, True, "auto")}


def test_inputs_of_noise_get_small_weights(tuned: dict[Any, Tuned]) -> None:
    X, y = hidden(1_000, seed=1)
    scores = {way: found.estimator.score(X, y) for way, found in tuned.items()}
    assert scores[True] > scores[False] + 0.1
    assert scores["auto"] > scores[False] + 0.1
    widths = tuned["auto"].estimator.bandwidth_
    assert widths.shape == (13,)
    assert widths[:3].max() < 0.7 * widths[3:].min()


def test_each_setting_tries_its_powers(tuned: dict[Any, Tuned]) -> None:
    tried = {way: {entry["relevance"] for entry in found.table} for way, found in tuned.items()}
    assert tried[False] == {0.0}
    assert 0.0 not in tried[True]
    assert {0.0} < tried["auto"]
    assert "relevance" in str(tuned["auto"]).splitlines()[0]


def test_the_bandwidths_of_the_model_are_those_of_the_best_trial(tuned: dict[Any, Tuned]) -> None:
    """The most important input has the bandwidth of the table, and no weight is below the smallest one."""
    best, widths = tuned["auto"].best, tuned["auto"].estimator.bandwidth_
    assert best["relevance"] in POWERS[1:]
    assert widths.min() == pytest.approx(best["bandwidth"])
    assert widths.max() <= best["bandwidth"] / input_importance.MIN_WEIGHT * (1 + 1e-9)


def test_the_same_seed_gives_the_same(tuned: dict[Any, Tuned]) -> None:
    X, y = hidden(2_000)
    again = joker.tune(X, y, **SETTINGS)
    first = tuned["auto"]
    assert np.array_equal(again.estimator.bandwidth_, first.estimator.bandwidth_)
    assert [entry["loss"] for entry in again.table] == [entry["loss"] for entry in first.table]


def test_auto_is_not_worse_if_all_inputs_matter_equally() -> None:
    X = np.random.default_rng(0).normal(size=(2_000, 4))
    y = np.sin(X.sum(1))
    settings = {**SETTINGS, "lam": 0.01}
    with_it, without = (joker.tune(X, y, relevance=way, **settings).best["loss"] for way in ("auto", False))
    assert with_it <= without * 1.02


@pytest.mark.parametrize("n", [700, 2_400])
def test_importance_is_not_measured_on_held_out_rows(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []

    def watched(x: Array, *others: Any) -> Array:
        seen.append({int(row) for row in x[:, 0]})
        return np.arange(1.0, 4.0)

    monkeypatch.setattr(trial_runner, "measure_importance", watched)
    X = np.column_stack([np.arange(n), np.random.default_rng(0).normal(size=(n, 2))])
    runner = runner_of(X, X[:, 1])
    assert runner.input_importance is not None
    assert len(seen) == len(runner.splits)
    for rows, split in zip(seen, runner.splits, strict=True):
        assert rows
        assert not rows & set(split.held.tolist())


def test_weights_of_a_split_are_its_own() -> None:
    found = InputImportance(np.array([[1.0, 0.25, 0.0], [0.25, 1.0, 0.0]]))
    assert_allclose(found.weights(0.5, 0), [1, 0.5, 0.05])
    assert_allclose(found.weights(0.5, 1), [0.5, 1, 0.05])
    assert_allclose(found.weights(0.25), [1, 1, 0.05])
    assert_allclose(found.weights(0.0), [1, 1, 1])


def test_importance_ranks_numbers_classes_and_outputs() -> None:
    X, y = hidden(1_200)
    for target in (y, y > 0, np.digitize(y, [-0.5, 0.5]).astype(str)):
        found = measure_importance(X, target, None, target.dtype.kind != "f", 0, never)
        assert found is not None
        assert found[:3].min() > 3 * found[3:].max()
        assert found.argmax() == 0
    both = measure_importance(X, np.stack([X[:, 4], 1e6 * X[:, 5], np.ones(1_200)], axis=1), None, False, 0, never)
    assert both is not None
    assert set(both.argsort()[-2:]) == {4, 5}  # for every unit of the outputs
    sparse = measure_importance(sp.csr_array(X), y, None, False, 0, never)
    assert np.array_equal(sparse, measure_importance(X, y, None, False, 0, never))


def test_rows_of_weight_zero_do_not_count() -> None:
    X, y = hidden(1_200)
    other = np.arange(1_200) % 2 == 1
    y = np.where(other, 3 * X[:, 7], y)
    found = measure_importance(X, y, np.where(other, 0.0, 1.0), False, 0, never)
    assert found is not None
    assert found[7] < 0.1 * found[0]


def test_there_is_no_importance_if_time_is_up_or_no_input_matters() -> None:
    X, y = hidden(600)
    assert measure_importance(X, y, None, False, 0, lambda: True) is None
    clock = iter([False] * 6 + [True] * 99)
    assert measure_importance(X, y, None, False, 0, lambda: next(clock)) is None
    assert measure_importance(X, np.ones(600), None, False, 0, never) is None
    assert measure_importance(X, np.ones(600), None, True, 0, never) is None


def test_a_search_out_of_time_has_equal_weights() -> None:
    X, y = hidden(600)
    for way in ("auto", True):
        found = joker.tune(X, y, relevance=way, max_time=0, **SETTINGS)
        assert {entry["relevance"] for entry in found.table} == {0.0}


def test_auto_leaves_out_large_problems_and_given_bandwidths() -> None:
    def auto(d: int = 10, rows: int = 5_000, columns: int = 1, free: bool = True) -> bool:
        return len(powers_to_try("auto", d, rows, columns, free)) > 1

    assert auto()
    assert not any([auto(d=1), auto(d=129), auto(rows=300), auto(columns=17), auto(free=False)])
    assert powers_to_try(True, 784, 300, 100, False) == POWERS[1:]
    assert powers_to_try(False, 10, 5_000, 1, True) == (0.0,)


def test_the_rows_of_the_boosting_are_bounded() -> None:
    assert max_importance_rows(10, 2, 2**28) == input_importance.MAX_BOOSTING_ROWS
    assert max_importance_rows(10, 7, 2**28) < input_importance.MAX_BOOSTING_ROWS
    assert max_importance_rows(128, 2, 50_000_000) * 128 * input_importance.BOOSTING_BYTES <= 50_000_000


@pytest.mark.parametrize("standardize", [False, True])
def test_medians_are_those_of_weighted_inputs(standardize: bool) -> None:
    X, y = hidden(600)
    X = X * 3 + 1
    runner = runner_of(X, y, standardize=standardize)
    runner.__dict__["input_importance"] = InputImportance(np.tile(np.linspace(0, 1, 13), (len(runner.splits), 1)))
    Z = (X - X.mean(0)) / X.std(0) if standardize else X
    twin = runner_of(Z * runner.input_importance.weights(0.5), y, standardize=False)
    weighted, plain = runner.family("gaussian", None, None, POWERS[2:]), twin.family("gaussian", None, None)
    assert_allclose(weighted.bandwidths, plain.bandwidths, rtol=1e-9)
    back = runner.reweight(weighted.first()[1], 0.0)
    assert back is not None
    assert_allclose(back.bandwidth, runner.family("gaussian", None, None).bandwidths[1], rtol=1e-9)


def test_the_power_rises_on_few_rows_and_falls_on_many() -> None:
    """The best power is a half for few rows and a quarter for many."""

    def run(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        loss = 1 + abs(candidate.power - (0.5 if rows < 2_000 else 0.25)) + abs(np.log2(candidate.bandwidth))
        return [Trial(stage, rows, candidate, 1.0, loss, -loss, 0.0)]

    def reweight(candidate: Candidate, power: float) -> Candidate:
        return replace(candidate, power=power)

    family = Family("a", (1.0, 0.5), powers=POWERS)
    search = Search(run, reweight=reweight)
    best = search.best([family], [1_000, 4_000])
    assert best.candidate.power == 0.25
    assert max(trial.candidate.power for trial in search.trials if trial.stage == 0) == 0.5
    plain = Search(run).best([family], [1_000, 4_000])
    assert plain.candidate.power == 0.0


@pytest.mark.parametrize(("gain", "power"), [(0.01, 0.0), (0.05, 0.25)])
def test_weights_must_reduce_the_loss_enough(gain: float, power: float) -> None:
    def run(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        loss = 1.0 - gain * (candidate.power == 0.25)
        return [Trial(stage, rows, candidate, 1.0, loss, -loss, 0.0)]

    search = Search(run, reweight=lambda candidate, power: replace(candidate, power=power))
    assert search.best([Family("a", (1.0,), powers=POWERS)], [1_000, 4_000]).candidate.power == power


def test_sparse_rows_of_classes() -> None:
    X, y = hidden(600)
    X = sp.csr_array(X * (np.abs(X) > 0.3))
    found = joker.tune(X, y > 0, relevance=True, lam=1.0, bandwidths=["median"], **SETTINGS)
    assert found.estimator.bandwidth_.shape == (13,)
    assert found.estimator.score(X, y > 0) > 0.6


def test_bad_values_of_relevance_are_refused() -> None:
    X, y = hidden(40)
    with pytest.raises(InvalidParameter, match=r"relevance must be 'auto', True or False; got 'yes'\. Leave it out"):
        joker.tune(X, y, relevance="yes", **SETTINGS)
    with pytest.raises(
        InvalidParameter, match=r"relevance=True needs a kernel with a bandwidth.*\. Use relevance=False"
    ):
        joker.tune(X, y, relevance=True, kernels="linear")
    with pytest.raises(InvalidParameter, match=r"at most 1,024 inputs.* got 2,000\. Use relevance=False"):
        joker.tune(np.ones((40, 2_000)), y, relevance=True)


def test_the_program_prints_it(tmp_path: Path) -> None:
    table, out = write_table(tmp_path / "train.csv"), tmp_path / "model.joker"
    given = ("-t", "size", "--columns", "a,b,c", "--task", "regress", "-m", 30, "--kernels", "gaussian", "--quiet")
    found = well("tune", table, *given, "--relevance", "--lam", "1", "--sample", 60, "--out", out, "--json").document
    assert found["relevance"] in POWERS[1:]
    assert len(found["bandwidth"]) == 3
    assert joker.load(out).bandwidth_.tolist() == found["bandwidth"]
    given = (*given, "--bandwidths", "1", "--lam", "1", "--sample", 60)
    assert well("tune", table, *given, "--no-relevance", "--json").document["relevance"] == 0.0


def test_boosting_is_imported_when_it_is_needed() -> None:
    """It is not imported with joker, because it takes a second."""
    tree = ast.parse(Path(input_importance.__file__).read_text(encoding="utf-8"))
    assert not [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "sklearn.ensemble"]
    assert [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "sklearn.ensemble"]


def test_boosting_has_one_thread(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Beside busy processes its threads would wait for each other, ten times as long as they work."""
    seen = []

    def boosted(*_: Any) -> None:
        seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp")

    monkeypatch.setattr("joker.tuning.input_importance._boosted", boosted)
    before = torch.get_num_threads()
    measure_importance(rng.normal(size=(50, 2)), rng.normal(size=50), None, False, 0, lambda: False)
    assert set(seen) == {1}
    assert torch.get_num_threads() == before
