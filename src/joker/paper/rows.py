"""The rows of an experiment: read or generated, split, scaled, z-scored, with targets as numbers."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.data import HostRows, Rows, Scaling, TensorRows, scaled, scaling_of
from joker.data.sources import Source
from joker.errors import InvalidData, MissingFile
from joker.paper.datasets import generate, load
from joker.paper.datasets.files import VARIABLE
from joker.paper.datasets.parts import Draw, part_of
from joker.paper.table import PaperSet
from joker.runtime.upload import Upload

BATCH_BYTES = 2**26  # of rows that are read in one go
CHUNK = 2**22  # entries that are scaled in one go
Folder = str | os.PathLike[str] | None


@dataclass(frozen=True, eq=False)
class Part:
    """Inputs in the type they are kept in, z-scored where that is float32, and targets as they are."""

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
        Of which set.
    train, test : Part
        The rows.
    inputs : Scaling or None
        What inputs are still to be z-scored by as they are handed out; None where they are z-scores.
    centre, spread : float
        Mean and deviation of the training targets; 0 and 1 for classes.
    generated : bool
        Whether the rows are made up.
    seconds : float
        What it took to read or generate them.
    """

    data: PaperSet
    train: Part
    test: Part
    inputs: Scaling | None
    centre: float
    spread: float
    generated: bool
    seconds: float = 0.0

    def handed_out(self, part: Part, dtype: torch.dtype, device: torch.device, *, host: bool) -> Rows:
        """Rows of z-scores for a device; with ``host`` they lie in the memory of the host."""
        wide = None if part.x.dtype == dtype else dtype
        rows: Rows
        if device.type == "cpu":
            rows = TensorRows(part.x, wide, checked=True)
        elif host:
            rows = HostRows(part.x, Upload(device), dtype, checked=True)
        else:
            rows = TensorRows(part.x.to(device), wide, checked=True)
        return rows if self.inputs is None else scaled(rows, self.inputs, dtype)

    def targets(self, part: Part) -> Tensor:  # (n, t)
        """z-scores, or signs: one column for two classes, else one for each."""
        if not self.data.classes:
            return torch.from_numpy((part.y - self.centre) / self.spread)[:, None]
        columns = np.arange(self.data.classes) if self.data.classes > 2 else np.ones(1)
        return torch.from_numpy(np.where(part.y[:, None] == columns, np.int8(1), np.int8(-1)))


def read(
    data: PaperSet,
    *,
    scale: float = 1.0,
    seed: int = 0,
    folder: Folder = None,
    generated: bool | None = None,
) -> PaperRows:
    """Return the rows of a data set in memory, or a share of them.

    Parameters
    ----------
    data : PaperSet
        Which.
    scale : float
        The share, drawn row by row with the seed.
    seed : int
        Of the split and of what is drawn.
    folder : path, optional
        Where the official files are; by default the folder that the variable JOKER_DATA names.
    generated : bool, optional
        Whether to generate rows of the same number, inputs and type. By default that is done where no folder is
        given and the files are not found.
    """
    started = time.perf_counter()
    found = None if generated else _official(data, scale, seed, folder, bool(generated is False or folder is not None))
    train, test = found or _generated(data, scale, seed)
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
    return PaperRows(data, train, test, inputs, centre, spread, found is None, took)


def _official(data: PaperSet, scale: float, seed: int, folder: Folder, needed: bool) -> tuple[Part, Part] | None:
    """The rows of the files; None where they are absent and not needed."""
    if folder is None and VARIABLE not in os.environ and not needed:
        return None
    try:
        sources = [load(data.name, folder, split, seed=seed) for split in ("train", "test")]
    except MissingFile:
        if needed:
            raise
        return None
    few = [source if scale == 1 else part_of(source, Draw(scale, seed + 1)) for source in sources]
    return _collect(few[0]), _collect(few[1])


def _generated(data: PaperSet, scale: float, seed: int) -> tuple[Part, Part]:
    rows = round(data.rows * scale)
    first = round(rows * data.share)
    whole = _collect(generate(data.known_as, max(rows, 4), seed))
    return Part(whole.x[:first], whole.y[:first]), Part(whole.x[first:], whole.y[first:])


def _collect(source: Source) -> Part:
    """Read all rows; into one array where their number is known."""
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
    return Part(torch.from_numpy(x), y)


def _empty(source: Source, rows: int, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    return np.empty((rows, source.schema.width), dtype), np.empty(rows)


def _z_score(x: Tensor, scaling: Scaling) -> None:
    """Turn inputs into z-scores where they lie; one that does not vary becomes 0."""
    mean = scaling.mean.to(x.dtype)
    factor = torch.where(scaling.deviation > 0, 1 / scaling.deviation, 0.0).to(x.dtype)
    step = max(1, CHUNK // x.shape[1])
    for start in range(0, len(x), step):
        x[start : start + step].sub_(mean).mul_(factor)
