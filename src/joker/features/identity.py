"""The features of the linear kernel: the inputs themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.features.base import Blank, FeatureKernel, FeatureMap


@dataclass(frozen=True, eq=False)
class Identity(FeatureMap):
    """ψ(x) = x, or the inputs ``first`` to ``last`` of it: a view, not a copy."""

    inputs: int  # number of inputs d
    first: int
    last: int

    @property
    def n_inputs(self) -> int:
        return self.inputs

    @property
    def n_features(self) -> int:
        return self.last - self.first

    def __call__(self, x: Tensor) -> Tensor:  # (b, d) -> (b, m)
        return x[:, self.first : self.last]

    def slice(self, start: int, stop: int) -> Identity:
        return replace(self, first=self.first + start, last=self.first + stop, origin=None)

    def work_bytes(self, b: int) -> int:
        """Return 0: the features are a view of the inputs."""
        return 0


def outline(kernel: FeatureKernel, d: int, m: int, blank: Blank) -> Identity:
    """Return the map, which has no tensors."""
    if m != d:
        raise InvalidParameter(
            f"n_features must be the number of inputs with the {kernel.name} kernel, which is its own feature map; "
            f"got {m} with {d} inputs. Use n_features={d}."
        )
    return Identity(d, 0, d)


def draw(kernel: FeatureKernel, d: int, m: int, generator: torch.Generator) -> Identity:
    """Return the map, without anything random."""
    return outline(kernel, d, m, torch.empty)
