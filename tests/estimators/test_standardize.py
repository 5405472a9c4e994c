"""``standardize`` is a StandardScaler inside: the same model, on raw rows, and in a file."""

from collections.abc import Callable
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
    mine, twin = (ridge(standardize=s, **settings).fit(x, y) for s, x in ((True, X), (False, Z)))
    assert_allclose(mine.mean_, X.mean(0))
    assert_allclose(mine.scale_, X.std(0) * [1, 1, 0], rtol=1e-6)
    assert_allclose(mine.bandwidth_, twin.bandwidth_, rtol=1e-5)
    assert_allclose(mine.predict(X), twin.predict(Z), atol=1e-3)
    assert mine.score(X, y) > ridge(standardize=False, **settings).fit(X, y).score(X, y) - 1e-9


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
    assert_allclose(raw.predict(X), ridge(standardize=False).fit(X, y).predict(X))


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
    with pytest.raises(InvalidParameter, match="standardize must be True, False or 'auto'; got 'yes'"):
        ridge(standardize="yes").fit(*data)


# "auto"


@pytest.mark.parametrize("settings", [{}, {"n_features": 50}, {"kernel": "laplacian"}, {"lam": [0.1, 1.0, 10.0]}])
def test_auto_is_on_where_scales_differ(data: tuple[Array, Array], settings: dict[str, Any]) -> None:
    X, y = data
    settings = {"random_state": 0, **settings}
    auto, on = (joker.KernelRidge(standardize=s, **settings).fit(X, y) for s in ("auto", True))
    assert joker.KernelRidge().standardize == "auto"
    assert_allclose(auto.mean_, on.mean_)
    assert np.array_equal(auto.predict(X), on.predict(X))
    assert auto.plan(X, y).total == on.plan(X, y).total


def pixels(rng: np.random.Generator) -> Array:
    """Numbers from 0 to 1, most of them 0; the deviations of the inputs are far apart."""
    return rng.uniform(size=(300, 20)) * (rng.uniform(size=(300, 20)) < np.linspace(0.05, 0.9, 20))


ON_ONE_SCALE: dict[str, Callable[[np.random.Generator], Any]] = {
    "z-scores": lambda rng: rng.normal(size=(300, 4)),
    "deviations within a factor of three": lambda rng: rng.normal(size=(300, 3)) * [1.0, 2.0, 2.8],
    "heavy tails": lambda rng: rng.standard_t(2, size=(300, 4)),
    "pixels": pixels,
    "bytes": lambda rng: (255 * pixels(rng)).astype(np.uint8),
    "a rare category": lambda rng: np.eye(3)[rng.choice(3, 300, p=[0.9, 0.08, 0.02])],
    "one input": lambda rng: 1e6 * rng.normal(size=(300, 1)),
    "one input that varies": lambda rng: np.column_stack([1e6 * rng.normal(size=300), np.full(300, 3.0)]),
    "sparse": lambda rng: sp.csr_array(rng.normal(size=(300, 3)) * [1, 1e3, 1e6]),
}


@pytest.mark.parametrize("name", ON_ONE_SCALE)
def test_auto_is_off_on_one_scale(rng: np.random.Generator, name: str) -> None:
    X = ON_ONE_SCALE[name](rng)
    y = rng.normal(size=300)
    auto, off = (joker.KernelRidge(random_state=0, standardize=s).fit(X, y) for s in ("auto", False))
    assert not hasattr(auto, "mean_")
    assert np.array_equal(auto.predict(X), off.predict(X))


OTHERS: dict[str, Callable[[np.random.Generator], Any]] = {
    "age and income": lambda rng: np.column_stack([rng.uniform(18, 90, 300), rng.lognormal(10, 1, 300)]),
    "one input of ten is small": lambda rng: rng.normal(size=(300, 5)) * [1, 1, 1, 1, 0.01],
    "a number among categories": lambda rng: np.column_stack(
        [np.eye(3)[rng.integers(3, size=300)], 50 * rng.normal(size=300)]
    ),
    "integers": lambda rng: rng.integers(0, [2, 10_000], (300, 2)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_auto_is_on_elsewhere(rng: np.random.Generator, name: str) -> None:
    assert hasattr(joker.KernelRidge().fit(OTHERS[name](rng), rng.normal(size=300)), "mean_")


def test_auto_leaves_out_rows_of_weight_0(data: tuple[Array, Array], rng: np.random.Generator) -> None:
    X, y, w = rng.normal(size=(300, 2)), rng.normal(size=300), np.ones(300)
    X[::10] *= [1, 1e6]
    w[::10] = 0
    assert hasattr(joker.KernelRidge().fit(X, y), "mean_")
    assert not hasattr(joker.KernelRidge().fit(X, y, sample_weight=w), "mean_")


def test_auto_is_off_where_each_input_has_a_bandwidth(data: tuple[Array, Array]) -> None:
    X, y = data
    assert not hasattr(ridge(bandwidth=[1e-3, 200.0, 1.0]).fit(X, y), "mean_")


def test_auto_decides_on_a_sample(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample is spread over all rows; a store is in random order."""
    monkeypatch.setattr("joker.data.arrays.SAMPLE_ROWS", 50)
    X = rng.normal(size=(1000, 2))
    X[500:] *= [1, 100]
    assert hasattr(joker.KernelRidge(n_features=20).fit(X, X[:, 0]), "mean_")


def test_auto_of_a_store(data: tuple[Array, Array], tmp_path: Path, rng: np.random.Generator) -> None:
    X, y = data
    for name, x, on in (("raw", X, True), ("scaled", rng.normal(size=X.shape), False)):
        np.savez(tmp_path / f"{name}.npz", X=x, y=y)
        store = joker.data.convert(tmp_path / f"{name}.npz", tmp_path / f"{name}.rows", target="y", task="regression")
        assert hasattr(joker.KernelRidge(n_features=20).fit(store), "mean_") == on


def test_tune_decides_once(data: tuple[Array, Array]) -> None:
    X, y = data
    tuned = joker.tune(X, y, kernels="gaussian", random_state=0)
    assert tuned.estimator.standardize is True
    off = joker.tune(X, y, kernels="gaussian", estimator=joker.KernelRidge(standardize=False), random_state=0)
    assert tuned.best["score"] > off.best["score"] + 0.1
