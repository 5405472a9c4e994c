"""The state of a solve: α and its image, from which the predictions follow.

The image is linear in α. With the kernel itself it is the prediction f = Kα of every
row; with features it is θ = Ψᵀα. The two kinds of solve differ in their state only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from joker.data import Rows
from joker.distributed import ALONE, Group
from joker.ops.tall_skinny import squares
from joker.solvers.block.result import BlockResult
from joker.solvers.block_buffers import BlockBuffers, PreparedBlock
from joker.solvers.saved_tensors import SavedTensors

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
    rounded_K = False
    """Whether the K of an open block is less precise than the image."""

    small_operations = False
    """Whether the operations of a step are too small to be shared among threads, except for its tiles."""

    group: Group = ALONE
    """The processes that solve the problem together. Each of them has all of α."""

    buffers: BlockBuffers | None = None
    """Where the next block is prepared while one is solved; None where blocks are not prepared in advance."""

    def __init__(self, x: Rows, t: int, image_rows: int, group: Group = ALONE) -> None:
        self.x, self.group = x, group  # (n, d)
        self.alpha = torch.zeros(len(x), t, dtype=x.dtype, device=x.device)
        self.image = torch.zeros(image_rows, t, dtype=x.dtype, device=x.device)

    @abstractmethod
    def open(
        self, rows: Tensor, x: Tensor | None = None, prepared: PreparedBlock | None = None
    ) -> OpenBlock:  # rows (b,), x (b, d)
        """Return the kernel matrix, predictions and α of a block, from its inputs ``x`` or its ``prepared`` tensors."""

    @abstractmethod
    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        """Return the change of the image when α of the block changes by ``move`` (b, t)."""

    @abstractmethod
    def image_of(self, alpha: Tensor) -> Tensor:
        """Return the image of any α (n, t), computed anew: without the rounding errors of many small steps."""

    @abstractmethod
    def predictions(self, *images: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield the predictions of all rows for some images, side by side, one tile of rows at a time."""

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
        self.alpha.lerp_(alpha, weight)
        self.image.lerp_(image, weight)

    def move(self, alpha_change: Tensor, image_change: Tensor) -> None:  # (n, t)
        """Move α, and its image by the change that belongs to it."""
        self.alpha += alpha_change
        self.image += image_change

    def reset(self, alpha: Tensor, image: Tensor | None = None) -> None:  # (n, t)
        """Set α, and its image, which is computed anew where it is not given."""
        self.alpha.copy_(alpha)
        self.image.copy_(self.image_of(self.alpha) if image is None else image)

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
