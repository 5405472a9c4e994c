"""The comparison on raw tables: ranks, and joker against the best tree model."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

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
    assert list(script("behind").BEHIND["tables"](results())) == ["b: LightGBM has 0.8050, joker 0.7050."]


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
    fitted = script("table_models").MODELS[model]("classification", 5.0)
    fitted.fit(frame, y)
    new = frame.assign(w="never seen")
    assert set(fitted.predict(new)) <= {"high", "low"}
