"""The partition of the rows into blocks, and the order of the blocks, as functions of a seed."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from joker.data import Blocks
from joker.errors import InvalidParameter


def epoch(blocks, number):
    return [blocks.rows(step) for step in range(number * blocks.count, (number + 1) * blocks.count)]


def as_sets(parts):
    return {frozenset(part.tolist()) for part in parts}


@given(n=st.integers(1, 400), size=st.integers(1, 450), seed=st.integers(0, 2**40), number=st.integers(0, 10**6))
def test_every_row_is_in_one_block_of_even_size(n, size, seed, number):
    blocks = Blocks(n, size, seed)
    parts = epoch(blocks, number)
    assert sorted(torch.cat(parts).tolist()) == list(range(n))
    sizes = [len(part) for part in parts]
    assert min(sizes) >= 1
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert blocks.count == -(-n // size)  # no more blocks than needed


@given(n=st.integers(1, 400), size=st.integers(1, 450), seed=st.integers(0, 99), number=st.integers(0, 99))
def test_blocks_of_shuffled_rows_are_one_or_two_runs(n, size, seed, number):
    """So that rows on a disk are read in two pieces; still every row once, and no block too large."""
    blocks = Blocks(n, size, seed, shuffled=True)
    parts = epoch(blocks, number)
    assert sorted(torch.cat(parts).tolist()) == list(range(n))
    assert max(len(part) for part in parts) <= size
    for step, part in enumerate(parts, start=number * blocks.count):
        runs = blocks.runs(step)
        assert len(runs) <= 2
        assert part.tolist() == [row for run in runs for row in range(run.start, run.stop)]


@pytest.mark.parametrize("shuffled", [False, True])
def test_blocks_are_drawn_anew_for_each_epoch(shuffled):
    """Rows of one block in an epoch are in different blocks in the next."""
    blocks = Blocks(4_000, 100, shuffled=shuffled)
    first, second = as_sets(epoch(blocks, 0)), as_sets(epoch(blocks, 1))
    assert not first & second
    shared = np.mean([max(len(one & other) for other in second) for one in first])
    assert shared <= (52 if shuffled else 15)  # half of a block stays together where it is one run


def test_blocks_are_drawn_at_random():
    """Rows that are sorted by class must not be in one block, which would then have one class only."""
    means = torch.stack([part.double().mean() for part in epoch(Blocks(10_000, 100), 0)])
    assert (means - 5000).abs().max() < 5 * 2887 / 10  # five standard errors; sorted rows: 4950
    assert means.std() > 100  # and not dealt out in turn, where every mean is the same


def test_the_same_seed_gives_the_same_blocks():
    one, again = Blocks(1000, 10, 5), Blocks(1000, 10, 5)
    torch.manual_seed(3)
    # In another order of asking: a step depends on its number alone.
    steps = list(range(350))
    assert [one.rows(s).tolist() for s in steps] == [again.rows(s).tolist() for s in reversed(steps)][::-1]


def test_another_seed_gives_other_blocks():
    assert not as_sets(epoch(Blocks(1000, 10, 5), 0)) & as_sets(epoch(Blocks(1000, 10, 6), 0))


def test_the_global_generator_is_not_used():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    blocks = Blocks(100, 10, 0)
    blocks.rows(3)
    Blocks(100, 10, 0, shuffled=True).rows(17)
    assert torch.equal(torch.rand(1), expected)


def test_many_rows():
    n = 3_000_017
    blocks = Blocks(n, 512)
    places = [blocks.place(step) for step in range(2 * blocks.count, 3 * blocks.count)]
    assert {number for number, _ in places} == {2}
    assert {place.stop - place.start for _, place in places} == {511, 512}
    assert sum(place.stop - place.start for _, place in places) == n
    assert int(torch.bincount(blocks.permutation(2), minlength=n).max()) == 1


def test_one_block_can_contain_all_rows():
    blocks = Blocks(5, 512)
    assert blocks.count == 1
    assert sorted(blocks.rows(0).tolist()) == [0, 1, 2, 3, 4]
    assert as_sets(epoch(blocks, 3)) == {frozenset(range(5))}


@pytest.mark.parametrize("size", [0, -1, 2.5, 4.0, "many", None, True])
def test_a_size_must_be_a_positive_whole_number(size):
    with pytest.raises(InvalidParameter, match=r"block_size must be a whole number of at least 1; got .*\. Use 512"):
        Blocks(10, size)


def test_a_size_may_be_any_whole_number():
    assert Blocks(10, np.int64(3)).count == 4
