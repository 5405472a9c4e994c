"""Fitted predictors: rows in, predictions out, in bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from joker.data import Rows, as_rows
from joker.errors import InvalidData
from joker.features import FeatureMap
from joker.kernels import Kernel
from joker.kernels.product import matvec
from joker.runtime import DEFAULT_BUDGET, parse_bytes, tiles


@dataclass(frozen=True, eq=False, repr=False)
class Machine(ABC):
    """A prediction function f(x) = ⟨θ, φ(x)⟩ for each of t columns."""

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """The number of inputs d."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The floating-point type of rows and predictions."""

    @property
    @abstractmethod
    def constant(self) -> Tensor:  # (t,)
        """The weight of the feature that is always 1, where the machine was trained with an intercept."""

    def predict(self, x: Tensor | Rows, memory: int | str = DEFAULT_BUDGET) -> Tensor:  # (n, d) -> (n, t)
        """Return f of each row, using at most ``memory`` bytes beside the result."""
        rows = as_rows(x)
        if rows.shape[1] != self.n_inputs:
            raise InvalidData(
                f"X must have the {self.n_inputs} inputs the machine was trained on; got shape {rows.shape}. "
                "Give the same inputs in the same order."
            )
        if rows.dtype != self.dtype:
            raise InvalidData(f"X must be {self.dtype}, as in training; got {rows.dtype}. Use X.to({self.dtype}).")
        return self._predict(rows, parse_bytes(memory))

    @abstractmethod
    def columns(self, start: int, stop: int) -> Self:
        """Return the machine of the columns ``start`` to ``stop`` alone, with its own copy of their weights."""

    @abstractmethod
    def joined(self, others: Sequence[Self]) -> Self:
        """Return the machine of all columns of this one and of ``others``, which share its rows or features."""

    @abstractmethod
    def _predict(self, x: Rows, budget: int) -> Tensor: ...


@dataclass(frozen=True, eq=False, repr=False)
class ExactMachine(Machine):
    """f(x) = Σ α_i k(x, x_i) over the rows it was trained on."""

    kernel: Kernel
    x: Rows  # (n, d)
    alpha: Tensor  # (n, t)

    @property
    def n_inputs(self) -> int:
        return self.x.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        return self.alpha.dtype

    @property
    def constant(self) -> Tensor:  # (t,)
        return self.alpha.sum(0)

    def columns(self, start: int, stop: int) -> Self:
        return replace(self, alpha=self.alpha[:, start:stop].clone())

    def joined(self, others: Sequence[Self]) -> Self:
        return replace(self, alpha=torch.cat([self.alpha, *(other.alpha for other in others)], dim=1))

    def __repr__(self) -> str:
        return f"ExactMachine({self.kernel!r}, rows={len(self.x)}, columns={self.alpha.shape[1]})"

    def _predict(self, x: Rows, budget: int) -> Tensor:
        return matvec(self.kernel, x, self.x, self.alpha, budget, row_bytes=(x.row_bytes, self.x.row_bytes))


@dataclass(frozen=True, eq=False, repr=False)
class FeatureMachine(Machine):
    """f(x) = ⟨θ, ψ(x)⟩ with random features ψ."""

    features: FeatureMap
    theta: Tensor  # (m, t)

    @property
    def n_inputs(self) -> int:
        return self.features.n_inputs

    @property
    def dtype(self) -> torch.dtype:
        return self.theta.dtype

    @property
    def constant(self) -> Tensor:  # (t,)
        return self.theta[-1]

    def columns(self, start: int, stop: int) -> Self:
        return replace(self, theta=self.theta[:, start:stop].clone())

    def joined(self, others: Sequence[Self]) -> Self:
        return replace(self, theta=torch.cat([self.theta, *(other.theta for other in others)], dim=1))

    def __repr__(self) -> str:
        kind = type(self.features).__name__
        return f"FeatureMachine({kind}, features={self.features.n_features}, columns={self.theta.shape[1]})"

    def _predict(self, x: Rows, budget: int) -> Tensor:
        t = self.theta.shape[1]
        f = self.theta.new_empty(len(x), t)
        for tile in tiles(len(x), lambda b: self.features.apply_bytes(b, t) + b * x.row_bytes, budget, "features"):
            f[tile] = self.features.apply(x[tile], self.theta)
        return f
