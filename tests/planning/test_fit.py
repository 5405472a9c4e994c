"""The memory plan of a fit: each item against the shapes of its tensors, and the phases of a fit against their peak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peak_memory import ROUNDING, peak_bytes

from joker import kernels, losses
from joker.data import TensorRows, make_targets
from joker.planning import END, EVALUATION, LAYOUT, STEP, FitMemory, FitSpec, Plan, RowReading, plan_fit
from joker.planning.fit import plan_estimator_fit
from joker.planning.plan import SMALL_BYTES
from joker.prepare import build
from joker.solvers import Problem, Settings
from joker.solvers.methods.greedy_blocks import GreedyBlocks
from joker.solvers.methods.method import TIMES, Item, Method, ProblemSize
from joker.solvers.methods.pcg import KernelPcg, NormalEquationsPcg
from joker.solvers.methods.random_blocks import RandomBlocks

CPU = torch.device("cpu")
MEGABYTE = 10**6
LAMBDAS = (0.1, 1.0, 10.0)


def spec_of(
    n: int = 6_000,
    m: int | None = None,
    *,
    loss: str = "squared_hinge",
    method: type[Method] = RandomBlocks,
    block: int = 64,
    dtype: torch.dtype = torch.float32,
    settings: dict[str, Any] | None = None,
    **others: Any,
) -> FitSpec:
    sizes = {"rows": n, "inputs": 5, "targets": 2, "n_lams": 3, "n_features": m}
    given = {**sizes, "device": CPU, "dtype": dtype, **others}
    return FitSpec(
        kernel=kernels.Gaussian(2.0),
        loss=losses.get(loss),
        method=method,
        settings=Settings(block_size=block, **settings or {}),
        **given,
    )


def memory_of(spec: FitSpec, row_bytes: int = 0) -> FitMemory:
    return FitMemory(spec, RowReading(row_bytes, 8 * spec.rows))


def by_name(memory: FitMemory) -> dict[str, int]:
    return {item.name: item.bytes for item in memory.held}


CASES = list(product((None, 90), (False, True), (False, True), (torch.float32, torch.float64)))
every_case = pytest.mark.parametrize(("m", "averaging", "momentum", "dtype"), CASES, ids=str)


@every_case
def test_each_item_has_the_bytes_of_its_tensors(
    m: int | None, averaging: bool, momentum: bool, dtype: torch.dtype
) -> None:
    """Written anew from the shapes: α (n, t), its image (n, t) or (m, t), and as many copies as a fit makes of them."""
    n, b, t, lams, size, row = 6_000, 64, 6, 3, dtype.itemsize, 40
    settings = {"averaging": averaging, "momentum": momentum}
    copies = {"saved_states": 2, "saved_machines": 3, "keeps_state": True, "scored": True}
    items = by_name(memory_of(spec_of(n, m, dtype=dtype, settings=settings, **copies), row))
    alpha, image = size * n * t, size * (m or n) * t
    mean = alpha + image + 4 * n if averaging else 0  # 4 bytes: the step at which the average of a row was updated
    state = alpha + image + mean + momentum * (alpha + image)
    assert items[f"α and {'θ' if m else 'predictions'}"] == alpha + image
    assert items["order of rows and blocks"] == 8 * n + 48 * -(-n // b)
    assert items["their average"] == mean
    assert items["momentum"] == momentum * (alpha + image)
    assert items["the point that is returned"] == alpha + 2 * image
    assert items["copies of the state"] == 2 * state
    assert items["the state, for the next fit"] == state
    assert items["the best machine so far"] == 3 * image
    assert items["the machine"] == image // lams + image  # of the best λ, and of every λ of the path
    if m is None:
        assert items["change of the predictions"] == (1 + momentum) * image
        vectors = 40 * b * t
        assert items["a block and its kernel matrix"] == b * row + size * (b * 5 + (5 + momentum) * b * b + vectors)
    else:
        assert items["a block and its kernel matrix"] == b * row + momentum * size * b * b


def test_a_path_without_held_out_rows_has_one_machine() -> None:
    items = by_name(memory_of(spec_of(m=90)))
    assert items["the machine"] == 4 * 90 * 2
    assert items["copies of the state"] == items["the best machine so far"] == items["the state, for the next fit"] == 0


@every_case
def test_what_moves_in_a_solve_is_planned_byte_by_byte(
    m: int | None, averaging: bool, momentum: bool, dtype: torch.dtype
) -> None:
    """The tensors that a built solve has, and saves, are those of the plan."""
    spec = spec_of(300, m, dtype=dtype, settings={"averaging": averaging, "momentum": momentum})
    descent = training(spec)[0]
    state, parts = descent.state, descent.method.parts()
    items = by_name(memory_of(spec))
    assert items[f"α and {'θ' if m else 'predictions'}"] == tensor_bytes(state)
    assert items["their average"] == (tensor_bytes(parts["average"]) - 4 if averaging else 0)  # a count of 4 bytes
    assert items["momentum"] == (tensor_bytes(parts["momentum"]) - 8 if momentum else 0)  # θ of 8 bytes


def tensor_bytes(part: Any) -> int:
    return sum(getattr(part, name).nbytes for name in part.saved)


def training(spec: FitSpec, scratch: int = MEGABYTE) -> tuple[Any, Plan]:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(spec.rows, spec.inputs, generator=draw, dtype=spec.dtype)
    y = torch.where(x[:, :1] * torch.ones(spec.columns, dtype=spec.dtype) > 0, 1.0, -1.0).to(spec.dtype)
    plan = plan_fit([memory_of(spec)], None, scratch)[1]
    problem = Problem(spec.loss, make_targets(y, [1.0] * spec.columns))
    return build(spec, TensorRows(x), problem, plan).descent, plan


def planned(plan: Plan, time: str, *left_out: str) -> int:
    """The bytes of a time, without what exists before the solve begins, and without the margins of the plan."""
    before = {"α and predictions", "α and θ", "order of rows and blocks", "their average", "momentum", "feature map"}
    margins = {"small items", "gaps between pieces of memory"}
    return sum(item.at(time) for item in plan.items if item.name not in before | margins | {*left_out})


@pytest.mark.parametrize("momentum", [False, True])
def test_a_step_with_the_exact_kernel_stays_inside_its_plan(momentum: bool) -> None:
    """The change of the predictions is most of it, so that no other item hides one that is missing."""
    descent, plan = training(spec_of(20_000, block=16, settings={"momentum": momentum, "averaging": False}), 100_000)
    descent.step()
    image = descent.state.image.nbytes
    peak = peak_bytes(descent.step)
    assert (1 + momentum) * image < peak <= planned(plan, STEP) + ROUNDING
    assert planned(plan, STEP) < peak + image


def test_computing_an_image_again_stays_inside_the_plan_of_an_evaluation() -> None:
    """It holds the new image and the part of a tile in it, and then a copy of it for its gap; in float64 at the end."""
    descent, plan = training(spec_of(16, 100_000, block=16, settings={"averaging": False}), 2 * MEGABYTE)
    image, alpha = descent.state.image.nbytes, descent.state.alpha.clone()
    row = 4 * 100_000  # one row of features more than a tile: a margin of the plan holds it
    peak = peak_bytes(lambda: descent._recompute(alpha))
    assert 2 * image < peak <= planned(plan, EVALUATION) + row + 2_000
    assert planned(plan, EVALUATION) < (3 + 3) * image


@pytest.mark.parametrize("averaging", [False, True])
def test_a_tile_of_the_gap_has_the_columns_of_the_average_too(averaging: bool) -> None:
    """Ten float64 numbers for each prediction; with 2 features everything else is small."""
    spec = spec_of(6_000, 2, n_lams=20, settings={"averaging": averaging})
    assert memory_of(spec).tile_bytes(500) == 8 * 16 * 500 * 40 * (1 + averaging)


def budgets() -> Iterator[tuple[str, FitMemory]]:
    for m, momentum in product((None, 90), (False, True)):
        spec = spec_of(20_000, m, settings={"momentum": momentum}, saved_states=2, scored=True)
        yield f"random blocks, {m} features, momentum {momentum}", memory_of(spec, 40)
    yield "greedy blocks", memory_of(spec_of(20_000, method=GreedyBlocks), 40)
    yield "PCG", memory_of(spec_of(20_000, method=KernelPcg, loss="squared"), 40)
    linear = spec_of(20_000, 500, method=NormalEquationsPcg, loss="squared", n_lams=1)
    yield "PCG on the normal equations", memory_of(linear, 40)
    wide = spec_of(400, 4_000, method=NormalEquationsPcg, loss="squared", n_lams=1, targets=1)
    yield "PCG with many features", memory_of(wide, 40)


@pytest.mark.parametrize("memory", [pytest.param(memory, id=name) for name, memory in budgets()])
@pytest.mark.parametrize("factor", [1.0, 1.05, 1.5, 3.0])
def test_a_plan_keeps_every_budget_from_the_smallest(memory: FitMemory, factor: float) -> None:
    """Its items at any time, with all tiles and gaps, are at most the budget."""
    budget = int(factor * memory.least)
    plan = plan_fit([memory], budget, 0)[1]
    assert max(sum(item.at(time) for item in plan.items) for time in TIMES) <= budget
    assert plan.budget == budget


def test_the_smallest_scratch_space_holds_the_tiles_of_a_step() -> None:
    """PCG on the normal equations has a tile in float32 and one in float64. A tile has 16 rows or 4 MB, at least."""
    pcg = memory_of(spec_of(5_000, 20_000, method=NormalEquationsPcg, loss="squared", n_lams=1, block=1), 40)
    blocks = memory_of(spec_of(5_000, 20_000, loss="squared", n_lams=1, block=1, settings={"averaging": False}), 40)
    row = 4 * 20_000
    assert 4 * MEGABYTE - 2 * row < blocks.least_scratch <= 4 * MEGABYTE
    assert pcg.least_scratch == 2 * blocks.least_scratch


def test_an_evaluation_that_holds_more_than_a_step_leaves_less_scratch_space() -> None:
    few, many = (memory_of(spec_of(50_000, 90, settings={"tol": 0.1}, saved_states=k)) for k in (0, 3))
    held = by_name(many)["copies of the state"]
    assert many.at(EVALUATION) - few.at(EVALUATION) == held
    assert many.at(STEP) == few.at(STEP)
    budget = 400 * MEGABYTE
    # More than 64 MB of free memory has gaps of 32 MB, however large it is.
    assert many.room(budget) == budget - many.at(EVALUATION) - 32 * MEGABYTE


@pytest.mark.parametrize("room", [10, 30, 60, 120, 300])
@pytest.mark.parametrize("columns", [1, 8])
def test_preconditioner_and_kernel_cache_share_their_room(room: int, columns: int) -> None:
    size = ProblemSize(loss=losses.get("squared"), rows=5_000, columns=columns)
    kept = KernelPcg.kernel_memory(size, room * MEGABYTE)
    taken = {item.name: item.bytes for item in kept.items}
    landmarks = kept.landmarks
    assert taken["preconditioner"] == 4 * 5_000 * landmarks + 8 * 4 * landmarks**2
    cache = 4 * 5_000 * (kept.rows + 32) + 16 * 5_000 + 16 * kept.rows + 8 * 4 * 5_000 * columns
    assert taken["kernel cache"] == (cache if kept.rows else 0)
    assert sum(taken.values()) <= room * MEGABYTE
    if kept.rows and kept.rows < 5_000:
        assert sum(taken.values()) > room * MEGABYTE - 2 * (4 * 5_000 + 16)  # no room for two rows more


@dataclass(frozen=True)
class Data:
    """The rows of a fit as an estimator has them."""

    x: NDArray[Any]
    y: NDArray[Any]
    w: NDArray[Any] | None = None
    copied: int = 0
    held_out: int = 0
    label_bytes: int = 0


def data_items(spec: FitSpec, data: Data) -> dict[str, int]:
    plan = plan_estimator_fit([spec], data, None, MEGABYTE, 0)[1]
    return {item.name: item.bytes for item in plan.items}


@pytest.mark.parametrize("held_out", [0, 500])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_data_of_a_fit_are_counted_once_each(held_out: int, weighted: bool) -> None:
    n, d, t = 2_000, 5, 2
    whole = n + held_out
    x, y = np.zeros((n, d)), np.zeros((n, t))
    data = Data(x, y, np.ones(whole) if weighted else None, copied=123, held_out=held_out)
    items = data_items(spec_of(n, 90), data)
    assert items["rows, as they are checked"] == 123
    # The weights of all rows in float64, those of the training rows too where others are held out, and in float32.
    weights = 8 * whole + (8 * n if held_out else 0) + 4 * n
    assert items.get("weights", 0) == (weights if weighted else 0)
    # float64 targets of the training rows, of all rows if some are held out, and float32 ones of every λ and of one.
    assert items["targets"] == 8 * t * (n + (whole if held_out else 0)) + 4 * n * (3 * t + t)
    assert items.get("rows held out", 0) == held_out * 8 * (d + t)
    assert items.get("numbers of the training rows", 0) == (8 * n if held_out else 0)
    assert items.get("choosing the rows held out", 0) == (80 * whole if held_out else 0)
    assert items["copy of the rows"] == 0


def test_the_exact_kernel_copies_its_rows_in_the_smaller_type() -> None:
    n, d = 2_000, 5
    for dtype, itemsize in (("float64", 4), ("float32", 4), ("float16", 2), ("uint8", 1)):
        x = np.zeros((n, d), dtype=dtype)
        assert data_items(spec_of(n), Data(x, np.zeros((n, 2))))["copy of the rows"] == n * d * itemsize
        across = np.asfortranarray(x)  # a row is not contiguous, so that one more copy is made
        assert data_items(spec_of(n), Data(across, np.zeros((n, 2))))["copy of the rows"] == 2 * n * d * itemsize


def test_an_item_counts_at_its_times_only() -> None:
    memory = memory_of(spec_of(m=90, settings={"momentum": True}, saved_states=1))
    times = {item.name: {time for time in TIMES if item.at(time)} for item in memory.held}
    assert times["momentum"] == times["their average"] == times["α and θ"] == {STEP, EVALUATION, END}
    assert times["a block and its kernel matrix"] == {STEP}
    assert times["copies of the state"] == {EVALUATION}
    assert times["the point that is returned"] == {EVALUATION, END}
    assert times["the machine"] == {END}
    assert times["feature map"] == {LAYOUT, STEP, EVALUATION, END}


def test_only_a_small_plan_without_a_budget_keeps_freed_memory() -> None:
    small, large = (training(spec_of(n, None))[1] for n in (300, 6_000))
    assert small.is_small
    assert small.total < SMALL_BYTES
    assert not replace(small, budget=10**9).is_small
    assert not replace(small, items=(*small.items, Item("more", SMALL_BYTES))).is_small
    assert large.is_small == (large.total <= SMALL_BYTES)
