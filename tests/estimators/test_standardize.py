"""``standardize`` is a StandardScaler inside: the same model, on raw rows, and in a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

import joker
from joker.errors import InvalidParameter

Array = NDArray[np.float64]


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[Array, Array]:
    X = rng.normal([50, 0, 3], [1e-3, 200, 0], size=(300, 3))
    return X, np.sin(1e3 * (X[:, 0] - 50)) + X[:, 1] / 200


def ridge(**settings: Any) -> joker.KernelRidge:
    return joker.KernelRidge(lam=0.1, random_state=0, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_features": 50},
        {"block_size": 64, "n_features": 50},
        {"kernel": "linear"},
        {"kernel": "polynomial", "n_features": None, "bandwidth": 1.0},
        {"bandwidth": "paper"},
    ],
)
def test_it_is_the_model_of_scaled_rows(data: tuple[Array, Array], settings: dict[str, Any]) -> None:
    X, y = data
    Z = StandardScaler().fit_transform(X)
    Z[:, 2] = 0  # a constant of 3 minus its mean, which rounding may miss
    mine, twin = ridge(standardize=True, **settings).fit(X, y), ridge(**settings).fit(Z, y)
    assert_allclose(mine.mean_, X.mean(0))
    assert_allclose(mine.scale_, X.std(0) * [1, 1, 0], rtol=1e-6)
    assert_allclose(mine.bandwidth_, twin.bandwidth_, rtol=1e-5)
    assert_allclose(mine.predict(X), twin.predict(Z), atol=1e-3)
    assert mine.score(X, y) > ridge(**settings).fit(X, y).score(X, y) - 1e-9


def test_figures_are_those_of_the_rows_that_are_trained_on(data: tuple[Array, Array]) -> None:
    X, y = data
    X = np.vstack([X, X[:40] + 1e3])
    y = np.concatenate([y, y[:40]])
    w = np.repeat([1.0, 2.0, 0.0], [200, 100, 40])
    weighed = ridge(standardize=True).fit(X, y, sample_weight=w)
    rows = np.repeat(np.arange(340), w.astype(int))
    assert_allclose(weighed.mean_, X[rows].mean(0))
    assert_allclose(weighed.predict(X), ridge(standardize=True).fit(X[rows], y[rows]).predict(X), atol=1e-4)
    held = ridge(standardize=True, early_stopping=True, validation_fraction=0.5).fit(X, y)
    assert not np.allclose(held.mean_, X.mean(0), rtol=1e-12)
    given = ridge(standardize=True).set_params(lam=[0.1, 1]).fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
    assert_allclose(given.mean_, X[:300].mean(0))


def test_what_is_held_out_is_scored_as_it_is_predicted(data: tuple[Array, Array]) -> None:
    X, y = data
    model = joker.KernelClassifier(standardize=True, lam=[0.01, 1], random_state=0).fit(X, y > 0, eval_set=(X, y > 0))
    seen: list[Any] = []
    scored = joker.KernelClassifier(
        standardize=True, lam=[0.01, 1], random_state=0, early_stopping=lambda m, A, b: seen.append(A) or m.score(A, b)
    ).fit(X, y > 0, eval_set=(X, y > 0))
    assert_allclose(seen[0], X)  # a scorer gets raw rows
    assert scored.path_.scores[scored.path_.best] == scored.path_.models[scored.path_.best].score(X, y > 0)
    assert model.score(X, y > 0) > 0.9


def test_sparse_rows_are_centred_a_tile_at_a_time(rng: np.random.Generator) -> None:
    X = sp.random_array((200, 30), density=0.2, rng=rng, format="csr")
    y = X.toarray()[:, :3].sum(1)
    for settings in ({}, {"n_features": 40}):
        mine = ridge(standardize=True, **settings).fit(X, y)
        assert_allclose(mine.predict(X), ridge(standardize=True, **settings).fit(X.toarray(), y).predict(X), atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"n_features": 40}, {"lam": [0.1, 1.0], "n_features": 40}])
def test_files_keep_the_figures(data: tuple[Array, Array], settings: dict[str, Any], tmp_path: Path) -> None:
    X, y = data
    for rows in (X, sp.csr_array(X)):
        model = ridge(standardize=True).set_params(**settings).fit(rows, y)
        model.save(tmp_path / "model.joker")
        again = joker.load(tmp_path / "model.joker")
        assert np.array_equal(again.predict(rows), model.predict(rows))
        assert np.array_equal(again.mean_, model.mean_)
        assert np.array_equal(again.scale_, model.scale_)


def test_a_fit_without_it_forgets_the_figures(data: tuple[Array, Array]) -> None:
    X, y = data
    model = ridge(standardize=True).fit(X, y)
    raw = model.set_params(standardize=False).fit(X, y)
    assert not hasattr(raw, "mean_")
    assert_allclose(raw.predict(X), ridge().fit(X, y).predict(X))


def test_a_warm_start_goes_on_only_where_the_figures_are_the_same(data: tuple[Array, Array]) -> None:
    X, y = data
    settings = {"standardize": True, "n_features": 40, "block_size": 64, "tol": 0.0}
    whole = ridge(max_epochs=5, **settings).fit(X, y)
    parts = ridge(max_epochs=3, warm_start=True, **settings).fit(X, y).set_params(max_epochs=2).fit(X, y)
    assert np.array_equal(parts.coef_, whole.coef_)
    other = parts.set_params(standardize=False, max_epochs=5).fit(X, y)
    assert np.array_equal(other.coef_, ridge(max_epochs=5, **settings).set_params(standardize=False).fit(X, y).coef_)


def test_tune_looks_for_bandwidths_of_scaled_rows(data: tuple[Array, Array]) -> None:
    X, y = data
    mine = joker.tune(X, y, estimator=ridge(standardize=True), bandwidths=["median"], lam=0.1, rows=100, random_state=0)
    Z = StandardScaler().fit_transform(X)
    Z[:, 2] = 0
    twin = joker.tune(Z, y, estimator=ridge(), bandwidths=["median"], lam=0.1, rows=100, random_state=0)
    assert_allclose(mine.table[0]["bandwidth"], twin.table[0]["bandwidth"], rtol=1e-6)
    assert mine.estimator.score(X, y) > 0.9


def test_it_is_a_switch(data: tuple[Array, Array]) -> None:
    with pytest.raises(InvalidParameter, match="standardize must be True or False; got 'yes'"):
        ridge(standardize="yes").fit(*data)
