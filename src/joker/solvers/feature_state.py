"""The state of a solve with random features: the image of α is θ = Ψᵀα."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from joker.data import Rows
from joker.ops.bfloat16_gram import low_gram, rounds
from joker.ops.rows import take
from joker.ops.tall_skinny import times, transposed_times
from joker.ops.triton_support import round_up
from joker.runtime import DEFAULT_BUDGET, tile_bytes, tiles
from joker.solvers.feature_chunks import (
    WHOLE,
    Chunking,
    FeatureChunk,
    FeatureMap,
    choose_chunking,
    cut,
    feature_step_bytes,
    gap_bytes,
    two_blocks_bytes,
)
from joker.solvers.state import OpenBlock, Ready, State


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
            choose_chunking(features, block_size, d, m, t, budget, mixed=not self.exact, ahead=ahead, itemsize=itemsize)
        )

    def part(self, how: Chunking) -> None:
        """Make the features of a block in this way from now on."""
        m, size = self.features.n_features, min(how.size, self.features.n_features)
        self.how = replace(how, size=size, low=None if self.exact else min(how.low or size, size))
        slices = self.how.low or size
        self.parts = [FeatureChunk(at, self.features.slice(at.start, at.stop), slices) for at in cut(m, size)]
        if len(self.parts) == 1:
            self.parts = [FeatureChunk(slice(0, m), self.features, slices)]
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
        return self.budget - (two_blocks_bytes(self.block_size, m, itemsize) if self.ahead else 0)

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

    def _gram_and_features(self, part: FeatureChunk, x: Tensor, psi: Tensor | None = None) -> tuple[Tensor, Tensor]:
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
            return max(self.features.apply_bytes(b, t) + b * self.x.row_bytes, gap_bytes(b, t))

        budget = tile_bytes(max(self.tile_budget, work(1)), image.device)
        for tile in tiles(len(self.x), work, max(budget, work(1)), "features"):
            yield tile, self.features.apply(self.x[tile], image)

    def _tiles(self) -> Iterator[slice]:
        row_bytes = self.features.work_bytes(1) + self.x.row_bytes
        budget = max(tile_bytes(self.tile_budget, self.x.device), min(row_bytes, self.budget))
        return tiles(len(self.x), row_bytes, budget, "features")
