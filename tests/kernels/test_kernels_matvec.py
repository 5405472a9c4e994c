"""Matrix-vector products in tiles: the same numbers, inside the budget."""

import importlib
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peak_memory import ROUNDING, peak_bytes

from joker import kernels
from joker.errors import BudgetTooSmall
from joker.kernels.kernel import SHORTEST, matvec, tile_shape

matvec_module = importlib.import_module("joker.kernels.kernel")  # the function has the same name
every_kernel = pytest.mark.parametrize(
    "kernel", [kernels.get(name, bandwidth=1.7) for name in kernels.KERNELS], ids=repr
)


def problem(n, k, d=4, t=3, dtype=torch.float64):
    source = torch.Generator().manual_seed(n)
    return [torch.randn(shape, generator=source, dtype=dtype) for shape in ((n, d), (k, d), (k, t))]


@pytest.fixture
def single_thread():
    """The peak of several threads depends on chance: their tiles may or may not exist at the same time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@every_kernel
@settings(max_examples=30)
@given(n=st.integers(1, 40), k=st.integers(1, 40), share=st.floats(0, 1.2))
def test_tiles_give_the_whole_product(kernel, n, k, share):
    x, z, v = problem(n, k)
    least, most = (kernel.work_bytes(*shape, 4, 8) for shape in ((1, 1), (n, k)))
    product = matvec(kernel, x, z, v, least + int(share * (most - least)))
    torch.testing.assert_close(product, kernel(x, z) @ v, rtol=1e-10, atol=1e-10)


@every_kernel
@pytest.mark.parametrize("shape", [(3000, 40), (40, 3000), (600, 600)], ids=str)
@pytest.mark.parametrize("budget", [5_000, 60_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_work_space_stays_inside_the_budget_and_uses_it(single_thread, kernel, shape, budget, dtype):
    """The whole matrix needs 0.5 to 5 MB."""
    x, z, v = problem(*shape, t=1, dtype=dtype)
    rows, columns = tile_shape(kernel, x, z, budget)
    x, z, v = x[: 3 * rows], z[: 3 * columns], v[: 3 * columns]
    out = torch.zeros(len(x), 1, dtype=dtype)
    peak = peak_bytes(lambda: matvec(kernel, x, z, v, budget, out=out))
    assert peak <= budget + ROUNDING
    assert peak > budget / 3


@every_kernel
def test_threads_count_the_tiles_that_they_compute(monkeypatch, kernel):
    """The rows are divided; then the budget of two tiles allows two threads."""
    shared = []
    monkeypatch.setattr(matvec_module, "share", lambda work, parts, most: shared.append((list(parts), most)))
    x, z, v = problem(2 * SHORTEST, 40, t=1)
    matvec(kernel, x, z, v, 2 * kernel.work_bytes(SHORTEST, 40, 4, 8))
    assert shared == [([0, SHORTEST], 2)]


def test_a_small_matrix_is_not_divided(monkeypatch):
    shared = []
    monkeypatch.setattr(matvec_module, "share", lambda work, parts, most: shared.append(list(parts)))
    matvec(kernels.Gaussian(), *problem(SHORTEST, 40, t=1))
    assert shared == [[0]]


class Copies:
    """Rows that are copied when they are read."""

    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype

    def __getitem__(self, rows):
        return self.x[rows].clone()


@pytest.mark.parametrize("made", [(True, True), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("kernel", [kernels.Gaussian(), kernels.Linear()], ids=repr)
def test_copied_rows_count_in_the_budget(kernel, made):
    x, z, v = problem(200, 150, d=30, t=1)
    row_bytes = tuple(30 * 8 * one for one in made)
    rows = [Copies(side) if one else side for side, one in zip((x, z), made, strict=True)]
    out = torch.zeros(200, 1, dtype=torch.float64)
    peak = peak_bytes(lambda: matvec(kernel, *rows, v, 40_000, out=out, row_bytes=row_bytes))
    torch.testing.assert_close(out, kernel(x, z) @ v, rtol=1e-10, atol=1e-10)
    assert 40_000 / 3 < peak <= 40_000 + ROUNDING


@pytest.mark.parametrize(("n", "k"), [(10, 300), (300, 10), (200, 200)])
@pytest.mark.parametrize("row_bytes", [(1_000, 0), (0, 1_000), (300, 700)], ids=str)
def test_a_tile_is_the_largest_square_that_fits_with_its_rows(n, k, row_bytes):
    """Each side is cut at the matrix; found here by trying all sides. Reading x and z takes different bytes."""
    x, z, _ = problem(n, k)

    def taken(side):
        b, c = min(side, n), min(side, k)
        return 8 * (b * c + (b + c + 1) * 5) + b * row_bytes[0] + c * row_bytes[1]

    largest = max(side for side in range(1, 301) if taken(side) <= 60_000)
    assert tile_shape(kernels.Gaussian(), x, z, 60_000, row_bytes) == (min(largest, n), min(largest, k))


def test_every_entry_is_computed_once():
    seen = torch.zeros(50, 70)

    class Spy(kernels.Linear):
        def __call__(self, x, z):
            seen[x.long(), z.long().T] += 1
            return super().__call__(x, z)

    x, z = torch.arange(50.0).unsqueeze(1), torch.arange(70.0).unsqueeze(1)
    matvec(Spy(), x, z, torch.ones(70, 1), budget=1000)
    assert torch.equal(seen, torch.ones(50, 70))


@every_kernel
def test_it_adds_to_out(kernel):
    x, z, v = problem(30, 20)
    out = torch.full((30, 3), 2.0, dtype=torch.float64)
    assert matvec(kernel, x, z, v, 2000, out=out) is out
    torch.testing.assert_close(out, 2.0 + kernel(x, z) @ v, rtol=1e-10, atol=1e-10)


def test_it_adds_to_some_rows_of_a_larger_state():
    x, z, v = problem(30, 20)
    state = torch.zeros(50, 6, dtype=torch.float64)
    matvec(kernels.Gaussian(), x, z, v, 2000, out=state[10:40, ::2])
    torch.testing.assert_close(state[10:40, ::2], kernels.Gaussian()(x, z) @ v)
    assert state[:10].abs().sum() == state[40:].abs().sum() == state[:, 1::2].abs().sum() == 0


@pytest.mark.parametrize(("n", "k"), [(0, 5), (5, 0), (0, 0)])
def test_no_rows_give_no_products(n, k):
    x, z, v = problem(n, k)
    assert torch.equal(matvec(kernels.Gaussian(), x, z, v), torch.zeros(n, 3, dtype=torch.float64))


@every_kernel
def test_a_budget_too_small_names_the_smallest_that_does(kernel):
    x, z, v = problem(6, 5)
    with pytest.raises(BudgetTooSmall, match="memory must hold at least one entry") as caught:
        matvec(kernel, x, z, v, 8)
    smallest = int(re.search(r"memory=(\d+) ", str(caught.value))[1])
    torch.testing.assert_close(matvec(kernel, x, z, v, smallest), kernel(x, z) @ v)
    with pytest.raises(BudgetTooSmall):
        matvec(kernel, x, z, v, smallest - 1)
