"""How the program ends when something is wrong: a sentence on standard error, and a status."""

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

DONE, REFUSED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143  # shells count signals from 128 on
TRACEBACK = "JOKER_TRACEBACK"  # a variable of the environment: where it is set, so is the traceback shown
# What the library calls its keywords, and the program its options.
OPTIONS = {
    "block_size": "--block-size",
    "categories": "--categories",
    "class_weight": "--class-weight",
    "columns": "--columns",
    "delimiter": "--delimiter",
    "delta": "--delta",
    "device": "--device",
    "dtype": "--dtype",
    "early_stopping": "--early-stopping",
    "epsilon": "--epsilon",
    "features": "--features",
    "folder": "--folder",
    "kernel": "--kernel",
    "lam": "--lam",
    "loss": "--loss",
    "max_epochs": "--max-epochs",
    "max_time": "--max-time",
    "memory": "--memory",
    "momentum": "--momentum",
    "n_features": "-m",
    "p": "-p",
    "precision": "--precision",
    "protocol": "--protocol",
    "quantile": "--quantile",
    "random_state": "--seed",
    "target": "--target",
    "task": "--task",
    "tol": "--tol",
    "validation_fraction": "--validation-fraction",
}
_KEYWORD = re.compile(rf"\b({'|'.join(OPTIONS)})=('[^']*'|\"[^\"]*\"|[-+\w.]*\w|)")
_WORDS = re.compile(r"\b(block_size|class_weight|max_epochs|max_time|n_features|validation_fraction)\b")
_FLAGS = re.compile(r"(--(?:momentum|early-stopping)) True")


def telling(run: Callable[..., None]) -> Callable[..., None]:
    """Turn what goes wrong in a command into a sentence and a status."""

    @wraps(run)
    def told(*args: Any, **options: Any) -> None:
        with _asked_to_end() as asked, warnings.catch_warnings():
            warnings.showwarning = _warn  # type: ignore[assignment]
            try:
                run(*args, **options)
            except (Exception, KeyboardInterrupt) as error:
                end(error, TERMINATED if asked else None)

    told.__signature__ = getattr(run, "__signature__", None)  # type: ignore[attr-defined]
    return told


def end(error: BaseException, status: int | None = None) -> NoReturn:
    """End the program with what an error has to say, and with its status where no other is given."""
    if isinstance(error, typer.Exit):
        raise error
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    sentence, own = explain(error)
    print(sentence, file=sys.stderr)
    raise typer.Exit(own if status is None else status) from None


def explain(error: BaseException) -> tuple[str, int]:
    """Return the sentence for a user of the program, and the status."""
    notes = " ".join(getattr(error, "__notes__", ()))
    if isinstance(error, KeyboardInterrupt):
        return f"Interrupted. {notes}".strip(), INTERRUPTED
    status = USAGE if isinstance(error, InvalidParameter) else REFUSED
    return f"joker: {' '.join([_sentence(error), notes]).strip()}", status


def as_option(text: str) -> str:
    """Say a keyword of the library as an option of the program.

    >>> as_option('Use categories="one-hot", or n_features=300.')
    'Use --categories one-hot, or -m 300.'
    """
    said = _KEYWORD.sub(lambda found: f"{OPTIONS[found[1]]} {found[2].strip(chr(34) + chr(39))}".strip(), text)
    return _FLAGS.sub(r"\1", _WORDS.sub(lambda found: OPTIONS[found[1]], said))


def _warn(message: Warning | str, *_: object) -> None:
    print(f"joker: warning: {as_option(str(message))}", file=sys.stderr)


def _sentence(error: BaseException) -> str:
    if isinstance(error, JokerError):
        return as_option(str(error))
    if isinstance(error, BrokenPipeError):
        return "the program that reads the output has ended, and the output with it."
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return (
            f"{where}the operating system refuses: {error.strerror or error}. Check the place, its rights and its room."
        )
    if isinstance(error, MemoryError):
        return "the memory of this machine is used up. Give less with --memory, or use fewer features (-m)."
    if isinstance(error, ValueError):  # of scikit-learn, which checks arrays for the estimators
        return as_option(str(error))
    return f"{type(error).__name__}: {error}. This is unexpected; set {TRACEBACK}=1 to see where it comes from."


@contextmanager
def _asked_to_end() -> Iterator[list[int]]:
    """Let a request to end (SIGTERM) do what Ctrl-C does: clear up, and keep a checkpoint; it is noted in the list."""
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        interrupt = signal.getsignal(signal.SIGINT)  # which may be held until a step is done
        (interrupt if callable(interrupt) else signal.default_int_handler)(signal.SIGINT, frame)

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGTERM, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)
