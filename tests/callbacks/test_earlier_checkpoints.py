"""Checkpoints that an earlier version has written are continued to the same model."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from earlier_files import ALL_EPOCHS, CHECKPOINTS, METHODS, fitted


@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_of_an_earlier_version_is_continued(method: str, tmp_path: Path) -> None:
    path = tmp_path / "fit.checkpoint"
    shutil.copy(CHECKPOINTS / f"version1_{method}.checkpoint", path)
    expected = np.load(CHECKPOINTS / f"version1_{method}.npy")
    np.testing.assert_allclose(fitted(method, ALL_EPOCHS, path), expected, rtol=1e-3, atol=1e-4)
    beginning = fitted(method, ALL_EPOCHS - 2, tmp_path / "other.checkpoint")
    assert np.abs(beginning - expected).max() > 1e-3, "an unfinished fit would pass too"
