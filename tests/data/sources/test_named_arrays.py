"""Arrays of .npz and HDF5 files, found by their names and read in parts."""

import builtins

import h5py
import numpy as np
import pytest
from scipy import sparse
from whole_source import read_whole

from joker.data import Schema, open_source
from joker.errors import InvalidData, InvalidFile, InvalidParameter, MissingPackage, UnknownName


def save_npz(path, **arrays):
    np.savez(path.with_suffix(".npz"), **arrays)
    return path.with_suffix(".npz")


def save_packed(path, **arrays):
    np.savez_compressed(path.with_suffix(".npz"), **arrays)
    return path.with_suffix(".npz")


def save_hdf5(path, **arrays):
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        for name, array in arrays.items():
            file[name] = array if array.dtype.kind != "U" else array.astype(object)
    return path.with_suffix(".h5")


def save_chunks(path, **arrays):
    with h5py.File(path.with_suffix(".hdf5"), "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array if array.dtype.kind != "U" else array.astype(object), compression=1)
    return path.with_suffix(".hdf5")


SAVERS = [save_npz, save_packed, save_hdf5, save_chunks]
each_saver = pytest.mark.parametrize("save", SAVERS)


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, (23, 3, 4)).astype(np.uint8)


@each_saver
@pytest.mark.parametrize("names", [("X", "y"), ("x", "Y"), ("data", "target"), ("X", "label"), ("pixels", "labels")])
def test_the_usual_names_are_found(tmp_path, images, save, names):
    y = np.arange(23) % 5
    path = save(tmp_path / "t", **dict(zip(names, (images, y), strict=True)), more=np.arange(4))
    source = open_source(path)
    x, targets = read_whole(source)
    assert source.dtype == np.uint8
    np.testing.assert_array_equal(x, images.reshape(23, 12))
    np.testing.assert_array_equal(targets, y)
    assert source.schema.target == names[1]


@each_saver
def test_other_names_are_given(tmp_path, images, save):
    path = save(tmp_path / "t", X_train=images, X_test=images[:5], y_train=np.arange(23), words=np.array(["a"] * 23))
    x, y = read_whole(open_source(path, inputs="X_train", target="y_train"))
    np.testing.assert_array_equal(x, images.reshape(23, 12))
    np.testing.assert_array_equal(y, np.arange(23))
    words = open_source(path, inputs="X_train", target="words")
    assert read_whole(words)[1].tolist() == ["a"] * 23
    assert words.schema.text_target
    assert read_whole(open_source(path, inputs="X_test"))[1] is None
    with pytest.raises(InvalidData, match=r"called X, x, data; found 'X_train' \(23, 3, 4\), .*Name it with inputs="):
        open_source(path, target="y_train")
    with pytest.raises(UnknownName, match=r"target must be one of its arrays, .*; got 'y_tain'"):
        open_source(path, inputs="X_train", target="y_tain")
    with pytest.raises(UnknownName, match="inputs must be one of its arrays"):
        open_source(path, inputs="X_tain", target="y_train")


@each_saver
def test_a_column_may_be_the_target(tmp_path, rng, save):
    table = rng.normal(size=(9, 3))
    x, y = read_whole(open_source(save(tmp_path / "t", table=table), target=-1))
    np.testing.assert_array_equal(x, table[:, :2])
    np.testing.assert_array_equal(y, table[:, 2])


@each_saver
def test_several_targets(tmp_path, rng, save):
    y = rng.normal(size=(9, 2))
    source = open_source(save(tmp_path / "t", X=rng.normal(size=(9, 3)), y=y), schema=Schema.numbers("abc", "y"))
    np.testing.assert_array_equal(read_whole(source)[1], y)


@each_saver
def test_bad_values_and_shapes_are_named(tmp_path, rng, save):
    x = rng.normal(size=(9, 3))
    x[8, 1] = np.inf
    with pytest.raises(InvalidData, match="found inf at row 8, column 'x1'"):
        read_whole(open_source(save(tmp_path / "t", X=x)))
    with pytest.raises(InvalidData, match="found inf at row 8, column 'y'"):
        read_whole(open_source(save(tmp_path / "u", X=np.ones((9, 2)), y=x[:, 1])))
    with pytest.raises(InvalidData, match="as many rows as the inputs, 9"):
        open_source(save(tmp_path / "v", X=x, y=np.arange(8)))
    with pytest.raises(InvalidParameter, match="delimiter must not be given"):
        open_source(tmp_path / save(tmp_path / "w", X=x), delimiter=";")


@each_saver
def test_a_truncated_file_is_refused(tmp_path, rng, save):
    path = save(tmp_path / "t", X=rng.normal(size=(900, 9)))
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(InvalidFile, match="must be a valid"):
        open_source(path)


@pytest.mark.parametrize("save", [save_npz, save_packed])
def test_a_changed_byte_in_an_archive_is_found(tmp_path, rng, save):
    path = save(tmp_path / "t", X=rng.integers(0, 9, (9000, 9)))
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(InvalidFile, match=r"must be a valid file of numpy\.savez"):
        read_whole(open_source(path), 500)


@pytest.mark.parametrize("save", [save_npz, save_packed])
def test_arrays_in_fortran_order(tmp_path, rng, save):
    x = rng.normal(size=(23, 3, 2))
    path = save(tmp_path / "t", X=np.asfortranarray(x), y=np.asfortranarray(x[:, :, 0]))
    got, y = read_whole(open_source(path))
    np.testing.assert_array_equal(got, x.reshape(23, 6))
    np.testing.assert_array_equal(y, x[:, :, 0])


def test_a_sparse_matrix_is_refused(tmp_path):
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_array(np.eye(3)))
    with pytest.raises(InvalidFile, match="a sparse matrix of SciPy"):
        open_source(tmp_path / "s.npz")


def test_a_missing_h5py_is_named(tmp_path, monkeypatch):
    path = save_hdf5(tmp_path / "t", X=np.ones((2, 2)))
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "h5py":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackage, match=r"pip install 'joker-kernels\[hdf5\]'"):
        open_source(path)
