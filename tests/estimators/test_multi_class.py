"""Several classes as one problem: agreement with scikit-learn, and everything that the other losses have."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

import joker
from joker import KernelClassifier, KernelLogistic, KernelSVC
from joker.errors import InvalidData, InvalidParameter, UnknownName
from joker.losses import CrammerSinger, Hinge, Logistic, Softmax, SquaredHinge

Array = NDArray[Any]
X, Y = load_digits(return_X_y=True)
TRAIN, TEST = slice(0, 600), slice(600, 900)
LINEAR: dict[str, Any] = {"kernel": "linear", "fit_intercept": False, "standardize": False, "tol": 1e-10}
joint = pytest.mark.parametrize("loss", ["softmax", "crammer_singer"])


@pytest.fixture(scope="module")
def few() -> tuple[Array, Array]:
    """Three classes that overlap, with two inputs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 2))
    return x, np.digitize(x[:, 0] + 0.5 * rng.normal(size=240), [-0.4, 0.5])


@pytest.mark.parametrize("lam", [0.1, 30.0])
def test_a_linear_softmax_is_that_of_scikit_learn(few: tuple[Array, Array], lam: float) -> None:
    x, y = few
    w = np.where(np.arange(len(y)) % 3, 1.0, 2.5)
    ours = KernelLogistic(lam=lam, **LINEAR).fit(x, y, sample_weight=w)
    theirs = LogisticRegression(C=1 / lam, fit_intercept=False, tol=1e-10, max_iter=5_000).fit(x, y, sample_weight=w)
    f = theirs.decision_function(x)
    assert_allclose(ours.decision_function(x), f, atol=1e-4)
    ours._slope = 1.0
    assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-4)


@pytest.mark.parametrize("lam", [1.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_a_linear_crammer_singer_is_that_of_liblinear(few: tuple[Array, Array], lam: float) -> None:
    x, y = few
    ours = KernelSVC(lam=lam, multi_class="crammer_singer", **LINEAR).fit(x, y)
    theirs = LinearSVC(C=1 / lam, multi_class="crammer_singer", fit_intercept=False, tol=1e-10, max_iter=200_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        theirs.fit(x, y)
    assert_allclose(ours.decision_function(x), theirs.decision_function(x), atol=1e-4)
    assert np.mean(ours.predict(x) == theirs.predict(x)) > 0.99  # a row may be on the border of two classes


@pytest.mark.parametrize(
    ("model", "of_three", "of_two"),
    [
        (KernelLogistic(), Softmax(3), Logistic()),
        (KernelLogistic(multi_class="softmax"), Softmax(3), Logistic()),
        (KernelLogistic(multi_class="ovr"), Logistic(), Logistic()),
        (KernelSVC(), SquaredHinge(), SquaredHinge()),
        (KernelSVC(multi_class="crammer_singer"), CrammerSinger(3), SquaredHinge()),
        (KernelSVC(multi_class="crammer_singer", loss="hinge"), CrammerSinger(3), Hinge()),
        (KernelClassifier(loss="softmax"), Softmax(3), Logistic()),
        (KernelClassifier(loss=Softmax(7)), Softmax(3), Logistic()),
        (KernelClassifier(loss="crammer_singer"), CrammerSinger(3), Hinge()),
    ],
)
def test_the_loss_belongs_to_the_number_of_classes(
    few: tuple[Array, Array], model: Any, of_three: Any, of_two: Any
) -> None:
    x, y = few
    assert model.fit(x, y)._loss() == of_three
    assert model.decision_function(x).shape == (240, 3)
    assert model.fit(x, y > 0)._loss() == of_two
    assert model.decision_function(x).shape == (240,)


@joint
@pytest.mark.parametrize("settings", [{}, {"n_features": 300}], ids=["exact", "features"])
def test_the_decision_functions_of_a_row_sum_to_zero(few: tuple[Array, Array], loss: str, settings: Any) -> None:
    x, y = few
    model = KernelClassifier(loss=loss, random_state=0, **settings).fit(x, y)
    assert model.gap_ <= 1e-3
    assert_allclose(model.decision_function(x).sum(axis=1), 0, atol=1e-8)
    assert model.score(x, y) > 0.7


@joint
def test_a_path_is_the_fit_of_each_penalty(few: tuple[Array, Array], loss: str) -> None:
    x, y = few
    lams = [0.1, 1.0, 10.0]
    path = KernelClassifier(loss=loss, lam=lams, tol=1e-7, bandwidth=1.0).fit(
        x[:160], y[:160], eval_set=(x[160:], y[160:])
    )
    for one in path.path_.models:
        alone = KernelClassifier(loss=loss, lam=one.lam_, tol=1e-7, bandwidth=1.0).fit(x[:160], y[:160])
        assert_allclose(one.decision_function(x), alone.decision_function(x), atol=2e-3)
    if loss == "softmax":
        losses = [log_loss(y[160:], _softmax(one.decision_function(x[160:]))) for one in path.path_.models]
        assert_allclose(-np.array(path.path_.scores), losses, rtol=1e-5)
        assert path.lam_ == lams[int(np.argmin(losses))]


def _softmax(f: Array) -> Array:
    e = np.exp(f - f.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


@joint
def test_a_weight_of_two_is_the_row_twice_and_of_zero_none(few: tuple[Array, Array], loss: str) -> None:
    x, y = few
    w = np.tile([2, 0, 1], 80)
    settings: dict[str, Any] = {"loss": loss, "tol": 1e-8, "bandwidth": 1.0, "class_weight": "balanced"}
    weighted = KernelClassifier(**settings).fit(x, y, sample_weight=w)
    repeated = KernelClassifier(**settings).fit(np.repeat(x, w, axis=0), np.repeat(y, w))
    assert_allclose(weighted.decision_function(x), repeated.decision_function(x), atol=2e-3)


@joint
@pytest.mark.parametrize(
    "settings",
    [
        {"momentum": True, "n_features": 200, "block_size": 100, "max_epochs": 30},
        {"averaging": False, "n_features": 200, "block_size": 100, "max_epochs": 30},
        {"precision": "float32", "block_size": 100, "max_epochs": 100},
    ],
    ids=["momentum", "last iterate", "greedy, float32"],
)
def test_methods_reach_one_solution(few: tuple[Array, Array], loss: str, settings: dict[str, Any]) -> None:
    x, y = few
    common: dict[str, Any] = {"loss": loss, "bandwidth": 1.0, "lam": 3.0, "random_state": 0}
    whole = KernelClassifier(tol=1e-7, n_features=settings.get("n_features"), **common).fit(x, y)
    blocks = KernelClassifier(tol=1e-3, **{**common, **settings}).fit(x, y)
    assert blocks.gap_ <= 2e-3
    assert_allclose(blocks.decision_function(x), whole.decision_function(x), atol=0.1)
    assert_allclose(blocks.history_[-1]["primal"], whole.history_[-1]["primal"], rtol=2e-3)


@joint
def test_early_stopping_and_warm_start(few: tuple[Array, Array], loss: str) -> None:
    x, y = few
    common: dict[str, Any] = {"loss": loss, "n_features": 100, "block_size": 60, "random_state": 0, "tol": 0.0}
    early = KernelClassifier(early_stopping="accuracy", max_epochs=30, **common).fit(x, y)
    assert "validation_score" in early.history_[-1]
    assert early.n_iter_ < 30
    whole = KernelClassifier(max_epochs=4, **common).fit(x, y)
    parts = KernelClassifier(max_epochs=2, warm_start=True, **common).fit(x, y).fit(x, y)
    assert_allclose(parts.decision_function(x), whole.decision_function(x), atol=1e-8)


@joint
@pytest.mark.parametrize("calibrate", [False, True])
def test_a_saved_model_predicts_the_same(tmp_path: Path, few: tuple[Array, Array], loss: str, calibrate: bool) -> None:
    x, y = few
    names = np.array(["low", "middle", "top"])[y]
    model = KernelClassifier(loss=loss, lam=[0.3, 1.0, 3.0], calibrate=calibrate, random_state=0).fit(x, names)
    model.save(tmp_path / "model.joker")
    again = joker.load(tmp_path / "model.joker")
    assert again._loss() == model._loss()
    assert_array_equal(again.decision_function(x), model.decision_function(x))
    assert_array_equal(again.predict(x), model.predict(x))
    if hasattr(model, "predict_proba"):
        assert_array_equal(again.predict_proba(x), model.predict_proba(x))
        for one, other in zip(again.path_.models, model.path_.models, strict=True):
            assert_array_equal(one.predict_proba(x), other.predict_proba(x))


def test_a_file_of_an_earlier_version_is_one_against_the_rest() -> None:
    path = Path(__file__).parent / "fixtures" / "version3_probabilities.joker"
    model = joker.load(path)
    assert model.multi_class == "ovr"
    assert model._loss() == Logistic()


def test_a_store_gives_the_fit_of_its_rows(tmp_path: Path, few: tuple[Array, Array]) -> None:
    x, y = few
    np.savez(tmp_path / "rows.npz", X=x.astype(np.float32), y=y)
    store = joker.data.convert(tmp_path / "rows.npz", tmp_path / "rows.rows", target="y", task="classification")
    settings: dict[str, Any] = {"n_features": 100, "tol": 1e-6, "bandwidth": 1.0, "random_state": 0}
    stored, in_memory = KernelLogistic(**settings).fit(store), KernelLogistic(**settings).fit(x, y)
    assert stored._loss() == Softmax(3)
    assert_allclose(stored.decision_function(x), in_memory.decision_function(x), atol=1e-2)


@joint
@pytest.mark.parametrize("classes", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_many_classes(loss: str, classes: int) -> None:
    """A class is a corner of a cube of ten dimensions, with two rows each."""
    rng = np.random.default_rng(0)
    n = 2 * classes + 1
    y = np.arange(n) % classes
    x = (((y[:, None] >> np.arange(10)) & 1) * 2.0 - 1 + 0.2 * rng.normal(size=(n, 10))).astype(np.float32)
    settings: dict[str, Any] = {"lam": 0.1, "n_features": 256, "block_size": 90, "max_epochs": 2, "random_state": 0}
    model = KernelClassifier(loss=loss, bandwidth=2.0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", joker.errors.ConvergenceWarning)
        model.fit(x, y)
    assert model.decision_function(x[:5]).shape == (5, classes)
    assert model.score(x, y) > 0.9


@pytest.mark.parametrize("model", [KernelSVC(), KernelSVC(multi_class="crammer_singer"), KernelLogistic()])
def test_calibration_improves_the_log_loss(model: Any) -> None:
    fitted = model.set_params(calibrate=True, random_state=0, lam=0.3).fit(X[TRAIN], Y[TRAIN])
    p = fitted.predict_proba(X[TEST])
    assert_allclose(p.sum(axis=1), 1, rtol=1e-6)
    plain = log_loss(Y[TEST], _softmax(fitted.decision_function(X[TEST])))
    assert log_loss(Y[TEST], p) < (0.95 if isinstance(model, KernelLogistic) else 0.5) * plain
    assert log_loss(Y[TEST], p) < 0.35


def test_calibration_of_two_classes(few: tuple[Array, Array]) -> None:
    x, y = few
    label = np.where(y > 0, "yes", "no")
    model = KernelSVC(calibrate=True, random_state=0).fit(x[:160], label[:160], eval_set=(x[160:], label[160:]))
    p = model.predict_proba(x)
    assert p.shape == (240, 2)
    held = label[160:] == "yes"
    assert_allclose(p[160:, 1].mean(), held.mean(), atol=0.05)
    assert log_loss(held, p[160:, 1]) < log_loss(held, np.full(80, held.mean()))
    order = np.argsort(model.decision_function(x))
    assert (np.diff(p[order, 1]) >= 0).all()


def test_a_fit_without_calibration_forgets_the_last_one(few: tuple[Array, Array]) -> None:
    x, y = few
    model = KernelLogistic(calibrate=True, random_state=0).fit(x, y)
    assert model._offsets is not None
    model.set_params(calibrate=False).fit(x, y)
    assert model._offsets is None


# Bad input


@pytest.mark.parametrize("model", [KernelLogistic(), KernelSVC(multi_class="crammer_singer")])
def test_one_class_is_refused(few: tuple[Array, Array], model: Any) -> None:
    with pytest.raises(InvalidData, match=r"y must have at least two classes; got one class, 7\. Add rows\."):
        model.fit(few[0], np.full(240, 7))


@joint
def test_a_class_with_one_row_is_fitted(few: tuple[Array, Array], loss: str) -> None:
    x, y = few
    y = np.where(np.arange(240) == 17, 3, y)
    model = KernelClassifier(loss=loss, lam=0.01).fit(x, y)
    assert model.decision_function(x).shape == (240, 4)
    assert model.classes_.tolist() == [0, 1, 2, 3]


def test_a_class_with_one_row_is_not_held_out(few: tuple[Array, Array]) -> None:
    x, y = few
    y = np.where(np.arange(240) == 17, 3, y)
    with pytest.raises(InvalidData, match=r"every class must have at least two rows .* class 3 has one.* eval_set"):
        KernelLogistic(calibrate=True).fit(x, y)
    model = KernelLogistic(lam=[0.1, 1.0]).fit(x, y)
    assert model.decision_function(x).shape == (240, 4)


@joint
def test_an_eval_set_may_lack_classes_but_not_have_others(few: tuple[Array, Array], loss: str) -> None:
    x, y = few
    some = np.flatnonzero(y < 2)[:40]
    model = KernelClassifier(loss=loss, lam=[0.1, 1.0, 10.0], calibrate=True)
    assert np.isfinite(model.fit(x, y, eval_set=(x[some], y[some])).path_.scores).all()
    assert_allclose(model.predict_proba(x).sum(axis=1), 1, rtol=1e-6)
    with pytest.raises(InvalidData, match=r"y of eval_set must have classes of y only; found 5"):
        model.fit(x, y, eval_set=(x[some], np.full(40, 5)))


@joint
def test_weights_that_remove_a_class_leave_it_a_class(few: tuple[Array, Array], loss: str) -> None:
    x, y = few
    model = KernelClassifier(loss=loss).fit(x, y, sample_weight=(y != 1).astype(float))
    assert model.classes_.tolist() == [0, 1, 2]
    assert 1 not in model.predict(x)
    without = KernelClassifier(loss=loss, class_weight={1: 0.0}).fit(x, y)
    assert_array_equal(without.predict(x), model.predict(x))


@pytest.mark.parametrize(
    ("model", "kind", "sentence"),
    [
        (KernelLogistic(multi_class="softmx"), UnknownName, "multi_class of KernelLogistic must be one of"),
        (KernelLogistic(multi_class="crammer_singer"), UnknownName, "multi_class of KernelLogistic must be one of"),
        (KernelSVC(multi_class="softmax"), UnknownName, "multi_class of KernelSVC must be one of"),
        (KernelSVC(multi_class=None), UnknownName, "multi_class of KernelSVC must be one of"),
        (KernelSVC(calibrate="yes"), InvalidParameter, "calibrate must be True or False; got 'yes'"),
        (KernelClassifier(loss="multinomial"), UnknownName, "Use loss='softmax'"),
    ],
)
def test_a_wrong_setting_is_refused(few: tuple[Array, Array], model: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        model.fit(*few)


def test_a_regressor_has_no_loss_of_classes(few: tuple[Array, Array]) -> None:
    with pytest.raises(InvalidParameter, match="loss must be one for regression; got 'softmax'"):
        joker.KernelRegressor(loss="softmax").fit(few[0], few[0][:, 0])


@pytest.mark.parametrize(
    "model",
    [
        KernelLogistic(),
        pytest.param(KernelSVC(multi_class="crammer_singer", calibrate=True), marks=pytest.mark.slow),
    ],
)
def test_settings_are_tuned(few: tuple[Array, Array], model: Any) -> None:
    """One bandwidth and two λ, so that the search is short."""
    x, y = few
    settings: dict[str, Any] = {"kernels": ["gaussian"], "bandwidths": [1.0], "lam": [0.3, 3.0], "relevance": False}
    tuned = joker.tune(x, y, estimator=model, random_state=0, **settings).estimator
    assert isinstance(tuned._loss(), Softmax | CrammerSinger)
    assert tuned.score(x, y) > 0.7
    assert_allclose(tuned.predict_proba(x).sum(axis=1), 1, rtol=1e-6)
