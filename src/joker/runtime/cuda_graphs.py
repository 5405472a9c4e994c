"""CUDA graphs: steps that are captured and replayed, and work on a second stream beside them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from joker.errors import CaptureFailed

OutOfMemory = torch.OutOfMemoryError if hasattr(torch, "OutOfMemoryError") else torch.cuda.OutOfMemoryError


class Replay:
    """Calls of a function of tensors, captured on its first calls and replayed from then on.

    The function must do all its work in place on tensors that it owns, and read none of them on the
    host. For each shape of inputs on a CUDA card the first call runs as it is, the second is
    captured in a graph, and further calls cost one launch. On the CPU every call runs as it is.
    ``key`` tells functions apart.
    """

    def __init__(self) -> None:
        self.graphs: dict[tuple[object, ...], tuple[list[Tensor], torch.cuda.CUDAGraph] | None] = {}
        self.pool: Any = None
        self.capturing = True

    def __call__(self, function: Callable[..., object], *inputs: Tensor, key: Hashable = None) -> None:
        """Run the function, or what was captured of it."""
        shapes = (key, *(tensor.shape for tensor in inputs))
        if inputs[0].is_cuda and self.capturing and shapes in self.graphs:
            self.graphs[shapes] = self.graphs[shapes] or self._capture(function, inputs)
        if (captured := self.graphs.get(shapes)) is None:
            with self._aside(inputs[0].device):
                function(*inputs)
            self.graphs[shapes] = None
            return
        kept, graph = captured
        for static, tensor in zip(kept, inputs, strict=True):
            static.copy_(tensor)
        graph.replay()

    @contextmanager
    def _aside(self, device: torch.device) -> Iterator[None]:
        """Run on the stream that is captured later: cuBLAS keeps a work space for every stream that it has seen."""
        if device.type != "cuda":
            yield
            return
        here, aside = torch.cuda.current_stream(device), _side_stream(device)
        aside.wait_stream(here)
        try:
            with torch.cuda.stream(aside):
                yield
        finally:
            here.wait_stream(aside)

    def _capture(
        self, function: Callable[..., object], inputs: tuple[Tensor, ...]
    ) -> tuple[list[Tensor], torch.cuda.CUDAGraph] | None:
        kept = [tensor.clone() for tensor in inputs]
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool, stream=_side_stream(kept[0].device)):
                function(*kept)
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
        return kept, graph


def beside(device: torch.device, work: Callable[[], object]) -> Callable[[], object]:
    """Begin ``work`` on a second stream of a card, and return what makes the current one wait for it.

    What comes before it on the current stream has the right of way. On the CPU all is done at once.
    """
    if device.type != "cuda":
        work()
        return lambda: None
    here, second = torch.cuda.current_stream(device), _second_stream(device)
    second.wait_stream(here)
    with torch.cuda.stream(second):
        work()
    return lambda: here.wait_stream(second)


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream on which graphs are captured, one for each card. Its kernels go before those of the second."""
    return torch.cuda.Stream(device, priority=-1)


@cache
def _second_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream of what is done beside, one for each card."""
    return torch.cuda.Stream(device)
