"""A source for the tests of row stores."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from joker.data import Batch, Schema, Source


class Table(Source):
    """Arrays as a source; ``after`` is called before each batch."""

    def __init__(self, x: Any, y: Any = None, *, rows: int | None = -1, after: Any = None) -> None:
        self.x, self.y, self.after = x, y, after
        self.name, self.dtype = "table", x.dtype
        self.schema = Schema.numbers([f"c{j}" for j in range(x.shape[1])], None if y is None else "goal")
        self.rows = x.shape[0] if rows == -1 else rows

    def batches(self, rows: int) -> Iterator[Batch]:
        for first in range(0, self.x.shape[0], rows):
            if self.after is not None:
                self.after(first)
            run = slice(first, first + rows)
            yield Batch(self.x[run], None if self.y is None else self.y[run], first)


def numbered(n: int, d: int = 3, kind: Any = np.float32) -> Any:
    """Return rows whose first input is the row number, and whose other inputs are multiples of it."""
    return (
        (np.arange(n)[:, None] * (1 + np.arange(d)) % 250).astype(kind)
        if kind == np.uint8
        else (np.arange(n)[:, None] * (1.0 + np.arange(d))).astype(kind)
    )
