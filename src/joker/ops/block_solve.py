"""The block solve as one GPU kernel; the same in plain torch is :mod:`joker.solvers.block.trust_region`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from joker.ops.triton_support import ALIGNMENT, has_triton
from joker.runtime import multiprocessors, on_device

ROW_TILE = 8  # rows of K that a program multiplies at once, and the fewest that it is given
REGISTERS = 65_536  # of a multiprocessor, for all programs that run on it
MOST_REGISTERS = 255  # of a thread: the limit of the hardware
WARP = 32  # threads
K_REGISTERS = 128  # entries of K that a thread may keep in registers
FEW_COLUMNS = 16  # with at most as many columns of 512 rows, programs of four warps keep all of K in registers
LARGEST_BLOCK = 4_096  # rows: a program holds some vectors of this length in registers


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
    def held(self) -> bool:
        """Whether a program keeps its rows of K in registers and reads them only once."""
        return self.rows * self.width <= K_REGISTERS * WARP * self.warps


def launch_shape(b: int, t: int, multiprocessors: int) -> LaunchShape:
    """Choose groups that all run at the same time, since the programs of a group wait for one another."""
    width = 1 << max(b - 1, 15).bit_length()
    # Warps of a program and programs of a multiprocessor, chosen by measurement on one H200.
    warps, together = (8, 1) if width > 512 else (4, 2) if t <= FEW_COLUMNS else (8, 2)
    programs = max(1, together * multiprocessors)
    group = min(1 << (max(1, programs // t).bit_length() - 1), width // ROW_TILE)
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
            B=B, ROWS=shape.rows, TILE=shape.rows if shape.held else ROW_TILE, GROUP=group, LANES=shape.lanes,
            HELD=shape.held, PACK=shape.pack, num_warps=shape.warps, maxnreg=shape.registers,
        )  # fmt: skip
    return new, change, linear, outcome, products
