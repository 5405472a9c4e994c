"""A command of the program: the function it calls, its help, its errors, and its output.

Results are on standard output, everything else on standard error.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from types import FrameType
from typing import Annotated, Any, get_type_hints

import numpy as np
import typer

from joker.errors import InvalidParameter, JokerError, MissingPackage
from joker.runtime import visible

FAILED, USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143  # exit statuses; that of a signal is 128 plus its number
TRACEBACK = "JOKER_TRACEBACK"  # the environment variable that makes the program print tracebacks
TORCH_MEMORY = "can't allocate memory"  # part of the RuntimeError of torch where host memory ends
# Keyword arguments of the library that are options of the same name.
_SAME_NAMES = (
    "block_size|calibrate|categories|class_weight|columns|cv|decimal|delimiter|delta|device|drop|dtype|early_stopping|"
    "effort|epsilon|expectile|features|groups|kernel|lam|loss|max_epochs|max_time|memory|momentum|power|precision|"
    "quantile|target|task|time|tol|validation_fraction"
)
OPTIONS = {name: f"--{name.replace('_', '-')}" for name in _SAME_NAMES.split("|")}
OPTIONS |= {"n_features": "-m", "p": "-p", "random_state": "--seed"}
_KEYWORD = re.compile(rf"\b({'|'.join(OPTIONS)})=('[^']*'|\"[^\"]*\"|[-+\w.]*\w|)")
_WORDS = re.compile(r"\b(block_size|class_weight|max_epochs|max_time|n_features|validation_fraction)\b")
_FLAGS = re.compile(r"(--(?:calibrate|momentum|early-stopping)) True")
_TASKS = {"--task classification": "--task classify", "--task regression": "--task regress"}


def reporting_errors(run: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: an error is printed as one sentence and becomes an exit status."""

    @wraps(run)
    def reporting(*args: Any, **options: Any) -> None:
        with _recorded_signals() as signals, warnings.catch_warnings():
            warnings.showwarning = _warn  # type: ignore[assignment]
            try:
                run(*args, **options)
            except typer.Exit:
                raise
            except (Exception, KeyboardInterrupt) as error:
                if os.environ.get(TRACEBACK):
                    traceback.print_exception(error)
                if signals and (isinstance(error, MissingPackage) or not isinstance(error, JokerError)):
                    # An import that was interrupted may have hidden that, and fail later with another error.
                    error = error if isinstance(error, KeyboardInterrupt) else KeyboardInterrupt()
                sentence, status = explain(error)
                print(sentence, file=sys.stderr)
                raise typer.Exit(TERMINATED if signal.SIGTERM in signals else status) from None

    reporting.__signature__ = getattr(run, "__signature__", None)  # type: ignore[attr-defined]
    return reporting


def explain(error: BaseException) -> tuple[str, int]:
    """Return the sentence that describes an error, and the exit status."""
    notes = " ".join(getattr(error, "__notes__", ()))
    if isinstance(error, KeyboardInterrupt):
        return f"Interrupted. {notes}".strip(), INTERRUPTED
    return visible(f"joker: {_sentence(error)} {notes}".strip()), USAGE if isinstance(
        error, InvalidParameter
    ) else FAILED


def as_option(text: str) -> str:
    """Replace keyword arguments of the library in a text by options of the program.

    >>> as_option('Use categories="one-hot", or n_features=300.')
    'Use --categories one-hot, or -m 300.'
    """
    text = _KEYWORD.sub(lambda match: f"{OPTIONS[match[1]]} {match[2].strip(chr(34) + chr(39))}".strip(), text)
    text = _FLAGS.sub(r"\1", _WORDS.sub(lambda match: OPTIONS[match[1]], text))
    for library, program in _TASKS.items():
        text = text.replace(library, program)
    return text


def _warn(message: Warning | str, *_: object) -> None:
    print(visible(f"joker: warning: {as_option(str(message))}"), file=sys.stderr)


def _sentence(error: BaseException) -> str:
    if isinstance(error, JokerError):
        return as_option(str(error))
    if isinstance(error, BrokenPipeError):
        return "the program that reads the output has ended, so that the rest of the output is lost."
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}. Check the path, its permissions and the free space on the disk."
    if isinstance(error, MemoryError) or TORCH_MEMORY in str(error):
        return "the memory of this machine is used up. Use a smaller --memory, or fewer features (-m)."
    if isinstance(error, ValueError):  # raised by scikit-learn, which checks arrays for the estimators
        return as_option(str(error))
    return f"{type(error).__name__}: {error}. This is unexpected; set {TRACEBACK}=1 to see the traceback."


@contextmanager
def _recorded_signals() -> Iterator[list[int]]:
    """Record SIGINT and SIGTERM, which is handled like Ctrl-C, so that files are removed and a checkpoint is kept."""
    signals: list[int] = []
    usual = signal.getsignal(signal.SIGINT)  # a shell ignores it in the background

    def interrupt(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        (usual if callable(usual) else signal.default_int_handler)(signal.SIGINT, frame)

    def terminate(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        handler = signal.getsignal(signal.SIGINT)  # the solver's handler waits for the end of a step
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)

    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = signal.signal(signal.SIGTERM, terminate)
    if callable(usual):
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, usual)


@dataclass(frozen=True)
class Command:
    """A command, such as ``fit`` in ``joker fit``.

    The docstring of ``run`` is the help. A parameter whose type is a dataclass stands for all fields of the dataclass,
    each with an ``Annotated`` option.
    """

    name: str  # the name after ``joker``
    run: Callable[..., None]
    examples: tuple[str, ...]  # command lines that the help shows

    def add_to(self, app: typer.Typer) -> None:
        """Add the command to the program."""
        epilog = "\n\n".join(["Examples:" if len(self.examples) > 1 else "Example:", *self.examples, " "])
        app.command(self.name, epilog=epilog, no_args_is_help=False)(reporting_errors(with_single_options(self.run)))


def with_single_options(run: Callable[..., None]) -> Callable[..., None]:
    """Return a function that takes single options, for a function that takes groups of them."""
    given = inspect.signature(run, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in given if is_dataclass(p.annotation)}

    @wraps(run)
    def run_with_options(**options: Any) -> None:
        grouped = {name: kind(**{f.name: options.pop(f.name) for f in fields(kind)}) for name, kind in groups.items()}
        run(**options, **grouped)

    parameters = [option for parameter in given for option in _options(parameter)]
    run_with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_with_options.__annotations__ = {option.name: option.annotation for option in parameters}
    return run_with_options


def _options(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    keyword, kind = inspect.Parameter.KEYWORD_ONLY, parameter.annotation
    if not is_dataclass(kind):
        return [parameter.replace(kind=keyword)]
    hints = get_type_hints(kind, include_extras=True)
    return [inspect.Parameter(f.name, keyword, default=f.default, annotation=hints[f.name]) for f in fields(kind)]


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
            print(
                visible(json.dumps(plain(facts), ensure_ascii=False, allow_nan=False) if self.as_json else table(facts))
            )
            sys.stdout.flush()  # raises the error of a full disk here
        except OSError as error:
            for written in (facts[name] for name in WRITTEN if facts.get(name)):
                error.add_note(f"Only this report is lost: {written} is complete.")
            raise

    def summary(self, facts: Mapping[str, Any]) -> None:
        """Print a summary of what a command did, unless --quiet is given."""
        if self.as_json or not self.quiet:
            self.result(facts)

    def note(self, text: str) -> None:
        """Print a note on standard error, unless --quiet is given."""
        if not self.quiet:
            print(visible(text), file=sys.stderr)

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
