"""A bandwidth for each input gives the model of the inputs divided by theirs, wherever the rows lie."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from program import refused, well, write_table
from sklearn.base import clone
from store_sources import Table

import joker
from joker import kernels
from joker.data import convert
from joker.errors import InvalidFile, InvalidParameter
from joker.models import files as model_files

Array = NDArray[np.float64]
WIDTHS = np.array([0.5, 4.0, 1.5])
KERNELS = ["gaussian", "laplacian", "matern32", "cauchy", "polynomial"]


@pytest.fixture(scope="module")
def data() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    return X, np.sin(3 * X[:, 0]) + 0.2 * X[:, 1]


def ridge(bandwidth: Any, **settings: Any) -> joker.KernelRidge:
    return joker.KernelRidge(bandwidth=bandwidth, random_state=0, **{"lam": 0.1, **settings})


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_features", [None, 60])
def test_equal_ones_are_one_for_all(data: tuple[Array, Array], kernel: str, n_features: int | None) -> None:
    X, y = data
    settings: dict[str, Any] = {"kernel": kernel, "n_features": n_features}
    one, each = ridge(2.0, **settings).fit(X, y), ridge([2.0, 2.0, 2.0], **settings).fit(X, y)
    assert one.bandwidth_ == 2.0
    assert each.bandwidth_.tolist() == [2.0, 2.0, 2.0]
    assert_allclose(each.predict(X), one.predict(X), atol=1e-7)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("settings", [{}, {"n_features": 60, "block_size": 64}])
def test_it_is_the_model_of_divided_rows(
    data: tuple[Array, Array], kernel: str, standardize: bool, settings: dict[str, Any]
) -> None:
    X, y = data[0] * [1, 10, 0.1] + 3, data[1]
    mean, deviation = (X.mean(0), X.std(0)) if standardize else (0.0, 1.0)
    model = ridge(WIDTHS, kernel=kernel, standardize=standardize, **settings).fit(X, y)
    twin = ridge(1.0, kernel=kernel, standardize=False, **settings).fit((X - mean) / deviation / WIDTHS, y)
    assert_allclose(model.predict(X[:50]), twin.predict(((X - mean) / deviation / WIDTHS)[:50]), atol=1e-4)
    if standardize:
        assert_allclose(model.scale_, deviation)  # the figures of the data, whatever the bandwidths are
    assert np.array_equal(model.bandwidth_, WIDTHS)


def test_a_kernel_of_its_own_bandwidth_takes_those_given(data: tuple[Array, Array]) -> None:
    X, y = data
    model, twin = ridge(WIDTHS, kernel=kernels.Gaussian(7.0)).fit(X, y), ridge(WIDTHS).fit(X, y)
    assert np.array_equal(model.predict(X), twin.predict(X))


@pytest.mark.parametrize("form", [list, tuple, torch.from_numpy, np.float32])
def test_any_array_will_do_and_is_not_touched(data: tuple[Array, Array], form: Any) -> None:
    given = form(WIDTHS)
    model = ridge(given).fit(*data)
    assert model.get_params()["bandwidth"] is given
    model.bandwidth_[0] = 9.0
    assert float(given[0]) == 0.5
    assert clone(model).bandwidth is not None


@pytest.mark.parametrize("settings", [{}, {"n_features": 40}, {"standardize": True}, {"lam": [0.1, 1.0]}])
def test_sparse_rows_give_the_same(data: tuple[Array, Array], settings: dict[str, Any]) -> None:
    X, y = data[0] * (np.abs(data[0]) > 0.7), data[1]
    model, twin = ridge(WIDTHS, **settings).fit(sp.csr_array(X), y), ridge(WIDTHS, **settings).fit(X, y)
    assert_allclose(model.predict(sp.csr_array(X)), twin.predict(X), atol=1e-6)


def test_sparse_rows_stay_sparse_in_the_machine_and_in_its_file(data: tuple[Array, Array], tmp_path: Path) -> None:
    X = sp.csr_array(data[0] * (np.abs(data[0]) > 0.7))
    ridge(WIDTHS).fit(X, data[1]).save(tmp_path / "model")
    assert model_files.read(tmp_path / "model")[0]["machines"]["sparse_inputs"] == 3


@pytest.mark.parametrize("settings", [{}, {"n_features": 40}, {"lam": [0.1, 1.0], "standardize": True}])
def test_pickles_and_files_predict_the_same(
    data: tuple[Array, Array], settings: dict[str, Any], tmp_path: Path
) -> None:
    X, y = data
    model = ridge(WIDTHS, **settings).fit(X, y)
    model.save(tmp_path / "model")
    for again in (joker.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.predict(X), model.predict(X))
        assert np.array_equal(again.bandwidth_, WIDTHS)
        assert np.array_equal(clone(again).fit(X, y).predict(X), model.predict(X))


def test_only_a_file_that_needs_it_has_the_new_version(data: tuple[Array, Array], tmp_path: Path) -> None:
    """A reader of version 1 would predict something else."""
    for bandwidth, version in ((1.0, 1), (WIDTHS, 2)):
        ridge(bandwidth, scale_target=False).fit(*data).save(tmp_path / "model")
        assert model_files.read(tmp_path / "model")[0]["version"] == version


@pytest.mark.parametrize("values", [[0.5, 4.0], [0.5, 4.0, -1.0]])
def test_bandwidths_in_a_file_belong_to_the_inputs(
    data: tuple[Array, Array], values: list[float], tmp_path: Path
) -> None:
    ridge(WIDTHS).fit(*data).save(tmp_path / "model")
    document, tensors = model_files.read(tmp_path / "model")
    document["fitted"]["bandwidth"]["array"]["values"] = values
    own = {name: value for name, value in document.items() if name not in ("format", "version", "sha256")}
    model_files.write(tmp_path / "model", own, tensors, version=2)
    with pytest.raises(InvalidFile, match="bandwidth of KernelRidge must be numbers, that are finite, greater than 0"):
        joker.load(tmp_path / "model")


def test_a_store_gives_the_model_of_its_rows(data: tuple[Array, Array], tmp_path: Path) -> None:
    X, y = (part.astype(np.float32) for part in data)
    store = convert(Table(X, y), tmp_path / "rows")
    for settings in ({}, {"standardize": True}):
        model = ridge(WIDTHS, **settings).fit(store)
        assert_allclose(model.predict(X), ridge(WIDTHS, **settings).fit(X, y).predict(X), atol=1e-3)


def test_a_warm_start_goes_on_only_with_the_same_bandwidths(data: tuple[Array, Array]) -> None:
    X, y = data[0].copy(), data[1]
    X[:200, 2] = 0  # an input that the first rows say nothing of
    settings = {"n_features": 40, "block_size": 64, "tol": 0.0}
    whole = ridge(WIDTHS, max_epochs=5, **settings).fit(X, y)
    model = ridge(WIDTHS, max_epochs=3, warm_start=True, **settings).fit(X, y).set_params(max_epochs=2).fit(X, y)
    assert np.array_equal(model.coef_, whole.coef_)
    for other in (WIDTHS * [1, 1, 2], 1.0):
        model.set_params(bandwidth=other, max_epochs=5).fit(X, y)
        assert np.array_equal(model.coef_, ridge(other, max_epochs=5, **settings).fit(X, y).coef_)
    assert model.bandwidth_ == 1.0


def test_a_plan_counts_the_division(data: tuple[Array, Array]) -> None:
    X, y = data
    each = ridge(WIDTHS, n_features=40, memory="200MB")
    assert each.plan(X, y).total == each.fit(X, y).plan_.total
    assert ridge(WIDTHS).plan(sp.csr_array(X), y).total == ridge(WIDTHS).fit(sp.csr_array(X), y).plan_.total


def test_a_notebook_shows_their_range(data: tuple[Array, Array]) -> None:
    assert "<td>0.5 to 4, one for each input</td>" in ridge(WIDTHS).fit(*data)._repr_html_()


@pytest.mark.parametrize(
    ("bandwidth", "message"),
    [
        ([1.0, 2.0], r"bandwidth must have shape \(3,\) .* got \(2,\)\. Use an array"),
        ([[1.0, 2.0, 3.0]], r"bandwidth must have shape \(3,\) .* got \(1, 3\)\. Use an array"),
        ([1.0, 0.0, 2.0], r"positive finite numbers, .* found 0 for input 1\. Use a large number"),
        ([1.0, 2.0, -3.0], r"positive finite numbers, .* found -3 for input 2\. Use a large number"),
        ([np.nan, 2.0, 3.0], r"positive finite numbers, .* found nan for input 0\. Use a large number"),
        ([1.0, np.inf, 3.0], r"positive finite numbers, .* found inf for input 1\. Use a large number"),
        ([1.0, 1e-40, 3.0], r"at least 1e-30, .* found 1e-40 for input 1\. Use a large number"),
        (["a", "b", "c"], r"a number, a rule or an array of numbers; got \['a', 'b', 'c'\]\. Use an array"),
        ([[1.0], [2.0, 3.0]], r"a number, a rule or an array of numbers; got .*\. Use an array"),
        (None, r"bandwidth must be a positive finite number; got None"),
    ],
)
def test_what_is_no_bandwidth_of_each_input_is_refused(data: tuple[Array, Array], bandwidth: Any, message: str) -> None:
    for action in (ridge(bandwidth).fit, ridge(bandwidth).plan)[: 1 if bandwidth is None else 2]:
        with pytest.raises(InvalidParameter, match=message):
            action(*data)


def test_a_kernel_without_a_bandwidth_takes_none(data: tuple[Array, Array]) -> None:
    with pytest.raises(InvalidParameter, match=r"left out for the kernel 'linear', which has none; .*\. Multiply"):
        ridge(WIDTHS, kernel="linear").fit(*data)


def test_the_program_takes_a_list_and_tells_it(tmp_path: Path) -> None:
    table, out = write_table(tmp_path / "train.csv"), tmp_path / "model.joker"
    reading = ("-t", "size", "--columns", "a,b,c", "--task", "regress", "-m", 30, "--max-epochs", 1, "--quiet")
    well("fit", table, *reading, "--bandwidth", "0.5,2^1,3", "--out", out)
    assert joker.load(out).bandwidth_.tolist() == [0.5, 2.0, 3.0]
    assert well("info", out, "--json").document["bandwidth"] == [0.5, 2.0, 3.0]
    assert "bandwidth     0.5, 2, 3" in well("info", out).out
    said = refused("fit", table, *reading, "--bandwidth", "0.5,2", "--out", out, status=2)
    assert "bandwidth must have shape (3,)" in said
