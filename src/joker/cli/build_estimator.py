"""From options to an estimator: the loss chooses its class, or the task if no loss is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from joker import losses
from joker.cli import parse
from joker.cli.options import ModelOptions, MultiClass
from joker.errors import InvalidParameter, JokerError
from joker.estimators import KernelClassifier, KernelQuantile, KernelRegressor
from joker.estimators.base import KernelEstimator

DEFAULT_LOSS = {"classification": "squared_hinge", "regression": "squared"}
# The loss that a parameter implies without --loss.
LOSS_PARAMETERS = {"delta": "huber", "epsilon": "epsilon_insensitive", "p": "lp", "quantile": "quantile"}
TASKS = tuple(DEFAULT_LOSS)
# The loss of two classes that each loss of several classes belongs to.
LOSS_OF_TWO_CLASSES = {MultiClass.SOFTMAX: "logistic", MultiClass.CRAMMER_SINGER: "hinge"}


def task_of(options: ModelOptions, of_target: str | None) -> str | None:
    """Return the task that --loss and --task name, or else the task that the target implies; None where none does."""
    loss = _loss_of(options)
    named = {
        f"--task {options.task}": options.task and options.task.noun,
        _loss_option(options): None if loss is None else losses.get(loss).frame.task,
    }
    given = {option: task for option, task in named.items() if task}
    tasks = {*given.values(), *([of_target] if of_target else [])}
    if len(tasks) > 1:
        raise InvalidParameter(_disagreement(given, of_target))
    return tasks.pop() if tasks else None


def estimator(options: ModelOptions, task: str, classes: Any, **settings: Any) -> KernelEstimator:
    """Return the estimator that the options describe."""
    loss = _loss_of(options) or DEFAULT_LOSS[task]
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
        return KernelClassifier(loss=loss, class_weight=weights, calibrate=options.calibrate, **common)
    for option, given in {
        "--class-weight": options.class_weight is not None,
        "--multi-class": options.multi_class is not None,
        "--calibrate": options.calibrate,
    }.items():
        if given:
            raise InvalidParameter(f"{option} must be used with classes; the task is regression. Leave it out.")
    level = parse.numbers(parameters.pop("quantile"), "--quantile") if "quantile" in parameters else None
    if not isinstance(level, list):
        return KernelRegressor(loss=loss, quantile=level, **parameters, **common)
    losses.get(loss, quantile=level[0], **parameters)
    return KernelQuantile(quantile=level, **common)


def check_options(options: ModelOptions, task: str | None, n_inputs: int, settings: Sequence[dict[str, Any]]) -> None:
    """Raise an error for an option that no fit accepts, before a large table is read.

    Where the task is not known yet, a fit for one of the tasks must accept all of them.
    """
    if task is None:
        try:
            check_options(options, TASKS[0], n_inputs, settings)
        except JokerError:
            check_options(options, TASKS[1], n_inputs, settings)
        return
    # Weights of classes can be checked only when the classes are known.
    known = replace(options, class_weight=None) if task == "classification" else options
    for keywords in settings:
        estimator(known, task, None, **keywords).check_settings(n_inputs)


def _loss_of(options: ModelOptions) -> str | None:
    """The loss that is named, or the one that --multi-class or the given parameter of a loss belongs to."""
    implied = [loss for name, loss in LOSS_PARAMETERS.items() if getattr(options, name) is not None]
    named, how = options.loss or (implied[0] if len(implied) == 1 else None), options.multi_class
    one_problem = how in LOSS_OF_TWO_CLASSES
    suitable = [LOSS_OF_TWO_CLASSES[how], how.value] if how is not None and one_problem else list(losses.NAMES)
    if how is not None and named is not None and named not in suitable:
        one = f"one of the losses {', '.join(suitable)}" if one_problem else "a loss of two classes, such as logistic"
        raise InvalidParameter(
            f"--multi-class {how} must be used with {one}; got --loss {named}. Leave out one of them."
        )
    return how.value if how is not None and one_problem else named


def _loss_option(options: ModelOptions) -> str:
    """The option that names the loss, or the parameter that implies it, as the user wrote it."""
    if options.loss is not None:
        return f"--loss {options.loss}"
    if options.multi_class in LOSS_OF_TWO_CLASSES:
        return f"--multi-class {options.multi_class}"
    name = next((name for name in LOSS_PARAMETERS if getattr(options, name) is not None), "loss")
    return f"{'-' if name == 'p' else '--'}{name}"


def _disagreement(given: dict[str, str], of_target: str | None) -> str:
    parts = [f"{option} is for {task}" for option, task in given.items()]
    parts += [f"the target is for {of_target}"] if of_target else []
    task = of_target or next(iter(given.values()))
    names: dict[str, type[losses.Loss]] = {**losses.NAMES, **losses.ROW_NAMES}
    suitable = ", ".join(name for name, kind in names.items() if kind().frame.task == task)
    return f"task, loss and target must agree; {', and '.join(parts)}. For {task} use one of the losses {suitable}."
