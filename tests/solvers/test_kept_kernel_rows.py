"""Kept rows of the kernel matrix: the same products, in bounded memory, whatever was kept before."""

from __future__ import annotations

import pytest
import torch

from joker import kernels
from joker.data import TensorRows
from joker.kernels.kernel import KernelWithConstant
from joker.solvers.kernel_cache import LONG_TILE, MOST_SUMMED, TILE, KernelCache, cache_bytes, cached_rows

KERNEL = kernels.get("gaussian", bandwidth=1.5)
X = torch.randn(700, 4, generator=torch.Generator().manual_seed(0))
K = KERNEL(X.double(), X.double())


def kept(count: int) -> KernelCache:
    return KernelCache(TensorRows(X), KERNEL, count, 2**24)


def random_rows(seed: int, k: int) -> torch.Tensor:
    return torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))[:k]


@pytest.mark.parametrize("count", [60, 200, 700])
@pytest.mark.parametrize("columns", [1, MOST_SUMMED, MOST_SUMMED + 1])
def test_products_are_those_of_the_kernel_matrix(count: int, columns: int) -> None:
    """Also where rows have to make room for others, and where a block has more rows than are kept."""
    memory = kept(count)
    for seed in range(12):
        rows, out = random_rows(seed, 90), torch.ones(len(X), columns)
        v = torch.randn(len(rows), columns, generator=torch.Generator().manual_seed(seed))
        memory.add_product(rows, X[rows], v, out)
        torch.testing.assert_close(out.double(), 1 + K[:, rows] @ v.double(), rtol=1e-4, atol=1e-4)
        used = memory.slot >= 0
        assert int(used.sum()) <= count
        assert torch.equal(memory.row[memory.slot[used]], used.nonzero()[:, 0])


@pytest.mark.parametrize("count", [60, 700])
def test_the_whole_product_leaves_out_zeros_and_keeps_what_fits(count: int) -> None:
    memory = kept(count)
    memory.add_product(random_rows(1, 50), X[random_rows(1, 50)], torch.ones(50, 1), torch.zeros(len(X), 1))
    v = torch.randn(len(X), 3, generator=torch.Generator().manual_seed(5))
    v[300:] = 0
    for _ in range(2):
        out = torch.zeros(len(X), 3)
        memory.add_whole_product(v, out)
        torch.testing.assert_close(out.double(), K @ v.double(), rtol=1e-4, atol=1e-4)
    assert memory.filled <= count
    assert count == 60 or int((memory.slot[300:] >= 0).sum()) <= 50


@pytest.mark.parametrize("count", [60, 600, 700])
def test_the_whole_product_with_every_row(count: int) -> None:
    """Where the first rows are kept, the others are computed once for each pair."""
    memory = kept(count)
    for seed in range(2):
        v = torch.randn(len(X), 3, generator=torch.Generator().manual_seed(seed))
        out = torch.zeros(len(X), 3)
        memory.add_whole_product(v, out)
        torch.testing.assert_close(out.double(), K @ v.double(), rtol=1e-4, atol=1e-4)
    assert torch.equal(memory.row, torch.arange(count))


def test_the_whole_product_does_not_depend_on_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joker.solvers.kernel_cache.TILE", 32)
    v = torch.randn(len(X), 3, generator=torch.Generator().manual_seed(0))
    products = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 4, 4, 4):
            torch.set_num_threads(threads)
            products.append(torch.zeros(len(X), 3))
            kept(60).add_whole_product(v, products[-1])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(products[0], other) for other in products[1:])


def test_the_product_with_a_block_does_not_depend_on_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    found, rows = [], random_rows(1, 600)
    for threads in (1, 2):
        monkeypatch.setattr("joker.runtime.devices.thread_count", lambda threads=threads: threads)
        out = torch.zeros(len(X), 1)
        kept(700).add_product(rows, X[rows], X[rows, :1], out)
        found.append(out)
    assert torch.equal(*found)


@pytest.mark.parametrize("whole", [False, True])
def test_the_sum_of_an_intercept_is_precise(whole: bool) -> None:
    """Dual points of a small λ are large, and their sum is almost 0: float32 would lose it."""
    memory = KernelCache(TensorRows(X), KernelWithConstant(kernels.get("gaussian", bandwidth=1e-3)), 700, 2**24)
    v, out = 1e6 * torch.randn(len(X), 1, generator=torch.Generator().manual_seed(1)), torch.zeros(len(X), 1)
    v -= v.double().mean().float()
    if whole:
        memory.add_whole_product(v, out)
    else:
        memory.add_product(torch.arange(len(X)), X, v, out)
    expected = v.double() + v.double().sum()  # the kernel of two rows is 0
    assert (out.double() - expected).abs().max() <= 2 * torch.finfo(torch.float32).eps * expected.abs().max()


def test_a_row_is_computed_once() -> None:
    calls = []

    class Counted:
        diag, work_bytes, constant = KERNEL.diag, KERNEL.work_bytes, 0.0

        @property
        def without_constant(self) -> Counted:
            return self

        def __call__(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            calls.append(len(z))
            return KERNEL(x, z)

    memory = KernelCache(TensorRows(X), Counted(), 300, 2**24)
    rows = random_rows(2, 200)
    for _ in range(3):
        memory.add_product(rows, X[rows], torch.ones(200, 1), torch.zeros(len(X), 1))
    assert sum(calls) == len(X)


def test_the_kernel_of_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    """So a solve that is continued, and computes rows anew, ends with the same bits."""
    one, other = kept(700), kept(700)
    rows = random_rows(3, 100)
    one.add_product(rows, X[rows], torch.ones(100, 1), torch.zeros(len(X), 1))
    for row in rows.flip(0).split(7):
        other.add_product(row, X[row], torch.ones(len(row), 1), torch.zeros(len(X), 1))
    assert torch.equal(one.memory[one.slot[rows]], other.memory[other.slot[rows]])


@pytest.mark.parametrize(("times", "longest"), [(1.0, LONG_TILE), (0.9, TILE)])
def test_tiles_are_shorter_where_the_scratch_space_is_small(
    monkeypatch: pytest.MonkeyPatch, times: float, longest: int
) -> None:
    """The space is that of one long tile of 64 new rows, or less."""
    x = torch.randn(2 * LONG_TILE, 4, generator=torch.Generator().manual_seed(1))
    memory = KernelCache(TensorRows(x), KERNEL, 64, int(times * KERNEL.work_bytes(LONG_TILE, 64, 4, 4)))
    tiles: list[slice] = []
    monkeypatch.setattr("joker.solvers.kernel_cache.share", lambda work, parts, most=None: tiles.extend(parts))
    memory._compute(x[:64], torch.arange(64))
    assert {tile.stop - tile.start for tile in tiles} == {longest}


@pytest.mark.parametrize("room", [0, 10**5, 10**6, 10**7])
def test_kept_rows_fit_their_room(room: int) -> None:
    count = cached_rows(1_000, 64, room, 4)
    assert cache_bytes(1_000, count, 4) <= room or count == 0
    assert count == 0 or 128 <= count <= 1_000
    assert cached_rows(1_000, 64, 10**9, 4) == 1_000


@pytest.mark.parametrize("count", [60, 234, 350])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_shares_of_all_processes_are_the_whole_product(count: int, size: int) -> None:
    """Also where the processes keep all rows together, and where an intercept is added: by one of them."""
    kernel = KernelWithConstant(KERNEL)
    processes = [KernelCache(TensorRows(X), kernel, count + rank, 2**24) for rank in range(size)]
    for seed in range(2):
        v = torch.randn(len(X), 2, generator=torch.Generator().manual_seed(seed))
        total = torch.zeros(len(X), 2, dtype=torch.float64)
        for rank, process in enumerate(processes):
            share = torch.zeros(len(X), 2)
            process.add_share(v, share, count, rank, size)
            total += share
        expected = (K + kernel.constant) @ v.double()
        torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-4)


def test_processes_do_not_compute_the_same_entries() -> None:
    evaluations = []

    class Counted(type(KERNEL)):
        def __call__(self, x, z):
            evaluations[-1] += len(x) * len(z)
            return super().__call__(x, z)

    n = 4 * TILE
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(0))
    for size in (1, 2):
        evaluations.append(0)
        for rank in range(size):
            process = KernelCache(TensorRows(x), Counted(1.0), 64, 2**24)
            process.add_share(torch.ones(n, 1), torch.zeros(n, 1), 64, rank, size)
            evaluations[-1] -= 64 * n  # the rows that it keeps
    assert evaluations[1] < evaluations[0] < 0.7 * n**2
