"""A linear trend beside the kernel: its fit, its residuals, predictions outside the data, files and ONNX."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raw_tables import FAST

import joker
from joker.tables.problem import TableProblem, validation_of
from joker.tables.table import read_table
from joker.tables.trend import TrendInputs, trend_inputs

ROWS = 300


def problem_of(frame: dict[str, Any], y: Any, groups: Any = None, **settings: Any) -> TableProblem:
    table = read_table(frame)
    validation = validation_of(table, y, 0, None, groups, None)
    return TableProblem(table, y, 0, joker.KernelRidge(standardize=False), validation=validation, **settings)


def frame_of(rng: np.random.Generator, rows: int = ROWS) -> dict[str, Any]:
    return {"a": rng.normal(size=rows), "b": rng.lognormal(size=rows), "c": rng.choice(["u", "v", "w"], rows)}


def target(frame: dict[str, Any]) -> Any:
    return 10 * frame["b"] + np.sin(3 * frame["a"]) + (np.asarray(frame["c"]) == "u")


def inputs_of(problem: TableProblem) -> TrendInputs:
    inputs = trend_inputs(problem)
    assert inputs is not None
    return inputs


def test_a_trend_is_a_ridge_regression(rng: np.random.Generator) -> None:
    frame = frame_of(rng)
    w = rng.uniform(0.5, 2, ROWS)
    inputs = inputs_of(problem_of(frame, target(frame), sample_weight=w))
    ((coefficients, intercept),) = inputs.solutions(target(frame), np.arange(ROWS), (0.1,))
    x = inputs.x.astype(np.float64)
    mean = np.average(x, axis=0, weights=w)
    covariance = ((x - mean).T * w) @ (x - mean) / w.sum()
    penalty = 0.1 * np.trace(covariance) / len(covariance)
    right = ((x - mean).T * w) @ target(frame) / w.sum()
    np.testing.assert_allclose(coefficients, np.linalg.solve(covariance + penalty * np.eye(len(covariance)), right))
    assert intercept == pytest.approx(np.average(target(frame) - x @ coefficients, weights=w))


def test_residuals_of_held_out_rows_do_not_see_their_target(rng: np.random.Generator) -> None:
    """Of targets of noise, no less than the noise is left."""
    frame = {f"x{j}": rng.normal(size=ROWS) for j in range(50)}
    y = rng.normal(size=ROWS)
    left = inputs_of(problem_of(frame, y)).penalised(y)
    assert left.residuals.var() > 0.95 * y.var()
    assert not np.isnan(left.residuals).any()


def test_a_trend_far_from_the_data_ends_at_its_limits(rng: np.random.Generator) -> None:
    """One range outside its values in the training rows; a value that no target has does not widen it."""
    frame = frame_of(rng)
    y = 2 * target(frame) - target(frame).mean()  # wider than its trend
    inputs = inputs_of(problem_of(frame, y))
    trend = inputs.penalised(y).fit(np.arange(ROWS))
    far = inputs.x[:1].copy()
    far[0, 1] = 1e6
    assert trend.values(far)[0] in (trend.low, trend.high)
    values = np.clip(trend.values(inputs.x), y.min(), y.max())
    assert trend.high - values.max() == pytest.approx(np.ptp(values))
    inputs.x[0, 1] = 1e6
    wrong = inputs.penalised(y).fit(np.arange(ROWS))
    assert wrong.high - wrong.low <= 3 * np.ptp(y) * (1 + 1e-9)


def test_new_groups_have_no_inputs_of_a_trend(rng: np.random.Generator) -> None:
    frame = {**frame_of(rng), "person": np.repeat(np.arange(60), 5)}
    inputs = inputs_of(problem_of(frame, target(frame), "person"))
    assert "person" not in [encoder.name for encoder in inputs.encoding.encoders]
    fold = inputs.of_fold(np.arange(200))
    assert fold.encoding is not inputs.encoding


@pytest.mark.parametrize("why", ["words", "few rows", "many inputs", "absolute loss", "a budget"])
def test_where_a_trend_makes_no_sense(rng: np.random.Generator, why: str) -> None:
    rows = 60 if why == "few rows" else ROWS
    frame = frame_of(rng, rows)
    frame = {"c": frame["c"]} if why == "words" else frame
    frame |= {f"x{j}": rng.normal(size=rows) for j in range(80)} if why == "many inputs" else {}
    problem = problem_of(frame, rng.normal(size=rows))
    if why == "absolute loss":
        problem = TableProblem(problem.inputs, problem.y, 0, joker.KernelRegressor(loss="absolute"))
    if why == "a budget":
        problem = TableProblem(problem.inputs, problem.y, 0, joker.KernelRidge(memory="1GB"))
    assert trend_inputs(problem) is None


@pytest.fixture(scope="module")
def fitted() -> tuple[Any, dict[str, Any]]:
    frame = frame_of(np.random.default_rng(1))
    return joker.JokerRegressor(**{**FAST, "effort": 1}).fit(frame, target(frame)), frame


def test_predictions_follow_the_trend_outside_the_data(fitted: tuple[Any, dict[str, Any]]) -> None:
    model, frame = fitted
    assert all(member.trend is not None for member in model.ensemble.members)
    most = float(np.max(frame["b"]))
    new = {"a": [0.0, 0.0], "b": [most, 1.5 * most], "c": ["v", "v"]}
    low, high = model.predict(new)
    assert high - low == pytest.approx(5 * most, rel=0.1)
    assert "beside a linear trend" in str(model)


def test_a_file_holds_the_trend(fitted: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    model, frame = fitted
    model.save(tmp_path / "model.joker")
    np.testing.assert_array_equal(joker.load(tmp_path / "model.joker").predict(frame), model.predict(frame))


def test_the_plan_has_the_other_choice_of_a_trend(rng: np.random.Generator) -> None:
    frame = frame_of(rng)
    steps = joker.JokerRegressor(effort=3).plan(frame, target(frame)).steps
    assert [step.encoding.goal for step in steps if step.encoding].count(1) == 1
    classes = np.asarray(target(frame) > 5).astype(str)
    steps = joker.JokerClassifier(effort=3).plan(frame, classes).steps
    assert not any(step.encoding.goal for step in steps if step.encoding)
