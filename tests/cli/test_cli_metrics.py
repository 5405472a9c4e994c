"""Metrics that are added up in batches equal those of scikit-learn on all rows."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_absolute_error,
    mean_pinball_loss,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from joker import KernelClassifier, KernelQuantile, KernelRegressor, KernelRidge
from joker.cli.metrics import metrics_of
from joker.cli.model_files import KernelModel
from joker.errors import InvalidData


def metrics(model: Any, x: NDArray[Any], y: NDArray[Any], step: int = 7) -> dict[str, Any]:
    found = metrics_of(KernelModel(model))
    for start in range(0, len(x), step):
        found.add(x[start : start + step], y[start : start + step], start)
    assert found.rows == len(x)
    return found.values


@pytest.fixture
def x(rng: np.random.Generator) -> NDArray[np.float64]:
    return rng.normal(size=(60, 2))


def test_two_classes(x: NDArray[np.float64], rng: np.random.Generator) -> None:
    y = np.where(x[:, 0] + 0.5 * rng.normal(size=60) > 0, "up", "down")
    model = KernelClassifier(loss="logistic").fit(x, y)
    p = model.predict_proba(x)
    expected = {
        "accuracy": accuracy_score(y, model.predict(x)),
        "auc": roc_auc_score(y == "up", model.decision_function(x)),
        "log_loss": log_loss(y, p),
    }
    assert metrics(model, x, y) == pytest.approx(expected)


def test_three_classes_and_no_probabilities(x: NDArray[np.float64]) -> None:
    y = np.digitize(x[:, 0], [-0.5, 0.5])
    model = KernelClassifier().fit(x, y)
    assert metrics(model, x, y.astype(float)) == {
        "accuracy": pytest.approx(accuracy_score(y, model.predict(x))),
        "auc": None,
        "log_loss": None,
    }


def test_labels_of_text_are_matched_with_classes_of_numbers(x: NDArray[np.float64]) -> None:
    y = (x[:, 0] > 0).astype(np.int64)
    model = KernelClassifier().fit(x, y)
    assert metrics(model, x, y.astype(str)) == metrics(model, x, y)


def test_a_class_that_the_model_does_not_know_is_refused(x: NDArray[np.float64]) -> None:
    model = KernelClassifier().fit(x, np.where(x[:, 0] > 0, "b", "d"))
    for odd in ("a", "c", "e"):
        y = np.array(["b"] * 9 + [odd] + ["d"] * 50)
        with pytest.raises(InvalidData, match=f"classes of the model, b, d; found '{odd}' in row 9"):
            metrics(model, x, y)


def test_one_class_has_no_area(x: NDArray[np.float64]) -> None:
    model = KernelClassifier().fit(x, x[:, 0] > 0)
    assert metrics(model, x, np.ones(60, bool))["auc"] is None


def test_numbers(x: NDArray[np.float64], rng: np.random.Generator) -> None:
    y = 1e4 + x[:, 0] + 0.1 * rng.normal(size=60)  # far from 0: sums of squares must keep their digits
    model = KernelRidge().fit(x, y)
    f = model.predict(x)
    expected = {
        "rmse": root_mean_squared_error(y, f),
        "mae": mean_absolute_error(y, f),
        "r2": r2_score(y, f),
        "relative_error": np.sqrt(np.mean(((f - y) / y) ** 2)),
    }
    assert metrics(model, x, y) == pytest.approx(expected, rel=1e-9)


def test_several_outputs(x: NDArray[np.float64]) -> None:
    y = np.stack([x[:, 0], 5 - x[:, 1] ** 2], axis=1)
    model = KernelRidge().fit(x, y)
    assert metrics(model, x, y)["r2"] == pytest.approx(r2_score(y, model.predict(x)))
    with pytest.raises(InvalidData, match="must have the 2 columns that the model predicts; got 3"):
        metrics(model, x, np.ones((60, 3)))


def test_metrics_that_are_not_defined_are_none(x: NDArray[np.float64]) -> None:
    model = KernelRidge().fit(x, x[:, 0])
    assert metrics(model, x, np.zeros(60))["relative_error"] is None
    assert metrics(model, x, np.zeros(60))["r2"] is None


@pytest.mark.parametrize("levels", [0.2, [0.1, 0.9]])
def test_quantiles(x: NDArray[np.float64], levels: float | list[float]) -> None:
    y = x[:, 0] + x[:, 1]
    model = KernelQuantile(quantile=levels).fit(x, y)
    f = model.predict(x).reshape(60, -1)
    columns = list(zip(np.atleast_1d(levels), f.T, strict=True))
    found = metrics(model, x, y)
    assert np.ravel(found["pinball_loss"]) == pytest.approx([mean_pinball_loss(y, g, alpha=a) for a, g in columns])
    assert np.ravel(found["coverage"]) == pytest.approx([np.mean(y <= g) for _, g in columns])
    assert np.ravel(found["mae"]) == pytest.approx([mean_absolute_error(y, g) for _, g in columns])


def test_the_quantile_loss_of_a_regressor(x: NDArray[np.float64]) -> None:
    model = KernelRegressor(loss="quantile", quantile=0.7).fit(x, x[:, 0])
    expected = mean_pinball_loss(x[:, 0], model.predict(x), alpha=0.7)
    assert metrics(model, x, x[:, 0])["pinball_loss"] == pytest.approx(expected)
