"""Smaller copies of fitted models: how much their predictions differ, and what they say of it."""

import numpy as np
import pytest

import joker
from joker.errors import InvalidParameter


@pytest.fixture
def table(rng):
    X = rng.normal(size=(900, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


def test_the_error_is_that_of_new_rows_and_falls_with_more_rows(table, rng):
    X, y = table
    model = joker.KernelRidge(lam=0.1, random_state=0).fit(X, y)
    new = rng.normal(size=(500, 3))
    errors = []
    for rows in (20, 80, 320):
        small = model.compress(rows)
        assert small.dual_coef_.shape == (rows,)
        f, found = model.predict(new), small.predict(new)
        error = np.sqrt(np.mean((f - found) ** 2)) / f.std()
        assert 0.3 * error < small.compression_error_ < 3 * error
        errors.append(error)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05
    assert model.dual_coef_.shape == (900,)


def test_rows_without_weight_are_left_out_and_predictions_stay(table):
    X, y = table
    model = joker.KernelSVR(lam=0.1, epsilon=0.3, random_state=0).fit(X, y)
    small = model.compress()
    assert len(small.dual_coef_) == np.count_nonzero(model.dual_coef_) < len(X)
    np.testing.assert_allclose(small.predict(X), model.predict(X), rtol=0, atol=1e-9)
    assert (small.compression_error_, small.gap_, small.intercept_) == (0, model.gap_, pytest.approx(model.intercept_))


def test_classes_and_several_outputs(table):
    X, y = table
    classes = np.digitize(y, [-0.5, 0.5])
    model = joker.KernelSVC(random_state=0).fit(X, classes)
    small = model.compress(300)
    assert np.mean(small.predict(X) == model.predict(X)) > 0.95
    both = joker.KernelRidge(random_state=0).fit(X, np.column_stack([y, -y]))
    np.testing.assert_allclose(*both.compress(100).predict(X).T * [[1], [-1]], rtol=0, atol=1e-6)


def test_a_compressed_model_says_so_in_files_too(table, tmp_path):
    X, y = table
    small = joker.KernelRidge(random_state=0).fit(X, y).compress(50)
    small.save(tmp_path / "small.joker")
    loaded = joker.load(tmp_path / "small.joker")
    assert np.array_equal(loaded.predict(X), small.predict(X))
    assert loaded.gap_ == np.inf
    assert "Compressed from 900 rows to 50" in loaded.stop_reason_
    assert "unknown share" in loaded.conclusion_


def test_of_a_path_the_chosen_model(table):
    X, y = table
    model = joker.KernelRidge(lam=[1.0, 0.1], random_state=0).fit(X, y)
    small = model.compress(700)
    assert not hasattr(small, "path_")
    assert np.sqrt(np.mean((small.predict(X) - model.predict(X)) ** 2)) < 0.1


@pytest.mark.parametrize("rows", [0, -3, 2.5, True, "many"])
def test_bad_numbers_of_rows(table, rows):
    model = joker.KernelRidge(random_state=0).fit(*table)
    with pytest.raises(InvalidParameter, match="n_rows must be a positive whole number"):
        model.compress(rows)


def test_features_and_kernel_matrices_have_no_rows(table):
    X, y = table
    with pytest.raises(InvalidParameter, match="smaller n_features"):
        joker.KernelRidge(n_features=20, random_state=0).fit(X, y).compress(10)
    with pytest.raises(InvalidParameter, match="precomputed kernel"):
        joker.KernelRidge(kernel="precomputed").fit(X @ X.T, y).compress(10)
