"""The state of a solve with the kernel itself: the image of α is the prediction f = Kα of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from joker.data import Rows, TensorRows
from joker.ops.rows import take
from joker.runtime import DEFAULT_BUDGET, tile_bytes, tiles
from joker.solvers.block_buffers import PreparedBlock
from joker.solvers.feature_chunks import gap_bytes
from joker.solvers.state import OpenBlock, State

Gram = Callable[[Tensor, Tensor], Tensor]  # x (n, d), z (k, d): the kernel matrix (n, k)
AddProduct = Callable[[Rows, Rows, Tensor, Tensor], object]  # x, z, v, out: out += k(x, z) v


class ExactState(State):
    """α and f = Kα of all rows, which a step updates in tiles of the kernel matrix."""

    def __init__(self, x: Rows, t: int, gram: Gram, add_product: AddProduct, budget: int = DEFAULT_BUDGET) -> None:
        super().__init__(x, t, len(x))
        self.gram, self.add_product, self.budget = gram, add_product, budget

    @property
    def scratch_bytes(self) -> int:
        return self.budget + 2 * self.image.numel() * self.image.element_size()

    def open(self, rows: Tensor, x: Tensor | None = None, prepared: PreparedBlock | None = None) -> OpenBlock:
        x = self.x[rows] if x is None else x
        return OpenBlock(rows, self.gram(x, x), take(self.image, rows), take(self.alpha, rows), x)

    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        change = torch.zeros_like(self.image)
        self.add_product(self.x, TensorRows(block.basis), move, change)
        return change

    def image_of(self, alpha: Tensor) -> Tensor:
        image = torch.zeros_like(alpha)
        self.add_product(self.x, self.x, alpha, image)
        return image

    def predictions(self, *images: Tensor) -> Iterator[tuple[slice, Tensor]]:
        row_bytes = gap_bytes(1, sum(image.shape[1] for image in images))
        budget = tile_bytes(self.budget, self.x.device)
        for tile in tiles(len(self.x), row_bytes, max(budget, row_bytes), "predictions"):
            yield tile, torch.cat([image[tile] for image in images], dim=1)
