"""Cosines of frequencies that are products of signs and Hadamard matrices."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from joker.ops.dispatch import OFFSETS, fuses, rows_apart
from joker.ops.hadamard import hadamard
from joker.runtime import on_device

SHORTEST, LONGEST = 64, 4096  # orders of the transform that the fused kernel has


def structured_cosines(
    x: Tensor,  # (b, d)
    signs: Tensor,  # (c, 3, p)
    radii: Tensor,  # (m,)
    phase: Tensor,  # (m,)
    scale: float,
    skip: int = 0,
) -> Tensor:  # (b, m)
    """Return scale · cos(R S x + phase), where S stacks blocks HD₃ HD₂ HD₁ and the first ``skip`` rows are left out."""
    if structured_fused(x, signs, radii):
        return launch_structured(x, signs, radii, phase, scale, skip)
    return project(x, signs, radii, skip).add_(phase).cos_().mul_(scale)


def structured_fused(x: Tensor, signs: Tensor, radii: Tensor) -> bool:
    """Whether `structured_cosines` needs room for its result alone."""
    known = SHORTEST <= signs.shape[2] <= LONGEST and signs.shape[1] == 3
    return fuses(x, signs, radii) and known and signs.shape[0] * signs.shape[2] < OFFSETS


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
    skip: int = 0,
    *,
    parts: str = "bfloat16",
    warps: int = 4,
) -> Tensor:  # (b, m)
    """Run the fused form of `structured_cosines`; ``parts`` names the type of the matrix products."""
    import triton.language as tl

    from joker.ops.fused.structured import features_kernel

    x, signs, radii, phase = rows_apart(x), signs.contiguous(), radii.contiguous(), phase.contiguous()
    (n, d), m, (blocks, _, p) = x.shape, radii.shape[0], signs.shape
    psi = x.new_empty(n, m)
    if psi.numel():
        with on_device(x.device):
            features_kernel[(blocks * -(-n * p // LONGEST),)](
                *(x, signs, radii, phase, psi, scale, n, m, d, skip, x.stride(0), m),
                P=p,
                PART=getattr(tl, parts),
                num_warps=warps,
                num_stages=1,
            )
    return psi
