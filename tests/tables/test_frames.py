"""Tables of every library are read as the same columns."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from joker.errors import InvalidCell, InvalidData
from joker.tables.table import BOOLEAN, DATE, NUMBER, TEXT, RawTable, read_table

ROWS = [
    {"n": 1, "f": 0.5, "b": True, "t": "a", "d": datetime.date(2024, 1, 31)},
    {"n": 2, "f": None, "b": False, "t": None, "d": None},
    {"n": 3, "f": 2.5, "b": True, "t": "c", "d": datetime.date(2024, 2, 1)},
]
FRAMES = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas with Arrow types": lambda: pa.Table.from_pylist(ROWS).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.DataFrame(ROWS),
    "pyarrow": lambda: pa.Table.from_pylist(ROWS),
    "list of dicts": lambda: ROWS,
    "objects": lambda: np.array([list(row.values()) for row in ROWS], dtype=object),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_columns_of_every_library(kind: str) -> None:
    table = read_table(FRAMES[kind]())
    assert [column.form for column in table.columns] == [NUMBER, NUMBER, BOOLEAN, TEXT, DATE]
    assert table.names == (("n", "f", "b", "t", "d") if kind != "objects" else ("x0", "x1", "x2", "x3", "x4"))
    n, f, b, t, d = table.columns
    assert n.values.tolist() == [1, 2, 3]
    assert np.array_equal(f.values, [0.5, np.nan, 2.5], equal_nan=True)
    assert b.values.tolist() == [1, 0, 1]
    assert t.values.tolist() == ["a", None, "c"]
    assert d.missing.tolist() == [False, True, False]
    assert str(d.values[0])[:10] == "2024-01-31"


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_declared_categories(kind: str) -> None:
    words = ["u", "v", None]
    frame = (
        pd.DataFrame({"c": pd.Categorical(words)})
        if kind == "pandas"
        else pl.DataFrame({"c": words}, schema={"c": pl.Categorical})
    )
    (column,) = read_table(frame).columns
    assert (column.form, column.declared_category, column.values.tolist()) == (TEXT, True, words)


def test_a_category_of_numbers_is_text() -> None:
    (column,) = read_table(pd.DataFrame({"c": pd.Categorical([1, 2, None])})).columns
    assert column.form == TEXT
    assert column.values.tolist() == ["1", "2", None]


def test_nullable_types_and_time_zones() -> None:
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None], dtype="Int64"),
            "b": pd.array([True, None], dtype="boolean"),
            "d": pd.to_datetime(["2024-01-01T12:00Z", None]),
        }
    )
    i, b, d = read_table(frame).columns
    assert np.array_equal(i.values, [1, np.nan], equal_nan=True)
    assert np.array_equal(b.values, [1, np.nan], equal_nan=True)
    assert (d.form, d.missing.tolist()) == (DATE, [False, True])


def test_arrays_tensors_and_dicts_of_columns() -> None:
    x = np.arange(6.0).reshape(3, 2)
    for given in (x, torch.from_numpy(x), x.tolist(), {"x0": x[:, 0], "x1": x[:, 1]}):
        table = read_table(given)
        assert np.array_equal(np.stack([column.values for column in table.columns], axis=1), x)
    assert read_table(x).named is False


def test_words_that_mean_a_missing_value() -> None:
    (column,) = read_table({"c": ["NA", "x", "", "n/a"]}).columns
    assert column.values.tolist() == [None, "x", None, None]


def test_mixed_types_become_text() -> None:
    (column,) = read_table([{"c": 1}, {"c": "two"}, {"c": 3.5}]).columns
    assert column.values.tolist() == ["1", "two", "3.5"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.array([[1.0, np.inf]]), "column 'x1' contains infinity in row 0"),
        ([{"a": 1}, [2]], "some rows are dicts"),
        (pl.LazyFrame({"a": [1]}), "is lazy"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' occurs more than once"),
        (np.zeros(3), "Expected 2D array"),
    ],
)
def test_bad_tables(given: object, said: str) -> None:
    with pytest.raises(InvalidData, match=said):
        read_table(given)


@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}, (1,)])
def test_a_cell_that_is_no_value_names_its_column(cell: object) -> None:
    with pytest.raises(InvalidCell, match="column 'c' contains"):
        read_table([{"c": cell}])
    with pytest.raises(TypeError, match="column 'c' contains"):
        read_table(pd.DataFrame({"c": [cell]}))


def test_some_rows() -> None:
    table = read_table(ROWS)
    assert isinstance(table, RawTable)
    assert table.some(np.array([2])).columns[3].values.tolist() == ["c"]
