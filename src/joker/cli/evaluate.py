"""``joker evaluate``: how good a model is on a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from joker.cli import model_files, row_stores
from joker.cli.command import Command
from joker.cli.console import Telling
from joker.cli.options import READING, Data, Device, Layout, Memory, Model
from joker.cli.predict import batch_rows
from joker.data import Batch
from joker.errors import InvalidData


def evaluate(
    model: Model,
    data: Data,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="The true values; by default the target of the fit.",
            rich_help_panel=READING,
        ),
    ] = None,
    memory: Memory = "auto",
    device: Device = None,
    layout: Layout = Layout(),  # noqa: B008
    telling: Telling = Telling(),  # noqa: B008
) -> None:
    """Compare predictions with the truth.

    Classes: accuracy, AUC (two classes), log loss (models with probabilities). Numbers: RMSE, MAE, R² and the relative
    error, the root mean square of (prediction − truth)/truth, where no true value is 0. Quantiles: the pinball loss,
    the share of true values that are not above the prediction, and MAE.
    """
    from joker.cli.metrics import metrics_of

    fitted = model_files.open_model(model, device=device, memory=memory)
    found = metrics_of(fitted)
    total, batches = _rows(fitted, data, target, memory, layout)
    with telling.bar("evaluate") as update:
        for batch in batches:
            if batch.y is None:
                raise InvalidData(
                    f"{data}: the column of the true values must be there; it is not. Name it with --target."
                )
            found.add(batch.x, batch.y, batch.first)
            update(found.rows, total)
    telling.result({"model": str(model), "data": str(data), "rows": found.rows, **found.figures})


def _rows(
    fitted: Any, data: Path, target: str | None, memory: str, layout: Layout
) -> tuple[int | None, Iterator[Batch]]:
    """The number of rows where it is known, and the rows."""
    if row_stores.is_store(data):
        return row_stores.batches(fitted, data, target, layout, batch_rows(memory, fitted.n_features_in_, 1))
    source = model_files.open_like_training(data, fitted, target, **layout.keywords)
    return source.rows, source.batches(batch_rows(memory, source.schema.width, 1))


EVALUATE = Command("evaluate", evaluate, ("joker evaluate model.joker test.csv --target price --json",))
