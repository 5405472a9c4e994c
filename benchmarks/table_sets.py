"""Real tables as they came, with words, categories and missing values, and plain numeric sets; each split at random."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from functools import cache
from typing import Any

import common
import numpy as np

TEST_SHARE = 0.2
COVTYPE_ROWS = 62_500  # of covtype, so that 50,000 rows are left to train on


@dataclass(frozen=True)
class Target:
    """The column of a table that is predicted."""

    name: str
    task: str = "regression"
    without: tuple[str, ...] = ()  # columns that are other names of the target, or of the row
    log: bool = False


CLASSES = "classification"
TARGETS = {
    "diamonds": Target("price", log=True),
    "txhousing": Target("median", without=("volume",), log=True),
    "wine": Target("points", without=("taster_twitter_handle",)),
    "check_times": Target("check_time", without=("package", "status"), log=True),
    "CPS1988": Target("wage", log=True),
    "credit_data": Target("Status", CLASSES),
    "mlc_churn": Target("churn", CLASSES),
    "hpc_data": Target("class", CLASSES),
    "DNA": Target("Class", CLASSES),
    "cells": Target("class", CLASSES, ("case",)),
    "Satellite": Target("classes", CLASSES),
    "income": Target("INCOME", CLASSES),
}
TABLES = tuple(TARGETS)
NUMERIC = ("covtype-50k", "kin40k", "protein", "a9a", "higgs33k")
SETS = (*TABLES, *NUMERIC)
# Rows, columns and classes (0 for numbers) of the sets, for estimates of their time.
SHAPES = {
    "diamonds": (53_940, 9, 0),
    "txhousing": (7_986, 7, 0),
    "wine": (9_627, 7, 0),
    "check_times": (13_626, 22, 0),
    "CPS1988": (28_155, 6, 0),
    "credit_data": (4_454, 13, 2),
    "mlc_churn": (5_000, 19, 2),
    "hpc_data": (4_331, 7, 4),
    "DNA": (3_186, 180, 3),
    "cells": (2_019, 56, 2),
    "Satellite": (6_435, 36, 6),
    "income": (8_993, 13, 9),
    "covtype-50k": (62_500, 54, 2),
    "kin40k": (40_000, 8, 0),
    "protein": (45_730, 9, 0),
    "a9a": (48_842, 123, 2),
    "higgs33k": (33_461, 28, 2),
}
OTHER_SHAPE = (10_000, 10, 0)


@dataclass(frozen=True)
class Part:
    """Training and test rows of one random split."""

    frame: Any  # a pandas frame
    y: Any  # a pandas series
    test_frame: Any
    test_y: Any
    task: str  # "classification" or "regression"


def part(name: str, seed: int) -> Part:
    """Split a set at random, by a seed."""
    frame, y, task = load(name)
    rows = np.random.default_rng(seed).permutation(len(frame))
    cut = round(TEST_SHARE * len(rows))
    test, train = rows[:cut], rows[cut:]
    frames = (frame.iloc[rows].reset_index(drop=True) for rows in (train, test))
    targets = (y.iloc[rows].reset_index(drop=True) for rows in (train, test))
    (x, x_test), (y_train, y_test) = frames, targets
    return Part(x, y_train, x_test, y_test, task)


def expected_seconds(name: str, effort: int) -> float:
    """Return an estimate of the CPU seconds of a fit of joker to the training rows of a set."""
    from joker.tables.plan import make_search_plan

    rows, inputs, classes = SHAPES.get(name, OTHER_SHAPE)
    return 2 * make_search_plan(effort, round((1 - TEST_SHARE) * rows), inputs, classes).seconds


@cache
def load(name: str) -> tuple[Any, Any, str]:
    """Return the frame, the targets and the task of a set."""
    return _mixed(name) if name in TARGETS else _numeric(name)


def _mixed(name: str) -> tuple[Any, Any, str]:
    import pandas as pd

    target = TARGETS[name]
    folder = common.data_folder()
    if folder is None:
        raise SystemExit(f"{common.DATA_VARIABLE} must name the folder of the data sets; it is not set.")
    path = folder / "tables" / f"{name}.csv.xz"
    if not path.is_file():
        raise SystemExit(f"The tables must be in {common.DATA_VARIABLE}; {path.name} is not. Run get_tables.py.")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        frame = pd.read_csv(file).drop(columns=list(target.without))
    frame = frame[frame[target.name].notna()].reset_index(drop=True)
    y = frame.pop(target.name)
    if target.task == "classification":
        return frame, y.astype(str), target.task
    return frame, np.log(y.astype(float)) if target.log else y, target.task


def _numeric(name: str) -> tuple[Any, Any, str]:
    import pandas as pd

    if name == "a9a":
        both = [common.arrays(name, split) for split in ("train", "test")]
        x, y = (np.concatenate(parts) for parts in zip(*both, strict=True))
    else:
        x, y = common.arrays(name.removesuffix("-50k"))
    if name == "covtype-50k":
        rows = np.random.default_rng(0).permutation(len(x))[:COVTYPE_ROWS]
        x, y = x[rows], y[rows] == common.COVTYPE_POSITIVE
    task = "regression" if name in ("kin40k", "protein") else "classification"
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])])
    return frame, pd.Series(y if task == "regression" else np.asarray(y).astype(int).astype(str)), task
