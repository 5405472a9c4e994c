"""ν in place of λ and ε: the solutions of NuSVC and NuSVR, the certificate for exactly this ν, and what is refused."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.svm import NuSVC, NuSVR

import joker
from joker.errors import InvalidData, InvalidParameter

SIGMA = 1.0
GAMMA = 1 / (2 * SIGMA**2)
TIGHT = {"tol": 1e-6, "bandwidth": SIGMA, "standardize": False, "fit_intercept": False}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=120)
SIGNS = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.5 * RNG.normal(size=120) > 0.3
NEW = RNG.normal(size=(40, 3))


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5, 0.8])
def test_nu_svc(nu: float) -> None:
    """Rows with their mirror images in the other class have the intercept 0, which NuSVC does not penalise."""
    rows, signs = np.vstack([X, -X]), np.concatenate([Y > 0, Y <= 0])
    theirs = NuSVC(nu=nu, gamma=GAMMA, tol=1e-7).fit(rows, signs)
    ours = joker.KernelSVC(loss="hinge", nu=nu, **TIGHT).fit(rows, signs)
    scale = np.abs(theirs.decision_function(NEW)).max()
    assert ours.gap_ <= TIGHT["tol"]
    assert_allclose(ours.decision_function(NEW), theirs.decision_function(NEW), atol=1e-3 * scale)
    assert_allclose(ours.lam_ * np.abs(ours.dual_coef_).sum(), nu * len(rows), rtol=2e-6)


@pytest.mark.parametrize("nu", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("C", [0.1, 5.0])
def test_nu_svr(nu: float, C: float) -> None:
    """C is 1/λ. The intercept of NuSVR is taken as known: what remains is our problem without one."""
    theirs = NuSVR(nu=nu, C=C, gamma=GAMMA, tol=1e-7).fit(X, Y)
    b = theirs.intercept_
    ours = joker.KernelSVR(nu=nu, lam=1 / C, scale_target=False, **TIGHT).fit(X, Y - b)
    assert ours.gap_ <= TIGHT["tol"]
    assert_allclose(ours.predict(NEW) + b, theirs.predict(NEW), atol=1e-3)
    assert np.abs(ours.dual_coef_).sum() <= nu * C * len(X) * (1 + 2e-6)


@pytest.mark.parametrize("nu", [0.1, 0.4])
@pytest.mark.parametrize("m", [None, 60])
def test_a_fit_with_the_lambda_that_was_found_is_the_same_model(nu: float, m: int | None) -> None:
    settings = {"loss": "hinge", "tol": 1e-5, "n_features": m, "max_epochs": 500, "random_state": 0}
    found = joker.KernelSVC(nu=nu, **settings).fit(X, SIGNS)
    same = joker.KernelSVC(lam=found.lam_, **settings).fit(X, SIGNS)
    assert_allclose(found.decision_function(NEW), same.decision_function(NEW), atol=0.02)
    errors = np.where(SIGNS, 1, -1) * found.decision_function(X) < 1 - 0.02
    assert errors.mean() <= nu


def test_a_fit_with_the_tube_that_was_found_is_the_same_model() -> None:
    settings = {"lam": 0.1, "tol": 1e-6}
    found = joker.KernelSVR(nu=0.3, **settings).fit(X, 100 * Y + 7)
    same = joker.KernelSVR(epsilon=found.epsilon_, **settings).fit(X, 100 * Y + 7)
    assert_allclose(found.predict(NEW), same.predict(NEW), atol=0.1)
    assert same.epsilon_ == found.epsilon_
    residuals = np.abs(100 * Y + 7 - found.predict(X))
    assert np.mean(residuals > 1.001 * found.epsilon_ * found.target_scale_) <= 0.3


def test_where_fewer_rows_count_even_without_a_tube_epsilon_is_0() -> None:
    model = joker.KernelSVR(nu=1.0, lam=1e-3, **TIGHT).fit(X, Y)
    assert model.gap_ <= TIGHT["tol"]
    assert model.epsilon_ < 1e-6


def test_each_class_has_a_lambda_of_its_own() -> None:
    levels = np.digitize(Y, [-0.7, 0.7])
    model = joker.KernelSVC(loss="hinge", nu=0.3, tol=1e-4).fit(X, levels)
    assert model.lam_.shape == (3,)
    assert_allclose(model.lam_ * np.abs(model.dual_coef_).sum(axis=0), 0.3 * len(X), rtol=2e-6)
    for level in range(3):
        one = joker.KernelSVC(loss="hinge", nu=0.3, tol=1e-4).fit(X, levels == level)
        assert_allclose(one.decision_function(NEW), model.decision_function(NEW)[:, level], atol=0.05)


def test_weights_count_as_rows() -> None:
    w = np.random.default_rng(1).integers(0, 3, len(X))
    weighted = joker.KernelSVC(loss="hinge", nu=0.3, **TIGHT).fit(X, SIGNS, sample_weight=w)
    repeated = joker.KernelSVC(loss="hinge", nu=0.3, **TIGHT).fit(X.repeat(w, axis=0), SIGNS.repeat(w))
    assert_allclose(weighted.decision_function(NEW), repeated.decision_function(NEW), atol=1e-3)


def test_probabilities_are_calibrated_as_with_a_lambda() -> None:
    p = joker.KernelSVC(loss="hinge", nu=0.3, calibrate=True, random_state=0).fit(X, SIGNS).predict_proba(NEW)
    assert_allclose(p.sum(axis=1), 1)


def test_a_share_that_no_lambda_has_is_answered_by_the_smallest() -> None:
    noise = np.random.default_rng(1).integers(0, 2, len(X))
    with pytest.raises(InvalidData, match=r"nu must be at least about 0\.\d+ .* got nu=0.05"):
        joker.KernelSVC(loss="hinge", nu=0.05, kernel="linear").fit(X, noise)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (joker.KernelSVC(nu=0.2), "nu needs loss='hinge'"),
        (joker.KernelSVC(loss="hinge", nu=0.2, multi_class="crammer_singer"), "multi_class='ovr'"),
        (joker.KernelSVC(loss="hinge", nu=0.0), r"nu must be a number in \(0, 1\]"),
        (joker.KernelSVR(nu=1.5), r"nu must be a number in \(0, 1\]"),
        (joker.KernelSVR(nu=0.2, lam=[0.1, 1.0]), "lam must be left out where nu is set"),
        (joker.KernelSVR(nu=0.2, early_stopping=True), "early_stopping and verbose must be left out"),
        (joker.KernelSVC(loss="hinge", nu=0.2, warm_start=True), "warm_start must be left out"),
    ],
    ids=lambda one: one if isinstance(one, str) else repr(one),
)
def test_what_does_not_go_with_nu_is_refused(model: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        model.fit(X, SIGNS if isinstance(model, joker.KernelSVC) else Y)


def test_a_tube_is_for_one_column() -> None:
    with pytest.raises(InvalidData, match="y must have one column where nu is set; got 2"):
        joker.KernelSVR(nu=0.2).fit(X, np.stack([Y, -Y], axis=1))
