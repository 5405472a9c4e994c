"""The time of the fits of a search."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import joker
from joker.errors import ConvergenceWarning
from joker.solvers.methods.choice import methods_named
from joker.solvers.methods.random_blocks import RANDOM
from joker.tables.plan import search_rows
from joker.tables.search import FAR, SoftTimeLimit, fit_while_fast, usable


def running(seconds: float, epoch: float, method: str = "random_blocks", gpu_steps: int | None = None) -> Any:
    """Return a fit as its callbacks see it; after some steps on a GPU, or on a CPU."""
    state = SimpleNamespace(alpha=SimpleNamespace(is_cuda=gpu_steps is not None))
    descent = SimpleNamespace(method=methods_named(method)[0], state=state, steps=gpu_steps or 1)
    return SimpleNamespace(seconds=seconds, epoch=epoch, training=SimpleNamespace(descent=descent))


@pytest.mark.parametrize(
    ("seconds", "epoch", "method", "ends"),
    [
        (11, 0.9, "random_blocks", False),  # not usable before its first epoch
        (11, 1.1, "random_blocks", True),
        (9, 1.1, "random_blocks", False),
        (11, 1.1, "greedy_blocks", False),  # its last iterate may be far from the optimum
        (21, 0.1, "greedy_blocks", True),
        (51, 0.1, "random_blocks", True),
    ],
)
def test_a_fit_ends_after_its_time_when_its_model_is_usable(
    seconds: float, epoch: float, method: str, ends: bool
) -> None:
    assert (SoftTimeLimit(10).step(running(seconds, epoch, method)) is not None) == ends


@pytest.mark.parametrize(
    ("seconds", "epoch", "slow"),
    [(0.9, 0.01, None), (1.1, 0.2, 5.5), (1.1, 0.25, None), (1.1, 0.0, None), (8.0, 1.5, None)],
)
def test_a_fit_that_is_too_slow_ends_early(seconds: float, epoch: float, slow: float | None) -> None:
    """Two epochs must be possible in 10 s; the speed is judged after 1 s."""
    watch = SoftTimeLimit(10, least_epochs=2)
    watch.start(running(0, 0))
    assert (watch.step(running(seconds, epoch)) is not None) == (slow is not None)
    assert watch.epoch_seconds == pytest.approx(slow) if slow else watch.epoch_seconds is None


def test_the_time_in_which_a_gpu_compiles_is_not_that_of_its_steps() -> None:
    """Compiling takes 6 s of 10; the steps after it need 2.75 s for an epoch, or 20 s."""
    watch = SoftTimeLimit(10, least_epochs=1)
    watch.start(running(0, 0))
    assert watch.step(running(6.0, 0.01, gpu_steps=8)) is None
    assert watch.step(running(7.1, 0.41, gpu_steps=100)) is None
    watch.start(running(0, 0))
    assert watch.step(running(6.0, 0.01, gpu_steps=8)) is None
    assert watch.step(running(8.0, 0.11, gpu_steps=30)) is not None
    assert watch.epoch_seconds == pytest.approx(20.0)


def test_a_fit_returns_how_slow_it_is() -> None:
    x = np.random.default_rng(0).standard_normal((4_000, 3))
    model = joker.KernelRidge(method="random_blocks", n_features=None, block_size=8, max_epochs=2)
    assert fit_while_fast(model, x, x[:, 0], 0.0, least_epochs=1e6) > 1e-4
    assert fit_while_fast(model, x, x[:, 0], 600.0, least_epochs=2) is None
    assert model.score(x, x[:, 0]) > 0.9


def test_the_rows_of_a_search_follow_its_time() -> None:
    assert [search_rows(seconds) for seconds in (0, 30, 60, 600)] == [2_000, 5_000, 10_000, 10_000]


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
