"""The partition of the rows into blocks, and the order of the blocks, as functions of a seed."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from joker.data import ORDERS, Blocks
from joker.errors import InvalidParameter, UnknownName

every_order = pytest.mark.parametrize("order", ORDERS)


def epoch(blocks, number):
    return [blocks.visit(step) for step in range(number * blocks.count, (number + 1) * blocks.count)]


@given(n=st.integers(1, 400), size=st.integers(1, 450), seed=st.integers(0, 2**40))
def test_every_row_is_in_one_block_of_even_size(n, size, seed):
    blocks = Blocks(n, size, seed)
    parts = [blocks.rows(k) for k in range(blocks.count)]
    assert sorted(torch.cat(parts).tolist()) == list(range(n))
    sizes = [len(part) for part in parts]
    assert min(sizes) >= 1
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert blocks.count == -(-n // size)  # no more blocks than needed


@given(n=st.integers(1, 400), size=st.integers(1, 450))
def test_blocks_of_rows_in_random_order_are_slices(n, size):
    runs, drawn = Blocks(n, size, shuffled=True), Blocks(n, size)
    assert torch.cat([runs.rows(k) for k in range(runs.count)]).tolist() == list(range(n))
    assert "permutation" not in vars(runs)  # nothing of size n is made
    for blocks in (runs, drawn):
        for k, stop in blocks.runs(3 * size):
            numbers = torch.arange(n)[blocks.between(k, stop)] if blocks is runs else blocks.between(k, stop)
            assert torch.equal(numbers.long(), torch.cat([blocks.rows(j) for j in range(k, stop)]))
    assert epoch(runs, 3) == epoch(drawn, 3)  # the order of visits is that of the seed all the same


def test_blocks_are_drawn_at_random():
    """Rows that are sorted by class must not be in one block, which would then have one class only."""
    blocks = Blocks(10_000, 100)
    means = torch.stack([blocks.rows(k).double().mean() for k in range(blocks.count)])
    assert (means - 5000).abs().max() < 5 * 2887 / 10  # five standard errors; sorted rows: 4950
    assert means.std() > 100  # and not dealt out in turn, where every mean is the same


@given(n=st.integers(1, 60), size=st.integers(1, 20), seed=st.integers(0, 99), number=st.integers(0, 10**6))
def test_shuffled_visits_every_block_once_in_an_epoch(n, size, seed, number):
    blocks = Blocks(n, size, seed, "shuffled")
    assert sorted(epoch(blocks, number)) == list(range(blocks.count))


@given(n=st.integers(1, 60), size=st.integers(1, 20), number=st.integers(0, 10**6))
def test_cyclic_visits_the_blocks_in_order(n, size, number):
    blocks = Blocks(n, size, 0, "cyclic")
    assert epoch(blocks, number) == list(range(blocks.count))


def test_random_draws_with_replacement():
    blocks = Blocks(50, 1, 3, "random")
    visits = [epoch(blocks, number) for number in range(200)]
    distinct = np.mean([len(set(visited)) for visited in visits])
    assert distinct == pytest.approx(50 * (1 - (1 - 1 / 50) ** 50), abs=1)  # 31.8
    counts = Counter(block for visited in visits for block in visited)
    assert set(counts) == set(range(50))
    assert 120 < min(counts.values()) < 200 < max(counts.values()) < 280  # 200, give or take 14


@every_order
def test_the_same_seed_gives_the_same_order(order):
    one, again = Blocks(1000, 10, 5, order), Blocks(1000, 10, 5, order)
    torch.manual_seed(3)
    assert torch.equal(one.permutation, again.permutation)
    # In another order of asking: a step depends on its number alone.
    steps = list(range(350))
    assert [one.visit(s) for s in steps] == [again.visit(s) for s in reversed(steps)][::-1]


@every_order
def test_another_seed_gives_another_order(order):
    one, other = Blocks(1000, 10, 5, order), Blocks(1000, 10, 6, order)
    assert not torch.equal(one.permutation, other.permutation)
    assert (epoch(one, 0) == epoch(other, 0)) == (order == "cyclic")


@pytest.mark.parametrize("order", ["shuffled", "random"])
def test_epochs_differ(order):
    blocks = Blocks(1000, 10, 0, order)
    orders = [tuple(epoch(blocks, number)) for number in range(12)]
    assert len(set(orders)) == 12


def test_the_order_does_not_change_the_partition():
    parts = [Blocks(100, 7, 2, order).permutation for order in ORDERS]
    assert torch.equal(parts[0], parts[1])
    assert torch.equal(parts[0], parts[2])


def test_the_global_generator_is_not_used():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    blocks = Blocks(100, 10, 0)
    blocks.rows(3)
    blocks.visit(17)
    assert torch.equal(torch.rand(1), expected)


def test_many_rows():
    n = 3_000_017
    blocks = Blocks(n, 512)
    ends = [len(blocks.rows(k)) for k in range(blocks.count)]
    assert sum(ends) == n
    assert set(ends) == {511, 512}
    assert int(torch.bincount(blocks.permutation, minlength=n).max()) == 1
    assert sorted(epoch(blocks, 2)) == list(range(blocks.count))


def test_one_block_can_contain_all_rows():
    blocks = Blocks(5, 512)
    assert blocks.count == 1
    assert sorted(blocks.rows(0).tolist()) == [0, 1, 2, 3, 4]
    assert epoch(blocks, 3) == [0]


@pytest.mark.parametrize("size", [0, -1, 2.5, 4.0, "many", None, True])
def test_a_size_must_be_a_positive_whole_number(size):
    with pytest.raises(InvalidParameter, match=r"block_size must be a whole number of at least 1; got .*\. Use 512"):
        Blocks(10, size)


def test_a_size_may_be_any_whole_number():
    assert Blocks(10, np.int64(3)).count == 4


def test_a_misspelt_order_is_named():
    with pytest.raises(
        UnknownName, match=r"one of cyclic, random, shuffled; got 'shufled'\. Did you mean 'shuffled'\?"
    ):
        Blocks(10, 2, order="shufled")
