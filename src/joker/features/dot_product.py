"""Tensor sketches: random features of the polynomial kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from joker.errors import InvalidParameter
from joker.features.feature_map import Blank, FeatureMap
from joker.kernels import Kernel, Polynomial


@dataclass(frozen=True, eq=False)
class TensorSketch(FeatureMap):
    """ψ(x) = IFFT(Π_j FFT(C_j x̃)), with x̃ = [x/σ, 1] and count sketches C_j, j = 1…degree.

    (⟨x, z⟩/σ² + 1)^degree = ⟨x̃, z̃⟩^degree is an inner product of tensor powers. A count
    sketch adds each input, with a random sign, to one of m buckets chosen at random, and
    preserves inner products in expectation. So does the circular convolution of independent
    sketches, which is a count sketch of the tensor power.

    The buckets ``first`` to ``last`` are features. The transform needs all buckets, so a call of a slice
    needs as much memory as that of the whole map; only its result is smaller.
    """

    buckets: Tensor  # (degree, d + 1), of int64: the bucket of each input
    signs: Tensor  # (degree, d + 1), the sign of each input
    bandwidth: float  # the length scale σ
    width: int  # number of buckets
    first: int
    last: int

    @property
    def n_inputs(self) -> int:
        return self.signs.shape[1] - 1

    @property
    def n_features(self) -> int:
        return self.last - self.first

    def __call__(self, x: Tensor) -> Tensor:  # (b, d) -> (b, m)
        lifted = pad(x / self.bandwidth, (0, 1), value=1.0)  # (b, d + 1)
        product = self._spectrum(lifted, 0)
        for j in range(1, len(self.signs)):
            product *= self._spectrum(lifted, j)
        features: Tensor = torch.fft.irfft(product, n=self.width)
        return features if self.n_features == self.width else features[:, self.first : self.last].clone()

    def _spectrum(self, lifted: Tensor, j: int) -> Tensor:  # (b, d + 1) -> (b, width // 2 + 1)
        """Return the Fourier transform of the count sketch C_j x̃."""
        sketch = lifted.new_zeros(len(lifted), self.width)
        spectrum: Tensor = torch.fft.rfft(sketch.index_add_(1, self.buckets[j], lifted * self.signs[j]))
        return spectrum

    def slice(self, start: int, stop: int) -> TensorSketch:
        return replace(self, first=self.first + start, last=self.first + stop, origin=None)

    def work_bytes(self, b: int) -> int:
        """Return the bytes of the lifted rows and of three sketches or transforms of them."""
        return b * (3 * (self.width + 2) + 2 * self.signs.shape[1]) * self.signs.element_size()


def outline_tensor_sketch(kernel: Polynomial, d: int, m: int, blank: Blank) -> TensorSketch:
    """Return the map without its numbers."""
    shape = (kernel.degree, d + 1)
    return TensorSketch(blank(*shape, dtype=torch.int64), blank(*shape), kernel.bandwidth, width=m, first=0, last=m)


def draw_tensor_sketch(kernel: Polynomial, d: int, m: int, generator: torch.Generator) -> TensorSketch:
    """Draw the buckets and signs of ``kernel.degree`` count sketches of m buckets."""
    shape = (kernel.degree, d + 1)
    buckets = torch.randint(m, shape, generator=generator)
    signs = torch.randint(2, shape, generator=generator).double().mul_(2).sub_(1)
    return TensorSketch(buckets, signs, kernel.bandwidth, width=m, first=0, last=m)


@dataclass(frozen=True, eq=False)
class Identity(FeatureMap):
    """ψ(x) = x, or the inputs ``first`` to ``last`` of it: a view, not a copy."""

    inputs: int  # number of inputs d
    first: int
    last: int

    @property
    def n_inputs(self) -> int:
        return self.inputs

    @property
    def n_features(self) -> int:
        return self.last - self.first

    @property
    def constants(self) -> int | None:
        return 0 if self.n_features == self.inputs else None

    def __call__(self, x: Tensor) -> Tensor:  # (b, d) -> (b, m)
        return x[:, self.first : self.last]

    def slice(self, start: int, stop: int) -> Identity:
        return replace(self, first=self.first + start, last=self.first + stop, origin=None)

    def work_bytes(self, b: int) -> int:
        """Return 0: the features are a view of the inputs."""
        return 0


def outline_identity(kernel: Kernel, d: int, m: int, blank: Blank) -> Identity:
    """Return the map, which has no tensors."""
    if m != d:
        raise InvalidParameter(
            f"n_features must be the number of inputs with the {kernel.name} kernel, which is its own feature map; "
            f"got {m} with {d} inputs. Use n_features={d}."
        )
    return Identity(d, 0, d)


def draw_identity(kernel: Kernel, d: int, m: int, generator: torch.Generator) -> Identity:
    """Return the map, without anything random."""
    return outline_identity(kernel, d, m, torch.empty)
