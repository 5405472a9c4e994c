"""The program in several processes that ``torchrun`` has started: all of them fit, and the first one reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout

from joker.cli.errors import FAILED, explain
from joker.distributed import group
from joker.errors import JokerError

SHARED = ("fit", "tune")  # the commands that all processes run together; the first process alone runs the others


def started_together() -> bool:
    """Return whether a launcher has started several processes."""
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1")


def run_together(run: Callable[[], int], arguments: Sequence[str]) -> int:
    """Run the program in this process as one of several, and return its exit status."""
    if next((name for name in arguments if not name.startswith("-")), "") not in SHARED:
        return run() if os.environ.get("RANK", "0") == "0" else 0  # no process waits for the first one
    try:
        with group() as processes:
            if processes.rank == 0:
                status = run()
            else:
                with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
                    status = run()
            if status == 0:
                processes.decide(True)  # the others wait for the first
            return status
    except JokerError as error:
        print(explain(error)[0], file=sys.stderr)
        return FAILED
