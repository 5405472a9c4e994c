"""The preconditioner is the inverse that Woodbury's formula gives, and makes conjugate gradients quick."""

from __future__ import annotations

import pytest
import torch

from joker import kernels
from joker.data import TensorRows
from joker.solvers.methods.nystrom import Nystrom, landmarks, nystrom_bytes

KERNEL = kernels.get("gaussian", bandwidth=1.0)
X = torch.randn(300, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("lam", [[0.1], [0.01, 0.1, 3.0]], ids=len)
@pytest.mark.parametrize("weighted", [False, True])
def test_with_all_rows_as_landmarks_it_is_the_inverse(lam: list[float], weighted: bool) -> None:
    drawn = torch.rand(300, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) + 0.5
    weights = drawn if weighted else torch.ones(300, dtype=torch.float64)
    penalties = torch.tensor(lam, dtype=torch.float64)
    inverse = Nystrom(KERNEL, TensorRows(X), 300, weights, penalties, 2**20, 0)
    v = torch.randn(300, len(lam), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found, K = inverse(v), KERNEL(X, X)
    for j, penalty in enumerate(lam):
        torch.testing.assert_close((K + torch.diag(penalty / weights)) @ found[:, j], v[:, j], rtol=1e-5, atol=1e-5)


def test_rows_of_weight_zero_stay_at_zero() -> None:
    weights = torch.ones(300, dtype=torch.float64)
    weights[::3] = 0
    inverse = Nystrom(KERNEL, TensorRows(X), 50, weights, torch.tensor([0.1], dtype=torch.float64), 2**20, 0)
    assert not inverse(torch.ones(300, 1, dtype=torch.float64))[::3].any()


def test_landmarks_fit_their_room() -> None:
    assert landmarks(20_000, 10**12, 4) == 2_000
    assert landmarks(8_000, 10**12, 4) == 800
    assert landmarks(3_000, 10**12, 4) == 500
    assert landmarks(100, 10**12, 4) == 50
    for room in (10**5, 10**6, 10**8):
        assert nystrom_bytes(20_000, landmarks(20_000, room, 4), 4) <= room


@pytest.mark.parametrize("name", ["gaussian", "matern12", "laplacian"])
def test_the_kernel_with_the_landmarks_is_computed_in_few_tiles(name: str) -> None:
    """With many inputs most work of a tile may be that of the landmarks, which does not depend on its rows."""
    inner, calls = kernels.get(name, bandwidth=1.0), []

    class Counted:
        diag, work_bytes = inner.diag, inner.work_bytes

        def __call__(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            calls.append(len(x))
            return inner(x, z)

    x = torch.randn(1_200, 400, generator=torch.Generator().manual_seed(0))
    Nystrom(Counted(), TensorRows(x), 400, torch.ones(1_200), torch.tensor([0.1]), 2**30, 0)
    assert len(calls) <= 1 + 3


@pytest.mark.parametrize("weighted", [False, True])
def test_a_small_penalty_loses_no_digits_in_float32(weighted: bool) -> None:
    """The inverse is small where K is large; in float32 it would be the difference of two nearly equal numbers."""
    kernel = kernels.get("matern12", bandwidth=100.0)
    source = torch.Generator().manual_seed(0)
    x, v, small = torch.randn(2_000, 3, generator=source), torch.ones(2_000, 1), torch.tensor([1e-3])
    weights = torch.rand(2_000, generator=source) + 0.5 if weighted else v[:, 0]
    found = Nystrom(kernel, TensorRows(x), 50, weights, small, 2**20, 0)
    exact = Nystrom(kernel, TensorRows(x.double()), 50, weights.double(), small.double(), 2**20, 0)
    assert found.wide
    assert not exact.wide
    expected = exact(v.double())
    assert (found(v) - expected).norm() <= 0.01 * expected.norm()
