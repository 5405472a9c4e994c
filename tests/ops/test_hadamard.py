"""The fast transform against the matrix it stands for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peak_memory import ROUNDING, peak_bytes

from joker.errors import InvalidParameter
from joker.ops.fourier import hadamard


def sylvester(k):
    """The slow twin: H₂ₖ = [[Hₖ, Hₖ], [Hₖ, −Hₖ]]."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < k:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


@given(q=st.integers(0, 7), lead=st.lists(st.integers(0, 4), max_size=3), seed=st.integers(0, 99))
def test_it_multiplies_by_the_matrix(q, lead, seed):
    x = torch.randn(*lead, 2**q, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    before = x.clone()
    torch.testing.assert_close(hadamard(x), x @ sylvester(2**q), rtol=1e-12, atol=1e-12)
    assert torch.equal(x, before)


@pytest.mark.parametrize("k", [1, 2, 64])
def test_the_result_is_not_the_argument(k):
    x = torch.zeros(3, k)
    hadamard(x).add_(1)
    assert torch.equal(x, torch.zeros(3, k))


def test_twice_is_k_times_the_argument():
    x = torch.randn(5, 1024, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(hadamard(hadamard(x)) / 1024, x, rtol=0, atol=1e-5)


def test_any_layout_will_do():
    x = torch.randn(16, 6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for view in (x.transpose(0, 2), x[:, ::2], x[:1].expand(3, 6, 8)):
        torch.testing.assert_close(hadamard(view), view @ sylvester(view.shape[-1]), rtol=1e-12, atol=1e-12)


def test_it_holds_two_tensors():
    x = torch.zeros(100, 256)
    assert peak_bytes(lambda: hadamard(x)) <= 2 * x.nbytes + ROUNDING


@pytest.mark.parametrize("k", [0, 3, 6, 12, 1023])
def test_other_lengths_are_refused(k):
    with pytest.raises(InvalidParameter, match=rf"power of two entries; got {k}\. Pad it with zeros"):
        hadamard(torch.zeros(2, k))
