"""The descent: how it stops, what it returns, and that it can be interrupted anywhere."""

from __future__ import annotations

import io
import os
import signal
import time
from dataclasses import replace
from itertools import count, pairwise
from math import inf

import pytest
import torch
from solvers.problems import CASES, LAMBDAS, small

import joker
from joker import kernels
from joker.errors import ConvergenceWarning, InvalidParameter, StateMismatch, UnknownName
from joker.losses import Scaled, Squared
from joker.runtime.warning_filters import ignoring
from joker.solvers import BlockSolver, Descent, Reason, Report, Settings, certify, loop
from joker.solvers.methods.random_blocks import RandomBlocks
from joker.solvers.report import certify_in_float64

HINGE = ("squared_hinge", {})
modes = pytest.mark.parametrize("mode", ["exact", "features"])
RANDOM = [{}, {"averaging": False}, {"momentum": True}, {"momentum": True, "averaging": False}]
methods = pytest.mark.parametrize("method", [{"method": "random_blocks", **settings} for settings in RANDOM], ids=str)
GREEDY, GRADIENTS = ("exact", "hinge", "greedy_blocks"), ("exact", "squared", "conjugate_gradients")
others = pytest.mark.parametrize(
    ("mode", "name", "method"), [GREEDY, ("exact", "logistic", "greedy_blocks"), GRADIENTS]
)


def make(mode: str = "features", name: str = "squared_hinge", lams: list[float] | None = None, **settings: object):
    parameters = dict(CASES)[name]
    return small(name, parameters, mode, weighted=True).descent(lams or [1.0], block_size=64, **settings)


class Chosen(RandomBlocks):
    """A method that is given as a class."""

    name = "chosen"


def same(a: Report, b: Report) -> None:
    assert torch.equal(a.alpha, b.alpha)
    assert torch.equal(a.image, b.image)
    assert torch.equal(a.gap.sums, b.gap.sums)
    assert a.reason is b.reason
    assert [r.epoch for r in a.records] == [r.epoch for r in b.records]
    assert a.outcomes == b.outcomes
    assert a.products == b.products


@modes
@methods
def test_continued_after_any_block_it_ends_the_same(mode: str, method: dict[str, bool]) -> None:
    whole = make(mode, max_epochs=2, tol=0.0, **method).run()
    for stop in (1, 5, 7, 9):  # in either epoch, and where one ends
        first = make(mode, max_epochs=2, tol=0.0, **method)
        first.settings = replace(first.settings, max_epochs=stop / first.method.steps_per_epoch)
        first.run()
        first.records = [r for r in first.records if r.epoch == int(r.epoch)]  # evaluations of the whole run
        file = io.BytesIO()
        torch.save(first.state_dict(), file)
        file.seek(0)
        second = make(mode, max_epochs=2, tol=0.0, **method)
        second.load_state_dict(torch.load(file, weights_only=True))
        same(second.run(), whole)


@others
@pytest.mark.parametrize("lams", [[1.0], LAMBDAS[:3]], ids=len)
def test_every_method_continues_after_any_step(mode: str, name: str, method: str, lams: list[float]) -> None:
    settings = {"method": method, "max_epochs": 8, "tol": 0.0}
    whole = make(mode, name, lams, **settings).run()
    for stop in (1, 4, 7):
        first = make(mode, name, lams, **settings)
        first.settings = replace(first.settings, max_epochs=stop / first.method.steps_per_epoch)
        first.run()
        first.records = [r for r in first.records if r.epoch == int(r.epoch)]
        second = make(mode, name, lams, **settings)
        second.load_state_dict(first.state_dict())
        same(second.run(), whole)


@others
def test_every_method_arrives_at_the_optimum(mode: str, name: str, method: str) -> None:
    report = make(mode, name, LAMBDAS[:3], method=method, max_epochs=60, tol=1e-6).run()
    assert report.reason is Reason.TOLERANCE
    assert report.relative_gap <= 1e-6


def test_the_method_follows_from_the_problem() -> None:
    assert make("features").settings.method == "random_blocks"
    assert make("exact").settings.method == "greedy_blocks"
    assert make("exact", "squared").settings.method == "conjugate_gradients"
    assert make("exact", "huber").settings.method == "greedy_blocks"
    assert make("exact", momentum=True).settings.method == "random_blocks"
    assert isinstance(make("exact", method=Chosen).method, Chosen)
    assert small(*HINGE, "exact", weighted=False).descent([1.0]).settings.method == "random_blocks"  # one block


def test_greedy_blocks_of_a_barrier_loss_do_not_stall() -> None:
    """With a small λ a block of new rows may end no better than it began; the same block would then be chosen again."""
    x = torch.randn(2_000, 10, generator=torch.Generator().manual_seed(0))
    y = torch.sign(x[:, 0] + 0.5 * x[:, 1] ** 2 - 0.5)
    settings = Settings(block_size=256, max_epochs=60, tol=1e-3, method="greedy_blocks")
    training = joker.prepare(x, y, loss="logistic", lam=1e-4, kernel="gaussian", bandwidth=3.0, settings=settings)
    assert training.run()[1].reason is Reason.TOLERANCE


def test_greedy_blocks_need_fewer_steps_than_random_ones() -> None:
    greedy, random = (
        make("exact", "hinge", [0.1], method=method, max_epochs=50, tol=1e-3).run()
        for method in ("greedy_blocks", "random_blocks")
    )
    assert greedy.records[-1].epoch < 0.7 * random.records[-1].epoch


def test_greedy_blocks_do_not_shift_all_predictions_to_and_fro() -> None:
    """With a wide kernel, rows that all rise shift every prediction; blocks then only undid each other's shifts."""
    x = torch.randn(4_000, 6, generator=torch.Generator().manual_seed(0))
    y = torch.sign(torch.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2])
    settings = Settings(block_size=64, max_epochs=8, tol=1e-3, method="greedy_blocks")  # it needs 5, and needed 14
    training = joker.prepare(x, y, loss="hinge", lam=1e-3, kernel="gaussian", bandwidth=20.0, settings=settings)
    assert training.run()[1].reason is Reason.TOLERANCE


def test_a_greedy_block_has_every_row_once() -> None:
    """Also where all rows rise: the rows of the last block must not fill the place of those that fall."""
    training = joker.prepare(
        torch.randn(100, 2, generator=torch.Generator().manual_seed(0)),
        torch.ones(100),
        loss="hinge",
        settings=Settings(block_size=40, method="greedy_blocks"),
    )
    for _ in range(4):
        rows = training.descent.method._working_set()
        assert len(rows.unique()) == len(rows) == 40


@pytest.fixture
def _interrupts():
    """Ctrl-C raises, even where the tests were started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
@methods
def test_an_interrupt_takes_effect_between_two_blocks(method: dict[str, bool]) -> None:
    whole = make(max_epochs=3, tol=0.0, **method).run()
    descent = make(max_epochs=3, tol=0.0, **method)
    open_block, seen = descent.state.open, []

    def open_and_interrupt(rows, x, prepared):
        seen.append(len(rows))
        if len(seen) == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return open_block(rows, x, prepared)

    descent.state.open = open_and_interrupt
    with pytest.raises(KeyboardInterrupt):
        descent.run()
    assert descent.steps == 7
    same(descent.run(), whole)


def test_more_epochs_continue_a_finished_run() -> None:
    descent = make(max_epochs=2, tol=0.0)
    assert descent.run().reason is Reason.EPOCHS
    descent.settings = replace(descent.settings, max_epochs=4)
    same(descent.run(), make(max_epochs=4, tol=0.0).run())


@modes
def test_columns_with_their_own_penalty_equal_separate_runs(mode: str) -> None:
    # How a block is solved depends on the number of columns; what its solution is does not.
    settings = {"max_epochs": 3, "tol": 0.0, "block": BlockSolver(tol=1e-4)}
    settings["method"] = "random_blocks"  # greedy blocks are chosen for all columns together
    path = make(mode, lams=LAMBDAS, **settings).run()
    for j, lam in enumerate(LAMBDAS):
        alone = make(mode, lams=[lam], **settings).run()
        torch.testing.assert_close(path.gap.dual[j], alone.gap.dual[0], rtol=1e-3, atol=0)


@modes
@pytest.mark.parametrize("name", dict(CASES))
def test_the_last_iterate_never_gets_worse(mode: str, name: str) -> None:
    duals = []
    make(mode, name, averaging=False, max_epochs=6, tol=0.0).run(lambda r: duals.append(float(r.gap.dual)) or None)
    rounding = 1e-12 * abs(duals[-1])
    assert all(after <= before + rounding for before, after in pairwise(duals))
    assert duals[-1] < duals[0] < 0


@pytest.mark.parametrize(
    ("name", "mode"), [(name, "features" if i % 2 else "exact") for i, name in enumerate(dict(CASES))]
)
def test_momentum_stays_in_the_box_and_converges(mode: str, name: str) -> None:
    fast = make(mode, name, lams=[0.5], max_epochs=30, tol=1e-9, momentum=True).run()
    assert fast.relative_gap < 0.05 * fast.records[0].relative_gap
    assert fast.relative_gap < 5e-3
    assert float(fast.gap.relative.min()) >= -1e-9
    problem = make(mode, name, lams=[0.5]).problem
    y, loss = problem.take(slice(None))
    low, high = loss.box(y)
    assert bool(((fast.alpha >= low) & (fast.alpha <= high)).all())


def test_momentum_pays_with_many_blocks_and_a_small_penalty() -> None:
    fast, plain = (
        small("squared", {}, "features", weighted=False, n=300).descent([1e-4], block_size=10, **kind).run()
        for kind in ({"momentum": True, "max_epochs": 40}, {"max_epochs": 40})
    )
    assert fast.relative_gap < plain.relative_gap


def test_reasons_to_stop() -> None:
    assert make(max_epochs=0).run().reason is Reason.EPOCHS
    assert make(max_epochs=1, tol=0.0).run().records[-1].epoch == 1
    assert make(max_epochs=1.4, tol=0.0).run().records[-1].epoch == 1.4
    assert make(max_epochs=50, tol=0.5).run().reason is Reason.TOLERANCE
    timed = make(max_epochs=1e9, tol=0.0, max_time=1e-6).run()  # over before anything can be solved
    assert timed.reason is Reason.TIME
    assert timed.records[-1].seconds < 5
    assert make(max_epochs=50).run(lambda record: record.epoch >= 2).reason is Reason.ASKED
    assert all(reason.value.endswith(".") for reason in Reason)
    assert "relative gap" in str(timed)


def test_after_the_time_limit_the_gap_is_bounded_without_a_pass_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a pass may take longer than the fit; one that ends for another reason has it."""
    passes: list[object] = []

    def noted(state: object, problem: object, point: object, seed: int) -> object:
        passes.append(point)
        return certify_in_float64(state, problem, point, seed)

    monkeypatch.setattr(loop, "certify_in_float64", noted)
    source = torch.Generator().manual_seed(0)
    x = torch.randn(300, 3, generator=source).numpy()
    settings = {"lam": 1.0, "tol": 1e-12, "block_size": 50, "method": "random_blocks", "precision": "float32"}
    readings = count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(readings))  # a second for each step
    with ignoring(category=ConvergenceWarning):
        timed = joker.KernelRidge(max_time=36, max_epochs=10**6, **settings).fit(x, x[:, 0])
        assert not passes
        joker.KernelRidge(max_epochs=6, **settings).fit(x, x[:, 0])
    assert timed.stop_reason_ == Reason.TIME.value
    assert 0 <= timed.gap_ < inf
    assert passes


def test_before_the_first_step_the_point_is_zero_and_certified() -> None:
    report = make(max_epochs=0).run()
    assert not report.alpha.any()
    assert float(report.gap.dual) == 0
    assert report.relative_gap == 1


@pytest.mark.parametrize("name", dict(CASES))
def test_a_problem_in_one_block_is_solved_whatever_the_epochs(name: str) -> None:
    descent = small(name, dict(CASES)[name], "exact", weighted=False).descent([1.0], max_epochs=1, tol=1e-6)
    assert descent.method.blocks.count == 1
    assert descent.run().reason is Reason.TOLERANCE


def test_stalls_where_the_precision_ends() -> None:
    report = small(*HINGE, "exact", weighted=False).descent([1.0], torch.float32, tol=0.0).run()
    assert report.reason in (Reason.STALLED, Reason.SLOW)
    assert report.relative_gap < 1e-6


@pytest.mark.parametrize("name", ["squared", "hinge", "logistic"])
def test_a_tolerance_that_cannot_be_reached_ends_any_method(name: str) -> None:
    """Conjugate gradients and greedy blocks end when the objective does not fall, long before their many epochs."""
    case = small(name, {}, "exact", weighted=False, n=100)
    report = case.descent([0.01], torch.float32, block_size=20, max_epochs=10**4, tol=0.0).run()
    assert report.reason is Reason.STALLED
    assert report.relative_gap < 1e-4
    assert report.records[-1].epoch < 500


def test_a_finished_run_that_is_run_again_returns_the_same() -> None:
    descent = make(max_epochs=2, tol=0.0)
    same(descent.run(), descent.run())


def test_the_callback_sees_the_last_record_too() -> None:
    seen = []
    report = make(max_epochs=50, tol=0.5).run(seen.append)
    assert report.reason is Reason.TOLERANCE
    assert seen == list(report.records)


@methods
def test_a_record_whose_callback_failed_is_taken_again(method: dict[str, bool]) -> None:
    seen = []

    def fails_once(record) -> None:
        seen.append(record.epoch)
        if seen == [1, 2]:
            raise RuntimeError

    descent = make(max_epochs=3, tol=0.0, **method)
    with pytest.raises(RuntimeError):
        descent.run(fails_once)
    same(descent.run(fails_once), make(max_epochs=3, tol=0.0, **method).run())
    assert seen == [1, 2, 2, 3]


def test_the_returned_point_is_scored() -> None:
    """Also if its image is computed anew, because no block moves any more."""
    points: list = []
    for settings in ({"max_epochs": 3, "tol": 0.0}, {"max_epochs": 50, "tol": 0.2}):
        points.clear()
        report = make(**settings).run(score=lambda point: points.append(point) or [len(points)])
        assert torch.equal(points[-1][0], report.alpha)
        assert torch.equal(points[-1][1], report.image)
        assert [record.scores for record in report.records] == [(k,) for k in range(1, len(points) + 1)]
    descent = small(*HINGE, "exact", weighted=False).descent([1.0], torch.float32, tol=0.0)
    report = descent.run(score=lambda point: points.append(point) or [0.0])
    assert report.reason in (Reason.STALLED, Reason.SLOW)
    assert torch.equal(points[-1][1], report.image)
    assert torch.equal(report.records[-1].gap.sums, report.gap.sums)


@modes
@methods
def test_it_can_start_anywhere(mode: str, method: dict[str, bool]) -> None:
    """From the nearest point of the box; the image is that of the point, so the gap is a proof from the start."""
    descent = make(mode, max_epochs=2, tol=0.0, **method)
    descent.start_at(torch.linspace(-9, 9, len(descent.state.alpha))[:, None])
    y, loss = descent.problem.take(slice(None))
    assert bool(descent.state.alpha.any())
    assert torch.equal(descent.state.alpha, loss.clamp(y, descent.state.alpha))
    report = descent.run()
    root = small(*HINGE, mode, weighted=True).root
    expected = root @ report.alpha if mode == "features" else root.T @ (root @ report.alpha)
    torch.testing.assert_close(report.image, expected)
    assert report.records[-1].relative_gap < report.records[0].relative_gap


def test_a_block_that_is_not_finite_ends_the_run() -> None:
    descent = make(max_epochs=3)
    descent.state.image += torch.nan
    report = descent.run()
    assert report.reason is Reason.BROKEN
    assert report.relative_gap == torch.inf


def test_conjugate_gradients_that_overflow_end_the_run() -> None:
    """They have no blocks, whose solves would say so: α itself is not finite."""
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    training = joker.prepare(
        x, x[:, 0], kernel=kernels.Polynomial(bandwidth=1e-5, degree=5), lam=1e-6,
        settings=Settings(method="conjugate_gradients", block_size=64, max_epochs=5),
    )  # fmt: skip
    _, report = training.run()
    assert not report.alpha.isfinite().all()
    assert report.reason is Reason.BROKEN
    assert report.records[-1].epoch == 1


def test_an_ill_conditioned_problem_in_one_block_ends_early() -> None:
    descent = small("absolute", {}, "exact", weighted=False).descent([1e-9], torch.float32)
    descent.method.settings = replace(descent.settings, block=BlockSolver(tol=0.9, max_products=1, max_models=1))
    report = descent.run()
    assert report.reason is Reason.SLOW
    assert report.records[-1].epoch < 200


def test_the_tolerance_of_a_block_is_kept_where_errors_would_add_up() -> None:
    """Momentum carries an error on, and no other block corrects that of a problem in one block."""
    given = BlockSolver(tol=0.5, patience=3)
    assert make(block=given).method.solver == given
    assert make(block=given, momentum=True).method.solver == replace(given, patience=inf)
    one = small("squared_hinge", {}, "features", weighted=True).descent([1.0], block_size=10_000, block=given)
    assert one.method.solver.patience == inf


def test_the_gap_is_evaluated_as_often_as_asked() -> None:
    report = make(max_epochs=7, tol=0.0, gap_every=3).run()
    assert [record.epoch for record in report.records] == [3, 6, 7]


def test_the_better_of_average_and_last_iterate_is_returned() -> None:
    descent = make(lams=LAMBDAS, max_epochs=3, tol=0.0)
    report = descent.run()
    last = (descent.state.alpha, descent.state.image)
    both = certify(descent.state, descent.problem, [descent.method.mean.read(descent.state), last])
    assert torch.allclose(report.gap.primal, torch.minimum(both[0].primal, both[1].primal), rtol=1e-9)
    seen = [record.gap.dual for record in report.records]
    assert torch.allclose(report.gap.dual, torch.stack([both[0].dual, both[1].dual, *seen]).amin(0), rtol=1e-9)
    assert bool((report.gap.gap <= (1 + 1e-9) * torch.minimum(both[0].gap, both[1].gap)).all())


def test_the_best_dual_value_of_all_evaluations_counts() -> None:
    solve = make()
    gap = certify(solve.state, solve.problem, [(solve.state.alpha, solve.state.image)])[0]
    better, worse = gap.with_dual(gap.dual - 1), gap.with_dual(gap.dual + 1)
    torch.testing.assert_close(better.gap, gap.gap - 1)
    torch.testing.assert_close(worse.gap, gap.gap)
    assert torch.equal(better.own_dual, gap.dual)
    assert torch.equal(better.primal, gap.primal)


@methods
def test_the_keys_of_a_saved_state(method: dict[str, bool]) -> None:
    saved = make(**method).state_dict()
    parts = {
        name for name, used in (("average", method.get("averaging", True)), ("momentum", "momentum" in method)) if used
    }
    assert set(saved) == {"identity", "steps", "seconds", "records", "tally", "state"} | parts
    assert set(saved["tally"]) == {"counts", "recent", "used"}
    assert set(saved["state"]) == {"alpha", "image"}
    assert set(saved.get("average", {})) in (set(), {"alpha", "image", "steps", "seen"})
    assert set(saved.get("momentum", {})) in (set(), {"alpha", "image", "theta", "dual"})
    problem = {"rows", "kernel or features", "targets", "weights", "lam", "dtype", "loss"}
    settings = {"block_size", "method", "averaging", "momentum", "seed"}
    assert set(saved["identity"]) == problem | settings


def test_a_saved_state_of_another_problem_is_refused() -> None:
    saved = make().state_dict()
    for other in (
        make(lams=[2.0]),
        make("exact"),
        make(seed=1),
        make(name="hinge"),
        make(method=Chosen),
        make(momentum=True),
    ):
        with pytest.raises(StateMismatch, match=r"must belong to the same problem.*differ\. Use the data"):
            other.load_state_dict(saved)


def test_bad_settings_are_refused() -> None:
    for name in ("max_epochs", "tol", "max_time"):
        with pytest.raises(InvalidParameter, match=rf"{name} must be .*got .*Use"):
            Settings(**{name: -1})
    with pytest.raises(InvalidParameter, match="gap_every"):
        Settings(gap_every=0)
    with pytest.raises(UnknownName, match="random_blocks"):
        make(method="random_bloks")


def test_seeds_change_the_order_and_nothing_else() -> None:
    first, again, other = (make(max_epochs=1, tol=0.0, seed=seed).run() for seed in (0, 0, 1))
    assert torch.equal(first.alpha, again.alpha)
    assert not torch.equal(first.alpha, other.alpha)


def test_descent_is_the_algorithm_written_out() -> None:
    """A second implementation without average, statistics and limits: open, solve, commit."""
    descent = make(max_epochs=2, tol=0.0, averaging=False)
    twin: Descent = make()
    blocks = twin.method.blocks
    for step in range(2 * blocks.count):
        block = twin.state.open(blocks.rows(step))
        twin.state.commit(block, twin.settings.block.solve(block.K, block.f, block.a, *twin.problem.take(block.rows)))
    report = descent.run()
    assert torch.equal(report.alpha, twin.state.alpha)
    assert torch.equal(report.image, twin.state.image)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_ridge_with_features_is_solved_by_its_gram_matrix(weighted: bool, dtype: torch.dtype) -> None:
    """In a few passes, also where a large part of the weights is 0 and λ is small."""
    problem = small("squared", {}, "features", weighted=weighted)
    report = problem.descent([1e-3], dtype, block_size=64, method="conjugate_gradients", tol=1e-5, max_epochs=20).run()
    assert report.reason is Reason.TOLERANCE
    assert report.records[-1].epoch <= 6
    whole = problem.descent([1e-3], torch.float64, block_size=64, method="conjugate_gradients", tol=1e-5)
    first = problem.descent([1e-3], torch.float64, block_size=64, method="conjugate_gradients", tol=0, max_epochs=1)
    first.run()
    whole.load_state_dict(first.state_dict())
    assert whole.run().reason is Reason.TOLERANCE


def test_a_method_that_does_not_suit_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"greedy_blocks' needs the exact kernel.*Use method='random_blocks'"):
        make("features", method="greedy_blocks")
    with pytest.raises(InvalidParameter, match=r"conjugate_gradients' needs the squared loss.*Use method='auto'"):
        make("exact", "hinge", method="conjugate_gradients")
    with pytest.raises(InvalidParameter, match="one λ with features"):
        make("features", "squared", [1.0, 2.0], method="conjugate_gradients")
    with pytest.raises(UnknownName, match="method"):
        make("exact", method="simplex")


@modes
def test_a_multiple_of_the_squared_loss_is_another_linear_system(mode: str) -> None:
    """Its solution is that of the squared loss with the penalty divided by the factor."""
    problem = small("squared", {}, mode, weighted=True)
    settings = {"block_size": 64, "method": "conjugate_gradients", "tol": 1e-8, "max_epochs": 60}
    plain = problem.descent([0.2], **settings).run()
    multiple = replace(problem, loss=Scaled(Squared(), 0.5)).descent([0.1], **settings).run()
    assert multiple.reason is plain.reason is Reason.TOLERANCE
    torch.testing.assert_close(multiple.alpha, plain.alpha, rtol=1e-3, atol=1e-4)
