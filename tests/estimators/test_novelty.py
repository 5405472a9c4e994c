"""The one-class machine: scikit-learn's solution, the certificate for exactly this ν, and what a user meets."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import pairwise
from sklearn.svm import OneClassSVM

import joker
from joker.errors import InvalidData, InvalidParameter

SIGMA = 1.5
GAMMA = 1 / (2 * SIGMA**2)
TIGHT = {"tol": 1e-9, "bandwidth": SIGMA, "standardize": False}
X = np.random.default_rng(0).normal(size=(200, 3))
NEW = np.random.default_rng(1).normal(size=(50, 3)) * 2


def objective(alpha: Any, f: Any, nu: float, w: Any) -> tuple[float, float]:
    """½ αKα and the smallest value over ρ of the primal objective, by trying every ρ."""
    norm = alpha @ f
    primal = min(norm / 2 - nu * w.sum() * rho + w @ np.maximum(rho - f, 0) for rho in f)
    return norm / 2, primal


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5, 0.891, 1.0])
@pytest.mark.parametrize("block_size", ["auto", 64])
def test_the_solution_is_that_of_scikit_learn(nu: float, block_size: Any) -> None:
    settings = {"block_size": block_size, "max_epochs": 1000, "dtype": "float64", **TIGHT}
    ours = joker.KernelOneClass(nu=nu, **settings).fit(X)
    assert ours.gap_ <= TIGHT["tol"]
    assert_allclose(ours.dual_coef_.sum(), nu * len(X), rtol=2e-6)
    if nu == 1:  # every α is 1; OneClassSVM has no such solution
        assert_allclose(ours.dual_coef_, 1.0)
        return
    theirs = OneClassSVM(nu=nu, gamma=GAMMA, tol=1e-9).fit(X)
    assert_allclose(ours.score_samples(NEW), theirs.score_samples(NEW), rtol=1e-4)
    assert_allclose(ours.offset_, theirs.offset_[0], rtol=1e-4)
    assert_allclose(ours.decision_function(NEW), theirs.decision_function(NEW), atol=1e-4 * ours.offset_)
    assert np.mean(ours.predict(NEW) == theirs.predict(NEW)) == 1


def test_weights_are_those_of_scikit_learn(rng: np.random.Generator) -> None:
    w = rng.uniform(0, 3, len(X)) * (rng.uniform(size=len(X)) > 0.2)
    ours = joker.KernelOneClass(nu=0.3, **TIGHT).fit(X, sample_weight=w)
    theirs = OneClassSVM(nu=0.3, gamma=GAMMA, tol=1e-9).fit(X, sample_weight=w)
    assert_allclose(ours.score_samples(NEW), theirs.score_samples(NEW), rtol=1e-4)
    assert (np.abs(ours.dual_coef_) <= w * (1 + 1e-12)).all()


def test_with_features_it_is_the_problem_of_their_inner_products() -> None:
    ours = joker.KernelOneClass(nu=0.3, n_features=80, random_state=0, max_epochs=500, dtype="float64", **TIGHT).fit(X)
    import torch

    psi, new = (ours._machine.features(torch.from_numpy(rows)).numpy() for rows in (X, NEW))
    theirs = OneClassSVM(nu=0.3, kernel="linear", tol=1e-9).fit(psi)
    assert_allclose(ours.score_samples(NEW), theirs.score_samples(new), atol=1e-4 * ours.offset_)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "matern32"])
@pytest.mark.parametrize("nu", [0.05, 0.4])
@pytest.mark.parametrize("tol", [0.3, 0.01])
def test_the_gap_bounds_the_distance_to_the_optimum(kernel: str, nu: float, tol: float) -> None:
    """Of both objectives, for the ν that was asked for, also where the fit ends early."""
    w = np.ones(len(X))
    settings = {"kernel": kernel, "bandwidth": SIGMA, "nu": nu, "standardize": False}
    best = joker.KernelOneClass(tol=1e-10, **settings).fit(X)
    optimum = objective(best.dual_coef_, best.score_samples(X), nu, w)[0]  # minus the smallest V
    rough = joker.KernelOneClass(tol=tol, **settings).fit(X)
    alpha, f = rough.dual_coef_, rough.score_samples(X)
    dual, primal = objective(alpha, f, nu, w)
    assert (alpha >= 0).all()
    assert (alpha <= 1).all()
    assert_allclose(alpha.sum(), nu * len(X), rtol=2e-6)
    assert rough.gap_ <= tol
    assert primal + optimum >= -1e-8 * optimum
    assert primal + optimum <= rough.gap_ * dual + 1e-8 * optimum
    assert_allclose(rough.gap_, (primal + dual) / dual, atol=1e-9)


@pytest.mark.parametrize("nu", [0.05, 0.25, 0.6])
@pytest.mark.parametrize("m", [None, 300])
def test_nu_is_the_share_of_outliers_and_of_support_vectors(nu: float, m: int | None) -> None:
    model = joker.KernelOneClass(nu=nu, n_features=m, random_state=0, **{**TIGHT, "tol": 1e-6}).fit(X)
    share = np.mean(model.fit_predict(X) == -1)
    assert nu - 0.05 <= share <= nu
    assert np.array_equal(model.predict(X) == 1, model.decision_function(X) >= 0)
    assert_allclose(model.score_samples(X), model.decision_function(X) + model.offset_)
    assert model.intercept_ == -model.offset_
    if m is None:
        assert np.mean(model.dual_coef_ > 0) >= nu


def test_a_kernel_matrix_gives_the_same() -> None:
    K = pairwise.rbf_kernel(X, gamma=GAMMA)
    own = joker.KernelOneClass(nu=0.2, **TIGHT).fit(X)
    given = joker.KernelOneClass(nu=0.2, kernel="precomputed", tol=1e-9).fit(K)
    assert_allclose(given.decision_function(K), own.decision_function(X), atol=1e-6)


def test_targets_are_ignored_and_the_plan_is_that_of_the_fit() -> None:
    model = joker.KernelOneClass(nu=0.2, random_state=0)
    plan = model.plan(X)
    scores = model.fit(X, np.arange(len(X))).decision_function(NEW)
    assert_allclose(scores, joker.KernelOneClass(nu=0.2, random_state=0).fit(X).decision_function(NEW))
    assert plan.block_size == model.plan_.block_size
    assert "lam" not in model.get_params()


def test_the_limit_of_time_ends_the_search() -> None:
    with pytest.warns(joker.errors.ConvergenceWarning, match="Not solved"):
        model = joker.KernelOneClass(nu=0.2, max_time=0).fit(X)
    assert model.stop_reason_ == joker.Reason.TIME.value
    assert_allclose(model.dual_coef_.sum(), 0.2 * len(X))


def test_rows_around_the_origin_have_no_threshold() -> None:
    with pytest.raises(InvalidData, match="must lie on one side of the origin"):
        joker.KernelOneClass(nu=0.1, kernel="linear", standardize=False).fit(X)
    far = joker.KernelOneClass(nu=0.1, kernel="linear", standardize=False).fit(X + 10)
    assert far.predict([[10.0, 10.0, 10.0], [-10.0, 0.0, 0.0]]).tolist() == [1, -1]


@pytest.mark.parametrize("nu", [0, -0.1, 1.1, "auto", True, None])
def test_another_nu_is_refused(nu: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"nu must be a number in \(0, 1\]"):
        joker.KernelOneClass(nu=nu).fit(X)


def test_a_parameter_that_does_not_apply_is_refused() -> None:
    with pytest.raises(TypeError, match="lam"):
        joker.KernelOneClass(lam=0.1)
