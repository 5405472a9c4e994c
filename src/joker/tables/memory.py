"""The memory of a fit to a table: what is left for a kernel model when the table and its encoding are in memory."""

from __future__ import annotations

from typing import Any

from joker.errors import BudgetTooSmall
from joker.estimators import resolve
from joker.runtime import format_bytes
from joker.tables.frames import TEXT, RawTable

COPIES = 3  # of the encoded rows, at the same time: all rows, the rows of a fold or a trial, and those being encoded
LIBRARIES = 64 * 2**20  # bytes that scikit-learn, SciPy and narwhals take at their first use, approximately
TEXT_BYTES = 64  # of a short text as a Python object; one column of text is converted at a time
MIN_LEFT = 48 * 2**20  # bytes for the fit of a kernel model, at least


def is_limited(memory: Any) -> bool:
    """Whether a memory budget is given."""
    return resolve.budget(memory) is not None


def memory_of_models(memory: Any, inputs: Any, width: int) -> Any:
    """Return the memory of one kernel model: the budget without the table, its encoding and the libraries."""
    budget = resolve.budget(memory)
    if budget is None or not isinstance(inputs, RawTable):
        return memory
    table = sum(column.values.nbytes for column in inputs.columns)
    table += TEXT_BYTES * inputs.rows if any(column.form == TEXT for column in inputs.columns) else 0
    taken = table + COPIES * 4 * inputs.rows * width + LIBRARIES
    if budget < taken + MIN_LEFT:
        raise BudgetTooSmall(
            f"memory must be at least {format_bytes(taken + MIN_LEFT)} for this table: its columns take "
            f"{format_bytes(table)} and {COPIES} copies of its {width} inputs "
            f"{format_bytes(COPIES * 4 * inputs.rows * width)}; got memory={memory!r}. Give more, or fewer rows."
        )
    return budget - taken
