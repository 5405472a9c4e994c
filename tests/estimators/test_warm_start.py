"""Warm start: a fit in two parts is the fit in one, and a new problem begins where the old one ended."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import joker
from joker.errors import InvalidParameter
from joker.solvers import Descent

METHODS = [{}, {"averaging": False}, {"momentum": True}, {"momentum": True, "averaging": False}]


@pytest.fixture
def data(rng: np.random.Generator):
    X = rng.normal(size=(120, 3))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=120)


def make(name: str = "KernelRidge", **settings):
    given = {"lam": 1e-1, "block_size": 30, "tol": 0.0, "random_state": 0}
    return getattr(joker, name)(**{**given, **settings})


def told(model) -> list[tuple[float, float]]:
    return [(entry["epoch"], entry["gap"]) for entry in model.history_]


@pytest.mark.parametrize("n_features", [None, 50])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_three_epochs_and_two_are_five(data, method, n_features: int | None) -> None:
    X, y = data
    straight = make(max_epochs=5, n_features=n_features, **method).fit(X, y)
    parts = make(max_epochs=3, n_features=n_features, warm_start=True, **method).fit(X, y)
    parts = pickle.loads(pickle.dumps(parts))
    parts.set_params(max_epochs=2, verbose=0, callbacks=[]).fit(X, y)
    assert_array_equal(parts.predict(X), straight.predict(X))
    seam = 2  # the gap at the end of a fit counts rounding errors, the same one in the middle of a fit does not
    assert told(parts)[:seam] + told(parts)[seam + 1 :] == told(straight)[:seam] + told(straight)[seam + 1 :]
    assert told(parts)[seam][1] >= told(straight)[seam][1] == pytest.approx(told(parts)[seam][1], rel=0.05, abs=1e-9)
    assert (parts.n_iter_, parts.gap_) == (5, straight.gap_)


@pytest.mark.parametrize("name", ["KernelSVC", "KernelLogistic", "KernelHuber", "KernelQuantile"])
def test_for_every_kind_of_loss(data, name: str) -> None:
    X, y = data
    y = np.digitize(y, [-0.5, 0.5]) if name in ("KernelSVC", "KernelLogistic") else y
    straight = make(name, max_epochs=4, lam=[0.1, 1.0]).fit(X, y, eval_set=(X, y))
    parts = make(name, max_epochs=2, lam=[0.1, 1.0], warm_start=True).fit(X, y, eval_set=(X, y))
    parts.fit(X, y, eval_set=(X, y))
    assert_array_equal(parts.predict(X), straight.predict(X))
    assert_array_equal(parts.path_.scores, straight.path_.scores)


def test_time_is_further_time_too(data) -> None:
    X, y = data
    model = make(max_epochs=1e9, max_time=1e-6, warm_start=True).fit(X, y)  # over after the first block
    epochs, seconds = model.n_iter_, model.history_[-1]["seconds"]
    assert model.fit(X, y).n_iter_ > epochs
    assert model.history_[-1]["seconds"] > seconds


def test_a_problem_that_is_solved_stays_solved(data, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data
    steps = []
    step = Descent.step
    monkeypatch.setattr(Descent, "step", lambda self: steps.append(0) or step(self))
    model = make("KernelLogistic", block_size="auto", tol=1e-2, warm_start=True).fit(X, y > 0)
    assert steps
    before = model.decision_function(X)
    steps.clear()
    assert_array_equal(model.fit(X, y > 0).decision_function(X), before)
    assert not steps
    model.set_params(tol=1e-9).fit(X, y > 0)  # but it can be asked for more
    assert steps
    assert model.gap_ <= 1e-9


@pytest.mark.parametrize("name", ["KernelRidge", "KernelSVR", "KernelLogistic"])
@pytest.mark.parametrize(("change", "n_features"), [("lam", None), ("targets", 50), ("weights", 50)])
def test_a_new_problem_on_the_same_rows_begins_with_the_old_solution(
    data, name: str, change: str, n_features: int | None
) -> None:
    X, y = data
    y = y > 0 if name == "KernelLogistic" else y
    model = make(name, max_epochs=10, n_features=n_features, warm_start=True, lam=1.0).fit(X, y)
    w = np.ones(len(X))
    if change == "lam":
        model.set_params(lam=1.5)
    elif change == "targets":
        y = y.copy()
        y[:2] = y[2:4]
    else:
        w[:5] = 3.0
    cold = make(name, max_epochs=1, n_features=n_features, lam=model.lam).fit(X, y, w)
    warm = model.set_params(max_epochs=1).fit(X, y, w)
    assert warm.n_iter_ == 1
    assert warm.gap_ < 0.7 * cold.gap_


@pytest.mark.parametrize("name", ["KernelRidge", "KernelSVR", "KernelLogistic"])
def test_the_beginning_does_not_change_the_end(data, name: str) -> None:
    X, y = data[0], data[1] > 0
    warm = make(name, block_size="auto", tol=1e-9, lam=0.1, warm_start=True).fit(X, y).set_params(lam=1.0).fit(X, ~y)
    cold = make(name, block_size="auto", tol=1e-9, lam=1.0).fit(X, ~y)
    assert warm.gap_ <= 1e-9
    decide = "decision_function" if name == "KernelLogistic" else "predict"
    assert_allclose(getattr(warm, decide)(X), getattr(cold, decide)(X), atol=1e-3)


def test_the_old_solution_is_put_into_the_new_box(data) -> None:
    """With a larger λ the box of the hinge is smaller; the gap is a proof only inside of it."""
    X, y = data
    model = make("KernelSVC", loss="hinge", lam=0.1, max_epochs=10, warm_start=True).fit(X, y > 0)
    assert np.abs(model.dual_coef_).max() > 1
    model.set_params(lam=1.0, max_epochs=0.25).fit(X, y > 0)
    assert np.abs(model.dual_coef_).max() <= 1
    assert 0 < model.gap_ < 1


CHANGES = {
    "rows": lambda model, X: X + np.eye(*X.shape) * 1e-9,
    "fewer rows": lambda model, X: X[:-7],
    "bandwidth": lambda model, X: model.set_params(bandwidth=1.0 + 1e-9) and X,
    "kernel": lambda model, X: model.set_params(kernel="laplacian") and X,
    "features": lambda model, X: model.set_params(n_features=51) and X,
    "seed": lambda model, X: model.set_params(random_state=1) and X,
    "dtype": lambda model, X: model.set_params(dtype="float64") and X,
    "inputs": lambda model, X: np.hstack([X, X]),
    "switch": lambda model, X: model.set_params(warm_start=False) and X,
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_problem_begins_anew(data, change: str) -> None:
    X, y = data
    model = make(n_features=50, bandwidth=1.0, max_epochs=3, warm_start=True).fit(X, y)
    X = CHANGES[change](model, X)
    model.fit(X, y[: len(X)])
    fresh = joker.KernelRidge(**model.get_params()).fit(X, y[: len(X)])
    assert_array_equal(model.predict(X), fresh.predict(X))
    assert told(model) == told(fresh)


def test_columns_of_another_number_begin_anew(data) -> None:
    X, y = data
    model = make(max_epochs=2, warm_start=True).fit(X, np.stack([y, -y], 1)).fit(X, y)
    assert_array_equal(model.predict(X), make(max_epochs=2).fit(X, y).predict(X))


def test_without_a_random_state_the_seed_is_kept(data) -> None:
    X, y = data
    for state in (None, np.random.RandomState(0)):
        model = make(max_epochs=2, warm_start=True, n_features=50, random_state=state).fit(X, y).fit(X, y)
        assert model.n_iter_ == 4
    model.set_params(warm_start=False)
    assert model.fit(X, y).n_iter_ == 2


def test_what_a_cold_estimator_keeps(data) -> None:
    X, y = data
    assert len(pickle.dumps(make().fit(X, y))) < len(pickle.dumps(make(warm_start=True).fit(X, y)))
    model = make(warm_start=True).fit(X, y).set_params(warm_start=False).fit(X, y)
    assert not hasattr(model, "_warm")


def test_each_fit_stops_early_by_itself(data) -> None:
    X, y = data
    noise = np.random.default_rng(1).normal(size=len(y))
    model = make(lam=1e-3, max_epochs=50, warm_start=True, early_stopping=True).fit(X, noise)
    first = len(model.history_)
    assert first < 50
    model.fit(X, noise)
    assert first + 4 <= len(model.history_) < first + 50
    assert model.n_iter_ > first  # the best epoch of this fit


def test_tensors_are_told_apart_by_every_bit(data) -> None:
    X, y = torch.as_tensor(data[0]), torch.as_tensor(data[1])
    model = make(max_epochs=2, warm_start=True).fit(X, y).fit(X.clone(), y.clone())
    assert model.n_iter_ == 4
    y[0] += 1e-12
    assert model.fit(X, y).n_iter_ == 2


def test_a_bad_switch(data) -> None:
    with pytest.raises(InvalidParameter, match="warm_start must be True or False"):
        make(warm_start=3).fit(*data)
