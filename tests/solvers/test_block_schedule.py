"""Blocks prepared in advance: the same descent, where there is memory for two blocks."""

from collections.abc import Callable
from math import inf

import pytest
import torch
from torch import Tensor

from joker.prepare import prepare
from joker.runtime import OutOfMemory
from joker.solvers import BlockSolver, Descent, FeatureState, Settings
from joker.solvers.feature_state import AHEAD_ENTRIES_ONE_COLUMN, Chunking, choose_chunking, feature_step_bytes

M = 300


def descent(
    device: str = "cpu", loss: str = "squared_hinge", m: int = M, mixed: bool = False, **settings: object
) -> Descent:
    """A ragged partition of 1,003 rows, two columns."""
    x = torch.randn(1_003, 5, generator=torch.Generator().manual_seed(3)).to(device)
    y = torch.where(x[:, 0] * x[:, 1] + x[:, 2].sin() > 0, 1.0, -1.0)
    # Blocks are solved to the end, where their solution does not depend on rounding errors on the way.
    exact = BlockSolver(tol=1e-6, max_products=2_000, patience=inf)
    chosen = Settings(block_size=130, tol=0.0, block=exact, **settings)
    found = prepare(x, y, loss=loss, lam=[0.1, 1.0], n_features=m, mixed=mixed, settings=chosen)
    return found.descent


def prepare_ahead(solve: Descent) -> list[int]:
    """Prepare blocks in advance, on the CPU too, which does so before the step; return the buffer of each."""
    solve.state.use(Chunking(M, ahead=True))
    solve.method.schedule._replayed = True
    solve.method.schedule.release()
    used: list[int] = []
    buffers = solve.state.buffers
    prepare: Callable[[Tensor, int], None] = buffers.prepare
    buffers.prepare = lambda x, buffer: (used.append(buffer), prepare(x, buffer))
    return used


@pytest.mark.parametrize("momentum", [False, True])
def test_a_prepared_block_is_the_block(momentum: bool) -> None:
    ahead, plain = (descent(momentum=momentum) for _ in range(2))
    used = prepare_ahead(ahead)
    for _ in range(21):
        ahead.step()
        plain.step()
    torch.testing.assert_close(ahead.state.alpha, plain.state.alpha, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(ahead.state.image, plain.state.image, rtol=1e-3, atol=1e-3)
    assert used == [step % 2 for step in range(22)]  # each block once, in alternate buffers


def test_a_continued_descent_prepares_its_first_block_again() -> None:
    solve, other = descent(), descent()
    prepare_ahead(solve)
    for _ in range(5):
        solve.step()
    other.load_state_dict(solve.state_dict())
    used = prepare_ahead(other)
    for _ in range(4):
        solve.step()
        other.step()
    assert len(used) == 5
    assert torch.equal(other.state.alpha, solve.state.alpha)


def test_loading_a_state_keeps_the_buffers_that_captured_steps_use() -> None:
    solve = descent()
    used, saved = prepare_ahead(solve), solve.state_dict()
    solve.step()
    memory, first = solve.state.buffers.memory, solve.state.alpha.clone()
    solve.load_state_dict(saved)
    solve.step()
    assert solve.state.buffers.memory is memory
    assert used == [0, 1, 0, 1]  # the block prepared before belongs to another step
    assert torch.equal(solve.state.alpha, first)


def test_a_run_frees_its_buffers() -> None:
    solve = descent(max_epochs=1)
    prepare_ahead(solve)
    solve.run()
    assert solve.state.buffers.memory is None
    solve.step()
    assert solve.state.buffers.memory is not None


def test_without_memory_for_two_blocks_none_is_prepared_in_advance() -> None:
    solve, plain = descent(), descent()
    prepare_ahead(solve)

    def fail() -> None:
        raise OutOfMemory("no memory")

    solve.state.buffers.allocate = fail
    for _ in range(3):
        solve.step()
        plain.step()
    assert solve.state.buffers is None
    assert len(solve.state.chunks) == 1
    assert torch.equal(solve.state.alpha, plain.state.alpha)


def test_every_smaller_chunking_needs_less() -> None:
    features = descent().state.features
    shape = (AHEAD_ENTRIES_ONE_COLUMN // M + 1, 5, M, 1)
    chunking: Chunking | None = Chunking(M, M, ahead=True)
    needed = []
    while chunking is not None:
        chunk = features.slice(0, chunking.size)
        needed.append((feature_step_bytes(chunk, *shape, chunking, 4), chunking))
        chunking = chunking.smaller()
    assert [size for size, _ in needed] == sorted((size for size, _ in needed), reverse=True)
    for size, chunking in needed:
        assert choose_chunking(features, *shape, size, mixed=True, ahead=True, itemsize=4) == chunking
    assert not choose_chunking(features, *shape, 0, mixed=True, ahead=True, itemsize=4).ahead


def test_small_blocks_are_not_prepared_in_advance() -> None:
    features, b = descent().state.features, AHEAD_ENTRIES_ONE_COLUMN // M
    chunkings = [
        choose_chunking(features, rows, 5, M, 1, 2**40, mixed=True, ahead=True, itemsize=4) for rows in (b - 1, b + 1)
    ]
    assert [chunking.ahead for chunking in chunkings] == [False, True]


def test_the_cpu_prepares_nothing_in_advance() -> None:
    assert descent().state.buffers is None


@pytest.mark.gpu
@pytest.mark.parametrize(("loss", "m", "mixed"), [("squared_hinge", M, False), ("squared", 8_192, True)])
@pytest.mark.parametrize("momentum", [False, True])
def test_on_a_gpu_preparing_in_advance_changes_nothing(loss: str, m: int, mixed: bool, momentum: bool) -> None:
    ahead, plain = (descent("cuda", loss, m, mixed, momentum=momentum) for _ in range(2))
    assert isinstance(ahead.state, FeatureState)
    ahead.state.use(Chunking(m, m if mixed else None, ahead=True))
    for _ in range(40):
        ahead.step()
        plain.step()
    assert ahead.method.schedule.replay is not None
    assert ahead.method.schedule.replay.capturing
    torch.testing.assert_close(ahead.state.alpha, plain.state.alpha, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ahead.state.image, plain.state.image, rtol=1e-4, atol=1e-4)
    assert ahead.method.statistics.outcomes == plain.method.statistics.outcomes
