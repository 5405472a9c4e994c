"""The memory plan of a prediction: its tiles against what decoding takes, its budget, and plans that are used again."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peak_memory import peak_bytes

import joker
from joker import features, kernels
from joker.errors import BudgetTooSmall
from joker.models.machine import ExactMachine, FeatureMachine
from joker.planning import PredictMemory, plan_predict
from joker.planning.plan import plan_estimator_predict

CPU = torch.device("cpu")


def machine(rows: int = 200, columns: int = 3) -> ExactMachine:
    draw = torch.Generator().manual_seed(0)
    x, alpha = (torch.randn(rows, width, generator=draw) for width in (4, columns))
    return ExactMachine(kernels.Gaussian(1.0), joker.data.as_rows(x), alpha)


def feature_machine(m: int = 40, columns: int = 3) -> FeatureMachine:
    theta = torch.randn(m, columns, generator=torch.Generator().manual_seed(0))
    return FeatureMachine(features.draw(kernels.Gaussian(1.0), "fourier", 4, m, 0, dtype=torch.float32), theta)


def memory(of: Any, rows: int = 5_000, result_bytes: int = 24) -> PredictMemory:
    return PredictMemory(rows, 4, len(of.constant), of, CPU, 16, result_bytes, (), "where they are")


@pytest.mark.parametrize("of", [machine(), feature_machine()], ids=["exact", "features"])
def test_a_tile_has_its_features_or_kernel_its_results_and_their_decoding(of: Any) -> None:
    """32 bytes for each number that is decoded, and 24 for the result of a row."""
    for rows in (1, 100, 5_000):
        assert memory(of).tile_bytes(rows) == of.tile_bytes(rows, 16) + rows * (32 * 3 + 24)


def test_decoding_many_classes_stays_inside_its_tile() -> None:
    """The peak of NumPy and of torch while all rows are one tile, beside the result, an item of its own in the plan."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), np.arange(600) % 60
    model = joker.KernelLogistic(n_features=4, max_epochs=1, random_state=0).fit(X, y)
    wide = np.repeat(X, 4, axis=0)
    model.predict_proba(wide)  # what is loaded at the first use does not count
    tracemalloc.start()
    found = model.predict_proba(wide)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    taken = peak - found.nbytes + peak_bytes(lambda: model.predict_proba(wide))
    planned = memory(model._machine, len(wide), 8 * 60).tile_bytes(len(wide))
    assert planned / 3 < taken <= planned


@pytest.mark.parametrize("of", [machine(), feature_machine()], ids=["exact", "features"])
@pytest.mark.parametrize("factor", [1.0, 1.1, 2.0])
def test_a_plan_keeps_every_budget_from_the_smallest(of: Any, factor: float) -> None:
    planned = memory(of, 50_000, 240)
    budget = int(factor * planned.least)
    plan = plan_predict(planned, budget, 0)
    assert sum(item.bytes for item in plan.items) <= budget
    assert plan.items[0].bytes == 50_000 * 240  # the whole result
    with pytest.raises(BudgetTooSmall, match=rf"Use memory={planned.least} \(bytes\) or more"):
        plan_predict(planned, planned.least - 1, 0)


def plan_of(of: ExactMachine, x: NDArray[Any], budget: int | None, scratch: int = 10**6, copied: int = 0) -> Any:
    given = {"copied": copied, "scaling": None, "budget": budget, "scratch": scratch}
    return plan_estimator_predict(of, x, np.zeros((1, 3)), **given)


def test_a_plan_is_used_again_for_the_same_prediction_only() -> None:
    of, x = machine(), np.zeros((1_000, 4), dtype=np.float32)
    first = plan_of(of, x, 10**9)
    assert plan_of(of, x.copy(), 10**9) is first
    assert plan_of(of, x, 2 * 10**9).budget == 2 * 10**9
    assert plan_of(of, x, None).budget is None
    assert plan_of(of, x, None, scratch=10**5).scratch == 10**5
    assert plan_of(of, x, None, copied=777).items[1].bytes == 777
    assert plan_of(of, x[:10], None).title.startswith("prediction of 10 rows")
    assert plan_of(machine(100), x, None).tile != plan_of(of, x, None, scratch=10**5).tile
