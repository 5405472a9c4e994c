"""``joker predict`` and ``joker evaluate``: predictions for the rows of a table, and their quality."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from joker.cli import parse
from joker.cli.command import Command, ReportOptions
from joker.cli.data_files import check_table_output, is_store, kept_columns, write_table
from joker.cli.model_files import open_model
from joker.cli.options import DataFile, Device, Memory, ModelFile, TableFormat, table_option
from joker.errors import InvalidData, InvalidParameter
from joker.runtime import DEFAULT_BUDGET, parse_bytes

MAX_BATCH_ROWS = 2**16  # larger batches are not faster
OUT_HELP = "The file of the predictions: .csv or .parquet."
KEEP_HELP = "Columns of DATA to copy before the predictions, such as identifiers, with commas."
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # the first characters of what spreadsheets take for a formula
BATCH_SHARE = 8  # reading a batch takes at most this fraction, one eighth, of the memory


def predict(
    model: ModelFile,
    data: DataFile,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help=OUT_HELP, parser=parse.output_path)],
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    keep: Annotated[str | None, typer.Option("--keep", metavar="COLUMNS", help=KEEP_HELP)] = None,
    memory: Memory = "auto",
    device: Device = None,
    table_format: TableFormat = TableFormat(),  # noqa: B008
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Predict for each row of a table, which may be larger than memory."""
    check_table_output(out, model, data)
    if is_store(data):
        raise InvalidParameter(
            f"DATA must be a table with its rows in their original order; {data} is a row store, which has them in "
            "random order. Give the file that it was converted from."
        )
    fitted = open_model(model, device=device, memory=memory)
    names, predicted = fitted.outputs(proba)
    kept, next_kept = _kept(data, parse.names(keep), names, table_format)
    names = [*kept, *names]
    if formulas := [label for label in fitted.labels if out.suffix.lower() == ".csv" and label.startswith(FORMULAS)]:
        report.note(
            f"The class {formulas[0]!r} begins like a formula of a spreadsheet, and is written as it is. Import {out} "
            "as text there, or write .parquet."
        )
    rows = fitted.open(data, None, table_format)
    done = 0
    with write_table(out, names) as write, report.progress_bar("predict") as update:
        for batch in rows.batches(batch_rows(memory, rows.width, len(names))):
            write([*next_kept(len(batch)), *predicted(batch.x)])
            done = batch.first + len(batch)
            update(done, rows.total)
    report.summary({"out": str(out), "rows": done, "columns": names})


def _kept(
    data: Path, keep: list[str] | None, predicted: list[str], table_format: TableFormat
) -> tuple[list[str], Callable[[int], list[Any]]]:
    """Return the names of the columns to copy, and a function that returns them for so many of the next rows."""
    if keep is None:
        return [], lambda rows: []
    names, next_rows = kept_columns(data, keep, table_format)
    if twice := set(names) & set(predicted):
        raise InvalidParameter(
            f"--keep must not name a column of predictions; got {sorted(twice)[0]!r}. Rename the column of {data}."
        )
    return names, next_rows


def batch_rows(memory: str, width: int, outputs: int) -> int:
    """Return the number of rows to read at a time."""
    budget = DEFAULT_BUDGET if memory == "auto" else parse_bytes(memory)
    return max(1, min(MAX_BATCH_ROWS, budget // BATCH_SHARE // (8 * (width + 4 * outputs))))


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

    fitted = open_model(model, device=device, memory=memory)
    metrics = metrics_of(fitted)
    rows = fitted.open(data, target, table_format, labelled=True)
    with report.progress_bar("evaluate") as update:
        for batch in rows.batches(batch_rows(memory, rows.width, 1)):
            if batch.y is None:
                raise InvalidData(
                    f"{data}: the table must have the column of true values; it has not. Name it with --target."
                )
            metrics.add(batch.x, batch.y, batch.first)
            update(metrics.rows, rows.total)
    report.result({"model": str(model), "data": str(data), "rows": metrics.rows, **metrics.values})


PREDICT = Command(
    "predict",
    predict,
    (
        "joker predict model.joker new.csv --out predictions.csv",
        "joker predict model.joker new.parquet -o p.parquet --proba --keep id",
    ),
)
EVALUATE = Command("evaluate", evaluate, ("joker evaluate model.joker test.csv --target price --json",))
