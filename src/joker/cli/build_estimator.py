"""From options to an estimator: the loss chooses its class, or the task if no loss is named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from joker import losses
from joker.cli import parse
from joker.cli.options import ModelOptions
from joker.errors import InvalidParameter
from joker.estimators import KernelClassifier, KernelQuantile, KernelRegressor
from joker.estimators.base import KernelEstimator

DEFAULT_LOSS = {"classification": "squared_hinge", "regression": "squared"}
LOSS_PARAMETERS = ("delta", "epsilon", "p", "quantile")


def task_of(options: ModelOptions, of_target: str | None) -> str:
    """Return the task that --loss and --task name, or else the task that the target implies."""
    implied = {"--task": options.task and options.task.noun, "--loss": _task_of_loss(options)}
    given = {option: task for option, task in implied.items() if task}
    tasks = {*given.values(), *([of_target] if of_target else [])}
    if len(tasks) > 1:
        raise InvalidParameter(_disagreement(options, given, of_target))
    if not tasks:
        raise InvalidParameter(
            "--task must be given if neither --loss nor a target of text implies it. Use --task classify for classes, "
            "or --task regress for numbers."
        )
    return tasks.pop()


def estimator(options: ModelOptions, task: str, classes: Any, **settings: Any) -> KernelEstimator:
    """Return the estimator that the options describe."""
    loss = options.loss or DEFAULT_LOSS[task]
    parameters = {name: getattr(options, name) for name in LOSS_PARAMETERS if getattr(options, name) is not None}
    common = {
        **settings,
        "standardize": parse.AUTO if options.standardize is None else options.standardize,
        "fit_intercept": options.intercept,
        "n_features": parse.features(options.m),
        "features": options.features,
    }
    if task == "classification":
        losses.get(loss, **parameters)  # raises an error if a parameter does not belong to the loss
        weights = parse.class_weights(options.class_weight, classes)
        return KernelClassifier(loss=loss, class_weight=weights, **common)
    if options.class_weight is not None:
        raise InvalidParameter("--class-weight must be used with classes; the task is regression. Leave it out.")
    level = parse.numbers(parameters.pop("quantile"), "--quantile") if "quantile" in parameters else None
    if not isinstance(level, list):
        return KernelRegressor(loss=loss, quantile=level, **parameters, **common)
    losses.get(loss, quantile=level[0], **parameters)
    return KernelQuantile(quantile=level, **common)


def check_options(options: ModelOptions, task: str, n_inputs: int, settings: Iterable[dict[str, Any]]) -> None:
    """Raise an error for an option that no fit accepts, before a large table is read."""
    # Weights of classes can be checked only when the classes are known.
    known = replace(options, class_weight=None) if task == "classification" else options
    for keywords in settings:
        estimator(known, task, None, **keywords).check_settings(n_inputs)


def _task_of_loss(options: ModelOptions) -> str | None:
    return None if options.loss is None else losses.get(options.loss).frame.task


def _disagreement(options: ModelOptions, given: dict[str, str], of_target: str | None) -> str:
    words = {"--task": options.task and options.task.value, "--loss": options.loss}
    parts = [f"{option} {words[option]} is for {task}" for option, task in given.items()]
    parts += [f"the target is for {of_target}"] if of_target else []
    task = of_target or given["--task"]
    suitable = ", ".join(name for name, kind in losses.NAMES.items() if kind().frame.task == task)
    return f"task, loss and target must agree; {', and '.join(parts)}. For {task} use one of the losses {suitable}."
