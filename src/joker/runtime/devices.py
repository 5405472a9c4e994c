"""Devices and floating-point types: torch objects from their names, and properties of GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

from joker.errors import InvalidParameter, UnknownName

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
    if chosen not in _DTYPES.values():
        raise UnknownName.among("dtype", dtype, _DTYPES)
    assert chosen is not None
    return chosen
