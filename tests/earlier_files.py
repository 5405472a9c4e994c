"""Files that an earlier version has written, and the data they belong to.

``python tests/earlier_files.py`` writes them again, with the joker that is imported; the committed ones stay.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import joker
from joker.callbacks import Checkpoint
from joker.data import as_source, convert

HERE = Path(__file__).parent
STORE = HERE / "data" / "fixtures" / "version1.rows"
CHECKPOINTS = HERE / "callbacks" / "fixtures"
FIRST_EPOCHS, ALL_EPOCHS = 2, 4

grid = np.arange(90)[:, None] * np.array([1.3, 2.1, 3.7]) + np.arange(3)
X: NDArray[np.float64] = np.sin(grid) + np.sin(7 * grid)  # numbers that no generator of random numbers has to repeat
Y: NDArray[np.float64] = X[:, 0] * X[:, 1]
LABELS = np.where(Y > 0, "same", "other")


def model(method: str, epochs: int) -> Any:
    """Return an estimator whose fit takes several steps of a method."""
    shared = {
        "random_state": 0,
        "block_size": 20,
        "dtype": "float64",
        "tol": 0.0,
        "max_epochs": epochs,
        "method": method,
    }
    if method == "random_blocks":
        return joker.KernelSVR(n_features=30, lam=0.1, **shared)
    if method == "greedy_blocks":
        return joker.KernelSVC(loss="hinge", n_features=None, lam=0.1, **shared)
    return joker.KernelRidge(n_features=None, lam=0.01, **shared)


METHODS = ("random_blocks", "greedy_blocks", "conjugate_gradients")


def targets(method: str) -> NDArray[Any]:
    """Return the targets that suit the estimator of a method."""
    return LABELS if method == "greedy_blocks" else Y


def fitted(method: str, epochs: int, path: Path) -> NDArray[Any]:
    """Fit from a checkpoint, or from the beginning where there is none; return the values on all rows."""
    one = model(method, epochs).set_params(callbacks=[Checkpoint(path)]).fit(X, targets(method))
    values: NDArray[Any] = one.decision_function(X) if method == "greedy_blocks" else one.predict(X)
    return values


def write() -> None:
    """Write the store, a checkpoint for each method, and what an uninterrupted fit predicts."""
    STORE.parent.mkdir(exist_ok=True)
    CHECKPOINTS.mkdir(exist_ok=True)
    convert(as_source(X.astype(np.float32), LABELS), STORE, seed=3)
    for method in METHODS:
        path = CHECKPOINTS / f"version1_{method}.checkpoint"
        path.unlink(missing_ok=True)
        fitted(method, FIRST_EPOCHS, path)
        continued = path.with_suffix(".whole")
        shutil.copy(path, continued)
        np.save(path.with_suffix(".npy"), fitted(method, ALL_EPOCHS, continued))
        continued.unlink()


if __name__ == "__main__":
    write()
    sys.exit()
