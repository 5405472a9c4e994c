"""The program ``joker``: its commands and its entry point."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from joker.cli.command import Command
from joker.cli.convert import CONVERT
from joker.cli.errors import INTERRUPTED, TERMINATED, TRACEBACK
from joker.cli.evaluate import EVALUATE
from joker.cli.export import EXPORT
from joker.cli.fit import FIT
from joker.cli.info import INFO
from joker.cli.paper import PAPER
from joker.cli.predict import PREDICT
from joker.cli.processes import run_together, started_together
from joker.cli.tune import TUNE
from joker.runtime import VERSION

COMMANDS: tuple[Command, ...] = (FIT, PREDICT, EVALUATE, TUNE, CONVERT, EXPORT, INFO, PAPER)
EPILOG = (
    "Each command shows its options and an example with --help. Exit status: 0 success, 1 an error in the data or a "
    f"file, 2 wrong usage, {INTERRUPTED} interrupted, {TERMINATED} terminated. Set the environment variable "
    f"{TRACEBACK}=1 to see the traceback of an error."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    return run_together(lambda: _run(given), given) if started_together() else _run(given)


def _run(arguments: list[str]) -> int:
    try:
        program()(arguments, prog_name="joker")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def program() -> typer.Typer:
    """Return the program with all of its commands."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich", epilog=EPILOG)
    app.callback(no_args_is_help=True)(_about)
    for command in COMMANDS:
        command.add_to(app)
    return app


def _version(show: bool) -> None:
    if show:
        print(f"joker {VERSION}")
        raise typer.Exit


def _about(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Train kernel machines on tables larger than memory, with a bound on the distance to the optimum."""
