"""Estimators train on and predict from a row store what they would from the same rows in memory."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from store_sources import Table

import joker
from joker.data import Schema, Store, StoreRows, convert
from joker.data.rows import Blocks
from joker.errors import InvalidData

N = 3000


def table(rng: np.random.Generator, n: int = N, classes: Any = None) -> Any:
    x = rng.normal([5, -3, 0, 1], [0.1, 20, 1, 0], size=(n, 4)).astype(np.float32)
    f = np.sin(10 * (x[:, 0] - 5)) + x[:, 2]
    return Table(x, f.astype(np.float32) if classes is None else np.asarray(classes)[np.digitize(f, [-0.5, 0.5])])


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    folder, rng = tmp_path_factory.mktemp("stores"), np.random.default_rng(0)
    kinds = {"numbers": None, "text": ["low", "mid", "high"], "codes": [3, 1, 2], "two": [0, 1, 1]}
    return {name: convert(table(rng, classes=c), folder / f"{name}.rows") for name, c in kinds.items()}


def arrays(store: Store) -> tuple[NDArray[Any], NDArray[Any]]:
    return store.x[:].numpy(), store.y


def settings(**more: Any) -> dict[str, Any]:
    return {"n_features": 64, "standardize": True, "random_state": 0, "max_epochs": 2, "lam": 0.1, **more}


CASES = [
    (joker.KernelRidge, "numbers"),
    (joker.KernelHuber, "numbers"),
    (joker.KernelSVC, "text"),
    (joker.KernelLogistic, "two"),
    (joker.KernelRidge, "codes"),
]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_store_is_as_good_as_its_rows_in_memory(kind: Any, name: str, stores: dict[str, Store]) -> None:
    """Blocks differ (runs of the file, or drawn), so that two epochs agree in quality and an exact fit in value."""
    store = stores[name]
    X, y = arrays(store)
    model, twin = kind(**settings()).fit(store), kind(**settings()).fit(X, y)
    assert_allclose(model.mean_, twin.mean_, rtol=1e-6)
    assert_allclose(model.bandwidth_, twin.bandwidth_, rtol=0.05)
    assert abs(model.score(store) - twin.score(X, y)) < 0.02
    assert model.score(store) == model.score(X, y) == model.score(store.x, y)
    assert np.array_equal(model.predict(store), model.predict(X))
    exact = kind(**settings(n_features=None, bandwidth=1.0, tol=1e-4, max_epochs=60)).fit(store.x.run(0, 800), y[:800])
    again = kind(**settings(n_features=None, bandwidth=1.0, tol=1e-4, max_epochs=60)).fit(X[:800], y[:800])
    assert_allclose(exact.score(X, y), again.score(X, y), atol=0.01)
    assert not isinstance(exact._machine.x, StoreRows)  # what is kept is in memory


def test_classes_and_probabilities_are_those_of_the_table(stores: dict[str, Store]) -> None:
    store = stores["text"]
    model = joker.KernelLogistic(**settings()).fit(store)
    assert model.classes_.tolist() == ["high", "low", "mid"]
    X = store.x[:].numpy()
    assert set(model.predict(store)) <= set(model.classes_)
    assert_allclose(model.predict_proba(store), model.predict_proba(X))
    assert_allclose(model.decision_function(store.x), model.decision_function(X))
    weighed = joker.KernelSVC(class_weight="balanced", **settings()).fit(store, sample_weight=np.ones(N))
    check_is_fitted(weighed)


def test_nothing_of_the_size_of_the_table_is_made(stores: dict[str, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a permutation of the rows nor a tile of all of them."""
    monkeypatch.setattr(Blocks, "permutation", property(lambda self: pytest.fail("a permutation was made")))
    monkeypatch.setattr("joker.runtime.devices.CHUNK_ENTRIES", 1000)
    monkeypatch.setattr("joker.runtime.devices.CPU_TILE", 50_000)
    longest = 0
    tile = StoreRows.tile

    def watched(self: StoreRows, rows: slice) -> torch.Tensor:
        nonlocal longest
        part = tile(self, rows)
        longest = max(longest, len(part))
        return part

    monkeypatch.setattr(StoreRows, "tile", watched)
    model = joker.KernelSVC(**settings(block_size=100, early_stopping=True)).fit(stores["two"])
    model.predict(stores["two"])
    assert 0 < longest < N // 2


def test_the_last_rows_are_held_out(stores: dict[str, Store]) -> None:
    store = stores["numbers"]
    X, y = arrays(store)
    held: list[Any] = []

    def scorer(model: Any, A: Any, b: Any) -> float:
        held.append((A, b))
        return float(model.score(A, b))

    path = joker.KernelRidge(**settings(lam=[0.01, 10.0], early_stopping=scorer, validation_fraction=0.2)).fit(store)
    rows, targets = held[0]
    assert_allclose(rows[:], X[-600:])
    assert_allclose(targets, y[-600:], rtol=1e-6)
    assert_allclose(path.mean_, X[:-600].mean(0), rtol=1e-5)
    given = joker.KernelRidge(**settings(lam=[0.01, 10.0])).fit(
        store.x.run(0, 2400), y[:2400], eval_set=(X[-600:], y[-600:])
    )
    assert_allclose(given.path_.models[1].predict(X), path.path_.models[1].predict(X), atol=1e-5)
    w = np.r_[np.ones(2400), np.arange(600) % 2]
    joker.KernelRidge(**settings(lam=[0.01, 10.0], early_stopping=scorer, validation_fraction=0.2)).fit(
        store, sample_weight=w
    )
    assert len(held[-1][1]) == 300  # rows without a weight are not scored on
    with pytest.raises(InvalidData, match="must not all have zero weight"):
        joker.KernelRidge(**settings(lam=[0.01, 10.0])).fit(store, sample_weight=np.r_[np.ones(2000), np.zeros(1000)])


@pytest.mark.parametrize("name", ["text", "numbers"])
def test_another_store_is_scored_on(name: str, stores: dict[str, Store], tmp_path: Path) -> None:
    kind: Any = joker.KernelSVC if name == "text" else joker.KernelRidge
    classes = ["low", "mid", "mid"] if name == "text" else None  # one class less than the training rows
    other = convert(table(np.random.default_rng(1), 500, classes), tmp_path / "other.rows")
    fits = [
        kind(**settings(lam=[0.1, 1.0])).fit(stores[name], eval_set=form)
        for form in (other, (other,), (other.x, other.y), arrays(other))
    ]
    for model in fits[1:]:
        assert_allclose(model.path_.scores, fits[0].path_.scores, rtol=1e-6)


def test_weights_count(stores: dict[str, Store]) -> None:
    store = stores["numbers"]
    X, y = arrays(store)
    w = np.arange(N) % 3
    ridge, few = joker.KernelRidge(**settings(n_features=None)), slice(0, 900)  # one block, solved to the last digit
    model = clone(ridge).fit(store.x.run(0, 900), y[few], sample_weight=w[few])
    twin = clone(ridge).fit(np.repeat(X[few], w[few], 0), np.repeat(y[few], w[few]))
    assert_allclose(model.mean_, twin.mean_, rtol=1e-6)
    assert_allclose(model.predict(X), twin.predict(X), atol=1e-3)


def test_a_warm_start_and_a_file_go_on(stores: dict[str, Store], tmp_path: Path) -> None:
    store = stores["two"]
    whole = joker.KernelSVC(**settings(max_epochs=3, tol=0.0)).fit(store)
    parts = joker.KernelSVC(**settings(max_epochs=2, tol=0.0, warm_start=True)).fit(store)
    parts.set_params(max_epochs=1).fit(store)
    assert np.array_equal(parts.coef_, whole.coef_)
    whole.save(tmp_path / "model.joker")
    again = joker.load(tmp_path / "model.joker")
    assert again.schema_ == store.schema
    assert np.array_equal(again.predict(store), whole.predict(store))
    assert np.array_equal(pickle.loads(pickle.dumps(whole)).predict(store), whole.predict(store))


def test_columns_that_differ_are_named(stores: dict[str, Store], tmp_path: Path) -> None:
    model = joker.KernelRidge(**settings()).fit(stores["numbers"])
    other = Table(np.ones((5, 4), np.float32))
    other.schema = Schema.numbers(["c0", "c1", "d2", "c3"])
    with pytest.raises(InvalidData, match=r"it lacks 'c2' and has the unknown 'd2'\. Convert"):
        model.predict(convert(other, tmp_path / "other.rows"))
    other.schema = Schema.numbers(["c1", "c0", "c2", "c3"])
    with pytest.raises(InvalidData, match="it has them in another order"):
        model.predict(convert(other, tmp_path / "other.rows"))
    narrow = convert(Table(np.ones((5, 3), np.float32)), tmp_path / "narrow.rows")
    with pytest.raises(ValueError, match="X has 3 features, but KernelRidge is expecting 4"):
        model.predict(narrow.x)
    model.fit(*arrays(stores["numbers"]))
    assert not hasattr(model, "schema_")


def test_targets_that_do_not_suit_are_refused(stores: dict[str, Store], tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"y must be classes for a classifier; .* has numbers"):
        joker.KernelSVC().fit(stores["numbers"])
    with pytest.raises(InvalidData, match=r"y must be numbers for a regressor; .* has classes of text"):
        joker.KernelRidge().fit(stores["text"])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        joker.KernelRidge().fit(stores["numbers"], np.ones(7))
    with pytest.raises(InvalidData, match="requires y to be passed, but the target y is None"):
        joker.KernelRidge().fit(stores["numbers"].x)
    with pytest.raises(InvalidData, match="requires y to be passed"):
        joker.KernelSVC().fit(np.ones((3, 2)))
    with pytest.raises(ValueError, match="must have targets"):
        joker.KernelRidge().fit(convert(Table(np.ones((5, 4), np.float32)), tmp_path / "bare.rows"))


def test_tune_reads_its_samples_from_a_store(stores: dict[str, Store]) -> None:
    store = stores["text"]
    quick = joker.KernelSVC(standardize=True, n_features=64, max_epochs=2)
    found = joker.tune(store, estimator=quick, bandwidths=["median"], lam=[0.1, 1], rows=200, random_state=0)
    assert found.estimator.score(store) > 0.8
    assert found.estimator.schema_ == store.schema
