"""Cells and tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown; None is an empty cell."""
    cells = [[str(name) for name in head]]
    cells += [["" if cell is None else str(cell).replace("|", "/") for cell in row] for row in rows]
    widths = [max(3, *(len(row[j]) for row in cells)) for j in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in cells]
    return "\n".join([lines[0], "| " + " | ".join("-" * w for w in widths) + " |", *lines[1:]])


def memory(count: float | None) -> str:
    """Format a number of bytes; "?" where it is not known."""
    if not count:  # the peak of reading the data was higher than that of the fit
        return "?"
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def seconds(value: float | None) -> str:
    """Format a number of seconds."""
    if value is None:
        return ""
    return f"{value:,.1f} s" if value >= 1 else f"{value:.2g} s"


def settings(given: dict[str, Any]) -> str:
    """Format parameters as the text of a cell."""
    short = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in given.items()}
    return ", ".join(f"{key} {value}" for key, value in short.items() if value is not None)
