"""From options to an estimator: the loss decides which, and the task where no loss is named."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from joker import losses
from joker.cli import parse
from joker.cli.options import Loss
from joker.errors import InvalidParameter
from joker.estimators import KernelClassifier, KernelQuantile, KernelRegressor, resolve
from joker.estimators.base import KernelEstimator
from joker.runtime import parse_device
from joker.solvers import Settings

DEFAULT = {"classification": "squared_hinge", "regression": "squared"}
ROWS, MOST_FEATURES = 20, 500  # of a rehearsal: few
REHEARSED = {"max_epochs": 1, "max_time": math.inf, "validation_fraction": 0.5, "device": None, "memory": parse.AUTO}
OF_NUMBERS = ("delta", "epsilon", "p", "quantile")


def task_of(options: Loss, known: str | None) -> str:
    """Return the task: what --loss and --task say, else what is known of the target."""
    said = {"--task": options.task and options.task.noun, "--loss": _task_of_loss(options)}
    told = {option: task for option, task in said.items() if task}
    tasks = {*told.values(), *([known] if known else [])}
    if len(tasks) > 1:
        raise InvalidParameter(_disagreement(options, told, known))
    if not tasks:
        raise InvalidParameter(
            "--task must be given where neither --loss nor a target of text tells it. Use --task classify for classes, "
            "or --task regress for amounts."
        )
    return tasks.pop()


def estimator(options: Loss, task: str, classes: Any, **settings: Any) -> KernelEstimator:
    """Return the estimator that the options ask for."""
    loss = options.loss or DEFAULT[task]
    own = {name: getattr(options, name) for name in OF_NUMBERS if getattr(options, name) is not None}
    common = {
        **settings,
        "standardize": options.standardize,
        "fit_intercept": options.intercept,
        "n_features": parse.features(options.m),
        "features": options.features,
    }
    if task == "classification":
        losses.get(loss, **own)  # which says what does not belong to it
        weights = parse.class_weights(options.class_weight, classes)
        return KernelClassifier(loss=loss, class_weight=weights, **common)
    if options.class_weight is not None:
        raise InvalidParameter("--class-weight must go with classes; the task is regression. Leave it out.")
    level = parse.numbers(own.pop("quantile"), "--quantile") if "quantile" in own else None
    if not isinstance(level, list):
        return KernelRegressor(loss=loss, quantile=level, **own, **common)
    losses.get(loss, quantile=level[0], **own)
    return KernelQuantile(quantile=level, **common)


def rehearse(options: Loss, task: str, width: int, **settings: Any) -> None:
    """Fit some made-up rows, so that a slip in the options is told of before a large table is read."""
    solving = {name: settings[name] for name in ("max_epochs", "tol", "max_time")}
    Settings(**solving)
    resolve.fraction(settings["validation_fraction"])
    resolve.memory(settings["memory"], parse_device(settings["device"]))
    plain = replace(options, class_weight=None) if task == "classification" else options  # classes are not known yet
    model = estimator(plain, task, None, **{**settings, **REHEARSED})
    if isinstance(model.n_features, int):
        model.set_params(n_features=min(model.n_features, max(width, MOST_FEATURES)))
    x = np.random.default_rng(0).normal(size=(ROWS, width)).astype(np.float32)
    model.fit(x, np.arange(ROWS) % 2)


def _task_of_loss(options: Loss) -> str | None:
    return None if options.loss is None else losses.get(options.loss).frame.task


def _disagreement(options: Loss, told: dict[str, str], known: str | None) -> str:
    words = {"--task": options.task and options.task.value, "--loss": options.loss}
    parts = [f"{option} {words[option]} is for {task}" for option, task in told.items()]
    parts += [f"the target is for {known}"] if known else []
    task = known or told["--task"]
    fitting = ", ".join(name for name, kind in losses.NAMES.items() if kind().frame.task == task)
    return f"task, loss and target must agree; {', and '.join(parts)}. For {task} use one of the losses {fitting}."
