"""Trials that are run side by side, in other processes, give the table and the winner of trials in turn."""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import joker
from joker.tuning.halving import FIRST_BANDWIDTHS, Candidate, Family, Search, Trial
from joker.tuning.trials import IN_TURN, Runner, TrialFit, TrialResult, TrialWorkers, current_workers, trials_on

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (520, 3))
y = np.sin(3 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=520)
SETTINGS: dict[str, Any] = {"random_state": 0, "rows": [60, 120], "kernels": ["gaussian", "laplacian"]}


class Elsewhere(TrialWorkers):
    """Does what workers of another process would do: they get copies, and end in another order."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def run(self, runner: Runner, fits: Sequence[TrialFit]) -> list[TrialResult]:
        self.sizes.append(len(fits))
        sent = pickle.dumps(runner.to_send())
        done = [pickle.loads(sent).fit_and_score(pickle.loads(pickle.dumps(fit))) for fit in reversed(fits)]
        return done[::-1]


def without_seconds(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in table]


@pytest.mark.parametrize("target", [y, pytest.param(y > 0, marks=pytest.mark.slow)], ids=["numbers", "classes"])
def test_workers_give_the_table_of_one_process(target: np.ndarray) -> None:
    workers, reported = Elsewhere(), []
    with trials_on(workers):
        found = joker.tune(X, target, callback=reported.append, **SETTINGS)
    expected = joker.tune(X, target, **SETTINGS)
    assert without_seconds(found.table) == without_seconds(expected.table)
    assert found.best["kernel"] == expected.best["kernel"]
    np.testing.assert_array_equal(found.estimator.predict(X), expected.estimator.predict(X))
    assert len(reported) == len(found.table)
    assert max(workers.sizes) >= 4  # two kernels with two bandwidths each are run together
    assert current_workers() is IN_TURN


def test_the_rows_of_a_store_are_read_by_the_workers(tmp_path: Any) -> None:
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    store = joker.data.convert(tmp_path / "rows.npz", tmp_path / "all.rows", target="y")
    with trials_on(Elsewhere()):
        found = joker.tune(store, **{**SETTINGS, "kernels": "gaussian"})
    expected = joker.tune(store, **{**SETTINGS, "kernels": "gaussian"})
    assert without_seconds(found.table) == without_seconds(expected.table)


def test_an_error_of_a_trial_ends_the_search_and_the_workers_are_left() -> None:
    class Broken(Elsewhere):
        def run(self, runner: Runner, fits: Sequence[TrialFit]) -> list[TrialResult]:
            raise ArithmeticError("a trial fails")

    with pytest.raises(ArithmeticError, match="a trial fails"), trials_on(Broken()):
        joker.tune(X, y, **SETTINGS)
    assert current_workers() is IN_TURN


def trials_of(stage: int, rows: int, candidate: Candidate) -> list[Trial]:
    """Trials whose losses have many ties, so that an order other than that of trials in turn would show."""
    octave = round(np.log2(candidate.bandwidth) + rows / 4000)
    score = -abs(octave + len(str(candidate.family.kernel)))
    return [Trial(stage, rows, candidate, lam, float(20 - score), float(score), 0.0) for lam in candidate.lam]


@pytest.mark.parametrize("by_score", [True, False])
def test_a_search_asks_for_independent_candidates_together(by_score: bool) -> None:
    asked: list[Sequence[Candidate]] = []

    def together(stage: int, rows: int, candidates: Sequence[Candidate]) -> list[list[Trial]]:
        asked.append(candidates)
        return [trials_of(stage, rows, candidate) for candidate in candidates]

    families = [Family(name, FIRST_BANDWIDTHS) for name in ("a", "bb", "cccc")]
    search = Search(together, by_score=by_score)
    search.best(families, [1000, 4000, 16000])
    assert len(asked[0]) == 6
    for stage in range(3):  # the trials of a kernel follow each other, whatever was run between them
        kernels = [str(trial.candidate.family.kernel) for trial in search.trials if trial.stage == stage]
        later = kernels[24:] if stage == 0 else []  # after the first candidates, of which each has four λ
        assert later == sorted(later, key=later.index)
    for candidates in asked[1:]:  # the next candidate of a kernel depends on the one before
        assert len({candidate.family for candidate in candidates}) == len(candidates)


def test_bandwidths_that_are_nearly_equal_are_run_once() -> None:
    family = Family("a", (1.0, 1.0001, 2.0), False, (1.0,))
    search = Search(lambda stage, rows, some: [trials_of(stage, rows, c) for c in some])
    search.best([family], [1000])
    assert [trial.candidate.bandwidth for trial in search.trials] == [1.0, 2.0]
