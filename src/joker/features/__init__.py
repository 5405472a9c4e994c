"""Feature maps: ψ with E⟨ψ(x), ψ(z)⟩ = k(x, z), drawn once and frozen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import torch

from joker.errors import InvalidParameter, UnknownName
from joker.features import fourier, identity, orthogonal, structured, tensor_sketch
from joker.features.base import Blank, Draw, FeatureKernel, FeatureMap
from joker.ops.triton_support import starting
from joker.runtime import generator

__all__ = ["KINDS", "Draw", "FeatureMap", "Kind", "draw", "outline"]

SPARE = 8  # numbers for each feature that a kernel may need to draw its lengths


@dataclass(frozen=True)
class Kind:
    """How a kind of feature map is drawn, and the kernels it is for.

    Parameters
    ----------
    draw : callable
        ``draw(kernel, d, m, generator)``, in float64 on the CPU.
    needs : str
        What the kernel must be, in words.
    outline : callable
        ``outline(kernel, d, m, blank)``: the map without its numbers, its tensors made by ``blank(*shape)``.
    held : int
        How many times the numbers of the map, in float64, drawing holds at its peak.
    """

    draw: Callable[[Any, int, int, torch.Generator], FeatureMap]
    needs: str
    outline: Callable[[Any, int, int, Blank], FeatureMap]
    held: int = 1


KINDS = {
    "fourier": Kind(fourier.draw, "a stationary kernel", fourier.outline),
    "fourier_pairs": Kind(fourier.draw_pairs, "a stationary kernel", fourier.outline_pairs),
    "orthogonal": Kind(orthogonal.draw, "a rotation-invariant kernel", fourier.outline, held=5),
    "structured": Kind(structured.draw, "a rotation-invariant kernel", structured.outline, held=3),
    "identity": Kind(identity.draw, "the linear kernel", identity.outline),
    "tensor_sketch": Kind(tensor_sketch.draw, "a polynomial kernel", tensor_sketch.outline, held=3),
}


def draw(
    kernel: FeatureKernel,
    kind: str | None,
    d: int,
    m: int,
    seed: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> FeatureMap:
    """Draw a feature map of ``kernel``: the same on every device.

    Parameters
    ----------
    kernel : Kernel
        The kernel k that ⟨ψ(x), ψ(z)⟩ approximates.
    kind : str or None
        ``"fourier"``, ``"fourier_pairs"``, ``"orthogonal"``, ``"structured"``, ``"identity"`` or
        ``"tensor_sketch"``; None or ``"auto"`` for the kernel's default.
    d, m : int
        The number of inputs and of features.
    seed : int
        Which draw.
    dtype, device
        Of the map's tensors, and of the rows it will be given.

    Raises
    ------
    UnknownName
        If there is no such kind.
    InvalidParameter
        If the kind does not suit the kernel, or m the kind.
    """
    kind = _suitable(kernel, kind)
    _check_number(m)
    with starting(torch.device(device)):
        drawn = KINDS[kind].draw(kernel, d, m, generator(seed, "features"))
    return replace(drawn, origin=Draw(kernel, kind, d, int(m), seed)).to(dtype, device)


def outline(
    kernel: FeatureKernel,
    kind: str | None,
    d: int,
    m: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> tuple[FeatureMap, int]:
    """Return a map with the sizes of the one that `draw` gives but no numbers in it, and the bytes that drawing holds.

    It takes no memory, and is to be asked for sizes only. The bytes are those beside the map itself.
    """

    def blank(*shape: int, dtype: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty((), dtype=dtype, device=device).expand(shape)

    chosen = KINDS[_suitable(kernel, kind)]
    _check_number(m)
    found = chosen.outline(kernel, d, m, blank)
    return found, 8 * (chosen.held * sum(tensor.numel() for tensor in found.tensors.values()) + SPARE * m)


def _check_number(m: object) -> None:
    if not isinstance(m, Integral) or m < 1:
        raise InvalidParameter(f"n_features must be a whole number of at least 1; got {m!r}. Use 1000, for one.")


def _suitable(kernel: FeatureKernel, kind: str | None) -> str:
    """Return the kind, the kernel's default where none is named, once it suits the kernel."""
    if not kernel.feature_kinds:
        raise InvalidParameter(
            f"features need a kernel with a feature map; the {kernel.name} kernel has none. "
            "Use n_features=None, which solves with the kernel itself."
        )
    if kind is None or kind == "auto":
        return kernel.feature_kinds[0]
    if kind not in KINDS:
        raise UnknownName.among("features", kind, ["auto", *KINDS])
    if kind not in kernel.feature_kinds:
        raise InvalidParameter(
            f"features={kind!r} needs {KINDS[kind].needs}; the {kernel.name} kernel is not one. "
            f"Use features={' or '.join(map(repr, kernel.feature_kinds))}."
        )
    return kind
