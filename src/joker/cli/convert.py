"""``joker convert``: from a table to a row store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from joker.cli import parse, row_stores
from joker.cli.command import Command
from joker.cli.console import ReportOptions
from joker.cli.options import DataFile, Memory, TableOptions, Task, compute_option
from joker.cli.prediction_files import check_output
from joker.data import Store
from joker.data import convert as write_store
from joker.errors import InvalidParameter
from joker.runtime import format_bytes


def convert(
    data: DataFile,
    store: Annotated[
        Path,
        typer.Argument(metavar="STORE", help="The row store to write, such as train.rows.", parser=parse.output_path),
    ],
    task: Annotated[Task | None, typer.Option(help="The kind of the target; detected by default.")] = None,
    dtype: Annotated[
        str | None,
        compute_option(
            metavar="TYPE",
            help="The type of stored inputs: uint8, int16, float16, float32, float64; by default that of the table if "
            "it is one of these, else float32.",
        ),
    ] = None,
    memory: Memory = row_stores.DEFAULT_MEMORY,
    seed: Annotated[int, compute_option(help="The seed of the order of the rows.", min=0)] = 0,
    table: TableOptions = TableOptions(),  # noqa: B008
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Write the rows of a table in random order to one file, from which fits read them.

    The table is read once. The file holds the checked values, a checksum, and the names, classes, means and deviations
    of the columns. If the command fails, no file is left.
    """
    if not row_stores.is_store(store):
        raise InvalidParameter(f"STORE must end in {row_stores.SUFFIX}; got {store.name!r}. Use train.rows.")
    check_output(store, data)
    source = row_stores.open_table(data, table, dtype)
    with report.progress_bar("convert") as update:
        noun = None if task is None else task.noun
        written = write_store(source, store, task=noun, dtype=dtype, seed=seed, memory=memory, progress=update)
    report.summary(facts_of_store(written))


def facts_of_store(store: Store) -> dict[str, Any]:
    """The facts about a row store that the program prints."""
    rows, inputs = store.shape
    return {
        "store": str(store.path),
        "rows": rows,
        "inputs": inputs,
        "type": store.header.x.dtype.name,
        "columns": list(store.schema.names),
        "target": store.schema.target,
        "task": store.task,
        "classes": None if store.classes is None else store.classes.tolist(),
        "seed": store.header.seed,
        "source": store.header.source,
        "size": format_bytes(store.header.end),
    }


CONVERT = Command("convert", convert, ("joker convert houses.csv houses.rows --target price",))
