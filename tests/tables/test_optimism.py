"""A warning where the score on random held-out rows is clearly above the one on new groups or later rows."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import joker
from joker.tables.columns import ColumnKind
from joker.tables.optimism import suspects
from joker.tables.problem import TableProblem
from joker.tables.table import read_table
from joker.tuning.validation import GROUPS, TIME

PERSONS, TIMES = 40, 6


def persons(rng: np.random.Generator, name: str = "person") -> tuple[pd.DataFrame, Any]:
    """Rows of persons, each with a level of its own that two columns identify and nothing explains."""
    who = np.repeat(np.arange(PERSONS), TIMES)
    level = rng.normal(size=PERSONS)[who]
    marks = rng.normal(size=(PERSONS, 2))[who]
    x = rng.normal(size=len(who))
    frame = pd.DataFrame({name: who, "mark": marks[:, 0], "mark2": marks[:, 1], "x": x})
    return frame, level + 0.1 * x + 0.1 * rng.normal(size=len(who))


def messages(frame: pd.DataFrame, y: Any, **settings: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        joker.JokerRegressor(effort=1, random_state=0, **settings).fit(frame, y)
    return [str(one.message) for one in caught if "held-out rows" in str(one.message)]


def test_a_column_of_persons_whose_rows_are_alike_is_warned_of(rng: np.random.Generator) -> None:
    (message,) = messages(*persons(rng))
    assert "column 'person' names groups of rows" in message
    assert "groups='person'" in message


def test_there_is_no_warning_after_the_groups_are_given(rng: np.random.Generator) -> None:
    assert messages(*persons(rng), groups="person") == []


def test_later_rows_of_a_trend_that_ends_are_warned_of(rng: np.random.Generator) -> None:
    day = np.arange(240)
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")
    walk = np.cumsum(rng.normal(size=len(day)))
    (message,) = messages(pd.DataFrame({"date": dates, "x": rng.normal(size=len(day))}), walk)
    assert "column 'date' orders the rows in time" in message
    assert "time='date'" in message


def test_rows_that_are_as_good_as_new_ones_are_not_warned_of(rng: np.random.Generator) -> None:
    x = rng.normal(size=240)
    frame = pd.DataFrame({"id": rng.integers(0, 40, 240), "x": x, "day": np.arange(240)})
    assert messages(frame, np.sin(x) + 0.1 * rng.normal(size=240)) == []


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("subject", np.repeat(np.arange(30), 4), GROUPS),
        ("school_id", np.repeat(np.arange(30), 4), GROUPS),
        ("price", np.repeat(np.arange(30), 4), None),
        ("subject", np.arange(120), None),  # every row is of another one
        ("year", np.repeat(np.arange(1990, 2020), 4), TIME),
        ("year", np.tile(np.arange(1990, 2020), 4), None),  # rows are in another order
    ],
)
def test_columns_are_suspected_by_name_and_order(name: str, values: Any, expected: str | None) -> None:
    table = read_table(pd.DataFrame({name: values}))
    problem = TableProblem(table, np.zeros(len(values)), 0, joker.KernelRidge())
    found = [kind for _, kind in suspects(problem, (ColumnKind(name, "number"),))]
    assert found == ([] if expected is None else [expected])


def test_persons_are_named_and_not_the_schools_that_they_go_to(rng: np.random.Generator) -> None:
    """New schools have new persons, so that both are as hard; the rows of one person are alike."""
    frame, y = persons(rng)
    frame["school"] = frame["person"] // 4
    (message,) = messages(frame, y)
    assert "column 'person' names groups of rows" in message


def test_a_few_rows_that_no_fit_predicts_do_not_hide_the_persons(rng: np.random.Generator) -> None:
    """Both fits are wrong by as much there, and the same rows are compared."""
    frame, y = persons(rng)
    y[rng.integers(len(y), size=5)] += 5.0
    (message,) = messages(frame, y)
    assert "column 'person' names groups of rows" in message
