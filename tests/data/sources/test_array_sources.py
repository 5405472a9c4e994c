"""Arrays on disk: every type and memory order is read as written, and damaged files are explained."""

import numpy as np
import pytest
from whole_source import read_whole

from joker.data import Schema, open_source
from joker.errors import InvalidData, InvalidFile

STORED = ["uint8", "int16", "float16", "float32", "float64"]


@pytest.fixture
def table(rng):
    return rng.integers(0, 100, (30, 4))


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_keeps_its_type(tmp_path, table, dtype, order):
    np.save(tmp_path / "x.npy", np.asarray(table, dtype, order=order))
    source = open_source(tmp_path / "x.npy", target=-1)
    x, y = read_whole(source)
    assert source.dtype == dtype
    np.testing.assert_array_equal(x, table[:, :3])
    np.testing.assert_array_equal(y, table[:, 3])
    assert source.schema == Schema.numbers(["x0", "x1", "x2"], "x3")


@pytest.mark.parametrize(
    ("stored", "handed"),
    [("bool", "uint8"), ("int8", "int16"), (">f4", "float32"), ("int64", "float32"), ("uint16", "float32")],
)
def test_other_types_become_one_of_the_five(tmp_path, table, stored, handed):
    np.save(tmp_path / "x.npy", (table % 2).astype(stored))
    source = open_source(tmp_path / "x.npy")
    assert source.dtype == handed
    np.testing.assert_array_equal(read_whole(source)[0], table % 2)
    assert open_source(tmp_path / "x.npy", dtype="float64").dtype == np.float64


@pytest.mark.parametrize("order", ["C", "F"])
def test_images_are_flattened(tmp_path, rng, order):
    images = rng.integers(0, 256, (9, 3, 4, 2)).astype(np.uint8)
    np.save(tmp_path / "x.npy", np.asarray(images, order=order))
    np.testing.assert_array_equal(read_whole(open_source(tmp_path / "x.npy"), 4)[0], images.reshape(9, -1))


def test_a_target_in_a_second_file(tmp_path, table):
    np.save(tmp_path / "x.npy", table.astype(np.float32))
    np.save(tmp_path / "y.npy", table[:, 0].astype("U3"))
    source = open_source(tmp_path / "x.npy", target="y.npy")
    assert read_whole(source)[1].tolist() == table[:, 0].astype(str).tolist()
    assert source.schema.text_target
    np.save(tmp_path / "short.npy", table[:5, 0])
    with pytest.raises(InvalidData, match="as many rows as the inputs, 30"):
        open_source(tmp_path / "x.npy", target="short.npy")


def test_a_bad_value_is_named(tmp_path, table):
    x = table.astype(np.float32)
    x[20, 2] = np.nan
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(InvalidData, match="found nan at row 20, column 'x2'"):
        read_whole(open_source(tmp_path / "x.npy"))
    with pytest.raises(InvalidData, match="found nan at row 20, column 'x2'"):
        read_whole(open_source(tmp_path / "x.npy", target=2))


def test_another_width_is_refused(tmp_path, table):
    np.save(tmp_path / "x.npy", table.astype(np.float32))
    assert read_whole(open_source(tmp_path / "x.npy", schema=Schema.numbers("abcd")))[0].shape == (30, 4)
    with pytest.raises(InvalidData, match="5 inputs; the file has 4"):
        open_source(tmp_path / "x.npy", schema=Schema.numbers("abcde"))


def test_damaged_files_are_explained(tmp_path, table):
    path = tmp_path / "x.npy"
    np.save(path, table.astype(np.float32))
    raw = path.read_bytes()
    for text, sentence in [
        (raw[:-1], "must be complete"),
        (raw[:20], "numpy.save wrote"),
        (b"junk", "numpy.save wrote"),
    ]:
        path.write_bytes(text)
        with pytest.raises(InvalidFile, match=sentence):
            open_source(path)


@pytest.mark.parametrize(
    ("array", "error", "sentence"),
    [
        (np.zeros((0, 3)), InvalidData, "at least one row"),
        (np.zeros((3, 0)), InvalidData, "at least one row and one input"),
        (np.zeros(3), InvalidData, "two or more dimensions"),
        (np.array([["a", "b"]]), InvalidData, "inputs must be numbers"),
        (np.array([[1, None]], dtype=object), InvalidFile, "Python objects"),
        (np.zeros((3, 2), complex), InvalidData, "inputs must be numbers"),
        (np.zeros(()), InvalidFile, "a single number"),
    ],
)
def test_arrays_that_are_not_a_table_are_explained(tmp_path, array, error, sentence):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(error, match=sentence):
        open_source(tmp_path / "x.npy")
