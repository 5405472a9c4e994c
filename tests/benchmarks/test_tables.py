"""The comparison on raw tables: ranks, and joker against the best tree model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from joker.tables import plan

Script = Callable[[str], Any]


def entry(score: float, metric: str = "accuracy") -> dict[str, Any]:
    return {
        "scores": {metric: score},
        "fit_seconds": 1.0,
        "predict_seconds": 0.1,
        "peak_growth_bytes": 10**6,
    }


def results() -> dict[str, Any]:
    def splits(*scores: float) -> dict[str, Any]:
        return {str(seed): entry(score) for seed, score in enumerate(scores)}

    return {
        "sets": {
            "a": {"joker": splits(0.9, 0.92), "LightGBM": splits(0.85, 0.86), "RandomForest": splits(0.8, 0.95)},
            "b": {"joker": splits(0.7, 0.71), "LightGBM": splits(0.8, 0.81), "RandomForest": {"0": {"failed": "x"}}},
        },
        "limit_seconds": 60,
    }


def test_ranks_and_the_best_tree_model(script: Script) -> None:
    summary = script("table_summary")
    found = summary.compared(summary.scores(results()))
    assert found["mean_rank"] == {"LightGBM": 1.75, "joker": 1.75, "RandomForest": 2.5}
    assert found["sets"]["a"]["best_tree"] == "RandomForest"
    assert found["sets"]["a"]["at_least_as_good"]
    assert not found["sets"]["b"]["at_least_as_good"]
    assert found["at_least_as_good_as_the_best_tree"] == 1
    assert "behind" in summary.text(results())


def test_the_page_shows_ranks_and_sets(script: Script) -> None:
    text = "\n".join(script("result_tables").tables(results()))
    assert "| joker" in text
    assert "on 1 of 2 sets" in text
    assert list(script("behind").BEHIND["tables"](results())) == ["b: LightGBM has a score of 0.8050, joker 0.7050."]


def test_an_encoding_made_by_hand_is_compared_but_has_no_rank(script: Script) -> None:
    with_hand = results()
    with_hand["sets"]["a"]["joker.tune"] = {"1": entry(0.91)}
    summary = script("table_summary")
    found = summary.scores(with_hand)
    assert summary.compared(found) == summary.compared(summary.scores(results()))
    assert summary.by_hand(found) == {"a": (0.92, 0.91)}
    assert "+0.0100" in "\n".join(script("result_tables").tables(with_hand))


def test_support_vector_machines_are_compared_on_the_first_split(script: Script) -> None:
    with_machines = results()
    with_machines["sets"]["a"]["SVM"] = {"0": entry(0.9), "1": entry(0.1)}
    summary = script("table_summary")
    found = summary.scores(with_machines)
    assert summary.compared(found) == summary.compared(summary.scores(results()))
    assert summary.first_split(found, "SVM") == {"a": (found["a"]["joker"][0], 0.9)}
    assert "A support vector machine" in "\n".join(script("result_tables").tables(with_machines))


@pytest.mark.parametrize("model", ["HistGradientBoosting", "RandomForest", "SVM"])
def test_models_take_raw_tables(model: str, script: Script) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.normal(size=80), "w": rng.choice(["a", "b", None], 80)})
    frame.loc[:4, "n"] = np.nan
    y = pd.Series(np.where(frame["n"] > 0, "high", "low"))
    models = script("table_models")
    fitted = models.MODELS[model]("classification", models.Budget(limit=5.0))
    fitted.fit(frame, y)
    new = frame.assign(w="never seen")
    assert set(fitted.predict(new)) <= {"high", "low"}


def test_the_summary_shows_cpu_seconds_where_they_are_known(script: Script) -> None:
    summary, found = script("table_summary"), results()
    assert summary.cpu_seconds(found) == {}
    assert "CPU" not in summary.text(found)
    for seed, seconds in enumerate((2.0, 8.0)):
        found["sets"]["a"]["joker"][str(seed)]["fit_cpu_seconds"] = seconds
    assert summary.cpu_seconds(found) == {"joker": [2.0, 8.0]}
    assert "CPU seconds of a fit: median 5.0, longest 8.0" in summary.text(found)
    assert "| joker | 5.0 s" in "\n".join(script("result_tables").tables(found)).replace("  ", "")


def test_results_of_other_efforts_have_files_of_their_own(script: Script) -> None:
    name = script("tables")._results_file
    assert [name(60.0, 3), name(60.0, 1), name(10.0, 3)] == ["tables.json", "tables_effort1.json", "tables_10s.json"]


def small_part(script: Script, task: str) -> Any:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.normal(size=80), "w": rng.choice(["a", "b"], 80)})
    y = pd.Series(frame["n"] + (frame["w"] == "a"))
    y = y if task == "regression" else pd.Series(np.where(y > 0.5, "high", "low"))
    rows = slice(60, 80)
    test = frame[rows].reset_index(drop=True), y[rows].reset_index(drop=True)
    return script("table_sets").Part(frame[:60], y[:60], *test, task)


@pytest.mark.parametrize("library", ["LightGBM", "CatBoost", "HistGradientBoosting"])
def test_more_configurations_begin_with_fewer_ones(library: str, script: Script) -> None:
    curves = script("table_curves")
    one, ten = curves.configurations(library, 1), curves.configurations(library, 10)
    assert one == [{}]
    assert ten == curves.configurations(library, 100)[:10]
    assert len({json.dumps(settings) for settings in ten}) == 10


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize(("model", "budget"), [("joker", 1), ("HistGradientBoosting", 2)])
def test_a_point_of_a_curve(
    task: str, model: str, budget: int, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    curves, sent = script("table_curves"), {}
    monkeypatch.setattr(curves.table_sets, "part", lambda name, seed: small_part(script, task))
    monkeypatch.setattr(plan, "QUICK_TRIALS", 1)
    curves.work(sent.update, "small", model, budget, 0)
    assert sent["cpu_seconds"] > 0
    for metric in ("held_out_loss", "test_loss"):
        assert 0 < sent[metric] < 1.2, metric


def test_curves_continue_and_are_summed_up(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    curves, made = script("table_curves"), []

    def apart(work: Any, arguments: tuple[Any, ...], limit: float) -> dict[str, Any]:
        made.append(arguments)
        if arguments[:3] == ("b", "joker", 2):
            raise KeyboardInterrupt
        return {"cpu_seconds": 2.0 * arguments[2], "held_out_loss": 0.3, "test_loss": 0.8 / arguments[2]}

    monkeypatch.setattr(curves.process, "apart", apart)
    chosen = ["--sets", "a,b", "--models", "joker,LightGBM", "--budgets", "1,2,10", "--out", str(tmp_path / "c.json")]
    with pytest.raises(KeyboardInterrupt):
        curves.main(chosen)
    assert made[:4] == [("a", "joker", 1, 0), ("a", "joker", 2, 0), ("a", "LightGBM", 1, 0), ("a", "LightGBM", 10, 0)]
    before = len(made)
    monkeypatch.setattr(
        curves.process, "apart", lambda work, arguments, limit: made.append(arguments) or {"failed": ""}
    )
    curves.main([*chosen, "--missing"])
    assert made[before:] == [("b", "joker", 2, 0), ("b", "LightGBM", 1, 0), ("b", "LightGBM", 10, 0)]
    capsys.readouterr()
    curves.main([*chosen, "--summary"])
    said = capsys.readouterr().out
    assert "1 of 2 sets have all points" in said
    assert "test loss 10.000 of the least  CPU 2.0 s" in said
    pytest.importorskip("matplotlib")
    curves.main([*chosen, "--draw"])
    assert (tmp_path / "c.png").stat().st_size > 5_000
