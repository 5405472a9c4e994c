"""A notebook shows scikit-learn's diagram and, after the fit, a table of its result."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

import joker
from joker.losses import Squared

X = np.random.default_rng(0).normal(size=(80, 2))
Y = np.sin(X[:, 0])
CELL = re.compile(r"<tr><th>(.*?)</th><td>(.*?)</td></tr>")


def table(model: object) -> dict[str, str]:
    """The table after scikit-learn's diagram, which is the same in both protocols."""
    shown, bundle = model._repr_html_(), model._repr_mimebundle_()
    summary = shown[shown.rindex("<table>") :]
    assert bundle["text/html"].endswith(summary)
    assert bundle["text/plain"] == repr(model)
    assert "sk-container-id" in shown
    return dict(CELL.findall(summary))


def test_the_table_of_a_fitted_estimator() -> None:
    model = joker.KernelHuber(delta=0.5, lam=[0.1, 1.0], bandwidth=1.5).fit(X, Y, eval_set=(X, Y))
    shown = table(model)
    assert shown.pop("seconds")
    assert shown == {
        "loss": "Huber(delta=0.5)",
        "kernel": "Gaussian",
        "bandwidth σ": "1.5",
        "λ": "0.1 (best of 2)",
        "rows": "80",
        "epochs": str(model.n_iter_),
        "relative gap": f"{model.gap_:.2e}",
        "stopped": model.stop_reason_,
        "conclusion": model.conclusion_,
    }


def test_features_and_levels_are_counted() -> None:
    shown = table(joker.KernelQuantile(quantile=[0.1, 0.9], n_features=1_000, lam=0.125).fit(X, Y))
    assert shown["loss"] == "Quantile(quantile=[0.1, 0.9])"
    assert shown["features"] == "1,000"
    assert shown["λ"] == "0.125"
    linear = table(joker.KernelSVC(kernel="linear", fit_intercept=False).fit(X, Y > 0))
    assert linear["features"] == "2"
    assert "bandwidth σ" not in linear
    assert table(joker.KernelRidge(kernel="polynomial").fit(X, Y))["kernel"] == "Polynomial(degree=3)"


def test_before_the_fit_there_is_no_table() -> None:
    model = joker.KernelRidge()
    numbered = re.compile(r"sk-\w+-id-\d+")
    assert numbered.sub("", model._repr_html_()) == numbered.sub("", estimator_html_repr(model))
    assert "relative gap" not in model._repr_mimebundle_()["text/html"]


def test_everything_is_escaped() -> None:
    @dataclass(frozen=True)
    class Odd(Squared):
        note: str = "<script>&"

    shown = table(joker.KernelRegressor(loss=Odd()).fit(X, Y))
    assert shown["loss"] == "Odd(note=&lt;script&gt;&amp;)"


def test_text_is_shown_if_scikit_learn_is_set_to_text() -> None:
    model = joker.KernelRidge().fit(X, Y)
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert model._repr_mimebundle_() == {"text/plain": repr(model)}


def test_invalid_parameters_after_the_fit_hide_the_table() -> None:
    for spoilt in ({"kernel": "gausian"}, {"delta": -1.0}):
        model = joker.KernelHuber().fit(X, Y).set_params(**spoilt)
        assert "relative gap" not in model._repr_html_()


@pytest.mark.parametrize("fitted", [False, True])
def test_a_pipeline_is_shown(fitted: bool) -> None:
    pipe = make_pipeline(StandardScaler(), joker.KernelSVC())
    pipe = pipe.fit(X, Y > 0) if fitted else clone(pipe)
    assert "KernelSVC" in pipe._repr_html_()
    assert "KernelSVC" in pipe._repr_mimebundle_()["text/html"]
