"""Random Fourier features: cosines of random frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from joker.errors import InvalidParameter
from joker.features.base import Blank, FilledMap, Spectral, draw_phase
from joker.ops.fourier import cosine_sum, cosines, sum_bytes, sums_fused


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


def outline(kernel: Spectral, d: int, m: int, blank: Blank) -> Fourier:
    """Return the map without its numbers."""
    return Fourier(blank(d, m), blank(m), math.sqrt(2 / m))


def outline_pairs(kernel: Spectral, d: int, m: int, blank: Blank) -> FourierPairs:
    """Return the map without its numbers."""
    _check_even(m)
    return FourierPairs(blank(d, m // 2))


def draw(kernel: Spectral, d: int, m: int, generator: torch.Generator) -> Fourier:
    """Draw m independent frequencies of ``kernel``, each with a phase."""
    weights = kernel.spectrum(d, m, generator)
    return Fourier(weights, draw_phase(m, generator), math.sqrt(2 / m))


def draw_pairs(kernel: Spectral, d: int, m: int, generator: torch.Generator) -> FourierPairs:
    """Draw m/2 independent frequencies of ``kernel``, each for a cosine and a sine."""
    _check_even(m)
    return FourierPairs(kernel.spectrum(d, m // 2, generator))


def _check_even(m: int) -> None:
    if m % 2:
        raise InvalidParameter(
            f"n_features must be even with features='fourier_pairs'; got {m}. Use {m + 1}, or features='fourier'."
        )
