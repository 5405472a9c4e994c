"""``joker predict``: predictions for the rows of a table, in bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from joker.cli import model_files, parse, raw_tables, row_stores, table_models
from joker.cli.command import Command
from joker.cli.console import ReportOptions
from joker.cli.options import DataFile, Device, Memory, ModelFile, TableFormat
from joker.cli.prediction_files import check_table_output, write_table
from joker.errors import InvalidParameter
from joker.runtime import DEFAULT_BUDGET, parse_bytes

MAX_BATCH_ROWS = 2**16  # larger batches are not faster
BATCH_SHARE = 8  # reading a batch takes at most this fraction, one eighth, of the memory


def predict(
    model: ModelFile,
    data: DataFile,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The file of the predictions: .csv or .parquet.",
            parser=parse.output_path,
        ),
    ],
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    memory: Memory = "auto",
    device: Device = None,
    table_format: TableFormat = TableFormat(),  # noqa: B008
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Predict for each row of a table, which may be larger than memory."""
    check_table_output(out, model, data)
    if row_stores.is_store(data):
        raise InvalidParameter(
            f"DATA must be a table with its rows in their original order; {data} is a row store, which has them in "
            "random order. Give the file that it was converted from."
        )
    fitted = model_files.open_model(model, device=device, memory=memory)
    if table_models.is_table_model(fitted):
        _predict_raw_table(fitted, data, out, proba, memory, table_format, report)
        return
    names, predicted = model_files.outputs(fitted, proba)
    source = model_files.open_like_training(data, fitted, None, **table_format.keywords)
    rows = 0
    with write_table(out, names) as write, report.progress_bar("predict") as update:
        for batch in source.batches(batch_rows(memory, source.schema.width, len(names))):
            write(predicted(batch.x))
            rows = batch.first + len(batch)
            update(rows, source.rows)
    report.summary({"out": str(out), "rows": rows, "columns": names})


def _predict_raw_table(
    fitted: Any, data: Path, out: Path, proba: bool, memory: str, table_format: TableFormat, report: ReportOptions
) -> None:
    """Predict the rows of a raw table, whose columns are found by name."""
    names, predicted = table_models.outputs(fitted, proba)
    table, columns = raw_tables.open_inputs(data, table_format)
    inputs, rows = table_models.inputs_of(fitted, table, columns), 0
    with write_table(out, names) as write, report.progress_bar("predict") as update:
        for batch in raw_tables.batches(inputs, batch_rows(memory, inputs.num_columns, len(names))):
            write(predicted(batch))
            rows += batch.num_rows
            update(rows, inputs.num_rows)
    report.summary({"out": str(out), "rows": rows, "columns": names})


def batch_rows(memory: str, width: int, outputs: int) -> int:
    """Return the number of rows to read at a time."""
    budget = DEFAULT_BUDGET if memory == "auto" else parse_bytes(memory)
    return max(1, min(MAX_BATCH_ROWS, budget // BATCH_SHARE // (8 * (width + 4 * outputs))))


PREDICT = Command(
    "predict",
    predict,
    (
        "joker predict model.joker new.csv --out predictions.csv",
        "joker predict model.joker new.parquet -o p.parquet --proba",
    ),
)
