"""LIBSVM text: sparse rows with labels."""

import gzip

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from whole_source import read_whole

from joker.data import Schema, open_source
from joker.data.readers.text import TEXT_BLOCK_BYTES
from joker.errors import InvalidData, InvalidFile, InvalidParameter, UnknownName


@pytest.fixture
def matrix(rng):
    x = rng.normal(size=(60, 9)).astype(np.float32) * (rng.random((60, 9)) < 0.3)
    x[0, [0, 8]] = 1.5  # the first and the last column are there
    return x.astype(np.float32), rng.integers(0, 2, 60) * 2.0 - 1


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("name", ["t.svm", "t.libsvm.gz", "t.txt", "t", "t.binary.scale", "t.txt.gz"])
def test_rows_are_read_as_written(tmp_path, matrix, zero_based, name):
    dump_svmlight_file(*matrix, str(tmp_path / "plain"), zero_based=zero_based)
    path = write(tmp_path / name, (tmp_path / "plain").read_text())
    source = open_source(path)
    assert source.rows == 60
    assert source.dtype == np.float32
    x, y = read_whole(source)
    np.testing.assert_array_equal(x, matrix[0])
    np.testing.assert_array_equal(y, matrix[1])
    assert source.schema.names[0] == ("0" if zero_based else "1")
    assert sparse.issparse(next(source.batches(5)).x)


def test_a_schema_keeps_width_and_base(tmp_path):
    train = open_source(write(tmp_path / "t.svm", "1 0:1 4:1\n")).schema
    test = open_source(write(tmp_path / "u.svm", "1 1:1\n-1 3:2 # a comment\n\n2\n"), schema=train)
    x, y = read_whole(test)
    assert x.tolist() == [[0, 1, 0, 0, 0], [0, 0, 0, 2, 0], [0] * 5]
    assert y.tolist() == [1, -1, 2]
    with pytest.raises(InvalidData, match=r"training data, 0 to 4; found 5 at row 1\."):
        read_whole(open_source(write(tmp_path / "v.svm", "1 1:1\n1 2:1 5:1\n"), schema=train))
    named = open_source(tmp_path / "u.svm", schema=Schema.numbers("abc", "y"))
    assert read_whole(named)[0].tolist() == [[1, 0, 0], [0, 0, 2], [0, 0, 0]]


def test_columns_are_chosen_and_ordered(tmp_path):
    path = write(tmp_path / "t.svm", "1 1:1 2:2 3:3\n2 2:5\n")
    source = open_source(path, columns=["3", "2"])
    assert read_whole(source)[0].tolist() == [[3, 2], [0, 5]]


def test_more_rows_than_a_block(tmp_path):
    rows = TEXT_BLOCK_BYTES // 10
    path = write(tmp_path / "t.svm", "".join(f"{i} 1:{i} 7:1\n" for i in range(rows)))
    x, y = read_whole(open_source(path, dtype="float64"), 10_000)
    np.testing.assert_array_equal(x[:, 0], np.arange(rows))
    np.testing.assert_array_equal(y, np.arange(rows))


BAD = [
    ("1 1:1\nspam 1:1\n", "row 1 has the label 'spam'"),
    ("1 1:1\n1 1:x\n", "row 1 has '1:x'"),
    ("1 1:1\n1 3:1 2:1\n", "row 1 has '2:1'"),
    ("1 1:1\n1 -3:1\n", "row 1 has '-3:1'"),
    ("1 1:1\n1 a\n", "row 1 has 'a'"),
    ("1 1:1\n1 2:nan\n", "found nan at row 1, column '2'"),
    ("1 1:1\ninf 2:1\n", "found inf at row 1, column 'label'"),
    ("", "the file is empty"),
    ("# nothing\n", "the file is empty"),
    ("1\n2\n", "2 rows and no entries"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD)
def test_a_wrong_file_is_explained(tmp_path, text, sentence):
    with pytest.raises(InvalidData, match=sentence):
        read_whole(open_source(write(tmp_path / "t.svm", text)))


def test_wrong_arguments_and_truncated_files_are_explained(tmp_path, rng):
    path = write(tmp_path / "t.svm.gz", "".join(f"1 1:{v}\n" for v in rng.normal(size=9000)))
    with pytest.raises(UnknownName, match="target must be 'label'"):
        open_source(path, target="y")
    with pytest.raises(InvalidParameter, match="header must not be given"):
        open_source(path, header=False)
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(InvalidFile, match="compressed data end early"):
        open_source(path)
