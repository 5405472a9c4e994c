"""Parts of a block solve whose loss couples the classes of a row, as GPU kernels that the CPU does not wait for.

The same in plain torch is in :mod:`joker.solvers.block.row_newton` and :mod:`joker.solvers.block.row_admm`. Tensors are
(L, k, b): L groups, k classes and b rows. Every loop has a fixed number of steps, so that it can be captured.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from joker.ops.triton_support import has_triton
from joker.runtime import on_device

MOST_CLASSES = 1_024  # a program has all classes of its rows
ENTRIES = 2_048  # of a program
FEWEST_ROWS, MOST_ROWS = 8, 64  # of a program
TINY = 1e-37  # no divisor is smaller; a number that a kernel takes is a float32


@dataclass(frozen=True)
class _Launch:
    """How L · k · b entries are divided among programs."""

    shape: torch.Size

    @property
    def classes(self) -> int:
        """Classes, rounded up to a power of two."""
        return 1 << (self.shape[1] - 1).bit_length()

    @property
    def rows(self) -> int:
        """Rows of a program."""
        return min(MOST_ROWS, max(FEWEST_ROWS, ENTRIES // self.classes))

    @property
    def parts(self) -> int:
        """Programs of a group."""
        return -(-self.shape[2] // self.rows)

    @property
    def grid(self) -> tuple[int, int]:
        return self.shape[0], self.parts

    @property
    def sizes(self) -> tuple[int, int]:
        return self.shape[1], self.shape[2]

    @property
    def tile(self) -> dict[str, int]:
        return {"KP": self.classes, "R": self.rows}

    @property
    def sums(self) -> dict[str, int]:
        return self.tile | {"PP": 1 << (self.parts - 1).bit_length()}


def available(device: torch.device, k: int) -> bool:
    """Whether the kernels run on this device, for k classes."""
    return device.type == "cuda" and 1 < k <= MOST_CLASSES and has_triton(device)


@dataclass(frozen=True)
class RowModel:
    """The quadratic model of a softmax at a point."""

    g: Tensor  # (L, k, b) gradient
    h: Tensor  # (L, k, b) second derivative
    inverse: Tensor  # (L, k, b) preconditioner
    total: Tensor  # (L, 1, b) its sum over the classes
    norm: Tensor  # (L,) of the projected gradient


def row_model(f: Tensor, Ks: Tensor, p: Tensor, c: Tensor, diagonal: Tensor) -> RowModel:
    """Return the model at the shares p (L, k, b), whose step has the image Ks."""
    from joker.ops.triton import simplex_rows as kernels

    launch = _Launch(p.shape)
    g, h, inverse, total = (torch.empty_like(p), torch.empty_like(p), torch.empty_like(p), torch.empty_like(c))
    now = p.new_empty(launch.grid)
    with on_device(p.device):
        kernels.measure_point[launch.grid](
            f, Ks, p, c, diagonal, g, h, inverse, total, now, TINY, *launch.sizes, launch.parts, **launch.tile
        )
    return RowModel(g, h, inverse, total, now.sum(1).sqrt())


def newton_step(K: Tensor, model: RowModel, tolerance: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return the step (L, k, b) of projected conjugate gradients, and the number (L,) of its products with K.

    ``tolerance`` (L,) is that of the squared norm of the projected gradient.
    """
    from joker.ops.triton import simplex_rows as kernels

    g, h, inverse, total = model.g, model.h, model.inverse, model.total
    launch = _Launch(g.shape)
    s, p = torch.zeros_like(g), torch.zeros_like(g)
    r, Kp = torch.empty_like(g), torch.empty_like(g)
    sums = g.new_ones(3, *launch.grid)
    products = torch.zeros(len(g), dtype=torch.int64, device=g.device)
    sizes = (*launch.sizes, launch.parts)
    with on_device(g.device):
        kernels.first_residual[launch.grid](g, inverse, total, r, sums[0], *sizes, **launch.tile)
        for step in range(steps):
            now, other, bend = sums[step % 2], sums[1 - step % 2], sums[2]
            kernels.next_direction[launch.grid](r, inverse, p, now, other, TINY, *sizes, **launch.sums)
            torch.mm(p.flatten(0, 1), K, out=Kp.flatten(0, 1))
            kernels.curvature[launch.grid](p, Kp, h, bend, *sizes, **launch.tile)
            kernels.take_step[launch.grid](
                s, r, p, Kp, h, inverse, total, bend, now, other, tolerance, products, TINY, *sizes, **launch.sums
            )
    return s, products


def candidate(p: Tensor, step: Tensor, own: Tensor, c: Tensor, done: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Return the shares (L, k, b) after a step, and the change of α that belongs to them.

    A share keeps at least the part ``least`` of its value; groups that are ``done`` (L,) stay.
    """
    from joker.ops.triton import simplex_rows as kernels

    launch, new, d = _Launch(p.shape), torch.empty_like(p), torch.empty_like(p)
    with on_device(p.device):
        kernels.candidate[launch.grid](p, step, own, c, done, new, d, TINY, least, *launch.sizes, **launch.tile)
    return new, d


def line_sums(p: Tensor, new: Tensor, g: Tensor, d: Tensor, Kd: Tensor, c: Tensor, shares: int) -> Tensor:
    """Return (L, shares + 3) sums in float64, of which the objective on the line from p to new consists.

    They are Σ c x log(x / p) of the points x at 1, 1/2, 1/4, ... of the way, and g·d, d·K d and d·d.
    """
    from joker.ops.triton import simplex_rows as kernels

    launch = _Launch(p.shape)
    partial = torch.empty(len(p), shares + 3, launch.parts, dtype=torch.float64, device=p.device)
    with on_device(p.device):
        kernels.line_sums[(*launch.grid, shares + 1)](
            p, new, g, d, Kd, c, partial, *launch.sizes, launch.parts, SHARES=shares, **launch.tile
        )
    return partial.sum(2)


def move_along(p: Tensor, s: Tensor, Ks: Tensor, new: Tensor, d: Tensor, Kd: Tensor, share: Tensor) -> None:
    """Move p, s and Ks (L, k, b) by a share (L,) of the way to ``new``, in place."""
    from joker.ops.triton import simplex_rows as kernels

    launch = _Launch(p.shape)
    with on_device(p.device):
        kernels.move_along[launch.grid](p, s, Ks, new, d, Kd, share, *launch.sizes, **launch.tile)


def simplex_steps(
    s: Tensor,  # (L, k, b)
    u: Tensor,  # (L, k, b)
    inverse: Tensor,  # (b, b)
    pull: Tensor,  # (L, k, b)
    room: Tensor,  # (L, k, b)
    c: Tensor,  # (L, 1, b)
    steps: int,
) -> tuple[Tensor, Tensor]:
    """Return s and u after some iterations of ADMM."""
    from joker.ops.triton import simplex_rows as kernels

    launch = _Launch(s.shape)
    s, u, tie = s.contiguous().clone(), u.contiguous().clone(), s - u
    pull, room, c, p = pull.contiguous(), room.contiguous(), c.contiguous(), torch.empty_like(s)
    with on_device(s.device):
        for _ in range(steps):
            torch.mm(tie.flatten(0, 1), inverse, out=p.flatten(0, 1))
            kernels.simplex_step[launch.grid](s, u, p, pull, room, c, tie, *launch.sizes, **launch.tile)
    return s, u
