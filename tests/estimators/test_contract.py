"""The places where scikit-learn's users put an estimator, beyond what its own checks try."""

import pickle
from inspect import signature
from io import BytesIO
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import joker
from joker.errors import InvalidData

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=120)
W = RNG.uniform(0.1, 2.0, 120)
NAMES = np.where(Y > 0, "yes", "no")
FRAME = pd.DataFrame(X, columns=["a", "b"])
EVERY = [  # with targets
    kind
    for name in joker.__all__
    if name.startswith("Kernel") and "lam" in signature(kind := getattr(joker, name)).parameters
]
TIGHT = {"tol": 1e-12, "bandwidth": 1.0, "lam": 0.1}


def targets_of(kind: type) -> Any:
    """Classes, positive numbers for a loss of the log of the mean, or any numbers."""
    if hasattr(kind, "decision_function"):
        return NAMES
    return np.exp(Y) if kind in (joker.KernelGamma, joker.KernelPoisson, joker.KernelTweedie) else Y


def fitted(kind: type, **settings: Any) -> Any:
    return kind(**settings).fit(X, targets_of(kind))


@pytest.mark.parametrize("kind", EVERY)
def test_a_copy_is_the_same_model(kind: type) -> None:
    """Pickled, by joblib, and with a path; a clone has the settings and nothing learnt."""
    model = fitted(kind, lam=[0.1, 1.0], random_state=0)
    file = BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(file)):
        assert_array_equal(copy.predict(X), model.predict(X))
        assert_array_equal(copy.path_.predict(X), model.path_.predict(X))
        assert repr(copy) == repr(model)
    assert clone(model).get_params() == model.get_params()
    assert not [name for name in vars(clone(model)) if name.endswith("_")]


def test_searched_and_cross_validated_at_once_by_threads() -> None:
    """What fits share between threads would show as another result."""
    pipe = make_pipeline(StandardScaler(), joker.KernelRidge(random_state=0))
    with joblib.parallel_config(backend="threading"):
        search = GridSearchCV(pipe, {"kernelridge__lam": [1e-2, 1.0, 1e3]}, cv=3, n_jobs=2).fit(X, Y)
        scores = cross_val_score(joker.KernelSVC(random_state=0), X, NAMES, cv=3, n_jobs=2)
    assert search.best_params_["kernelridge__lam"] < 1e3
    alone = GridSearchCV(pipe, {"kernelridge__lam": [1e-2, 1.0, 1e3]}, cv=3).fit(X, Y)
    assert_allclose(search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"], rtol=1e-9)
    assert_allclose(scores, cross_val_score(joker.KernelSVC(random_state=0), X, NAMES, cv=3))


# Data frames.


def test_a_frame_goes_through_a_pipeline_with_its_names() -> None:
    frame = FRAME.assign(kind=NAMES)
    columns = make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(sparse_output=False), ["kind"]))
    pipe = (
        make_pipeline(clone(columns), joker.KernelRidge(lam=0.1))
        .set_output(transform="pandas")
        .fit(frame, pd.Series(Y))
    )
    names = ["standardscaler__a", "standardscaler__b", "onehotencoder__kind_no", "onehotencoder__kind_yes"]
    assert pipe[-1].feature_names_in_.tolist() == names
    plain = make_pipeline(clone(columns), joker.KernelRidge(lam=0.1)).set_output(transform="default").fit(frame, Y)
    assert_allclose(pipe.predict(frame), plain.predict(frame))


@pytest.mark.parametrize("kind", EVERY)
def test_other_columns_than_in_training_are_refused(kind: type) -> None:
    y = targets_of(kind)
    model = kind().fit(FRAME, y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    for other in (FRAME[["b", "a"]], FRAME.rename(columns={"a": "z"}), FRAME.assign(c=1.0), FRAME[["a"]]):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(other)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    with pytest.raises(ValueError, match="feature names should match"):
        model.fit(FRAME, y, eval_set=(FRAME[["b", "a"]], y))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (pd.Series(NAMES), ["no", "yes"]),
        (pd.Series(NAMES, dtype=object), ["no", "yes"]),
        (pd.Series(pd.Categorical(NAMES, categories=["yes", "no"], ordered=True)), ["no", "yes"]),
        (pd.Series(NAMES == "yes"), [False, True]),
        (pd.Series(np.where(NAMES == "yes", 7, 3), dtype="Int64"), [3, 7]),
        (NAMES.tolist(), ["no", "yes"]),
    ],
    ids=["str", "object", "category", "bool", "Int64", "list"],
)
def test_classes_are_sorted_whatever_holds_them(labels: Any, classes: list[Any]) -> None:
    model = joker.KernelSVC(lam=[0.1, 1.0]).fit(FRAME, labels, eval_set=(FRAME, labels))
    assert model.classes_.tolist() == classes
    assert model.score(FRAME, labels) > 0.9
    assert_array_equal(model.predict(FRAME) == classes[1], model.decision_function(FRAME) > 0)


def test_rows_of_no_class_are_refused() -> None:
    spoilt = pd.Series(NAMES, dtype=object)
    spoilt[3] = None
    for given in (spoilt, spoilt.tolist(), spoilt.to_numpy()):
        with pytest.raises(InvalidData, match=r"a class for each row; found None in row 3\. Leave such rows out"):
            joker.KernelSVC().fit(X, given)
        with pytest.raises(InvalidData, match="found None in row 3"):
            joker.KernelSVC().fit(X, NAMES, eval_set=(X, given))
    with pytest.raises(ValueError, match="NaN"):
        joker.KernelSVC().fit(X, pd.Series(NAMES).where(pd.Series(NAMES) != "no"))


# Tensors and types.


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
def test_tensors_of_any_type_are_taken(dtype: torch.dtype) -> None:
    x = (4 * torch.tensor(X)).to(dtype)
    model = joker.KernelRidge(lam=0.1, bandwidth=4.0).fit(x, torch.tensor(Y))
    same = joker.KernelRidge(lam=0.1, bandwidth=4.0).fit(x.double().numpy(), Y)
    assert_allclose(model.predict(x), same.predict(x.double().numpy()), atol=1e-5)


@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_single_precision_in_gives_the_predictions_of_double(dtype: str) -> None:
    model = joker.KernelSVR(lam=0.1, bandwidth=1.0, dtype=dtype, tol=1e-5).fit(X.astype(np.float32), Y)
    assert_allclose(model.predict(X.astype(np.float32)), fitted(joker.KernelSVR, **TIGHT).predict(X), atol=5e-3)


# Weights and held-out rows find their way.


@pytest.fixture
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("_routing")
def test_weights_are_routed_through_a_search_of_pipelines() -> None:
    """Rows of weight 0 are spoilt: unless the weights reach both fit and score, nothing good comes of it."""
    spoilt, w = Y.copy(), np.ones(120)
    spoilt[::4], w[::4] = 1e3, 0
    last = joker.KernelRidge(lam=0.1).set_fit_request(sample_weight=True)
    pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), last)
    settings = {"scoring": get_scorer("r2").set_score_request(sample_weight=True), "cv": 3, "error_score": "raise"}
    search = GridSearchCV(pipe, {"kernelridge__lam": [0.1, 1e3]}, **settings)
    search.fit(X, spoilt, sample_weight=w)
    assert search.best_params_ == {"kernelridge__lam": 0.1}
    assert search.best_score_ > 0.8
    scores = cross_validate(pipe, X, spoilt, params={"sample_weight": w}, **settings)
    assert np.mean(scores["test_score"]) > 0.8


@pytest.mark.usefixtures("_routing")
def test_held_out_rows_are_routed_through_a_search() -> None:
    held = (X[:30], Y[:30])
    last = joker.KernelRidge(lam=[0.1, 1e3]).set_fit_request(eval_set=True, sample_weight=False)
    search = GridSearchCV(last, {"kernel": ["gaussian", "linear"]}, cv=3, error_score="raise").fit(X, Y, eval_set=held)
    assert search.best_params_ == {"kernel": "gaussian"}
    alone = joker.KernelRidge(lam=[0.1, 1e3]).fit(X, Y, eval_set=held)
    assert_allclose(search.best_estimator_.path_.scores, alone.path_.scores, rtol=1e-4)


@pytest.mark.usefixtures("_routing")
def test_weights_that_nobody_asked_for_are_refused() -> None:
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
        make_pipeline(StandardScaler(), joker.KernelRidge()).fit(X, Y, sample_weight=W)


def test_a_class_without_weight_is_kept_by_every_classifier() -> None:
    y = np.where(X[:, 1] > 1, "rare", NAMES)
    for kind in (joker.KernelClassifier, joker.KernelSVC, joker.KernelLogistic):
        model = kind(lam=0.1).fit(X, y, sample_weight=(y != "rare").astype(float))
        assert model.classes_.tolist() == ["no", "rare", "yes"]
        assert model.decision_function(X).shape == (120, 3)
        assert "rare" not in model.predict(X)


# Estimators around estimators.


@pytest.mark.parametrize("frozen", [False, True])
def test_a_support_vector_machine_is_calibrated(frozen: bool) -> None:
    inner = joker.KernelSVC(lam=0.1)
    model = CalibratedClassifierCV(FrozenEstimator(inner.fit(X, NAMES)) if frozen else inner, cv=3)
    p = model.fit(X, NAMES, sample_weight=None if frozen else W).predict_proba(X)
    assert model.score(X, NAMES) > 0.9
    assert_allclose(p.sum(axis=1), 1)
    assert abs(np.mean(p[:, 1]) - np.mean(NAMES == "yes")) < 0.1


def test_wrappers_for_many_outputs_find_what_one_pass_does() -> None:
    both = np.stack([Y, X[:, 1] ** 2], axis=1)
    one_by_one = MultiOutputRegressor(joker.KernelHuber(**TIGHT)).fit(X, both)
    assert_allclose(one_by_one.predict(X), joker.KernelHuber(**TIGHT).fit(X, both).predict(X), atol=1e-5)
    classes = np.stack([NAMES, np.where(X[:, 1] > 0, "up", "down")], axis=1)
    assert MultiOutputClassifier(joker.KernelSVC(lam=0.1)).fit(X, classes).predict(X).shape == (120, 2)
    three = np.where(X[:, 1] > 1, "rare", NAMES)
    rest = OneVsRestClassifier(joker.KernelLogistic(**TIGHT)).fit(X, three)
    one_pass = joker.KernelLogistic(multi_class="ovr", **TIGHT).fit(X, three)
    assert_allclose(rest.decision_function(X), one_pass.decision_function(X), atol=1e-4)
    assert np.array_equal(rest.predict(X), one_pass.predict(X))


def test_wrappers_of_regressors() -> None:
    bag = BaggingRegressor(joker.KernelRidge(lam=0.1), n_estimators=3, random_state=0).fit(X, Y, sample_weight=W)
    assert bag.score(X, Y) > 0.9
    through = TransformedTargetRegressor(joker.KernelRidge(lam=0.1), func=np.log, inverse_func=np.exp)
    assert through.fit(X, np.exp(Y)).score(X, np.exp(Y)) > 0.9


# The intercept.


@pytest.mark.parametrize("kind", [joker.KernelRidge, joker.KernelSVR])
def test_a_million_on_top_changes_nothing_but_the_intercept(kind: type) -> None:
    """The weight of the constant is penalised; the targets are moved by their mean, so that it stays small."""
    here, there = (kind(**TIGHT).fit(X, Y + offset) for offset in (0.0, 1e6))
    assert_allclose(there.predict(X) - 1e6, here.predict(X), atol=1e-4)
    assert_allclose(there.intercept_ - 1e6, here.intercept_, atol=1e-4)
    assert_allclose(there.dual_coef_, here.dual_coef_, atol=1e-3)
    single = kind(**{**TIGHT, "tol": 1e-5}, dtype="float32").fit(X, Y + 1e6)
    assert_allclose(single.predict(X) - 1e6, here.predict(X), atol=0.07)  # the spacing of float32 there is 1/16
    without = kind(**TIGHT, fit_intercept=False).fit(X, Y + 1e6)
    assert without.intercept_ == 0
    assert abs(without.predict([[50.0, 50.0]])[0]) < 1  # nothing holds the offset where there are no rows


def test_the_constant_is_penalised_like_every_weight() -> None:
    """As documented: a column of ones beside the inputs, for a classifier, and no other intercept."""
    ones = np.hstack([X, np.ones((120, 1))])
    linear = {"kernel": "linear", "lam": 3.0, "tol": 1e-12}
    inside = joker.KernelSVC(**linear).fit(X, NAMES)
    beside = joker.KernelSVC(**linear, fit_intercept=False).fit(ones, NAMES)
    assert_allclose([*inside.coef_.ravel(), inside.intercept_.item()], beside.coef_.ravel(), atol=1e-6)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("n_features", [None, 30])
def test_quantiles_never_cross(d: int, n_features: int | None) -> None:
    """With few rows, hardly a penalty, and far beyond the rows, where nothing but the order of the levels holds."""
    rng = np.random.default_rng(d)
    x = rng.normal(size=(40, d))
    model = joker.KernelQuantile(
        quantile=[0.1, 0.5, 0.9], lam=1e-3, bandwidth="median", n_features=n_features, random_state=0
    )
    found = model.fit(x, rng.normal(size=40)).predict(4 * rng.normal(size=(2_000, d)))
    assert np.all(np.diff(found, axis=1) >= 0)
    f = model._decide(4 * rng.normal(size=(2_000, d)))
    assert np.any(np.diff(f, axis=1) < 0), "the example is meant to be one where they would cross"
