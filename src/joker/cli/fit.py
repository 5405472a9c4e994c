"""``joker fit``: from a table to a model, in bounded memory, with checkpoints."""

from __future__ import annotations

import glob
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from joker import losses
from joker.callbacks import Callback, Checkpoint, Progress
from joker.cli import data_files, parse
from joker.cli.command import OPTIONS, Command, ReportOptions
from joker.cli.data_files import RawData, check_output, open_training
from joker.cli.model_files import KernelModel, TableModel
from joker.cli.options import (
    TASKS,
    ComputeOptions,
    DataFile,
    KernelOptions,
    Missing,
    ModelChoice,
    ModelOptions,
    SolverOptions,
    TableOptions,
    changed,
    table_option,
)
from joker.data import Store, guess_task
from joker.data.readers.open import is_raw_table
from joker.distributed import current
from joker.errors import InvalidData, InvalidParameter, JokerError
from joker.runtime.files import exclusive

if TYPE_CHECKING:
    from joker.estimators.estimator import KernelEstimator

DEFAULT_LOSS = {"classification": "squared_hinge", "regression": "squared"}
# The loss that a parameter implies without --loss.
LOSS_PARAMETERS = {"delta": "huber", "epsilon": "epsilon_insensitive", "p": "lp", "quantile": "quantile"}
MAX_CLASS_SHARE = 0.5  # distinct classes, as a share of the rows
MIN_ROWS = 30  # a smaller table may be an example
# The loss of two classes that each loss of several classes belongs to.
LOSS_OF_TWO_CLASSES = {"softmax": "logistic", "crammer_singer": "hinge"}


def task_of(options: ModelOptions, of_target: str | None) -> str | None:
    """Return the task that --loss and --task name, or else the task that the target implies; None where none does."""
    given = {f"--task {options.task}": TASKS[options.task]} if options.task else {}
    if (found := _loss_of(options)) is not None:
        given[found[0]] = losses.get(found[1]).frame.task
    tasks = {*given.values(), *([of_target] if of_target else [])}
    if len(tasks) <= 1:
        return tasks.pop() if tasks else None
    parts = [f"{option} is for {task}" for option, task in given.items()]
    parts += [f"the target is for {of_target}"] if of_target else []
    task = of_target or next(iter(given.values()))
    names: dict[str, type[losses.Loss]] = {**losses.NAMES, **losses.ROW_NAMES}
    suitable = ", ".join(name for name, kind in names.items() if kind().frame.task == task)
    raise InvalidParameter(
        f"task, loss and target must agree; {', and '.join(parts)}. For {task} use one of the losses {suitable}."
    )


def make_estimator(options: ModelOptions, task: str, classes: Any, **settings: Any) -> KernelEstimator:
    """Return the estimator that the options describe."""
    from joker.estimators import KernelClassifier, KernelQuantile, KernelRegressor

    _, loss = _loss_of(options) or ("", DEFAULT_LOSS[task])
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
    for option in changed(options):
        if option in ("--class-weight", "--multi-class", "--calibrate"):
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
            return check_options(options, "classification", n_inputs, settings)
        except JokerError:
            return check_options(options, "regression", n_inputs, settings)
    # Weights of classes can be checked only when the classes are known.
    known = replace(options, class_weight=None) if task == "classification" else options
    for keywords in settings:
        make_estimator(known, task, None, **keywords).check_settings(n_inputs)


def _loss_of(options: ModelOptions) -> tuple[str, str] | None:
    """Return the option that names or implies the loss, as the user wrote it, and the loss; None if there is none."""
    set_parameters = [name for name in LOSS_PARAMETERS if getattr(options, name) is not None]
    named = (f"--loss {options.loss}", options.loss) if options.loss else None
    if named is None and len(set_parameters) == 1:
        name = set_parameters[0]
        named = OPTIONS[name], LOSS_PARAMETERS[name]
    how = options.multi_class
    if how is None:
        return named
    of_two = LOSS_OF_TWO_CLASSES.get(how)
    if named is not None and named[1] not in (losses.NAMES if of_two is None else (of_two, how)):
        one = f"one of the losses {of_two}, {how}" if of_two else "a loss of two classes, such as logistic"
        raise InvalidParameter(
            f"--multi-class {how} must be used with {one}; got --loss {named[1]}. Leave out one of them."
        )
    return named if of_two is None else (named[0] if named else f"--multi-class {how}", how)


# Options that the model for raw tables has too.
SHARED_OPTIONS = {
    *("--target", "--columns", "--drop", "--delimiter", "--header", "--decimal"),
    *("--task", "--class-weight", "--max-time", "--device", "--memory", "--seed", "--scratch"),
}
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="MODEL", help="The file of the model, such as model.joker.", parser=parse.output_path
    ),
]


def fit(
    data: DataFile,
    out: Out = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the memory plan of the fit, and exit.")] = False,
    resume: Annotated[
        bool | None,
        typer.Option(
            "--resume/--no-resume", help="Continue from the checkpoint of an interrupted fit, or start again."
        ),
    ] = None,
    kind: Annotated[
        ModelChoice,
        typer.Option(
            "--model",
            help="table: the best model for a raw table, which needs no other option. kernel: one kernel machine with "
            "the settings below. auto: kernel if one of its settings is given or DATA is not a raw table, else table.",
        ),
    ] = "auto",
    missing: Annotated[
        Missing | None,
        table_option(help="Missing values: fill them in (default of --model table), leave out rows, or stop."),
    ] = None,
    kinds: Annotated[
        str | None,
        table_option(metavar="A=KIND,...", help="Kinds of columns: number, category, date or drop (--model table)."),
    ] = None,
    table: TableOptions = TableOptions(),  # noqa: B008
    model: ModelOptions = ModelOptions(),  # noqa: B008
    kernel: KernelOptions = KernelOptions(),  # noqa: B008
    solver: SolverOptions = SolverOptions(),  # noqa: B008
    compute: ComputeOptions = ComputeOptions(),  # noqa: B008
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Fit a model on a table and write it to a file.

    `joker fit table.csv --target price --out model.joker` fits the best model for a raw table with words, categories,
    dates and missing values, prints the best trials and the score on held-out rows, and needs no other option. It reads
    the whole table into memory.

    A setting of a kernel machine, such as --loss, --kernel, --lam or -m, fits that one instead. The table is then read
    at most twice, and its rows are copied in random order to a temporary file in the folder of the model. Ctrl-C leaves
    a checkpoint; the same command with --resume continues from it and gives the same model.
    """
    given = [option for group in (table, model, kernel, solver, compute) for option in changed(group)]
    given = [option for option in given if option not in SHARED_OPTIONS]
    given += [option for option, on in {"--dry-run": dry_run, "--resume": resume}.items() if on]
    if kind == "table" and given:
        raise InvalidParameter(
            f"--model table finds its own settings; {', '.join(given)} must not be given with it. Leave it out, or use "
            "--model kernel."
        )
    if kind == "table" or (kind == "auto" and not given and is_raw_table(data)):
        checked = _checked_output(out, data)
        rows = open_training(data, table, missing or "impute", report)
        _fit_table_model(rows, checked, kinds, model, solver, compute, report)
        return
    if missing not in (None, "error") or kinds is not None:
        option = "--kinds" if kinds is not None else f"--missing {missing}"
        raise InvalidParameter(
            f"{option} needs the model for raw tables; a kernel machine with given settings takes complete columns of "
            "numbers. Use --model table, without settings of a kernel machine."
        )
    settings = {**kernel.keywords, **solver.keywords, **compute.keywords}
    with ExitStack() as stack:
        path = None if dry_run else _checked_output(out, data)
        if path is not None and current().rank == 0:
            stack.enter_context(exclusive(path))
        checkpoints = [] if path is None else [stack.enter_context(checkpoint(path, resume, report))]
        store = stack.enter_context(training_store(data, table, model, [settings], compute, path, report))
        estimator = make_estimator(model, str(store.task), store.classes, **settings)
        if path is None:
            plan = estimator.plan(store)
            report.result({**asdict(plan), "total": plan.total}) if report.as_json else print(plan)
            return
        estimator.set_params(callbacks=[*checkpoints, *progress(report)]).fit(store)
        estimator.save(path)
    report.summary(KernelModel(estimator).facts(path))


def _fit_table_model(
    data: RawData,
    path: Path,
    kinds: str | None,
    model: ModelOptions,
    solver: SolverOptions,
    compute: ComputeOptions,
    report: ReportOptions,
) -> None:
    """Fit the model for a raw table, and write it to a file."""
    from joker.tables import JokerClassifier, JokerRegressor

    max_time = parse.AUTO if math.isinf(solver.max_time) else solver.max_time
    settings: dict[str, Any] = {
        "columns": parse.kinds(kinds),
        "max_time": max_time,
        "device": parse.AUTO if compute.device is None else compute.device,
        "memory": compute.memory,
        "random_state": compute.seed,
    }
    y = data.y
    task = _task_of_table(data, model, report)
    if task == "classification":
        y = y.astype(np.int64) if y.dtype.kind == "f" and (y == np.round(y)).all() else y
        weights = parse.class_weights(model.class_weight, np.unique(y))
        estimator: Any = JokerClassifier(class_weight=weights, **settings)
    else:
        estimator = JokerRegressor(**settings)
    started = time.perf_counter()
    estimator.fit(data.inputs, y)
    seconds = time.perf_counter() - started
    estimator.target_name_ = data.target
    estimator.save(path)
    report.summary({**TableModel(estimator).facts(path, as_json=report.as_json), "seconds": seconds})


def _task_of_table(data: RawData, model: ModelOptions, report: ReportOptions) -> str:
    """Return the task that --task names, or else that of the target, and say which; refuse a target that is neither."""
    y, guess = data.y, guess_task(data.y)
    task = TASKS.get(model.task, guess.task)
    distinct = len(np.unique(y))
    repeats = y.dtype.kind == "f" or len(y) < MIN_ROWS or distinct <= MAX_CLASS_SHARE * len(y)
    if task == "classification" and not model.task and not repeats:
        raise InvalidData(
            f"classes must repeat; the target {data.target!r} is text with {distinct:,} distinct values in {len(y):,} "
            f"rows, such as {str(y[0])!r}. Write numbers as numbers, use another --target, or say --task classify."
        )
    reason = "" if model.task else f" because it has {guess.reason}"
    report.note(f"The target {data.target!r} means {task}{reason}; --task changes that.")
    if task == "regression" and y.dtype.kind != "f":
        raise InvalidParameter(f"--task regress needs a target of numbers; {data.target!r} is text.")
    return task


@contextmanager
def training_store(
    data: Path,
    table: TableOptions,
    model: ModelOptions,
    settings: Sequence[dict[str, Any]],
    compute: ComputeOptions,
    out: Path | None,
    report: ReportOptions,
) -> Iterator[Store]:
    """Provide the rows to train on as a row store, which is temporary if a table is given.

    Each of ``settings``, the keyword arguments of an estimator, is checked before a table is read.
    """
    if data_files.is_store(data):
        store = data_files.open_given(data, table)
        check_options(model, task_of(model, store.task), store.shape[1], settings)
        yield store
        return
    source = data_files.open_table(data, table)
    task = task_of(model, "classification" if source.schema.text_target else None)
    path = data_files.temporary_path(out, compute.scratch, data)
    check_options(model, task, source.schema.width, settings)
    with data_files.temporary_store(source, path, task, compute, report) as store:
        yield store


@contextmanager
def checkpoint(out: Path, resume: bool | None, report: ReportOptions) -> Iterator[Checkpoint]:
    """Provide a callback that writes checkpoints to a file beside the model, and remove the file at the end."""
    path = out.with_name(f"{out.name}.checkpoint")
    if path.exists() and resume is None:
        raise InvalidParameter(
            f"a fit to {out} was interrupted, and {path} holds its checkpoint. Use --resume to continue from it, or "
            "--no-resume to start again."
        )
    if resume and not path.exists():
        report.note(f"There is no checkpoint {path}; the fit starts from the beginning.")
    before = path.stat().st_mtime_ns if path.exists() else None
    try:
        yield Checkpoint(path, resume=bool(resume))
    except BaseException as error:
        new = path.exists() and path.stat().st_mtime_ns != before
        if new or (before is not None and resume and isinstance(error, KeyboardInterrupt)):
            error.add_note(f"A checkpoint is in {path}; the same command with --resume continues from it.")
        raise
    if current().rank:  # rank 0 has written the file
        return
    for left in (path, *out.parent.glob(f"{glob.escape(path.name)}.*.part")):  # a killed process leaves the latter
        left.unlink(missing_ok=True)


def _checked_output(out: Path | None, data: Path) -> Path:
    if out is None:
        raise InvalidParameter("--out must name a file for the model; it is not given. Use --out model.joker.")
    check_output(out, data)
    return out


def progress(report: ReportOptions) -> list[Callback]:
    """The callback that shows the progress of a fit, unless --quiet is given."""
    return [] if report.quiet else [Progress()]


FIT = Command(
    "fit",
    fit,
    (
        "joker fit houses.csv --target price --out model.joker",
        "joker fit mail.parquet -t spam --loss logistic -m 4000 --lam 2^-7:2^7 --memory 1GB --out model.joker",
    ),
)
