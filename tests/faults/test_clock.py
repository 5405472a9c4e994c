"""A clock that is set, forwards or backwards, does not change the time that a fit is allowed."""

import time
from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat

import numpy as np
import pytest

import joker

DAY = 86_400.0


@pytest.mark.parametrize("jump", [1_000 * DAY, -1_000 * DAY])
def test_a_clock_that_jumps(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = np.sin(X[:, 0])
    settings = {"block_size": 50, "max_epochs": 4, "tol": 0.0, "max_time": 600.0, "random_state": 0, "n_features": 20}
    whole = joker.KernelHuber(**settings).fit(X, y)
    monkeypatch.setattr(time, "time", jumping(time.time, jump))
    model = joker.KernelHuber(**settings).fit(X, y)
    assert model.n_iter_ == whole.n_iter_ == 4
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    seconds = [record["seconds"] for record in model.history_]
    assert all(0 <= value < 600 for value in seconds)
    assert seconds == sorted(seconds)


@pytest.mark.usefixtures("few_trials")
def test_a_table_model_has_a_clock_that_nobody_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    settings = {"effort": 1, "max_time": DAY, "random_state": 0}
    whole = joker.JokerRegressor(**settings).fit(X, X[:, 0])
    monkeypatch.setattr(time, "time", jumping(time.time, 1_000 * DAY))
    model = joker.JokerRegressor(**settings).fit(X, X[:, 0])
    assert not model.stopped_by_time_
    assert 0 <= model.seconds_ < DAY
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


def jumping(clock: Callable[[], float], jump: float) -> Callable[[], float]:
    """Return a clock that is right at first and then wrong by turns."""
    offsets: Iterator[float] = chain(repeat(0.0, 2), cycle([jump, 0.0]))
    return lambda: clock() + next(offsets)
