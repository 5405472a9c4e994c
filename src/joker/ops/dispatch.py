"""Which tensors the fused kernels are for, and how their work is divided."""

from __future__ import annotations

import math
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

OFFSETS = 2**31  # offsets within a tile are 32-bit numbers
PROGRAMS = 1024  # enough to fill a large card several times over
PARTIAL_SUMS = 2**20  # numbers


def fuses(*tensors: Tensor) -> bool:
    """Whether a fused kernel takes these tensors: float32, on a CUDA card, with Triton installed."""
    return all(tensor.is_cuda and tensor.dtype == torch.float32 for tensor in tensors) and _has_triton()


@cache
def _has_triton() -> bool:
    return torch.version.hip is None and find_spec("triton") is not None


def rows_apart(x: Tensor) -> Tensor:
    """Return x with the entries of a row next to one another, as the kernels read it."""
    return x if x.stride(-1) == 1 or (x.shape[-1] == 1 and x.stride(0) == 1) else x.contiguous()


def round_up(n: int, multiple: int) -> int:
    """Return the least multiple that is not below n."""
    return -(-n // multiple) * multiple


def shares(length: int, step: int, rows: int, row_tiles: int, t: int) -> tuple[int, int]:
    """Divide a sum of ``length`` terms among programs where the rows alone are too few to fill the card.

    Returns how many parts there are, and the terms of each, a multiple of ``step``. The parts are
    added afterwards in a fixed order: the result does not change from run to run.
    """
    wanted = max(1, min(PROGRAMS // max(row_tiles, 1), PARTIAL_SUMS // max(rows * t, 1), length // step))
    share = round_up(math.ceil(length / wanted), step)
    return max(1, math.ceil(length / share)), max(share, step)
