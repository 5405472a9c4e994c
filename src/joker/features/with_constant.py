"""A feature map plus a constant feature, which gives a machine an intercept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from joker.features.base import FeatureMap, FilledMap
from joker.ops.bfloat16_gram import TENSOR_CORE_MULTIPLE
from joker.ops.triton_support import round_up


@dataclass(frozen=True, eq=False)
class WithConstant(FilledMap):
    """The features of a map and, as the last one, a feature that is always 1; its weight is the intercept."""

    inner: FeatureMap  # without the constant
    itemsize: int = 8  # bytes of one number of the rows that the map is called with

    @property
    def n_inputs(self) -> int:
        return self.inner.n_inputs

    @property
    def n_features(self) -> int:
        return self.inner.n_features + 1

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes

    def fill(self, x: Tensor, out: Tensor | None = None, low: Tensor | None = None) -> Tensor:  # (b, d) -> (b, m)
        out = self._allocate(x) if out is None else out
        self.inner.fill(x, out[:, :-1], None if low is None else low[:, :-1])
        for features in (out,) if low is None else (out, low):
            features[:, -1] = 1
        return out

    def _allocate(self, x: Tensor) -> Tensor:  # (b, m)
        """Return an empty tensor for the features. On a GPU its rows are aligned to multiples of 64 bytes."""
        width = round_up(self.n_features, TENSOR_CORE_MULTIPLE) if x.is_cuda else self.n_features
        return x.new_empty(len(x), width)[:, : self.n_features]

    def fill_bytes(self, b: int) -> int:
        return self.inner.fill_bytes(b)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:  # (b, d), (m, t) -> (b, t)
        return self.inner.apply(x, theta[:-1]) + theta[-1]

    def apply_bytes(self, b: int, t: int) -> int:
        """Return the bytes that the map needs, and those of its result."""
        return self.inner.apply_bytes(b, t) + self.itemsize * b * t

    def slice(self, start: int, stop: int) -> FeatureMap:
        last = self.inner.n_features
        inner = self.inner.slice(min(start, last), min(stop, last))
        return replace(self, inner=inner) if stop > last else inner

    def work_bytes(self, b: int) -> int:
        """Return the bytes that the map needs beside its features, and those of all features."""
        return self.inner.fill_bytes(b) + self.itemsize * b * round_up(self.n_features, TENSOR_CORE_MULTIPLE)

    def to(self, dtype: torch.dtype, device: torch.device | str) -> Self:
        return type(self)(self.inner.to(dtype, device), dtype.itemsize)
