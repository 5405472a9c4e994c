"""``joker fit``: from a table to a model, in bounded memory, and on again after an interruption."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from joker.callbacks import Callback, Checkpoint, Progress
from joker.cli import row_stores
from joker.cli.command import Command
from joker.cli.console import Telling
from joker.cli.model_files import facts_of
from joker.cli.options import Data, Kernel, Loss, Place, Reading, Solving
from joker.cli.prediction_files import check_place
from joker.data import Store
from joker.errors import InvalidParameter

Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="MODEL", help="Where the model goes, such as model.joker.")
]


def fit(
    data: Data,
    out: Out = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be held in memory and where, and end.")
    ] = False,
    resume: Annotated[
        bool | None,
        typer.Option(
            "--resume/--no-resume", help="Go on from the checkpoint that an interrupted fit has left, or begin anew."
        ),
    ] = None,
    reading: Reading = Reading(),  # noqa: B008
    loss: Loss = Loss(),  # noqa: B008
    kernel: Kernel = Kernel(),  # noqa: B008
    solving: Solving = Solving(),  # noqa: B008
    place: Place = Place(),  # noqa: B008
    telling: Telling = Telling(),  # noqa: B008
) -> None:
    """Fit a model on a table and write it to a file.

    A table is read twice at most, and put in random order in a file beside the model that is gone afterwards. Ctrl-C
    leaves a checkpoint; the same command with --resume goes on from it and gives the same model.
    """
    from joker.cli import build_estimator

    settings = {**kernel.keywords, **solving.keywords, **place.keywords}
    with ExitStack() as stack:
        target = None if dry_run else _target(out, data)
        kept = [] if target is None else [stack.enter_context(checkpoint(target, resume, telling))]
        store = stack.enter_context(opened(data, reading, loss, settings, place, target, telling))
        model = build_estimator.estimator(loss, str(store.task), store.classes, **settings)
        if target is None:
            telling.plan(model.plan(store))
            return
        model.set_params(callbacks=[*kept, *progress(telling)]).fit(store)
        model.save(target)
    telling.summary(facts_of(model, target))


@contextmanager
def opened(
    data: Path,
    reading: Reading,
    loss: Loss,
    settings: dict[str, Any],
    place: Place,
    out: Path | None,
    telling: Telling,
) -> Iterator[Store]:
    """Give the rows to train on as a row store, which is a passing one where a table is given."""
    from joker.cli import build_estimator

    if row_stores.is_store(data):
        store = row_stores.open_given(data, reading)
        build_estimator.task_of(loss, store.task)
        yield store
        return
    source = row_stores.open_table(data, reading)
    task = build_estimator.task_of(loss, "classification" if source.schema.text_target else None)
    beside = row_stores.place_of(out, place.scratch, data)
    build_estimator.rehearse(loss, task, source.schema.width, **settings)
    with row_stores.passing(source, beside, task, place, telling) as store:
        yield store


@contextmanager
def checkpoint(out: Path, resume: bool | None, telling: Telling) -> Iterator[Checkpoint]:
    """Give a callback that keeps the fit in a file beside the model, until the model is there."""
    path = out.with_name(f"{out.name}.checkpoint")
    if path.exists() and resume is None:
        raise InvalidParameter(
            f"a fit to {out} was interrupted, and {path} holds how far it came. Use --resume to go on from there, or "
            "--no-resume to begin anew."
        )
    if resume and not path.exists():
        telling.note(f"There is no {path} to go on from; the fit begins anew.")
    before = path.stat().st_mtime_ns if path.exists() else None
    try:
        yield Checkpoint(path, resume=bool(resume))
    except BaseException as error:
        new = path.exists() and path.stat().st_mtime_ns != before
        if new or (before is not None and resume and isinstance(error, KeyboardInterrupt)):
            error.add_note(f"How far the fit came is in {path}; the same command with --resume goes on from there.")
        raise
    for left in (path, *out.parent.glob(f"{glob.escape(path.name)}.*.part")):  # the latter by a process that was killed
        left.unlink(missing_ok=True)


def _target(out: Path | None, data: Path) -> Path:
    if out is None:
        raise InvalidParameter("--out must name a file for the model; it is not given. Use --out model.joker.")
    check_place(out, data)
    return out


def progress(telling: Telling) -> list[Callback]:
    """What shows how far a fit has come."""
    return [] if telling.quiet else [Progress()]


FIT = Command(
    "fit",
    fit,
    (
        "joker fit houses.csv --target price --task regress --out model.joker",
        "joker fit mail.parquet -t spam --loss logistic -m 4000 --lam 2^-7:2^7 --memory 1GB --out model.joker",
    ),
)
