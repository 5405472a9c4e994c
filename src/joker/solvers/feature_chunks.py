"""The features of a block, computed in chunks, and the bytes that a step then needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import torch
from torch import Tensor

from joker.ops.bfloat16_gram import TENSOR_CORE_MULTIPLE, low_gram
from joker.ops.triton_support import round_up
from joker.runtime.threads import share, thread_count

SMALLEST_CHUNK = 256  # features
PARTS_OF_A_THREAD = 2  # parts of a block for each thread of a CPU: one that waits holds up little
MOST_SLICES = 8  # bfloat16 slices of a chunk: with more of them their matrix products take longer
# Sizes b · m of a block above which it pays to prepare the next block while one is solved, for one column and for
# several, whose solve takes longer. Chosen by measurement on a GPU.
AHEAD_ENTRIES_ONE_COLUMN, AHEAD_ENTRIES = 10_000_000, 4_000_000
SECOND_STREAM_BYTES = 2**25  # workspace that cuBLAS keeps for a second stream
SOLVE_MATRICES = 5  # (b, b) matrices of a block: K, and those of a factorisation or of ADMM
TWO_FACTOR_MATRICES = 3  # further (b, b) matrices where two columns with a λ each are factorised at once
SOLVE_VECTORS = 40  # (b, t) matrices: all vectors of the block solver
GAP_VECTORS = 10  # float64 numbers that the gap needs for each prediction


class FeatureMap(Protocol):
    """A map ψ from d inputs to m features."""

    @property
    def n_features(self) -> int:
        """The number of features m."""

    def __call__(self, x: Tensor, /) -> Tensor:  # (b, d) -> (b, m)
        """Return ψ of each row."""

    def fill(self, x: Tensor, out: Tensor, /) -> Tensor:  # (b, d), (b, m) -> (b, m)
        """Return ψ of each row, in ``out``."""

    def work_bytes(self, b: int, /) -> int:
        """Return the bytes that a call on b rows holds at its peak."""

    def apply(self, x: Tensor, theta: Tensor, /) -> Tensor:  # (b, d), (m, t) -> (b, t)
        """Return ψ(x) θ."""

    def apply_bytes(self, b: int, t: int, /) -> int:
        """Return the bytes that `apply` on b rows and t columns holds at its peak, beside its result."""

    def mixed(self, x: Tensor, out: Tensor | None = None, /) -> tuple[Tensor, Tensor]:  # (b, d) -> (b, m), and padded
        """Return ψ of each row, and the same in bfloat16, padded with rows and columns of zeros."""

    def slice(self, start: int, stop: int, /) -> Self:
        """Return the map of the features ``start`` to ``stop`` alone."""


@dataclass(frozen=True, eq=False)
class FeatureChunk:
    """Some of the features of a block, computed together."""

    at: slice  # the features of the chunk
    features: FeatureMap  # the map of these features alone
    low: int | None  # features in a bfloat16 slice, from which K is computed; None computes K in full precision

    @cached_property
    def slices(self) -> list[tuple[slice, FeatureMap]]:
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
        rows = -(-b // (PARTS_OF_A_THREAD * thread_count()))
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
    features: FeatureMap, b: int, d: int, m: int, t: int, budget: int, *, mixed: bool, ahead: bool, itemsize: int
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


def feature_step_bytes(chunk: FeatureMap, b: int, d: int, m: int, t: int, chunking: Chunking, itemsize: int) -> int:
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


def solve_bytes(b: int, t: int, itemsize: int, momentum: bool = False) -> int:
    """Return the bytes that the solve of a block of b rows and t columns needs, including its kernel matrix."""
    matrices = SOLVE_MATRICES + momentum + (TWO_FACTOR_MATRICES if t == 2 else 0)
    return itemsize * (matrices * b * b + SOLVE_VECTORS * b * t)


def gap_bytes(rows: int, columns: int) -> int:
    """Return the bytes that the terms of the gap need for predictions of this size."""
    return 8 * GAP_VECTORS * rows * columns
