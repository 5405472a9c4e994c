"""Machines against sums over their rows or features: columns, joined machines, intercepts and memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from joker import features, kernels
from joker.data import TensorRows, as_rows
from joker.features.feature_map import FeaturesWithConstant
from joker.kernels.kernel import KernelWithConstant
from joker.models import machine as machine_module
from joker.models.machine import ExactMachine, FeatureMachine, Machine

D = 3


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def exact(columns: int = 4, seed: int = 1) -> ExactMachine:
    return ExactMachine(KernelWithConstant(kernels.Gaussian(1.5)), as_rows(draw(20, D)), draw(20, columns, seed=seed))


def with_features(columns: int = 4, seed: int = 1) -> FeatureMachine:
    plain = features.draw(kernels.Gaussian(1.5), "fourier", D, 30, 0, dtype=torch.float64)
    return FeatureMachine(FeaturesWithConstant(plain, 8), draw(31, columns, seed=seed))


every_machine = pytest.mark.parametrize("make", [exact, with_features])


def by_hand(machine: Any, x: torch.Tensor) -> Any:
    if isinstance(machine, FeatureMachine):
        return machine.features(x).numpy() @ machine.theta.numpy()
    squares = ((x[:, None].numpy() - machine.x[:].numpy()) ** 2).sum(axis=2)
    return (np.exp(-squares / (2 * 1.5**2)) + 1) @ machine.alpha.numpy()


@every_machine
def test_predictions_are_sums_over_rows_or_features(make: Any) -> None:
    machine, x = make(), draw(50, D, seed=2)
    np.testing.assert_allclose(machine.predict(x).numpy(), by_hand(machine, x), rtol=1e-9)
    tiles = list(machine.stream(x, 20_000))
    assert [tile.start for tile, _ in tiles] == [0, *(tile.stop for tile, _ in tiles[:-1])]
    np.testing.assert_allclose(torch.cat([f for _, f in tiles]).numpy(), by_hand(machine, x), rtol=1e-9)


@every_machine
def test_some_columns_have_weights_of_their_own(make: Any) -> None:
    """The other columns can be freed, and a change of one machine does not change the other."""
    machine: Machine = make()
    some, x = machine.columns(1, 3), draw(5, D, seed=2)
    np.testing.assert_allclose(some.predict(x).numpy(), by_hand(machine, x)[:, 1:3], rtol=1e-9)
    assert some.weights.untyped_storage().nbytes() == some.weights.nbytes
    before = machine.weights.clone()
    some.weights.zero_()
    assert torch.equal(machine.weights, before)


@every_machine
def test_joined_machines_have_their_columns_in_order(make: Any) -> None:
    machines, x = [make(columns, seed=columns) for columns in (2, 1, 3)], draw(6, D, seed=2)
    joined = machines[0].joined(machines[1:])
    np.testing.assert_allclose(joined.predict(x), np.hstack([by_hand(one, x) for one in machines]), rtol=1e-9)


def test_the_constant_is_the_weight_of_the_feature_that_is_always_one() -> None:
    """With the exact kernel k + 1 that weight is the sum of α."""
    machine, x = with_features(), draw(7, D, seed=2)
    assert torch.equal(machine.features(x)[:, -1], torch.ones(7, dtype=torch.float64))
    without = machine.features.inner(x).numpy() @ machine.theta[:-1].numpy()
    np.testing.assert_allclose(machine.predict(x).numpy() - without, np.tile(machine.constant.numpy(), (7, 1)))
    np.testing.assert_allclose(exact().constant.numpy(), exact().alpha.numpy().sum(axis=0))


@pytest.mark.parametrize("rows", [1, 13, 500])
def test_a_tile_counts_its_kernel_its_result_and_the_rows_of_both_sides(rows: int) -> None:
    """Rows in another type are cast when they are read: those that are predicted, and the training rows."""
    n, t = 40, 4
    machine = ExactMachine(kernels.Gaussian(1.0), TensorRows(draw(n, D), torch.float32), draw(n, t).float())
    side = min(rows, n)
    matrices = 4 * (rows * side + (rows + side + 1) * (D + 1))
    assert machine.tile_bytes(rows, 100) == matrices + rows * (100 + 4 * t) + side * D * (4 + 8)
    some = with_features()
    of_features = some.features.apply_bytes(rows, t)
    assert some.tile_bytes(rows, 100) == of_features + rows * (100 + 8 * t)


def test_rows_that_are_read_for_a_tile_count_in_the_memory_of_its_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left for the matrix is the memory without the rows of the tile, which are cast when they are read."""
    seen: list[tuple[int, int]] = []
    real = machine_module.matvec

    def product(kernel: Any, rows: Any, x: Any, alpha: Any, budget: int, *, row_bytes: Any) -> Any:
        seen.append((len(rows), budget))
        return real(kernel, rows, x, alpha, budget, row_bytes=row_bytes)

    monkeypatch.setattr(machine_module, "matvec", product)
    machine = ExactMachine(kernels.Gaussian(1.0), as_rows(draw(40, D).float()), draw(40, 2).float())
    x, memory = TensorRows(draw(3_000, D), torch.float32), 30_000
    f = machine.predict(x, memory)
    assert len(seen) > 2
    row = D * (4 + 8)
    assert all(rows * row + budget <= memory for rows, budget in seen)
    torch.testing.assert_close(f, kernels.Gaussian(1.0)(x[:], machine.x[:]) @ machine.alpha)
