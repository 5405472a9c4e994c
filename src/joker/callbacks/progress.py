"""A progress line on the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any

from joker.callbacks.callback import Callback, Run
from joker.runtime import format_bytes
from joker.solvers import Record

if TYPE_CHECKING:
    from rich.console import Console

MAX_SHOWN_SECONDS = 1e8  # three years: a longer remaining time is not shown
UPDATE_SECONDS = 0.1  # between two updates of the line: more often is not visible


@dataclass
class Progress(Callback):
    """Show a line with the epoch, the gap, the validation score, the remaining time and the peak memory.

    The line is updated within an epoch too. At the end it is replaced by one line with the result. If standard error
    is not a terminal (a log file, a notebook), only this last line is written.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to write; standard error by default.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from rich.console import Console
    >>> from joker import KernelRidge
    >>> from joker.callbacks import Progress
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> lines = Console(file=io.StringIO())
    >>> _ = KernelRidge(n_features=20, callbacks=[Progress(lines)], random_state=0).fit(X, np.sin(X[:, 0]))
    >>> "gap" in lines.file.getvalue()
    True
    """

    first_process_only = True

    console: Console | None = None
    _out: Any = field(default=None, init=False, repr=False, compare=False)
    _bar: Any = field(default=None, init=False, repr=False, compare=False)
    _next: float = field(default=0.0, init=False, repr=False, compare=False)
    _began: tuple[float, float] = field(default=(0.0, 0.0), init=False, repr=False, compare=False)  # epoch and time

    def start(self, run: Run) -> None:
        from rich.console import Console

        self._out = self.console or Console(stderr=True)
        self._began = run.epoch, time.monotonic()
        self._next = 0.0
        if self._out.is_terminal:
            self._bar = _bar(self._out)
            self._bar.start()
            self._bar.add_task(run.title, total=run.max_epochs if isfinite(run.max_epochs) else None, facts="")
            self._update(run)

    def step(self, run: Run) -> None:
        if self._bar and time.monotonic() >= self._next:
            self._update(run)

    def epoch(self, run: Run) -> None:
        if self._bar:
            self._update(run)

    def end(self, run: Run) -> None:
        if self._bar:
            self._bar.stop()
        if self._out:
            best = [f"best at {run.best.epoch:g}"] if run.best and run.best is not run.record else []
            facts = [f"{run.seconds:.1f} s", *best, *_facts(run.best)]
            means = f" {run.conclusion}" if run.conclusion else ""
            line = f"{run.title}: epoch {_place(run, ' of ')}, {', '.join(facts)}. {run.reason}{means}"
            self._out.print(line, markup=False, highlight=False, soft_wrap=True)
        self._out = self._bar = None

    def _update(self, run: Run) -> None:
        left = self._left(run)
        remaining = [] if left is None else [f"≤ {left} left"]
        facts = [_place(run, "/"), *remaining, *_facts(run.record)]
        self._bar.update(self._bar.task_ids[0], completed=run.epoch, facts="  ".join(facts))
        self._bar.refresh()
        self._next = time.monotonic() + UPDATE_SECONDS

    def _left(self, run: Run) -> timedelta | None:
        """Return the time to the last epoch or to the time limit at the present speed; None if it is not known."""
        done, spent = run.epoch - self._began[0], time.monotonic() - self._began[1]
        if done <= 0:
            return None
        seconds = min(spent * (run.max_epochs - run.epoch) / done, run.max_time - run.seconds)
        return timedelta(seconds=max(0, round(seconds))) if seconds < MAX_SHOWN_SECONDS else None


def _bar(out: Any) -> Any:
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = [TextColumn("{task.description}"), BarColumn(bar_width=12), TextColumn("{task.fields[facts]}")]
    # Standard output is not redirected, as it may be a file.
    return Bar(*columns, console=out, transient=True, auto_refresh=False, redirect_stdout=False)


def _place(run: Run, of: str) -> str:
    """Return the epoch and the last one; a problem in one block is solved to the tolerance, and has no last one."""
    return f"{run.epoch:.3g}" if run.one_block else f"{run.epoch:.3g}{of}{run.max_epochs:g}"


def _facts(record: Record | None) -> list[str]:
    """Return the gap, the score and the peak memory of a record as text."""
    if record is None:
        return []
    score = [] if record.score is None else [f"score {record.score:.4g}"]
    peak = [] if record.peak_bytes is None else [f"{format_bytes(record.peak_bytes)} at peak"]
    return [f"gap {record.relative_gap:.1e}", *score, *peak]


@contextmanager
def show_steps() -> Iterator[Callable[[int, int, str], None]]:
    """Yield a function that shows the number of a step, the number of all steps and what the step is."""
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, steps, what: write_lines(f"{done + 1}/{steps} {what}")
        return
    with Bar(
        TextColumn("{task.completed}/{task.total} {task.description}"), TimeElapsedColumn(), console=console
    ) as bar:
        task = bar.add_task("encoding", total=None)
        yield lambda done, steps, what: bar.update(task, completed=done + 1, total=steps, description=what)


def write_lines(text: str) -> None:
    """Write text to standard error, as it is."""
    from rich.console import Console

    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)
