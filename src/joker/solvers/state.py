"""Where a solve stands: α, and its image, from which predictions follow.

The image is linear in α. With the kernel itself it is the prediction f = Kα of every
row; with features it is θ = Ψᵀα. Exact and inexact solves differ here and nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from joker.data import Rows, TensorRows
from joker.runtime import DEFAULT_BUDGET, tiles

SAMPLE = 16  # rows
WIDE_COPIES = 10  # float64 numbers that the gap needs for each prediction


class Gram(Protocol):
    """A kernel: k(x, z) of every pair of rows."""

    def __call__(self, x: Tensor, z: Tensor, /) -> Tensor:  # (n, d), (k, d) -> (n, k)
        """Return the kernel matrix."""
        ...


class FeatureMap(Protocol):
    """A map ψ from d inputs to m features."""

    @property
    def n_features(self) -> int:
        """The number of features m."""
        ...

    def __call__(self, x: Tensor, /) -> Tensor:  # (b, d) -> (b, m)
        """Return ψ of each row."""
        ...

    def work_bytes(self, b: int, /) -> int:
        """Return the bytes that a call on b rows holds at its peak."""
        ...

    def apply(self, x: Tensor, theta: Tensor, /) -> Tensor:  # (b, d), (m, t) -> (b, t)
        """Return ψ(x) θ."""
        ...

    def apply_bytes(self, b: int, t: int, /) -> int:
        """Return the bytes that `apply` on b rows and t columns holds at its peak, beside its result."""
        ...


AddProduct = Callable[[Rows, Rows, Tensor, Tensor], object]  # x, z, v, out: out += k(x, z) v


@dataclass(frozen=True)
class OpenBlock:
    """A block as the solver needs it."""

    rows: Tensor  # (b,)
    K: Tensor  # (b, b)
    f: Tensor  # (b, t)
    a: Tensor  # (b, t)
    inside: Tensor  # what moves the image: (b, d) rows or (b, m) features


class State(ABC):
    """α and its image, moved by ``commit`` alone."""

    def __init__(self, x: Rows, t: int, image_rows: int) -> None:
        self.x = x  # (n, d)
        self.alpha = torch.zeros(len(x), t, dtype=x.dtype, device=x.device)
        self.image = torch.zeros(image_rows, t, dtype=x.dtype, device=x.device)

    @abstractmethod
    def open(self, rows: Tensor) -> OpenBlock:
        """The kernel, prediction and α of a block."""

    @abstractmethod
    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        """What the image gains when α of the block moves by ``move`` (b, t)."""

    def commit(self, block: OpenBlock, a: Tensor) -> None:
        """Set α of the block to ``a`` (b, t) and move the image with it."""
        self.image += self.image_change(block, a - block.a)
        self.alpha[block.rows] = a

    @abstractmethod
    def image_of(self, alpha: Tensor) -> Tensor:
        """The image of any α (n, t), computed afresh: without the rounding of many small steps."""

    def sample(self) -> Tensor:
        """The kernel among the first few rows: it tells kernels, bandwidths and draws of features apart."""
        return self.open(torch.arange(min(len(self.x), SAMPLE), device=self.x.device)).K

    @abstractmethod
    def predictions(self, image: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """The predictions of all rows that an image (its rows, any columns) stands for, tile by tile."""

    def state_dict(self) -> dict[str, Tensor]:
        """α and its image."""
        return {"alpha": self.alpha.clone(), "image": self.image.clone()}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Take over a saved state."""
        self.alpha.copy_(saved["alpha"])
        self.image.copy_(saved["image"])


class ExactState(State):
    """With the kernel itself: f = Kα is kept for all rows, and updated in tiles."""

    def __init__(self, x: Rows, t: int, gram: Gram, add_product: AddProduct, budget: int = DEFAULT_BUDGET) -> None:
        super().__init__(x, t, len(x))
        self.gram, self.add_product, self.budget = gram, add_product, budget

    def open(self, rows: Tensor) -> OpenBlock:
        x = self.x[rows]
        return OpenBlock(rows, self.gram(x, x), self.image[rows], self.alpha[rows], x)

    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        change = torch.zeros_like(self.image)
        self.add_product(self.x, TensorRows(block.inside), move, change)
        return change

    def image_of(self, alpha: Tensor) -> Tensor:
        image = torch.zeros_like(alpha)
        self.add_product(self.x, self.x, alpha, image)
        return image

    def predictions(self, image: Tensor) -> Iterator[tuple[slice, Tensor]]:
        row_bytes = 8 * WIDE_COPIES * image.shape[1]
        for tile in tiles(len(image), row_bytes, max(self.budget, row_bytes), "predictions"):
            yield tile, image[tile]


class FeatureState(State):
    """With random features: θ = Ψᵀα; the features of a block are computed once a step."""

    def __init__(self, x: Rows, t: int, features: FeatureMap, budget: int = DEFAULT_BUDGET) -> None:
        super().__init__(x, t, features.n_features)
        self.features, self.budget = features, budget

    def open(self, rows: Tensor) -> OpenBlock:
        psi = self.features(self.x[rows])
        return OpenBlock(rows, psi @ psi.T, psi @ self.image, self.alpha[rows], psi)

    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        return block.inside.T @ move

    def image_of(self, alpha: Tensor) -> Tensor:
        image = alpha.new_zeros(self.features.n_features, alpha.shape[1])
        for tile in self._tiles():
            image += self.features(self.x[tile]).T @ alpha[tile]
        return image

    def predictions(self, image: Tensor) -> Iterator[tuple[slice, Tensor]]:
        t = image.shape[1]

        def work(b: int) -> int:
            return max(self.features.apply_bytes(b, t) + b * self.x.row_bytes, 8 * WIDE_COPIES * b * t)

        for tile in tiles(len(self.x), work, max(self.budget, work(1)), "features"):
            yield tile, self.features.apply(self.x[tile], image)

    def _tiles(self) -> Iterator[slice]:
        row_bytes = self.features.work_bytes(1) + self.x.row_bytes
        return tiles(len(self.x), row_bytes, self.budget, "features")
