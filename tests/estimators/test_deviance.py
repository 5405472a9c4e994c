"""Regressors of counts and costs, and of expectiles, against other minimisers of the same objective."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor
from sklearn.metrics import d2_tweedie_score

import joker
from joker.errors import InvalidData

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, (80, 2))
MEAN = np.exp(1 + np.sin(X[:, 0]))
W = RNG.uniform(0.2, 2.0, 80) * (RNG.random(80) > 0.2)
TARGETS = {
    "KernelPoisson": RNG.poisson(MEAN).astype(float),
    "KernelGamma": RNG.gamma(2, MEAN / 2),
    "KernelTweedie": RNG.poisson(1, 80) * RNG.gamma(2, MEAN / 2),
}
POWERS = {"KernelPoisson": 1.0, "KernelGamma": 2.0, "KernelTweedie": 1.3}
EXACT = {"tol": 1e-11, "max_epochs": 500, "standardize": False, "kernel": "gaussian", "bandwidth": 1.0}
by_name = pytest.mark.parametrize("name", TARGETS)


def make(name: str, **settings: Any) -> Any:
    own = {"power": POWERS[name]} if name == "KernelTweedie" else {}
    return getattr(joker, name)(**own, **settings)


def derivative(y: Any, f: Any, p: float) -> Any:
    """Of half the deviance with respect to f, the logarithm of the mean."""
    return np.exp((2 - p) * f) - y * np.exp((1 - p) * f)


@by_name
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_prediction_is_the_minimum_of_the_objective(name: str, weighted: bool, scaled: bool) -> None:
    """By L-BFGS of SciPy in the coordinates of the eigenvectors of the kernel matrix."""
    y, p, lam, w = TARGETS[name], POWERS[name], 0.5, W if weighted else np.ones(80)
    model = make(name, lam=lam, fit_intercept=False, scale_target=scaled, **EXACT).fit(X, y, sample_weight=w)
    unit = np.average(y, weights=w) if scaled else 1.0
    squares = ((X[:, None] - X[None]) ** 2).sum(2)
    values, vectors = np.linalg.eigh(np.exp(-squares / 2))
    root = vectors * np.sqrt(values.clip(0))
    target = y / unit

    def objective(b: Any) -> Any:
        f = root @ b
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = {
                1.0: np.exp(f) - target * f,
                2.0: target * np.exp(-f) + f,
            }.get(p, np.exp((2 - p) * f) / (2 - p) - target * np.exp((1 - p) * f) / (1 - p))
        return w @ terms + lam / 2 * b @ b, root.T @ (w * derivative(target, f, p)) + lam * b

    options = {"maxiter": 3_000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(objective, np.zeros(80), jac=True, method="L-BFGS-B", options=options)
    assert_allclose(model.predict(X), unit * np.exp(root @ found.x), rtol=1e-4)
    assert model.gap_ < 1e-9


@by_name
def test_the_linear_kernel_without_a_penalty_is_the_generalised_linear_model(name: str) -> None:
    y, p = TARGETS[name], POWERS[name]
    linear = {1.0: PoissonRegressor(alpha=0, tol=1e-8), 2.0: GammaRegressor(alpha=0, tol=1e-8)}
    theirs = linear.get(p, TweedieRegressor(power=p, link="log", alpha=0, tol=1e-8)).fit(X, y)
    ours = make(name, kernel="linear", lam=1e-7, tol=1e-11, max_epochs=2_000).fit(X, y)
    assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4)


@by_name
def test_the_score_is_the_share_of_the_deviance_that_is_explained(name: str) -> None:
    y = TARGETS[name]
    model = make(name).fit(X, y)
    for w in (None, W):
        expected = d2_tweedie_score(y, model.predict(X), sample_weight=w, power=POWERS[name])
        assert model.score(X, y, w) == pytest.approx(expected, rel=1e-10)
    constant = make(name, lam=1e12, fit_intercept=False).fit(X, y)
    assert constant.score(X, y) == pytest.approx(0, abs=1e-6)
    assert_allclose(constant.predict(X), y.mean(), rtol=1e-6)


@by_name
@pytest.mark.parametrize("factor", [1e-40, 1e-3, 1e60])
def test_the_unit_of_the_targets_does_not_matter(name: str, factor: float) -> None:
    y = TARGETS[name]
    one, other = make(name).fit(X, y), make(name).fit(X, factor * y)
    assert_allclose(other.predict(X), factor * one.predict(X), rtol=1e-6)
    assert other.score(X, factor * y) == pytest.approx(one.score(X, y), rel=1e-6)


@by_name
def test_an_integer_weight_is_a_repeated_row(name: str) -> None:
    y, times = TARGETS[name], np.arange(80) % 3
    weighted = make(name, **EXACT).fit(X, y, sample_weight=times)
    repeated = make(name, **EXACT).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5)


@by_name
def test_features_are_near_the_exact_kernel(name: str) -> None:
    y = TARGETS[name]
    exact, some = make(name, lam=1.0).fit(X, y), make(name, lam=1.0, n_features=4_000, random_state=0).fit(X, y)
    assert_allclose(some.predict(X), exact.predict(X), rtol=0.15)
    assert some.gap_ <= some.tol


@by_name
def test_a_path_chooses_by_the_deviance_of_held_out_rows(name: str) -> None:
    y, lams = TARGETS[name], [0.01, 1.0, 100.0]
    model = make(name, lam=lams, fit_intercept=False, **EXACT).fit(X[:60], y[:60], eval_set=(X[60:], y[60:]))
    unit, p = y[:60].mean(), POWERS[name]
    for found, one in zip(model.path_.scores, model.path_.models, strict=True):
        mean = one.predict(X[60:])
        deviance = (1 - d2_tweedie_score(y[60:], mean, power=p)) * _deviance(y[60:], y[60:].mean(), p)
        assert found == pytest.approx(-deviance / 2 / unit ** (2 - p), rel=1e-6)
    assert model.lam_ == lams[int(np.argmax(model.path_.scores))]


def _deviance(y: Any, mean: float, p: float) -> float:
    from sklearn.metrics import mean_tweedie_deviance

    return float(mean_tweedie_deviance(y, np.full(len(y), mean), power=p))


@pytest.mark.parametrize(
    ("name", "wrong", "rule"),
    [("KernelPoisson", -1.0, "at least 0"), ("KernelTweedie", -0.5, "at least 0"), ("KernelGamma", 0.0, "positive")],
)
def test_a_target_outside_the_domain_is_refused(name: str, wrong: float, rule: str) -> None:
    y = TARGETS[name].copy()
    y[3] = wrong
    with pytest.raises(InvalidData, match=rf"y must be {rule} for the \w+ loss; found {wrong:g}\. .*Use|Check"):
        make(name).fit(X, y)
    with pytest.raises(InvalidData, match=f"y must be {rule}"):
        make(name, lam=[0.1, 1.0]).fit(X, TARGETS[name], eval_set=(X, y))


@pytest.mark.parametrize("name", ["KernelPoisson", "KernelTweedie"])
def test_targets_that_are_all_zero_have_small_predictions(name: str) -> None:
    model = make(name, lam=1e-3).fit(X, np.zeros(80))
    assert (model.predict(X) > 0).all()
    assert (model.predict(X) < 0.1).all()


@by_name
def test_several_outputs_are_refused(name: str) -> None:
    with pytest.raises(InvalidData, match=r"y must have one column for the \w+ loss; got 2\. Fit one output"):
        make(name).fit(X, np.stack([TARGETS[name]] * 2, axis=1))


def test_an_expectile_of_one_half_is_the_ridge_regression() -> None:
    y = np.log(MEAN) + RNG.normal(size=80)
    half, ridge = (model.fit(X, y) for model in (joker.KernelExpectile(**EXACT), joker.KernelRidge(**EXACT)))
    assert_allclose(half.predict(X), ridge.predict(X), atol=1e-8)
    assert half.score(X, y) == pytest.approx(ridge.score(X, y), abs=1e-8)


@pytest.mark.parametrize("level", [0.1, 0.8])
def test_an_expectile_is_the_weighted_ridge_regression_of_its_own_weights(level: float) -> None:
    """At the solution, rows above the prediction have the weight 2 e, and those below it 2 (1 - e)."""
    y = np.log(MEAN) + RNG.normal(size=80)
    model = joker.KernelExpectile(expectile=level, scale_target=False, fit_intercept=False, **EXACT).fit(X, y)
    weights = 2 * np.where(y > model.predict(X), level, 1 - level)
    ridge = joker.KernelRidge(scale_target=False, fit_intercept=False, **EXACT).fit(X, y, sample_weight=weights)
    assert_allclose(model.predict(X), ridge.predict(X), atol=1e-5)


def test_the_score_of_an_expectile_is_0_for_its_constant() -> None:
    y = np.log(MEAN) + RNG.normal(size=80)
    model = joker.KernelExpectile(expectile=0.9, lam=1e-6, kernel="linear", tol=1e-12).fit(np.ones((80, 1)), y)
    assert model.score(np.ones((80, 1)), y) == pytest.approx(0, abs=1e-5)
    assert joker.KernelExpectile(expectile=0.9).fit(X, y).score(X, y) > 0.1


@by_name
def test_a_search_tunes_by_the_deviance(name: str) -> None:
    found = joker.tune(X, TARGETS[name], estimator=make(name), kernels=["gaussian"], n_trials=1, random_state=0)
    assert found.estimator.score(X, TARGETS[name]) > 0.2
