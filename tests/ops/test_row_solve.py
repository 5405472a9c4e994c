"""The GPU kernels for blocks whose loss couples the classes of a row, against plain torch on the CPU."""

from __future__ import annotations

import pytest
import torch

from joker import losses
from joker.ops import block_solve
from joker.solvers.block.rows import FusedRowNewton, RowAdmm, RowNewton, RowProblem

SHAPES = [(1, 2, 70), (2, 3, 513), (1, 10, 512), (3, 100, 40), (1, 1_000, 30)]
TYPES = {torch.float32: 1e-3, torch.float64: 1e-6}  # numbers that a kernel takes are float32


def problem(name: str, groups: int, k: int, b: int, place: str, dtype: torch.dtype) -> RowProblem:
    """A block with a row of weight 0, and with predictions that are not those of its α."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(b, 4, generator=draw)
    K = torch.exp(-(torch.cdist(x, x) ** 2) / 8)
    y = torch.where(torch.randint(k, (b, 1), generator=draw) == torch.arange(k), 1.0, -1.0).repeat(1, groups)
    f, a = torch.randn(b, k * groups, generator=draw), torch.zeros(b, k * groups)
    c = 5 * torch.rand(b, 1, generator=draw)
    c[3] = 0
    loss = losses.scaled(losses.get(name, classes=k), c.to(place, dtype))
    assert isinstance(loss, losses.ScaledRowLoss)
    return RowProblem.of(*(v.to(place, dtype) for v in (K, f, a, y)), loss)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    plain = RowNewton(problem("softmax", *shape, "cpu", dtype), 0.2, 8)
    fused = FusedRowNewton(problem("softmax", *shape, "cuda", dtype), 0.2, 8)
    for _ in range(3):
        plain.advance()
        fused.advance()
        torch.testing.assert_close(fused.p.cpu(), plain.p, rtol=TYPES[dtype], atol=TYPES[dtype])
    one, other = plain.result(), fused.result()
    assert bool((one.change < 0).all())
    torch.testing.assert_close(other.change.cpu(), one.change, rtol=TYPES[dtype], atol=0.0)
    torch.testing.assert_close(other.linear.cpu(), one.linear, rtol=TYPES[dtype], atol=0.0)
    torch.testing.assert_close(other.a.cpu(), one.a, rtol=TYPES[dtype], atol=5 * TYPES[dtype])
    assert bool((other.a[3] == 0).all())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_crammer_singer(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    plain, fused = (RowAdmm(problem("crammer_singer", *shape, place, dtype), 0.0) for place in ("cpu", "cuda"))
    plain.advance()
    fused.advance()
    one, other = plain.result(), fused.result()
    assert bool((one.change < 0).all())
    torch.testing.assert_close(other.change.cpu(), one.change, rtol=TYPES[dtype], atol=0.0)
    torch.testing.assert_close(other.a.cpu(), one.a, rtol=TYPES[dtype], atol=20 * TYPES[dtype])
    assert float(other.a.unflatten(1, (shape[0], shape[1])).sum(2).abs().max()) <= 10 * TYPES[dtype]
    assert bool((other.a[3] == 0).all())


def test_a_cpu_has_no_such_kernels() -> None:
    assert not block_solve.rows_available(torch.device("cpu"), 3)


def test_the_kernel_of_scalar_losses_does_not_take_coupled_ones() -> None:
    """The Crammer–Singer loss is quadratic in each column, but its columns must not be solved on their own."""
    for name in losses.ROW_NAMES:
        assert losses.get(name, classes=3).device_form is None
