"""Errors of the program: one sentence on standard error, and an exit status."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, NoReturn

import typer

from joker.errors import InvalidParameter, JokerError

FAILED, USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143  # exit statuses; that of a signal is 128 plus its number
TRACEBACK = "JOKER_TRACEBACK"  # the environment variable that makes the program print tracebacks
TORCH_MEMORY = "can't allocate memory"  # part of the RuntimeError of torch where host memory ends
# Keyword arguments of the library that are options of the same name.
_SAME_NAMES = (
    "block_size|calibrate|categories|class_weight|columns|decimal|delimiter|delta|device|drop|dtype|early_stopping|epsilon|features|folder|"
    "kernel|lam|loss|max_epochs|max_time|memory|momentum|precision|protocol|quantile|target|task|tol|"
    "validation_fraction"
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
        with _terminate_as_interrupt() as signals, warnings.catch_warnings():
            warnings.showwarning = _warn  # type: ignore[assignment]
            try:
                run(*args, **options)
            except (Exception, KeyboardInterrupt) as error:
                exit_with(error, TERMINATED if signals else None)

    reporting.__signature__ = getattr(run, "__signature__", None)  # type: ignore[attr-defined]
    return reporting


def exit_with(error: BaseException, status: int | None = None) -> NoReturn:
    """Print an error and exit with ``status``, or with the status that belongs to the error."""
    if isinstance(error, typer.Exit):
        raise error
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    sentence, status_of_error = explain(error)
    print(sentence, file=sys.stderr)
    raise typer.Exit(status_of_error if status is None else status) from None


def explain(error: BaseException) -> tuple[str, int]:
    """Return the sentence that describes an error, and the exit status."""
    notes = " ".join(getattr(error, "__notes__", ()))
    if isinstance(error, KeyboardInterrupt):
        return f"Interrupted. {notes}".strip(), INTERRUPTED
    status = USAGE if isinstance(error, InvalidParameter) else FAILED
    return f"joker: {' '.join([_sentence(error), notes]).strip()}", status


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
    print(f"joker: warning: {as_option(str(message))}", file=sys.stderr)


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
def _terminate_as_interrupt() -> Iterator[list[int]]:
    """Handle SIGTERM like Ctrl-C, so that files are removed and a checkpoint is kept; the list records the signal."""
    signals: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        handler = signal.getsignal(signal.SIGINT)  # the solver's handler waits for the end of a step
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)

    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGTERM, before)
