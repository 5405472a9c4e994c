"""Table models of counts and costs: which loss is tried, how it is judged, and what it predicts."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import joker
from joker.errors import InvalidData
from joker.tables.targets import mean_loss_to_try, unscaled_target


def counts(n: int, seed: int) -> tuple[pd.DataFrame, Any]:
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": draw.uniform(0, 4, n), "c": draw.choice(["u", "v"], n)})
    mean = np.exp(1.5 * np.sin(2 * frame.a) + (frame.c == "u"))
    return frame, draw.poisson(mean).astype(float)


@pytest.fixture(scope="module")
def model() -> joker.JokerRegressor:
    return joker.JokerRegressor(effort=1, random_state=0).fit(*counts(400, 3))


RNG = np.random.default_rng(0)
HEAVY = np.exp(1.5 * RNG.normal(size=200))


@pytest.mark.parametrize(
    ("y", "loss"),
    [
        (RNG.poisson(2.0, 200), "poisson"),
        (RNG.poisson(100.0, 200), None),
        (RNG.integers(0, 2, 200), None),
        (RNG.normal(size=200), None),
        (HEAVY, "gamma"),
        (HEAVY * (HEAVY > 1), "tweedie"),
        (-HEAVY, None),
        (RNG.uniform(size=200), None),
        (np.zeros(200), None),
        (np.ones(1), None),
    ],
    ids=["counts", "large counts", "two values", "signs", "costs", "costs with zeros", "negative", "even", "0", "one"],
)
def test_the_loss_that_is_tried_follows_from_the_target(y: Any, loss: str | None) -> None:
    assert mean_loss_to_try(np.asarray(y, dtype=float)) == loss


def test_counts_have_positive_predictions_by_a_loss_of_counts(model: joker.JokerRegressor) -> None:
    new, y = counts(1_000, 1)
    assert [member["loss"] for member in model.members_ if "loss" in member] == ["poisson"]
    assert "loss poisson" in str(model)
    assert model.score(new, y) > 0.4


def test_held_out_rows_decide_whether_it_is_used() -> None:
    """Where the noise does not grow with the mean, the squared loss is better."""
    frame, _ = counts(400, 0)
    y = np.round(np.maximum(0, 4 + 4 * np.sin(2 * frame.a) + np.random.default_rng(0).normal(size=400)))
    y[y.argmin()] = 0
    model = joker.JokerRegressor(effort=1, random_state=0).fit(frame, y)
    assert model.ensemble.members[0].target is not None
    assert sum(member["weight"] for member in model.members_ if "loss" not in member) >= 0.5


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_a_loss_that_is_asked_for_is_judged_by_its_deviance(loss: str) -> None:
    frame, y = counts(300, 0)
    model = joker.JokerRegressor(effort=1, random_state=0, loss=loss).fit(frame, y)
    assert [member["loss"] for member in model.members_] == [loss]
    assert (model.predict(frame) > 0).all()
    named = joker.losses.get(loss)
    from joker.estimators.regression import mean_deviance

    worst = mean_deviance(named, y, np.full(len(y), y.mean()), None)
    assert 0 < model.held_out_losses_[1] < worst


def test_targets_outside_the_domain_of_a_loss_are_refused() -> None:
    frame, y = counts(100, 0)
    with pytest.raises(InvalidData, match="y must be positive for the Gamma loss; found 0"):
        joker.JokerRegressor(effort=1, loss="gamma").fit(frame, y)


def test_the_unscaled_target_changes_nothing() -> None:
    y = np.array([0.0, 3.0, 5.0])
    target = unscaled_target(y)
    assert np.array_equal(target.encode(y), y)
    assert np.array_equal(target.decode(y), y)


def test_a_loaded_model_predicts_the_same(model: joker.JokerRegressor, tmp_path: Path) -> None:
    model.save(tmp_path / "m.joker")
    again = joker.load(tmp_path / "m.joker")
    new, _ = counts(50, 1)
    assert np.array_equal(again.predict(new), model.predict(new))
