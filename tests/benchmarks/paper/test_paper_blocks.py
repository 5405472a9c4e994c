"""The method of the paper: blocks drawn with replacement, and a bound on a step.

The bound is kept for every loss and halved at the right step; every step still descends inside the box.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from solvers.multiclass_problems import NAMES, check_feasible, several_classes
from solvers.problems import CASES, small

from benchmarks.paper import PaperBlocks
from benchmarks.paper.protocol import DrawnBlocks, bounded
from joker import losses, prepare
from joker.errors import InvalidParameter, StateMismatch
from joker.losses import Loss
from joker.solvers import Descent, Settings
from joker.solvers.feature_state import Chunking
from joker.solvers.report import certify

LAMS = (0.1, 1.0)
RANDOM = [{}, {"averaging": False}, {"momentum": True}, {"momentum": True, "averaging": False}]
all_losses = pytest.mark.parametrize("loss", [losses.get(name, **p) for name, p in CASES], ids=repr)


def descent(loss: Loss, method: type[PaperBlocks] = PaperBlocks, **settings: object) -> Descent:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(240, 3, generator=draw)
    y = 3 * x[:, 0].sin() + x[:, 1]
    y = torch.where(y > 0, 1.0, -1.0) if loss.frame.task == "classification" else y
    chosen = Settings(block_size=60, method=method, tol=0, **{"averaging": False, **settings})
    return prepare(x, y, loss=loss, lam=LAMS, n_features=80, settings=chosen).descent


@all_losses
def test_no_row_moves_further_and_every_step_descends_inside_the_box(loss: Loss) -> None:
    solve = descent(loss, bounded(0.05, halve_every=3))
    lam, duals, moves = torch.tensor(LAMS), [], []
    for _ in range(12):
        before = solve.state.alpha.clone()
        solve.step()
        moves.append(((solve.state.alpha - before).abs() * lam).amax(0))
        y, scaled = solve.problem.take(slice(None))
        assert torch.equal(scaled.clamp(y, solve.state.alpha), solve.state.alpha)
        duals.append(certify(solve.state, solve.problem, [(solve.state.alpha, solve.state.image)])[0].dual)
    bounds = [0.05 * 0.5 ** (k // 3) for k in range(12)]
    assert all(bool((move <= bound * (1 + 1e-5)).all()) for move, bound in zip(moves, bounds, strict=True))
    assert bool((moves[0] > 0.99 * bounds[0]).all())  # the bound shortens the first step
    assert all(bool((after <= before + 1e-4 * before.abs()).all()) for before, after in pairwise(duals))


def test_a_radius_that_is_not_reached_changes_nothing() -> None:
    plain, wide = descent(losses.Huber()), descent(losses.Huber(), bounded(1e6))
    for _ in range(8):
        plain.step()
        wide.step()
    assert torch.equal(plain.state.alpha, wide.state.alpha)


def test_a_solve_is_continued_with_its_own_radius_only() -> None:
    first, other = descent(losses.Squared(), bounded(0.1, 2)), descent(losses.Squared(), bounded(0.1))
    first.step()
    with pytest.raises(StateMismatch, match="method differ"):
        other.load_state_dict(first.state_dict())


@pytest.mark.parametrize(
    ("radius", "halve_every", "message"),
    [
        (0.0, 0, "radius must be a positive number"),
        (float("nan"), 0, "radius must be a positive number"),
        (float("inf"), 10, "radius must be a positive number"),
        (1.0, -1, "halve_every must be a whole number"),
    ],
)
def test_invalid_bounds_are_refused(radius: float, halve_every: int, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        bounded(radius, halve_every)


def test_a_bound_is_refused_with_momentum() -> None:
    with pytest.raises(InvalidParameter, match="momentum must not be used with a radius"):
        descent(losses.Squared(), bounded(1.0), momentum=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_bounded_step_keeps_the_sum_of_a_row(name: str) -> None:
    data = several_classes("features", weighted=False)
    solve = data.descent(name, [1.0, 9.0], method=bounded(1e-3), block_size=64, averaging=False, tol=0.0)
    for _ in range(solve.method.steps_per_epoch):
        before = solve.state.alpha.clone()
        solve.step()
        check_feasible(solve.state.alpha, data, [1.0, 9.0], 1e-12)
        assert 0 < float((solve.state.alpha - before).abs().max()) <= 1e-3 * (1 + 1e-9)


@pytest.mark.parametrize("settings", RANDOM, ids=str)
@pytest.mark.parametrize("mode", ["features", "exact"])
def test_continued_after_any_block_it_ends_the_same(mode: str, settings: dict[str, bool]) -> None:
    def make() -> Descent:
        problem = small("squared_hinge", {}, mode, weighted=True)
        return problem.descent([1.0], block_size=64, method=PaperBlocks, max_epochs=2, tol=0.0, **settings)

    whole = make().run()
    for stop in (1, 5, 7, 9):  # in either epoch, and where one ends
        first = make()
        first.settings = replace(first.settings, max_epochs=stop / first.method.steps_per_epoch)
        first.run()
        first.records = [r for r in first.records if r.epoch == int(r.epoch)]  # evaluations of the whole run
        file = io.BytesIO()
        torch.save(first.state_dict(), file)
        file.seek(0)
        second = make()
        second.load_state_dict(torch.load(file, weights_only=True))
        found = second.run()
        assert torch.equal(found.alpha, whole.alpha)
        assert torch.equal(found.gap.sums, whole.gap.sums)


@pytest.mark.parametrize("settings", [{}, {"momentum": True}], ids=str)
def test_a_block_prepared_in_advance_is_the_block(settings: dict[str, bool]) -> None:
    ahead, plain = (descent(losses.SquaredHinge(), **settings) for _ in range(2))
    ahead.state.use(Chunking(80, ahead=True))
    ahead.method.schedule._replayed = True
    ahead.method.schedule.release()
    for _ in range(21):
        ahead.step()
        plain.step()
    torch.testing.assert_close(ahead.state.alpha, plain.state.alpha, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(ahead.state.image, plain.state.image, rtol=1e-3, atol=1e-3)


# The blocks


def epoch(blocks: DrawnBlocks, number: int) -> list[torch.Tensor]:
    return [blocks.rows(step) for step in range(number * blocks.count, (number + 1) * blocks.count)]


def as_sets(parts: Iterable[torch.Tensor]) -> set[frozenset[int]]:
    return {frozenset(part.tolist()) for part in parts}


def test_blocks_are_drawn_with_replacement_from_one_partition() -> None:
    blocks = DrawnBlocks(50, 1, 3)
    visits = [[int(part) for part in epoch(blocks, number)] for number in range(200)]
    distinct = np.mean([len(set(visited)) for visited in visits])
    assert distinct == pytest.approx(50 * (1 - (1 - 1 / 50) ** 50), abs=1)  # 31.8
    counts = Counter(block for visited in visits for block in visited)
    assert set(counts) == set(range(50))
    assert 120 < min(counts.values()) < 200 < max(counts.values()) < 280  # 200, give or take 14
    assert len(as_sets(part for number in range(9) for part in epoch(DrawnBlocks(60, 20, 3), number))) == 3


def test_the_same_seed_gives_the_same_blocks() -> None:
    one, again = DrawnBlocks(1000, 10, 5), DrawnBlocks(1000, 10, 5)
    torch.manual_seed(3)
    # In another order of asking: a step depends on its number alone.
    steps = list(range(350))
    assert [one.rows(s).tolist() for s in steps] == [again.rows(s).tolist() for s in reversed(steps)][::-1]
    assert not as_sets(epoch(one, 0)) & as_sets(epoch(DrawnBlocks(1000, 10, 6), 0))


def test_the_global_generator_is_not_used() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    DrawnBlocks(100, 10, 0).rows(3)
    DrawnBlocks(100, 10, 0, shuffled=True).rows(17)
    assert torch.equal(torch.rand(1), expected)


def test_a_block_of_shuffled_rows_is_one_run() -> None:
    blocks = DrawnBlocks(103, 10, 2, shuffled=True)
    for step in range(40):
        (run,) = blocks.runs(step)
        assert blocks.rows(step).tolist() == list(range(run.start, run.stop))
        assert run == blocks.place(step)[1]
