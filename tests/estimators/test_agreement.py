"""The same problem, written for scikit-learn and for joker, has the same solution.

Each test states how λ becomes scikit-learn's parameter. libsvm, liblinear and the linear models of
scikit-learn stop at tolerances of their own, hence 1e-3; where there is a closed form it is 1e-6.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn import kernel_ridge
from sklearn.linear_model import HuberRegressor, LogisticRegression, QuantileRegressor
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

import joker

Array = NDArray[np.float64]
SIGMA = 1.5
GAMMA = 1 / (2 * SIGMA**2)  # exp(−γ‖r‖²) is exp(−‖r‖²/2σ²)
LAM = 0.2
TIGHT = {"tol": 1e-12, "lam": LAM}
IN_UNITS_OF_Y = {"scale_target": False}  # λ, δ and ε as scikit-learn has them
LINEAR = {"kernel": "linear", "fit_intercept": False, **TIGHT}


@pytest.fixture
def regression(rng: np.random.Generator) -> tuple[Array, Array]:
    X = rng.normal(size=(200, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=200)


@pytest.fixture
def classes(rng: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
    X = rng.normal(size=(200, 3))
    return X, (X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.5 * rng.normal(size=200) > 0.3).astype(int)


@pytest.mark.parametrize("block_size", ["auto", 64])
def test_kernel_ridge(regression: tuple[Array, Array], rng: np.random.Generator, block_size: int | str) -> None:
    """λ is alpha; in one block and in several; weighted; two outputs."""
    X, y = regression
    y2, w, new = np.stack([y, X[:, 2] ** 2], axis=1), rng.uniform(0.5, 2, len(X)), rng.normal(size=(50, 3))
    theirs = kernel_ridge.KernelRidge(alpha=2.0, kernel="rbf", gamma=GAMMA).fit(X, y2, sample_weight=w)
    settings = {"block_size": block_size, "max_epochs": 1000, "dtype": "float64", "tol": 1e-12}
    ours = joker.KernelRidge(lam=2.0, bandwidth=SIGMA, fit_intercept=False, **settings).fit(X, y2, sample_weight=w)
    assert_allclose(ours.predict(new), theirs.predict(new), rtol=1e-6, atol=1e-6)
    assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-5, atol=1e-5)


def test_svr(regression: tuple[Array, Array]) -> None:
    """λ is 1/C. SVR's intercept is not penalised: taken as known, what remains is our problem without one."""
    X, y = regression
    theirs = SVR(C=1 / LAM, gamma=GAMMA, epsilon=0.2, tol=1e-6).fit(X, y)
    ours = joker.KernelSVR(bandwidth=SIGMA, epsilon=0.2, fit_intercept=False, **TIGHT, **IN_UNITS_OF_Y).fit(
        X, y - theirs.intercept_
    )
    assert_allclose(ours.predict(X) + theirs.intercept_, theirs.predict(X), atol=1e-3)
    assert_allclose(ours.dual_coef_[theirs.support_], theirs.dual_coef_[0], atol=1e-2)


def test_svc(classes: tuple[Array, NDArray[np.int64]]) -> None:
    """λ is 1/C. Each row comes with its mirror image in the other class, so that SVC's free intercept is 0."""
    X, y = classes
    X, y = np.vstack([X, -X]), np.concatenate([y, 1 - y])
    theirs = SVC(C=1 / LAM, gamma=GAMMA, tol=1e-6).fit(X, y)
    ours = joker.KernelSVC(loss="hinge", bandwidth=SIGMA, fit_intercept=False, **TIGHT).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)


def test_linear_svr(regression: tuple[Array, Array]) -> None:
    """λ is 1/C."""
    X, y = regression
    theirs = LinearSVR(C=1 / LAM, epsilon=0.2, fit_intercept=False, tol=1e-8, max_iter=10**6).fit(X, y)
    ours = joker.KernelSVR(epsilon=0.2, **LINEAR, **IN_UNITS_OF_Y).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("loss", "C"), [("hinge", 1 / LAM), ("squared_hinge", 1 / (2 * LAM))])
def test_linear_svc(classes: tuple[Array, NDArray[np.int64]], loss: str, C: float, fit_intercept: bool) -> None:
    """λ is 1/C for the hinge and 1/(2C) for its square, which we halve; both penalise the intercept."""
    X, y = classes
    theirs = LinearSVC(loss=loss, C=C, fit_intercept=fit_intercept, tol=1e-8, max_iter=10**6, random_state=0).fit(X, y)
    ours = joker.KernelSVC(loss=loss, **LINEAR | {"fit_intercept": fit_intercept}).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-3)


def test_logistic_regression(classes: tuple[Array, NDArray[np.int64]]) -> None:
    """λ is 1/C."""
    X, y = classes
    theirs = LogisticRegression(C=1 / LAM, fit_intercept=False, tol=1e-8).fit(X, y)
    ours = joker.KernelLogistic(**LINEAR).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


def test_one_against_the_rest(classes: tuple[Array, NDArray[np.int64]]) -> None:
    """Three classes: the columns are those of OneVsRestClassifier; the probabilities are their softmax."""
    X, y = classes
    y = y + (X[:, 2] > 0.5)
    theirs = OneVsRestClassifier(LogisticRegression(C=1 / LAM, fit_intercept=False, tol=1e-8)).fit(X, y)
    ours = joker.KernelLogistic(multi_class="ovr", **LINEAR).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    assert_allclose(ours.predict_proba(X), softmax(theirs.decision_function(X), axis=1), atol=1e-3)
    assert np.array_equal(ours.predict(X), theirs.predict(X))


def test_huber_regressor(regression: tuple[Array, Array]) -> None:
    """With its scale s: δ = ε s and λ = alpha s."""
    X, y = regression
    y[::7] += 10
    theirs = HuberRegressor(epsilon=1.35, alpha=0.1, fit_intercept=False, tol=1e-8, max_iter=10**4).fit(X, y)
    s = theirs.scale_
    ours = joker.KernelHuber(**LINEAR | {"delta": 1.35 * s, "lam": 0.1 * s} | IN_UNITS_OF_Y).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("tau", [0.2, 0.5])
def test_quantile_regressor(regression: tuple[Array, Array], tau: float) -> None:
    """It penalises ‖θ‖₁ and we ‖θ‖₂²: the problems coincide where neither counts."""
    X, y = regression
    theirs = QuantileRegressor(quantile=tau, alpha=0, fit_intercept=False).fit(X, y)
    ours = joker.KernelQuantile(**LINEAR | {"quantile": tau, "lam": 1e-4}).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


def test_a_penalty_below_the_rounding_of_float32() -> None:
    """Conjugate gradients in float32 would stall far from the solution; in float64 they agree with a factorisation."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (1_500, 2))
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=1_500)
    settings = {"lam": 1e-5, "bandwidth": 0.7, "fit_intercept": False, "standardize": False, "scale_target": False}
    model = joker.KernelRidge(**settings, n_features=None, block_size=500, tol=1e-4).fit(X, y)
    other = kernel_ridge.KernelRidge(alpha=1e-5, kernel="rbf", gamma=1 / (2 * 0.7**2)).fit(X, y - y.mean())
    assert model.gap_ < 1e-4
    assert np.abs(model.predict(X) - y.mean() - other.predict(X)).max() < 0.05
