"""What every test shares: number of threads, settings of hypothesis, skipping of GPU tests, and fixtures."""

import os
from collections.abc import Iterator
from pathlib import Path

# The workers of pytest-xdist share the cores. torch and NumPy read this variable when they are imported, so it is set
# before that; a value that the user has set is kept.
if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(workers))))

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

# Every machine checks the same examples, and a slow machine fails no test.
settings.register_profile("joker", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("joker")

DATA_VARIABLE = "JOKER_DATA"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked ``gpu`` where torch finds no GPU."""
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA GPU; torch finds none here")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)


@pytest.fixture
def rng() -> np.random.Generator:
    """A fresh generator with the same seed in every test."""
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def few_trials() -> Iterator[None]:
    """Give every search of a table model two candidates: for tests of what is around the search."""
    from joker.tables import plan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "QUICK_TRIALS", 2)
        patch.setattr(plan, "TRIALS", 3)
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the large data sets, which the environment variable JOKER_DATA names."""
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        pytest.skip(f"needs the data sets: set {DATA_VARIABLE} to their folder; docs/data-sets.md says how to get them")
    return Path(named)
