"""Sparse rows are those of their matrix, and are read in memory that depends on the rows that are read only."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from peak_memory import ROUNDING, peak_bytes

from joker.data import SparseRows, TensorRows, as_rows, check_rows, distinct, sparse_rows
from joker.errors import InvalidData


def parts(matrix):
    return [torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data)]


def random_matrix(n=30, d=17, fill=0.2, seed=0, dtype=np.float64, index=np.int32):
    matrix = sp.random(n, d, fill, format="csr", random_state=seed, dtype=dtype)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    return matrix


@st.composite
def coordinates(draw):
    """Return a matrix with entries in any order, some of them several times, and with empty rows and columns."""
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    entry = st.tuples(st.integers(0, n - 1), st.integers(0, d - 1), st.integers(-4, 4))
    return n, d, draw(st.lists(entry, max_size=30))


@given(case=coordinates(), index=st.sampled_from([np.int32, np.int64]), data=st.data())
def test_rows_are_those_of_the_dense_matrix(case, index, data):
    n, d, entries = case
    entries = sorted(entries, key=lambda entry: entry[0])  # by row, in any order within
    rows, columns, values = (np.array([entry[i] for entry in entries], dtype=int) for i in range(3))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(index)
    matrix = sp.csr_array((values.astype(np.float64), columns.astype(index), starts), shape=(n, d))
    dense, found = torch.from_numpy(matrix.toarray()), sparse_rows(*parts(matrix), d)
    assert (found.shape, len(found), found.dtype) == ((n, d), n, torch.float64)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    assert torch.equal(found[start:stop], dense[start:stop])
    assert torch.equal(found[:], dense)
    numbers = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), max_size=10)), dtype=torch.int64)
    assert torch.equal(found[numbers], dense[numbers])
    assert torch.equal(found.some(numbers)[:], dense[numbers])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo], ids=str)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_tensors_are_accepted(dtype, layout):
    dense = torch.from_numpy(random_matrix().toarray()).to(dtype)
    found = check_rows(dense.to_sparse(layout=layout).requires_grad_())
    assert found.dtype == dtype
    assert torch.equal(found[:], dense)
    assert not found[:].requires_grad


def test_entries_at_the_same_place_are_summed():
    places, values = torch.tensor([[1, 1, 0], [2, 2, 0]]), torch.tensor([1.0, 3.0, 5.0])
    twice = torch.sparse_coo_tensor(places, values, (3, 4), check_invariants=True)
    assert torch.equal(as_rows(twice)[:], twice.to_dense())


def test_unused_entries_of_an_array_are_not_read():
    found = sparse_rows(torch.tensor([0, 1, 2]), torch.tensor([1, 0, 1]), torch.tensor([1.0, 2.0, math.nan]), 2)
    found.check("X")
    assert found[:].tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("fill", [0.0, 0.01, 1.0])
def test_reading_takes_the_bytes_that_row_bytes_says(fill, index):
    found = sparse_rows(*parts(random_matrix(300, 200, fill, index=index)), 200)
    fullest = found.starts.diff().argsort(descending=True)
    for b in (1, 20, 300):
        assert peak_bytes(lambda b=b: found[fullest[:b]]) <= b * found.row_bytes + ROUNDING
        assert peak_bytes(lambda b=b: found[:b]) <= b * found.row_bytes + ROUNDING


def test_pickled_rows_are_the_same():
    found = sparse_rows(*parts(random_matrix()), 17)
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again, SparseRows)
    assert torch.equal(again[:], found[:])


def wrong(starts, columns, values=(1.0, 2.0), inputs=3):
    return lambda: sparse_rows(torch.tensor(starts), torch.tensor(columns), torch.tensor(values), inputs)


WRONG = [
    (wrong([1, 1, 2], [0, 1]), "starts that do not rise from 0"),
    (wrong([0, 2, 1], [0, 1]), "starts that do not rise from 0"),
    (wrong([[0, 1, 2]], [0, 1]), "starts that do not rise from 0"),
    (wrong([0, 1, 3], [0, 1]), "3 entries, of which 2 are there"),
    (wrong([0, 1, 2], [0, 3]), "columns 0 to 3 of 3"),
    (wrong([0, 1, 2], [-1, 0]), "columns -1 to 0 of 3"),
    (wrong([0, 1, 2], [0, 1], (1, 2)), "must be float32 or float64; got int64"),
]


@pytest.mark.parametrize(("build", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_arrays_that_are_not_a_csr_matrix_are_refused(build, sentence):
    with pytest.raises(InvalidData, match=sentence):
        build()


@pytest.mark.parametrize(("value", "written"), [(math.nan, "nan"), (-math.inf, "-inf")])
def test_the_first_value_that_is_not_finite_is_named(value, written):
    matrix = random_matrix()
    matrix.data[[40, 60]] = value
    row, column = (int(place[40]) for place in matrix.tocoo().coords)
    with pytest.raises(InvalidData, match=rf"X must be finite; found {written} at row {row}, column {column}\. Remove"):
        check_rows(sparse_rows(*parts(matrix), 17))


def test_no_rows_and_no_inputs_are_refused():
    for shape in ((0, 3), (3, 0)):
        empty = sp.csr_array(shape)
        with pytest.raises(InvalidData, match="at least one row and one input"):
            check_rows(sparse_rows(*parts(empty), shape[1]))


@given(n=st.integers(1, 40), d=st.integers(1, 3), seed=st.integers(0, 9), few=st.booleans())
def test_distinct_rows_are_those_that_differ(n, d, seed, few):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(-1, 2, (n, d), generator=draw).double() * (0.1 if few else 1e-300)
    x[0, 0] = -0.0  # equals 0.0
    numbers = distinct(TensorRows(x))
    assert torch.equal(torch.unique(x[numbers], dim=0), torch.unique(x, dim=0))
    assert len(numbers) == len(torch.unique(x, dim=0))
    mixed = x[torch.randperm(n, generator=draw)]
    assert torch.equal(mixed[distinct(TensorRows(mixed))], x[numbers]), "the order must be that of the rows' own"
    assert torch.equal(distinct(as_rows(x.float().to_sparse())), distinct(TensorRows(x.float())))


def test_distinct_rows_are_found_in_bounded_memory():
    matrix = random_matrix(1000, 2000, 0.005, dtype=np.float32)
    found = sparse_rows(*parts(sp.vstack([matrix, matrix[::-1]]).tocsr()), 2000)
    assert len(distinct(found)) == 1000
    assert peak_bytes(lambda: distinct(found)) < 4e6  # the dense matrix takes 16 MB
