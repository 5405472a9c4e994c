"""The state of a solve: α and its image, from which the predictions follow.

The image is linear in α. With the exact kernel it is the prediction f = Kα of every
row; with features it is θ = Ψᵀα. The two kinds of solve differ in their state only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from joker.data import Rows, SparseRows, TensorRows
from joker.data.rows import WideRows
from joker.distributed import ALONE, Group
from joker.ops.gram import TENSOR_CORE_MULTIPLE
from joker.ops.tall_skinny import squares
from joker.ops.triton_support import round_up, take
from joker.runtime import DEFAULT_BUDGET, chunks, tile_bytes, tiles
from joker.runtime.devices import share
from joker.solvers.block.model import BlockResult
from joker.solvers.kernel_cache import KernelCache, KernelFunction

MOST_FARTHEST = 128  # rows
GramAndFeatures = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # inputs (b, d), out (b, m) -> K (b, b), ψ in out


@dataclass(frozen=True)
class PreparedBlock:
    """The tensors of a block that do not depend on α, so that they can be computed in advance."""

    K: Tensor  # (b, b)
    psi: Tensor  # (b, m)


class BlockBuffers:
    """Memory for two prepared blocks of at most b rows and m features, numbered 0 and 1.

    ``like`` has the type and the device of the buffers. ``compute(x, out)`` writes the features of the inputs ``x`` to
    ``out`` and returns K and the features.
    """

    def __init__(self, b: int, m: int, like: Tensor, compute: GramAndFeatures) -> None:
        self.b, self.m, self._like, self._compute = b, m, like, compute
        self.memory: PreparedBlock | None = None

    def allocate(self) -> None:
        """Allocate both buffers, unless they exist: captured steps refer to their addresses."""
        if self.memory is None:
            b, new = self.b, self._like.new_empty
            widths = round_up(b, TENSOR_CORE_MULTIPLE), round_up(self.m, TENSOR_CORE_MULTIPLE)
            self.memory = PreparedBlock(new(2, b, widths[0]), new(2, b, widths[1]))

    def release(self) -> None:
        """Free both buffers."""
        self.memory = None

    def prepare(self, x: Tensor, buffer: int) -> None:  # (b, d)
        """Compute the block with these inputs in one of the buffers."""
        block = self.block(buffer, len(x))
        block.K.copy_(self._compute(x, block.psi)[0])

    def block(self, buffer: int, b: int) -> PreparedBlock:
        """Return the block of b rows in one of the buffers."""
        assert self.memory is not None
        return PreparedBlock(self.memory.K[buffer, :b, :b], self.memory.psi[buffer, :b, : self.m])


class SavedTensors:
    """An object whose moving part is a few tensors: the attributes named in ``saved``."""

    saved: ClassVar[tuple[str, ...]]

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the tensors."""
        return {name: getattr(self, name).clone() for name in self.saved}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore saved tensors, in place."""
        for name in self.saved:
            getattr(self, name).copy_(saved[name])


SOLVE_MATRICES = 5  # (b, b) matrices of a block: K, and those of a factorisation or of ADMM
TWO_FACTOR_MATRICES = 3  # further (b, b) matrices where two columns with a λ each are factorised at once
SOLVE_VECTORS = 40  # (b, t) matrices: all vectors of the block solver
GAP_VECTORS = 16  # float64 numbers that the gap needs for each prediction
ACCEPTED_SHARE = 0.5  # share of the predicted decrease that a full step must reach where K is rounded


@dataclass(frozen=True)
class OpenBlock:
    """The tensors of a block that the block solver and `State.commit` read."""

    rows: Tensor  # (b,)
    K: Tensor  # (b, b)
    f: Tensor  # (b, t)
    a: Tensor  # (b, t)
    basis: Tensor  # (b, d) inputs or (b, m) features, from which the change of the image is computed


class State(SavedTensors, ABC):
    """α and its image. Only `commit`, `extrapolate`, `move`, `reset` and `load_state_dict` change them.

    All work in place, because captured steps refer to these tensors. `commit` and `extrapolate` read no number on the
    CPU, so that a step can be captured in a CUDA graph.
    """

    saved = ("alpha", "image")
    exact: ClassVar[bool] = False
    """Whether the image is the predictions with the exact kernel, and not θ."""

    rounded_K = False
    """Whether the K of an open block is less precise than the image."""

    small_operations = False
    """Whether the operations of a step are too small to be shared among threads, except for its tiles."""

    keeps_memory = False
    """Whether freed tiles may stay with the process, because they are small."""

    group: Group = ALONE
    """The processes that solve the problem together. Each of them has all of α."""

    buffers: BlockBuffers | None = None
    """Where the next block is prepared while one is solved; None where blocks are not prepared in advance."""

    def __init__(self, x: Rows, t: int, image_rows: int, group: Group = ALONE) -> None:
        self.x, self.group = x, group  # (n, d)
        self.wide = x if x.dtype == torch.float64 else WideRows(x)  # the same rows in float64, as precise as they are
        self.fresh = False  # whether the image has been computed anew from α, and not by steps
        self.alpha = torch.zeros(len(x), t, dtype=x.dtype, device=x.device)
        self.image = torch.zeros(image_rows, t, dtype=x.dtype, device=x.device)

    @abstractmethod
    def open(self, rows: Tensor, x: Tensor | None = None, prepared: PreparedBlock | None = None) -> OpenBlock:
        """Return K, predictions and α of the block of rows (b,), from inputs x (b, d) or ``prepared`` tensors."""

    @abstractmethod
    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        """Return the change of the image when α of the block changes by ``move`` (b, t)."""

    @abstractmethod
    def image_of(self, alpha: Tensor) -> Tensor:
        """Return the image of any α (n, t), computed anew: without the rounding errors of many small steps."""

    @abstractmethod
    def predictions(self, *images: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield the predictions of all rows for some images, side by side, one tile of rows at a time."""

    @abstractmethod
    def prediction_errors(self, alpha: Tensor, image: Tensor, rows: Tensor) -> Tensor:  # (k,) -> (k, t)
        """Return the errors of the predictions of some rows, by a computation in float64.

        With features they are those of the weights in ``image``, and with the exact kernel those of α.
        """

    @abstractmethod
    def squared_error(self, alpha: Tensor, image: Tensor, exact: Tensor | None = None) -> Tensor:  # (t,)
        """Return ‖θ - Ψᵀα‖², from the ``exact`` Ψᵀα or else from some features; 0 with the exact kernel."""

    @abstractmethod
    def squared_norm(self, image: Tensor, products: Tensor) -> Tensor:  # (t,)
        """Return ‖θ‖²; with the exact kernel it is Σ α f, the ``products``."""

    @property
    def sparse_rows(self) -> SparseRows | None:
        """The rows, where their features are sparse inputs in float64 on a CPU and θ may differ from Ψᵀα."""
        return None

    @property
    @abstractmethod
    def largest_kernel(self) -> float:
        """The largest kernel value, which is that of a row with itself."""

    @abstractmethod
    def precise_image(self, alpha: Tensor) -> Tensor:
        """Return the image of any α in float64."""

    @cached_property
    def farthest(self) -> Tensor:  # (n,) or fewer
        """The rows that are farthest from the middle of the first ones: their distances have the largest errors."""
        distances = torch.empty(len(self.x), device=self.alpha.device)
        centre: Tensor | None = None
        for rows in chunks(*self.x.shape):
            x = self.x[rows]
            centre = x.mean(0) if centre is None else centre
            distances[rows] = torch.linalg.vector_norm(x - centre, dim=1).float()
        return distances.topk(min(MOST_FARTHEST, len(distances))).indices

    @property
    @abstractmethod
    def scratch_bytes(self) -> int:
        """The approximate number of bytes that a step needs beside the state."""

    @property
    def never_waits(self) -> bool:
        """Whether a step waits neither for other processes nor for rows in host memory: a graph can capture it."""
        return self.group.size == 1

    @property
    def whole_shape(self) -> tuple[int, int]:
        """The shape of the image, with the parts of all processes."""
        return len(self.image), self.image.shape[1]

    @property
    def digest(self) -> tuple[float, ...]:
        """Numbers that identify a kernel matrix which the user has given; none where the rows say everything."""
        return ()

    def whole_image(self, image: Tensor) -> Tensor:
        """Return an image with the parts of all processes."""
        return image

    def own_image(self, image: Tensor) -> Tensor:
        """Return the part of an image that this process has."""
        return image

    def shrink(self) -> bool:
        """Use less scratch space for a block from now on; return False if that is not possible."""
        return False

    def commit(
        self, block: OpenBlock, result: BlockResult, start: Tensor | None = None, scale: Tensor | float = 1.0
    ) -> tuple[BlockResult, Tensor]:  # start (b, t)
        """Move α of the block and the image by the step that the block solver has found.

        With momentum the block problem has ``scale`` times K and begins at ``start`` instead of α of the block.
        α and the image then move by ``scale`` times the step. Returns the step that was taken, and the change of
        the image that belongs to it, both before they are scaled.
        """
        self.fresh = False
        result, change = self._safeguard(block, block.a if start is None else start, result, scale)
        if start is None:
            self.image += change
            self.alpha.index_copy_(0, block.rows, result.a)
        else:
            image_move, move = scale * change, scale * (result.a - start)  # allocated before anything is changed
            self.image += image_move
            self.alpha.index_add_(0, block.rows, move)
        return result, change

    def extrapolate(self, alpha: Tensor, image: Tensor, weight: Tensor) -> None:  # alpha (n, t), weight (1,)
        """Replace α by (1 − weight) α + weight ``alpha``, and the image in the same way."""
        self.fresh = False
        self.alpha.lerp_(alpha, weight)
        self.image.lerp_(image, weight)

    def move(self, alpha_change: Tensor, image_change: Tensor) -> None:  # (n, t)
        """Move α, and its image by the change that belongs to it."""
        self.fresh = False
        self.alpha += alpha_change
        self.image += image_change

    def reset(self, alpha: Tensor, image: Tensor | None = None, *, fresh: bool = False) -> None:  # (n, t)
        """Set α, and its image, which is computed anew where it is not given; ``fresh`` says that it is new."""
        self.alpha.copy_(alpha)
        self.image.copy_(self.image_of(self.alpha) if image is None else image)
        self.fresh = image is None or fresh

    def _safeguard(
        self, block: OpenBlock, a: Tensor, result: BlockResult, scale: Tensor | float
    ) -> tuple[BlockResult, Tensor]:
        """Return a step from ``a`` that lowers the objective even if K is rounded, and the change of the image.

        The change of the image gives s·K s without that rounding error. If the full step s does not reach
        its predicted decrease, the share of it is taken that minimises J(a) + share · linear + share² ½ s·K s.
        This is an upper bound on J, because the other terms are convex.
        """
        change = self.image_change(block, result.a - a)
        if not self.rounded_K:
            return result, change
        curvature = scale * self.group.sum_(squares(change)).double()
        if result.group > 1:  # the columns of a group move together
            curvature = curvature.unflatten(0, (-1, result.group)).mean(1).repeat_interleave(result.group)
        good = result.linear + 0.5 * curvature <= ACCEPTED_SHARE * result.change
        share = torch.where(good, 1.0, (-result.linear / curvature).clamp(0, 1).nan_to_num(0.0))
        decrease = share * (result.linear + 0.5 * share * curvature)
        share = share.to(a.dtype)
        point = torch.where(good, result.a, torch.lerp(a, result.a, share))
        return replace(result, a=point, change=decrease.clamp(max=0)), change * share


def solve_bytes(b: int, t: int, itemsize: int, momentum: bool = False) -> int:
    """Return the bytes that the solve of a block of b rows and t columns needs, including its kernel matrix."""
    matrices = SOLVE_MATRICES + momentum + (TWO_FACTOR_MATRICES if t == 2 else 0)
    return itemsize * (matrices * b * b + SOLVE_VECTORS * b * t)


def gap_bytes(rows: int, columns: int) -> int:
    """Return the bytes that the terms of the gap need for predictions of this size."""
    return 8 * GAP_VECTORS * rows * columns


AddProduct = Callable[[Rows, Rows, Tensor, Tensor], object]  # x (n, d), z (k, d), v (k, t), out (n, t)
BLOCK_TILE = 256  # rows of the kernel matrix of a block that a thread computes
ONE_THREAD_ROWS = 2_048  # the operations of a smaller problem, in one block, are as large as its kernel matrix


class ExactState(State):
    """α and f = Kα of all rows, which a step updates in tiles of the kernel matrix.

    The kernel has the constant of an intercept; ``add_product(x, z, v, out)`` adds k(x, z) v to ``out``, in tiles. In a
    group each process computes the kernel of its part of the rows with others.
    """

    exact = True

    def __init__(
        self,
        x: Rows,
        t: int,
        kernel: KernelFunction,
        add_product: AddProduct,
        budget: int = DEFAULT_BUDGET,  # bytes of scratch space for a tile
        kept_rows: int = 0,  # rows of the kernel matrix that are kept between steps, in host memory
        landmarks: int = 0,  # rows from which the preconditioner of conjugate gradients is made
        group: Group = ALONE,
        # Whether steps are products with the whole kernel matrix, as those of conjugate gradients are. In a group with
        # cached rows, each process then adds its share of a product, in which no kernel entry is computed twice.
        whole_products: bool = False,
    ) -> None:
        super().__init__(x, t, len(x), group)
        own = group.part(len(x))
        self.own = x.part(own)
        self.kernel, self.add_product, self.budget, self.landmarks = kernel, add_product, budget, landmarks
        self.small_operations = x.device.type == "cpu" and len(x) > ONE_THREAD_ROWS
        self.adds_shares = whole_products and group.size > 1
        columns = None if self.adds_shares else own
        self.kept = KernelCache(x, kernel, kept_rows, budget, columns) if kept_rows else None

    @property
    def scratch_bytes(self) -> int:
        return self.budget + 2 * self.image.numel() * self.image.element_size()

    @property
    def never_waits(self) -> bool:
        return super().never_waits and self.x.index_device.type == self.alpha.device.type

    @property
    def digest(self) -> tuple[float, ...]:
        return self.kernel.digest()

    def open(self, rows: Tensor, x: Tensor | None = None, prepared: PreparedBlock | None = None) -> OpenBlock:
        x = self.x[rows] if x is None else x
        return OpenBlock(rows, self._kernel_of_block(x), take(self.image, rows), take(self.alpha, rows), x)

    def _kernel_of_block(self, x: Tensor) -> Tensor:  # (b, d) -> (b, b)
        """Return the kernel matrix of some rows; threads of a CPU compute tiles of it, as they compute other rows."""
        if not self.small_operations or len(x) < 2 * BLOCK_TILE:
            return self.kernel(x, x)
        K = x.new_empty(len(x), len(x))

        def fill(first: int) -> None:
            tile = slice(first, first + BLOCK_TILE)
            K[tile] = self.kernel(x[tile], x)

        share(fill, range(0, len(x), BLOCK_TILE))
        return K

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

    def prediction_errors(self, alpha: Tensor, image: Tensor, rows: Tensor) -> Tensor:  # (k,) -> (k, t)
        f = alpha.new_zeros(len(rows), alpha.shape[1], dtype=torch.float64)
        self._add_wide(self.wide.some(rows), alpha, f)
        return f.neg_().add_(take(image, rows))

    def squared_error(self, alpha: Tensor, image: Tensor, exact: Tensor | None = None) -> Tensor:  # (t,)
        return alpha.new_zeros(alpha.shape[1], dtype=torch.float64)

    def squared_norm(self, image: Tensor, products: Tensor) -> Tensor:  # (t,)
        return products

    @cached_property
    def largest_kernel(self) -> float:
        return float(self.diagonal().max())

    def precise_image(self, alpha: Tensor) -> Tensor:
        image = alpha.new_zeros(len(self.own), alpha.shape[1], dtype=torch.float64)
        self._add_wide(self.wide.part(self.group.part(len(self.x))), alpha, image)
        return self.group.whole(image, len(self.x))

    def _add_wide(self, x: Rows, alpha: Tensor, out: Tensor) -> None:  # (k, d), (n, t), (k, t)
        """Add k(x, all rows) α to ``out``, in float64. Rows whose α is 0 are left out where they are many."""
        z, moved = self.wide, alpha.any(1).nonzero()[:, 0]
        if 2 * len(moved) < len(alpha):
            z, alpha = z.some(moved), alpha[moved]
        for part in chunks(len(z), 4 * alpha.shape[1]):
            self.add_product(x, z.part(part), alpha[part].double(), out)

    @cached_property
    def _common_rows(self) -> int:
        """The number of kernel rows that every process can keep; they may have different amounts of memory."""
        return min(self.group.collect(len(self.kept.row) if self.kept else 0))

    def predictions(self, *images: Tensor) -> Iterator[tuple[slice, Tensor]]:
        row_bytes = gap_bytes(1, sum(image.shape[1] for image in images))
        budget = tile_bytes(self.budget, self.x.device)
        for tile in tiles(len(self.x), row_bytes, max(budget, row_bytes), "predictions"):
            yield tile, torch.cat([image[tile] for image in images], dim=1)
