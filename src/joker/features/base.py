"""What a feature map is, and what it asks of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from joker.ops.triton_support import round_up

WHOLE = 16  # numbers: sides of a matrix that tensor cores take as they are


class FeatureKernel(Protocol):
    """A kernel that knows which feature maps suit it, the default first."""

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    @property
    def feature_kinds(self) -> tuple[str, ...]:
        """The kinds of feature map, by name."""
        ...


class Spectral(Protocol):
    """A stationary kernel k(x, z) = E cos⟨w, x − z⟩."""

    def spectrum(self, d: int, m: int, generator: torch.Generator) -> Tensor:  # (d, m)
        """Draw m frequencies w, one a column, in float64 on the CPU."""
        ...


class ScaleMixture(Protocol):
    """A rotation-invariant kernel, with w = τg/σ and g ~ N(0, I)."""

    @property
    def bandwidth(self) -> float:
        """The length scale σ."""
        ...

    def mixture(self, m: int, generator: torch.Generator) -> Tensor:  # (m,)
        """Draw m values of the scale τ, in float64 on the CPU."""
        ...


class Power(Protocol):
    """A kernel (⟨x, z⟩/σ² + 1)^degree."""

    @property
    def bandwidth(self) -> float:
        """The length scale σ."""
        ...

    @property
    def degree(self) -> int:
        """The power."""
        ...


@dataclass(frozen=True)
class Draw:
    """What it takes to draw a map again, bit for bit on the same machine.

    Parameters
    ----------
    kernel : FeatureKernel
        The kernel that the features are of.
    kind : str
        The kind of map, a name of :data:`joker.features.KINDS`.
    d, m : int
        The number of inputs and of features.
    seed : int
        Which draw.
    """

    kernel: FeatureKernel
    kind: str
    d: int
    m: int
    seed: int


@dataclass(frozen=True, eq=False)
class FeatureMap(ABC):
    """A drawn map ψ from d inputs to m features, with E⟨ψ(x), ψ(z)⟩ = k(x, z) over draws.

    A call neither waits for the device nor moves anything to it, so that it can be
    captured in a CUDA graph. With frequencies of heavy tails the argument of a cosine is
    large: leave the matrix product its full precision.

    Parameters
    ----------
    origin : Draw, optional
        How the whole map was drawn, so that a file keeps a seed in place of tensors; a slice has none.
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

    @abstractmethod
    def __call__(
        self,
        x: Tensor,  # (b, d)
    ) -> Tensor:  # (b, m)
        """Return ψ of each row."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> FeatureMap:
        """Return the map of the features ``start`` to ``stop`` alone: ψ(x)[:, start:stop]."""

    @abstractmethod
    def work_bytes(self, b: int) -> int:
        """Return the bytes that a call on b rows holds at its peak, its result included."""

    def fill(
        self,
        x: Tensor,  # (b, d)
        out: Tensor | None = None,  # (b, m)
        low: Tensor | None = None,  # (b, m), bfloat16
    ) -> Tensor:  # (b, m)
        """Return ψ of each row, in ``out`` where that is given, and write it to ``low`` as well."""
        psi = self(x)
        if low is not None:
            low.copy_(psi)
        return psi if out is None else out.copy_(psi)

    def fill_bytes(self, b: int) -> int:
        """Return the bytes that `fill` on b rows holds at its peak beside ``out`` and ``low``."""
        return self.work_bytes(b)

    def mixed(
        self,
        x: Tensor,  # (b, d)
        out: Tensor | None = None,  # (b, m)
    ) -> tuple[Tensor, Tensor]:  # (b, m), (b and more, m and more)
        """Return ψ of each row, in ``out`` where that is given, and the same in bfloat16 with zeros behind.

        Rows and columns of zeros make both numbers multiples of 16: a product of any other size is several
        times slower on tensor cores.
        """
        low = x.new_empty(round_up(len(x), WHOLE), round_up(self.n_features, WHOLE), dtype=torch.bfloat16)
        low[len(x) :] = 0
        low[:, self.n_features :] = 0
        return self.fill(x, out, low[: len(x), : self.n_features]), low

    def mixed_bytes(self, b: int) -> int:
        """Return the bytes that `mixed` on b rows holds at its peak, its results included."""
        return self.work_bytes(b) + 2 * round_up(b, WHOLE) * round_up(self.n_features, WHOLE)

    def apply(
        self,
        x: Tensor,  # (b, d)
        theta: Tensor,  # (m, t)
    ) -> Tensor:  # (b, t)
        """Return ψ(x) θ."""
        return self(x) @ theta

    def apply_bytes(self, b: int, t: int) -> int:
        """Return the bytes that `apply` on b rows and t columns holds at its peak, beside its result."""
        return self.work_bytes(b)

    @property
    def nbytes(self) -> int:
        """The bytes of the tensors that the map consists of."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors that the map consists of, by their names."""
        return {f.name: t for f in fields(self) if isinstance(t := getattr(self, f.name), Tensor)}

    def to(self, dtype: torch.dtype, device: torch.device | str) -> Self:
        """Return the same draw in ``dtype`` on ``device``."""
        moved: dict[str, Any] = {
            name: tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in self.tensors.items()
        }
        return replace(self, **moved)


class FilledMap(FeatureMap):
    """A map that makes its features in place: a call is a ``fill`` of new room."""

    def __call__(
        self,
        x: Tensor,  # (b, d)
    ) -> Tensor:  # (b, m)
        """Return ψ of each row."""
        return self.fill(x)

    @abstractmethod
    def fill(
        self,
        x: Tensor,  # (b, d)
        out: Tensor | None = None,  # (b, m)
        low: Tensor | None = None,  # (b, m), bfloat16
    ) -> Tensor:  # (b, m)
        """Return ψ of each row, in ``out`` where that is given, and write it to ``low`` as well."""


Blank = Callable[..., Tensor]
"""``blank(*shape)`` is a tensor of that shape that takes no memory: for maps of which only the size matters."""


def draw_radii(kernel: ScaleMixture, d: int, m: int, generator: torch.Generator) -> Tensor:  # (m,)
    """Draw the lengths of m frequencies in d dimensions, ‖w‖ = τ‖g‖/σ, where ‖g‖ is chi with d degrees."""
    # torch draws chi-squared from its global generator only: NumPy's is seeded from ours.
    seed = int(torch.randint(2**63 - 1, (1,), generator=generator))
    squares = torch.from_numpy(np.random.default_rng(seed).chisquare(d, m))
    return squares.sqrt_().mul_(kernel.mixture(m, generator)).div_(kernel.bandwidth)


def draw_phase(m: int, generator: torch.Generator) -> Tensor:  # (m,)
    """Draw m phases, uniform on [0, 2π)."""
    return torch.rand(m, dtype=torch.float64, generator=generator).mul_(2 * torch.pi)
