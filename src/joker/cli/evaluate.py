"""``joker evaluate``: the quality of a model on a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from joker.cli import model_files, raw_tables, row_stores, table_models
from joker.cli.command import Command
from joker.cli.console import ReportOptions
from joker.cli.options import DataFile, Device, Memory, Missing, ModelFile, TableFormat, TableOptions, table_option
from joker.cli.predict import batch_rows
from joker.data import Batch
from joker.errors import InvalidData


def evaluate(
    model: ModelFile,
    data: DataFile,
    target: Annotated[
        str | None,
        table_option(
            "--target", "-t", metavar="COLUMN", help="The column of true values; by default the target of the fit."
        ),
    ] = None,
    memory: Memory = "auto",
    device: Device = None,
    table_format: TableFormat = TableFormat(),  # noqa: B008
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Compare predictions with true values.

    Classes: accuracy, AUC (two classes), log loss (models with probabilities). Numbers: RMSE, MAE, R² and the relative
    error, the root mean square of (prediction − truth)/truth, if no true value is 0. Quantiles: the pinball loss, the
    share of true values that are at most the prediction, and MAE.
    """
    from joker.cli.metrics import metrics_of

    fitted = model_files.open_model(model, device=device, memory=memory)
    if table_models.is_table_model(fitted):
        rows, values = _of_raw_table(fitted, data, target, table_format)
        report.result({"model": str(model), "data": str(data), "rows": rows, **values})
        return
    metrics = metrics_of(fitted)
    total, batches = _batches(fitted, data, target, memory, table_format)
    with report.progress_bar("evaluate") as update:
        for batch in batches:
            if batch.y is None:
                raise InvalidData(
                    f"{data}: the table must have the column of true values; it has not. Name it with --target."
                )
            metrics.add(batch.x, batch.y, batch.first)
            update(metrics.rows, total)
    report.result({"model": str(model), "data": str(data), "rows": metrics.rows, **metrics.values})


def _of_raw_table(
    fitted: Any, data: Path, target: str | None, table_format: TableFormat
) -> tuple[int, dict[str, float | None]]:
    """The number of rows of a raw table, and the metrics of a model on them."""
    options = TableOptions(**vars(table_format), target=target or getattr(fitted, "target_name_", None))
    rows = raw_tables.open_training(data, options, Missing.IMPUTE, ReportOptions(quiet=True))
    return len(rows.y), table_models.metrics(fitted, rows.inputs, rows.y)


def _batches(
    fitted: Any, data: Path, target: str | None, memory: str, table_format: TableFormat
) -> tuple[int | None, Iterator[Batch]]:
    """The number of rows if it is known, and the rows in batches."""
    if row_stores.is_store(data):
        return row_stores.batches(fitted, data, target, table_format, batch_rows(memory, fitted.n_features_in_, 1))
    source = model_files.open_like_training(data, fitted, target, **table_format.keywords)
    return source.rows, source.batches(batch_rows(memory, source.schema.width, 1))


EVALUATE = Command("evaluate", evaluate, ("joker evaluate model.joker test.csv --target price --json",))
