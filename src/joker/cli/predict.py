"""``joker predict``: rows in, predictions out, in bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from joker.cli import model_files, row_stores
from joker.cli.command import Command
from joker.cli.console import Telling
from joker.cli.options import Data, Device, Layout, Memory, Model
from joker.cli.prediction_files import check_target, writing
from joker.errors import InvalidParameter
from joker.runtime import DEFAULT_BUDGET, parse_bytes

MOST_ROWS = 2**16  # of a batch: more does not go faster
PARTS = 8  # a batch as it is read takes at most one of so many parts of the memory


def predict(
    model: Model,
    data: Data,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="Where predictions go: .csv or .parquet."),
    ],
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    memory: Memory = "auto",
    device: Device = None,
    layout: Layout = Layout(),  # noqa: B008
    telling: Telling = Telling(),  # noqa: B008
) -> None:
    """Predict for each row of a table, which may be larger than memory."""
    check_target(out, model, data)
    if row_stores.is_store(data):
        raise InvalidParameter(
            f"DATA must be a table whose rows are in their own order; {data} is a row store, which has them in random "
            "order. Give the file that it was made from."
        )
    fitted = model_files.open_model(model, device=device, memory=memory)
    names, predicted = model_files.outputs(fitted, proba)
    source = model_files.open_like_training(data, fitted, None, **layout.keywords)
    rows = 0
    with writing(out, names) as write, telling.bar("predict") as update:
        for batch in source.batches(batch_rows(memory, source.schema.width, len(names))):
            write(predicted(batch.x))
            rows = batch.first + len(batch)
            update(rows, source.rows)
    telling.summary({"out": str(out), "rows": rows, "columns": names})


def batch_rows(memory: str, width: int, outputs: int) -> int:
    """How many rows to read at a time."""
    budget = DEFAULT_BUDGET if memory == "auto" else parse_bytes(memory)
    return max(1, min(MOST_ROWS, budget // PARTS // (8 * (width + 4 * outputs))))


PREDICT = Command(
    "predict",
    predict,
    (
        "joker predict model.joker new.csv --out predictions.csv",
        "joker predict model.joker new.parquet -o p.parquet --proba",
    ),
)
