"""Interrupts: Ctrl-C is held back while a block of code must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Let Ctrl-C take effect only at the end of the block, so that nothing is left half-done."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    held: list[tuple[object, ...]] = []
    signal.signal(signal.SIGINT, lambda *interrupt: held.append(interrupt))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if held:
        handler(*held[0])  # type: ignore[arg-type]
