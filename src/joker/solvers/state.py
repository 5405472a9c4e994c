"""Where a solve stands: α, and its image, from which predictions follow.

The image is linear in α. With the kernel itself it is the prediction f = Kα of every
row; with features it is θ = Ψᵀα. Exact and inexact solves differ here and nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from joker.data import Rows, TensorRows
from joker.ops.bfloat16_gram import low_gram, rounds
from joker.ops.rows import take
from joker.ops.tall_skinny import squares, times, transposed_times
from joker.ops.triton_support import round_up
from joker.runtime import DEFAULT_BUDGET, tile_bytes, tiles
from joker.solvers.block.result import BlockResult
from joker.solvers.feature_chunks import WHOLE, Cut, FeatureMap, Part, cut, feature_step_bytes, room_bytes, step_parts
from joker.solvers.footprint import look_bytes

SAMPLE = 16  # rows
KEPT = 0.5  # share of the decrease promised by an inexact K from which on a step is taken as it is


class Gram(Protocol):
    """A kernel: k(x, z) of every pair of rows."""

    def __call__(self, x: Tensor, z: Tensor, /) -> Tensor:  # (n, d), (k, d) -> (n, k)
        """Return the kernel matrix."""
        ...


AddProduct = Callable[[Rows, Rows, Tensor, Tensor], object]  # x, z, v, out: out += k(x, z) v


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
        self.alpha.index_copy_(0, block.rows, found.x)
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
        move = found.x - a
        change = self.image_change(block, move)
        if self.exact:
            return found, change
        curvature = shrink * squares(change).double()
        good = found.linear + 0.5 * curvature <= KEPT * found.change
        share = torch.where(good, 1.0, (-found.linear / curvature).clamp(0, 1).nan_to_num(0.0))
        true = share * (found.linear + 0.5 * share * curvature)
        share = share.to(a.dtype)
        x = torch.where(good, found.x, torch.lerp(a, found.x, share))
        return replace(found, x=x, change=true.clamp(max=0)), change * share

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


class ExactState(State):
    """With the kernel itself: f = Kα is kept for all rows, and updated in tiles."""

    def __init__(self, x: Rows, t: int, gram: Gram, add_product: AddProduct, budget: int = DEFAULT_BUDGET) -> None:
        super().__init__(x, t, len(x))
        self.gram, self.add_product, self.budget = gram, add_product, budget

    @property
    def scratch_bytes(self) -> int:
        return self.budget + 2 * self.image.numel() * self.image.element_size()

    def open(self, rows: Tensor, x: Tensor | None = None, ready: Ready | None = None) -> OpenBlock:
        x = self.x[rows] if x is None else x
        return OpenBlock(rows, self.gram(x, x), take(self.image, rows), take(self.alpha, rows), x)

    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        change = torch.zeros_like(self.image)
        self.add_product(self.x, TensorRows(block.inside), move, change)
        return change

    def image_of(self, alpha: Tensor) -> Tensor:
        image = torch.zeros_like(alpha)
        self.add_product(self.x, self.x, alpha, image)
        return image

    def predictions(self, *images: Tensor) -> Iterator[tuple[slice, Tensor]]:
        row_bytes = look_bytes(1, sum(image.shape[1] for image in images))
        budget = tile_bytes(self.budget, self.x.device)
        for tile in tiles(len(self.x), row_bytes, max(budget, row_bytes), "predictions"):
            yield tile, torch.cat([image[tile] for image in images], dim=1)


class FeatureState(State):
    """With random features: θ = Ψᵀα; the features of a block are computed once a step.

    Parameters
    ----------
    x : Rows
        The rows.
    t : int
        Columns.
    features : FeatureMap
        The map ψ.
    budget : int
        Bytes of scratch space. Where the features of a block do not fit, they are made in
        parts, and made again to move θ; where those of two blocks do, on a card, the next one's are made ahead.
    block_size : int
        Rows of a block, at most.
    mixed : bool
        Whether K = ΨΨᵀ may come from low-precision tensor cores. θ and the predictions do not.
    """

    def __init__(
        self,
        x: Rows,
        t: int,
        features: FeatureMap,
        budget: int = DEFAULT_BUDGET,
        block_size: int = 1,
        mixed: bool = False,
    ) -> None:
        super().__init__(x, t, features.n_features)
        self.features, self.budget, self.block_size = features, budget, block_size
        self.exact = not (mixed and rounds(x.dtype, x.device, features.n_features))
        m, d, itemsize = features.n_features, x.shape[1], x.dtype.itemsize
        ahead = x.device.type == "cuda" and len(x) > block_size
        self.part(
            step_parts(features, block_size, d, m, t, budget, mixed=not self.exact, ahead=ahead, itemsize=itemsize)
        )

    def part(self, how: Cut) -> None:
        """Make the features of a block in this way from now on."""
        m, size = self.features.n_features, min(how.size, self.features.n_features)
        self.how = replace(how, size=size, low=None if self.exact else min(how.low or size, size))
        slices = self.how.low or size
        self.parts = [Part(at, self.features.slice(at.start, at.stop), slices) for at in cut(m, size)]
        if len(self.parts) == 1:
            self.parts = [Part(slice(0, m), self.features, slices)]
        self.ahead = how.ahead and len(self.parts) == 1
        self._room: Ready | None = None

    def take_room(self) -> None:
        if self._room is None:  # else captured steps know where it is
            b, m, new = self.block_size, self.features.n_features, self.alpha.new_empty
            self._room = Ready(new(2, b, round_up(b, WHOLE)), new(2, b, round_up(m, WHOLE)))

    def make_ready(self, x: Tensor, place: int) -> None:  # (b, d)
        there = self.made(place, len(x))
        there.K.copy_(self._gram_and_features(self.parts[0], x, there.inside)[0])

    def made(self, place: int, b: int) -> Ready:
        assert self._room is not None
        return Ready(self._room.K[place, :b, :b], self._room.inside[place, :b, : self.features.n_features])

    def let_go(self) -> None:
        self._room = None

    @property
    def scratch_bytes(self) -> int:
        (m, t), d = self.image.shape, self.x.shape[1]
        part, itemsize = self.parts[0].features, self.alpha.element_size()
        return feature_step_bytes(part, self.block_size, d, m, t, self.how, itemsize)

    @property
    def tile_budget(self) -> int:
        """Bytes of scratch space for tiles, beside the room for blocks made ahead."""
        m, itemsize = self.features.n_features, self.alpha.element_size()
        return self.budget - (room_bytes(self.block_size, m, itemsize) if self.ahead else 0)

    def shrink(self) -> bool:
        fewer = self.how.smaller()
        if fewer is not None:
            self.part(fewer)
        return fewer is not None

    def open(self, rows: Tensor, x: Tensor | None = None, ready: Ready | None = None) -> OpenBlock:
        a = take(self.alpha, rows)
        if ready is None:
            x = self.x[rows] if x is None else x
            if len(self.parts) > 1:
                return OpenBlock(rows, *self._open_parts(x), a, x)
            ready = Ready(*self._gram_and_features(self.parts[0], x))
        return OpenBlock(rows, ready.K, times(ready.inside, self.image), a, ready.inside)

    def _open_parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """K and f, with the features of one part at a time in one room: new room for each would tear memory apart."""
        room, K = x.new_empty(len(x), self.how.size), x.new_zeros(len(x), len(x))
        f = x.new_zeros(len(x), self.image.shape[1])
        for part in self.parts:
            more, psi = self._gram_and_features(part, x, room[:, : part.features.n_features])
            K += more
            f += times(psi, self.image[part.at])
        return K, f

    def _gram_and_features(self, part: Part, x: Tensor, psi: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """K of a part of the features, and those, in ``psi`` where it is given."""
        if self.exact:
            psi = part.features(x) if psi is None else part.features.fill(x, psi)
            return psi @ psi.T, psi
        if len(part.slices) == 1:
            psi, low = part.features.mixed(x, psi)
            return low_gram(low, len(x)), psi
        m, K = part.features.n_features, x.new_zeros(len(x), len(x))
        psi = x.new_empty(len(x), round_up(m, WHOLE))[:, :m] if psi is None else psi
        for at, features in part.slices:
            K += low_gram(features.mixed(x, psi[:, at])[1], len(x))
        return K, psi

    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        if len(self.parts) == 1:
            return transposed_times(block.inside, move)
        change = move.new_empty(self.image.shape)
        room = move.new_empty(len(move), self.how.size)
        for part in self.parts:
            psi = part.features.fill(block.inside, room[:, : part.features.n_features])
            change[part.at] = transposed_times(psi, move)
        return change

    def image_of(self, alpha: Tensor) -> Tensor:
        image = alpha.new_zeros(self.features.n_features, alpha.shape[1])
        for tile in self._tiles():
            image += self.features(self.x[tile]).T @ alpha[tile]
        return image

    def predictions(self, *images: Tensor) -> Iterator[tuple[slice, Tensor]]:
        image = torch.cat(images, dim=1)
        t = image.shape[1]

        def work(b: int) -> int:
            return max(self.features.apply_bytes(b, t) + b * self.x.row_bytes, look_bytes(b, t))

        budget = tile_bytes(max(self.tile_budget, work(1)), image.device)
        for tile in tiles(len(self.x), work, max(budget, work(1)), "features"):
            yield tile, self.features.apply(self.x[tile], image)

    def _tiles(self) -> Iterator[slice]:
        row_bytes = self.features.work_bytes(1) + self.x.row_bytes
        budget = max(tile_bytes(self.tile_budget, self.x.device), min(row_bytes, self.budget))
        return tiles(len(self.x), row_bytes, budget, "features")
