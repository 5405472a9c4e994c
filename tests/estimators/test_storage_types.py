"""Arrays keep the type they are stored in, and a machine of features takes no copy of them."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from peak_memory import peak_bytes

import joker
from joker.data.arrays import INPUT_DTYPES

SMALL = [kind for kind in INPUT_DTYPES if kind not in (np.float64, np.float32)]


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    X = rng.integers(0, 200, (400, 5)).astype(np.float64)
    return X, np.sin(X[:, 0] / 30) + X[:, 1] / 100


def fitted(X: Any, y: Any, **settings: Any) -> Any:
    return joker.KernelRidge(lam=0.1, random_state=0, **settings).fit(X, y)


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("settings", [{}, {"n_features": 40, "block_size": 100}, {"early_stopping": True}])
def test_a_type_changes_nothing_but_its_storage(
    data: tuple[NDArray[Any], NDArray[Any]], kind: Any, settings: dict[str, Any]
) -> None:
    X, y = data
    narrow, wide = fitted(X.astype(kind), y, **settings), fitted(X, y, **settings)
    assert np.array_equal(narrow.predict(X.astype(kind)), wide.predict(X))
    assert np.array_equal(pickle.loads(pickle.dumps(narrow)).predict(X), wide.predict(X))
    scaled = fitted(X.astype(kind), y, standardize=True, **settings)
    assert_allclose(scaled.predict(X), fitted(X, y, standardize=True, **settings).predict(X), atol=1e-4)


def test_no_copy_is_made_for_a_machine_of_features(rng: np.random.Generator) -> None:
    X = rng.integers(0, 256, (100_000, 100), dtype=np.uint8)  # 10 MB, 40 MB in float32
    y = X[:, 0] > 128
    settings: dict[str, Any] = {"n_features": 16, "max_epochs": 0.05, "averaging": False, "memory": "60MB"}
    model = joker.KernelSVC(standardize=True, random_state=0, **settings)
    assert peak_bytes(lambda: model.fit(X, y)) < 20e6
    assert peak_bytes(lambda: model.predict(X)) < 12e6


@pytest.mark.parametrize("kind", [np.uint8, np.float64])
@pytest.mark.parametrize("m", [None, 30])
def test_what_becomes_of_the_array_does_not_change_the_machine(
    data: tuple[NDArray[Any], NDArray[Any]], kind: Any, m: int | None
) -> None:
    X, y = data
    mine, targets = X.astype(kind), y.astype(np.float32)
    model = fitted(mine, targets, n_features=m, dtype="float32", fit_intercept=False)
    before = model.predict(X)
    mine[:], targets[:] = 0, 0
    assert np.array_equal(model.predict(X), before)


def test_arrays_that_torch_cannot_view_are_taken(data: tuple[NDArray[Any], NDArray[Any]]) -> None:
    X, y = data
    expected = fitted(X, y, n_features=30).predict(X)
    fixed = X.copy()
    fixed.flags.writeable = False
    records = np.zeros(len(X), dtype=[("pad", "u1"), ("x", "f8", 5)])
    records["x"] = X
    for form in (fixed, np.asfortranarray(X), X[::-1][::-1], records["x"], X.astype(">f8")):
        assert_allclose(fitted(form, y, n_features=30).predict(form), expected, rtol=1e-9)


def test_values_that_overflow_single_precision_are_refused(data: tuple[NDArray[Any], NDArray[Any]]) -> None:
    X, y = data
    X[7, 2] = 1e200
    with pytest.raises(ValueError, match="found inf at row 7, column 2"):
        fitted(X, y, dtype="float32", n_features=30, bandwidth=50.0, standardize=False)
