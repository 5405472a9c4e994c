"""Which tensors the fused kernels take, and how their work is divided."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Thread
from typing import Protocol

import torch
from torch import Tensor

from joker.errors import SlowerWithoutTriton
from joker.runtime.devices import capability, on_device

OFFSETS = 2**31  # offsets within a tile are 32-bit numbers
ALIGNMENT = 16  # numbers: rows of a matrix that begin at multiples of it are read fastest
PROGRAMS = 1024  # enough to fill a large GPU several times
PARTIAL_SUMS = 2**20  # numbers that all partial sums may take
UNROLL = 4  # inputs that a tile of the difference form of a Gram matrix takes at a time
SHORTEST = 64  # order of the shortest fused Hadamard transform, of which a program computes SHORTEST
OLDEST = (8, 0)  # compute capability of the first GPUs that Triton supports and that multiply bfloat16


def fuses(*tensors: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    """Whether a fused kernel takes these tensors: float32 or float64 as given, on one GPU for which Triton compiles."""
    device = tensors[0].device
    same = all(tensor.dtype == dtype and tensor.device == device for tensor in tensors)
    return same and dtype in (torch.float32, torch.float64) and device.type == "cuda" and has_triton(device)


@cache
def has_triton(device: torch.device) -> bool:
    """Whether Triton runs on this GPU. Where it should and does not, a warning says why, once.

    The first call compiles a kernel, which a CUDA graph cannot capture.
    """
    if torch.version.hip is not None or capability(device) < OLDEST:
        return False
    try:
        _launch_one(device)
    except Exception as error:  # a missing package, compiler, header or driver: each fails in its own way
        reason = (str(error).splitlines() or [""])[0]
        warnings.warn(
            SlowerWithoutTriton(
                "fused kernels must be compiled by Triton, which needs a C compiler; here it fails with "
                f"{type(error).__name__}: {reason} Plain torch runs in their place, more slowly. "
                "Install the packages triton and gcc for full speed."
            ),
            stacklevel=3,
        )
        return False
    return True


@contextmanager
def starting(device: torch.device) -> Iterator[None]:
    """Load Triton in a second thread while the body runs, because the first time takes long."""
    if device.type != "cuda" or torch.version.hip is not None or capability(device) < OLDEST:
        yield
        return

    def load() -> None:
        with suppress(Exception):  # `has_triton` meets the same error later and warns
            _launch_one(device)

    thread = Thread(target=load, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _launch_one(device: torch.device) -> None:
    from joker.ops.triton.tall_skinny import one_kernel

    with on_device(device):
        one_kernel[(1,)](torch.empty(1, device=device))


def rows_apart(x: Tensor) -> Tensor:
    """Return x with the entries of a row adjacent in memory, as the kernels read it; a copy only where needed."""
    return x if x.stride(-1) == 1 or (x.shape[-1] == 1 and x.stride(0) == 1) else x.contiguous()


def round_up(n: int, multiple: int) -> int:
    """Return the smallest multiple that is at least n."""
    return -(-n // multiple) * multiple


def shares(length: int, step: int, rows: int, row_tiles: int, t: int) -> tuple[int, int]:
    """Divide a sum of ``length`` terms among programs where the rows alone are too few to fill the GPU.

    Returns the number of parts, and the terms of each, a multiple of ``step``. The parts are added
    afterwards in a fixed order: the result does not change from run to run.
    """
    wanted = max(1, min(PROGRAMS // max(row_tiles, 1), PARTIAL_SUMS // max(rows * t, 1), length // step))
    share = round_up(math.ceil(length / wanted), step)
    return max(1, math.ceil(length / share)), max(share, step)


def sum_numbers(rows: int, t: int) -> int:
    """Return the most numbers that a sum of ``rows`` rows holds: its result, and its parts where it is divided."""
    return rows * t + min(PARTIAL_SUMS, PROGRAMS * rows * t)


class RowsLike(Protocol):
    """A tensor, or rows that are indexed like one and return dense tensors."""

    @property
    def shape(self) -> tuple[int, ...]: ...  # (n, d)
    @property
    def dtype(self) -> torch.dtype: ...
    def __getitem__(self, rows: slice | Tensor, /) -> Tensor: ...  # (b, d)


def take(values: Tensor, rows: Tensor) -> Tensor:  # (n, t), (b,) -> (b, t)
    """Return some rows, in the faster way: by indexing for several columns on a GPU, else by ``index_select``."""
    return values[rows] if values.is_cuda and values.shape[1] > 1 else values.index_select(0, rows)
