"""Run functions in processes of their own, with a time limit, partial results and a memory peak each."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
READING = 120.0  # seconds, the shortest limit before the first message, in which the process reads its data
GRACE = 5.0  # seconds to end after the last message
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
FROM_THE_FIRST_FIT = "growth from the first fit of a process"  # how the memory of several fits of a process is measured
Send = Callable[[dict[str, Any]], None]
Task = tuple[Any, Callable[..., None], tuple[Any, ...], float]  # a key, and the arguments of `apart`


def resident(field: str) -> int | None:
    """Return the bytes of resident memory, now (VmRSS) or at the peak (VmHWM); None where there is no /proc."""
    if not STATUS.is_file():
        return None
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text(encoding="utf-8"))
    return int(found[1]) * 1024 if found else None


def forget_peak() -> int | None:
    """Reset the memory peak where that is allowed, and return the value to measure the growth from."""
    with suppress(OSError):
        CLEAR.write_text("5", encoding="utf-8")
        return resident("VmRSS")
    return resident("VmHWM")


def cpu_seconds() -> float:
    """Return the time that all processors have spent for this process and for its children that have ended."""
    return sum(os.times()[:4])


def growth(before: int | None) -> int | None:
    """Return the difference of the memory peak and ``before``."""
    peak = resident("VmHWM")
    return None if before is None or peak is None else max(0, peak - before)


def apart(work: Callable[..., None], arguments: tuple[Any, ...], limit: float) -> dict[str, Any]:
    """Run ``work(send, *arguments)`` in a new process and merge what it sends; later values replace earlier ones.

    The message ``done: True`` ends the run. Without it the result has ``did_not_finish_in_seconds`` or ``failed``. The
    limit is for the time between two messages; before the first message, when data are read, it is at least READING.
    """
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_send, args=(sender, work, arguments))
    process.start()
    sender.close()
    found: dict[str, Any] = {}
    try:
        while not found.get("done"):
            if not receiver.poll(limit if found else max(limit, READING)):
                return found | {"did_not_finish_in_seconds": limit}
            found |= receiver.recv()
    except EOFError:
        process.join()
        return found | {"failed": found.get("failed", f"exit code {process.exitcode}")}
    finally:
        process.join(GRACE if found.get("done") else 0)
        process.kill()
        process.join()
    return {name: value for name, value in found.items() if name != "done"}


def all_apart(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the key and the result of each task; with several jobs as they end, and with one thread each."""
    if jobs == 1:
        yield from ((key, apart(*call)) for key, *call in tasks)
        return
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))  # of the new processes
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(apart, *call): key for key, *call in tasks}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _send(sender: Connection, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    try:
        work(sender.send, *arguments)
    except Exception as error:
        sender.send({"failed": f"{type(error).__name__}: {error}"[:300]})
        raise
    sender.send({"done": True})
