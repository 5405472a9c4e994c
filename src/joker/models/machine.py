"""Fitted predictors, which predict rows in bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from joker.data import Rows, TensorRows, as_rows
from joker.errors import InvalidData
from joker.features import FeatureMap
from joker.kernels import Kernel
from joker.kernels.kernel import LONGEST, PARTS, matvec, tile_shape
from joker.runtime import DEFAULT_BUDGET, parse_bytes, tile_bytes, tiles


@dataclass(frozen=True, eq=False, repr=False)
class Machine(ABC):
    """A prediction function f(x) = ⟨θ, φ(x)⟩ for each of t columns.

    Examples
    --------
    >>> import torch
    >>> import joker
    >>> x = torch.linspace(0, 6, 100)[:, None]
    >>> machine, report = joker.prepare(x, x.sin(), lam=0.1).run()
    >>> machine
    ExactMachine(Gaussian(bandwidth=...), rows=100, columns=1)
    >>> tuple(machine.predict(x).shape)
    (100, 1)
    """

    weights_name: ClassVar[str]
    """The name of the field with the weights, which have one row for each training row or feature."""

    @property
    def weights(self) -> Tensor:  # (n, t) or (m, t)
        """The weights."""
        weights: Tensor = getattr(self, self.weights_name)
        return weights

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of rows and predictions."""
        return self.weights.dtype

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """The number of inputs d."""

    @property
    @abstractmethod
    def constant(self) -> Tensor:  # (t,)
        """The weight of the feature that is always 1, if the machine was trained with an intercept."""

    @property
    def precomputed(self) -> bool:
        """Whether its rows are numbers of the rows of a kernel matrix, which `reading` gives it."""
        return False

    def reading(self, matrix: Tensor | None) -> Self:  # (k, n)
        """Return the machine with the kernel matrix of k new rows, or without one; itself if it needs none."""
        return self

    def predict(self, x: Tensor | Rows, memory: int | str = DEFAULT_BUDGET) -> Tensor:  # (n, d) -> (n, t)
        """Return f of each row, with at most ``memory`` bytes of temporary memory."""
        rows = self._checked(x)
        f = self.constant.new_empty(len(rows), len(self.constant))
        for tile, part in self._stream(rows, parse_bytes(memory)):
            f[tile] = part
        return f

    def stream(self, x: Tensor | Rows, memory: int | str = DEFAULT_BUDGET) -> Iterator[tuple[slice, Tensor]]:
        """Yield f of the rows tile by tile, with at most ``memory`` bytes of temporary memory."""
        return self._stream(self._checked(x), parse_bytes(memory))

    def _checked(self, x: Tensor | Rows) -> Rows:
        rows = x if isinstance(x, Rows) else as_rows(x)
        if rows.shape[1] != self.n_inputs:
            raise InvalidData(
                f"X must have the {self.n_inputs} inputs that the machine was trained on; got shape {rows.shape}. "
                "Give the same inputs in the same order."
            )
        if rows.dtype != self.dtype:
            raise InvalidData(f"X must be {self.dtype}, as in training; got {rows.dtype}. Use X.to({self.dtype}).")
        return rows

    def columns(self, start: int, stop: int) -> Self:
        """Return a machine with the columns ``start`` to ``stop`` only, and a copy of their weights."""
        return self._with_weights(self.weights[:, start:stop].clone())

    def joined(self, others: Sequence[Self]) -> Self:
        """Return a machine with the columns of this one and of ``others``, which have the same rows or features."""
        return self._with_weights(torch.cat([self.weights, *(other.weights for other in others)], dim=1))

    def _with_weights(self, weights: Tensor) -> Self:
        changed: dict[str, Any] = {self.weights_name: weights}
        return replace(self, **changed)

    @abstractmethod
    def tile_bytes(self, rows: int, row_bytes: int) -> int:
        """Return the bytes that f of a tile of ``rows`` rows takes; reading a row takes ``row_bytes``."""

    @abstractmethod
    def _stream(self, x: Rows, budget: int) -> Iterator[tuple[slice, Tensor]]: ...


@dataclass(frozen=True, eq=False, repr=False)
class ExactMachine(Machine):
    """f(x) = Σ α_i k(x, x_i) over the training rows x_i."""

    weights_name = "alpha"

    kernel: Kernel
    x: Rows  # (n, d)
    alpha: Tensor  # (n, t)

    @property
    def n_inputs(self) -> int:
        return self.x.shape[1]

    @property
    def constant(self) -> Tensor:  # (t,)
        return self.alpha.sum(0)

    def __repr__(self) -> str:
        return f"ExactMachine({self.kernel!r}, rows={len(self.x)}, columns={self.alpha.shape[1]})"

    @property
    def precomputed(self) -> bool:
        return self.kernel.precomputed

    def reading(self, matrix: Tensor | None) -> Self:  # (k, n)
        return replace(self, kernel=self.kernel.reading(matrix)) if self.precomputed else self

    def tile_bytes(self, rows: int, row_bytes: int) -> int:
        side, s = min(rows, len(self.x)), self.dtype.itemsize
        work = self.kernel.work_bytes(rows, side, self.n_inputs, s)
        return work + rows * (row_bytes + s * self.alpha.shape[1]) + side * self.x.row_bytes

    def _stream(self, x: Rows, budget: int) -> Iterator[tuple[slice, Tensor]]:
        both = (x.row_bytes, self.x.row_bytes)
        length = tile_shape(self.kernel, x, self.x, budget, both)[0]
        # A GPU predicts all rows in one pass, a CPU as many tiles as threads may share.
        length = len(x) if self.alpha.is_cuda else min(length, LONGEST * PARTS)
        for start in range(0, len(x), max(length, 1)):
            tile = slice(start, min(start + length, len(x)))
            rows = x if length >= len(x) else TensorRows(x[tile])
            left = budget if rows is x else budget - length * x.row_bytes
            taken = both if rows is x else (0, self.x.row_bytes)
            yield tile, matvec(self.kernel, rows, self.x, self.alpha, left, row_bytes=taken)


@dataclass(frozen=True, eq=False, repr=False)
class FeatureMachine(Machine):
    """f(x) = ⟨θ, ψ(x)⟩ with random features ψ."""

    weights_name = "theta"

    features: FeatureMap
    theta: Tensor  # (m, t)

    @property
    def n_inputs(self) -> int:
        return self.features.n_inputs

    @property
    def constant(self) -> Tensor:  # (t,)
        return self.theta[-1]

    def __repr__(self) -> str:
        kind = type(self.features).__name__
        return f"FeatureMachine({kind}, features={self.features.n_features}, columns={self.theta.shape[1]})"

    def tile_bytes(self, rows: int, row_bytes: int) -> int:
        t = self.theta.shape[1]
        return self.features.apply_bytes(rows, t) + rows * (row_bytes + t * self.theta.element_size())

    def _stream(self, x: Rows, budget: int) -> Iterator[tuple[slice, Tensor]]:
        t = self.theta.shape[1]

        def work(b: int) -> int:
            return self.features.apply_bytes(b, t) + b * x.row_bytes

        short = max(tile_bytes(budget, self.theta.device), min(budget, work(1)))
        for tile in tiles(len(x), work, short, "features"):
            yield tile, self.features.apply(x[tile], self.theta)
