"""Regressors scale their targets: the unit of y changes nothing, and every result is in units of y."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.base import clone

import joker
from joker.errors import InvalidData, InvalidFile, InvalidParameter
from joker.models import files as model_files

Array = NDArray[np.float64]
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (300, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=300)
XV = RNG.uniform(-2, 2, (100, 2))
YV = np.sin(2 * XV[:, 0]) + XV[:, 1] + 0.1 * RNG.normal(size=100)
W = RNG.uniform(0.5, 2.0, 300)
UNIT, SHIFT = 1e5, 7e5  # such as prices of houses
COMMON: dict[str, Any] = {"lam": 0.1, "bandwidth": 1.0, "random_state": 0, "dtype": "float64", "tol": 1e-10}
MODELS: dict[str, Any] = {
    "ridge": joker.KernelRidge(**COMMON),
    "huber": joker.KernelHuber(delta=0.2, **COMMON),
    "svr": joker.KernelSVR(epsilon=0.2, **COMMON),
    "lp": joker.KernelLp(p=1.5, **COMMON),
    "quantile": joker.KernelQuantile(quantile=0.3, **COMMON),
    "quantiles": joker.KernelQuantile(quantile=[0.1, 0.9], **COMMON),
    "absolute": joker.KernelRegressor(loss="absolute", **COMMON),
    "no intercept": joker.KernelHuber(delta=0.2, fit_intercept=False, **COMMON),
    "features": joker.KernelHuber(n_features=100, **COMMON),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_unit_of_y_changes_nothing(name: str) -> None:
    shift = 0.0 if name == "no intercept" else SHIFT
    small, large = (clone(MODELS[name]).fit(X, y, sample_weight=W) for y in (Y, UNIT * Y + shift))
    assert_allclose(large.predict(XV), UNIT * small.predict(XV) + shift, rtol=1e-4, atol=UNIT * 1e-4)
    assert_allclose(large.target_scale_, UNIT * small.target_scale_)
    assert large.score(XV, UNIT * YV + shift) == pytest.approx(small.score(XV, YV), abs=1e-3)


@pytest.mark.parametrize("name", ["huber", "svr", "quantile", "features"])
def test_scaling_is_a_fit_to_scaled_targets(name: str) -> None:
    """The twin: the targets are centred and divided here, and the fit does neither."""
    y = UNIT * Y + SHIFT
    mean, deviation = np.average(y, weights=W), np.sqrt(np.cov(y, aweights=W, ddof=0))
    inside = clone(MODELS[name]).fit(X, y, sample_weight=W)
    beside = clone(MODELS[name]).set_params(scale_target=False).fit(X, (y - mean) / deviation, sample_weight=W)
    assert inside.target_scale_ == pytest.approx(deviation)
    assert_allclose(inside.predict(XV), beside.predict(XV) * deviation + mean, rtol=1e-6)


@pytest.mark.parametrize("name", ["huber", "svr"])
def test_unscaled_settings_are_in_units_of_y(name: str) -> None:
    """The scaled problem is the unscaled one with δ, ε and λ in other units."""
    scaled = clone(MODELS[name]).fit(X, UNIT * Y)
    s, setting = scaled.target_scale_, "delta" if name == "huber" else "epsilon"
    lam = 0.1 if name == "huber" else 0.1 / s
    same = clone(MODELS[name]).set_params(scale_target=False, lam=lam, **{setting: 0.2 * s}).fit(X, UNIT * Y)
    assert_allclose(same.predict(XV), scaled.predict(XV), rtol=1e-3, atol=UNIT * 1e-3)


def test_ridge_is_the_same_without_scaling() -> None:
    scaled, plain = (joker.KernelRidge(scale_target=s, **COMMON).fit(X, UNIT * Y) for s in (True, False))
    assert_allclose(scaled.predict(XV), plain.predict(XV), rtol=1e-6)
    assert_allclose(scaled.dual_coef_, plain.dual_coef_, rtol=1e-4, atol=1e-3)
    assert plain.target_scale_ == 1


@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_weights_are_in_units_of_y(kernel: str) -> None:
    model = joker.KernelHuber(**COMMON | {"kernel": kernel}).fit(X, UNIT * Y + SHIFT)
    if kernel == "linear":
        f = XV @ model.coef_ + model.intercept_
    else:
        f = np.exp(-((XV[:, None] - X[None]) ** 2).sum(2) / 2) @ model.dual_coef_ + model.intercept_
    assert_allclose(model.predict(XV), f)


def test_each_output_has_its_own_scale() -> None:
    both = np.stack([Y, UNIT * Y], axis=1)
    model = joker.KernelHuber(**COMMON).fit(X, both)
    assert_allclose(model.target_scale_, [Y.std(), UNIT * Y.std()])
    f = model.predict(XV)
    assert_allclose(f[:, 1], UNIT * f[:, 0], atol=UNIT * 1e-4)
    assert_allclose(f[:, 0], joker.KernelHuber(**COMMON).fit(X, Y).predict(XV), atol=1e-4)


def test_the_scale_is_that_of_the_training_rows_only() -> None:
    y = Y.copy()
    model = joker.KernelRidge(**COMMON | {"lam": [0.01, 0.1, 1.0]}).fit(X, y, eval_set=(XV, 100 * YV))
    assert model.target_scale_ == pytest.approx(Y.std())


def test_scores_of_a_path_are_losses_of_scaled_targets() -> None:
    path = joker.KernelHuber(delta=0.2, **COMMON | {"lam": [0.01, 0.1, 1.0]})
    model = path.fit(X, UNIT * Y, eval_set=(XV, UNIT * YV))
    u = np.abs((UNIT * YV[:, None] - np.stack(model.path_.predict(XV), 1)) / model.target_scale_)
    assert_allclose(model.path_.scores, -np.where(u < 0.2, u**2 / 2, 0.2 * u - 0.02).mean(0), rtol=1e-6)


def test_a_scorer_gets_targets_and_predictions_in_units_of_y() -> None:
    def score(model: Any, x: Array, y: Array) -> float:
        assert_allclose(y, UNIT * YV)
        return -float(np.mean((model.predict(x) - y) ** 2))

    path = joker.KernelRidge(early_stopping=score, **COMMON | {"lam": [0.01, 0.1, 1.0]})
    model = path.fit(X, UNIT * Y, eval_set=(XV, UNIT * YV))
    by_hand = [-np.mean((f - UNIT * YV) ** 2) for f in model.path_.predict(XV)]
    assert_allclose(model.path_.scores, by_hand, rtol=1e-6)


def test_a_warm_start_continues_and_notices_another_scale() -> None:
    long = dict(COMMON, block_size=50, tol=0)
    once = joker.KernelHuber(max_epochs=5, **long).fit(X, UNIT * Y)
    warm = joker.KernelHuber(max_epochs=3, warm_start=True, **long).fit(X, UNIT * Y).set_params(max_epochs=2)
    assert_allclose(warm.fit(X, UNIT * Y).predict(XV), once.predict(XV), rtol=1e-12)
    assert warm.history_[-1]["epoch"] == 5
    changed = warm.set_params(scale_target=False).fit(X, UNIT * Y)
    assert changed.history_[-1]["epoch"] <= 2  # another problem: it begins with the old α, not where the fit ended


@pytest.mark.parametrize("y", [np.full(50, 3.7), np.full(50, 0.0), np.full(50, 1e-9)])
def test_a_constant_target_is_not_scaled(y: Array) -> None:
    model = joker.KernelHuber(**COMMON).fit(X[:50], y)
    assert model.target_scale_ == 1
    assert_allclose(model.predict(XV), y[0], atol=1e-12)


@pytest.mark.parametrize("factor", [1e-200, 1e-30, 1e30, 1e200])
def test_extreme_units(factor: float) -> None:
    """Squares of these targets are no finite positive numbers."""
    model = joker.KernelHuber(**COMMON).fit(X, factor * Y)
    assert_allclose(model.predict(XV) / factor, joker.KernelHuber(**COMMON).fit(X, Y).predict(XV), atol=1e-4)


def test_a_row_of_weight_two_is_the_row_twice() -> None:
    w = np.where(np.arange(300) % 3, 1.0, 2.0)
    w[::10] = 0
    weighted = joker.KernelSVR(**COMMON).fit(X, Y, sample_weight=w)
    repeated = joker.KernelSVR(**COMMON).fit(*(np.repeat(part, w.astype(int), axis=0) for part in (X, Y)))
    assert weighted.target_scale_ == pytest.approx(repeated.target_scale_)
    assert_allclose(weighted.predict(XV), repeated.predict(XV), atol=1e-3)


def test_a_store_is_scaled_like_its_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=X, y=UNIT * Y)
    store = joker.data.convert(tmp_path / "t.npz", tmp_path / "t.rows", target="y", task="regression")
    stored = joker.KernelHuber(**COMMON).fit(store)
    assert stored.target_scale_ == pytest.approx(UNIT * Y.std())
    assert_allclose(stored.predict(XV), joker.KernelHuber(**COMMON).fit(X, UNIT * Y).predict(XV), atol=UNIT * 1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_keeps_its_scale(name: str, tmp_path: Path) -> None:
    model = clone(MODELS[name]).fit(X, UNIT * Y)
    model.save(tmp_path / "model.joker")
    again = joker.load(tmp_path / "model.joker")
    assert_array_equal(again.predict(XV), model.predict(XV))
    assert_array_equal(again.target_scale_, model.target_scale_)
    assert model_files.read(tmp_path / "model.joker")[0]["version"] == 3


def test_a_wrong_scale_in_a_file_is_refused(tmp_path: Path) -> None:
    joker.KernelHuber(**COMMON).fit(X, Y).save(tmp_path / "model.joker")
    document, tensors = model_files.read(tmp_path / "model.joker")
    text = json.dumps(document["fitted"]["target_scale"])
    document["fitted"]["target_scale"] = json.loads(text.replace(str(Y.std())[:4], "-" + str(Y.std())[:4]))
    assert json.dumps(document["fitted"]["target_scale"]) != text
    for key in ("format", "sha256"):
        del document[key]
    model_files.write(tmp_path / "bad.joker", document, tensors, version=document.pop("version"))
    with pytest.raises(
        InvalidFile, match="target_scale of KernelHuber must be numbers, that are finite, greater than 0"
    ):
        joker.load(tmp_path / "bad.joker")


def test_a_file_of_an_earlier_version_is_not_scaled() -> None:
    model = joker.load(Path(__file__).parent / "fixtures" / "version1_sparse_huber.joker")
    assert model.scale_target is False
    assert_array_equal(model.target_scale_, [1, 1])


def test_prices_of_houses() -> None:
    """In its natural unit a target used to be far from the linear part of every robust loss."""
    y = UNIT * Y + SHIFT
    for name in ("huber", "svr"):
        assert clone(MODELS[name]).fit(X, y).score(XV, UNIT * YV + SHIFT) > 0.9
    low, high = clone(MODELS["quantiles"]).fit(X, y).predict(X).T
    assert 0.7 < np.mean((low <= y) & (y <= high)) < 0.9


def test_scale_target_must_be_a_switch() -> None:
    with pytest.raises(InvalidParameter, match="scale_target must be True or False; got 'auto'"):
        joker.KernelRidge(scale_target="auto").check_settings()


@pytest.mark.parametrize("factor", [1e-290, 1e-160, 1e160, 1e240])
@pytest.mark.parametrize("columns", [1, 2])
def test_r_squared_of_extreme_units(factor: float, columns: int) -> None:
    y, yv = (one if columns == 1 else np.column_stack([one, 2 * one]) for one in (Y, YV))
    model = joker.KernelRidge(**COMMON).fit(X, y)
    scaled = joker.KernelRidge(**COMMON).fit(X, factor * y)
    assert scaled.score(XV, factor * yv) == pytest.approx(model.score(XV, yv), rel=1e-4)


@pytest.mark.parametrize("kind", [joker.KernelRidge, joker.KernelGamma, joker.KernelQuantile])
def test_targets_that_a_prediction_would_overflow_are_refused(kind: Any) -> None:
    """Files of such models were refused by load."""
    with pytest.raises(InvalidData, match=r"targets must be at most 1e\+250 in size, .* found 1e\+305"):
        kind(random_state=0).fit(X, np.where(np.arange(300) == 3, 1e305, np.abs(Y) + 1))
