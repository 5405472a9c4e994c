"""The definition of a feature map."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from joker.kernels import Kernel, Radial
from joker.ops.gram import TENSOR_CORE_MULTIPLE
from joker.ops.triton_support import round_up


@dataclass(frozen=True)
class Draw:
    """The arguments with which a map can be drawn again, bit for bit on the same machine.

    Parameters
    ----------
    kernel : Kernel
        The kernel that the features approximate.
    kind : str
        A name of `joker.features.KINDS`.
    d, m : int
        The number of inputs and of features.
    seed : int
        The seed of the draw.

    Examples
    --------
    >>> from joker import features, kernels
    >>> features.draw(kernels.Gaussian(), "fourier", d=3, m=10, seed=0).origin
    Draw(kernel=Gaussian(bandwidth=1.0), kind='fourier', d=3, m=10, seed=0)
    """

    kernel: Kernel  # that the features approximate
    kind: str  # a name of joker.features.KINDS
    d: int  # number of inputs
    m: int  # number of features
    seed: int


@dataclass(frozen=True, eq=False)
class FeatureMap(ABC):
    """A drawn map ψ from d inputs to m features, with E⟨ψ(x), ψ(z)⟩ = k(x, z) over draws.

    A call neither waits for the device nor copies anything to it, so that it can be
    captured in a CUDA graph. Frequencies of heavy-tailed distributions make the argument of a cosine
    large, so the matrix product must have full precision.

    Parameters
    ----------
    origin : Draw, optional
        How the whole map was drawn. A file then stores a seed instead of tensors. None for a slice.

    Examples
    --------
    >>> import torch
    >>> from joker import features, kernels
    >>> psi = features.draw(kernels.Gaussian(), "fourier", d=3, m=10, seed=0)
    >>> psi.n_inputs, psi.n_features, tuple(psi(torch.zeros(5, 3)).shape)
    (3, 10, (5, 10))
    """

    origin: Draw | None = field(default=None, kw_only=True, repr=False)

    @property
    @abstractmethod
    def n_inputs(self) -> int:
        """The number of inputs d."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """The number of features m."""

    @property
    def constants(self) -> int | None:
        """The number of features that are 1, after all inputs; None where the other features are not the inputs."""
        return None

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:  # (b, d) -> (b, m)
        """Return ψ of each row."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> FeatureMap:
        """Return the map of the features ``start`` to ``stop`` alone: ψ(x)[:, start:stop]."""

    @abstractmethod
    def work_bytes(self, b: int) -> int:
        """Return the bytes that a call on b rows holds at its peak, including its result."""

    def fill(self, x: Tensor, out: Tensor | None = None, low: Tensor | None = None) -> Tensor:  # (b, d) -> (b, m)
        """Return ψ of each row, in ``out`` if that is given, and also write it to ``low``, in bfloat16."""
        psi = self(x)
        if low is not None:
            low.copy_(psi)
        return psi if out is None else out.copy_(psi)

    def fill_bytes(self, b: int) -> int:
        """Return the bytes that `fill` on b rows holds at its peak beside ``out`` and ``low``."""
        return self.work_bytes(b)

    def mixed(self, x: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:  # (b, d) -> (b, m), and padded
        """Return ψ of each row, in ``out`` if that is given, and the same in bfloat16, padded with zeros.

        Rows and columns of zeros make both sides multiples of 16: tensor cores multiply matrices of other sizes slowly.
        """
        shape = (round_up(side, TENSOR_CORE_MULTIPLE) for side in (len(x), self.n_features))
        low = x.new_empty(*shape, dtype=torch.bfloat16)
        low[len(x) :] = 0
        low[:, self.n_features :] = 0
        return self.fill(x, out, low[: len(x), : self.n_features]), low

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:  # (b, d), (m, t) -> (b, t)
        """Return ψ(x) θ."""
        return self(x) @ theta

    def apply_bytes(self, b: int, t: int) -> int:
        """Return the bytes that `apply` on b rows and t columns holds at its peak, beside its result."""
        return self.work_bytes(b)

    @property
    def nbytes(self) -> int:
        """The bytes of the tensors of the map."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the map, by their names."""
        return {f.name: t for f in fields(self) if isinstance(t := getattr(self, f.name), Tensor)}

    def to(self, dtype: torch.dtype, device: torch.device | str) -> Self:
        """Return the same draw in ``dtype`` on ``device``."""
        moved: dict[str, Any] = {
            name: tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in self.tensors.items()
        }
        return replace(self, **moved)


class FilledMap(FeatureMap):
    """A map that writes its features to a given tensor: a call is a ``fill`` of a new one."""

    def __call__(self, x: Tensor) -> Tensor:  # (b, d) -> (b, m)
        return self.fill(x)

    @abstractmethod
    def fill(self, x: Tensor, out: Tensor | None = None, low: Tensor | None = None) -> Tensor: ...  # (b, d) -> (b, m)


Blank = Callable[..., Tensor]  # blank(*shape) returns a tensor without memory, for maps whose sizes alone are used


def draw_radii(kernel: Radial, d: int, m: int, generator: torch.Generator) -> Tensor:  # (m,)
    """Draw the lengths of m frequencies in d dimensions, ‖w‖ = τ‖g‖/σ; ‖g‖ has a chi distribution of d degrees."""
    # torch draws chi-squared variables from its global generator only, so NumPy draws them with a seed from ours.
    seed = int(torch.randint(2**63 - 1, (1,), generator=generator))
    squares = torch.from_numpy(np.random.default_rng(seed).chisquare(d, m))
    return squares.sqrt_().mul_(kernel.mixture(m, generator)).div_(kernel.bandwidth)


def draw_phase(m: int, generator: torch.Generator) -> Tensor:  # (m,)
    """Draw m phases, uniform on [0, 2π)."""
    return torch.rand(m, dtype=torch.float64, generator=generator).mul_(2 * torch.pi)


@dataclass(frozen=True, eq=False)
class FeaturesWithConstant(FilledMap):
    """The features of a map and, as the last one, a feature that is always 1; its weight is the intercept."""

    inner: FeatureMap  # without the constant
    itemsize: int = 8  # bytes of one number of the rows that the map is called with

    @property
    def n_inputs(self) -> int:
        return self.inner.n_inputs

    @property
    def n_features(self) -> int:
        return self.inner.n_features + 1

    @property
    def constants(self) -> int | None:
        inner = self.inner.constants
        return None if inner is None else inner + 1

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes

    def fill(self, x: Tensor, out: Tensor | None = None, low: Tensor | None = None) -> Tensor:  # (b, d) -> (b, m)
        if out is None:
            # On a GPU its rows are aligned to multiples of 64 bytes.
            width = round_up(self.n_features, TENSOR_CORE_MULTIPLE) if x.is_cuda else self.n_features
            out = x.new_empty(len(x), width)[:, : self.n_features]
        self.inner.fill(x, out[:, :-1], None if low is None else low[:, :-1])
        for features in (out,) if low is None else (out, low):
            features[:, -1] = 1
        return out

    def fill_bytes(self, b: int) -> int:
        return self.inner.fill_bytes(b)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:  # (b, d), (m, t) -> (b, t)
        return self.inner.apply(x, theta[:-1]) + theta[-1]

    def apply_bytes(self, b: int, t: int) -> int:
        """Return the bytes that the map needs, and those of its result."""
        return self.inner.apply_bytes(b, t) + self.itemsize * b * t

    def slice(self, start: int, stop: int) -> FeatureMap:
        last = self.inner.n_features
        inner = self.inner.slice(min(start, last), min(stop, last))
        return replace(self, inner=inner) if stop > last else inner

    def work_bytes(self, b: int) -> int:
        """Return the bytes that the map needs beside its features, and those of all features."""
        return self.inner.fill_bytes(b) + self.itemsize * b * round_up(self.n_features, TENSOR_CORE_MULTIPLE)

    def to(self, dtype: torch.dtype, device: torch.device | str) -> Self:
        return type(self)(self.inner.to(dtype, device), dtype.itemsize)
