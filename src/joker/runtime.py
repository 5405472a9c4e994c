"""Device, dtype, randomness and memory: where and with what a computation runs.

The only module that talks to ``torch.cuda``.
"""

from __future__ import annotations

import hashlib
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from numbers import Integral

import torch
from torch import Tensor

from joker.errors import BudgetTooSmall, InvalidParameter, UnknownName

try:
    VERSION = version("joker")
except PackageNotFoundError:  # run from a source tree that is not installed
    VERSION = "0+unknown"

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

DEFAULT_BUDGET = 256 * 2**20  # bytes of scratch space where the user names none

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS |= {_letter: 1000**_power, f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE)
_DTYPES = {"float32": torch.float32, "float64": torch.float64}


def parse_bytes(size: int | str) -> int:
    """Turn ``"500MB"``, ``"1.5 GiB"`` or a number of bytes into bytes.

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
    """Write a number of bytes for a reader: ``format_bytes(2_500_000)`` is ``'2.5 MB'``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000
    return f"{size:.4g} TB"


def parse_device(device: str | torch.device | None) -> torch.device:
    """The device to compute on; None is the CPU."""
    try:
        chosen = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as error:
        raise UnknownName(f"device must name a torch device; got {device!r}. Use 'cpu' or 'cuda'.") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InvalidParameter(f"device {device!r} needs a CUDA card; torch sees none here. Use device='cpu'.")
    return chosen


def nearest_device(name: str) -> torch.device:
    """The device of that name if there is one here, else the CPU."""
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError):  # torch without CUDA asserts
        return torch.device("cpu")


def parse_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """The floating-point type to compute in: float32 or float64."""
    chosen = _DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if chosen not in _DTYPES.values():
        raise UnknownName.among("dtype", dtype, _DTYPES)
    assert chosen is not None
    return chosen


def peak_bytes(device: torch.device) -> int | None:
    """The most memory held so far: by torch on a card, else by the process; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): kilobytes, but bytes on macOS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def generator(seed: int, name: str) -> torch.Generator:
    """A generator of its own for each ``(seed, name)``, so that no draw disturbs another.

    It lives on the CPU whatever the device: draws are made there and moved, and so are
    the same on every machine.
    """
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest, "little") >> 1)


def tiles(n: int, row_bytes: int, budget: int, what: str) -> Iterator[slice]:
    """Cut ``n`` rows into runs whose work space of ``row_bytes`` a row stays inside ``budget``.

    Raises
    ------
    BudgetTooSmall
        If not even one row fits.
    """
    rows = budget // max(row_bytes, 1)
    if rows < 1 and n > 0:
        raise BudgetTooSmall(
            f"memory must hold at least one row of {what}; {format_bytes(budget)} is given and one row "
            f"takes {format_bytes(row_bytes)}. Use memory={row_bytes} (bytes) or more."
        )
    return (slice(start, min(start + rows, n)) for start in range(0, n, max(rows, 1)))


def all_true(mask: Tensor) -> bool:
    """Whether a loop may stop early because ``mask`` is true everywhere.

    Reading a mask makes the host wait for an accelerator, which graph capture forbids: inside
    :func:`asynchronous` the answer is always "go on", and masked work changes nothing.
    """
    return not _asynchronous.get() and bool(mask.all())


def places(mask: Tensor) -> Tensor:
    """Where a one-dimensional ``mask`` is true; inside :func:`asynchronous` every place: the host may not know."""
    if _asynchronous.get():
        return torch.arange(len(mask), device=mask.device)
    return mask.nonzero()[:, 0]


_asynchronous: ContextVar[bool] = ContextVar("asynchronous", default=False)


@contextmanager
def asynchronous() -> Iterator[None]:
    """Take no decision on the host, so that what runs inside can be captured in a graph."""
    token = _asynchronous.set(True)
    try:
        yield
    finally:
        _asynchronous.reset(token)


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
