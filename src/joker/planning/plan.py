"""A plan: what is held in memory, when, and how much that is in all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import torch

from joker.runtime import format_bytes

# When an item is there; one that names no time is there throughout.
LAYOUT, STEP, LOOK, END = "before the first step", "during a step", "during a look at the gap", "at the end"
LATER = (STEP, LOOK, END)
TIMES = (LAYOUT, STEP, LOOK, END)


FEWEST, ENOUGH = 16, 256  # rows of the smallest tile that is planned for: with fewer a pass takes several times as long
LEAST_GAPS, MOST_GAPS = 8 * 10**6, 32 * 10**6  # bytes
SMALL = 4 * 10**6  # bytes that it takes at most where it has more than the fewest


def gaps(scratch: int, device: torch.device) -> int:
    """Return what the C library cannot use again at once of freed scratch space; a card's allocator is not asked.

    Pieces of more than 32 MB are given back to the system at once.
    """
    return 0 if device.type == "cuda" else min(max(scratch, LEAST_GAPS), MOST_GAPS)


def without_gaps(free: int, device: torch.device) -> int:
    """Return the scratch space that, with its gaps, takes ``free`` bytes."""
    if device.type == "cuda":
        return free
    return free - min(max(free // 2, LEAST_GAPS), MOST_GAPS)


def least_tile(work: Callable[[int], int], n: int) -> int:
    """Return the bytes of the smallest tile of n rows that is worth it, where ``work`` tells those of any."""
    rows = bisect_right(range(1, ENOUGH + 1), SMALL, key=work)
    return work(min(max(rows, FEWEST), max(n, 1)))


@dataclass(frozen=True)
class Item:
    """Something that is held in memory.

    Parameters
    ----------
    name : str
        What a reader calls it.
    bytes : int
        How much it takes.
    times : tuple of str
        When it is there, of the constants of this module; empty for throughout.
    """

    name: str
    bytes: int
    times: tuple[str, ...] = ()

    def at(self, time: str) -> int:
        """Return its bytes at a time."""
        return self.bytes if not self.times or time in self.times else 0

    @property
    def when(self) -> str:
        """When it is there, in words."""
        if not self.times:
            return "throughout"
        return "from the first step on" if self.times == LATER else ", ".join(self.times)


@dataclass(frozen=True)
class Plan:
    """What a fit or a prediction holds in memory.

    ``print(plan)`` shows it as a table.

    Attributes
    ----------
    title : str
        Of what it is the plan.
    choice : str
        What was chosen, in a sentence or two.
    items : tuple of Item
        What is held.
    device : torch.device
        Whose memory is counted.
    dtype : torch.dtype
        The type that is computed in.
    budget : int or None
        The bytes that the user allows; None where none are named.
    scratch : int
        The bytes of it that tiles and the features of a block may take.
    block_size : int
        Rows in a block; 0 for a prediction.
    part : int
        How many features of a block are there at a time; 0 with the kernel itself.
    tile : int
        Rows of a tile.
    rows_place, alpha_place : str
        Where the rows and the dual variables α are.
    host : bool
        Whether a card is to leave the rows in the memory of the host.
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
    rows_place: str = "where they are"
    alpha_place: str = ""
    host: bool = False

    def at(self, time: str) -> int:
        """Return the bytes held at a time."""
        return sum(item.at(time) for item in self.items)

    @property
    def peak(self) -> str:
        """When the most is held."""
        return max(TIMES, key=self.at)

    @property
    def total(self) -> int:
        """The most bytes held at any time."""
        return self.at(self.peak)

    @property
    def facts(self) -> dict[str, int | str | None]:
        """The plan as plain numbers and words, without its items."""
        names = ("block_size", "part", "tile", "rows_place", "alpha_place", "scratch", "budget", "total")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        lines = [(item.name, format_bytes(item.bytes), item.when) for item in self.items if item.bytes]
        most = self.peak if any(item.times for item in self.items) else ""
        lines.append(("in all, at most", format_bytes(self.total), most))
        lines.append(("memory", "auto" if self.budget is None else format_bytes(self.budget), ""))
        wide, long = (max(len(line[k]) for line in lines) for k in (0, 1))
        table = [f"  {name:<{wide}}  {size:>{long}}  {when}".rstrip() for name, size, when in lines]
        return "\n".join([self.title, *table, self.choice])
