"""The data sets of the benchmarks: each is split once and scaled once, so that all programs get the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import common
import numpy as np
from numpy.typing import NDArray

SEED = 0
QUICK_ROWS, QUICK_TEST = 500, 200
Array = NDArray[Any]


@dataclass(frozen=True)
class DataSet:
    """A data set, its metric, and how it is split."""

    name: str
    source: str  # the name that paper.datasets.load knows it by
    metric: str  # rmse, accuracy or auc
    test: int | None = None  # number of test rows; None: the official test part
    train: int | None = None  # number of training rows; None: all other rows
    positive: int | None = None  # the class that is +1; all others are -1
    scaled: bool = True  # whether inputs are z-scored by mean and deviation of the training rows

    @property
    def regression(self) -> bool:
        """Whether the targets are numbers."""
        return self.metric == "rmse"


@dataclass(frozen=True)
class Split:
    """Training and test rows."""

    x: Array  # (n, d)
    y: Array  # (n,)
    x_test: Array
    y_test: Array

    def first(self, rows: int) -> Split:
        """Return a split with the first training rows only; the rows are in random order."""
        return Split(self.x[:rows], self.y[:rows], self.x_test, self.y_test)


SETS = {
    data.name: data
    for data in (
        DataSet("covtype-50k", "covtype", "accuracy", 20_000, 50_000, common.COVTYPE_POSITIVE),
        DataSet("kin40k", "kin40k", "rmse", 4_000),
        DataSet("protein", "protein", "rmse", 4_573),
        DataSet("a9a", "a9a", "accuracy", scaled=False),
        DataSet("mnist-10k", "mnist", "accuracy", train=10_000, scaled=False),
        DataSet("higgs33k", "higgs33k", "auc", 6_692),
        DataSet("hepc-50k", "hepc", "rmse", 20_000, 50_000),
    )
}


def split(data: DataSet, quick: bool = False, seed: int = SEED) -> Split:
    """Split a data set; ``quick`` returns a few generated rows with the same kind of targets."""
    if quick:
        return _generated(data, seed)
    x, y = common.arrays(data.source, "train" if data.test is None else "all")
    rows = np.random.default_rng(seed).permutation(len(x))
    if data.test is None:
        train = rows[: data.train]
        parts = Split(x[train], y[train], *common.arrays(data.source, "test"))
    else:
        # If the number of training rows is given they come first, else the test rows do.
        cut = data.train or data.test
        first, second = rows[:cut], rows[cut : cut + data.test if data.train else None]
        train, test = (first, second) if data.train else (second, first)
        parts = Split(x[train], y[train], x[test], y[test])
    return _finished(data, parts)


def _finished(data: DataSet, parts: Split) -> Split:
    """Return scaled inputs in float32, and targets: -1 and 1, numbers with deviation 1, or unchanged classes."""
    x, y, x_test, y_test = parts.x, parts.y, parts.x_test, parts.y_test
    if data.scaled:
        mean, spread = x.mean(0), x.std(0)
        x, x_test = ((part - mean) / np.where(spread > 0, spread, 1) for part in (x, x_test))
    if data.regression:
        y, y_test = ((part - parts.y.mean()) / parts.y.std() for part in (y, y_test))
    elif data.positive is not None:
        y, y_test = (np.where(part == data.positive, 1, -1) for part in (y, y_test))
    else:
        y, y_test = y.astype(np.int64), y_test.astype(np.int64)
    return Split(x.astype(np.float32), y, x_test.astype(np.float32), y_test)


def _generated(data: DataSet, seed: int) -> Split:
    kind = common.REGRESSION if data.regression else common.CLASSIFICATION
    x, y = (part.numpy() for part in common.generated(kind, QUICK_ROWS + QUICK_TEST, seed))
    x = x.astype(np.float32)
    if data.name.startswith("mnist"):
        y = (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)
    y = y if data.regression else y.astype(np.int64)
    return Split(x[:QUICK_ROWS], y[:QUICK_ROWS], x[QUICK_ROWS:], y[QUICK_ROWS:])


def score(data: DataSet, y: Array, predicted: Array, f: Array | None = None) -> dict[str, float]:
    """Return RMSE or accuracy of predictions, and the AUC of the decision values ``f`` where that is the metric."""
    if data.regression:
        return {"rmse": round(float(np.sqrt(np.mean((predicted - y) ** 2))), 5)}
    scores = {"accuracy": round(float(np.mean(predicted == y)), 5)}
    if f is not None and data.metric == "auc":
        from sklearn.metrics import roc_auc_score

        scores["auc"] = round(float(roc_auc_score(y > 0, f)), 5)
    return scores


def better(metric: str, one: float, other: float) -> bool:
    """Return whether a score is better than another."""
    return one < other if metric == "rmse" else one > other
