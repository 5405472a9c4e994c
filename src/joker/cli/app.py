"""The program ``joker``: its commands and its entry point."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Annotated

import typer

from joker import interrupts
from joker.cli.command import FAILED, INTERRUPTED, TERMINATED, TRACEBACK, Command, explain
from joker.cli.convert import CONVERT, EXPORT
from joker.cli.fit import FIT
from joker.cli.info import INFO
from joker.cli.predict import EVALUATE, PREDICT
from joker.cli.tune import TUNE
from joker.distributed import group
from joker.errors import JokerError
from joker.runtime import VERSION

SHARED = ("fit", "tune")  # the commands that all processes run; rank 0 alone runs the others


def run_together(run: Callable[[], int], arguments: Sequence[str]) -> int:
    """Run the program in this process as one of several, and return its exit status."""
    if next((name for name in arguments if not name.startswith("-")), "") not in SHARED:
        return run() if os.environ.get("RANK", "0") == "0" else 0  # without a barrier
    try:
        with group() as processes:
            if processes.rank == 0:
                status = run()
            else:
                with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
                    status = run()
            if status == 0:
                processes.decide(True)  # a barrier
            return status
    except JokerError as error:
        print(explain(error)[0], file=sys.stderr)
        return FAILED


COMMANDS: tuple[Command, ...] = (FIT, PREDICT, EVALUATE, TUNE, CONVERT, EXPORT, INFO)
EPILOG = (
    "Each command shows its options and an example with --help. Exit status: 0 success, 1 an error in the data or a "
    f"file, 2 wrong usage, {INTERRUPTED} interrupted, {TERMINATED} terminated. Set the environment variable "
    f"{TRACEBACK}=1 to see the traceback of an error."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    if signal.getsignal(signal.SIGINT) is interrupts.end:  # no more imports: a command answers Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given = sys.argv[1:] if arguments is None else list(arguments)
    alone = os.environ.get("WORLD_SIZE", "1") in ("", "1")  # a launcher of several processes sets it
    try:
        status = _run(given) if alone else run_together(lambda: _run(given), given)
        interrupts.ignore_at_end()
    except KeyboardInterrupt:  # a second one, after the command has ended
        interrupts.ignore_at_end()
        return INTERRUPTED
    return status


def _run(arguments: list[str]) -> int:
    try:
        program()(arguments, prog_name="joker")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:  # before the command begins
        print("Interrupted.", file=sys.stderr)
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
