"""``joker convert``: from a table to a row store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from joker.cli import data_files, parse
from joker.cli.command import Command, ReportOptions
from joker.cli.data_files import check_output
from joker.cli.model_files import open_model
from joker.cli.options import TASKS, DataFile, Memory, ModelFile, TableOptions, Task, compute_option
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
    memory: Memory = data_files.DEFAULT_MEMORY,
    seed: Annotated[int, compute_option(help="The seed of the order of the rows.", min=0)] = 0,
    table: TableOptions = TableOptions(),  # noqa: B008
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Write the rows of a table in random order to one file, from which fits read them.

    The table is read once. The file holds the checked values, a checksum, and the names, classes, means and deviations
    of the columns. If the command fails, no file is left.
    """
    if not data_files.is_store(store):
        raise InvalidParameter(f"STORE must end in {data_files.SUFFIX}; got {store.name!r}. Use train.rows.")
    check_output(store, data)
    source = data_files.open_table(data, table, dtype)
    with report.progress_bar("convert") as update:
        written = write_store(
            source, store, task=TASKS.get(task), dtype=dtype, seed=seed, memory=memory, progress=update
        )
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


SUFFIX = ".onnx"


def export(
    model: ModelFile,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write: .onnx.", parser=parse.output_path)],
    dtype: Annotated[
        Literal["auto", "float32", "float64"],
        typer.Option(
            help="The type of the computation, the inputs and the outputs; 'auto' computes in the type of the model, "
            "with inputs and outputs in float32."
        ),
    ] = "auto",
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Write a model as an ONNX file, which ONNX Runtime runs without joker.

    A model of a raw table has one input for each column; any other model has one input, a matrix.
    """
    if out.suffix != SUFFIX:
        raise InvalidParameter(f"FILE must end in {SUFFIX}; got {out.name!r}. Use model.onnx.")
    check_output(out, model)
    from joker.export import to_onnx

    to_onnx(open_model(model, device="cpu").estimator, out, dtype=dtype)
    report.summary({"out": str(out), "size": format_bytes(out.stat().st_size)})


EXPORT = Command("export", export, ("joker export model.joker model.onnx",))
