"""``joker fit``: from a table to a model, in bounded memory, with checkpoints."""

from __future__ import annotations

import glob
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from joker.callbacks import Callback, Checkpoint, Progress
from joker.cli import parse, row_stores
from joker.cli.command import Command
from joker.cli.console import ReportOptions
from joker.cli.model_files import facts_of
from joker.cli.options import (
    ComputeOptions,
    DataFile,
    KernelOptions,
    Missing,
    ModelKind,
    ModelOptions,
    SolverOptions,
    TableOptions,
    table_option,
)
from joker.cli.prediction_files import check_output
from joker.cli.raw_tables import is_raw_table, looks_like_libsvm_file, open_training
from joker.data import Store
from joker.distributed import current
from joker.errors import InvalidParameter
from joker.runtime.atomic_file import exclusive

# Options that the model for raw tables has too.
SHARED_OPTIONS = {
    *("target", "columns", "drop", "delimiter", "header", "decimal"),
    *("task", "class_weight", "max_time", "device", "memory", "seed", "scratch"),
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
        ModelKind,
        typer.Option(
            "--model",
            help="table: the best model for a raw table, which needs no other option. kernel: one kernel machine with "
            "the settings below. auto: kernel if one of its settings is given or DATA is not a raw table, else table.",
        ),
    ] = ModelKind.AUTO,
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
    from joker.cli import build_estimator

    given = [*kernel_options(table, model, kernel, solver, compute), *(["--dry-run"] if dry_run else [])]
    given += ["--resume"] if resume else []
    if as_raw_table(kind, given, data):
        _fit_raw_table(data, out, missing, kinds, table, model, solver, compute, report)
        return
    _check_kernel_options(missing, kinds)
    settings = {**kernel.keywords, **solver.keywords, **compute.keywords}
    with ExitStack() as stack:
        path = None if dry_run else _checked_output(out, data)
        if path is not None and current().rank == 0:
            stack.enter_context(exclusive(path))
        checkpoints = [] if path is None else [stack.enter_context(checkpoint(path, resume, report))]
        store = stack.enter_context(training_store(data, table, model, [settings], compute, path, report))
        estimator = build_estimator.estimator(model, str(store.task), store.classes, **settings)
        if path is None:
            report.plan(estimator.plan(store))
            return
        estimator.set_params(callbacks=[*checkpoints, *progress(report)]).fit(store)
        estimator.save(path)
    report.summary(facts_of(estimator, path))


def kernel_options(*groups: Any) -> list[str]:
    """The options that only a kernel machine has and that differ from their defaults."""
    given = []
    for group in groups:
        default = type(group)()
        names = [name for name in vars(group) if name not in SHARED_OPTIONS]
        given += [f"--{name.replace('_', '-')}" for name in names if getattr(group, name) != getattr(default, name)]
    return given


def as_raw_table(kind: ModelKind, given: Sequence[str], data: Path) -> bool:
    """Whether to fit the model for a raw table."""
    if kind is ModelKind.TABLE and given:
        raise InvalidParameter(
            f"--model table finds its own settings; {', '.join(given)} must not be given with it. Leave it out, or use "
            "--model kernel."
        )
    if kind is ModelKind.AUTO:
        return not given and is_raw_table(data) and not looks_like_libsvm_file(data)
    return kind is ModelKind.TABLE


def _check_kernel_options(missing: Missing | None, kinds: str | None) -> None:
    if missing not in (None, Missing.ERROR) or kinds is not None:
        option = "--kinds" if kinds is not None else f"--missing {missing}"
        raise InvalidParameter(
            f"{option} needs the model for raw tables; a kernel machine with given settings takes complete columns of "
            "numbers. Use --model table, without settings of a kernel machine."
        )


def _fit_raw_table(
    data: Path,
    out: Path | None,
    missing: Missing | None,
    kinds: str | None,
    table: TableOptions,
    model: ModelOptions,
    solver: SolverOptions,
    compute: ComputeOptions,
    report: ReportOptions,
) -> None:
    """Fit the model for a raw table, and write it to a file."""
    from joker.cli import table_models

    path = _checked_output(out, data)
    rows = open_training(data, table, missing or Missing.IMPUTE, report)
    limit = None if math.isinf(solver.max_time) else solver.max_time
    fitted, took = table_models.fit_table(rows, model, compute, kinds, limit, report)
    fitted.save(path)
    report.summary({**table_models.facts_of(fitted, path, as_json=report.as_json), **took})


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
    from joker.cli.build_estimator import check_options, task_of

    if row_stores.is_store(data):
        store = row_stores.open_given(data, table)
        check_options(model, task_of(model, store.task), store.shape[1], settings)
        yield store
        return
    source = row_stores.open_table(data, table)
    task = task_of(model, "classification" if source.schema.text_target else None)
    path = row_stores.temporary_path(out, compute.scratch, data)
    check_options(model, task, source.schema.width, settings)
    with row_stores.temporary_store(source, path, task, compute, report) as store:
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
    if current().rank:  # the first process has written the file
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
