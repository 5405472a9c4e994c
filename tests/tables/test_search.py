"""The time of the fits of a search."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import joker
from joker.tables.problem import search_rows
from joker.tables.search import EnoughTime, fit_in_time


def running(seconds: float, epoch: float, method: str = "random_blocks") -> Any:
    """Return a fit as its callbacks see it."""
    descent = SimpleNamespace(settings=SimpleNamespace(method=method))
    return SimpleNamespace(seconds=seconds, epoch=epoch, training=SimpleNamespace(descent=descent))


@pytest.mark.parametrize(
    ("seconds", "epoch", "method", "ends"),
    [
        (11, 0.9, "random_blocks", False),  # not usable before its first epoch
        (11, 1.1, "random_blocks", True),
        (9, 1.1, "random_blocks", False),
        (11, 1.1, "greedy_blocks", False),  # its last iterate may be far from the optimum
        (51, 0.1, "greedy_blocks", True),
    ],
)
def test_a_fit_ends_after_its_time_when_its_model_is_usable(
    seconds: float, epoch: float, method: str, ends: bool
) -> None:
    assert (EnoughTime(10).step(running(seconds, epoch, method)) is not None) == ends


@pytest.mark.parametrize(
    ("seconds", "epoch", "slow"),
    [(0.9, 0.01, None), (1.1, 0.2, 5.5), (1.1, 0.25, None), (1.1, 0.0, None), (8.0, 1.5, None)],
)
def test_a_fit_that_is_too_slow_ends_early(seconds: float, epoch: float, slow: float | None) -> None:
    """Two epochs must be possible in 10 s; the speed is judged after 1 s."""
    watch = EnoughTime(10, least_epochs=2)
    assert (watch.step(running(seconds, epoch)) is not None) == (slow is not None)
    assert watch.epoch_seconds == pytest.approx(slow) if slow else watch.epoch_seconds is None


def test_a_fit_in_time_returns_how_slow_it_is() -> None:
    x = np.random.default_rng(0).standard_normal((4_000, 3))
    model = joker.KernelRidge(method="random_blocks", n_features=None, block_size=8, max_epochs=2)
    assert fit_in_time(model, x, x[:, 0], 0.0, least_epochs=1e6) > 1e-4
    assert fit_in_time(model, x, x[:, 0], 600.0, least_epochs=2) is None
    assert model.score(x, x[:, 0]) > 0.9


def test_the_rows_of_a_search_follow_its_time() -> None:
    assert [search_rows(seconds) for seconds in (0, 30, 60, 600)] == [2_000, 5_000, 10_000, 10_000]
