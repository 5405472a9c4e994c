"""Raw tables in the program: their inputs and their target, with the columns and rows that the user leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.cli import parse
from joker.cli.console import MAX_SHOWN, ReportOptions
from joker.cli.options import Missing, TableFormat, TableOptions
from joker.data.sources.column_selection import TableColumns, select_columns
from joker.data.sources.libsvm import looks_like_libsvm
from joker.data.sources.raw_table import is_raw_table, read_raw_table
from joker.data.sources.text_files import read_head
from joker.errors import InvalidData, InvalidParameter

__all__ = [
    "RawData",
    "batches",
    "is_raw_table",
    "looks_like_libsvm_file",
    "open_inputs",
    "open_training",
]


@dataclass(frozen=True, eq=False)
class RawData:
    """Inputs as an Arrow table, and the target."""

    inputs: Any
    target: str
    y: NDArray[Any]


def open_training(data: Path, table: TableOptions, missing: Missing, report: ReportOptions) -> RawData:
    """Read a table to train on."""
    whole, columns = read_raw_table(data, **table.raw)
    if table.target is None:
        raise InvalidParameter(
            f"--target must name the column to predict; it is not given. The columns of {data} are "
            f"{', '.join(columns.names[:MAX_SHOWN])}."
        )
    selection = select_columns(columns, table.target, parse.names(table.columns), None, parse.names(table.drop))
    assert selection.target_name is not None
    chosen = _with_numbers(whole.select([*selection.names, selection.target_name]), selection.target_name)
    rows = _rows_to_keep(chosen, selection.target_name, missing, str(data), report)
    chosen = chosen if rows is None else chosen.take(rows)
    y = _values(chosen[selection.target_name])
    return RawData(chosen.select(selection.names), selection.target_name, y)


def open_inputs(data: Path, table_format: TableFormat) -> tuple[Any, TableColumns]:
    """Read a table to predict; a table without names has the columns of the training table in their order."""
    return read_raw_table(data, **table_format.raw)


def looks_like_libsvm_file(data: Path) -> bool:
    """Whether a text file has pairs of a number and a value, as LIBSVM writes them."""
    is_text = data.is_file() and any(suffix.lower() in (".txt", ".data") for suffix in data.suffixes)
    return is_text and looks_like_libsvm(read_head(data))


def batches(table: Any, rows: int) -> Iterator[Any]:
    """Yield the rows of an Arrow table in batches."""
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _with_numbers(table: Any, target: str) -> Any:
    """Return a table whose target has numbers in place of text such as $1,234; codes with leading zeros are classes."""
    import pyarrow

    from joker.tables.text_values import written_numbers  # imports scikit-learn, which --help does not need

    if not pyarrow.types.is_string(table[target].type):
        return table
    numbers = written_numbers(np.array(table[target].to_pylist(), dtype=object), codes=False)
    if numbers is None:
        return table
    column = pyarrow.array(numbers, from_pandas=True)  # NaN is a missing value
    return table.set_column(table.column_names.index(target), target, column)


def _values(column: Any) -> NDArray[Any]:
    """The values of an Arrow column: numbers as float64, truth values and text as text."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind) or pyarrow.types.is_decimal(kind):
        return np.asarray(column.cast(pyarrow.float64()).to_numpy(), dtype=np.float64)
    if pyarrow.types.is_dictionary(kind):
        column = column.cast(pyarrow.string())
    return np.array([str(value) for value in column.to_pylist()])


def _rows_to_keep(table: Any, target: str, missing: Missing, name: str, report: ReportOptions) -> NDArray[Any] | None:
    """The rows to train on; None for all. A row without a target is always left out, and a note says so."""
    gaps = {column: _gaps(table[column]) for column in table.column_names}
    without = [column for column, gap in gaps.items() if gap.any()]
    if missing is Missing.ERROR and without:
        row = int(np.flatnonzero(gaps[without[0]])[0])
        raise InvalidData(
            f"{name}: no value may be missing with --missing error; one is at row {row}, column {without[0]!r}. Use "
            "--missing impute or --missing drop."
        )
    bad = gaps[target].copy()
    if missing is Missing.DROP:
        for gap in gaps.values():
            bad |= gap
    if not bad.any():
        return None
    if bad.all():
        raise InvalidData(f"{name}: no row is left without missing values. Use --missing impute, or --drop columns.")
    what = "with missing values" if missing is Missing.DROP else "without a target"
    report.note(f"{int(bad.sum()):,} of {len(bad):,} rows {what} are left out.")
    return np.flatnonzero(~bad)


def _gaps(column: Any) -> NDArray[np.bool_]:
    return np.asarray(column.is_null(nan_is_null=True).to_numpy())
