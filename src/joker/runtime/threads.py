"""Threads of the CPU, by the size of the work.

torch divides every operation among its threads, which wait for each other. With small operations that gains little on
an idle computer, and on a busy one the threads wait longer than they work. So here one operation runs on one thread,
and each thread computes whole tiles: a thread that waits delays its own tile only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, TypeVar

import torch

Part = TypeVar("Part")
_outside = threading.local()  # the threads of torch outside `one_thread`
if hasattr(os, "register_at_fork"):
    # A forked process has the thread pool of OpenMP without its threads, and would wait for them for ever.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def thread_count() -> int:
    """Return the number of threads that torch may use, also inside `one_thread`."""
    return getattr(_outside, "count", None) or torch.get_num_threads()


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Run the operations of torch on one thread, if that is ``wanted``."""
    before = torch.get_num_threads() if wanted else 1
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    _outside.count = before
    try:
        yield
    finally:
        _outside.count = None
        torch.set_num_threads(before)


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """Run the operations of NumPy's and SciPy's BLAS on one thread, if that is ``wanted``.

    The number of threads is that of the process: others that want one thread wait, so that none restores it too early.
    """
    if not wanted:
        yield
        return
    # One lock for each process: that of its parent may be held by a thread that does not exist after a fork.
    with _blas_locks.setdefault(os.getpid(), threading.RLock()), _blas().limit(limits=1):
        yield


_blas_locks: dict[int, threading.RLock] = {}


@cache
def _blas() -> Any:
    """Return the libraries that are loaded."""
    import scipy.linalg  # noqa: F401  # loads the library of SciPy
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def share(work: Callable[[Part], object], parts: Iterable[Part], most: int | None = None) -> None:
    """Call ``work`` for each part. The threads of torch, at most ``most`` of them, divide the parts."""
    count = min(thread_count(), most or thread_count())
    with one_thread():
        if count <= 1:
            for part in parts:
                work(part)
        else:
            for _ in _pool(count, os.getpid()).map(work, parts):
                pass


@lru_cache(maxsize=2)
def _pool(count: int, process: int) -> ThreadPoolExecutor:
    """Return a pool of threads for this process: those of its parent do not exist in it."""
    return ThreadPoolExecutor(count, "joker", initializer=torch.set_num_threads, initargs=(1,))
