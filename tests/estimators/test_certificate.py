"""Problems on which float32 lost the digits that a gap needs, or a factorisation failed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from random_problems import kernel_matrix, relative_gap

import joker
import joker.callbacks
from joker import kernels


def clusters(n: int) -> tuple[Any, Any]:
    """Return twenty clusters of rows that are near each other, and a smooth function with noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2))[rng.integers(20, size=n)] + 0.01 * rng.normal(size=(n, 2))
    return x, np.sin(5 * x[:, 0]) + 0.3 * rng.normal(size=n)


def smooth(n: int) -> tuple[Any, Any]:
    """Return normal inputs and a smooth function of them with noise."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 3))
    return x, np.sin(x[:, 0]) + 0.1 * rng.normal(size=n)


def true_gap(model: Any, x: Any, y: Any, loss: str, lam: float) -> float:
    """Return the relative gap of a fitted model, from its α and float64 rows."""
    machine = model._machine
    rows = machine.x[slice(len(machine.x))].double().numpy()
    at = np.abs(rows[:, None] - x[None]).max(2).argmin(1)  # rows whose α is 0 are not in the model
    alpha = np.zeros(len(x))
    np.add.at(alpha, at, machine.alpha[:, 0].double().numpy())
    matrix = kernel_matrix("gaussian", model.bandwidth_, x)
    return relative_gap(loss, y, np.full(len(x), 1 / lam), alpha, matrix)


@pytest.mark.parametrize("bandwidth", [0.01, 0.003, 0.001])
@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_clusters_that_float32_cannot_tell_apart(bandwidth: float, precision: str) -> None:
    x, y = clusters(1_300)
    settings = {"bandwidth": bandwidth, "fit_intercept": False, "standardize": False, "scale_target": False}
    model = joker.KernelHuber(delta=1.0, precision=precision, random_state=0, **settings).fit(x, y)
    assert true_gap(model, x, (y - model._offset).ravel(), "huber", 1.0) <= 1.01 * model.gap_ + 1e-9
    if precision == "auto":
        assert model.gap_ <= 1e-3
        assert "float32" in model.plan_.why_dtype


@pytest.mark.parametrize("bandwidth", [0.01, 0.001])
def test_the_machine_that_a_callback_keeps_has_a_gap_that_holds(bandwidth: float) -> None:
    """The gap of a record that is not the last one is that of the rounded kernel, until its machine is kept."""
    x, y = clusters(1_300)
    seen = []

    class KeepsTheFirst(joker.callbacks.Callback):
        def epoch(self, run: joker.callbacks.Run) -> None:
            if not seen:
                run.keep()
                seen.append(run.model())

    settings = {"bandwidth": bandwidth, "fit_intercept": False, "standardize": False, "scale_target": False}
    model = joker.KernelHuber(
        delta=1.0, precision="float32", method="random_blocks", tol=1e-9, max_epochs=4, random_state=0,
        callbacks=[KeepsTheFirst()], **settings,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", joker.errors.ConvergenceWarning)
        model.fit(x, y)
    for one in (model, *seen):
        assert one.n_iter_ == 1
        assert true_gap(one, x, (y - model._offset).ravel(), "huber", 1.0) <= 1.01 * one.gap_ + 1e-9


RIDGES = {
    "polynomial of degree 5": (smooth(2_100), {"kernel": kernels.Polynomial(degree=5), "lam": 1e-2}, 1.0),
    "clusters, 0.03": (clusters(2_100), {"bandwidth": 0.03, "lam": 0.1, "standardize": False}, 1.0),
    "clusters, 0.001": (clusters(2_100), {"bandwidth": 0.001, "lam": 0.1, "standardize": False}, 1.0),
    "weights of 1e6": (smooth(1_500), {"lam": 1.0}, 1e6),
    "weights of 1e4": (smooth(2_100), {"lam": 1.0}, 1e4),
    "polynomial, 0.01": (smooth(2_100), {"kernel": "polynomial", "lam": 1e-2}, 1.0),
    "polynomial, 0.001": (smooth(2_100), {"kernel": "polynomial", "lam": 1e-3}, 1.0),
}


@pytest.mark.parametrize("method", ["auto", "conjugate_gradients"])
@pytest.mark.parametrize("name", RIDGES)
def test_ill_conditioned_linear_systems_are_solved(name: str, method: str) -> None:
    """By a factorisation, and by conjugate gradients, whose preconditioner is not positive definite at first."""
    (x, y), settings, weight = RIDGES[name]
    blocks = {} if method == "auto" else {"block_size": 256}
    model = joker.KernelRidge(method=method, random_state=0, **settings, **blocks)
    model.fit(x, y, sample_weight=np.full(len(x), weight))
    assert model.gap_ <= 1e-3


def test_factors_in_float32_end_with_a_model_and_an_honest_gap() -> None:
    (x, y), settings, _ = RIDGES["clusters, 0.001"]
    model = joker.KernelRidge(
        method="conjugate_gradients", block_size=256, precision="float32", random_state=0, **settings
    )
    with pytest.warns(joker.errors.ConvergenceWarning, match="Rounding errors are too large"):
        model.fit(x, y)
    assert model.gap_ > 0.1
    assert np.isfinite(model.predict(x)).all()


def test_weights_and_the_penalty_are_one_number() -> None:
    """Weights of 1e4 with λ = 1 are the same problem as no weights with λ = 1e-4, and have the same precision."""
    x, y = smooth(2_100)
    weighted = joker.KernelRidge(lam=1.0, random_state=0).fit(x, y, sample_weight=np.full(len(x), 1e4))
    plain = joker.KernelRidge(lam=1e-4, random_state=0).fit(x, y)
    assert weighted.plan_.dtype == plain.plan_.dtype
    np.testing.assert_allclose(weighted.predict(x), plain.predict(x), atol=1e-4)


def test_hinge_with_a_large_penalty_reaches_the_tolerance() -> None:
    x, y = smooth(1_300)
    model = joker.KernelSVC(loss="hinge", lam=1e-4, random_state=0).fit(x, np.where(y > 0, 1, -1))
    assert model.gap_ <= 1e-3


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("method", ["auto", "conjugate_gradients"])
def test_a_linear_kernel_leaves_the_rows_as_they_are(method: str, precision: str) -> None:
    """Its features are the rows themselves, and no copy of them: a product in place would change those of the user."""
    x, y = smooth(600)
    x = x.astype(precision)
    before, settings = x.copy(), {"fit_intercept": False, "standardize": False, "scale_target": False, "block_size": 64}
    y = y - np.median(y)
    model = joker.KernelRidge(kernel="linear", lam=0.5, method=method, precision=precision, **settings).fit(x, y)
    np.testing.assert_array_equal(x, before)
    weights = np.linalg.solve(x.T @ x + 0.5 * np.eye(3), x.T @ (y - model._offset))
    np.testing.assert_allclose(model.predict(x), x @ weights + model._offset, atol=0.02)
