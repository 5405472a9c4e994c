"""Copies from host memory to a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


class Upload:
    """Copies from the host to a card that neither wait for the other.

    Each copy goes through a page-locked buffer of a ring; a buffer is used again once its last copy has arrived.
    """

    SLOTS = 8
    LARGE = 2**22  # bytes: a copy that takes long anyway needs no buffer

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.turn = 0
        self.buffers: list[Tensor | None] = [None] * self.SLOTS
        self.arrived = [torch.cuda.Event() for _ in range(self.SLOTS)] if device.type == "cuda" else []

    def __call__(
        self,
        shape: Sequence[int],
        dtype: torch.dtype,
        fill: Callable[[Tensor], object],
    ) -> Tensor:
        """Return a tensor on the device with what ``fill`` writes into the buffer that it is given."""
        if self.device.type != "cuda" or math.prod(shape) * dtype.itemsize > self.LARGE:
            fill(plain := torch.empty(*shape, dtype=dtype))
            return plain.to(self.device)
        self.turn = (self.turn + 1) % self.SLOTS
        self.arrived[self.turn].synchronize()
        kept, size = self.buffers[self.turn], math.prod(shape)
        if kept is None or kept.dtype != dtype or kept.numel() < size:
            kept = self.buffers[self.turn] = torch.empty(size, dtype=dtype, pin_memory=True)
        fill(buffer := kept[:size].view(*shape))
        copy = buffer.to(self.device, non_blocking=True)
        self.arrived[self.turn].record()
        return copy

    def __reduce__(self) -> tuple[object, ...]:
        return Upload, (self.device,)
