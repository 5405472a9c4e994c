"""Blocks made ready ahead: the same descent, in more room where there is some."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from joker.prepare import prepare
from joker.runtime.cuda_graphs import OutOfMemory
from joker.solvers import Descent, FeatureState, Settings
from joker.solvers.feature_chunks import AHEAD, Chunking, choose_chunking, feature_step_bytes

M = 300


def descent(
    device: str = "cpu", loss: str = "squared_hinge", m: int = M, mixed: bool = False, **settings: object
) -> Descent:
    """A ragged partition of 1,003 rows, two columns."""
    x = torch.randn(1_003, 5, generator=torch.Generator().manual_seed(3)).to(device)
    y = torch.where(x[:, 0] * x[:, 1] + x[:, 2].sin() > 0, 1.0, -1.0)
    chosen = Settings(block_size=130, tol=0.0, **settings)
    found = prepare(x, y, loss=loss, lam=[0.1, 1.0], n_features=m, mixed=mixed, settings=chosen)
    return found.descent


def go_ahead(solve: Descent) -> list[int]:
    """Make blocks ready ahead, on the CPU too, which runs one thing after the other; return where each was made."""
    solve.state.part(Chunking(M, ahead=True))
    solve.visits._replayed = True
    solve.visits.forget()
    places: list[int] = []
    make: Callable[[Tensor, int], None] = solve.state.make_ready
    solve.state.make_ready = lambda x, place: (places.append(place), make(x, place))
    return places


@pytest.mark.parametrize("order", ["shuffled", "random"])
@pytest.mark.parametrize("momentum", [False, True])
def test_a_block_made_ahead_is_the_block(order: str, momentum: bool) -> None:
    ahead, plain = (descent(order=order, momentum=momentum) for _ in range(2))
    places = go_ahead(ahead)
    for _ in range(21):
        ahead.step()
        plain.step()
    torch.testing.assert_close(ahead.state.alpha, plain.state.alpha, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ahead.state.image, plain.state.image, rtol=1e-5, atol=1e-6)
    assert places == [step % 2 for step in range(22)]  # each block once, in turn


def test_a_descent_that_is_continued_makes_its_first_block_again() -> None:
    solve, other = descent(), descent()
    go_ahead(solve)
    for _ in range(5):
        solve.step()
    other.load_state_dict(solve.state_dict())
    places = go_ahead(other)
    for _ in range(4):
        solve.step()
        other.step()
    assert len(places) == 5
    assert torch.equal(other.state.alpha, solve.state.alpha)


def test_going_back_keeps_the_room_that_captured_steps_know() -> None:
    solve = descent()
    places, saved = go_ahead(solve), solve.state_dict()
    solve.step()
    room, first = solve.state._room, solve.state.alpha.clone()
    solve.load_state_dict(saved)
    solve.step()
    assert solve.state._room is room
    assert places == [0, 1, 0, 1]  # what was made ahead is of another step
    assert torch.equal(solve.state.alpha, first)


def test_a_run_leaves_no_room_behind() -> None:
    solve = descent(max_epochs=1)
    go_ahead(solve)
    solve.run()
    assert solve.state._room is None
    solve.step()
    assert solve.state._room is not None


def test_without_room_for_two_blocks_each_is_made_when_its_turn_comes() -> None:
    solve, plain = descent(), descent()
    go_ahead(solve)

    def no_room() -> None:
        raise OutOfMemory("no room")

    solve.state.take_room = no_room
    for _ in range(3):
        solve.step()
        plain.step()
    assert not solve.state.ahead
    assert len(solve.state.parts) == 1
    assert torch.equal(solve.state.alpha, plain.state.alpha)


def test_every_smaller_way_takes_less() -> None:
    features = descent().state.features
    shape = (AHEAD // M + 1, 5, M, 1)
    how: Chunking | None = Chunking(M, M, ahead=True)
    taken = []
    while how is not None:
        part = features.slice(0, how.size)
        taken.append((feature_step_bytes(part, *shape, how, 4), how))
        how = how.smaller()
    assert [size for size, _ in taken] == sorted((size for size, _ in taken), reverse=True)
    for size, how in taken:
        assert choose_chunking(features, *shape, size, mixed=True, ahead=True, itemsize=4) == how
    assert not choose_chunking(features, *shape, 0, mixed=True, ahead=True, itemsize=4).ahead


def test_small_blocks_are_not_made_ahead() -> None:
    features, b = descent().state.features, AHEAD // M
    found = [
        choose_chunking(features, rows, 5, M, 1, 2**40, mixed=True, ahead=True, itemsize=4) for rows in (b - 1, b + 1)
    ]
    assert [how.ahead for how in found] == [False, True]


def test_the_cpu_does_not_go_ahead() -> None:
    assert not descent().state.ahead


@pytest.mark.gpu
@pytest.mark.parametrize(("loss", "m", "mixed"), [("squared_hinge", M, False), ("squared", 8_192, True)])
@pytest.mark.parametrize("momentum", [False, True])
def test_on_a_card_going_ahead_changes_nothing(loss: str, m: int, mixed: bool, momentum: bool) -> None:
    ahead, plain = (descent("cuda", loss, m, mixed, momentum=momentum) for _ in range(2))
    assert isinstance(ahead.state, FeatureState)
    ahead.state.part(Chunking(m, m if mixed else None, ahead=True))
    for _ in range(40):
        ahead.step()
        plain.step()
    assert ahead.visits.replay is not None
    assert ahead.visits.replay.capturing
    torch.testing.assert_close(ahead.state.alpha, plain.state.alpha, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ahead.state.image, plain.state.image, rtol=1e-4, atol=1e-4)
    assert ahead.tally.outcomes == plain.tally.outcomes
