"""``joker convert``: from a table to a row store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from joker.cli import row_stores
from joker.cli.command import Command
from joker.cli.console import Telling
from joker.cli.options import PLACE, Data, Memory, Reading, Task
from joker.cli.prediction_files import check_place
from joker.data import Store
from joker.data import convert as put
from joker.errors import InvalidParameter
from joker.runtime import format_bytes


def convert(
    data: Data,
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The row store to write, such as train.rows.")],
    task: Annotated[Task | None, typer.Option(help="What the target is; found by itself.")] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="How inputs are kept: uint8, int16, float16, float32, float64; as they are, or float32.",
            rich_help_panel=PLACE,
        ),
    ] = None,
    memory: Memory = row_stores.MEMORY,
    seed: Annotated[int, typer.Option(help="Of the order of the rows.", min=0, rich_help_panel=PLACE)] = 0,
    reading: Reading = Reading(),  # noqa: B008
    telling: Telling = Telling(),  # noqa: B008
) -> None:
    """Put the rows of a table in random order into one file, for fits from the disk.

    One pass over the table; checked values, a checksum, column names, classes, means and deviations are in the file. It
    is there whole or not at all.
    """
    if not row_stores.is_store(store):
        raise InvalidParameter(f"STORE must end in {row_stores.SUFFIX}; got {store.name!r}. Use train.rows, for one.")
    check_place(store, data)
    source = row_stores.open_table(data, reading, dtype)
    with telling.bar("convert") as update:
        noun = None if task is None else task.noun
        made = put(source, store, task=noun, dtype=dtype, seed=seed, memory=memory, progress=update)
    telling.summary(facts_of_store(made))


def facts_of_store(store: Store) -> dict[str, Any]:
    """What there is to tell of a row store."""
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
