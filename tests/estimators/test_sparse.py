"""Sparse input: the same model as from the dense matrix, without the dense matrix."""

import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from peak_memory import peak_bytes

import joker
from joker.errors import BudgetTooSmall, InvalidData
from joker.estimators import resolve
from joker.losses import Hinge
from joker.solvers import ProblemSize, Settings
from joker.solvers.methods.random_blocks import RandomBlocks

Array = NDArray[np.float64]


def problem(n: int = 150, d: int = 20, fill: float = 0.15) -> tuple[Any, Array]:
    X = sp.random(n, d, fill, format="csr", random_state=1)
    noise = np.random.default_rng(0).normal(size=n)
    return X, np.asarray(X[:, :8].sum(axis=1)).ravel() + 0.1 * noise


CASES: list[dict[str, Any]] = [
    {"n_features": None},
    {"n_features": None, "block_size": 40},
    {"n_features": None, "kernel": "laplacian", "fit_intercept": False},
    {"n_features": 30, "block_size": 40, "bandwidth": "paper"},
    {"n_features": 30, "features": "orthogonal", "dtype": "float32"},
    {"kernel": "linear"},
    {"kernel": "polynomial", "n_features": 40},
    {"lam": [0.1, 1.0, 10.0], "validation_fraction": 0.3},
]


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_a_fit_on_sparse_rows_is_the_fit_on_dense_rows(settings: dict[str, Any]) -> None:
    X, y = problem()
    w = np.where(np.arange(len(y)) % 4 == 0, 0.0, 1.5)
    for kind, target in ((joker.KernelRidge, y), (joker.KernelLogistic, y > 0.5)):
        model, twin = (kind(random_state=0, **settings).fit(Z, target, w) for Z in (X, X.toarray()))
        assert model.bandwidth_ == twin.bandwidth_
        new = problem(50, 20)[0]
        expected = twin._decide(new.toarray())
        for fitted in (model, twin):
            for given in (new, new.toarray(), new.tocsc(), sp.coo_array(new)):
                np.testing.assert_allclose(fitted._decide(given), expected, rtol=1e-6, atol=1e-6)


def test_an_eval_set_may_be_sparse_or_dense() -> None:
    X, y = problem()
    given = [(X[100:], y[100:]), (X[100:].toarray(), y[100:])]
    scores = [joker.KernelRidge(lam=[0.1, 10.0]).fit(X[:100], y[:100], eval_set=pair).path_.scores for pair in given]
    np.testing.assert_allclose(*scores)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_tensors_are_taken_by_estimators_and_by_prepare() -> None:
    X, y = problem()
    dense = torch.from_numpy(X.toarray())
    expected = joker.KernelRidge().fit(X, y).predict(X)
    for tensor in (dense.to_sparse_csr(), dense.to_sparse()):
        np.testing.assert_allclose(joker.KernelRidge().fit(tensor, y).predict(tensor), expected)
        machine, _ = joker.prepare(tensor, torch.from_numpy(y), bandwidth=1.0).run()
        twin, _ = joker.prepare(dense, torch.from_numpy(y), bandwidth=1.0).run()
        torch.testing.assert_close(machine.predict(tensor), twin.predict(dense))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_entries_in_any_order_and_several_times(index: Any) -> None:
    X, y = problem()
    half = X.copy()
    half.data /= 2
    double = sp.vstack([half, half]).tocoo()
    twice = sp.coo_array((double.data, (double.coords[0] % len(y), double.coords[1])), shape=X.shape)
    order = np.random.default_rng(0).permutation(twice.nnz)
    rows, columns, values = (part[order] for part in (*twice.coords, twice.data))
    by_row = np.argsort(rows, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(y)))]).astype(index)
    messy = sp.csr_array((values[by_row], columns[by_row].astype(index), starts), shape=X.shape)
    before = [part.copy() for part in (messy.data, messy.indices)]
    model = joker.KernelRidge().fit(messy, y)
    np.testing.assert_allclose(model.predict(messy), joker.KernelRidge().fit(X, y).predict(X))
    assert all(np.array_equal(a, b) for a, b in zip(before, (messy.data, messy.indices), strict=True))


def test_what_becomes_of_the_matrix_does_not_change_the_model() -> None:
    X, y = problem()
    model = joker.KernelRidge(dtype="float64").fit(X, y)
    new = X.copy()
    before = model.predict(new)
    X.data[:] = 0
    X.indices[:] = 0
    np.testing.assert_array_equal(model.predict(new), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(new), before)


def wide(n: int, d: int, fill: float) -> tuple[Any, Array]:
    X = sp.random(n, d, fill, format="csr", random_state=0, dtype=np.float32)
    return X, np.asarray(X.sum(axis=1)).ravel()


WIDE = [
    ((8_000, 5_000, 0.001), {"n_features": 20}),  # 160 MB if it were dense
    ((4_000, 5_000, 0.001), {"kernel": "linear", "block_size": 200}),  # 80 MB
    ((700, 12_000, 0.001), {"n_features": None, "block_size": 40, "dtype": "float32", "bandwidth": 1}),  # 34 MB
]


def smallest_budget(work: Callable[[], object]) -> int:
    with pytest.raises(BudgetTooSmall) as caught:
        work()
    return int(str(caught.value).split("memory=")[1].split()[0])


@pytest.mark.parametrize(("size", "settings"), WIDE, ids=["features", "linear", "exact"])
def test_a_wide_matrix_is_never_dense(size: tuple[int, int, float], settings: dict[str, Any]) -> None:
    X, y = wide(*size)
    model = joker.KernelRidge(max_epochs=1, memory=1, random_state=0, **settings)
    dense = 4 * size[0] * size[1]
    model.memory = smallest_budget(lambda: model.plan(X, y))
    assert peak_bytes(lambda: model.fit(X, y)) < dense / 3
    model.memory = 1
    model.memory = smallest_budget(lambda: model.predict(X))
    assert peak_bytes(lambda: model.predict(X)) < dense / 3


def test_numpy_never_makes_it_dense_either() -> None:
    X, y = wide(600, 5_000, 0.001)
    model = joker.KernelSVC(lam=[0.1, 1.0], kernel="linear", max_epochs=1)
    tracemalloc.start()
    try:
        model.fit(X, y > y.mean()).predict(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3e6  # 24 MB in the type of one block


def test_a_block_that_is_made_dense_takes_half_the_memory_at_most() -> None:
    def block_rows(rows: int, row_bytes: int, given: int | None = None) -> int:
        most = resolve.block_room(16 * 10**6, row_bytes)
        size = ProblemSize(loss=Hinge(), rows=rows, n_features=10, block_size=given, most_block_rows=most)
        return RandomBlocks.block_rows(size)

    assert block_rows(1_000, 8 * 1_000) == 1_000
    assert block_rows(1_000, 8 * 10_000) == 100
    assert block_rows(10**6, 8 * 10_000) == 100
    assert block_rows(10**6, 8 * 10**9) == 1
    assert block_rows(10**6, 8 * 10_000, given=300) == 300


@pytest.mark.parametrize("n_features", [None, 30])
def test_a_budget_too_small_names_the_smallest_that_does(n_features: int | None) -> None:
    X, y = problem(40)
    rows = joker.data.sparse_rows(*(torch.from_numpy(part) for part in (X.indptr, X.indices, X.data)), 20)

    def prepare(memory: int) -> Any:
        settings = Settings(block_size=20, max_epochs=1)
        return joker.prepare(
            rows, torch.from_numpy(y), n_features=n_features, bandwidth=1.0, memory=memory, settings=settings
        )

    with pytest.raises(BudgetTooSmall, match="memory must hold the 20 rows of a block") as caught:
        prepare(1000)
    smallest = int(str(caught.value).split("memory=")[1].split()[0])
    machine, _ = prepare(smallest).run()
    assert machine.predict(rows, smallest).shape == (40, 1)
    with pytest.raises(BudgetTooSmall, match=f"memory={smallest} "):
        prepare(smallest - 1)


def test_values_that_are_not_finite_are_refused() -> None:
    X, y = problem()
    model = joker.KernelRidge().fit(X, y)
    X.data[7] = np.nan
    for call in (lambda: joker.KernelRidge().fit(X, y), lambda: model.predict(X)):
        with pytest.raises(ValueError, match="NaN"):
            call()
    with pytest.raises(InvalidData, match="X must be finite; found nan at row"):
        joker.prepare(torch.from_numpy(X.toarray()).to_sparse(), torch.from_numpy(y))


def test_a_model_of_sparse_rows_is_saved_sparse(tmp_path: Path) -> None:
    X, y = wide(60, 4_000, 0.001)
    model = joker.KernelRidge(lam=[0.1, 1.0], bandwidth=1.0).fit(X, y)
    file = tmp_path / "model.joker"
    model.save(file)
    assert file.stat().st_size < 8 * 60 * 4_000 / 20
    again = joker.load(file)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict(X.toarray()), model.predict(X))


def test_a_fit_stops_early_and_goes_on() -> None:
    """SciPy remembers what it found out about a matrix; that does not make it another one."""
    X, y = problem()
    straight = joker.KernelRidge(block_size=40, max_epochs=4, tol=0, random_state=0).fit(X.toarray(), y)
    parts = joker.KernelRidge(block_size=40, max_epochs=2, tol=0, random_state=0, warm_start=True).fit(X, y)
    assert X.has_canonical_format
    np.testing.assert_array_equal(parts.fit(X, y).predict(X), straight.predict(X))
    models = [joker.KernelSVC(early_stopping="accuracy", random_state=0).fit(Z, y > 0.5) for Z in (X, X.toarray())]
    np.testing.assert_array_equal(*(model.predict(X) for model in models))
