"""Structured random features: frequencies by Hadamard transforms, without a d × m matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from joker.features.base import Blank, FilledMap, ScaleMixture, draw_phase, draw_radii
from joker.ops.structured import project, structured_cosines, structured_fused

ROUNDS = 3  # products HD; with fewer the directions are visibly not uniform
SHORTEST = (
    64  # length p of a transform: at 4 the mean of ψψ is off the kernel by up to 0.3, at 16 by 0.02, at 64 unseen
)


@dataclass(frozen=True, eq=False)
class Structured(FilledMap):
    """ψ(x) = √(2/m) cos(R S x + β), where S stacks blocks HD₃ HD₂ HD₁ of order p.

    H is the Hadamard matrix, D diagonal with random signs and R diagonal with the lengths
    of the frequencies. The rows of a block are orthogonal and nearly uniform on the
    sphere. It costs O(m log p) time a row, where a dense map costs O(m d), and stores 5m
    numbers. Inputs are padded with zeros to p, a power of two.

    Parameters
    ----------
    signs : Tensor
        The diagonals of c blocks, D₁ first, (c, 3, p).
    radii : Tensor
        R, with the constant that makes the rows of a block unit vectors, (m,).
    phase : Tensor
        The phases β, (m,).
    scale : float
        √(2/m), where m counts the features of the whole map: a slice keeps it.
    inputs : int
        The number of inputs d ≤ p.
    skip : int
        How many rows of the first block come before the first feature.
    """

    signs: Tensor  # (c, 3, p)
    radii: Tensor  # (m,)
    phase: Tensor  # (m,)
    scale: float
    inputs: int
    skip: int = 0

    @property
    def n_inputs(self) -> int:
        """The number of inputs d."""
        return self.inputs

    @property
    def n_features(self) -> int:
        """The number of features m."""
        return self.radii.shape[0]

    def project(
        self,
        x: Tensor,  # (b, d)
    ) -> Tensor:  # (b, m)
        """Return R S x, the inner products of the rows with the frequencies."""
        return project(x, self.signs, self.radii, self.skip)

    def fill(
        self,
        x: Tensor,  # (b, d)
        out: Tensor | None = None,  # (b, m)
        low: Tensor | None = None,  # (b, m), bfloat16
    ) -> Tensor:  # (b, m)
        """Return ψ of each row, in ``out`` where that is given, and write it to ``low`` as well."""
        return structured_cosines(x, self.signs, self.radii, self.phase, self.scale, self.skip, out=out, low=low)

    def fill_bytes(self, b: int) -> int:
        """Return what a transform holds, or nothing where a card makes the features in place."""
        return 0 if structured_fused(self.signs) else self._transform_bytes(b)

    def slice(self, start: int, stop: int) -> Structured:
        """Return the map of the features ``start`` to ``stop`` alone, with the blocks they need."""
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
        """Return the bytes of the transforms, or of the result alone where a card makes it in one pass."""
        result = b * self.n_features * self.radii.element_size()
        return result if structured_fused(self.signs) else self._transform_bytes(b)

    def _transform_bytes(self, b: int) -> int:
        """Return the bytes of what a transform is given and of the two tensors it makes."""
        blocks, _, p = self.signs.shape
        return 3 * b * blocks * p * self.signs.element_size()


def outline(kernel: ScaleMixture, d: int, m: int, blank: Blank) -> Structured:
    """Return the map as it will be, without its numbers."""
    p = _order(d)
    return Structured(blank(-(-m // p), ROUNDS, p), blank(m), blank(m), math.sqrt(2 / m), d)


def _order(d: int) -> int:
    """Return the length p of a transform of d inputs."""
    return max(SHORTEST, 1 << (d - 1).bit_length())


def draw(kernel: ScaleMixture, d: int, m: int, generator: torch.Generator) -> Structured:
    """Draw the signs, lengths and phases of m frequencies of ``kernel``."""
    p = _order(d)
    blocks = -(-m // p)
    signs = torch.randint(2, (blocks, ROUNDS, p), generator=generator).double().mul_(2).sub_(1)
    # A Gaussian vector of p parts, seen in the d that the inputs fill, is Gaussian: so p, not d, degrees.
    radii = draw_radii(kernel, p, m, generator).mul_(p ** (-ROUNDS / 2))
    return Structured(signs, radii, draw_phase(m, generator), math.sqrt(2 / m), d)
