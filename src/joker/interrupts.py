"""Ctrl-C while the program ``joker`` starts, which takes seconds of imports, and while it ends.

It has nothing to clean up yet, or nothing any more.
"""

import os
import signal
import sys
import threading
from itertools import pairwise
from types import FrameType


def is_program() -> bool:
    """Whether this process is the program ``joker`` or ``python -m joker``, and not a program that imports joker."""
    name = os.path.splitext(os.path.basename(sys.argv[0]))[0] if getattr(sys, "argv", None) else ""
    # Python changes the name that stands for the module, when it has found its file.
    return name == "joker" or (name in ("-m", "__main__") and ("-m", "joker") in pairwise(sys.orig_argv))


def end_quietly() -> None:
    """Let Ctrl-C end the program with a word and without a traceback, until the program begins to run a command."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell ignores it in the background
    if is_program() and usual and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, end)


def ignore_at_end() -> None:
    """Let Ctrl-C not disturb the end of the program: its work is done, and its exit status is known."""
    if is_program() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def end(number: int, frame: FrameType | None) -> None:
    """End this process as the signal does; an exception could be lost in the import of a compiled module."""
    os.write(2, b"Interrupted.\n")
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)
