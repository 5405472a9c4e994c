"""Where a solve stands: α, and its image, from which predictions follow.

The image is linear in α. With the kernel itself it is the prediction f = Kα of every
row; with features it is θ = Ψᵀα. Exact and inexact solves differ here and nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from joker.data import Rows
from joker.ops.tall_skinny import squares
from joker.solvers.block.result import BlockResult

SAMPLE = 16  # rows
KEPT = 0.5  # share of the decrease promised by an inexact K from which on a step is taken as it is


@dataclass(frozen=True)
class Ready:
    """What a block needs that no step changes, so that it can be made ahead."""

    K: Tensor  # (b, b)
    inside: Tensor  # what moves the image: (b, d) rows or (b, m) features


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

    exact = True
    """Whether the K of an open block is as good as the image."""

    ahead = False
    """Whether there is room to make the next block ready while one is solved."""

    def __init__(self, x: Rows, t: int, image_rows: int) -> None:
        self.x = x  # (n, d)
        self.alpha = torch.zeros(len(x), t, dtype=x.dtype, device=x.device)
        self.image = torch.zeros(image_rows, t, dtype=x.dtype, device=x.device)

    @abstractmethod
    def open(
        self,
        rows: Tensor,  # (b,)
        x: Tensor | None = None,  # (b, d)
        ready: Ready | None = None,
    ) -> OpenBlock:
        """The kernel, prediction and α of a block; ``x`` are its inputs, or ``ready`` what was made of them before."""

    @abstractmethod
    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        """What the image gains when α of the block moves by ``move`` (b, t)."""

    def commit(self, block: OpenBlock, found: BlockResult) -> BlockResult:
        """Move α of the block and the image to the point found, or towards it; return what was done."""
        found, change = self.settle(block, block.a, found)
        self.image += change
        self.alpha.index_copy_(0, block.rows, found.a)
        return found

    def settle(
        self,
        block: OpenBlock,
        a: Tensor,  # (b, t)
        found: BlockResult,
        shrink: Tensor | float = 1.0,
    ) -> tuple[BlockResult, Tensor]:
        """The step from ``a`` that lowers the objective also where K was inexact, and the change of the image.

        The change of the image gives s·K s as it should be, for ``shrink`` times K. If the step s has lost
        its promise, the share of it is taken that minimises J(a) + share · linear + share² ½ s·K s: an upper
        bound, as the other terms are convex.
        """
        move = found.a - a
        change = self.image_change(block, move)
        if self.exact:
            return found, change
        curvature = shrink * squares(change).double()
        good = found.linear + 0.5 * curvature <= KEPT * found.change
        share = torch.where(good, 1.0, (-found.linear / curvature).clamp(0, 1).nan_to_num(0.0))
        true = share * (found.linear + 0.5 * share * curvature)
        share = share.to(a.dtype)
        point = torch.where(good, found.a, torch.lerp(a, found.a, share))
        return replace(found, a=point, change=true.clamp(max=0)), change * share

    @property
    @abstractmethod
    def scratch_bytes(self) -> int:
        """About how many bytes a step takes beside the state."""

    def shrink(self) -> bool:
        """Take less scratch space for a block from now on; False if there is no way."""
        return False

    def take_room(self) -> None:
        """Take the room for two blocks, of which one is solved and the other made ready; keep it where it is there."""
        raise NotImplementedError

    def make_ready(self, x: Tensor, place: int) -> None:  # (b, d)
        """Make a block with these inputs ready, in one of two places."""
        raise NotImplementedError

    def made(self, place: int, b: int) -> Ready:
        """The block of b rows that was made there."""
        raise NotImplementedError

    def let_go(self) -> None:  # noqa: B027
        """Give up the room, until it is taken again."""

    @abstractmethod
    def image_of(self, alpha: Tensor) -> Tensor:
        """The image of any α (n, t), computed afresh: without the rounding of many small steps."""

    def sample(self) -> Tensor:
        """The kernel among the first few rows: it tells kernels, bandwidths and draws of features apart."""
        rows = torch.arange(min(len(self.x), SAMPLE), device=self.x.device)
        return self.open(rows).K

    @abstractmethod
    def predictions(self, *images: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """The predictions of all rows that images (their rows, any columns) stand for, side by side, tile by tile."""

    def state_dict(self) -> dict[str, Tensor]:
        """α and its image."""
        return {"alpha": self.alpha.clone(), "image": self.image.clone()}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Take over a saved state."""
        self.alpha.copy_(saved["alpha"])
        self.image.copy_(saved["image"])
