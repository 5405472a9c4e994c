"""The data sets of the benchmarks, each cut once and scaled once, so that all contenders see the same rows."""

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
    """A data set, what it is scored by, and how it is cut."""

    name: str
    source: str  # its name in the folder of data sets
    metric: str  # rmse, accuracy or auc
    test: int | None = None  # rows to test; None: the official part
    train: int | None = None  # rows to train; None: all others
    positive: int | None = None  # this class against the rest
    scaled: bool = True  # z-scores by the figures of the training part

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
        """The first training rows alone; they are in random order."""
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
    """Chunking a data set; ``quick`` gives few generated rows with its kind of targets."""
    if quick:
        return _generated(data, seed)
    loader = common.loader()
    x, y = loader.load(data.source)
    rows = np.random.default_rng(seed).permutation(len(x))
    if data.test is None:
        train = rows[: data.train]
        parts = Split(x[train], y[train], *loader.load(data.source, "test"))
    else:
        # Where the training rows are counted they come first, else the test rows do.
        cut = data.train or data.test
        first, second = rows[:cut], rows[cut : cut + data.test if data.train else None]
        train, test = (first, second) if data.train else (second, first)
        parts = Split(x[train], y[train], x[test], y[test])
    return _finished(data, parts)


def _finished(data: DataSet, parts: Split) -> Split:
    """Scaled inputs in float32; -1 and 1, numbers with deviation 1, or the classes as they are."""
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


def score(data: DataSet, y: Array, found: Array, f: Array | None = None) -> dict[str, float]:
    """The scores of predictions, and of f where they are classes of two: that of the set's metric is among them."""
    if data.regression:
        return {"rmse": round(float(np.sqrt(np.mean((found - y) ** 2))), 5)}
    scores = {"accuracy": round(float(np.mean(found == y)), 5)}
    if f is not None and data.metric == "auc":
        from sklearn.metrics import roc_auc_score

        scores["auc"] = round(float(roc_auc_score(y > 0, f)), 5)
    return scores


def better(metric: str, one: float, other: float) -> bool:
    """Whether a score beats another."""
    return one < other if metric == "rmse" else one > other
