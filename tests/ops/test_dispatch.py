"""How a sum is divided among programs, and which tensors are theirs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from joker.ops.dispatch import PARTIAL_SUMS, fuses, round_up, rows_apart, shares

small = st.integers(1, 2000)


@given(
    length=st.integers(1, 10**7), step=st.sampled_from([16, 64, 128]), n=small, tile=st.sampled_from([32, 128]), t=small
)
def test_shares_cover_the_sum_once(length, step, n, tile, t):
    parts, share = shares(length, step, n, -(-n // tile), t)
    assert share % step == 0
    assert (parts - 1) * share < length <= parts * share
    assert parts == 1 or parts * n * t <= PARTIAL_SUMS


def test_few_rows_fill_the_card_and_many_are_not_split():
    assert shares(100_000, 64, 512, 8, 1)[0] > 100
    assert shares(100_000, 64, 10**6, 15_625, 1)[0] == 1


def test_the_cpu_and_float64_are_left_to_torch():
    assert not fuses(torch.zeros(2))
    assert not fuses(torch.zeros(2, dtype=torch.float64))


@pytest.mark.gpu
def test_the_card_takes_float32_alone():
    x = torch.zeros(2, device="cuda")
    assert fuses(x, x)
    assert not fuses(x, x.double())
    assert not fuses(x, x.cpu())


def test_rows_are_laid_out_for_the_kernels():
    x = torch.zeros(4, 6)
    assert rows_apart(x[:, 1:3]).data_ptr() == x[:, 1:3].data_ptr()
    assert rows_apart(x.T).is_contiguous()
    assert rows_apart(x[:, ::2]).is_contiguous()


def test_round_up():
    assert [round_up(n, 4) for n in (0, 1, 4, 5)] == [0, 4, 4, 8]
