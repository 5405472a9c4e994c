"""A feature map and a constant: what gives a machine an intercept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from joker.features.base import FeatureMap


@dataclass(frozen=True, eq=False)
class WithConstant(FeatureMap):
    """The features of a map and, last, one that is always 1; its weight is the intercept.

    Parameters
    ----------
    inner : FeatureMap
        The map without the constant.
    itemsize : int
        Bytes of one number of the rows it will be given.
    """

    inner: FeatureMap
    itemsize: int = 8

    @property
    def n_inputs(self) -> int:
        """The number of inputs d."""
        return self.inner.n_inputs

    @property
    def n_features(self) -> int:
        """The number of features m, the constant among them."""
        return self.inner.n_features + 1

    def __call__(
        self,
        x: Tensor,  # (b, d)
    ) -> Tensor:  # (b, m)
        """Return ψ of each row."""
        psi = self.inner(x)
        return torch.cat([psi, psi.new_ones(len(psi), 1)], dim=1)

    def slice(self, start: int, stop: int) -> FeatureMap:
        """Return the map of the features ``start`` to ``stop`` alone."""
        last = self.inner.n_features
        inside = self.inner.slice(min(start, last), min(stop, last))
        return replace(self, inner=inside) if stop > last else inside

    def work_bytes(self, b: int) -> int:
        """Return what the map needs, the constant, and the copy that has room for both."""
        return self.inner.work_bytes(b) + self.itemsize * b * (self.n_features + 1)

    def to(self, dtype: torch.dtype, device: torch.device | str) -> Self:
        """Return the same draw in ``dtype`` on ``device``."""
        return type(self)(self.inner.to(dtype, device), dtype.itemsize)
