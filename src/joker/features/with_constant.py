"""A feature map and a constant: what gives a machine an intercept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from joker.features.base import WHOLE, FeatureMap, FilledMap
from joker.ops.triton_support import round_up


@dataclass(frozen=True, eq=False)
class WithConstant(FilledMap):
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

    @property
    def nbytes(self) -> int:
        """The bytes of the map without the constant."""
        return self.inner.nbytes

    def fill(
        self,
        x: Tensor,  # (b, d)
        out: Tensor | None = None,  # (b, m)
        low: Tensor | None = None,  # (b, m), bfloat16
    ) -> Tensor:  # (b, m)
        """Return ψ of each row, in ``out`` where that is given, and write it to ``low`` as well."""
        out = self._room(x) if out is None else out
        self.inner.fill(x, out[:, :-1], None if low is None else low[:, :-1])
        for part in (out,) if low is None else (out, low):
            part[:, -1] = 1
        return out

    def _room(self, x: Tensor) -> Tensor:  # (b, m)
        """Return room for the features. On a card rows begin at multiples of 64 bytes: one more feature shifts none."""
        width = round_up(self.n_features, WHOLE) if x.is_cuda else self.n_features
        return x.new_empty(len(x), width)[:, : self.n_features]

    def fill_bytes(self, b: int) -> int:
        """Return what the map needs."""
        return self.inner.fill_bytes(b)

    def apply(
        self,
        x: Tensor,  # (b, d)
        theta: Tensor,  # (m, t)
    ) -> Tensor:  # (b, t)
        """Return ψ(x) θ."""
        return self.inner.apply(x, theta[:-1]) + theta[-1]

    def apply_bytes(self, b: int, t: int) -> int:
        """Return what the map needs, and its result."""
        return self.inner.apply_bytes(b, t) + self.itemsize * b * t

    def slice(self, start: int, stop: int) -> FeatureMap:
        """Return the map of the features ``start`` to ``stop`` alone."""
        last = self.inner.n_features
        inside = self.inner.slice(min(start, last), min(stop, last))
        return replace(self, inner=inside) if stop > last else inside

    def work_bytes(self, b: int) -> int:
        """Return what the map needs to fill the room for all features, and that room."""
        return self.inner.fill_bytes(b) + self.itemsize * b * round_up(self.n_features, WHOLE)

    def to(self, dtype: torch.dtype, device: torch.device | str) -> Self:
        """Return the same draw in ``dtype`` on ``device``."""
        return type(self)(self.inner.to(dtype, device), dtype.itemsize)
