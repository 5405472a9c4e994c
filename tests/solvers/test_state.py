"""State, average and gap against their definitions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from solvers.problems import CASES, LAMBDAS, small

import joker
from joker.solvers import Average, certify
from joker.solvers.report import Gap

modes = pytest.mark.parametrize("mode", ["exact", "features"])


def moved(mode: str, steps: int = 7, t: int = 2, dtype: torch.dtype = torch.float64):
    """A descent after some steps, and all its iterates."""
    descent = small("squared_hinge", {}, mode, weighted=True).descent(
        LAMBDAS[2 : 2 + t], dtype, block_size=64, method="random_blocks"
    )
    iterates = []
    for _ in range(steps):
        descent.step()
        iterates.append((descent.state.alpha.clone(), descent.state.image.clone()))
    return descent, iterates


@modes
def test_the_image_follows_alpha(mode: str) -> None:
    descent, _ = moved(mode)
    state, problem = descent.state, small("squared_hinge", {}, mode, weighted=True)
    f = torch.cat([f for _, f in state.predictions(state.image)])
    torch.testing.assert_close(f, problem.root.T @ (problem.root @ state.alpha))


@modes
def test_an_open_block_is_a_part_of_the_whole(mode: str) -> None:
    descent, _ = moved(mode)
    problem = small("squared_hinge", {}, mode, weighted=True)
    K = problem.root.T @ problem.root
    rows = descent.method.blocks.rows(3)
    block = descent.state.open(rows)
    torch.testing.assert_close(block.K, K[rows][:, rows], atol=1e-9, rtol=0)
    torch.testing.assert_close(block.f, K[rows] @ descent.state.alpha)
    assert torch.equal(block.a, descent.state.alpha[rows])


@modes
def test_commit_extrapolate_and_reset_keep_the_image_that_of_alpha(mode: str) -> None:
    descent, _ = moved(mode)
    state, solver = descent.state, descent.method.solver
    z = descent.problem.clamp_(torch.linspace(-1, 1, len(state.alpha), dtype=torch.float64)[:, None].repeat(1, 2))
    before = state.alpha.clone()
    state.extrapolate(z, state.image_of(z), torch.tensor([0.25], dtype=torch.float64))
    torch.testing.assert_close(state.alpha, torch.lerp(before, z, 0.25))
    torch.testing.assert_close(state.image, state.image_of(state.alpha))

    block, y = state.open(descent.method.blocks.rows(2)), state.alpha.clone()
    start, scale = z[block.rows], torch.tensor([0.5], dtype=torch.float64)
    result = solver.solve(scale * block.K, block.f, start, *descent.problem.take(block.rows))
    taken, change = state.commit(block, result, start, scale)
    y[block.rows] += scale * (taken.a - start)
    torch.testing.assert_close(state.alpha, y)
    torch.testing.assert_close(state.image, state.image_of(state.alpha))
    torch.testing.assert_close(change, state.image_change(block, taken.a - start))

    state.image += 1
    alpha, image = state.alpha, state.image
    state.reset(state.alpha)
    assert state.alpha is alpha  # captured steps refer to these tensors
    assert state.image is image
    torch.testing.assert_close(image, state.image_of(alpha))


def writes_to_a_state(module: ast.Module) -> Iterator[int]:
    """Yield the lines that change ``state.alpha`` or ``state.image``, by an assignment or by a method in place."""
    for node in ast.walk(module):
        changed: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.AugAssign):
            changed = node.targets if isinstance(node, ast.Assign) else [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            changed = [node.func.value]
        for target in (node.value if isinstance(node, ast.Subscript) else node for node in changed):
            owner = ast.unparse(target.value).split(".")[-1] if isinstance(target, ast.Attribute) else None
            if owner == "state" and target.attr in ("alpha", "image"):
                yield node.lineno


def test_only_a_state_moves_its_alpha_and_image() -> None:
    for path in Path(joker.__file__).parent.rglob("*.py"):
        lines = list(writes_to_a_state(ast.parse(path.read_text(encoding="utf-8"))))
        assert not lines, f"{path}, lines {lines}: use commit, extrapolate, move or reset of the state."
    broken = "self.state.image += x\nstate.alpha[rows] = x\nstate.alpha.lerp_(x, 1)\ny = state.alpha.lerp(x, 1)"
    assert list(writes_to_a_state(ast.parse(broken))) == [1, 2, 3]


@modes
def test_prediction_tiles_cover_the_rows_inside_the_budget(mode: str) -> None:
    descent, _ = moved(mode)
    state = descent.state
    whole = torch.cat([f for _, f in state.predictions(state.image)])
    if mode == "features":
        state.budget = 10 * state.features.work_bytes(1)
        tiles = list(state.predictions(state.image))
        assert max(len(f) for _, f in tiles) == 10
        torch.testing.assert_close(torch.cat([f for _, f in tiles]), whole)


@modes
@given(steps=st.integers(1, 17))
def test_the_average_updated_block_by_block_is_the_average(mode: str, steps: int) -> None:
    descent, iterates = moved(mode, steps)
    rate = 2 / descent.method.blocks.count
    weights = [rate * (1 - rate) ** (steps - 1 - j) for j in range(steps)]
    alpha, image = descent.method.mean.read(descent.state)
    for found, place in ((alpha, 0), (image, 1)):
        expected = sum(w * point[place] for w, point in zip(weights, iterates, strict=True)) / sum(weights)
        torch.testing.assert_close(found, expected)


def test_the_average_of_one_block_is_the_last_iterate() -> None:
    descent = small("hinge", {}, "exact", weighted=False).descent([1.0], block_size=300)
    descent.step()
    descent.step()
    assert descent.method.mean.rate == 1
    assert torch.equal(descent.method.mean.read(descent.state)[0], descent.state.alpha)


def test_reading_an_average_changes_nothing() -> None:
    descent, _ = moved("features")
    before = [t.clone() for t in (descent.method.mean.alpha, descent.method.mean.image, descent.state.alpha)]
    first, second = descent.method.mean.read(descent.state), descent.method.mean.read(descent.state)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    after = (descent.method.mean.alpha, descent.method.mean.image, descent.state.alpha)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(("name", "parameters"), CASES, ids=str)
@modes
@settings(max_examples=25)  # of 300 dual variables each
@given(seed=st.integers(0, 1000), scale=st.sampled_from([0.0, 1e-3, 1.0, 50.0]))
def test_the_gap_is_p_plus_j_and_never_negative(
    name: str, parameters: dict[str, float], mode: str, seed: int, scale: float
) -> None:
    problem = small(name, parameters, mode, weighted=True)
    descent = problem.descent([0.5])
    y, loss = descent.problem.take(slice(None))
    noise = torch.randn(300, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    alpha = loss.clamp(y, scale * noise)
    f = problem.root.T @ (problem.root @ alpha)
    image = f if mode == "exact" else problem.root @ alpha
    gap = certify(descent.state, descent.problem, [(alpha, image)])[0]
    square = float(0.5 * (alpha * f).sum())
    primal = square + float((problem.c[:, None] / 0.5 * problem.loss.value(y, f)).sum())
    dual = square + float(loss.psi(y, alpha).sum())
    assert float(gap.primal) == pytest.approx(primal, rel=1e-9, abs=1e-9)
    assert float(gap.dual) == pytest.approx(dual, rel=1e-9, abs=1e-9)
    assert float(gap.gap) == pytest.approx(primal + dual, rel=1e-7, abs=1e-7)
    assert float(gap.relative) >= -1e-9


def test_the_relative_gap_is_zero_for_zero_targets_and_infinite_for_nan() -> None:
    descent = small("squared", {}, "exact", weighted=False).descent([1.0])
    zero = torch.zeros(300, 1, dtype=torch.float64)
    descent.problem.targets.y.zero_()
    assert certify(descent.state, descent.problem, [(zero, zero)])[0].worst == 0
    assert certify(descent.state, descent.problem, [(zero, zero * torch.nan)])[0].worst == torch.inf


def test_a_gap_below_zero_is_a_rounding_error() -> None:
    sums = torch.tensor([[2.0], [-1.0], [-1.0 - 1e-15]], dtype=torch.float64)
    assert float(Gap(sums).relative) < 0
    assert Gap(sums).worst == 0


def test_average_before_the_first_step_is_the_start() -> None:
    descent = small("hinge", {}, "features", weighted=False).descent([1.0], block_size=64)
    assert torch.equal(Average(descent.state, 5).read(descent.state)[0], descent.state.alpha)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_threads_share_the_kernel_of_a_block_and_change_no_bit_of_it(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(2_200, 5, generator=draw, dtype=dtype)
    state = joker.prepare(x, x[:, :1].sign(), loss="hinge", kernel="gaussian", bandwidth=2.0).descent.state
    rows, before, found = torch.randperm(len(x), generator=draw)[:900], torch.get_num_threads(), []
    called: list[tuple[int, ...]] = []
    kernel = state.kernel
    state.kernel = lambda x, z: called.append((len(x), len(z))) or kernel(x, z)
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(state.open(rows).K)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
    assert sorted(set(called)) == [(132, 900), (256, 900)]
    torch.testing.assert_close(found[0], kernel(x[rows], x[rows]), rtol=1e-5, atol=1e-6)
