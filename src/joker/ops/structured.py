"""Cosines of frequencies that are products of signs and Hadamard matrices."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from joker.ops.hadamard import hadamard
from joker.ops.triton_support import OFFSETS, SHORTEST, fuses, rows_apart
from joker.runtime import on_device

LONGEST = SHORTEST**2  # order of the longest transform, of which a program computes one


def structured_cosines(
    x: Tensor,  # (b, d)
    signs: Tensor,  # (c, 3, p)
    radii: Tensor,  # (m,)
    phase: Tensor,  # (m,)
    scale: float,
    skip: int = 0,
    *,
    out: Tensor | None = None,  # (b, m)
    low: Tensor | None = None,  # (b, m), bfloat16
) -> Tensor:  # (b, m)
    """Return scale · cos(R S x + phase), where S stacks blocks HD₃ HD₂ HD₁ without their first ``skip`` rows.

    The result is written to ``out`` where that is given, and to ``low`` as well.
    """
    if structured_fused(signs) and fuses(x, signs, radii):
        result = x.new_empty(len(x), len(radii)) if out is None else out
        return launch_structured(x, signs, radii, phase, scale, skip, result, low)
    psi = project(x, signs, radii, skip).add_(phase).cos_().mul_(scale)
    if low is not None:
        low.copy_(psi)
    return psi if out is None else out.copy_(psi)


def structured_fused(signs: Tensor) -> bool:
    """Whether `structured_cosines` needs memory for its result alone."""
    known = SHORTEST <= signs.shape[2] <= LONGEST and signs.shape[1] == 3
    return known and signs.shape[0] * signs.shape[2] < OFFSETS and fuses(signs)


def project(
    x: Tensor,  # (b, d)
    signs: Tensor,  # (c, 3, p)
    radii: Tensor,  # (m,)
    skip: int = 0,
) -> Tensor:  # (b, m)
    """Return R S x, the inner products of the rows with the frequencies."""
    first, *others = signs.unbind(dim=1)
    y = hadamard(pad(x, (0, first.shape[1] - x.shape[1])).unsqueeze(1) * first)  # (b, c, p)
    for diagonal in others:
        y = hadamard(y.mul_(diagonal))
    return y.flatten(1)[:, skip : skip + radii.shape[0]] * radii


def launch_structured(
    x: Tensor,  # (b, d)
    signs: Tensor,  # (c, 3, p)
    radii: Tensor,  # (m,)
    phase: Tensor,  # (m,)
    scale: float,
    skip: int,
    out: Tensor,  # (b, m)
    low: Tensor | None = None,  # (b, m), bfloat16
    *,
    parts: str = "bfloat16",
) -> Tensor:  # (b, m)
    """Run the fused form of `structured_cosines`; ``parts`` names the type of the matrix products."""
    import triton.language as tl

    from joker.ops.triton.structured import features_kernel

    x, signs, radii, phase = rows_apart(x), signs.contiguous(), radii.contiguous(), phase.contiguous()
    (n, d), m, (blocks, _, p) = x.shape, radii.shape[0], signs.shape
    copy = out if low is None else low
    if out.numel():
        with on_device(x.device):
            features_kernel[(blocks * -(-n * p // LONGEST),)](
                x, signs, radii, phase, out, copy, scale, n, m, d, skip, x.stride(0), out.stride(0), copy.stride(0),
                LOW=low is not None, P=p, PART=getattr(tl, parts), num_warps=4, num_stages=1,
            )  # fmt: skip
    return out
