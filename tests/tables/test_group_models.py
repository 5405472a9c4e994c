"""Models of tables with a column that names groups, from the decision to a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from raw_tables import FAST, IGNORE_OPTIMISM, panel

import joker
from joker.errors import InvalidData
from joker.tables.encoders import CODE_INPUTS

pytestmark = [pytest.mark.usefixtures("few_trials"), IGNORE_OPTIMISM]


@pytest.fixture(scope="module")
def model(few_trials: None) -> joker.JokerRegressor:
    return joker.JokerRegressor(**FAST).fit(*panel())


def test_the_column_is_found_and_the_model_is_better(model: joker.JokerRegressor) -> None:
    assert [row["kind"] for row in model.columns_] == ["group", "number", "number"]
    assert model.columns_[0]["encoding"] == "group codes"
    new, y = panel(1)
    plain = joker.JokerRegressor(columns={"person": "number"}, **FAST).fit(*panel())
    assert [row["kind"] for row in plain.columns_] == ["number"] * 3
    assert model.score(new, y) > plain.score(new, y) + 0.1
    assert model.score(new, y) > 0.7


def test_a_classifier_finds_it_too() -> None:
    frame, y = panel()
    fitted = joker.JokerClassifier(**FAST).fit(frame, y > 0)
    assert fitted.columns_[0]["kind"] == "group"


def test_the_names_of_the_groups_are_left_out() -> None:
    frame, y = panel()
    fitted = joker.JokerRegressor(**FAST).fit(frame.assign(name="n" + frame["person"].astype(str)), y)
    assert [row["kind"] for row in fitted.columns_] == ["group", "number", "number", "left out"]
    assert fitted.columns_[3]["encoding"] == "the same groups as 'person'"


def test_unknown_and_missing_persons_have_the_prediction_of_all(model: joker.JokerRegressor) -> None:
    """They have one prediction, and its mean is near that of all persons."""
    frame, y = panel(1)
    unknown = [
        model.predict(frame.assign(person=pd.Series([person] * len(frame), dtype="float64")))
        for person in (99_999_999, 100_000_001, 100_000_000.5, None, 1e12)
    ]
    assert all((one == unknown[0]).all() for one in unknown)
    assert abs(unknown[0].mean() - y.mean()) < 0.2 * y.std()


def test_the_user_decides(tmp_path: Path) -> None:
    frame, y = panel()
    asked = joker.JokerRegressor(columns={"age": "group", "person": "drop"}, **FAST).fit(frame, y)
    assert [row["kind"] for row in asked.columns_] == ["left out", "group", "number"]
    limited = joker.JokerRegressor(columns={"person": "group"}, memory="400MB", **FAST).fit(frame, y)
    assert limited.columns_[0]["encoding"] == "robust and group codes"
    assert limited.score(*panel(1)) > 0.5


@pytest.mark.parametrize("values", [[5.0] * 40, np.arange(40.0), [1.0, 2.0] + [np.nan] * 38, np.arange(40) % 2])
def test_groups_that_say_nothing_do_no_harm(values: Any) -> None:
    x = np.random.default_rng(0).normal(size=40)
    fitted = joker.JokerRegressor(columns={"g": "group"}, **FAST).fit({"g": np.asarray(values), "x": x}, 3 * x)
    assert fitted.columns_[0]["kind"] == "group"
    assert fitted.score({"g": np.asarray(values), "x": x}, 3 * x) > 0.8


@pytest.mark.parametrize("values", [np.arange(640) / 7, ["a", "b"] * 320])
def test_groups_are_whole_numbers(values: Any) -> None:
    frame, y = panel()
    with pytest.raises(InvalidData, match=r"groups must have whole numbers; column 'person'.*'category'"):
        joker.JokerRegressor(columns={"person": "group"}, **FAST).fit(frame.assign(person=values), y)


def test_text_in_place_of_groups_is_refused_by_name(model: joker.JokerRegressor) -> None:
    with pytest.raises(InvalidData, match="column 'person' must have numbers"):
        model.predict(panel()[0].assign(person="somebody"))


def test_a_file_has_the_groups(model: joker.JokerRegressor, tmp_path: Path) -> None:
    model.save(tmp_path / "m.joker")
    loaded = joker.load(tmp_path / "m.joker")
    new, _ = panel(1)
    new.loc[0, "person"] = 5
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    assert loaded.columns_ == model.columns_


def test_a_plan_has_the_inputs_of_the_groups() -> None:
    frame, y = panel()
    with_codes, without = (joker.JokerRegressor(columns=c, **FAST).plan(frame, y) for c in (None, {"person": "number"}))
    assert with_codes.total > without.total + 0.9 * 4 * len(frame) * (CODE_INPUTS - 1)
