"""Fits in several processes give the models of one process, bit for bit."""

import os
import warnings
from functools import partial
from typing import Any

import joblib
import numpy as np
import pytest
import torch

import joker
from joker.errors import InvalidParameter
from joker.tuning.processes import SideBySide, workers_for
from joker.tuning.trials import IN_TURN, TrialWorkers, current_workers, trials_on

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (300, 3))
y = np.sin(3 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=300)


def without_seconds(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in table]


def test_a_search_in_two_processes_is_that_of_one() -> None:
    settings: dict[str, Any] = {"random_state": 0, "rows": [60, 120], "kernels": ["gaussian", "laplacian"]}
    alone, together = joker.tune(X, y, **settings), joker.tune(X, y, n_jobs=2, **settings)
    assert without_seconds(together.table) == without_seconds(alone.table)
    np.testing.assert_array_equal(together.estimator.predict(X), alone.estimator.predict(X))
    assert current_workers() is IN_TURN


@pytest.mark.parametrize("kind", [joker.JokerRegressor, pytest.param(joker.JokerClassifier, marks=pytest.mark.slow)])
def test_a_table_model_of_two_processes_is_that_of_one(kind: Any) -> None:
    target = y if kind is joker.JokerRegressor else y > 0
    alone = kind(effort=1, random_state=0).fit(X, target)
    together = kind(effort=1, random_state=0, n_jobs=2).fit(X, target)
    assert without_seconds(together.leaderboard_) == without_seconds(alone.leaderboard_)
    assert together.held_out_score_ == alone.held_out_score_
    np.testing.assert_array_equal(together.predict(X), alone.predict(X))


# Functions inside tests are sent by value: a process need not find this file.


def test_parts_keep_their_order_warn_here_and_start_no_further_processes() -> None:
    def facts_of(part: int) -> tuple[int, int, bool]:
        if part == 2:
            warnings.warn(f"part {part}", UserWarning, stacklevel=1)
        return part, os.getpid(), isinstance(workers_for(-1, None, None), SideBySide)

    with pytest.warns(UserWarning, match="part 2"):
        found = list(SideBySide(2, 1).map(facts_of, range(4)))
    assert [part for part, _, _ in found] == [0, 1, 2, 3]
    assert os.getpid() not in {process for _, process, _ in found}
    assert not any(nested for _, _, nested in found)


def test_an_error_of_a_process_is_raised_here() -> None:
    def fail(part: int) -> None:
        raise ArithmeticError(f"part {part} fails")

    with pytest.raises(ArithmeticError, match="fails"):
        list(SideBySide(2, 1).map(fail, range(2)))


def test_one_process_where_others_would_be_too_many() -> None:
    assert workers_for(None, None, None) is IN_TURN
    assert workers_for(1, "auto", None) is IN_TURN
    assert workers_for(2, "500MB", None) is IN_TURN
    assert workers_for(2, "auto", torch.device("cuda")) is IN_TURN
    with joblib.parallel_config(n_jobs=2):
        assert workers_for(None, "auto", None) == SideBySide(2, max(1, joblib.cpu_count() // 2))
    other = TrialWorkers()
    with trials_on(other):
        assert workers_for(2, None, None) is other


@pytest.mark.parametrize("n_jobs", [0, 1.5, True, "all"])
def test_a_number_of_processes_is_a_whole_number(n_jobs: Any) -> None:
    with pytest.raises(InvalidParameter, match="n_jobs must be a number of processes"):
        workers_for(n_jobs, None, None)


def test_work_in_turn_is_not_begun_before_it_is_asked_for() -> None:
    begun: list[int] = []
    results = IN_TURN.map(partial(_note, begun), range(3))
    assert begun == []
    assert next(iter(results)) == 0
    assert begun == [0]


def _note(begun: list[int], part: int) -> int:
    begun.append(part)
    return part
