"""Messages for what users of other libraries write, and for columns that hold no numbers."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import joker
from joker.errors import InvalidData, UnknownName, UnknownSetting

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = X[:, 0]
LABELS = np.where(Y > 0, "Adelie", "Gentoo")

SETTINGS: list[tuple[type, dict[str, Any], str]] = [
    (joker.KernelSVC, {"C": 10.0}, r"KernelSVC has no parameter 'C'; .* It is 1 / lam. Use lam=0.1.$"),
    (joker.KernelSVC, {"C": "big"}, r"Use lam=1.0.$"),
    (joker.KernelSVC, {"gamma": 2.0}, r"bandwidth is \(2 \* gamma\) \*\* -0.5 .* Use bandwidth=0.5.$"),
    (joker.KernelSVR, {"gamma": "scale"}, r"Use bandwidth='auto'.$"),
    (joker.KernelRidge, {"alpha": 0.5}, r"It is called lam. Use lam=0.5.$"),
    (joker.KernelSVC, {"max_iter": 7}, r"Use max_epochs=7.$"),
    (joker.KernelSVC, {"probability": True}, r"Use calibrate=True, or KernelLogistic"),
    (joker.KernelSVC, {"lamb": 1.0}, r"Did you mean 'lam'\?$"),
    (joker.KernelRidge, {"loss": "huber"}, r"KernelRidge has no parameter 'loss'"),
    (joker.KernelRidge, {"zzz": 1}, r"Use one of averaging, .*, warm_start.$"),
]


@pytest.mark.parametrize(("kind", "given", "said"), SETTINGS)
def test_parameters_of_other_libraries_are_translated(kind: Any, given: dict[str, Any], said: str) -> None:
    for make in (lambda: kind(**given), lambda: kind().set_params(**given)):
        with pytest.raises(UnknownSetting, match=said) as caught:
            make()
        assert isinstance(caught.value, TypeError)  # as Python raises it
        assert isinstance(caught.value, ValueError)  # as scikit-learn's set_params raises it


def test_the_translations_are_right() -> None:
    """λ of C and σ of γ give scikit-learn's machine."""
    from sklearn.svm import SVC

    mirrored, labels = np.vstack([X, -X]), np.concatenate([Y > 0, Y < 0])
    theirs = SVC(C=10.0, gamma=2.0).fit(mirrored, labels)
    ours = joker.KernelSVC(loss="hinge", lam=0.1, bandwidth=0.5, fit_intercept=False, tol=1e-9).fit(mirrored, labels)
    assert np.abs(ours.decision_function(X) - theirs.decision_function(X)).max() < 0.02


@pytest.mark.parametrize(
    ("kernel", "said"),
    [("rbf", "got 'rbf'. Use kernel='gaussian'"), ("RBF", "Use kernel='gaussian'"), ("poly", "kernel='polynomial'")],
)
def test_kernels_of_other_libraries_are_translated(kernel: str, said: str) -> None:
    for run in (lambda: joker.KernelSVC(kernel=kernel).fit(X, LABELS), lambda: joker.tune(X, Y, kernels=[kernel])):
        with pytest.raises(UnknownName, match=said):
            run()


@pytest.mark.parametrize(
    ("make", "said", "other"),
    [
        (lambda: joker.KernelRegressor(loss="mse"), "got 'mse'. Use loss='squared'", "hinge"),
        (lambda: joker.KernelRegressor(loss="log_loss"), "loss must be one of absolute", "logistic"),
        (lambda: joker.KernelClassifier(loss="log_loss"), "Use loss='logistic'", "huber"),
        (lambda: joker.KernelClassifier(loss="hing"), "Did you mean 'hinge'", "huber"),
    ],
)
def test_only_losses_of_the_task_are_offered(make: Callable[[], Any], said: str, other: str) -> None:
    with pytest.raises(UnknownName, match=said) as caught:
        make().fit(X, Y > 0)
    assert f" {other}," not in str(caught.value)
    assert f" {other};" not in str(caught.value)


def test_missing_probabilities_are_explained() -> None:
    model = joker.KernelSVC().fit(X, LABELS)
    with pytest.raises(AttributeError, match=r"needs the logistic loss or the softmax; KernelSVC .* calibrate=True"):
        model.predict_proba(X)
    assert not hasattr(model, "predict_proba")
    assert hasattr(joker.KernelLogistic(), "predict_proba")
    assert "probability of each class" in str(joker.KernelLogistic.predict_proba.__doc__)


@pytest.mark.parametrize("run", ["fit", "tune", "predict"])
@pytest.mark.parametrize("kind", ["text", "category", "date", "object dates"])
def test_a_column_without_numbers_is_named(run: str, kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    dates = pandas.date_range("2020-01-31", periods=30)
    columns = {"text": ["3", "low"] * 15, "category": ["low", "high"] * 15, "date": dates, "object dates": list(dates)}
    value = {"text": "'low' in column 'risk', row 1", "category": "'low' in column 'risk', row 0"}
    frame = pandas.DataFrame({"a": Y, "risk": columns[kind]})
    if kind in ("category", "object dates"):
        frame["risk"] = frame["risk"].astype("category" if kind == "category" else object)
    said = "X must have numbers only; found " + value.get(kind, "'2020-01-31.*' in column 'risk', row 0")
    model = joker.KernelRidge().fit(frame.assign(risk=1.0), Y)
    runs = {
        "fit": lambda: joker.KernelRidge().fit(frame, Y),
        "tune": lambda: joker.tune(frame, Y),
        "predict": lambda: model.predict(frame),
    }
    with pytest.raises(InvalidData, match=said):
        runs[run]()


def test_a_column_of_an_array_and_of_polars_is_named() -> None:
    with pytest.raises(InvalidData, match="found 'b' in column 1, row 0"):
        joker.KernelRidge().fit([[1, "b"]] * 30, Y)
    with pytest.raises(InvalidData, match="found 'b' in column 1, row 0"):
        joker.KernelRidge().fit(np.array([[1, "b"]] * 30, dtype=object), Y)
    polars = pytest.importorskip("polars")
    with pytest.raises(InvalidData, match="found 'b' in column 'risk', row 0"):
        joker.KernelRidge().fit(polars.DataFrame({"a": Y, "risk": ["b"] * 30}), Y)


@pytest.mark.parametrize("y", [LABELS, LABELS.astype(object), np.full(30, "2020-01-01", "M8[D]")])
def test_text_and_times_are_no_targets_of_a_regression(y: Any) -> None:
    with pytest.raises(
        InvalidData, match=r"y must be numbers for a regressor; found '(Adelie|Gentoo|2020-01-01)' in row 0"
    ):
        joker.KernelRidge().fit(X, y)


def test_labels_are_written_as_the_user_wrote_them() -> None:
    with pytest.raises(InvalidData, match="got one class, 'Adelie'"):
        joker.KernelSVC().fit(X, np.full(30, "Adelie"))
    with pytest.raises(InvalidData, match="found 'Chinstrap'"):
        joker.KernelSVC().fit(X, LABELS, eval_set=(X, np.full(30, "Chinstrap")))


def test_progress_of_one_block_has_no_last_epoch() -> None:
    rich = pytest.importorskip("rich.console")
    for n, said in ((30, "epoch 1,"), (3000, "epoch 2 of 2,")):
        out = io.StringIO()
        watch = joker.callbacks.Progress(console=rich.Console(file=out, width=200))
        x = RNG.normal(size=(n, 2))
        joker.KernelRidge(callbacks=[watch], max_epochs=2, tol=0 if n > 30 else 0.5, n_features=20).fit(x, x[:, 0])
        assert said in out.getvalue()
        assert "200" not in out.getvalue()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_and_infinite_inputs_are_named_with_a_remedy(value: float) -> None:
    bad = X.copy()
    bad[7, 1] = value
    said = r"Input X contains (NaN|infinity): .* must be finite; it is in column {}, row 7\. {}"
    remedy = (
        "Use JokerClassifier or JokerRegressor, which take missing values" if np.isnan(value) else "Replace infinity"
    )
    for given, column in ((bad, "1"), (pd.DataFrame(bad, columns=["size", "age"]), "'?age'?")):
        for kind in (joker.KernelRidge, joker.KernelClassifier):
            with pytest.raises(InvalidData, match=said.format(column, remedy)) as caught:
                kind().fit(given, LABELS if kind is joker.KernelClassifier else Y)
            assert "HistGradientBoosting" not in str(caught.value)
            assert caught.value.__suppress_context__
    with pytest.raises(InvalidData, match=said.format("1", remedy)):
        joker.KernelRidge().fit(X, Y).predict(bad)


@pytest.mark.parametrize(("value", "said"), [(np.nan, "Leave such rows out"), (np.inf, "Replace infinity")])
def test_missing_and_infinite_targets_are_refused_with_a_remedy(value: float, said: str) -> None:
    y = Y.copy()
    y[3] = value
    with pytest.raises(InvalidData, match=f"Input y contains .*: targets must be finite. {said}"):
        joker.KernelRidge().fit(X, y)


def test_a_rule_of_svc_for_gamma_is_translated() -> None:
    with pytest.raises(UnknownName, match=r"bandwidth=\(X.shape\[1\] \* X.var\(\) / 2\) \*\* 0.5 and "):
        joker.KernelSVC(bandwidth="scale").fit(X, LABELS)
    gamma = 1 / (X.shape[1] * X.var())  # of scikit-learn
    assert (2 * gamma) ** -0.5 == pytest.approx((X.shape[1] * X.var() / 2) ** 0.5)


def test_rows_that_need_no_check_are_predicted_like_others() -> None:
    model = joker.KernelRidge().fit(X, Y)
    assert np.array_equal(model.predict(X), model.predict(X.tolist()))
    with pytest.raises(ValueError, match="3 features, but KernelRidge is expecting 2"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        model.predict(np.zeros((0, 2)))
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.predict(np.zeros(2))
