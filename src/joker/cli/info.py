"""``joker info``: a description of a file or of this machine."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from joker.cli import data_files
from joker.cli.command import Command, ReportOptions
from joker.cli.convert import facts_of_store
from joker.cli.model_files import open_model
from joker.data import open_store
from joker.data.store.format import STORE_VERSION
from joker.errors import MissingFile
from joker.runtime import VERSION, format_bytes, gpus

PACKAGES = ("torch", "numpy", "scikit-learn", "pyarrow", "h5py", "triton")


def info(
    path: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A model or a row store; by default this machine.")
    ] = None,
    report: ReportOptions = ReportOptions(),  # noqa: B008
) -> None:
    """Describe a model, a row store or this machine."""
    report.result(_machine() if path is None else _file(path, report.as_json))


def _file(path: Path, as_json: bool) -> dict[str, Any]:
    if not path.exists():
        raise MissingFile(f"a file must exist; there is no {path}. Check the path.")
    if data_files.is_store(path):
        return {**facts_of_store(open_store(path)), "format": STORE_VERSION}
    model = open_model(path)
    header = {name: model.document[name] for name in ("written_by", "sha256")}
    return {**model.facts(path, as_json=as_json), **header, "format": model.document["version"]}


def _machine() -> dict[str, Any]:
    versions = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "joker": VERSION,
        "python": platform.python_version(),
        **versions,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "free_memory": _free_memory(),
        "gpus": [f"{name}, {format_bytes(free)} of {format_bytes(total)} free" for name, free, total in gpus()],
    }


def _free_memory() -> str | None:
    """The memory that Linux estimates to be available for a new program."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    kibibytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return format_bytes(kibibytes[0] * 1024) if kibibytes else None


INFO = Command("info", info, ("joker info", "joker info model.joker --json"))
