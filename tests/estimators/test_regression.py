"""What a regressor promises beyond scikit-learn's checks: offsets, outputs, weights, quantiles."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from sklearn.metrics import d2_pinball_score

import joker
from joker.losses import Huber

Array = NDArray[np.float64]
TIGHT = {"tol": 1e-12, "bandwidth": 1.0, "lam": 0.1}


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[Array, Array]:
    X = rng.normal(size=(150, 2))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=150)


@pytest.mark.parametrize("name", ["KernelRidge", "KernelHuber", "KernelSVR", "KernelLp", "KernelQuantile"])
@pytest.mark.parametrize("n_features", [None, 200])
def test_a_large_offset_costs_nothing(data: tuple[Array, Array], name: str, n_features: int | None) -> None:
    """The penalty on the intercept must not be felt: y + 10,000 gives the same function, moved."""
    X, y = data
    model = getattr(joker, name)(n_features=n_features, random_state=0, **TIGHT)
    here = model.fit(X, y).predict(X)
    assert_allclose(model.fit(X, y + 1e4).predict(X) - 1e4, here, atol=1e-4)


def test_the_intercept_is_what_is_left_far_from_all_rows(data: tuple[Array, Array]) -> None:
    """A Gaussian kernel is 0 there, so that the prediction is the intercept alone."""
    X, y = data
    model = joker.KernelRidge(**TIGHT).fit(X, y + 5)
    assert_allclose(model.predict([[1e3, 1e3]]), model.intercept_)
    assert np.ndim(model.intercept_) == 0
    assert joker.KernelRidge(fit_intercept=False, **TIGHT).fit(X, y + 5).intercept_ == 0


def test_coefficients_make_the_prediction(data: tuple[Array, Array]) -> None:
    X, y = data
    linear = joker.KernelRidge(kernel="linear").fit(X, y)
    assert linear.coef_.shape == (2,)
    assert_allclose(X @ linear.coef_ + linear.intercept_, linear.predict(X))
    exact = joker.KernelRidge(bandwidth=1.0).fit(X, y)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / 2)
    assert_allclose(K @ exact.dual_coef_ + exact.intercept_, exact.predict(X))
    assert not hasattr(exact, "coef_")
    assert not hasattr(linear, "dual_coef_")


def test_the_intercept_is_penalised_as_documented(data: tuple[Array, Array]) -> None:
    """Ridge on [X, 1] with the same penalty for the last weight, after y is moved by its mean."""
    X, y = data
    Z = np.hstack([X, np.ones((len(X), 1))])
    theta = np.linalg.solve(Z.T @ Z + 3 * np.eye(3), Z.T @ (y - y.mean()))
    model = joker.KernelRidge(kernel="linear", lam=3.0, tol=1e-14).fit(X, y)
    assert_allclose([*model.coef_, model.intercept_ - y.mean()], theta, rtol=1e-6)


def test_outputs_are_fitted_in_one_pass_as_if_alone(data: tuple[Array, Array]) -> None:
    X, y = data
    both = joker.KernelSVR(**TIGHT).fit(X, np.stack([y, y**2 + 7], axis=1))
    assert both.predict(X).shape == (150, 2)
    assert both.dual_coef_.shape == (150, 2)
    assert both.intercept_.shape == (2,)
    assert_allclose(both.predict(X)[:, 1], joker.KernelSVR(**TIGHT).fit(X, y**2 + 7).predict(X), atol=1e-5)


def test_a_loss_object_and_a_loss_with_a_parameter(data: tuple[Array, Array]) -> None:
    X, y = data
    named = joker.KernelRegressor(loss="huber", delta=0.3, **TIGHT).fit(X, y).predict(X)
    assert_allclose(joker.KernelRegressor(loss=Huber(0.3), **TIGHT).fit(X, y).predict(X), named, atol=1e-6)
    assert_allclose(joker.KernelHuber(delta=0.3, **TIGHT).fit(X, y).predict(X), named, atol=1e-6)


def test_quantiles_do_not_cross(rng: np.random.Generator) -> None:
    """Few rows and a weak penalty: fitted one by one these cross, which no reader of a band expects."""
    X = rng.uniform(-2, 2, (40, 1))
    y, new = rng.normal(size=40), np.linspace(-3, 3, 200)[:, None]
    levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    settings = {"lam": 0.01, "bandwidth": 0.3, "tol": 1e-8}
    alone = [joker.KernelQuantile(quantile=q, **settings).fit(X, y).predict(new) for q in levels]
    assert np.any(np.diff(alone, axis=0) < -1e-3), "the example is meant to be one where quantiles cross"
    together = joker.KernelQuantile(quantile=levels, **settings).fit(X, y).predict(new)
    assert np.all(np.diff(together, axis=1) >= 0)
    assert_allclose(together, np.sort(alone, axis=0).T, atol=1e-3)


def test_quantiles_come_in_the_order_asked_for(data: tuple[Array, Array]) -> None:
    X, y = data
    rising = joker.KernelQuantile(quantile=[0.1, 0.5, 0.9], **TIGHT).fit(X, y)
    mixed = joker.KernelQuantile(quantile=(0.9, 0.1, 0.5), **TIGHT).fit(X, y)
    assert_allclose(mixed.predict(X), rising.predict(X)[:, [2, 0, 1]], atol=1e-6)
    below = np.mean(y[:, None] < rising.predict(X), axis=0)
    assert_allclose(below, [0.1, 0.5, 0.9], atol=0.1)


def test_the_score_of_quantiles_is_their_mean_pinball_score(data: tuple[Array, Array]) -> None:
    X, y = data
    model = joker.KernelQuantile(quantile=[0.2, 0.8], lam=0.1).fit(X, y)
    low, high = model.predict(X).T
    expected = (d2_pinball_score(y, low, alpha=0.2) + d2_pinball_score(y, high, alpha=0.8)) / 2
    assert_allclose(model.score(X, y), expected)


def test_the_fit_tells_how_good_it_is(data: tuple[Array, Array]) -> None:
    X, y = data
    model = joker.KernelSVR(tol=1e-6, lam=0.1).fit(X, y)
    assert model.gap_ <= 1e-6
    assert model.n_iter_ >= 1
    assert "tolerance" in model.stop_reason_
    last = model.history_[-1]
    assert set(last) == {"epoch", "seconds", "primal", "dual", "gap", "peak_bytes"}
    assert last["gap"] == model.gap_
    assert 0 <= last["primal"] - last["dual"] <= 1e-5 * last["primal"]


def test_max_time_ends_a_fit(data: tuple[Array, Array]) -> None:
    X, y = data
    model = joker.KernelSVR(tol=0, block_size=10, max_epochs=10**6, max_time=0.2, lam=1e-3).fit(X, y)
    assert "time" in model.stop_reason_
