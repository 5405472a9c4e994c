"""Warnings that one thread ignores for a while.

`warnings.catch_warnings` replaces the filters of the whole process and restores them later: where two threads do
so at overlapping times, the filters of one remain for ever, and those of the program are lost.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_lock = threading.Lock()


class _InThisThread:
    """In the place of the pattern of a filter: matches a warning of one thread by the beginning of its text."""

    def __init__(self, beginnings: tuple[str, ...]) -> None:
        self.beginnings, self.thread = beginnings, threading.get_ident()

    def match(self, text: str) -> bool:
        return threading.get_ident() == self.thread and text.startswith(self.beginnings)


@contextmanager
def ignoring(*beginnings: str, category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore warnings in this thread whose text begins so; without a beginning, all of the category."""
    pattern = _InThisThread(beginnings or ("",))
    entry = ("ignore", pattern, category, None, 0)
    with _lock:
        filters = warnings.filters
        filters.insert(0, entry)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        pattern.thread = 0  # none, also where another program has kept a copy of the filters
        with _lock:
            for each in (filters, warnings.filters):  # another thread may have put other filters in their place
                with suppress(ValueError):
                    each.remove(entry)  # type: ignore[attr-defined]
