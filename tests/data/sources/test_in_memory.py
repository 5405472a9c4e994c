"""Tables in memory, and a custom source."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse
from whole_source import read_whole

from joker.data import Batch, Column, Schema, Source, as_source
from joker.errors import InvalidData, InvalidParameter, UnknownName


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "float64"])
@pytest.mark.parametrize("wrap", [np.asarray, torch.tensor, sparse.csr_array, pd.DataFrame], ids=lambda f: f.__name__)
def test_types_are_kept(rng, dtype, wrap):
    if wrap is sparse.csr_array and dtype == "float16":
        pytest.skip("SciPy has no such matrices")
    x = rng.integers(0, 100, (30, 4)).astype(dtype)
    y = rng.integers(0, 3, 30)
    source = as_source(wrap(x), y)
    assert source.dtype == dtype
    assert source.rows == 30
    got, targets = read_whole(source)
    np.testing.assert_array_equal(got, x)
    np.testing.assert_array_equal(targets, y)
    assert source.schema.target == "y"
    assert as_source(source) is source


def test_only_the_batch_is_copied(rng):
    x = rng.normal(size=(30, 4))
    assert np.shares_memory(next(as_source(x).batches(10)).x, x)
    assert next(as_source(torch.ones(3, 2, dtype=torch.bfloat16)).batches(2)).x.dtype == np.float32
    assert read_whole(as_source(torch.zeros(5, 2, 2, requires_grad=True)))[0].shape == (5, 4)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_data_frame(library):
    whole = pd.DataFrame(
        {"n": [1, 2, 3], "b": [True, False, True], "c": ["x", "y", "x"], "k": pd.Categorical(["u", "v", "v"])}
    )
    convert = {"pandas": lambda frame: frame, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}[library]
    frame = convert(whole)
    with pytest.raises(InvalidData, match="numbers; found 'x' at row 0, column 'c'"):
        as_source(frame)
    source = as_source(frame, target="n", categories="one-hot")
    assert source.schema == Schema((Column("b"), Column("c", ("x", "y")), Column("k", ("u", "v"))), "n")
    x, y = read_whole(source, 2)
    assert x.tolist() == [[1, 1, 0, 1, 0], [0, 0, 1, 0, 1], [1, 1, 0, 0, 1]]
    assert y.tolist() == [1, 2, 3]
    assert source.dtype == np.uint8
    other = convert(whole.assign(c=["x", "z", "x"]))
    with pytest.raises(InvalidData, match="found 'z' at row 1"):
        read_whole(as_source(other, schema=source.schema))
    assert read_whole(as_source(frame, ["a", "b", "a"], columns=["n"]))[1].tolist() == ["a", "b", "a"]
    text = as_source(frame, target="c", columns=["n"])
    assert text.schema.text_target
    assert read_whole(text)[1].tolist() == ["x", "y", "x"]


def test_a_column_of_several_types_is_text():
    frame = pd.DataFrame({"n": [1.0, 2.0, 3.0], "m": [1, "a", 1]})
    assert read_whole(as_source(frame, categories="one-hot"))[0].tolist() == [[1, 1, 0], [2, 0, 1], [3, 1, 0]]
    with pytest.raises(InvalidData, match="missing; one is at row 1, column 'm'"):
        as_source(frame.assign(m=[1, None, "a"]), categories="one-hot")


@pytest.mark.parametrize("kind", ["float64", "Int64", "Float32", "boolean"])
def test_missing_values_in_a_data_frame_are_named(kind):
    values = pd.Series([1, 0, None, 1], dtype="float64").astype(kind)
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": values})
    with pytest.raises(InvalidData, match="missing; one is at row 2, column 'b'"):
        read_whole(as_source(frame), 2)
    assert read_whole(as_source(frame.dropna()))[0][:, 1].tolist() == [1, 0, 1]


@pytest.mark.parametrize("wrap", [np.asarray, torch.tensor, sparse.csr_array, pd.DataFrame], ids=lambda f: f.__name__)
def test_infinite_values_are_named(wrap):
    x = np.eye(9, dtype=np.float32)
    x[7, 2] = -np.inf
    name = "2" if wrap is pd.DataFrame else "x2"
    with pytest.raises(InvalidData, match=f"found -inf at row 7, column '{name}'"):
        read_whole(as_source(wrap(x)), 4)


@pytest.mark.parametrize(
    ("x", "options", "error", "sentence"),
    [
        (np.ones(3), {}, InvalidData, "two or more dimensions"),
        ([["a"]], {}, InvalidData, "inputs must be numbers"),
        (np.ones((3, 1)), {"y": [1, 2]}, InvalidData, "as many rows as the inputs, 3"),
        (sparse.csr_array(np.eye(3)), {"y": [1, 2]}, InvalidData, "as many rows as X, 3"),
        (sparse.csr_array(np.eye(3)), {"target": 0}, InvalidData, "a separate array"),
        (pd.DataFrame({"a": [1, 2]}), {"y": [1]}, InvalidData, r"y must have shape \(2,\)"),
        (pd.DataFrame({"a": []}), {}, InvalidData, "at least one row"),
        (pd.DataFrame({"a": [1]}), {"target": "b"}, UnknownName, "target must be one of the columns 'a'"),
        (np.ones((3, 1)), {"dtype": "float16"}, InvalidParameter, "dtype must be"),
        (np.ones((3, 1)), {"categories": "drop"}, UnknownName, "categories must be one of"),
        (np.ones((3, 1)), {"schema": Schema((Column("a", ("u",)),))}, InvalidData, "which have categories"),
    ],
)
def test_wrong_tables_are_explained(x, options, error, sentence):
    with pytest.raises(error, match=sentence):
        as_source(x, **options)


class Squares(Source):
    """A custom source is a class with four attributes and one method."""

    name = "squares"
    schema = Schema.numbers(["i"], "square")
    dtype = np.dtype(np.float32)
    rows = 20

    def batches(self, rows):
        for first in range(0, self.rows, rows):
            i = np.arange(first, min(first + rows, self.rows), dtype=np.float32)
            yield Batch(i[:, None], i**2, first)


def test_a_custom_source():
    x, y = read_whole(as_source(Squares()))
    np.testing.assert_array_equal(y, x[:, 0] ** 2)
