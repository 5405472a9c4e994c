"""CUDA graphs: steps that are captured and replayed, and work on a second stream at the same time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from joker.errors import CaptureFailed
from joker.runtime.devices import OutOfMemory


class Replay:
    """Calls of a function of tensors, captured in a CUDA graph and replayed.

    The function must do all its work in place on tensors that it owns, and the CPU may read none of them.
    For each shape of inputs on a GPU the first call runs directly, the second is captured in a graph,
    and each later call costs one launch. On the CPU every call runs directly. Functions are
    distinguished by ``key``.
    """

    def __init__(self) -> None:
        self.graphs: dict[tuple[object, ...], tuple[list[Tensor], torch.cuda.CUDAGraph] | None] = {}
        self.pool: Any = None
        self.capturing = True

    def __call__(self, function: Callable[..., object], *inputs: Tensor, key: Hashable = None) -> None:
        """Run the function, or replay the graph that was captured of it."""
        shapes = (key, *(tensor.shape for tensor in inputs))
        if inputs[0].is_cuda and self.capturing and shapes in self.graphs:
            self.graphs[shapes] = self.graphs[shapes] or self._capture(function, inputs)
        if (captured := self.graphs.get(shapes)) is None:
            with self._on_capture_stream(inputs[0].device):
                function(*inputs)
            self.graphs[shapes] = None
            return
        static_inputs, graph = captured
        for static, tensor in zip(static_inputs, inputs, strict=True):
            static.copy_(tensor)
        graph.replay()

    @contextmanager
    def _on_capture_stream(self, device: torch.device) -> Iterator[None]:
        """Run on the stream that is captured later: cuBLAS keeps a workspace for every stream that it has used."""
        if device.type != "cuda":
            yield
            return
        current, capturing = torch.cuda.current_stream(device), _capture_stream(device)
        capturing.wait_stream(current)
        try:
            with torch.cuda.stream(capturing):
                yield
        finally:
            current.wait_stream(capturing)

    def _capture(
        self, function: Callable[..., object], inputs: tuple[Tensor, ...]
    ) -> tuple[list[Tensor], torch.cuda.CUDAGraph] | None:
        static_inputs = [tensor.clone() for tensor in inputs]
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool, stream=_capture_stream(static_inputs[0].device)):
                function(*static_inputs)
        except OutOfMemory:
            raise
        except RuntimeError as error:
            self.capturing = False
            warnings.warn(
                CaptureFailed(f"a step must be captured in a CUDA graph to run at full speed; that failed: {error}"),
                stacklevel=2,
            )
            return None
        self.pool = self.pool or graph.pool()
        return static_inputs, graph


def beside(device: torch.device, work: Callable[[], object]) -> Callable[[], object]:
    """Start ``work`` on a second stream of a GPU, and return a function that makes the current stream wait for it.

    The work starts after everything that is already on the current stream. On the CPU it is done at once.
    """
    if device.type != "cuda":
        work()
        return lambda: None
    current, second = torch.cuda.current_stream(device), _second_stream(device)
    second.wait_stream(current)
    with torch.cuda.stream(second):
        work()
    return lambda: current.wait_stream(second)


@cache
def _capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream on which graphs are captured, one for each GPU. Its kernels have priority over the second."""
    return torch.cuda.Stream(device, priority=-1)


@cache
def _second_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream for work at the same time, one for each GPU."""
    return torch.cuda.Stream(device)


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
