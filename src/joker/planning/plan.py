"""A plan: what is held in memory, when, and the total."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import torch

from joker.runtime import format_bytes

# The times at which an item is held. An item without times is held throughout.
LAYOUT, STEP, EVALUATION, END = (
    "before the first step",
    "during a step",
    "during an evaluation of the gap",
    "at the end",
)
AFTER_LAYOUT = (STEP, EVALUATION, END)
TIMES = (LAYOUT, STEP, EVALUATION, END)

MIN_TILE_ROWS, ENOUGH_TILE_ROWS = 16, 256  # with fewer rows in a tile, a pass over the data takes long
MAX_SMALL_TILE = 4 * 10**6  # bytes of the smallest planned tile, where it has more than MIN_TILE_ROWS rows
MIN_GAPS, MAX_GAPS = 8 * 10**6, 32 * 10**6  # bytes, measured with the GNU C library
SMALL_ITEMS = 2**18  # bytes for everything that is too small to be listed


def gaps(scratch: int, device: torch.device) -> int:
    """Return the freed scratch space that the C library cannot reuse at once; torch reuses all GPU memory.

    Pieces of more than 32 MB are returned to the system at once.
    """
    return 0 if device.type == "cuda" else min(max(scratch, MIN_GAPS), MAX_GAPS)


def without_gaps(free: int, device: torch.device) -> int:
    """Return the scratch space that, with its gaps, takes ``free`` bytes."""
    if device.type == "cuda":
        return free
    return free - min(max(free // 2, MIN_GAPS), MAX_GAPS)


def least_tile(work: Callable[[int], int], n: int) -> int:
    """Return the bytes of the smallest tile of n rows that is planned; ``work`` returns the bytes of any tile."""
    rows = bisect_right(range(1, ENOUGH_TILE_ROWS + 1), MAX_SMALL_TILE, key=work)
    return work(min(max(rows, MIN_TILE_ROWS), max(n, 1)))


@dataclass(frozen=True)
class Item:
    """Something that is held in memory.

    Parameters
    ----------
    name : str
        Its name in the table of a plan.
    bytes : int
        Its size.
    times : tuple of str
        The times at which it is held, among the constants of this module; empty for throughout.
    """

    name: str
    bytes: int
    times: tuple[str, ...] = ()

    def at(self, time: str) -> int:
        """Return its bytes at a time."""
        return self.bytes if not self.times or time in self.times else 0

    @property
    def when(self) -> str:
        """The times at which it is held, in words."""
        if not self.times:
            return "throughout"
        return "after the first step begins" if self.times == AFTER_LAYOUT else ", ".join(self.times)


@dataclass(frozen=True)
class Plan:
    """What a fit or a prediction holds in memory.

    ``print(plan)`` shows it as a table.

    Attributes
    ----------
    title : str
        The fit or prediction that is planned.
    choice : str
        What was chosen, in a sentence or two.
    items : tuple of Item
        What is held.
    device : torch.device
        The device whose memory is counted.
    dtype : torch.dtype
        The floating-point type of the computation.
    budget : int or None
        The bytes that the user allows; None without a budget.
    scratch : int
        The bytes that tiles and the features of a block may take.
    block_size : int
        Rows in a block; 0 for a prediction.
    part : int
        The number of features of a block that are held at a time; 0 with the kernel itself.
    tile : int
        Rows of a tile.
    kept_rows, landmarks : int
        Rows of the kernel matrix that are kept between steps, and landmarks of a preconditioner.
    rows_place, alpha_place : str
        Where the rows and the dual variables α are.
    host : bool
        Whether the rows stay in host memory while a GPU computes.
    """

    title: str
    choice: str
    items: tuple[Item, ...]
    device: torch.device
    dtype: torch.dtype
    budget: int | None
    scratch: int
    block_size: int = 0
    part: int = 0
    tile: int = 0
    kept_rows: int = 0
    landmarks: int = 0
    rows_place: str = "where they are"
    alpha_place: str = ""
    host: bool = False

    def at(self, time: str) -> int:
        """Return the bytes held at a time."""
        return sum(item.at(time) for item in self.items)

    @property
    def peak(self) -> str:
        """The time at which the most is held."""
        return max(TIMES, key=self.at)

    @property
    def total(self) -> int:
        """The most bytes held at any time."""
        return self.at(self.peak)

    @property
    def facts(self) -> dict[str, int | str | None]:
        """The plan as plain numbers and words, without its items."""
        names = (
            "block_size",
            "part",
            "tile",
            "kept_rows",
            "landmarks",
            "rows_place",
            "alpha_place",
            "scratch",
            "budget",
            "total",
        )
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        lines = [(item.name, format_bytes(item.bytes), item.when) for item in self.items if item.bytes]
        most = self.peak if any(item.times for item in self.items) else ""
        lines.append(("in all, at most", format_bytes(self.total), most))
        lines.append(("memory", "auto" if self.budget is None else format_bytes(self.budget), ""))
        wide, long = (max(len(line[k]) for line in lines) for k in (0, 1))
        table = [f"  {name:<{wide}}  {size:>{long}}  {when}".rstrip() for name, size, when in lines]
        return "\n".join([self.title, *table, self.choice])
