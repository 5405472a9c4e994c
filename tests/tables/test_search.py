"""Fits within a time limit: a model is usable when its fit ends."""

from typing import Any

import numpy as np
import pytest

import joker
from joker.errors import ConvergenceWarning
from joker.solvers.settings import RANDOM
from joker.tables.search import FAR, usable


@pytest.fixture
def smooth(rng: np.random.Generator) -> tuple[Any, Any]:
    x = rng.normal(size=(1_500, 3)).astype(np.float32)
    return x, np.sin(2 * x[:, 0]) * x[:, 1]


def test_a_fit_that_ends_far_from_its_optimum_is_repeated_with_random_blocks(smooth: tuple[Any, Any]) -> None:
    x, y = smooth
    settings = {"kernel": "matern12", "lam": 1e-3, "method": "conjugate_gradients", "max_epochs": 1, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        far = joker.KernelRidge(**settings).fit(x[:1_000], y[:1_000])
    assert far.gap_ > FAR
    found = usable(far, x[:1_000], y[:1_000], seconds=2.0)
    assert (found.method, found.lam, found.kernel) == (RANDOM, far.lam, far.kernel)
    assert found.score(x[1_000:], y[1_000:]) > max(0.8, far.score(x[1_000:], y[1_000:]))


def test_a_fit_that_ends_near_its_optimum_is_kept(smooth: tuple[Any, Any]) -> None:
    x, y = smooth
    near = joker.KernelRidge(lam=1e-2, random_state=0).fit(x, y)
    assert usable(near, x, y, seconds=2.0) is near
