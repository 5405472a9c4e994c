"""What every test shares: threads, hypothesis settings, the GPU rule and a few fixtures."""

import os
from pathlib import Path

# Workers of pytest-xdist share the cores. The variable is read when torch and NumPy load, hence
# before their imports; a value that the user has set wins.
if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(workers))))

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

# Laws are checked on the same examples everywhere, and a busy machine fails none of them.
settings.register_profile("joker", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("joker")

ROOT = Path(__file__).resolve().parents[1]
DATA_VARIABLE = "JOKER_DATA"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked ``gpu`` where torch sees no card."""
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA card; torch sees none here")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)


@pytest.fixture
def rng() -> np.random.Generator:
    """A fresh generator with the same seed in every test."""
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the large data sets: ``$JOKER_DATA``, or ``shared/data`` beside the repository."""
    named = os.environ.get(DATA_VARIABLE)
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the data sets in {folder}, which is not there; set {DATA_VARIABLE} to their folder")
    return folder
