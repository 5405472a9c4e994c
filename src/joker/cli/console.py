"""Where the program writes: results on standard output, everything else on standard error."""

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

MOST_SHOWN = 12  # entries of a list that a reader is shown
Update = Callable[[int, int | None], None]  # rows done, and all of them where that is known


@dataclass(frozen=True)
class Telling:
    """What the program is to say of what it does."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON document and nothing else on standard output.")
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress and no notes; errors are still told.")
    ] = False

    def result(self, facts: Mapping[str, Any]) -> None:
        """Print what was asked for: for a machine, or for a reader as a table."""
        print(json.dumps(plain(facts), ensure_ascii=False, allow_nan=False) if self.as_json else table(facts))
        sys.stdout.flush()  # so that a full disk is told of here

    def summary(self, facts: Mapping[str, Any]) -> None:
        """Print how it went, which a reader may not care to know."""
        if self.as_json or not self.quiet:
            self.result(facts)

    def plan(self, plan: Any) -> None:
        """Print what the library plans to hold in memory."""
        if self.as_json:
            self.result({**asdict(plan), "total": plan.total})
        else:
            print(plan)

    def note(self, text: str) -> None:
        """Tell something on the way."""
        if not self.quiet:
            print(text, file=sys.stderr)

    @contextmanager
    def bar(self, title: str, unit: str = "rows") -> Iterator[Update]:
        """Show how far something has come while the block lasts, where standard error is a terminal."""
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
    """Return facts as lines of two columns; what is not there is left out."""
    shown = {name.replace("_", " "): _shown(value) for name, value in facts.items() if value is not None}
    width = max(map(len, shown), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in shown.items())


def plain(value: Any) -> Any:
    """Return what JSON can hold of a value; a number that is not finite is null."""
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
        more = f" and {len(value) - MOST_SHOWN} more" if len(value) > MOST_SHOWN else ""
        return ", ".join(map(_shown, value[:MOST_SHOWN])) + more
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    return {True: "yes", False: "no", None: "none"}.get(value, str(value))
