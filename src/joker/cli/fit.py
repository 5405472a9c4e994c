"""``joker fit``: from a table to a model, in bounded memory, with checkpoints."""

from __future__ import annotations

import glob
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
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
    EnsembleOptions,
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
LOSS_PARAMETERS = {
    "delta": "huber", "epsilon": "epsilon_insensitive", "p": "lp", "quantile": "quantile", "expectile": "expectile",
    "power": "tweedie",
}  # fmt: skip
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
    *("--task", "--class-weight", "--max-time", "--device", "--memory", "--seed", "--scratch", "--dry-run"),
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan of the fit, its work and memory, and exit.")
    ] = False,
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
    ensemble: EnsembleOptions = EnsembleOptions(),  # noqa: B008
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
    the whole table into memory. --effort sets how much is searched, and the same table, seed and effort give the same
    model.

    A setting of a kernel machine, such as --loss, --kernel, --lam or -m, fits that one instead. The table is then read
    at most twice, and its rows are copied in random order to a temporary file in the folder of the model. Ctrl-C leaves
    a checkpoint; the same command with --resume continues from it and gives the same model. The fit of a raw table
    leaves none.
    """
    given = [option for group in (table, model, kernel, solver, compute) for option in changed(group)]
    as_table = _is_table_fit(data, kind, [option for option in given if option not in SHARED_OPTIONS], resume)
    path = None if dry_run else _checked_output(out, data)
    if as_table:
        settings = _table_settings(kinds, ensemble, solver, compute, report)
        return _fit_raw_table(data, path, table, missing or "impute", ensemble, settings, model, report)
    _refuse_table_options(ensemble, kinds, missing)
    settings = {**kernel.keywords, **solver.keywords, **compute.keywords}
    return _fit_kernel_machine(data, path, resume, table, model, settings, compute, report)


def _is_table_fit(data: Path, kind: str, given: Sequence[str], resume: bool | None) -> bool:
    """Whether the model is the one for raw tables; ``given`` are the options of a kernel machine that are set."""
    as_table = kind == "table" or (kind == "auto" and not given and is_raw_table(data))
    if as_table and resume is not None:
        option = "--resume" if resume else "--no-resume"
        raise InvalidParameter(
            f"{option} must be used with a kernel machine, which writes checkpoints; the fit of a raw table does not. "
            "Leave it out, or give the settings of the kernel machine whose fit was interrupted."
        )
    if kind == "table" and given:
        raise InvalidParameter(
            f"--model table finds its own settings; {', '.join(given)} must not be given with it. Leave it out, or use "
            "--model kernel."
        )
    return as_table


def _refuse_table_options(ensemble: EnsembleOptions, kinds: str | None, missing: str | None) -> None:
    """Raise an error for options that a kernel machine does not have."""
    of_tables = [*changed(ensemble), *(["--kinds"] if kinds is not None else [])]
    of_tables += [] if missing in (None, "error") else [f"--missing {missing}"]
    if of_tables:
        raise InvalidParameter(
            f"{', '.join(of_tables)} needs the model for raw tables; a kernel machine with given settings takes "
            "complete columns of numbers. Use --model table, without settings of a kernel machine."
        )


def _fit_raw_table(
    data: Path,
    path: Path | None,
    table: TableOptions,
    missing: Missing,
    ensemble: EnsembleOptions,
    settings: dict[str, Any],
    model: ModelOptions,
    report: ReportOptions,
) -> None:
    """Read a raw table, and fit the model for it."""
    with sole_writer(path):
        rows = open_training(data, table, missing, report)
        named = {what: rows.input_name(getattr(ensemble, what), what) for what in ("groups", "time")}
        _fit_table_model(rows, path, {**settings, **named}, model, report)


def _fit_kernel_machine(
    data: Path,
    path: Path | None,
    resume: bool | None,
    table: TableOptions,
    model: ModelOptions,
    settings: dict[str, Any],
    compute: ComputeOptions,
    report: ReportOptions,
) -> None:
    """Fit one kernel machine with given settings, and write it to a file; without a file, print the plan of the fit."""
    with ExitStack() as stack:
        stack.enter_context(sole_writer(path))
        checkpoints = [] if path is None else [stack.enter_context(checkpoint(path, resume, report))]
        store = stack.enter_context(training_store(data, table, model, [settings], compute, path, report))
        estimator = make_estimator(model, str(store.task), store.classes, **settings)
        if path is None:
            return _print_plan(estimator.plan(store), report)
        estimator.set_params(callbacks=[*checkpoints, *progress(report)]).fit(store)
        estimator.save(path)
    report.summary(KernelModel(estimator).facts(path))


def _print_plan(plan: Any, report: ReportOptions) -> None:
    """Print the plan of a fit: what it holds in memory, and of a table fit its work."""
    work = {"seconds": plan.seconds} if hasattr(plan, "seconds") else {}
    report.result({**asdict(plan), "total": plan.total, **work}) if report.as_json else print(plan)


def _table_settings(
    kinds: str | None,
    ensemble: EnsembleOptions,
    solver: SolverOptions,
    compute: ComputeOptions,
    report: ReportOptions,
) -> dict[str, Any]:
    """Return the keyword arguments of a model for raw tables, which are checked before the table is read."""
    from joker.tables.plan import check_effort

    return {
        "columns": parse.kinds(kinds),
        **({} if ensemble.effort is None else {"effort": check_effort(ensemble.effort)}),
        "cv": ensemble.cv,
        "max_time": None if math.isinf(solver.max_time) else solver.max_time,
        "device": parse.AUTO if compute.device is None else compute.device,
        "memory": compute.memory,
        "random_state": compute.seed,
        "verbose": int(not report.quiet),
    }


def _fit_table_model(
    data: RawData, path: Path | None, settings: dict[str, Any], model: ModelOptions, report: ReportOptions
) -> None:
    """Fit the model for a raw table, and write it to a file; without a file, print the plan of the fit."""
    from joker.tables import JokerClassifier, JokerRegressor

    y = data.y
    task = _task_of_table(data, model, report)
    if task == "classification":
        y = y.astype(np.int64) if y.dtype.kind == "f" and (y == np.round(y)).all() else y
        weights = parse.class_weights(model.class_weight, np.unique(y))
        estimator: Any = JokerClassifier(class_weight=weights, **settings)
    else:
        estimator = JokerRegressor(**settings)
    if path is None:
        _print_plan(estimator.plan(data.inputs, y), report)
        return
    estimator.fit(data.inputs, y)
    estimator.target_name_ = data.target
    estimator.set_params(verbose=0).save(path)
    report.summary(TableModel(estimator).facts(path, as_json=report.as_json))


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


def sole_writer(out: Path | None) -> AbstractContextManager[None]:
    """Refuse a second fit to the same file; of several processes that fit one model, rank 0 has the lock."""
    return nullcontext() if out is None or current().rank else exclusive(out)


def progress(report: ReportOptions) -> list[Callback]:
    """The callback that shows the progress of a fit, unless --quiet is given."""
    return [] if report.quiet else [Progress()]


FIT = Command(
    "fit",
    fit,
    (
        "joker fit houses.csv --target price --out model.joker",
        "joker fit visits.csv --target cost --groups patient --effort 2 --out model.joker",
        "joker fit mail.parquet -t spam --loss logistic -m 4000 --lam 2^-7:2^7 --memory 1GB --out model.joker",
    ),
)
