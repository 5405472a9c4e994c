"""The rows of an experiment: read or generated, split into training and test rows, z-scored; and their metrics."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor

from joker.data import HostRows, Rows, Scaling, TensorRows, scaled, scaling_of
from joker.data.readers import Source
from joker.errors import InvalidData, MissingFile
from joker.runtime import chunks
from joker.runtime.cuda_graphs import Upload

from .datasets import FOLDER_VARIABLE, load
from .sources import RandomPart, generate, part_of
from .tables import ACCURACY, AUC, FALLING, RELATIVE, RMSE, PaperSet

BATCH_BYTES = 2**26  # of rows that are read at a time
Folder = str | os.PathLike[str] | None
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Split:
    """The training or the test rows: inputs in the type of the data set, z-scored if it is float32, and targets."""

    x: Tensor  # (n, d)
    y: NDArray[Any]  # (n,)

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class PaperRows:
    """Training and test rows of a data set.

    Attributes
    ----------
    data : PaperSet
        The data set.
    train, test : Split
        The rows.
    inputs : Scaling or None
        The scaling of inputs that are z-scored when they are read; None if they are z-scores already.
    centre, spread : float
        The mean and the standard deviation of the training targets; 0 and 1 for classes.
    generated : bool
        Whether the rows are generated.
    seconds : float
        The time to read or generate them.
    """

    data: PaperSet
    train: Split
    test: Split
    inputs: Scaling | None
    centre: float
    spread: float
    generated: bool
    seconds: float = 0.0

    def rows_for(self, part: Split, dtype: torch.dtype, device: torch.device, *, host: bool) -> Rows:
        """Return rows of z-scores that are read on a device; with ``host`` they stay in host memory."""
        wide = None if part.x.dtype == dtype else dtype
        rows: Rows
        if host and device.type != "cpu":
            rows = HostRows(part.x, Upload(device), dtype, checked=True)
        else:
            rows = TensorRows(part.x.to(device), wide, checked=True)
        return rows if self.inputs is None else scaled(rows, self.inputs, dtype)

    def targets(self, part: Split) -> Tensor:  # (n, t)
        """Return the targets: z-scores, or signs with one column for two classes and one column a class for more."""
        if not self.data.classes:
            return torch.from_numpy((part.y - self.centre) / self.spread)[:, None]
        columns = np.arange(self.data.classes) if self.data.classes > 2 else np.ones(1)
        return torch.from_numpy(np.where(part.y[:, None] == columns, np.int8(1), np.int8(-1)))


def read(
    data: PaperSet, *, scale: float = 1.0, seed: int = 0, folder: Folder = None, generated: bool | None = None
) -> PaperRows:
    """Return the rows of a data set in memory, or a share of them.

    Parameters
    ----------
    data : PaperSet
        The data set.
    scale : float
        The share of the rows, which are drawn one by one with the seed.
    seed : int
        The seed of the split and of this draw.
    folder : path, optional
        The folder of the official files; by default the folder that the environment variable JOKER_DATA names.
    generated : bool, optional
        Whether to generate the same number of rows, with the same number and type of inputs. By default they are
        generated if no folder is given and the files are not found.
    """
    started = time.perf_counter()
    required = generated is False or folder is not None
    official = None if generated else _official(data, scale, seed, folder, required)
    train, test = official or _generated(data, scale, seed)
    for name, part in (("training", train), ("test", test)):
        if len(part) < 2:
            raise InvalidData(
                f"scale must leave at least two {name} rows of {data.name}; {scale:g} leaves {len(part)}. Use more."
            )
    scaling = scaling_of(TensorRows(train.x, torch.float64))
    in_place = train.x.is_floating_point()
    if in_place:
        for part in (train, test):
            _z_score(part.x, scaling)
    centre, spread = (0.0, 1.0) if data.classes else (float(train.y.mean()), float(train.y.std()))
    inputs, took = None if in_place else scaling, time.perf_counter() - started
    return PaperRows(data, train, test, inputs, centre, spread, official is None, took)


def _official(data: PaperSet, scale: float, seed: int, folder: Folder, required: bool) -> tuple[Split, Split] | None:
    """Return the rows of the official files; None if the files are not found and not required."""
    if folder is None and FOLDER_VARIABLE not in os.environ and not required:
        return None
    try:
        sources = [load(data.name, folder, split, seed=seed) for split in ("train", "test")]
    except MissingFile:
        if required:
            raise
        return None
    train, test = (source if scale == 1 else part_of(source, RandomPart(scale, seed + 1)) for source in sources)
    return _collect(train), _collect(test)


def _generated(data: PaperSet, scale: float, seed: int) -> tuple[Split, Split]:
    rows = round(data.rows * scale)
    first = round(rows * data.share)
    whole = _collect(generate(data.known_as, max(rows, 4), seed))
    return Split(whole.x[:first], whole.y[:first]), Split(whole.x[first:], whole.y[first:])


def _collect(source: Source) -> Split:
    """Read all rows; into one array if their number is known."""
    rows = max(1, BATCH_BYTES // (source.schema.width * source.dtype.itemsize))
    dtype = np.dtype(np.float32) if source.dtype.kind == "f" else source.dtype
    if source.rows is None:
        batches = [(batch.dense.astype(dtype), np.asarray(batch.y)) for batch in source.batches(rows)]
        x, y = (np.concatenate(parts) for parts in zip(*batches, strict=True)) if batches else _empty(source, 0, dtype)
    else:
        x, y = _empty(source, source.rows, dtype)
        seen = 0
        for batch in source.batches(rows):
            x[seen : seen + len(batch)], y[seen : seen + len(batch)] = batch.dense, batch.y
            seen += len(batch)
    return Split(torch.from_numpy(x), y)


def _empty(source: Source, rows: int, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    return np.empty((rows, source.schema.width), dtype), np.empty(rows)


def _z_score(x: Tensor, scaling: Scaling) -> None:
    """Replace inputs by z-scores; a constant input becomes 0."""
    mean = scaling.mean.to(x.dtype)
    factor = torch.where(scaling.deviation > 0, 1 / scaling.deviation, 0.0).to(x.dtype)
    for rows in chunks(*x.shape):
        x[rows].sub_(mean).mul_(factor)


def scores(rows: PaperRows, y: Values, f: Values) -> dict[str, float]:  # y (n,), f (n, t)
    """Return the metrics of a data set for the predictions f of targets y, which are as in the data set.

    The relative error is the root mean square of ``(f − y)/y`` in the unit of y. The RMSE is that of the z-scored
    target. The predicted class of a row is the column with the largest value; for two classes it is the sign.
    """
    return {name: _METRICS[name](rows, y, f) for name in rows.data.metrics}


def better(metric: str, value: float) -> float:
    """Return a value that is larger if the metric is better."""
    return -value if metric in FALLING else value


def _relative(rows: PaperRows, y: Values, f: Values) -> float:
    error = (f[:, 0] * rows.spread + rows.centre - y) / y
    return float(np.sqrt(np.mean(error**2)))


def _rmse(rows: PaperRows, y: Values, f: Values) -> float:
    error = f[:, 0] - (y - rows.centre) / rows.spread
    return float(np.sqrt(np.mean(error**2)))


def _auc(rows: PaperRows, y: Values, f: Values) -> float:
    positive = y == 1
    one_class = positive.all() or not positive.any()
    return float("nan") if one_class else float(roc_auc_score(positive, f[:, 0]))


def _accuracy(rows: PaperRows, y: Values, f: Values) -> float:
    classes = f.argmax(axis=1) if f.shape[1] > 1 else f[:, 0] > 0
    return float(np.mean(classes == y))


_METRICS: dict[str, Callable[[PaperRows, Values, Values], float]] = {
    RELATIVE: _relative,
    RMSE: _rmse,
    AUC: _auc,
    ACCURACY: _accuracy,
}
