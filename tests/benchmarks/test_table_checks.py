"""The benchmarks of limits, of equal runs and of new groups: what they count as right."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

Script = Callable[[str], Any]


def test_a_fit_may_take_a_fifth_of_its_limit_and_a_second_more(script: Script) -> None:
    brake = script("brake")
    assert brake.in_time({"limit": 10.0, "seconds": 13.0})
    assert not brake.in_time({"limit": 10.0, "seconds": 13.1})
    assert not brake.in_time({"limit": 10.0, "did_not_finish_in_seconds": 600.0})


def test_there_are_twelve_shapes_with_the_extreme_ones(script: Script) -> None:
    shapes = script("brake").SHAPES
    assert len(shapes) == 12
    inputs, y, _ = shapes["classes"]()
    assert (inputs.shape, len(np.unique(y))) == ((20_000, 20), 808)
    assert shapes["columns"]()[0].shape == (500, 20_000)
    assert shapes["sparse"]()[0].shape == (20_000, 5_000)


@pytest.mark.parametrize(("digests", "equal"), [("aaa", True), ("aab", False), ("a", False)])
def test_three_runs_must_have_equal_predictions(
    digests: str, equal: bool, script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reproducible, results = script("reproducible"), iter(digests)

    def apart(work: Any, arguments: tuple[Any, ...], limit: float) -> dict[str, Any]:
        digest = next(results, None)
        return {"failed": "no result"} if digest is None else {"digest": digest, "cpu_seconds": 1.0}

    monkeypatch.setattr(reproducible.process, "apart", apart)
    monkeypatch.setattr(reproducible, "BUSY", 0)
    monkeypatch.setattr(reproducible, "RUNS", dict.fromkeys(("one", "two", "three"), (1, 0)))
    out = tmp_path / "found.json"
    reproducible.main(["--sets", "wine", "--out", str(out)])
    assert json.loads(out.read_text())["sets"]["wine"]["equal"] is equal
    monkeypatch.setattr(reproducible, "three_runs", lambda *given: pytest.fail("it has a result"))
    if len(digests) == 3:
        reproducible.main(["--sets", "wine", "--out", str(out)])


def test_new_groups_and_later_rows_are_in_no_training_row(script: Script) -> None:
    groups = script("new_groups")
    frame = pd.DataFrame({"firm": np.repeat(np.arange(40), 5), "year": np.tile(np.arange(2000, 2005), 40)})
    train, test = groups.divided(frame, groups.Table("", "", "firm"), 0)
    assert len(test) == 50
    assert not set(train["firm"]) & set(test["firm"])
    train, test = groups.divided(frame, groups.Table("", "", "year", "time"), 0)
    assert train["year"].max() < test["year"].min()


def test_the_error_of_a_score_counts_groups(script: Script) -> None:
    """Four equal rows say as much as one."""
    score_and_error = script("new_groups").score_and_error
    rng = np.random.default_rng(0)
    y, found = rng.normal(size=(2, 100))
    score, error = score_and_error(y, found, np.arange(100))
    again = score_and_error(np.repeat(y, 4), np.repeat(found, 4), np.repeat(np.arange(100), 4))
    assert again == pytest.approx((score, error))
    assert error == pytest.approx((1 - (y - found) ** 2 / y.var()).std(ddof=1) / 10)


def test_a_warning_of_an_ordinary_table_is_marked(script: Script) -> None:
    lines = script("new_groups").lines
    found = {
        "untold": {"Wages": {"warned_of": "person"}, "wine": {"warned_of": "taster"}, "cells": {"warned_of": None}}
    }
    assert ["WRONG" in line for line in lines(found)] == [False, True, False]
