"""Probabilities of several classes: they sum to 1, and are as confident as the predictions are right."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

import joker
from joker.estimators import probabilities
from joker.models import files as model_files

Array = NDArray[Any]
X, Y = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 900), slice(900, None)


def calibration_error(p: Array, classes: Array, y: Array) -> float:
    """The mean difference of confidence and accuracy over ten bins."""
    confidence, right = p.max(axis=1), classes[p.argmax(axis=1)] == y
    bins = np.minimum((10 * confidence).astype(int), 9)
    parts = [bins == k for k in range(10) if (bins == k).any()]
    return float(sum(abs(confidence[b].mean() - right[b].mean()) * b.mean() for b in parts))


@pytest.mark.parametrize("settings", [{}, {"n_features": 500}, {"lam": 0.01}, {"lam": [0.1, 1.0, 10.0]}])
def test_probabilities_of_ten_classes_are_calibrated(settings: dict[str, Any]) -> None:
    model = joker.KernelLogistic(random_state=0, **settings).fit(X[TRAIN], Y[TRAIN])
    p = model.predict_proba(X[TEST])
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X[TEST]))
    assert calibration_error(p, model.classes_, Y[TEST]) < 0.06
    old = probabilities.normalised_sigmoids(model.decision_function(X[TEST]))
    assert log_loss(Y[TEST], p) < log_loss(Y[TEST], old)


def test_the_normalised_sigmoids_were_not_calibrated() -> None:
    """The remedy is needed: at the default λ they are far too small."""
    model = joker.KernelLogistic().fit(X[TRAIN], Y[TRAIN])
    old = probabilities.normalised_sigmoids(model.decision_function(X[TEST]))
    assert calibration_error(old, model.classes_, Y[TEST]) > 0.3


@pytest.mark.parametrize(
    "settings", [{"lam": 0.1}, {"lam": 1.0}, {"kernel": "linear"}, {"lam": 100.0, "bandwidth": 9.0}]
)
def test_noise_is_not_made_confident(settings: dict[str, Any]) -> None:
    """A training row must not vouch for its own class: then the slope would be large."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 5)), rng.integers(0, 4, 600)
    model = joker.KernelLogistic(**settings).fit(x[:400], y[:400])
    assert model._slope == 1
    assert_allclose(model.predict_proba(x), probabilities.softmax(model.decision_function(x), 1.0), rtol=1e-6)


def test_a_weight_of_two_is_the_row_twice_and_of_zero_none() -> None:
    w = np.ones(300)
    w[::3], w[1::3] = 2, 0
    weighted = joker.KernelLogistic(bandwidth=20.0, tol=1e-8).fit(X[:300], Y[:300], sample_weight=w)
    rows = np.repeat(np.arange(300), w.astype(int))
    repeated = joker.KernelLogistic(bandwidth=20.0, tol=1e-8).fit(X[rows], Y[rows])
    assert_allclose(weighted.decision_function(X[TEST]), repeated.decision_function(X[TEST]), atol=1e-3)
    assert_allclose(weighted.predict_proba(X[TEST]), repeated.predict_proba(X[TEST]), atol=1e-3)


def test_each_model_of_a_path_has_its_slope() -> None:
    path = joker.KernelLogistic(lam=[0.1, 1.0, 10.0], random_state=0)
    model = path.fit(X[TRAIN], Y[TRAIN])
    slopes = [one._slope for one in model.path_.models]
    assert slopes == sorted(slopes)  # a larger λ shrinks more
    assert model._slope == model.path_.models[model.path_.best]._slope


def test_two_classes_are_those_of_the_sigmoid() -> None:
    y = Y > 4
    model = joker.KernelLogistic().fit(X[TRAIN], y[TRAIN])
    f = model.decision_function(X[TEST])
    assert_allclose(model.predict_proba(X[TEST])[:, 1], 1 / (1 + np.exp(-f)), rtol=1e-6)


def test_a_file_keeps_the_slope(tmp_path: Path) -> None:
    model = joker.KernelLogistic().fit(X[TRAIN], Y[TRAIN])
    model.save(tmp_path / "m.joker")
    assert_array_equal(joker.load(tmp_path / "m.joker").predict_proba(X[TEST]), model.predict_proba(X[TEST]))
    assert model_files.read(tmp_path / "m.joker")[0]["version"] == 3


def test_the_slope_has_the_smallest_loss() -> None:
    rng = np.random.default_rng(0)
    f = rng.normal(size=(500, 3))
    codes = np.array([rng.choice(3, p=probabilities.softmax(2.5 * one[None], 1.0)[0]) for one in f])
    slope = probabilities.fit_calibration(f, codes, np.ones(500), offsets=False).slope
    assert slope == pytest.approx(2.5, rel=0.2)
    losses = [log_loss(codes, probabilities.softmax(f, factor * slope)) for factor in (0.98, 1.0, 1.02)]
    assert min(losses) == losses[1]
