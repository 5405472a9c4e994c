"""The output of the program: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import typer

WRITTEN = ("model", "store", "out")  # the facts that name a file that a command has written
MAX_SHOWN = 12  # entries of a list in a table for a reader
Update = Callable[[int, int | None], None]  # the number of rows done, and of all rows if that is known


@dataclass(frozen=True)
class ReportOptions:
    """The options for the output of a command, and the methods that print it."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON document and nothing else on standard output.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no notes, only errors.")] = False

    def result(self, facts: Mapping[str, Any]) -> None:
        """Print the result of a command, as JSON or as a table for a reader."""
        try:
            print(json.dumps(plain(facts), ensure_ascii=False, allow_nan=False) if self.as_json else table(facts))
            sys.stdout.flush()  # raises the error of a full disk here
        except OSError as error:
            for written in (facts[name] for name in WRITTEN if facts.get(name)):
                error.add_note(f"Only this report is lost: {written} is complete.")
            raise

    def summary(self, facts: Mapping[str, Any]) -> None:
        """Print a summary of what a command did, unless --quiet is given."""
        if self.as_json or not self.quiet:
            self.result(facts)

    def plan(self, plan: Any) -> None:
        """Print the memory plan of a fit."""
        if self.as_json:
            self.result({**asdict(plan), "total": plan.total})
        else:
            print(plan)

    def note(self, text: str) -> None:
        """Print a note on standard error, unless --quiet is given."""
        if not self.quiet:
            print(text, file=sys.stderr)

    @contextmanager
    def progress_bar(self, title: str, unit: str = "rows") -> Iterator[Update]:
        """Show a progress bar during the ``with`` block, if standard error is a terminal."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        out = Console(stderr=True)
        if self.quiet or not out.is_terminal:
            yield lambda done, total: None
            return
        rows = TextColumn(f"{{task.completed:,.0f}} {unit}")
        columns = [TextColumn("{task.description}"), BarColumn(), rows, TimeElapsedColumn(), TimeRemainingColumn()]
        with Progress(*columns, console=out, transient=True, redirect_stdout=False) as progress:
            task = progress.add_task(title, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)


def table(facts: Mapping[str, Any]) -> str:
    """Return facts as lines with two columns, without those that are None."""
    shown = {name.replace("_", " "): _shown(value) for name, value in facts.items() if value is not None}
    width = max(map(len, shown), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in shown.items())


def plain(value: Any) -> Any:
    """Convert a value to types that JSON has; a number that is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _shown(value: Any) -> str:
    value = plain(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list):
        if not value:
            return "none"
        more = f" and {len(value) - MAX_SHOWN} more" if len(value) > MAX_SHOWN else ""
        return ", ".join(map(_shown, value[:MAX_SHOWN])) + more
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    return {True: "yes", False: "no", None: "none"}.get(value, str(value))
