"""The block solve as one device kernel; its plain twin is :class:`joker.solvers.block.trust_region.BlockSolver`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from joker.ops.triton_support import has_triton
from joker.runtime import multiprocessors, on_device

TILE = 8  # rows of K that a program multiplies at once, and the fewest it is given
REGISTERS = 65_536  # of a multiprocessor, for all programs that run on it
HELD, THREADS = 128, 32  # entries of K that a thread may keep, threads of a warp
FEW = 16  # columns: of 512 rows, programs of four warps then hold all of K in their registers
ALIGNED = 16  # numbers from one row of K to the next are a multiple of it
LARGEST = 4_096  # rows of a block: a program holds some vectors of this length in registers


@dataclass(frozen=True)
class Dual:
    """The conjugate of a loss, in a form the kernel knows.

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
class Layout:
    """How columns are shared among programs: ``lanes`` groups of ``group`` programs, with ``rows`` rows of K each."""

    width: int
    warps: int
    programs: int
    group: int
    lanes: int
    registers: int = 255

    @property
    def rows(self) -> int:
        """Rows of K for each program."""
        return self.width // self.group

    @property
    def pack(self) -> int:
        """Rows of a vector that a thread waits for at once."""
        return min(4, max(1, self.width // (THREADS * self.warps)))

    @property
    def held(self) -> bool:
        """Whether a program can keep its rows of K in registers, to read them only once."""
        return self.rows * self.width <= HELD * THREADS * self.warps


def layout(b: int, t: int, multiprocessors: int) -> Layout:
    """Choose groups that all run at the same time, since the programs of a group wait for one another."""
    width = 1 << max(b - 1, 15).bit_length()
    warps, together = _crew(width, t)
    programs = max(1, together * multiprocessors)
    group = min(1 << (max(1, programs // t).bit_length() - 1), width // TILE)
    registers = min(255, REGISTERS // (THREADS * warps * together))  # else some programs would wait for ever
    return Layout(width, warps, programs, group, min(t, programs // group), registers)


def _crew(width: int, t: int) -> tuple[int, int]:
    """Return the warps of a program and the programs on a multiprocessor, by measurement."""
    if width > 512:
        return 8, 1
    return (4, 2) if t <= FEW else (8, 2)


def _aligned(K: Tensor) -> Tensor:
    """Return K with rows that begin at multiples of 64 bytes, as the kernel reads it."""
    if K.stride(1) == 1 and K.stride(0) % ALIGNED == 0:
        return K
    return torch.nn.functional.pad(K, (0, -len(K) % ALIGNED))[:, : len(K)]


def available(device: torch.device, b: int) -> bool:
    """Whether the kernel can solve a block of b rows on this device."""
    return device.type == "cuda" and b <= LARGEST and has_triton(device)


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
    """Return x (b, t), and for each column the change of J, its part without ½ s·K s, the outcome and the products."""
    from joker.ops.triton.block_solve import solve_block
    from joker.ops.triton.box_cg import WORDS

    b, t = a.shape
    K = _aligned(K)
    shape = layout(b, t, multiprocessors(K.device))
    B, group = shape.width, shape.group
    x = torch.empty_like(a)
    change, linear = torch.empty(2, t, dtype=torch.float64, device=a.device)
    outcome, products = torch.empty(2, t, dtype=torch.int64, device=a.device)
    work = torch.zeros(t, 2 * WORDS.value * B, dtype=torch.int64, device=K.device)
    launch = solve_block[(group * shape.lanes,)]
    with on_device(K.device):
        launch(
            K, f.contiguous(), a.contiguous(), y, c, dual.parameters,
            x, change, linear, outcome, products, work,
            tol, torch.finfo(K.dtype).eps, max_products, max_models, float(patience), b, t,
            K.stride(0), y.stride(0), y.stride(1), c.stride(0), c.stride(1),
            FORM=dual.form, FLOOR=dual.floor, START=dual.start, MARGIN=dual.margin, KINK=dual.kinked,
            B=B, ROWS=shape.rows, TILE=shape.rows if shape.held else TILE, GROUP=group, LANES=shape.lanes,
            HELD=shape.held, PACK=shape.pack, num_warps=shape.warps, maxnreg=shape.registers,
        )  # fmt: skip
    return x, change, linear, outcome, products
