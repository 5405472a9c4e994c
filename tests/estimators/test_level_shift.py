"""Quantile bands that are calibrated on held-out rows have their share of new rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import joker
from joker.estimators.regression import _quantile

Array = NDArray[np.float64]


def waves(n: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    return X, 1e4 * (np.sin(3 * X[:, 0]) + X[:, 1] + (0.2 + 0.1 * X[:, 2] ** 2) * rng.normal(size=n))


def coverage(model: Any, X: Array, y: Array) -> float:
    low, high = model.predict(X).T
    return float(np.mean((low <= y) & (y <= high)))


def narrow() -> joker.KernelQuantile:
    """A machine that follows its training rows."""
    return joker.KernelQuantile(quantile=[0.1, 0.9], lam=0.01, bandwidth=0.4).fit(*waves(400, 0))


def test_a_calibrated_band_covers() -> None:
    model, new = narrow(), waves(4000, 2)
    assert coverage(model, *new) < 0.7
    assert model.calibrate(*waves(1500, 1)) is model
    assert coverage(model, *new) == pytest.approx(0.8, abs=0.03)
    below = np.mean(new[1][:, None] < model.predict(new[0]), axis=0)
    assert_allclose(below, [0.1, 0.9], atol=0.035)


def test_one_level_and_weights() -> None:
    (X, y), new = waves(1500, 1), waves(4000, 2)
    w = np.where(np.arange(1500) < 1000, 1.0, 0.0)
    fit = joker.KernelQuantile(quantile=0.7, lam=0.01, bandwidth=0.4)
    weighted, some = fit.fit(*waves(400, 0)), joker.KernelQuantile(quantile=0.7, lam=0.01, bandwidth=0.4)
    some.fit(*waves(400, 0)).calibrate(X[:1000], y[:1000])
    assert_allclose(weighted.calibrate(X, y, w).predict(X), some.predict(X), atol=5.0)
    assert np.mean(new[1] < some.predict(new[0])) == pytest.approx(0.7, abs=0.03)
    assert np.ndim(some.intercept_) == 0


def test_a_saved_model_stays_calibrated(tmp_path: Path) -> None:
    model = narrow().calibrate(*waves(500, 1))
    model.save(tmp_path / "m.joker")
    again = joker.load(tmp_path / "m.joker")
    assert_array_equal(again.predict(waves(50, 2)[0]), model.predict(waves(50, 2)[0]))
    assert_array_equal(again.intercept_, model.intercept_)


def test_a_tuned_band_covers() -> None:
    """The mean over three samples: the levels rest on some 140 held-out rows, whose share has a deviation of 0.034."""
    bands = [
        joker.tune(
            *waves(700, seed),
            estimator=joker.KernelQuantile(quantile=[0.1, 0.9]),
            kernels="gaussian",
            relevance=False,
            random_state=seed,
        ).estimator
        for seed in range(3)
    ]
    assert np.mean([coverage(band, *waves(4000, 99)) for band in bands]) == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize(("level", "wanted"), [(0.9, 9.0), (0.1, 0.0), (0.5, 5.0)])
def test_the_quantile_counts_the_new_row_too(level: float, wanted: float) -> None:
    """Among nine values 1 … 9 a new one is as likely to be in each of the ten gaps; 0 … 9 has ten values."""
    assert _quantile(np.arange(10.0), level, None) == wanted
    assert _quantile(np.arange(10.0), level, np.full(10, 3.0)) == wanted
