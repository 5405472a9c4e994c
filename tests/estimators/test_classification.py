"""What a classifier promises beyond scikit-learn's checks: classes, weights, probabilities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.utils.class_weight import compute_sample_weight

import joker
from joker.losses import Logistic, Scaled

Array = NDArray[np.float64]
TIGHT = {"tol": 1e-12, "bandwidth": 1.0, "lam": 0.1}
NAMES = np.array(["cat", "ant", "bee"])


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[Array, NDArray[np.str_]]:
    X = rng.normal(size=(150, 2))
    return X, NAMES[(X[:, 0] > 0).astype(int) + (X[:, 1] + 0.3 * rng.normal(size=150) > 0.5)]


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
def test_each_class_is_fitted_against_the_rest_as_if_alone(data: tuple[Array, NDArray[np.str_]], loss: str) -> None:
    X, y = data
    model = joker.KernelClassifier(loss=loss, **TIGHT).fit(X, y)
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    assert model.decision_function(X).shape == (150, 3)
    assert model.intercept_.shape == (3,)
    for k, name in enumerate(model.classes_):
        alone = joker.KernelClassifier(loss=loss, **TIGHT).fit(X, y == name)
        assert_allclose(model.decision_function(X)[:, k], alone.decision_function(X), atol=1e-4)
    assert model.score(X, y) > 0.8


def test_two_classes_are_one_column(data: tuple[Array, NDArray[np.str_]]) -> None:
    """Positive for the class that comes last in ``classes_``, whatever comes first in y."""
    X, y = data
    y = np.where(y == "ant", "no", "yes")
    model = joker.KernelSVC(**TIGHT).fit(X, y)
    assert model.decision_function(X).shape == (150,)
    assert model.dual_coef_.shape == (150, 1)
    assert np.array_equal(model.predict(X) == "yes", model.decision_function(X) > 0)
    assert model.score(X, y) > 0.8


def test_a_class_without_weight_is_kept(data: tuple[Array, NDArray[np.str_]]) -> None:
    """So that the columns of cross-validation folds line up; it is never predicted among rows it lacks."""
    X, y = data
    model = joker.KernelLogistic(**TIGHT).fit(X, y, sample_weight=(y != "bee").astype(float))
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    assert model.predict_proba(X).shape == (150, 3)
    assert "bee" not in model.predict(X)


def test_class_weight_is_a_sample_weight(data: tuple[Array, NDArray[np.str_]], rng: np.random.Generator) -> None:
    X, y = data
    own = rng.uniform(0.5, 2, len(y))
    by_hand = joker.KernelSVC(**TIGHT).fit(X, y, sample_weight=own * np.where(y == "bee", 3, 1))
    by_class = joker.KernelSVC(class_weight={"bee": 3}, **TIGHT).fit(X, y, sample_weight=own)
    assert_allclose(by_class.decision_function(X), by_hand.decision_function(X), atol=1e-5)
    balanced = joker.KernelSVC(class_weight="balanced", **TIGHT).fit(X, y)
    by_hand = joker.KernelSVC(**TIGHT).fit(X, y, sample_weight=compute_sample_weight("balanced", y))
    assert_allclose(balanced.decision_function(X), by_hand.decision_function(X), atol=1e-5)


def test_balanced_classes_count_the_weights_not_the_rows(data: tuple[Array, NDArray[np.str_]]) -> None:
    """A row of weight 2 is the row twice, also where classes are balanced."""
    X, y = data
    w = np.where(np.arange(150) % 3 == 0, 2, 1)
    weighted = joker.KernelSVC(class_weight="balanced", **TIGHT).fit(X, y, sample_weight=w)
    repeated = joker.KernelSVC(class_weight="balanced", **TIGHT).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)


def test_probabilities_are_there_for_the_logistic_loss_only(data: tuple[Array, NDArray[np.str_]]) -> None:
    X, y = data
    for loss in ("logistic", Logistic(), Scaled(Logistic(), 2.0)):
        p = joker.KernelClassifier(loss=loss, lam=0.1).fit(X, y).predict_proba(X)
        assert_allclose(p.sum(axis=1), 1)
    assert not hasattr(joker.KernelClassifier(loss="hinge"), "predict_proba")
    assert not hasattr(joker.KernelSVC(), "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        joker.KernelSVC().fit(X, y).predict_proba(X)


def test_probabilities_are_calibrated(rng: np.random.Generator) -> None:
    """Where 1 in 5 is positive at random, the model says 1 in 5."""
    X = rng.normal(size=(1000, 1))
    y = rng.uniform(size=1000) < 0.2
    p = joker.KernelLogistic(lam=10.0).fit(X, y).predict_proba(X)[:, 1]
    assert_allclose(p, y.mean(), atol=0.05)


def test_far_from_all_classes_probabilities_still_sum_to_one(data: tuple[Array, NDArray[np.str_]]) -> None:
    """Every sigmoid may round to 0; no class is then more likely than another."""
    X, y = data
    model = joker.KernelLogistic(kernel="linear", lam=1e-3).fit(X, y)
    assert_allclose(model.predict_proba(1e6 * X).sum(axis=1), 1)


def test_the_others_can_be_calibrated(data: tuple[Array, NDArray[np.str_]]) -> None:
    X, y = data
    model = CalibratedClassifierCV(joker.KernelSVC(lam=0.1), cv=3).fit(X, y)
    assert model.score(X, y) > 0.8
