"""Products with a few columns, in one pass over the matrix, against float64."""

import pytest
import torch

from joker.ops import tall_skinny

SHAPES = [(66, 200, 15), (64, 128, 2), (3, 70, 17)]


@pytest.mark.parametrize(("b", "m", "t"), SHAPES)
def test_products_are_those_of_float64(b, m, t, device, draw):
    psi = draw(b, m + 8)[:, :m]
    v, w = draw(m, t), draw(b, t)
    for found, want in (
        (tall_skinny.launch_times(psi, v), psi.double() @ v.double()),
        (tall_skinny.launch_transposed_times(psi, w), psi.double().T @ w.double()),
    ):
        assert found.is_contiguous()
        torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-6 * want.abs().max().item())


@pytest.mark.parametrize("programs", [0, 7])
def test_lengths_of_columns_are_those_of_float64(programs, device, draw, monkeypatch):
    monkeypatch.setattr(tall_skinny, "multiprocessors", lambda _: 2 * programs)
    v = draw(500, 3)
    torch.testing.assert_close(tall_skinny.launch_squares(v).double(), v.double().square().sum(0), rtol=1e-5, atol=0)


def test_columns_in_another_order_of_memory_give_the_same(device, draw):
    psi, v, w = draw(5, 40), draw(3, 40).T, draw(3, 5).T
    torch.testing.assert_close(tall_skinny.launch_times(psi, v), psi @ v, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(tall_skinny.launch_transposed_times(psi, w), psi.T @ w, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("t", [2, 15, 64])
def test_no_more_is_lost_than_in_float32(t):
    source = torch.Generator("cuda").manual_seed(0)
    shapes = (512, 20_000), (20_000, t), (512, t)
    psi, v, w = (torch.randn(shape, generator=source, device="cuda") for shape in shapes)
    for found, plain, want in (
        (tall_skinny.times(psi, v), psi @ v, psi.double() @ v.double()),
        (tall_skinny.transposed_times(psi, w), psi.T @ w, psi.double().T @ w.double()),
    ):
        assert (found - want).norm() <= 1.5 * (plain - want).norm()
        assert not torch.equal(found, plain)  # else the fused form was not taken


def test_the_plain_form_is_taken_elsewhere(draw):
    psi, v, w = draw(5, 40).double(), draw(40, 3).double(), draw(5, 3).double()
    assert torch.equal(tall_skinny.times(psi, v), psi @ v)
    assert torch.equal(tall_skinny.transposed_times(psi, w), psi.T @ w)
    torch.testing.assert_close(tall_skinny.squares(v), v.square().sum(0))
    assert tall_skinny.times(psi, v[:, :1]).shape == (5, 1)
    assert tall_skinny.times(psi[:, :0], v[:0]).count_nonzero() == 0
