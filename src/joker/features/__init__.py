"""Feature maps ψ with E⟨ψ(x), ψ(z)⟩ = k(x, z), drawn once and immutable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import torch

from joker.errors import InvalidParameter, UnknownName
from joker.features import dot_product, fourier
from joker.features.feature_map import Blank, Draw, FeatureMap
from joker.kernels import Kernel
from joker.ops.triton_support import starting
from joker.runtime import generator

__all__ = ["KINDS", "Draw", "FeatureMap", "Kind", "check", "draw", "outline"]

NUMBERS_PER_LENGTH = 8  # float64 numbers that a kernel may need to draw the length of a frequency


@dataclass(frozen=True)
class Kind:
    """A kind of feature map: how it is drawn, and for which kernels.

    ``draw(kernel, d, m, generator)`` returns the map in float64 on the CPU, and ``outline(kernel, d, m, blank)`` the
    map without its numbers, with tensors from ``blank(*shape)``.

    Parameters
    ----------
    draw : callable
        Draws a map.
    needs : str
        The condition on the kernel, in words for a message.
    outline : callable
        Returns a map without numbers.
    held : int
        The peak memory of drawing, as a multiple of the numbers of the map in float64.

    Examples
    --------
    >>> from joker.features import KINDS
    >>> KINDS["orthogonal"].needs
    'a rotation-invariant kernel'
    """

    draw: Callable[[Any, int, int, torch.Generator], FeatureMap]
    needs: str  # the condition on the kernel, in words for a message
    outline: Callable[[Any, int, int, Blank], FeatureMap]
    held: int = 1  # the peak memory of drawing, as a multiple of the numbers of the map in float64


KINDS = {
    "fourier": Kind(fourier.draw_fourier, "a stationary kernel", fourier.outline_fourier),
    "fourier_pairs": Kind(fourier.draw_fourier_pairs, "a stationary kernel", fourier.outline_fourier_pairs),
    "orthogonal": Kind(fourier.draw_orthogonal, "a rotation-invariant kernel", fourier.outline_fourier, held=5),
    "structured": Kind(fourier.draw_structured, "a rotation-invariant kernel", fourier.outline_structured, held=3),
    "identity": Kind(dot_product.draw_identity, "the linear kernel", dot_product.outline_identity),
    "tensor_sketch": Kind(
        dot_product.draw_tensor_sketch, "a polynomial kernel", dot_product.outline_tensor_sketch, held=3
    ),
}


def draw(
    kernel: Kernel,
    kind: str | None,
    d: int,
    m: int,
    seed: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> FeatureMap:
    """Draw a feature map of ``kernel``. The draw is the same on every device.

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
        The seed of the draw.
    dtype, device
        The type and device of the tensors of the map, and of the rows it is called with.

    Returns
    -------
    FeatureMap
        The map.

    Raises
    ------
    UnknownName
        If ``kind`` is not a known name.
    InvalidParameter
        If the kernel does not have this kind of features, or if this kind cannot have m features.

    Examples
    --------
    >>> import torch
    >>> from joker import features, kernels
    >>> x = torch.tensor([[0.0], [1.0]])
    >>> psi = features.draw(kernels.Gaussian(), "fourier", d=1, m=100_000, seed=0)(x)
    >>> print(f"{psi[0] @ psi[1]:.1f}, {kernels.Gaussian()(x, x)[0, 1]:.1f}")
    0.6, 0.6
    """
    kind = _checked(kernel, kind, m)
    with starting(torch.device(device)):
        drawn = KINDS[kind].draw(kernel, d, m, generator(seed, "features"))
    return replace(drawn, origin=Draw(kernel, kind, d, int(m), seed)).to(dtype, device)


def outline(
    kernel: Kernel,
    kind: str | None,
    d: int,
    m: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> tuple[FeatureMap, int]:
    """Return a map with the sizes of the one that `draw` returns, without numbers, and the bytes that drawing needs.

    The map needs no memory; only its sizes may be used. The bytes do not include those of the map itself.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    kind : str or None
        A name of `KINDS`; None or ``"auto"`` for the default of the kernel.
    d, m : int
        The number of inputs and of features.
    dtype, device : torch.dtype, torch.device or str
        The type and device of the map.

    Returns
    -------
    map : FeatureMap
        The map without numbers.
    bytes : int
        The memory that drawing needs.

    Examples
    --------
    >>> from joker import features, kernels
    >>> outlined, _ = features.outline(kernels.Gaussian(), "fourier", d=3, m=10)
    >>> outlined.n_features
    10
    """

    def blank(*shape: int, dtype: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty((), dtype=dtype, device=device).expand(shape)

    chosen = KINDS[_checked(kernel, kind, m)]
    outlined = chosen.outline(kernel, d, m, blank)
    numbers = sum(tensor.numel() for tensor in outlined.tensors.values())
    return outlined, 8 * (chosen.held * numbers + NUMBERS_PER_LENGTH * m)


def check(kernel: Kernel, kind: str | None, d: int, m: int | None) -> None:
    """Raise the error that `draw` raises for these values; without features (m is None) no kind may be named.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    kind : str or None
        A name of `KINDS`; None or ``"auto"`` for the default of the kernel.
    d, m : int
        The number of inputs and of features.

    Examples
    --------
    >>> from joker import features, kernels
    >>> features.check(kernels.Gaussian(), "fourier", d=3, m=10)  # nothing is wrong
    """
    if m is not None:
        outline(kernel, kind, d, m)
    elif kind not in (None, "auto"):
        raise InvalidParameter(
            f"features need their number, n_features; got features={kind!r} and n_features=None, which uses the "
            "exact kernel. Give n_features, such as 1000, or leave features out."
        )


def _checked(kernel: Kernel, kind: str | None, m: object) -> str:
    """Return the kind, or the default of the kernel; raise an error for a kind or a number that it cannot have."""
    if not kernel.feature_kinds:
        raise InvalidParameter(
            f"features need a kernel with a feature map; the {kernel.name} kernel has none. "
            "Use n_features=None, which solves with the exact kernel."
        )
    kind = kernel.feature_kinds[0] if kind in (None, "auto") else kind
    if kind not in KINDS:
        raise UnknownName.among("features", kind, ["auto", *KINDS])
    if kind not in kernel.feature_kinds:
        raise InvalidParameter(
            f"features={kind!r} needs {KINDS[kind].needs}; the {kernel.name} kernel is not one. "
            f"Use features={' or '.join(map(repr, kernel.feature_kinds))}."
        )
    if not isinstance(m, Integral) or m < 1:
        raise InvalidParameter(f"n_features must be a whole number of at least 1; got {m!r}. Use 1000, for example.")
    return kind
