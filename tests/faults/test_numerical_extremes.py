"""Extreme numbers end in finite predictions or in a sentence, never in NaN."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.campaign import REFUSED, VERIFIED, count

import joker
from joker.errors import InvalidData, JokerError

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 3))
Y = np.sin(X[:, 0])
TINY = np.finfo(np.float64).smallest_subnormal

Data = tuple[Any, Any, Any]  # inputs, targets, weights
DATA: dict[str, Callable[[], Data]] = {
    **{f"weights {w:g}": lambda w=w: (X, Y, np.full(N, w)) for w in (1e-30, 1e-8, 1e8, 1e30)},
    "weights of 60 magnitudes": lambda: (X, Y, np.logspace(-30, 30, N)),
    **{f"targets {s:g}": lambda s=s: (X, s * Y, None) for s in (1e-300, 1e-20, 1e20, 1e200, 1e300, 1e307)},
    "one target of 1e20": lambda: (X, np.where(np.arange(N) == 3, 1e20, Y), None),
    "constant X": lambda: (np.ones((N, 3)), Y, None),
    "constant y": lambda: (X, np.full(N, 2.5), None),
    "constant X and y": lambda: (np.zeros((N, 3)), np.zeros(N), None),
    "equal rows": lambda: (np.repeat(X[:2], N // 2, axis=0), Y, None),
    **{f"{n} rows": lambda n=n: (X[:n], Y[:n], None) for n in (1, 2, 3)},
    "20,000 inputs": lambda: (RNG.normal(size=(20, 20_000)), Y[:20], None),
    **{f"inputs {s:g}": lambda s=s: (s * X, Y, None) for s in (1e-300, 1e-30, 1e15, 1e30, 1e150, 1e300)},
    "inputs of 30 magnitudes": lambda: (X * [1e-15, 1.0, 1e15], Y, None),
    "denormal inputs": lambda: (TINY * np.round(9 * X), Y, None),
    "one input of 1e30": lambda: (np.where(np.arange(3 * N).reshape(N, 3) == 7, 1e30, X), Y, None),
}
REGRESSORS: dict[str, Any] = {
    "ridge": joker.KernelRidge(random_state=0),
    "ridge, unscaled": joker.KernelRidge(standardize=False, scale_target=False, random_state=0),
    "huber, features": joker.KernelHuber(n_features=20, random_state=0),
    "svr, unscaled": joker.KernelSVR(standardize=False, scale_target=False, random_state=0),
    "quantiles": joker.KernelQuantile(quantile=[0.1, 0.9], random_state=0),
    "linear": joker.KernelRidge(kernel="linear", random_state=0),
    "float32, blocks": joker.KernelHuber(dtype="float32", block_size=8, max_epochs=5, random_state=0),
}
QUICK = ("ridge", "linear", "float32, blocks")
LAMS = (1e-12, 1.0, 1e12)


def finite_or_refused(model: Any, data: Data, method: str = "predict") -> str:
    x, y, w = data
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = getattr(model.fit(x, y, sample_weight=w), method)(x)
    except (JokerError, ValueError) as error:
        assert len(str(error)) > 20, f"not a sentence: {error}"  # noqa: PT017
        return count(REFUSED)
    assert np.isfinite(found).all()
    return count(VERIFIED)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(
    "kind", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in REGRESSORS]
)
def test_regression(name: str, kind: str) -> None:
    outcomes = {finite_or_refused(REGRESSORS[kind].set_params(lam=lam), DATA[name]()) for lam in LAMS}
    if name.startswith(("constant", "equal", "1 rows", "2 rows", "3 rows", "20,000")):
        assert outcomes == {VERIFIED}


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("kind", [joker.KernelLogistic, joker.KernelSVC])
def test_classification(name: str, kind: Any) -> None:
    x, _, w = DATA[name]()
    labels = np.arange(len(x)) % 3
    for lam in LAMS:
        finite_or_refused(kind(lam=lam, random_state=0), (x, labels, w), "decision_function")
    if kind is joker.KernelLogistic and len(x) > 3:
        finite_or_refused(kind(lam=1e-12, random_state=0), (x, labels, w), "predict_proba")


@pytest.mark.slow
def test_two_thousand_classes() -> None:
    x = RNG.normal(size=(4000, 2))
    model = joker.KernelSVC(n_features=20, max_epochs=1, random_state=0)
    assert finite_or_refused(model, (x, np.arange(4000) % 2000, None), "decision_function") == VERIFIED
    assert len(model.classes_) == 2000


@pytest.mark.parametrize("lam", [5e-324, 1e-300, 1e300, 1.7e308])
def test_extreme_penalties(lam: float) -> None:
    for kind in ("ridge", "svr, unscaled", "huber, features"):
        finite_or_refused(REGRESSORS[kind].set_params(lam=lam), (X, Y, None))


@pytest.mark.parametrize("name", [name for name in DATA if not name.startswith("weights of")])
@pytest.mark.parametrize("kind", ["ridge", "gamma"])
def test_a_model_that_was_fitted_can_be_saved_and_loaded(name: str, kind: str, tmp_path: Path) -> None:
    x, y, w = DATA[name]()
    model = joker.KernelGamma(random_state=0) if kind == "gamma" else joker.KernelRidge(random_state=0)
    if finite_or_refused(model, (x, np.abs(y) + np.abs(y).max() / 9 + TINY, w)) == VERIFIED:
        model.save(tmp_path / "m.joker")
        assert np.array_equal(joker.load(tmp_path / "m.joker").predict(x), model.predict(x))


@pytest.mark.parametrize("size", [1e-310, 1e-160, 1e20, 1e149, 1e151, 1e160, 5e307])
@pytest.mark.parametrize("part", ["targets", "inputs"])
def test_tables_of_extreme_numbers(part: str, size: float, tmp_path: Path) -> None:
    """They are refused, or fitted as those of usual size, without a warning of NumPy."""
    inputs, targets = (size, 1.0) if part == "inputs" else (1.0, size)
    rows = [{"a": inputs * a, "b": inputs * b} for a, b in np.clip(X[:, :2], -3, 3) / 3]
    model = joker.JokerRegressor(effort=1, random_state=0)
    try:
        model.fit(rows, targets * Y)
    except JokerError as error:
        assert "must be" in str(error)  # noqa: PT017
        assert size > 1e150
        count(REFUSED)
        return
    model.save(tmp_path / "m.joker")
    assert np.array_equal(joker.load(tmp_path / "m.joker").predict(rows), model.predict(rows))
    assert np.abs(model.predict(rows) / targets - Y).max() < 2
    count(VERIFIED)


LARGE: dict[str, Any] = {
    "exact": joker.KernelSVC(kernel="polynomial", random_state=0),
    "features": joker.KernelSVC(kernel="polynomial", n_features=20, random_state=0),
    "probabilities": joker.KernelLogistic(kernel="polynomial", random_state=0),
    "gamma": joker.KernelGamma(kernel="polynomial", random_state=0),
    "components": joker.KernelPCA(n_components=2, kernel="polynomial", random_state=0),
    "landmarks": joker.KernelTransformer(n_components=10, kernel="polynomial", random_state=0),
    "random features": joker.KernelTransformer(method="random", n_components=10, kernel="polynomial", random_state=0),
    "linear": joker.KernelRidge(kernel="linear", random_state=0),
    "gaussian": joker.KernelSVC(random_state=0),
}


@pytest.mark.parametrize("name", LARGE)
def test_rows_that_are_far_larger_than_those_of_the_fit(name: str) -> None:
    """Where kernel values overflow, there is no class, number or feature, and a sentence names the first row."""
    y = np.exp(Y) if name in ("gamma", "linear") else np.where(Y > 0, "a", "b")
    model = LARGE[name].fit(X, y)
    for size in (1e100, 1e160, 1e300):
        rows = np.where(np.arange(N)[:, None] >= 3, size * X, X)
        try:
            found = model.transform(rows) if hasattr(model, "transform") else model.predict(rows)
        except InvalidData as error:
            assert "that of row 3 is not" in str(error)  # noqa: PT017
            assert name not in ("linear", "gaussian")
            count(REFUSED)
            continue
        assert size == 1e100 or name in ("linear", "gaussian")
        if found.dtype.kind == "f":
            assert np.isfinite(found).all()
        count(VERIFIED)
