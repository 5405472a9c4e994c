"""Feature weights in a search: fitted without the rows that trials are scored on, and tried by powers."""

from collections.abc import Callable, Sequence
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

import joker
from joker.errors import InvalidParameter
from joker.tuning import trials
from joker.tuning.ard import (
    MIN_LOG_WEIGHT,
    POWERS,
    SEARCH_SAMPLE_ROWS,
    ArdFit,
    FeatureWeights,
    powers_to_try,
    search_sample_rows,
)
from joker.tuning.halving import Candidate, Family, Search, TimeBudget, Trial
from joker.tuning.trials import TrialRunner, make_trial_runner
from joker.tuning.tune import Tuned

Array = NDArray[Any]
SETTINGS: dict[str, Any] = {"kernels": "gaussian", "rows": 600, "random_state": 0}


def hidden(n: int, seed: int = 0) -> tuple[Array, Array]:
    """Three inputs that matter, the first one most, and ten inputs of noise."""
    X = np.random.default_rng(seed).normal(size=(n, 13))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]


class Asked(TimeBudget):
    """Time that is over when it has been asked so often."""

    def __init__(self, times: float) -> None:
        super().__init__()
        self.times = times

    def is_over(self) -> bool:
        self.times -= 1
        return self.times < 0


def runner_of(X: Any, y: Array, w: Array | None = None, asked: float = np.inf, **settings: Any) -> TrialRunner:
    kind = joker.KernelRidge if y.dtype.kind == "f" else joker.KernelClassifier
    model = kind(random_state=0, **settings)
    return make_trial_runner(model, lambda *_: 0.0, X, y, w, torch.device("cpu"), None, Asked(asked))


Run = Callable[[int, int, Candidate], list[Trial]]


def each(run: Run) -> Callable[[int, int, Sequence[Candidate]], list[list[Trial]]]:
    """Return a run of several candidates from that of one."""
    return lambda stage, rows, candidates: [run(stage, rows, candidate) for candidate in candidates]


def weights_of(X: Any, y: Array, w: Array | None = None) -> Array:
    found = runner_of(X, y, w).feature_weights
    assert found is not None
    return found.power(1.0)


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
    """The most relevant input has the bandwidth of the table, and no weight is below the smallest one."""
    best, widths = tuned["auto"].best, tuned["auto"].estimator.bandwidth_
    assert best["relevance"] in POWERS[1:]
    assert widths.min() == pytest.approx(best["bandwidth"])
    assert widths.max() <= best["bandwidth"] / np.exp(MIN_LOG_WEIGHT) * (1 + 1e-9)


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
def test_weights_are_not_fitted_on_held_out_rows(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []

    def watched(x: Array, groups: Array, samples: Any, *others: Any) -> ArdFit:
        few = [next(samples) for _ in range(4)]
        seen.append({int(row) for one in few for row in x[one.rows, 0]})
        for one in few:  # targets are those of the rows
            assert np.corrcoef(x[one.rows, 1], one.y[:, 0])[0, 1] > 0.999
        return ArdFit(torch.tensor([0.2, 1.0, 0.5]).log(), 1.0, 0.0)

    monkeypatch.setattr(trials, "fit_ard", watched)
    X = np.column_stack([np.arange(n), np.random.default_rng(0).normal(size=(n, 2))])
    runner = runner_of(X, X[:, 1], standardize=False)
    assert runner.feature_weights is not None
    assert len(seen) == len(runner.splits)
    for rows, split in zip(seen, runner.splits, strict=True):
        assert rows
        assert not rows & set(split.held.tolist())


def test_weights_of_a_split_are_its_own() -> None:
    found = FeatureWeights(np.array([[1.0, 0.25, 0.04], [0.25, 1.0, 0.04]]))
    assert_allclose(found.power(0.5, 0), [1, 0.5, 0.2])
    assert_allclose(found.power(0.5, 1), [0.5, 1, 0.2])
    assert_allclose(found.power(1.0), [1, 1, 0.08])
    assert_allclose(found.power(0.0), [1, 1, 1])


def test_weights_rank_inputs_for_numbers_classes_and_outputs() -> None:
    X, y = hidden(2_200)
    for target in (y, y > 0, np.digitize(y, [-0.5, 0.5]).astype(str)):
        found = weights_of(X, target)
        assert found[:3].min() > 1.5 * found[3:].max()
        assert found.argmax() == 0
    both = weights_of(X, np.stack([np.sin(2 * X[:, 4]), 1e6 * np.sin(2 * X[:, 5]), np.ones(2_200)], axis=1))
    assert set(both.argsort()[-2:]) == {4, 5}  # for every unit of the outputs
    assert_allclose(weights_of(sp.csr_array(X), y), weights_of(X, y), rtol=1e-3)


@pytest.mark.parametrize("weight", [0.0, 1e-3])
def test_rows_count_by_their_weight(weight: float) -> None:
    X, y = hidden(2_400)
    other = np.arange(2_400) % 2 == 1
    y = np.where(other, 3 * np.sin(2 * X[:, 7]), y)
    found = weights_of(X, y, np.where(other, weight, 1.0))
    assert found[7] < 0.5 * found[0]
    assert weights_of(X, y)[7] > 0.5


def test_without_time_there_are_no_weights_and_a_constant_target_has_equal_ones() -> None:
    X, y = hidden(600)
    assert runner_of(X, y, asked=0).feature_weights is None
    # The first split has its steps, the others have none.
    assert runner_of(X, y, asked=6).feature_weights is None
    assert_allclose(weights_of(X, np.ones(600)), 1)


def test_a_search_out_of_time_has_equal_weights() -> None:
    X, y = hidden(600)
    for way in ("auto", True):
        with pytest.warns(UserWarning, match="max_time=0 has ended the search"):
            found = joker.tune(X, y, relevance=way, max_time=0, **SETTINGS)
        assert {entry["relevance"] for entry in found.table} == {0.0}


def test_auto_leaves_out_large_problems_and_given_bandwidths() -> None:
    def auto(d: int = 10, rows: int = 5_000, columns: int = 1, free: bool = True) -> bool:
        return len(powers_to_try("auto", d, rows, columns, free)) > 1

    assert auto()
    assert not any([auto(d=1), auto(d=129), auto(rows=300), auto(columns=17), auto(free=False)])
    assert powers_to_try(True, 784, 300, 100, False) == POWERS[1:]
    assert powers_to_try(False, 10, 5_000, 1, True) == (0.0,)


def test_the_rows_of_a_step_are_bounded() -> None:
    assert search_sample_rows(10_000, 2**28) == SEARCH_SAMPLE_ROWS
    assert search_sample_rows(700, 2**28) == 350  # not all rows at once: their noise would be fitted
    assert search_sample_rows(10_000, 2**20) ** 2 * 4 * 8 <= 2**20


@pytest.mark.parametrize("standardize", [False, True])
def test_medians_are_those_of_weighted_inputs(standardize: bool) -> None:
    X, y = hidden(600)
    X = X * 3 + 1
    runner = runner_of(X, y, standardize=standardize)
    runner.__dict__["feature_weights"] = FeatureWeights(np.tile(np.linspace(0.05, 1, 13), (len(runner.splits), 1)))
    Z = (X - X.mean(0)) / X.std(0) if standardize else X
    twin = runner_of(Z * runner.feature_weights.power(1.0), y, standardize=False)
    weighted, plain = runner.family("gaussian", None, None, POWERS[2:]), twin.family("gaussian", None, None)
    assert_allclose(weighted.bandwidths, plain.bandwidths, rtol=1e-9)
    back = runner.reweight(weighted.first()[1], 0.0)
    assert back is not None
    assert_allclose(back.bandwidth, runner.family("gaussian", None, None).bandwidths[1], rtol=1e-9)


def test_the_power_rises_on_few_rows_and_falls_on_many() -> None:
    """The best power is 1 for few rows and a half for many."""

    def run(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        loss = 1 + abs(candidate.power - (1.0 if rows < 2_000 else 0.5)) + abs(np.log2(candidate.bandwidth))
        return [Trial(stage, rows, candidate, 1.0, loss, -loss, 0.0)]

    def reweight(candidate: Candidate, power: float) -> Candidate:
        return replace(candidate, power=power)

    family = Family("a", (1.0, 0.5), powers=POWERS)
    search = Search(each(run), reweight=reweight)
    best = search.best([family], [1_000, 4_000])
    assert best.candidate.power == 0.5
    assert max(trial.candidate.power for trial in search.trials if trial.stage == 0) == 1.0
    plain = Search(each(run)).best([family], [1_000, 4_000])
    assert plain.candidate.power == 0.0


@pytest.mark.parametrize(("gain", "power"), [(0.01, 0.0), (0.05, 0.5)])
def test_weights_must_reduce_the_loss_enough(gain: float, power: float) -> None:
    def run(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        loss = 1.0 - gain * (candidate.power == 0.5)
        return [Trial(stage, rows, candidate, 1.0, loss, -loss, 0.0)]

    search = Search(each(run), reweight=lambda candidate, power: replace(candidate, power=power))
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


def test_a_later_stage_tries_weights_that_few_rows_did_not_support() -> None:
    def run(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
        loss = 1.0 + (candidate.power if rows < 2_000 else -0.3 * candidate.power)
        return [Trial(stage, rows, candidate, 1.0, loss, -loss, 0.0)]

    search = Search(each(run), reweight=lambda candidate, power: replace(candidate, power=power))
    assert search.best([Family("a", (1.0,), powers=POWERS)], [1_000, 4_000]).candidate.power == 1.0
