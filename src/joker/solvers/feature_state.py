"""The state of a solve with random features: the image of α is θ = Ψᵀα."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import torch
from torch import Tensor

from joker.data import Rows, SparseRows
from joker.distributed import ALONE, Group
from joker.errors import InvalidParameter
from joker.ops.gram import TENSOR_CORE_MULTIPLE, low_gram, rounds
from joker.ops.tall_skinny import times, transposed_times
from joker.ops.triton_support import round_up, take
from joker.runtime import DEFAULT_BUDGET, tile_bytes, tiles
from joker.runtime.devices import share, thread_count
from joker.solvers.state import BlockBuffers, OpenBlock, PreparedBlock, State, gap_bytes, solve_bytes

SMALLEST_CHUNK = 256  # features
PARTS = 8  # of a block on a CPU, whatever the number of threads: the last bits depend on the parts
WIDE_CHUNK = 512  # features that are computed in float64 at a time
CHECKED_PARTS, CHECKED_WIDTH = 4, 16  # parts of θ whose rounding errors are measured, and features in each
LENGTHS = 16  # rows of which the lengths of features are computed
MOST_SLICES = 8  # bfloat16 slices of a chunk: with more of them their matrix products take longer
# Sizes b · m of a block above which it pays to prepare the next block while one is solved, for one column and for
# several, whose solve takes longer. Chosen by measurement on a GPU.
AHEAD_ENTRIES_ONE_COLUMN, AHEAD_ENTRIES = 10_000_000, 4_000_000
SECOND_STREAM_BYTES = 2**25  # workspace that cuBLAS keeps for a second stream


class FeatureFunction(Protocol):
    """A map ψ from d inputs to m features; `joker.features.FeatureMap` says what its members return."""

    @property
    def n_features(self) -> int: ...
    @property
    def constants(self) -> int | None: ...
    def __call__(self, x: Tensor, /) -> Tensor: ...  # (b, d) -> (b, m)
    def fill(self, x: Tensor, out: Tensor, /) -> Tensor: ...  # (b, d), (b, m) -> (b, m)
    def work_bytes(self, b: int, /) -> int: ...
    def apply(self, x: Tensor, theta: Tensor, /) -> Tensor: ...  # (b, d), (m, t) -> (b, t)
    def apply_bytes(self, b: int, t: int, /) -> int: ...
    def mixed(self, x: Tensor, out: Tensor | None = None, /) -> tuple[Tensor, Tensor]: ...  # (b, d) -> (b, m), padded
    def slice(self, start: int, stop: int, /) -> Self: ...
    def to(self, dtype: torch.dtype, device: torch.device, /) -> Self: ...


@dataclass(frozen=True, eq=False)
class FeatureChunk:
    """Some of the features of a block, computed together."""

    at: slice  # the features of the chunk
    features: FeatureFunction  # the map of these features alone
    low: int | None  # features in a bfloat16 slice, from which K is computed; None computes K in full precision

    @cached_property
    def slices(self) -> list[tuple[slice, FeatureFunction]]:
        """The features of each bfloat16 slice, counted from the first of the chunk, and their map."""
        m = self.features.n_features
        return [(at, self.features.slice(at.start, at.stop)) for at in chunk_slices(m, self.low or m)]

    def gram_and_features(
        self, x: Tensor, psi: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:  # (b, d), (b, m) -> (b, b), (b, m)
        """Return K = ΨΨᵀ of the features of the chunk, and the features, in ``psi`` where that is given."""
        if self.low is None:
            if not x.is_cuda:
                return self._shared(x, psi)
            psi = self.features(x) if psi is None else self.features.fill(x, psi)
            return psi @ psi.T, psi
        if len(self.slices) == 1:
            psi, low = self.features.mixed(x, psi)
            return low_gram(low, len(x)), psi
        m, K = self.features.n_features, x.new_zeros(len(x), len(x))
        psi = x.new_empty(len(x), round_up(m, TENSOR_CORE_MULTIPLE))[:, :m] if psi is None else psi
        for at, features in self.slices:
            K += low_gram(features.mixed(x, psi[:, at])[1], len(x))
        return K, psi

    def _shared(self, x: Tensor, psi: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the same on the CPU, where each thread computes some of the rows."""
        b, features = len(x), self.features
        out = x.new_empty(b, features.n_features) if psi is None else psi
        K = x.new_empty(b, b)
        rows = -(-b // PARTS)
        parts = [slice(i, i + rows) for i in range(0, b, rows)]
        share(lambda part: features.fill(x[part], out[part]), parts)
        share(lambda part: torch.mm(out[part], out.T, out=K[part]), parts)
        return K, out


@dataclass(frozen=True)
class Chunking:
    """The way in which the features of a block are computed."""

    size: int  # number of features in a chunk
    low: int | None = None  # number of them that exist in bfloat16 at a time; None for none
    ahead: bool = False  # whether the next block is prepared while one is solved, in a second buffer

    def smaller(self) -> Chunking | None:
        """Return a chunking that needs less memory, or None if there is none.

        First come more bfloat16 slices, which cost only kernel launches; then blocks are no longer prepared in
        advance; then chunks get smaller.
        """
        if self.low is not None and self.low > max(self.size // MOST_SLICES, SMALLEST_CHUNK):
            return replace(self, low=self.low // 2)
        if self.ahead:
            return replace(self, low=None if self.low is None else self.size, ahead=False)
        return replace(self, size=self.size // 2) if self.size > SMALLEST_CHUNK else None


def chunk_slices(m: int, size: int) -> list[slice]:
    """Divide m features into chunks of at most ``size``."""
    return [slice(start, min(start + size, m)) for start in range(0, m, size)]


def choose_chunking(
    features: FeatureFunction, b: int, d: int, m: int, t: int, budget: int, *, mixed: bool, ahead: bool, itemsize: int
) -> Chunking:
    """Return the fastest chunking with which a step fits into ``budget`` bytes, or else the smallest chunking."""
    large = b * m >= (AHEAD_ENTRIES_ONE_COLUMN if t == 1 else AHEAD_ENTRIES)
    chunking = Chunking(m, m if mixed else None, ahead and large)
    while (smaller := chunking.smaller()) is not None:
        chunk = features if chunking.size == m else features.slice(0, chunking.size)
        if feature_step_bytes(chunk, b, d, m, t, chunking, itemsize) <= budget:
            break
        chunking = smaller
    return chunking


def feature_step_bytes(
    chunk: FeatureFunction, b: int, d: int, m: int, t: int, chunking: Chunking, itemsize: int
) -> int:
    """Return the bytes that a step with features needs beside the state; ``chunk`` is the map of one chunk."""
    low = 0 if chunking.low is None else min(chunking.low, chunk.n_features)
    low_bytes = 2 * round_up(b, TENSOR_CORE_MULTIPLE) * round_up(low, TENSOR_CORE_MULTIPLE)
    image_changes = (2 if chunk.n_features == m else 3) * m * t
    # The features of the block that is solved are counted in work_bytes.
    ahead_bytes = two_blocks_bytes(b, m, itemsize) // 2 + SECOND_STREAM_BYTES if chunking.ahead else 0
    numbers = image_changes + b * d
    return chunk.work_bytes(b) + low_bytes + solve_bytes(b, t, itemsize) + itemsize * numbers + ahead_bytes


def two_blocks_bytes(b: int, m: int, itemsize: int) -> int:
    """Return the bytes of the features and kernel matrices of two blocks."""
    return 2 * itemsize * b * (round_up(m, TENSOR_CORE_MULTIPLE) + round_up(b, TENSOR_CORE_MULTIPLE))


class FeatureState(State):
    """α and θ = Ψᵀα; the features of a block are computed once a step.

    If the features of a block do not fit into the budget, they are computed in chunks, and a second time to move θ. If
    those of two blocks fit, on a GPU, the next block is prepared while one is solved. In a group each process has its
    part of the features and of θ; K and f of a block are sums over the processes.
    """

    def __init__(
        self,
        x: Rows,
        t: int,
        features: FeatureFunction,
        budget: int = DEFAULT_BUDGET,  # bytes of scratch space
        block_size: int = 1,  # the largest number of rows of a block
        mixed: bool = False,  # whether tensor cores may compute K = ΨΨᵀ in low precision; θ and predictions are not
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
        self.chunks = [FeatureChunk(slice(0, m), self.features, low)]
        if size < m:
            self.chunks = [
                FeatureChunk(at, self.features.slice(at.start, at.stop), low) for at in chunk_slices(m, size)
            ]
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

    @property
    def sparse_rows(self) -> SparseRows | None:
        x = self.x
        if not isinstance(x, SparseRows) or self.group.size > 1 or self.features.constants is None:
            return None
        return x if x.device.type == "cpu" and x.dtype == torch.float64 else None

    def image_of(self, alpha: Tensor) -> Tensor:
        if (sparse := self.sparse_rows) is not None and alpha.dtype == torch.float64:
            image = torch.from_numpy(sparse.matrix().T @ alpha.numpy())
            return torch.cat([image, alpha.sum(0).expand(self.features.constants or 0, -1)])
        image = alpha.new_zeros(self.features.n_features, alpha.shape[1])
        row_bytes = self.features.work_bytes(1) + self.x.row_bytes
        budget = max(tile_bytes(self.tile_budget, self.x.device), min(row_bytes, self.budget))
        # All processes must read the same tiles of rows that they share, but each has its own number of features.
        parts = list(tiles(len(self.x), row_bytes, budget, "features"))
        for tile in self.group.decide_slices(parts) if self.x.shared else parts:
            image += self.features(self.x[tile]).T @ alpha[tile]
        return image

    def prediction_errors(self, alpha: Tensor, image: Tensor, rows: Tensor) -> Tensor:  # (k,) -> (k, t)
        row_bytes = self.features.apply_bytes(1, image.shape[1]) + 8 * (WIDE_CHUNK + 2 * self.x.shape[1])
        parts = rows.split(max(1, min(len(rows), self.budget // row_bytes)))
        return self.group.sum_(torch.cat([self._errors_of(image, part) for part in parts]))

    def _errors_of(self, image: Tensor, rows: Tensor) -> Tensor:  # (k,) -> (k, t)
        errors = self.features.apply(self.x[rows], image).double()
        x = self.wide[rows.to(self.wide.index_device)]
        for at in chunk_slices(len(image), WIDE_CHUNK):
            errors -= self._wide(at)(x) @ image[at].double()
        return errors

    def squared_error(self, alpha: Tensor, image: Tensor, exact: Tensor | None = None) -> Tensor:  # (t,)
        found = self._squared_error(alpha, image) if exact is None else (exact - image).square().sum(0)
        return self.group.sum_(found)

    def squared_norm(self, image: Tensor, products: Tensor) -> Tensor:  # (t,)
        return self.group.sum_(image.double().square().sum(0))

    @cached_property
    def largest_kernel(self) -> float:
        rows = torch.linspace(0, len(self.x) - 1, LENGTHS, device=self.alpha.device).long()
        if self.alpha.dtype != torch.float64:  # else rounding errors are small, and a pass over all rows is not
            rows = torch.cat([rows, self.farthest[:LENGTHS]])
        if (sparse := self.sparse_rows) is not None:
            some = sparse.matrix()[rows.numpy()]
            return float(some.multiply(some).sum(1).max()) + (self.features.constants or 0)
        return float(self.group.sum_(self.features(self.x[rows]).square().sum(1)).max())

    def precise_image(self, alpha: Tensor) -> Tensor:
        image = torch.zeros_like(self.image, dtype=torch.float64)
        row_bytes = 8 * (4 * WIDE_CHUNK + self.x.shape[1] + alpha.shape[1]) + self.wide.row_bytes
        for tile in self._wide_tiles(row_bytes):
            x, a = self.wide[tile], alpha[tile].double()
            for at in chunk_slices(len(image), WIDE_CHUNK):
                image[at].addmm_(self._wide(at)(x).T, a)
        return image

    def _wide_tiles(self, row_bytes: int) -> list[slice]:
        """Return tiles of rows for computations in float64 that take so many bytes for each row."""
        budget = max(tile_bytes(self.budget, self.alpha.device), row_bytes)
        found = list(tiles(len(self.x), row_bytes, budget, "rows"))
        return self.group.decide_slices(found) if self.x.shared else found

    def _squared_error(self, alpha: Tensor, image: Tensor) -> Tensor:  # (t,)
        """Return ‖Ψᵀα - θ‖² for each column, from some of the features in float64."""
        m = len(image)
        starts = {i * m // CHECKED_PARTS for i in range(CHECKED_PARTS)}
        parts = [slice(start, min(start + CHECKED_WIDTH, m)) for start in sorted(starts)]
        maps = [self._wide(at) for at in parts]
        errors = [-image[at].double() for at in parts]
        row_bytes = 8 * (4 * CHECKED_WIDTH + self.x.shape[1] + alpha.shape[1]) + self.wide.row_bytes
        for tile in self._wide_tiles(row_bytes):
            x, a = self.wide[tile], alpha[tile].double()
            for error, features in zip(errors, maps, strict=True):
                error.addmm_(features(x).T, a)
        checked = sum(len(error) for error in errors)
        return torch.cat(errors).square().sum(0) * (m / checked)

    def _wide(self, at: slice) -> FeatureFunction:
        """Return the map of some features in float64."""
        return self.features.slice(at.start, at.stop).to(torch.float64, self.alpha.device)

    def predictions(self, *images: Tensor) -> Iterator[tuple[slice, Tensor]]:
        image = torch.cat(images, dim=1)
        t = image.shape[1]
        if (sparse := self.sparse_rows) is not None and image.dtype == torch.float64:
            yield from self._predict_sparse(sparse, image)
            return

        def work_bytes(b: int) -> int:
            return max(self.features.apply_bytes(b, t) + b * self.x.row_bytes, gap_bytes(b, t))

        budget = max(tile_bytes(max(self.tile_budget, work_bytes(1)), image.device), work_bytes(1))
        together = 1 if image.is_cuda or self.x.shared else max(1, min(thread_count(), self.tile_budget // budget))
        # All processes must have the same tiles, but each has its own number of features.
        parts = self.group.decide_slices(list(tiles(len(self.x), work_bytes, budget, "features")))
        for i in range(0, len(parts), together):
            yield from self._predict_tiles(parts[i : i + together], image)

    def _predict_sparse(self, x: SparseRows, image: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yield the predictions of tiles of sparse rows, which are not made dense."""
        d, t = x.shape[1], image.shape[1]
        budget = tile_bytes(max(self.tile_budget, gap_bytes(1, t)), image.device)
        for tile in tiles(len(x), lambda b: gap_bytes(b, t), max(budget, gap_bytes(1, t)), "predictions"):
            yield tile, torch.from_numpy(x.matrix(tile) @ image[:d].numpy()) + image[d:].sum(0)

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
