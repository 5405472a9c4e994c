"""Differences between processes that fit one model, and what joker says to each.

A task is done with the arguments of `TASKS`; a mode changes some of them in the last process. Its name begins with the
task, and its value is what the error of every process must name.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from group_worker import CLASSES, X, y

import joker
from joker.callbacks import Checkpoint
from joker.distributed.facts import VERSIONS
from joker.errors import JokerError

Arguments = dict[str, Any]
NAMES = np.array(["a", "b", "c"])
NOT_FITTED = {"class", "X", "y", "sample_weight", "eval_set"}


def frame(values: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(values, columns=["first", "second", "third", "fourth"])


def mixed_table() -> dict[str, list[Any]]:
    return {"size": X[:, 0].tolist(), "kind": NAMES[CLASSES].tolist()}


def fit(given: Arguments) -> None:
    settings = {name: value for name, value in given.items() if name not in NOT_FITTED}
    rows = {name: given[name] for name in ("sample_weight", "eval_set") if name in given}
    getattr(joker, given["class"])(**settings).fit(given["X"], given["y"], **rows)


def fit_again(given: Arguments) -> None:
    """Fit twice, where the last process has forgotten its first fit."""
    model = joker.KernelRidge(warm_start=True, n_features=20, max_epochs=1, tol=0.0).fit(X, y)
    (joker.KernelRidge(**model.get_params()) if given["forget"] else model).fit(X, y)


def prepare(given: Arguments) -> None:
    settings = joker.Settings(max_epochs=1, seed=given.pop("seed"), block=given.pop("block"))
    joker.prepare(torch.from_numpy(X), torch.from_numpy(y), **given, settings=settings)


def with_version(given: Arguments) -> None:
    with patch.dict(VERSIONS, {name: value for name, value in given.items() if value}):
        joker.KernelRidge(n_features=20).fit(X, y)


def tune(given: Arguments) -> None:
    joker.tune(given.pop("X"), given.pop("y"), **given)


KERNEL = {
    "class": "KernelClassifier",
    "X": X,
    "y": NAMES[CLASSES],
    "loss": "logistic",
    "n_features": 50,
    "random_state": 0,
    "max_epochs": 1,
    "tol": 0.0,
    "bandwidth": 1.0,
}
REGRESSION = {"class": "KernelRidge", "X": X, "y": y, "n_features": 50, "max_epochs": 1, "tol": 0.0}
TABLE = {"class": "JokerClassifier", "X": mixed_table(), "y": NAMES[CLASSES], "max_time": 0.0, "random_state": 0}
TASKS: dict[str, tuple[Callable[[Arguments], None], Arguments]] = {
    "kernel": (fit, KERNEL),
    "frame": (fit, {**KERNEL, "X": frame(X)}),
    "held out": (fit, {**KERNEL, "eval_set": (X[:50], NAMES[CLASSES[:50]])}),
    "regression": (fit, REGRESSION),
    "table": (fit, TABLE),
    "again": (fit_again, {"forget": False}),
    "prepare": (prepare, {"kernel": "gaussian", "n_features": 20, "seed": 0, "block": joker.Settings().block}),
    "exact": (prepare, {"kernel": "gaussian", "seed": 0, "block": joker.Settings().block}),
    "version": (with_version, {}),
    "tune": (tune, {"X": X, "y": y, "kernels": ["gaussian"], "rows": 100, "max_time": 0.0, "random_state": 0}),
}


def one_more(values: np.ndarray) -> np.ndarray:
    changed = values.copy()
    changed[7] += 1
    return changed


def table_with(**columns: list[Any]) -> dict[str, list[Any]]:
    return {**mixed_table(), **columns}


SWAPPED = X[:, [1, 0, 2, 3]]
PERMUTED = NAMES[CLASSES[np.random.default_rng(1).permutation(len(CLASSES))]]
OTHER_NAMES = np.array(["a", "b", "d"])
MODES: dict[str, tuple[Arguments, str]] = {
    **{
        f"kernel: {name} = {value!r}": ({name: value}, name)
        for name, value in {
            "kernel": "laplacian",
            "bandwidth": 2.0,
            "n_features": None,
            "features": "structured",
            "loss": "squared_hinge",
            "lam": 2.0,
            "fit_intercept": False,
            "standardize": True,
            "block_size": 65,
            "max_epochs": 2,
            "tol": 1e-3,
            "max_time": 100.0,
            "method": "random_blocks",
            "averaging": False,
            "momentum": True,
            "precision": "float64",
            "dtype": "float64",
            "memory": "300MB",
            "random_state": 1,
            "early_stopping": True,
            "validation_fraction": 0.2,
            "class_weight": "balanced",
            "calibrate": True,
            "warm_start": True,
        }.items()
    },
    "kernel: a path of lam": ({"lam": [0.1, 1.0]}, "lam"),
    "kernel: another bandwidth of a kernel": ({"kernel": joker.kernels.Gaussian(2.0)}, "kernel"),
    "kernel: another estimator": ({"class": "KernelSVC", "loss": "squared_hinge"}, "estimator"),
    "kernel: a checkpoint": (
        {"callbacks": [Checkpoint(Path(tempfile.gettempdir()) / "never-written")]},
        "callbacks that change the fit",
    ),
    "kernel: other class names": ({"y": OTHER_NAMES[CLASSES]}, "classes[2]; process 0 has 'c' and process 1 has 'd'"),
    "kernel: permuted labels": ({"y": PERMUTED}, "values of y"),
    "kernel: one label": ({"y": np.where(np.arange(len(y)) == 9, "b", NAMES[CLASSES])}, "values of y"),
    "kernel: swapped columns": ({"X": SWAPPED}, "values of X"),
    "kernel: swapped rows": ({"X": X[::-1].copy()}, "values of X"),
    "kernel: one row": ({"X": one_more(X)}, "values of X"),
    "kernel: a row less": ({"X": X[1:], "y": NAMES[CLASSES[1:]]}, "shape of X[0]; process 0 has 300"),
    "kernel: a column less": ({"X": X[:, 1:]}, "shape of X[1]"),
    "kernel: weights": ({"sample_weight": np.linspace(1, 2, len(y))}, "weights"),
    "frame: other names of columns": ({"X": frame(X).rename(columns={"third": "other"})}, "columns of X[2]"),
    "frame: another order of columns": ({"X": frame(SWAPPED)[["second", "first", "third", "fourth"]]}, "columns of X"),
    "held out: none": ({"eval_set": None}, "scored"),
    "held out: other rows": ({"eval_set": (X[1:51], NAMES[CLASSES[:50]])}, "held-out rows: values of X"),
    "held out: other labels": ({"eval_set": (X[:50], NAMES[CLASSES[1:51]])}, "held-out rows: targets"),
    "regression: one target": ({"y": one_more(y)}, "values of y"),
    "regression: scale_target": ({"scale_target": False}, "scale_target"),
    "regression: two outputs": ({"y": np.column_stack([y, y])}, "shape of y[1]"),
    "table: other class names": ({"y": OTHER_NAMES[CLASSES]}, "classes[2]"),
    "table: permuted labels": ({"y": PERMUTED}, "targets"),
    "table: a category": ({"X": table_with(kind=["a", *mixed_table()["kind"][1:]])}, "table.kind"),
    "table: other categories": ({"X": table_with(kind=OTHER_NAMES[CLASSES].tolist())}, "table.kind"),
    "table: a number": ({"X": table_with(size=one_more(X[:, 0]).tolist())}, "table.size[7]"),
    "table: another order": ({"X": dict(reversed(mixed_table().items()))}, "columns of X[0]"),
    "table: kinds": ({"columns": {"size": "group"}}, "columns"),
    "table: scoring": ({"scoring": "accuracy"}, "scoring"),
    "table: max_time": ({"max_time": 1.0}, "max_time"),
    "table: random_state": ({"random_state": 1}, "random_state"),
    "again: one has forgotten": ({"forget": True}, "continued"),
    "prepare: another kernel": ({"kernel": "laplacian"}, "kernel.type"),
    "prepare: another bandwidth": ({"bandwidth": 3.0}, "kernel.bandwidth"),
    "prepare: other features": ({"features": "structured"}, "features"),
    "prepare: an intercept": ({"intercept": True}, "n"),
    "prepare: another seed": ({"seed": 1}, "settings.seed"),
    "prepare: another block solver": ({"block": joker.solvers.BlockSolver(tol=0.5)}, "settings.block"),
    "prepare: another loss": ({"loss": "huber"}, "loss"),
    "exact: another kernel": ({"kernel": "laplacian"}, "kernel.type"),
    "exact: another bandwidth": ({"bandwidth": 3.0}, "kernel.bandwidth"),
    "version: of joker": ({"version of joker": "0.0"}, "version of joker"),
    "version: of torch": ({"version of torch": "0.0"}, "version of torch"),
    "tune: kernels": ({"kernels": ["gaussian", "laplacian"]}, "search.kernels"),
    "tune: rows": ({"rows": 200}, "search.rows"),
    "tune: scoring": ({"scoring": "r2"}, "search.scoring"),
    "tune: one target": ({"y": one_more(y)}, "y"),
}
# Those that the quick part tries: another model or another order of the data.
QUICK = (
    "kernel: kernel = 'laplacian'",
    "kernel: bandwidth = 2.0",
    "kernel: features = 'structured'",
    "kernel: swapped columns",
    "kernel: permuted labels",
    "kernel: other class names",
    "exact: another kernel",
    "table: other categories",
)


def names(part: str) -> list[str]:
    """Return the names of tasks without a difference, and of modes."""
    return [*TASKS, *MODES] if part == "all" else ["kernel", *QUICK]


def error_of(name: str, last: bool) -> str:
    """Return the error of a task; the last process does it with the difference of a mode."""
    task = name.split(":", maxsplit=1)[0]
    do, arguments = TASKS[task]
    changes = MODES[name][0] if last and name in MODES else {}
    try:
        do(copy.deepcopy({**arguments, **changes}))
    except JokerError as error:
        return f"{type(error).__name__}: {error}"
    return ""
