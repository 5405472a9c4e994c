"""The plan of a prediction: tiles of rows, and the result."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import torch

from joker.errors import BudgetTooSmall
from joker.models import Machine
from joker.planning.fit import ROUND
from joker.planning.plan import Item, Plan, gaps, least_tile, without_gaps
from joker.runtime import format_bytes, tile_bytes

DECODED = 32  # bytes that making a result of a prediction holds for it


@dataclass(frozen=True, eq=False)
class PredictLayout:
    """The sizes of a prediction.

    Parameters
    ----------
    rows, inputs, columns : int
        n and d of the rows to predict, and t of the machine.
    machine : Machine
        What predicts.
    device : torch.device
        Where.
    row_bytes : int
        What handing out a row takes.
    result_bytes : int
        What the result of a row takes.
    own : tuple of Item
        What the caller holds beside: copies of rows.
    rows_place : str
        Where the rows are, in words.
    host : bool
        Whether a card is to leave them in the memory of the host.
    """

    rows: int
    inputs: int
    columns: int
    machine: Machine
    device: torch.device
    row_bytes: int
    result_bytes: int
    own: tuple[Item, ...]
    rows_place: str
    host: bool = False

    @property
    def held(self) -> tuple[Item, ...]:
        """Everything but a tile."""
        result = Item("the result", self.rows * self.result_bytes)
        return (*self.own, result, Item("small things", ROUND))

    def tile_bytes(self, rows: int) -> int:
        """What a tile of some rows takes, and the results made of it."""
        done = rows * (DECODED * self.columns + self.result_bytes)
        return self.machine.tile_bytes(rows, self.row_bytes) + done

    @property
    def least(self) -> int:
        """The smallest budget that will do."""
        tile = least_tile(self.tile_bytes, self.rows)
        return sum(item.bytes for item in self.held) + tile + gaps(tile, self.device)


def plan_predict(layout: PredictLayout, budget: int | None, scratch: int) -> Plan:
    """Return the plan of a prediction, or raise BudgetTooSmall with the smallest budget that will do."""
    if budget is not None and layout.least > budget:
        raise BudgetTooSmall(
            f"memory must hold everything that the prediction needs; {format_bytes(budget)} is given and it takes "
            f"{format_bytes(layout.least)} at least. Use memory={layout.least} (bytes) or more, or predict fewer rows "
            "at a time."
        )
    free = 0 if budget is None else budget - sum(item.bytes for item in layout.held)
    room = scratch if budget is None else without_gaps(free, layout.device)
    most = tile_bytes(room, layout.device)
    tile = max(1, bisect_right(range(1, layout.rows + 1), most, key=layout.tile_bytes))
    kind = str(layout.machine.dtype).removeprefix("torch.")
    return Plan(
        title=f"prediction of {layout.rows:,} rows of {layout.inputs:,} inputs, columns: {layout.columns:,}, "
        f"in {kind} on {layout.device}",
        choice=f"Rows stay {layout.rows_place}; tiles of {tile:,} rows.",
        items=(
            *layout.held,
            Item("a tile of rows", layout.tile_bytes(tile)),
            Item("gaps between pieces of memory", gaps(layout.tile_bytes(tile), layout.device)),
        ),
        device=layout.device,
        dtype=layout.machine.dtype,
        budget=budget,
        scratch=room,
        tile=tile,
        rows_place=layout.rows_place,
        host=layout.host,
    )
