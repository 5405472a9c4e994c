"""The plan of a prediction: tiles of rows, and the result."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import torch

from joker.errors import BudgetTooSmall
from joker.models import Machine
from joker.planning.plan import SMALL_ITEMS, Item, Plan, gaps, least_tile, without_gaps
from joker.runtime import format_bytes, tile_bytes

DECODING_BYTES = 32  # bytes held for each number while predictions become classes or probabilities


@dataclass(frozen=True, eq=False)
class PredictMemory:
    """The bytes that a prediction takes.

    Parameters
    ----------
    rows, inputs, columns : int
        The number of rows to predict, of inputs, and of columns of the machine.
    machine : Machine
        The fitted machine.
    device : torch.device
        Where it computes.
    row_bytes : int
        Bytes that reading one row takes.
    result_bytes : int
        Bytes of the result for one row.
    data : tuple of Item
        What the caller holds: copies of rows.
    rows_place : str
        Where the rows are, in words.
    host : bool
        Whether the rows stay in host memory while a GPU computes.
    """

    rows: int
    inputs: int
    columns: int
    machine: Machine
    device: torch.device
    row_bytes: int
    result_bytes: int
    data: tuple[Item, ...]
    rows_place: str
    host: bool = False

    @property
    def held(self) -> tuple[Item, ...]:
        """Everything except a tile."""
        result = Item("the result", self.rows * self.result_bytes)
        return (*self.data, result, Item("small items", SMALL_ITEMS))

    def tile_bytes(self, rows: int) -> int:
        """Return what a tile of some rows and its results take."""
        done = rows * (DECODING_BYTES * self.columns + self.result_bytes)
        return self.machine.tile_bytes(rows, self.row_bytes) + done

    @property
    def least(self) -> int:
        """The smallest budget that is sufficient."""
        tile = least_tile(self.tile_bytes, self.rows)
        return sum(item.bytes for item in self.held) + tile + gaps(tile, self.device)


def plan_predict(memory: PredictMemory, budget: int | None, scratch: int) -> Plan:
    """Return the plan of a prediction, or raise BudgetTooSmall with the smallest sufficient budget."""
    if budget is not None and memory.least > budget:
        raise BudgetTooSmall(
            f"memory must hold everything that the prediction needs; {format_bytes(budget)} is given and it takes at "
            f"least {format_bytes(memory.least)}. Use memory={memory.least} (bytes) or more, or predict fewer rows "
            "at a time."
        )
    free = 0 if budget is None else budget - sum(item.bytes for item in memory.held)
    room = scratch if budget is None else without_gaps(free, memory.device)
    most = tile_bytes(room, memory.device)
    tile = max(1, bisect_right(range(1, memory.rows + 1), most, key=memory.tile_bytes))
    kind = str(memory.machine.dtype).removeprefix("torch.")
    return Plan(
        title=f"prediction of {memory.rows:,} rows of {memory.inputs:,} inputs, columns: {memory.columns:,}, "
        f"in {kind} on {memory.device}",
        choice=f"Rows stay {memory.rows_place}; tiles of {tile:,} rows.",
        items=(
            *memory.held,
            Item("a tile of rows", memory.tile_bytes(tile)),
            Item("gaps between pieces of memory", gaps(memory.tile_bytes(tile), memory.device)),
        ),
        device=memory.device,
        dtype=memory.machine.dtype,
        budget=budget,
        scratch=room,
        tile=tile,
        rows_place=memory.rows_place,
        host=memory.host,
    )
