"""Random Fourier features: cosines of random frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.features.feature_map import Blank, FilledMap, draw_phase, draw_radii
from joker.kernels import Radial, Stationary
from joker.ops.fourier import cosine_sum, cosines, project, structured_cosines, structured_fused, sum_bytes, sums_fused


@dataclass(frozen=True, eq=False)
class Fourier(FilledMap):
    """ψ(x) = √(2/m) cos(Wᵀx + β), with β uniform on [0, 2π)."""

    weights: Tensor  # (d, m), the frequencies W
    phase: Tensor  # (m,), the phases β
    scale: float  # √(2/m), where m is the number of features of the whole map; the same for a slice

    @property
    def n_inputs(self) -> int:
        return self.weights.shape[0]

    @property
    def n_features(self) -> int:
        return self.weights.shape[1]

    def fill(self, x: Tensor, out: Tensor | None = None, low: Tensor | None = None) -> Tensor:  # (b, d) -> (b, m)
        return cosines(x, self.weights, self.phase, self.scale, out=out, low=low)

    def fill_bytes(self, b: int) -> int:
        """Return 0: the features are computed in place."""
        return 0

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:  # (b, d), (m, t) -> (b, t)
        return cosine_sum(x, self.weights, self.phase, theta, self.scale)

    def apply_bytes(self, b: int, t: int) -> int:
        """Return the bytes of the features, or of a few sums if a GPU adds the features up without storing them."""
        return sum_bytes(self.weights, b, t)

    def slice(self, start: int, stop: int) -> Fourier:
        return replace(self, weights=self.weights[:, start:stop], phase=self.phase[start:stop], origin=None)

    def work_bytes(self, b: int) -> int:
        """Return the bytes of the result, which is computed in place."""
        return b * self.n_features * self.weights.element_size()


@dataclass(frozen=True, eq=False)
class FourierPairs(FilledMap):
    """ψ(x) = √(2/m) [cos Wᵀx, sin Wᵀx], so that ‖ψ(x)‖ = 1 for every draw."""

    weights: Tensor  # (d, m/2), the frequencies W

    @property
    def n_inputs(self) -> int:
        return self.weights.shape[0]

    @property
    def n_features(self) -> int:
        return 2 * self.weights.shape[1]

    @property
    def scale(self) -> float:
        """The length of a pair, √(2/m)."""
        return math.sqrt(2 / self.n_features)

    def fill(self, x: Tensor, out: Tensor | None = None, low: Tensor | None = None) -> Tensor:  # (b, d) -> (b, m)
        return cosines(x, self.weights, None, self.scale, out=out, low=low)

    def fill_bytes(self, b: int) -> int:
        """Return the bytes of the angles."""
        return b * self.weights.shape[1] * self.weights.element_size()

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:  # (b, d), (m, t) -> (b, t)
        if not sums_fused(self.weights, theta.shape[1]):
            return self(x) @ theta
        half = self.weights.shape[1]
        no_phase, sine_phase = x.new_zeros(half), x.new_full((half,), -torch.pi / 2)  # sin u = cos(u − π/2)
        total = cosine_sum(x, self.weights, no_phase, theta[:half], self.scale)
        return total.add_(cosine_sum(x, self.weights, sine_phase, theta[half:], self.scale))

    def apply_bytes(self, b: int, t: int) -> int:
        """Return the bytes of the features, or of a few sums if a GPU adds the features up without storing them."""
        if not sums_fused(self.weights, t):
            return self.work_bytes(b)
        return sum_bytes(self.weights, b, t) + self.weights.element_size() * (b * t + self.n_features)

    def slice(self, start: int, stop: int) -> Fourier:
        """Return the map of the features ``start`` to ``stop`` alone, with sin u = cos(u − π/2).

        It shares the frequencies with this map, unless it has both cosines and sines.
        """
        half = self.weights.shape[1]
        cosines = self.weights[:, start : min(stop, half)]
        sines = self.weights[:, max(start - half, 0) : max(stop - half, 0)]
        phase = self.weights.new_zeros(cosines.shape[1] + sines.shape[1])
        phase[cosines.shape[1] :] = -torch.pi / 2
        weights = [part for part in (cosines, sines) if part.shape[1]]
        return Fourier(weights[0] if len(weights) == 1 else torch.cat((cosines, sines), dim=1), phase, self.scale)

    def work_bytes(self, b: int) -> int:
        """Return the bytes of the angles and of the result."""
        return 3 * self.fill_bytes(b)


def outline_fourier(kernel: Stationary, d: int, m: int, blank: Blank) -> Fourier:
    """Return the map without its numbers."""
    return Fourier(blank(d, m), blank(m), math.sqrt(2 / m))


def outline_fourier_pairs(kernel: Stationary, d: int, m: int, blank: Blank) -> FourierPairs:
    """Return the map without its numbers."""
    _check_even(m)
    return FourierPairs(blank(d, m // 2))


def draw_fourier(kernel: Stationary, d: int, m: int, generator: torch.Generator) -> Fourier:
    """Draw m independent frequencies of ``kernel``, each with a phase."""
    weights = kernel.spectrum(d, m, generator)
    return Fourier(weights, draw_phase(m, generator), math.sqrt(2 / m))


def draw_fourier_pairs(kernel: Stationary, d: int, m: int, generator: torch.Generator) -> FourierPairs:
    """Draw m/2 independent frequencies of ``kernel``, each for a cosine and a sine."""
    _check_even(m)
    return FourierPairs(kernel.spectrum(d, m // 2, generator))


def _check_even(m: int) -> None:
    if m % 2:
        raise InvalidParameter(
            f"n_features must be even with features='fourier_pairs'; got {m}. Use {m + 1}, or features='fourier'."
        )


def draw_orthogonal(kernel: Radial, d: int, m: int, generator: torch.Generator) -> Fourier:
    """Draw m frequencies that are orthogonal in blocks of d, with the lengths of independent ones.

    Each frequency has the distribution of an independent draw, so the features are unbiased;
    together they are spread more evenly, so the variance is smaller.
    """
    width = min(d, m)
    normal = torch.randn(-(-m // width), d, width, dtype=torch.float64, generator=generator)
    # Q is uniform up to the signs of its columns, and k = E cos⟨w, x − z⟩ does not depend on the sign of w.
    q, _ = torch.linalg.qr(normal)  # (blocks, d, width)
    # A copy, as a matrix product may round a view of a wider matrix differently.
    directions = q.transpose(0, 1).reshape(d, -1)[:, :m].contiguous()  # (d, m)
    weights = directions.mul_(draw_radii(kernel, d, m, generator))
    return Fourier(weights, draw_phase(m, generator), math.sqrt(2 / m))


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


def outline_structured(kernel: Radial, d: int, m: int, blank: Blank) -> Structured:
    """Return the map without its numbers."""
    p = _order(d)
    return Structured(blank(-(-m // p), ROUNDS, p), blank(m), blank(m), math.sqrt(2 / m), d)


def _order(d: int) -> int:
    """Return the length p of a transform of d inputs."""
    return max(SHORTEST_TRANSFORM, 1 << (d - 1).bit_length())


def draw_structured(kernel: Radial, d: int, m: int, generator: torch.Generator) -> Structured:
    """Draw the signs, lengths and phases of m frequencies of ``kernel``."""
    p = _order(d)
    blocks = -(-m // p)
    signs = torch.randint(2, (blocks, ROUNDS, p), generator=generator).double().mul_(2).sub_(1)
    # The first d of p independent Gaussian variables are Gaussian too, so the lengths have p degrees of freedom.
    radii = draw_radii(kernel, p, m, generator).mul_(p ** (-ROUNDS / 2))
    return Structured(signs, radii, draw_phase(m, generator), math.sqrt(2 / m), d)
