"""The state of a solve with random features: the image of α is θ = Ψᵀα."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from joker.data import Rows
from joker.distributed import ALONE, Group
from joker.errors import InvalidParameter
from joker.ops.bfloat16_gram import rounds
from joker.ops.rows import take
from joker.ops.tall_skinny import times, transposed_times
from joker.runtime import DEFAULT_BUDGET, tile_bytes, tiles
from joker.runtime.threads import share, thread_count
from joker.solvers.block_buffers import BlockBuffers, PreparedBlock
from joker.solvers.feature_chunks import (
    Chunking,
    FeatureChunk,
    FeatureMap,
    choose_chunking,
    chunk_slices,
    feature_step_bytes,
    gap_bytes,
    two_blocks_bytes,
)
from joker.solvers.state import OpenBlock, State


class FeatureState(State):
    """α and θ = Ψᵀα; the features of a block are computed once a step.

    Parameters
    ----------
    x : Rows
        The rows of inputs.
    t : int
        The number of columns.
    features : FeatureMap
        The map ψ.
    budget : int
        Bytes of scratch space. If the features of a block do not fit, they are computed in chunks, and a second
        time to move θ. If those of two blocks fit, on a GPU, the next block is prepared while one is solved.
    block_size : int
        The largest number of rows of a block.
    mixed : bool
        Whether K = ΨΨᵀ may be computed by low-precision tensor cores. θ and the predictions are not.
    group : Group
        The processes that solve the problem together. Each has its part of the features and of θ; K and f of a block
        are sums over the processes.
    """

    def __init__(
        self,
        x: Rows,
        t: int,
        features: FeatureMap,
        budget: int = DEFAULT_BUDGET,
        block_size: int = 1,
        mixed: bool = False,
        group: Group = ALONE,
    ) -> None:
        self.m = features.n_features
        if group.size > 1:
            own = group.part(self.m)
            if self.m < group.size:
                raise InvalidParameter(
                    f"n_features must be at least the number of processes, {group.size}; got {self.m}. "
                    "Use fewer processes."
                )
            features = features.slice(own.start, own.stop)
        super().__init__(x, t, features.n_features, group)
        self.features, self.budget, self.block_size = features, budget, block_size
        m, d, itemsize = features.n_features, x.shape[1], x.dtype.itemsize
        self.small_operations = x.device.type == "cpu"
        self.rounded_K = mixed and rounds(x.dtype, x.device, m)
        ahead = x.device.type == "cuda" and len(x) > block_size and group.size == 1
        sizes = (block_size, d, m, t, budget)
        self.use(choose_chunking(features, *sizes, mixed=self.rounded_K, ahead=ahead, itemsize=itemsize))

    def use(self, chunking: Chunking) -> None:
        """Compute the features of a block with this chunking from now on."""
        m, size = self.features.n_features, min(chunking.size, self.features.n_features)
        low = min(chunking.low or size, size) if self.rounded_K else None
        self.chunking = replace(chunking, size=size, low=low)
        maps = [
            (at, self.features if size == m else self.features.slice(at.start, at.stop)) for at in chunk_slices(m, size)
        ]
        self.chunks = [FeatureChunk(at, features, low) for at, features in maps]
        ahead = chunking.ahead and len(self.chunks) == 1
        compute = self.chunks[0].gram_and_features
        self.buffers = BlockBuffers(self.block_size, m, self.alpha, compute) if ahead else None

    @property
    def whole_shape(self) -> tuple[int, int]:
        return self.m, self.image.shape[1]

    def whole_image(self, image: Tensor) -> Tensor:
        return self.group.whole(image, self.m)

    def own_image(self, image: Tensor) -> Tensor:
        return image[self.group.part(self.m)]

    def shrink(self) -> bool:
        smaller = self.chunking.smaller()
        if smaller is not None:
            self.use(smaller)
        return smaller is not None

    @property
    def scratch_bytes(self) -> int:
        (m, t), d = self.image.shape, self.x.shape[1]
        chunk, itemsize = self.chunks[0].features, self.alpha.element_size()
        return feature_step_bytes(chunk, self.block_size, d, m, t, self.chunking, itemsize)

    @property
    def tile_budget(self) -> int:
        """Bytes of scratch space for tiles, without the buffers of prepared blocks."""
        m, itemsize = self.features.n_features, self.alpha.element_size()
        return self.budget - (two_blocks_bytes(self.block_size, m, itemsize) if self.buffers else 0)

    def open(self, rows: Tensor, x: Tensor | None = None, prepared: PreparedBlock | None = None) -> OpenBlock:
        a = take(self.alpha, rows)
        if prepared is None:
            x = self.x[rows] if x is None else x
            if len(self.chunks) > 1:
                return OpenBlock(rows, *self._summed(*self._open_chunks(x)), a, x)
            prepared = PreparedBlock(*self.chunks[0].gram_and_features(x))
        return OpenBlock(rows, *self._summed(prepared.K, times(prepared.psi, self.image)), a, prepared.psi)

    def _summed(self, K: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:  # (b, b), (b, t)
        """Return the sums of K and f over the processes, which are sent together."""
        if self.group.size == 1:
            return K, f
        both = self.group.sum_(torch.cat([K, f], dim=1))
        return both[:, : len(K)].contiguous(), both[:, len(K) :].contiguous()

    def _open_chunks(self, x: Tensor) -> tuple[Tensor, Tensor]:  # (b, d) -> (b, b), (b, t)
        """Return K and f. All chunks are computed in one buffer, because a new one for each would fragment memory."""
        buffer, K = x.new_empty(len(x), self.chunking.size), x.new_zeros(len(x), len(x))
        f = x.new_zeros(len(x), self.image.shape[1])
        for chunk in self.chunks:
            K_chunk, psi = chunk.gram_and_features(x, buffer[:, : chunk.features.n_features])
            K += K_chunk
            f += times(psi, self.image[chunk.at])
        return K, f

    def image_change(self, block: OpenBlock, move: Tensor) -> Tensor:
        if len(self.chunks) == 1:
            return transposed_times(block.basis, move)
        change = move.new_empty(self.image.shape)
        buffer = move.new_empty(len(move), self.chunking.size)
        for chunk in self.chunks:
            psi = chunk.features.fill(block.basis, buffer[:, : chunk.features.n_features])
            change[chunk.at] = transposed_times(psi, move)
        return change

    def image_of(self, alpha: Tensor) -> Tensor:
        image = alpha.new_zeros(self.features.n_features, alpha.shape[1])
        row_bytes = self.features.work_bytes(1) + self.x.row_bytes
        budget = max(tile_bytes(self.tile_budget, self.x.device), min(row_bytes, self.budget))
        # All processes must read the same tiles of rows that they share, but each has its own number of features.
        parts = list(tiles(len(self.x), row_bytes, budget, "features"))
        for tile in self.group.decide(parts) if self.x.shared else parts:
            image += self.features(self.x[tile]).T @ alpha[tile]
        return image

    def predictions(self, *images: Tensor) -> Iterator[tuple[slice, Tensor]]:
        image = torch.cat(images, dim=1)
        t = image.shape[1]

        def work_bytes(b: int) -> int:
            return max(self.features.apply_bytes(b, t) + b * self.x.row_bytes, gap_bytes(b, t))

        budget = max(tile_bytes(max(self.tile_budget, work_bytes(1)), image.device), work_bytes(1))
        together = 1 if image.is_cuda or self.x.shared else max(1, min(thread_count(), self.tile_budget // budget))
        waiting: list[slice] = []
        # All processes must have the same tiles, but each has its own number of features.
        for tile in self.group.decide(list(tiles(len(self.x), work_bytes, budget, "features"))):
            waiting.append(tile)
            if len(waiting) == together:
                yield from self._predict_tiles(waiting, image)
                waiting = []
        yield from self._predict_tiles(waiting, image)

    def _predict_tiles(self, parts: list[slice], image: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield the predictions of some tiles, which threads of the CPU compute at the same time."""
        found: dict[int, Tensor] = {}

        def predict(tile: slice) -> None:
            found[tile.start] = self.features.apply(self.x[tile], image)

        if image.is_cuda:
            yield from ((tile, self.group.sum_(self.features.apply(self.x[tile], image))) for tile in parts)
            return
        share(predict, parts)
        yield from ((tile, self.group.sum_(found.pop(tile.start))) for tile in parts)
