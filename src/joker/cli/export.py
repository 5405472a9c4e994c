"""``joker export``: a model as a file that other programs run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from joker.cli import model_files, parse
from joker.cli.command import Command
from joker.cli.console import ReportOptions
from joker.cli.options import ModelFile
from joker.cli.prediction_files import check_output
from joker.errors import InvalidParameter
from joker.runtime import format_bytes

SUFFIX = ".onnx"


class ExportType(StrEnum):
    """The type of the numbers of an exported model."""

    AUTO = "auto"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


def export(
    model: ModelFile,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write: .onnx.", parser=parse.output_path)],
    dtype: Annotated[
        ExportType,
        typer.Option(
            help="The type of the computation, the inputs and the outputs; 'auto' computes in the type of the model, "
            "with inputs and outputs in float32."
        ),
    ] = ExportType.AUTO,
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Write a model as an ONNX file, which ONNX Runtime runs without joker.

    A model of a raw table has one input for each column; any other model has one input, a matrix.
    """
    if out.suffix != SUFFIX:
        raise InvalidParameter(f"FILE must end in {SUFFIX}; got {out.name!r}. Use model.onnx.")
    check_output(out, model)
    from joker.export import to_onnx

    to_onnx(model_files.open_model(model, device="cpu"), out, dtype=dtype.value)
    report.summary({"out": str(out), "size": format_bytes(out.stat().st_size)})


EXPORT = Command("export", export, ("joker export model.joker model.onnx",))
