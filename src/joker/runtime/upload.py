"""Copies from host memory to a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class Upload:
    """Asynchronous copies from host memory to a GPU.

    Each copy goes through one of a ring of page-locked buffers. A buffer is used again once its last copy is complete.
    """

    SLOTS = 8  # buffers
    LARGE = 2**22  # bytes: larger copies are synchronous, as the time for the copy itself dominates

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.turn = 0
        self.buffers: list[Tensor | None] = [None] * self.SLOTS
        self.copied = [torch.cuda.Event() for _ in range(self.SLOTS)] if device.type == "cuda" else []

    def __call__(self, shape: Sequence[int], dtype: torch.dtype, fill: Callable[[Tensor], object]) -> Tensor:
        """Return a tensor on the device with the values that ``fill`` writes into a buffer in host memory."""
        if self.device.type != "cuda" or math.prod(shape) * dtype.itemsize > self.LARGE:
            fill(values := torch.empty(*shape, dtype=dtype))
            return values.to(self.device)
        self.turn = (self.turn + 1) % self.SLOTS
        self.copied[self.turn].synchronize()
        whole, size = self.buffers[self.turn], math.prod(shape)
        if whole is None or whole.dtype != dtype or whole.numel() < size:
            whole = self.buffers[self.turn] = torch.empty(size, dtype=dtype, pin_memory=True)
        fill(buffer := whole[:size].view(*shape))
        copy = buffer.to(self.device, non_blocking=True)
        self.copied[self.turn].record()
        return copy

    def __reduce__(self) -> tuple[object, ...]:
        return Upload, (self.device,)
