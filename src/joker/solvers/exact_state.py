"""The state of a solve with the kernel itself: the image of α is the prediction f = Kα of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import torch
from torch import Tensor

from joker.data import Rows, TensorRows
from joker.distributed import ALONE, Group
from joker.ops.rows import take
from joker.runtime import DEFAULT_BUDGET, chunks, tile_bytes, tiles
from joker.solvers.block_buffers import PreparedBlock
from joker.solvers.feature_chunks import gap_bytes
from joker.solvers.kept_kernel_rows import KeptKernelRows
from joker.solvers.kernel_function import KernelFunction
from joker.solvers.state import OpenBlock, State

AddProduct = Callable[[Rows, Rows, Tensor, Tensor], object]  # x (n, d), z (k, d), v (k, t), out (n, t)
ONE_THREAD_ROWS = 2_048  # the operations of a smaller problem, in one block, are as large as its kernel matrix


class ExactState(State):
    """α and f = Kα of all rows, which a step updates in tiles of the kernel matrix.

    Parameters
    ----------
    x : Rows
        The rows of inputs.
    t : int
        The number of columns.
    kernel : KernelFunction
        The kernel, with the constant of an intercept.
    add_product : callable
        ``add_product(x, z, v, out)`` adds k(x, z) v to ``out``, in tiles.
    budget : int
        Bytes of scratch space for a tile.
    kept_rows : int
        Rows of the kernel matrix that are kept between steps, in host memory.
    landmarks : int
        Rows from which the preconditioner of conjugate gradients is made.
    group : Group
        The processes that solve the problem together. Each computes the kernel of its part of the rows with others.
    whole_products : bool
        Whether steps are products with the whole kernel matrix, as those of conjugate gradients are. In a group with
        kept rows, each process then adds its share of a product, in which no kernel entry is computed twice.
    """

    def __init__(
        self,
        x: Rows,
        t: int,
        kernel: KernelFunction,
        add_product: AddProduct,
        budget: int = DEFAULT_BUDGET,
        kept_rows: int = 0,
        landmarks: int = 0,
        group: Group = ALONE,
        whole_products: bool = False,
    ) -> None:
        super().__init__(x, t, len(x), group)
        own = group.part(len(x))
        self.own = x.part(own)
        self.kernel, self.add_product, self.budget, self.landmarks = kernel, add_product, budget, landmarks
        self.small_operations = x.device.type == "cpu" and len(x) > ONE_THREAD_ROWS
        self.adds_shares = whole_products and group.size > 1
        columns = None if self.adds_shares else own
        self.kept = KeptKernelRows(x, kernel, kept_rows, budget, columns) if kept_rows else None

    @property
    def scratch_bytes(self) -> int:
        return self.budget + 2 * self.image.numel() * self.image.element_size()

    @property
    def never_waits(self) -> bool:
        return super().never_waits and self.x.index_device.type == self.alpha.device.type

    def open(self, rows: Tensor, x: Tensor | None = None, prepared: PreparedBlock | None = None) -> OpenBlock:
        x = self.x[rows] if x is None else x
        return OpenBlock(rows, self.kernel(x, x), take(self.image, rows), take(self.alpha, rows), x)

    def diagonal(self) -> Tensor:  # (n, 1)
        """Return the kernel of each row with itself."""
        diagonal = torch.empty_like(self.alpha[:, :1])
        for rows in chunks(*self.x.shape):
            diagonal[rows, 0] = self.kernel.diag(self.x[rows])
        return diagonal

    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        change = self.image.new_zeros(len(self.own), move.shape[1])
        rows, x = block.rows, block.basis
        if not move.is_cuda:  # rows that did not move are left out; a GPU would have to wait to count them
            moved = move.any(1).nonzero()[:, 0]
            rows, x, move = rows[moved], x[moved], move[moved]
        if self.kept and not self.adds_shares:
            self.kept.add_product(rows, x, move, change)
        else:
            self.add_product(self.own, TensorRows(x), move, change)
        return self.group.whole(change, len(self.x))

    def image_of(self, alpha: Tensor) -> Tensor:
        if self.adds_shares and self._common_rows:
            assert self.kept is not None
            image = torch.zeros_like(alpha)
            self.kept.add_share(alpha, image, self._common_rows, self.group.rank, self.group.size)
            return self.group.sum_(image)
        image = alpha.new_zeros(len(self.own), alpha.shape[1])
        if self.kept and not self.adds_shares:
            self.kept.add_whole_product(alpha, image)
        else:
            self.add_product(self.own, self.x, alpha, image)
        return self.group.whole(image, len(self.x))

    @cached_property
    def _common_rows(self) -> int:
        """The number of kernel rows that every process can keep; they may have different amounts of memory."""
        return min(self.group.collect(len(self.kept.row) if self.kept else 0))

    def predictions(self, *images: Tensor) -> Iterator[tuple[slice, Tensor]]:
        row_bytes = gap_bytes(1, sum(image.shape[1] for image in images))
        budget = tile_bytes(self.budget, self.x.device)
        for tile in tiles(len(self.x), row_bytes, max(budget, row_bytes), "predictions"):
            yield tile, torch.cat([image[tile] for image in images], dim=1)
