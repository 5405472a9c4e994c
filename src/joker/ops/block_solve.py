"""The block solve as one GPU kernel; the same in plain torch is :mod:`joker.solvers.block.trust_region`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from joker.ops.triton_support import ALIGNMENT, has_triton
from joker.runtime.devices import multiprocessors, on_device

FEWEST_ROWS_OF_K = 8  # that a program is given
REGISTERS = 65_536  # of a multiprocessor, for all programs that run on it
MOST_REGISTERS = 255  # of a thread: the limit of the hardware
WARP = 32  # threads
K_REGISTERS = 128  # entries of K that a thread may keep in registers
FEW_COLUMNS = 16  # with at most as many columns of 512 rows, programs of four warps keep all of K in registers
LARGEST_BLOCK = 8_192  # rows: a program holds some vectors of this length in registers


@dataclass(frozen=True)
class Dual:
    """The conjugate of a loss, in a form that the kernel knows.

    ``form`` is ``"quadratic"`` (½ p0 u² + p1 u), ``"entropy"`` (u log u + (1 − u) log(1 − u)) or ``"power"``
    (|u|^p0 / p0); ``parameters`` has p0, p1, both ends of the box and the kink for each column. ``floor`` and
    ``start`` are those of the loss: the smallest |u| at which derivatives are taken, and where u = 0 is moved.
    """

    form: str
    margin: bool
    kinked: bool
    parameters: Tensor  # (5, t)
    floor: float
    start: float


@dataclass(frozen=True)
class LaunchShape:
    """The programs of a launch: ``lanes`` groups of ``group`` programs; a group solves one column at a time."""

    width: int  # rows of the block, rounded up to a power of two
    warps: int  # of a program
    programs: int  # that run at the same time
    group: int
    lanes: int
    registers: int = MOST_REGISTERS  # of a thread

    @property
    def rows(self) -> int:
        """Rows of K for each program of a group."""
        return self.width // self.group

    @property
    def pack(self) -> int:
        """Entries of a vector that a thread waits for at once."""
        return min(4, max(1, self.width // (WARP * self.warps)))

    @property
    def tile(self) -> int:
        """Rows of K that a program multiplies at once."""
        return self.rows if self.held else 4 if self.width > 4_096 else 8

    @property
    def held(self) -> bool:
        """Whether a program keeps its rows of K in registers and reads them only once."""
        return self.rows * self.width <= K_REGISTERS * WARP * self.warps


def launch_shape(b: int, t: int, multiprocessors: int) -> LaunchShape:
    """Choose groups that all run at the same time, since the programs of a group wait for one another."""
    width = 1 << max(b - 1, 15).bit_length()
    # Warps of a program and programs of a multiprocessor, chosen by measurement on one H200.
    warps, together = (16, 1) if width > 4_096 else (8, 1) if width > 512 else (4, 2) if t <= FEW_COLUMNS else (8, 2)
    programs = max(1, together * multiprocessors)
    group = 1 << (max(1, programs // t).bit_length() - 1)
    # Programs that keep their rows of K solve one column after another faster than others solve all at once.
    holding = width**2 // (K_REGISTERS * WARP * warps)
    group = min(max(group, holding) if holding <= programs else group, width // FEWEST_ROWS_OF_K)
    # With more registers, fewer programs would run at the same time, and these would wait for ever for the others.
    registers = min(MOST_REGISTERS, REGISTERS // (WARP * warps * together))
    return LaunchShape(width, warps, programs, group, min(t, programs // group), registers)


def _aligned(K: Tensor) -> Tensor:
    """Return K with rows that begin at multiples of 64 bytes, as the kernel reads it."""
    if K.stride(1) == 1 and K.stride(0) % ALIGNMENT == 0:
        return K
    return torch.nn.functional.pad(K, (0, -len(K) % ALIGNMENT))[:, : len(K)]


def available(device: torch.device, b: int) -> bool:
    """Whether the kernel can solve a block of b rows on this device."""
    return device.type == "cuda" and b <= LARGEST_BLOCK and has_triton(device)


def solve(
    K: Tensor,  # (b, b)
    f: Tensor,  # (b, t)
    a: Tensor,  # (b, t)
    y: Tensor,  # (b, t), may be expanded
    c: Tensor,  # (b, t), may be expanded
    dual: Dual,
    tol: float,
    max_products: int,
    max_models: int,
    patience: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the new point (b, t), and for each column (t,) the rest of ``joker.solvers.BlockResult``.

    These are the change of J, the change without ½ s·K s, the outcome and the number of matrix-vector products.
    """
    from joker.ops.triton.block_solve import solve_block
    from joker.ops.triton.box_cg import WORDS

    b, t = a.shape
    K = _aligned(K)
    shape = launch_shape(b, t, multiprocessors(K.device))
    B, group = shape.width, shape.group
    new = torch.empty_like(a)
    change, linear = torch.empty(2, t, dtype=torch.float64, device=a.device)
    outcome, products = torch.empty(2, t, dtype=torch.int64, device=a.device)
    work = torch.zeros(t, 2 * WORDS.value * B, dtype=torch.int64, device=K.device)
    with on_device(K.device):
        solve_block[(group * shape.lanes,)](
            K, f.contiguous(), a.contiguous(), y, c, dual.parameters,
            new, change, linear, outcome, products, work,
            tol, torch.finfo(K.dtype).eps, max_products, max_models, float(patience), b, t,
            K.stride(0), y.stride(0), y.stride(1), c.stride(0), c.stride(1),
            FORM=dual.form, FLOOR=dual.floor, START=dual.start, MARGIN=dual.margin, KINK=dual.kinked,
            B=B, ROWS=shape.rows, TILE=shape.tile, GROUP=group, LANES=shape.lanes,
            HELD=shape.held, PACK=shape.pack, num_warps=shape.warps, maxnreg=shape.registers,
        )  # fmt: skip
    return new, change, linear, outcome, products


# Parts of a block solve whose loss couples the classes of a row, as GPU kernels that the CPU does not wait for.
#
# The same in plain torch is in :mod:`joker.solvers.block.rows`. Tensors are (L, k, b): L groups, k classes and b
# rows. Every loop has a fixed number of steps, so that it can be captured.


MOST_CLASSES = 1_024  # a program has all classes of its rows
ENTRIES = 2_048  # of a program
FEWEST_ROWS, MOST_ROWS = 8, 64  # of a program
TINY = 1e-37  # no divisor is smaller; a number that a kernel takes is a float32


class _Launch:
    """How L · k · b entries are divided among programs."""

    def __init__(self, shape: torch.Size) -> None:
        groups, k, b = shape
        classes = 1 << (k - 1).bit_length()  # rounded up to a power of two
        rows = min(MOST_ROWS, max(FEWEST_ROWS, ENTRIES // classes))  # of a program
        self.parts = -(-b // rows)  # programs of a group
        self.grid, self.sizes, self.tile = (groups, self.parts), (k, b), {"KP": classes, "R": rows}
        self.sums = self.tile | {"PP": 1 << (self.parts - 1).bit_length()}


def rows_available(device: torch.device, k: int) -> bool:
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
    s: Tensor, u: Tensor, inverse: Tensor, pull: Tensor, room: Tensor, c: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """Return s and u (L, k, b) after some iterations of ADMM; the inverse is (b, b), and c is (L, 1, b)."""
    from joker.ops.triton import simplex_rows as kernels

    launch = _Launch(s.shape)
    s, u, tie = s.contiguous().clone(), u.contiguous().clone(), s - u
    pull, room, c, p = pull.contiguous(), room.contiguous(), c.contiguous(), torch.empty_like(s)
    with on_device(s.device):
        for _ in range(steps):
            torch.mm(tie.flatten(0, 1), inverse, out=p.flatten(0, 1))
            kernels.simplex_step[launch.grid](s, u, p, pull, room, c, tie, *launch.sizes, **launch.tile)
    return s, u
