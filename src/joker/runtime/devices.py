"""Devices and floating-point types: torch objects from their names, and properties of GPUs."""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import re
import signal
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import torch

from joker.errors import BudgetTooSmall, InvalidParameter, UnknownName

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


def parse_device(device: str | torch.device | None) -> torch.device:
    """Return the device to compute on; None is the CPU."""
    try:
        chosen = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as error:
        raise UnknownName(f"device must name a torch device; got {device!r}. Use 'cpu' or 'cuda'.") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InvalidParameter(f"device {device!r} needs a CUDA GPU; torch finds none. Use device='cpu'.")
    return chosen


def nearest_device(name: str) -> torch.device:
    """Return the device of this name if it exists on this machine, else the CPU."""
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):  # torch without CUDA asserts
        return torch.device("cpu")


def gpus() -> list[tuple[str, int, int]]:
    """Return the name of each CUDA GPU, and its free and total memory in bytes."""
    indices = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    return [(torch.cuda.get_device_name(index), *torch.cuda.mem_get_info(index)) for index in indices]


def use_own_gpu(process: int) -> None:
    """Let "cuda" be the GPU of this process among those of the computer; do nothing without a GPU."""
    if torch.cuda.is_available():
        torch.cuda.set_device(process % torch.cuda.device_count())


@cache
def multiprocessors(device: torch.device) -> int:
    """Return the number of multiprocessors of a GPU; 0 for the CPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 0


@cache
def capability(device: torch.device) -> tuple[int, int]:
    """Return the CUDA compute capability, such as (8, 0); (0, 0) for the CPU."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else (0, 0)


@contextmanager
def on_device(device: torch.device) -> Iterator[None]:
    """Make a GPU the current device, on which a Triton kernel is launched; do nothing for the CPU."""
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield


def parse_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """Return the floating-point type to compute in: float32 or float64."""
    chosen = _DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if chosen is None or chosen not in _DTYPES.values():
        raise UnknownName.among("dtype", dtype, _DTYPES)
    return chosen


try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

OutOfMemory = torch.OutOfMemoryError if hasattr(torch, "OutOfMemoryError") else torch.cuda.OutOfMemoryError
DEFAULT_BUDGET = 256 * 2**20  # bytes of temporary memory if the user names no budget
CHUNK_ENTRIES = 2**18  # entries of an array that a scan reads at a time: 2 MiB in float64
CPU_TILE = 2**23  # bytes of features: larger tiles do not fit the cache of the CPU

# All control characters but the end of a line, and those that change the direction of text.
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS |= {_letter: 1000**_power, f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE)


def visible(text: str) -> str:
    r"""Write characters that control a terminal as escapes: a name in a file may hold them.

    >>> print(visible("red \x1b[31m"))
    red \u001b[31m
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def parse_bytes(size: int | str) -> int:
    """Return the number of bytes of a size such as ``"500MB"``, ``"1.5 GiB"`` or 64.

    >>> parse_bytes("500MB"), parse_bytes("1 KiB"), parse_bytes(64)
    (500000000, 1024, 64)
    """
    if isinstance(size, Integral) and not isinstance(size, bool) and size > 0:
        return int(size)
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None or float(match[1]) * unit < 1:
        raise InvalidParameter(
            f"memory must be a positive number of bytes or a size such as '500MB'; got {size!r}. "
            "Use a number with the unit B, kB, MB, GB, KiB, MiB or GiB."
        )
    return round(float(match[1]) * unit)  # 119.1 MB are a little less in floating point


def format_bytes(size: float) -> str:
    """Return a number of bytes as text: ``format_bytes(2_500_000)`` is ``'2.5 MB'``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000
    return f"{size:.4g} TB"


def format_least(size: int) -> str:
    """Return a number of bytes as text, rounded up to its four digits: for 2,500,001 bytes it is ``'2.501 MB'``."""
    step = 10 ** max(0, len(str(size)) - 4)
    return format_bytes(-(-size // step) * step)


def free_bytes(device: torch.device) -> float:
    """Return the free bytes of a GPU; infinity for the CPU, where they are not known."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else math.inf


def physical_bytes(device: torch.device | None = None) -> int:
    """Return the memory of a GPU, else of the computer; the default budget where the system does not report it."""
    if device is not None and device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return DEFAULT_BUDGET


def release_memory(device: torch.device) -> None:
    """Return memory that torch or the C library caches to the GPU or to the system."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif sys.platform == "linux":
        with suppress(AttributeError):  # only the GNU C library has this function
            ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def enough_memory(device: torch.device) -> Iterator[None]:
    """Say in a sentence that a device has too little memory, in place of an error of torch."""
    try:
        yield
    except OutOfMemory as error:
        release_memory(device)
        raise BudgetTooSmall(
            "the GPU must have room for the model and for the work on a block of rows; "
            f"{format_bytes(free_bytes(device))} of its memory are free. Another process may hold the rest: free it, "
            "use fewer features or a smaller block_size, or use device='cpu'."
        ) from error


def peak_bytes(device: torch.device) -> int | None:
    """Return the peak memory so far: of torch on a GPU, else of the process; None if the system does not report it."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2) returns kilobytes, on macOS bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def chunks(n: int, width: int = 1) -> Iterator[slice]:
    """Return slices of ``n`` rows of ``width`` entries, with at most CHUNK_ENTRIES entries or one row each.

    >>> list(chunks(5, CHUNK_ENTRIES // 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    rows = max(1, CHUNK_ENTRIES // max(1, width))
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))


def tile_bytes(budget: int, device: torch.device) -> int:
    """Return the bytes of a tile of features: all of ``budget`` on a GPU, at most CPU_TILE on the CPU."""
    return budget if device.type == "cuda" else min(budget, CPU_TILE)


def tiles(n: int, work: int | Callable[[int], int], budget: int, what: str) -> Iterator[slice]:
    """Return slices that cut ``n`` rows into tiles whose temporary memory stays inside ``budget``.

    ``work`` is the number of bytes of a row, or a function that returns the bytes of a tile of so many rows. ``what``
    names the contents of the tiles in the message of BudgetTooSmall, which is raised if not even one row fits.
    """
    needs = work if callable(work) else work.__mul__
    rows = bisect_right(range(1, n + 1), budget, key=needs)
    if rows < 1 and n > 0:
        raise BudgetTooSmall(
            f"memory must hold at least one row of {what}; {format_bytes(budget)} is given and one row "
            f"takes {format_bytes(needs(1))}. Use memory={needs(1)} (bytes) or more."
        )
    return (slice(start, min(start + rows, n)) for start in range(0, n, max(rows, 1)))


def generator(seed: int, name: str) -> torch.Generator:
    """Return a generator for each pair ``(seed, name)``, so that the draws of one do not change those of another.

    It is always on the CPU: numbers are drawn there and copied to the device, and are so the same on every device.
    """
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest, "little") >> 1)


try:
    VERSION = version("joker-kernels")
except PackageNotFoundError:  # the source tree is used without installation
    VERSION = "0+unknown"


# Threads of the CPU, by the size of the work.
#
# torch divides every operation among its threads, which wait for each other. With small operations that gains
# little on an idle computer, and on a busy one the threads wait longer than they work. So here one operation runs
# on one thread, and each thread computes whole tiles: a thread that waits delays its own tile only.


Part = TypeVar("Part")
_outside = threading.local()  # the threads of torch outside `one_thread`
if hasattr(os, "register_at_fork"):
    # A forked process has the thread pool of OpenMP without its threads, and would wait for them for ever.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


CGROUP = Path("/sys/fs/cgroup")


def thread_count() -> int:
    """Return the number of threads that torch may use, also inside `one_thread`; at most the cores of a container.

    torch respects OMP_NUM_THREADS and the cores that a process is bound to, but not the processor time that a container
    has: with more threads than that, all of them are paused together.
    """
    return min(getattr(_outside, "count", None) or torch.get_num_threads(), cores_of_container(CGROUP))


@cache
def cores_of_container(folder: Path) -> int:
    """Return the cores whose time a control group of Linux, version 2 or 1, allows; without a limit, many."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            quota, period = (int(word) for name in names for word in (folder / name).read_text().split())
            if quota > 0:
                return max(1, math.ceil(quota / period))
    return sys.maxsize


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


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block; does nothing outside the main thread, where Python allows no handlers."""
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
