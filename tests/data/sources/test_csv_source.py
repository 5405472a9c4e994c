"""Delimited text is read as written, in batches of any size, and wrong files are explained."""

import bz2
import csv
import gzip
import lzma

import numpy as np
import pytest
from whole_source import read_whole

from joker.data import Column, Schema, open_source
from joker.data.readers.text import TEXT_BLOCK_BYTES
from joker.errors import InvalidData, InvalidFile, InvalidParameter, MissingFile, UnknownName

PACKED = {"": lambda raw: raw, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", [True, False])
def test_numbers_are_read_as_written(tmp_path, rng, suffix, delimiter, header):
    x = rng.normal(size=(50, 4)).astype(np.float32)
    lines = [delimiter.join(map(repr, map(float, row))) for row in x]
    text = "\n".join([delimiter.join("abcd"), *lines] if header else lines)
    path = write(tmp_path / f"t.csv{suffix}", PACKED[suffix](text.encode()))
    source = open_source(path, target=2)
    got, y = read_whole(source)
    np.testing.assert_array_equal(got, x[:, [0, 1, 3]])
    np.testing.assert_array_equal(y.astype(np.float32), x[:, 2])
    assert source.schema.names == (("a", "b", "d") if header else ("x0", "x1", "x3"))
    assert source.schema.target == ("c" if header else "x2")
    np.testing.assert_array_equal(read_whole(source, 50)[0], got)  # again, and otherwise cut


def test_float64_on_request(tmp_path):
    path = write(tmp_path / "t.csv", "a,y\n0.1,0.2\n")
    assert read_whole(open_source(path, target="y", dtype="float64"))[0][0, 0] == 0.1
    assert read_whole(open_source(path, target="y"))[1][0] == 0.2  # a target always has all its digits


def test_quoted_text_may_hold_delimiters_and_lines(tmp_path):
    rows = [["name, of it", "y"], ["1", "a,b"], ["2", 'say "x"'], ["3", "two\nlines"]]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    source = open_source(tmp_path / "t.csv", target="y")
    x, y = read_whole(source)
    assert x.ravel().tolist() == [1, 2, 3]
    assert y.tolist() == ["a,b", 'say "x"', "two\nlines"]
    assert source.schema == Schema((Column("name, of it"),), "y", text_target=True)


def test_a_quoted_line_break_may_fall_between_blocks(tmp_path):
    path = write(tmp_path / "t.csv", "v,y\n" + '1.5,"two\nlines"\n' * (TEXT_BLOCK_BYTES // 8))
    source = open_source(path, target="y")
    count = 0
    for batch in source.batches(10_000):
        assert set(batch.y) == {"two\nlines"}
        count += len(batch)
    assert count == TEXT_BLOCK_BYTES // 8


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a,b\n1,2\n", True),
        ("1,2\n3,4\n", False),
        ("0,1,label\n0.5,0.5,3\n", True),  # names that are numbers, but one
        ("1,red\n2,blue\n", False),
        (",a\n0,1\n", True),  # an index that pandas wrote
        ("name,kind\nx,y\n", True),
        ("1,,2\n3,4,5\n", False),
        ("1\n2\n", False),
        ("\n\na\n2\n", True),
        ("\ufeffa,b\n1,2\n", True),
    ],
)
def test_a_header_is_distinguished_from_a_row(tmp_path, text, named):
    from joker.data.readers.text import detect_format

    text_format = detect_format(tmp_path, text.encode(), "auto", None)
    assert text_format.named is named
    rest = text.encode()[text_format.offset :].decode()
    assert rest.strip() == text.strip().partition("\n")[2].strip() if named else rest.strip("\ufeff") == text


def test_the_user_can_override_the_header_rule(tmp_path):
    path = write(tmp_path / "t.csv", "1,2\n3,4\n")
    assert open_source(path, header=True).schema.names == ("1", "2")
    assert len(read_whole(open_source(path, header=False))[0]) == 2
    with pytest.raises(InvalidParameter, match="header must be"):
        open_source(path, header="yes")


def test_one_hot(tmp_path):
    path = write(tmp_path / "t.csv", "n,colour,y\n" + "1,red,0\n2,blue,1\n3,red,0\n" * 10)
    source = open_source(path, target="y", categories="one-hot")
    assert source.schema.names == ("n", "colour=blue", "colour=red")
    np.testing.assert_array_equal(read_whole(source)[0][:3], [[1, 0, 1], [2, 1, 0], [3, 0, 1]])


def test_a_schema_gives_the_same_columns(tmp_path):
    schema = Schema((Column("n"), Column("colour", ("blue", "red"))), "y")
    path = write(tmp_path / "t.csv", "colour,id,n\nblue,7,3\n")
    source = open_source(path, schema=schema)
    x, y = read_whole(source)
    assert x.tolist() == [[3, 1, 0]]
    assert y is None
    assert source.schema == schema
    bad = write(tmp_path / "u.csv", "colour,n\nblue,3\ngreen,4\n")
    with pytest.raises(InvalidData, match=r"levels of the training data, 'blue', 'red'; found 'green' at row 1\."):
        read_whole(open_source(bad, schema=schema))


def test_a_header_mismatch_names_both_sides(tmp_path):
    path = write(tmp_path / "t.csv", "a,c,d\n1,2,3\n")
    with pytest.raises(InvalidData, match=r"missing: 'b'; unknown: 'c', 'd'\. Rename"):
        open_source(path, schema=Schema.numbers("ab", "y"))


def test_columns_without_names_are_used_in_their_order(tmp_path):
    trained = write(tmp_path / "t.csv", "1,10,20\n0,30,40\n")
    schema = open_source(trained, target=0).schema
    assert read_whole(open_source(trained, schema=schema))[1].tolist() == [1, 0]
    bare = write(tmp_path / "u.csv", "5,6\n7,8\n")
    assert read_whole(open_source(bare, schema=schema))[0].tolist() == [[5, 6], [7, 8]]
    with pytest.raises(InvalidData, match="2 inputs; the file has 1 columns without names"):
        open_source(write(tmp_path / "v.csv", "5\n7\n"), schema=schema)


def test_columns_are_chosen_and_ordered(tmp_path):
    path = write(tmp_path / "t.csv", "a,b,c,word\n1,2,3,x\n")
    assert read_whole(open_source(path, target="a", columns=["c", 1]))[0].tolist() == [[3, 2]]
    for columns in (["a", "b"], ["b", "b"], []):
        with pytest.raises(InvalidParameter, match="columns must name at least one column"):
            open_source(path, target="a", columns=columns)
    with pytest.raises(InvalidParameter, match="list of names"):
        open_source(path, columns="b")
    with pytest.raises(InvalidParameter, match="with a schema"):
        open_source(path, columns=["b"], schema=Schema.numbers("ab"))


def test_true_and_false_are_numbers(tmp_path):
    path = write(tmp_path / "t.csv", "a,y\ntrue,1\nfalse,2\n")
    assert read_whole(open_source(path, target="y"))[0].tolist() == [[1], [0]]


BAD = [
    ("a,b\n1,2\n3,nan\n", InvalidData, r"no value may be missing; one is at row 1, column 'b'"),
    ("a,b\n1,2\n,4\n", InvalidData, r"no value may be missing; one is at row 1, column 'a'"),
    ("a,b\n1,2\n3,?\n", InvalidData, r"missing; one is at row 1, column 'b'"),
    ("a,b\n1,2\n3,inf\n", InvalidData, r"finite; found inf at row 1, column 'b'"),
    ("a,b\n1,2\n3,1e300\n", InvalidData, r"finite; found inf at row 1, column 'b'"),
    ("a,b\n1,2\n\n3,red\n", InvalidData, r"numbers; found 'red' at row 1, column 'b'\. Use categories="),
    ("a,b\n1,2\n3\n", InvalidData, r"every row must have 2 fields; row 1 has 1"),
    ("", InvalidData, r"at least one row and one input; the file is empty"),
    ("\n \n", InvalidData, r"the file is empty"),
    ("a,b\n", InvalidData, r"a header and no rows"),
    ("a,a\n1,2\n", InvalidData, r"names of columns must differ; 'a'"),
    ('a,b\n1,2\n"3,4\n5,6', InvalidData, r"every row must have 2 fields; row 1 has 1"),
    (
        "a,b\n" + "1" * 200_000 + ",2\n",
        InvalidFile,
        r"at most 131,072 characters in its first line; reading it failed \(field larger",
    ),
    (b"\xff\xfe1\x00,\x002\x00\n\x00" * 9, InvalidFile, r"must be text in UTF-8"),
]


@pytest.mark.parametrize(("text", "error", "sentence"), BAD)
def test_a_wrong_file_is_explained(tmp_path, text, error, sentence):
    with pytest.raises(error, match=sentence):
        read_whole(open_source(write(tmp_path / "t.csv", text)))


def test_a_wrong_target_is_explained(tmp_path):
    path = write(tmp_path / "t.csv", "age,price\n1,2\n2,\n")
    with pytest.raises(UnknownName, match=r"columns 'age', 'price'; got 'prize'\. Did you mean 'price'\?"):
        open_source(path, target="prize")
    with pytest.raises(InvalidData, match="missing; one is at row 1, column 'price'"):
        read_whole(open_source(path, target="price"))


def test_wrong_arguments_are_explained(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n1,2\n")
    with pytest.raises(MissingFile, match=r"gone\.csv does not"):
        open_source(tmp_path / "gone.csv")
    with pytest.raises(InvalidFile, match=r"suffix .* got 't\.doc'"):
        open_source(write(tmp_path / "t.doc", "a"))
    with pytest.raises(UnknownName, match="categories must be one of"):
        open_source(path, categories="onehot")
    with pytest.raises(InvalidFile, match="delimited text"):
        open_source(path, delimiter="::")
    with pytest.raises(InvalidParameter, match="dtype must be float32, float64"):
        open_source(path, dtype="int8")
    with pytest.raises(InvalidParameter, match="rows must be a whole number"):
        open_source(path).batches(0)


def test_one_text_does_not_make_a_column_of_numbers_a_category(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 30 + "x,2\n")
    with pytest.raises(InvalidData, match="found 'x' at row 30, column 'a'"):
        open_source(path, categories="one-hot")


@pytest.mark.parametrize("first", [True, False])
def test_text_after_the_first_megabyte_is_named_with_its_row(tmp_path, first):
    rows = TEXT_BLOCK_BYTES // 4 + 100
    path = write(tmp_path / "t.csv", "a,b\n" + "1,2\n" * rows + "3,red\n")
    with pytest.raises(InvalidData, match=f"'red' at row {rows}, column 'b'"):
        for _ in open_source(path, target="a", categories="one-hot" if first else "refuse").batches(10**6):
            pass


def test_too_many_levels_are_refused(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n" + "".join(f"1,w{i}\n" for i in range(1001)))
    with pytest.raises(InvalidData, match="at most 1000 levels; column 'b' has more"):
        open_source(path, categories="one-hot")


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_a_truncated_file_is_refused(tmp_path, rng, suffix):
    text = "\n".join(map(str, rng.normal(size=20_000)))
    raw = PACKED[suffix](text.encode())
    path = write(tmp_path / f"t.csv{suffix}", raw[: len(raw) // 2])
    with pytest.raises(InvalidFile, match="must be complete; its compressed data end early"):
        for _ in open_source(path).batches(10_000):
            pass
    noise = write(tmp_path / f"u.csv{suffix}", b"no such thing")
    with pytest.raises(InvalidFile, match="must be"):
        open_source(noise)


def test_a_file_without_permission_is_explained(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", "a,b\n1,2\n")

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("joker.data.readers.text.open_text", refuse)
    with pytest.raises(InvalidFile, match="that you may read; Permission denied"):
        open_source(path)
