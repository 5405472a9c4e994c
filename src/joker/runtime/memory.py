"""Memory: sizes as text, free and peak memory, and tiles that fit a budget."""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from numbers import Integral

import torch

from joker.errors import BudgetTooSmall, InvalidParameter

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

OutOfMemory = torch.OutOfMemoryError if hasattr(torch, "OutOfMemoryError") else torch.cuda.OutOfMemoryError
DEFAULT_BUDGET = 256 * 2**20  # bytes of temporary memory if the user names no budget
CHUNK_ENTRIES = 2**18  # entries of an array that a scan reads at a time: 2 MiB in float64
CPU_TILE = 2**23  # bytes of features: larger tiles do not fit the cache of the CPU

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS |= {_letter: 1000**_power, f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE)


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
    return int(float(match[1]) * unit)


def format_bytes(size: float) -> str:
    """Return a number of bytes as text: ``format_bytes(2_500_000)`` is ``'2.5 MB'``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000
    return f"{size:.4g} TB"


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
    names the contents of the tiles in the error message.

    Raises
    ------
    BudgetTooSmall
        If not even one row fits.
    """
    needs = work if callable(work) else work.__mul__
    rows = bisect_right(range(1, n + 1), budget, key=needs)
    if rows < 1 and n > 0:
        raise BudgetTooSmall(
            f"memory must hold at least one row of {what}; {format_bytes(budget)} is given and one row "
            f"takes {format_bytes(needs(1))}. Use memory={needs(1)} (bytes) or more."
        )
    return (slice(start, min(start + rows, n)) for start in range(0, n, max(rows, 1)))
