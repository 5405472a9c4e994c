"""Structured random features: frequencies from Hadamard transforms, without a d × m matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from joker.features.base import Blank, FilledMap, ScaleMixture, draw_phase, draw_radii
from joker.ops.structured import project, structured_cosines, structured_fused

ROUNDS = 3  # products HD; with fewer of them the directions are not uniform
SHORTEST_TRANSFORM = 64  # its length p: with a shorter one the mean of ψ(x)·ψ(z) differs from the kernel


@dataclass(frozen=True, eq=False)
class Structured(FilledMap):
    """ψ(x) = √(2/m) cos(R S x + β), where S stacks blocks HD₃ HD₂ HD₁ of order p.

    H is the Hadamard matrix, D diagonal with random signs and R diagonal with the lengths
    of the frequencies. The rows of a block are orthogonal and nearly uniform on the
    sphere. A row costs O(m log p) time, instead of O(m d) for a dense map, and the map stores
    5m numbers. Inputs are padded with zeros to p, a power of two.
    """

    signs: Tensor  # (c, 3, p), the diagonals of c blocks, D₁ first
    radii: Tensor  # (m,), R with the constant that makes the rows of a block unit vectors
    phase: Tensor  # (m,), the phases β
    scale: float  # √(2/m), where m is the number of features of the whole map; the same for a slice
    inputs: int  # number of inputs d ≤ p
    skip: int = 0  # number of rows of the first block before the first feature

    @property
    def n_inputs(self) -> int:
        return self.inputs

    @property
    def n_features(self) -> int:
        return self.radii.shape[0]

    def project(self, x: Tensor) -> Tensor:  # (b, d) -> (b, m)
        """Return R S x, the inner products of the rows with the frequencies."""
        return project(x, self.signs, self.radii, self.skip)

    def fill(self, x: Tensor, out: Tensor | None = None, low: Tensor | None = None) -> Tensor:  # (b, d) -> (b, m)
        return structured_cosines(x, self.signs, self.radii, self.phase, self.scale, self.skip, out=out, low=low)

    def fill_bytes(self, b: int) -> int:
        """Return the bytes that a transform holds, or 0 if a GPU computes the features in place."""
        return 0 if structured_fused(self.signs) else self._transform_bytes(b)

    def slice(self, start: int, stop: int) -> Structured:
        """Return the map of the features ``start`` to ``stop`` alone, with the blocks that they need."""
        p = self.signs.shape[2]
        first, last = (self.skip + start) // p, -(-(self.skip + stop) // p)
        return replace(
            self,
            signs=self.signs[first:last],
            radii=self.radii[start:stop],
            phase=self.phase[start:stop],
            skip=(self.skip + start) % p,
            origin=None,
        )

    def work_bytes(self, b: int) -> int:
        """Return the bytes of the transforms, or of the result only if a GPU computes it in one pass."""
        result = b * self.n_features * self.radii.element_size()
        return result if structured_fused(self.signs) else self._transform_bytes(b)

    def _transform_bytes(self, b: int) -> int:
        """Return the bytes of the argument of a transform and of the two tensors that it allocates."""
        blocks, _, p = self.signs.shape
        return 3 * b * blocks * p * self.signs.element_size()


def outline(kernel: ScaleMixture, d: int, m: int, blank: Blank) -> Structured:
    """Return the map without its numbers."""
    p = _order(d)
    return Structured(blank(-(-m // p), ROUNDS, p), blank(m), blank(m), math.sqrt(2 / m), d)


def _order(d: int) -> int:
    """Return the length p of a transform of d inputs."""
    return max(SHORTEST_TRANSFORM, 1 << (d - 1).bit_length())


def draw(kernel: ScaleMixture, d: int, m: int, generator: torch.Generator) -> Structured:
    """Draw the signs, lengths and phases of m frequencies of ``kernel``."""
    p = _order(d)
    blocks = -(-m // p)
    signs = torch.randint(2, (blocks, ROUNDS, p), generator=generator).double().mul_(2).sub_(1)
    # The first d of p independent Gaussian variables are Gaussian too, so the lengths have p degrees of freedom.
    radii = draw_radii(kernel, p, m, generator).mul_(p ** (-ROUNDS / 2))
    return Structured(signs, radii, draw_phase(m, generator), math.sqrt(2 / m), d)
