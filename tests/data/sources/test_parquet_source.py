"""Parquet and Arrow files and folders of them: columns, categories, and errors for damaged files."""

import builtins
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from whole_source import read_whole

from joker.data import Column, Schema, open_source
from joker.errors import InvalidData, InvalidFile, InvalidParameter, MissingPackage, UnknownName


def save_parquet(table, path):
    parquet.write_table(table, path.with_suffix(".parquet"), row_group_size=11)
    return path.with_suffix(".parquet")


def save_feather(table, path):
    feather.write_feather(table, path.with_suffix(".feather"), chunksize=11)
    return path.with_suffix(".feather")


def save_arrow(table, path):
    with pa.OSFile(str(path.with_suffix(".arrow")), "w") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, 11)
    return path.with_suffix(".arrow")


each_saver = pytest.mark.parametrize("save", [save_parquet, save_feather, save_arrow])


@each_saver
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "float64"])
def test_a_shared_type_is_kept(tmp_path, rng, save, dtype):
    x = rng.integers(0, 100, (40, 3)).astype(dtype)
    table = pa.table({name: x[:, j] for j, name in enumerate("abc")} | {"y": np.arange(40)})
    source = open_source(save(table, tmp_path / "t"), target="y")
    assert source.dtype == dtype
    assert source.rows == 40
    got, y = read_whole(source)
    np.testing.assert_array_equal(got, x)
    np.testing.assert_array_equal(y, np.arange(40))
    np.testing.assert_array_equal(read_whole(source, 100)[0], x)
    assert open_source(save(table, tmp_path / "t"), columns=["c", "a"], dtype="float64").dtype == np.float64


@each_saver
def test_mixed_numbers_become_float32(tmp_path, save):
    table = pa.table(
        {"a": [1, 2], "b": [True, False], "c": [Decimal("1.5"), Decimal("2.5")], "d": pa.array([1, 2], pa.uint32())}
    )
    source = open_source(save(table, tmp_path / "t"))
    assert source.dtype == np.float32
    assert read_whole(source)[0].tolist() == [[1, 1, 1.5, 1], [2, 0, 2.5, 2]]


@each_saver
def test_columns_are_chosen_and_ordered(tmp_path, save):
    table = pa.table({"a": [1.0, 2.0], "word": ["x", "y"], "b": [3.0, 4.0], "y": ["no", "yes"]})
    source = open_source(save(table, tmp_path / "t"), target="y", columns=["b", "a"])
    x, y = read_whole(source)
    assert x.tolist() == [[3, 1], [4, 2]]
    assert y.tolist() == ["no", "yes"]
    assert source.schema == Schema.numbers("ba", "y", text_target=True)


@each_saver
@pytest.mark.parametrize("dictionary", [True, False])
def test_categories(tmp_path, save, dictionary):
    words = pa.array(["red", "blue", "red"] * 20)
    table = pa.table({"n": np.arange(60.0), "colour": words.dictionary_encode() if dictionary else words})
    path = save(table, tmp_path / "t")
    with pytest.raises(InvalidData, match=r"numbers; column 'colour' has type .*Use categories="):
        open_source(path)
    source = open_source(path, categories="one-hot")
    assert source.schema == Schema((Column("n"), Column("colour", ("blue", "red"))))
    assert source.dtype == np.float64
    x, _ = read_whole(source)
    np.testing.assert_array_equal(x[:3], [[0, 0, 1], [1, 1, 0], [2, 0, 1]])
    alone = open_source(path, columns=["colour"], categories="one-hot")
    assert alone.dtype == np.uint8
    again = save(pa.table({"colour": ["green", "blue"], "n": [1.0, 2.0]}), tmp_path / "u")
    with pytest.raises(InvalidData, match="found 'green' at row 0"):
        read_whole(open_source(again, schema=source.schema))


def test_a_folder_is_read_in_order(tmp_path, rng):
    x = rng.normal(size=(50, 2))
    for part in range(5):
        rows = x[part * 10 : part * 10 + 10]
        save_parquet(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), tmp_path / f"part{part}")
    (tmp_path / "_SUCCESS").touch()
    source = open_source(tmp_path)
    assert source.rows == 50
    np.testing.assert_array_equal(read_whole(source)[0], x)
    save_parquet(pa.table({"a": [1.0], "c": [1.0]}), tmp_path / "part5")
    with pytest.raises(InvalidData, match=r"part5.parquet: all files of a folder must have the same columns"):
        open_source(tmp_path)
    save_parquet(pa.table({"a": [1], "b": [1.0]}), tmp_path / "part5")
    with pytest.raises(InvalidData, match=r"types; 'a' differs from part0\.parquet"):
        open_source(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InvalidFile, match=r"only Arrow files; found \.parquet, \.txt"):
        open_source(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidFile, match="found no files"):
        open_source(tmp_path / "empty")


@each_saver
def test_bad_values_are_named(tmp_path, save):
    a = np.arange(30.0)
    gaps = pa.array(a, mask=a == 20)
    with pytest.raises(InvalidData, match="missing; one is at row 20, column 'b'"):
        read_whole(open_source(save(pa.table({"a": a, "b": gaps}), tmp_path / "t")))
    with pytest.raises(InvalidData, match="missing; one is at row 20, column 'b'"):
        read_whole(open_source(tmp_path / save(pa.table({"a": a, "b": gaps}), tmp_path / "t"), target="b"))
    with pytest.raises(InvalidData, match="found inf at row 20, column 'b'"):
        read_whole(open_source(save(pa.table({"a": a, "b": np.where(a == 20, np.inf, a)}), tmp_path / "u")))
    words = pa.array(["x"] * 30, mask=a == 20)
    with pytest.raises(InvalidData, match="missing; one is at row 20, column 'w'"):
        open_source(save(pa.table({"a": a, "w": words}), tmp_path / "v"), categories="one-hot")
    many = pa.array([f"w{i}" for i in range(1001)])
    with pytest.raises(InvalidData, match="at most 1000 levels; column 'w' has more"):
        open_source(save(pa.table({"w": many}), tmp_path / "w"), categories="one-hot")


@each_saver
def test_wrong_tables_are_explained(tmp_path, save):
    path = save(pa.table({"a": [1.0], "when": pa.array([0], pa.timestamp("s")), "list": [[1]]}), tmp_path / "t")
    with pytest.raises(InvalidData, match=r"column 'when' has type timestamp\[m?s\]\. Convert it to numbers"):
        open_source(path, columns=["a", "when"], categories="one-hot")
    with pytest.raises(InvalidData, match="a target must be numbers or text; column 'list'"):
        open_source(path, columns=["a"], target="list")
    with pytest.raises(UnknownName, match="target must be one of the columns"):
        open_source(path, target="y")
    with pytest.raises(InvalidData, match=r"missing: 'b'; unknown: 'when', 'list'\."):
        open_source(path, schema=Schema.numbers("ab"))
    with pytest.raises(InvalidParameter, match="header must not be given"):
        open_source(path, header=True)
    with pytest.raises(InvalidData, match="it has 0 rows and 1 inputs"):
        open_source(save(pa.table({"a": pa.array([], pa.float32())}), tmp_path / "u"))
    with pytest.raises(InvalidData, match="it has 1 rows and 0 inputs"):
        open_source(save(pa.table({"a": [1.0]}), tmp_path / "v"), target="a")


@each_saver
@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_refused(tmp_path, rng, save, part):
    path = save(pa.table({"a": rng.normal(size=1000)}), tmp_path / "t")
    raw = path.read_bytes()
    path.write_bytes(raw[: int(part * len(raw))])
    with pytest.raises(InvalidFile, match="must be a valid Parquet or Arrow file"):
        open_source(path)


def test_damage_inside_a_file_is_found(tmp_path, rng):
    path = save_parquet(pa.table({"a": rng.normal(size=1000)}), tmp_path / "t")
    raw = bytearray(path.read_bytes())
    raw[100:5000] = bytes(4900)
    path.write_bytes(raw)
    with pytest.raises(InvalidFile, match="must be a valid Parquet"):
        read_whole(open_source(path), 100)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_missing_pyarrow_is_named(tmp_path, monkeypatch, name):
    (tmp_path / name).write_text("a\n1\n")
    real = builtins.__import__

    def without(module, *args, **kwargs):
        if module.startswith("pyarrow"):
            raise ImportError(module)
        return real(module, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackage, match=r"pip install 'joker-kernels\[tables\]'"):
        open_source(tmp_path / name)
