"""Column blocks: their optimum is that of greedy blocks, every step lowers J, and many columns choose them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from solvers.problems import CASES, LAMBDAS, small
from torch import Tensor

import joker
from joker.errors import InvalidParameter
from joker.losses import Hinge, Logistic, Loss, Squared
from joker.solvers import Descent, ProblemSize, Reason, Settings, certify
from joker.solvers.methods.choice import choose
from joker.solvers.methods.column_blocks import LEAST_COLUMNS, ColumnBlocks
from joker.solvers.methods.greedy_blocks import GreedyBlocks

QUADRATIC = ["huber", "absolute", "epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "hinge"]
losses = pytest.mark.parametrize("name", [*QUADRATIC, "squared_hinge"])


def make(name: str, *, weighted: bool = True, dtype: torch.dtype = torch.float64, **settings: object) -> Descent:
    given = {"method": "column_blocks", "block_size": 32, "max_epochs": 400, **settings}
    return small(name, dict(CASES)[name], "exact", weighted).descent(LAMBDAS, dtype, **given)


def classes(n: int, k: int, seed: int = 0) -> tuple[Tensor, Tensor]:  # (n, 4), (n, k)
    draw = torch.Generator().manual_seed(seed)
    number = torch.arange(n) % k
    x = torch.randn(k, 4, generator=draw)[number] + 0.4 * torch.randn(n, 4, generator=draw)
    return x, torch.where(number[:, None] == torch.arange(k), 1.0, -1.0)


@losses
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_the_optimum_is_that_of_greedy_blocks(name: str, weighted: bool) -> None:
    ours = make(name, weighted=weighted, tol=1e-6).run()
    theirs = make(name, weighted=weighted, tol=1e-6, method="greedy_blocks", block_size=300).run()
    assert ours.reason is Reason.TOLERANCE
    assert ours.relative_gap <= 1e-6
    assert torch.allclose(ours.gap.dual, theirs.gap.dual, rtol=2e-6)


@losses
def test_no_step_raises_the_objective_or_leaves_the_box(name: str) -> None:
    descent = make(name, tol=1e-9)
    y, loss = descent.problem.take(slice(None))
    state, before = descent.state, torch.zeros(len(LAMBDAS), dtype=torch.float64)
    for _ in range(12):
        descent.step()
        gap = certify(state, descent.problem, [(state.alpha, state.image_of(state.alpha))])[0]
        assert bool((gap.own_dual <= before + 1e-12 * gap.own_dual.abs()).all())
        assert torch.equal(loss.clamp(y, state.alpha), state.alpha)
        assert torch.allclose(state.image, state.image_of(state.alpha), atol=1e-9)
        before = gap.own_dual


@losses
def test_its_own_gap_is_that_of_the_certificate(name: str) -> None:
    descent = make(name, tol=1e-9)
    descent.step()
    method, state = descent.method, descent.state
    assert isinstance(method, ColumnBlocks)
    gap = certify(state, descent.problem, [(state.alpha, state.image)])[0]
    assert torch.allclose(method.terms.gaps(state.alpha.T, state.image.T), gap.relative, rtol=1e-9)


def test_its_gains_are_those_of_the_loss() -> None:
    descent = make("epsilon_insensitive", tol=1e-9)
    descent.step()
    method, state = descent.method, descent.state
    assert isinstance(method, ColumnBlocks)
    y, loss = descent.problem.take(slice(None))
    gains, rising = method.terms.gains(state.alpha.T, state.image.T, method.diagonal)
    expected = loss.gain(y, state.alpha, state.image, method.diagonal[:, None])
    assert torch.allclose(gains.T, expected, atol=1e-12)
    moves = expected > 1e-9
    assert torch.equal(rising.T[moves], loss.can_increase(y, state.alpha, state.image)[moves])


def test_it_solves_in_float32() -> None:
    report = make("hinge", dtype=torch.float32, tol=1e-4).run()
    assert report.reason is Reason.TOLERANCE


def test_a_tolerance_of_zero_ends_as_stalled_and_not_before() -> None:
    report = make("huber", tol=0.0, dtype=torch.float32, max_epochs=2_000).run()
    assert report.reason is Reason.STALLED
    assert report.relative_gap < 1e-4


def test_a_path_and_an_intercept() -> None:
    x, y = classes(600, 10)
    both = []
    for method in ("column_blocks", "greedy_blocks"):
        settings = Settings(method=method, block_size=64, max_epochs=500, tol=1e-4)
        lam = torch.logspace(-2, 1, 10)
        training = joker.prepare(x, y, loss="hinge", lam=lam, intercept=True, bandwidth=1.0, settings=settings)
        both.append(training.run()[1])
    assert both[0].reason is Reason.TOLERANCE
    assert torch.allclose(both[0].gap.dual, both[1].gap.dual, rtol=2e-4)


def test_batches_of_columns_and_finished_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joker.solvers.methods.column_blocks.MOST_COLUMNS", 3)
    report = make("hinge", tol=1e-6).run()
    assert report.relative_gap <= 1e-6
    descent = make("hinge", tol=1e-6)
    report = descent.run()
    assert descent.method.finished
    at_the_end = descent.state.alpha.clone()
    descent.step()  # the aim is lowered: it goes on, and never returns to a column without need
    assert not torch.equal(descent.state.alpha, at_the_end)


def test_a_warm_start_begins_with_all_columns() -> None:
    descent = make("hinge", tol=1e-4)
    first = descent.run()
    again = make("hinge", tol=1e-4)
    again.start_at(first.alpha)
    assert not again.method.finished
    report = again.run()
    assert report.reason is Reason.TOLERANCE
    assert report.products <= first.products / 4


def test_it_continues_after_any_step() -> None:
    whole = make("hinge", tol=0.0, max_epochs=3).run()
    first = make("hinge", tol=0.0, max_epochs=3)
    first.step()
    second = make("hinge", tol=0.0, max_epochs=3)
    second.load_state_dict(first.state_dict())
    assert torch.equal(second.run().alpha, whole.alpha)


def size(**values: object) -> ProblemSize:
    given: dict[str, object] = {"loss": Hinge(), "rows": 4_000, "columns": 100}
    return ProblemSize(**{**given, **values})  # type: ignore[arg-type]


def test_auto_chooses_it_for_many_columns_that_fit() -> None:
    assert choose("auto", size()) is ColumnBlocks
    assert choose("auto", size(columns=LEAST_COLUMNS)) is ColumnBlocks
    assert choose("auto", size(columns=LEAST_COLUMNS - 1)) is GreedyBlocks
    assert choose("auto", size(gram_room=6 * 10**7)) is GreedyBlocks  # a matrix of 64 MB
    others = [{"loss": Logistic()}, {"kernel_in_memory": True}, {"on_gpu": True}, {"momentum": True}, {"n_features": 9}]
    assert ColumnBlocks not in [choose("auto", size(**other)) for other in [*others, {"loss": Squared()}]]


@pytest.mark.parametrize("values", [{"loss": Logistic()}, {"on_gpu": True}], ids=["loss", "gpu"])
def test_problems_that_it_cannot_solve_are_refused(values: dict[str, Loss | bool]) -> None:
    with pytest.raises(InvalidParameter, match=r"column_blocks' needs .*Use method='auto'"):
        choose("column_blocks", size(**values))


def test_an_estimator_with_many_classes_uses_it() -> None:
    x, y = classes(1_200, 50)
    labels = y.argmax(1).numpy()
    model = joker.KernelSVC(random_state=0).fit(x.numpy(), labels)
    assert "kernel matrix" in [item.name for item in model.plan_.items]
    assert np.max(model.gap_) <= 1e-3
    small_budget = joker.KernelSVC(random_state=0, memory=model.plan_.total - 10**7)
    other = small_budget.fit(x.numpy(), labels)
    assert np.mean(other.predict(x.numpy()) == model.predict(x.numpy())) > 0.99
