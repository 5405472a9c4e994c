"""Losses that couple the classes of a row: the optimum, the certificate, and everything that keeps a group together."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from solvers.multiclass_problems import NAMES, check_feasible, optimum, several_classes
from solvers.problems import LAMBDAS

from joker import losses
from joker.data import make_targets
from joker.errors import InvalidData
from joker.prepare import prepare
from joker.solvers import Descent, Problem, Reason, Report, Settings, loop
from joker.solvers.report import certify_unrounded

names = pytest.mark.parametrize("name", NAMES)
modes = pytest.mark.parametrize("mode", ["exact", "features"])
weightings = pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])


def _check(report: Report, k: int, expected: list[float], accuracy: float, tol: float) -> None:
    assert report.reason is Reason.TOLERANCE
    assert report.relative_gap <= tol
    assert float(report.gap.relative.min()) >= -1e-9
    np.testing.assert_allclose(report.gap.dual.reshape(-1, k).sum(1), expected, rtol=accuracy)


@names
@modes
@weightings
def test_optimum(name: str, mode: str, weighted: bool) -> None:
    lams = LAMBDAS[1::2]
    data = several_classes(mode, weighted, n=60, k=3)
    expected = [optimum(name, data, lam) for lam in lams]
    report = data.descent(name, lams, tol=1e-7).run()
    _check(report, 3, expected, 1e-6, 1e-7)
    check_feasible(report.alpha, data, lams, 1e-12)
    single = data.descent(name, lams, torch.float32, tol=2e-3).run()
    _check(single, 3, expected, 2e-3, 2e-3)
    check_feasible(single.alpha, data, lams, 1e-5)


@pytest.mark.slow
@names
@modes
@weightings
def test_optimum_of_300_rows_and_five_penalties(name: str, mode: str, weighted: bool) -> None:
    data = several_classes(mode, weighted)
    expected = [optimum(name, data, lam) for lam in LAMBDAS]
    _check(data.descent(name, LAMBDAS, tol=1e-7).run(), 4, expected, 1e-6, 1e-7)
    _check(data.descent(name, LAMBDAS[2:3], tol=1e-7).run(), 4, expected[2:3], 1e-6, 1e-7)


@names
@pytest.mark.parametrize(("mode", "momentum"), [("exact", False), ("features", False), ("features", True)])
def test_many_blocks_reach_the_same_optimum(name: str, mode: str, momentum: bool) -> None:
    data = several_classes(mode, weighted=True)
    lams = [8.0, 64.0]
    whole = data.descent(name, lams, tol=1e-6).run()
    report = data.descent(name, lams, block_size=64, max_epochs=400, tol=1e-3, momentum=momentum).run()
    assert report.reason is Reason.TOLERANCE
    np.testing.assert_allclose(report.gap.dual, whole.gap.dual, rtol=1e-3)
    check_feasible(report.alpha, data, lams, 1e-12)


@pytest.mark.parametrize(("name", "binary"), [("softmax", "logistic"), ("crammer_singer", "hinge")])
def test_two_classes_are_the_binary_problem_with_half_the_penalty(name: str, binary: str) -> None:
    data = several_classes("exact", weighted=True, k=2)
    two = data.descent(name, [1.0], tol=1e-8).run()
    targets = make_targets(data.signs(torch.float64, 1)[:, 1:], 0.5, data.base.weights)
    state = data.base.state(torch.float64, 1)
    descent = data.descent(name, [1.0], tol=1e-8)
    one = Descent(state, Problem(losses.get(binary), targets), descent.settings).run()
    difference = two.image[:, 1:] - two.image[:, :1]
    np.testing.assert_allclose(difference, one.image, atol=1e-3)
    np.testing.assert_allclose(two.gap.primal.sum(), one.gap.primal.sum() / 2, rtol=1e-6)


@names
def test_the_columns_of_a_group_have_the_same_gap(name: str) -> None:
    data = several_classes("features", weighted=True)
    report = data.descent(name, [0.5, 2.0], block_size=64, max_epochs=2, tol=0.0).run()
    groups = report.gap.relative.reshape(2, 4)
    assert bool((groups == groups[:, :1]).all())
    assert float(groups[0, 0]) != float(groups[1, 0])


@names
def test_averages_stay_feasible(name: str) -> None:
    data = several_classes("features", weighted=True)
    descent = data.descent(name, [0.1, 4.0], torch.float32, block_size=32, max_epochs=3, tol=0.0)
    descent.run()
    mean = descent.method.average()
    assert mean is not None
    descent.problem.clamp_(mean[0])
    check_feasible(mean[0], data, [0.1, 4.0], 1e-5)


@names
@modes
def test_a_solve_continues_from_a_saved_state(name: str, mode: str) -> None:
    data = several_classes(mode, weighted=False)
    settings = {"block_size": 64, "tol": 0.0}
    whole = data.descent(name, [1.0], max_epochs=4, **settings).run()
    first = data.descent(name, [1.0], max_epochs=2, **settings)
    first.run()
    second = data.descent(name, [1.0], max_epochs=4, **settings)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    np.testing.assert_allclose(second.run().alpha, whole.alpha, rtol=1e-9, atol=1e-12)


@names
def test_a_start_from_anywhere_is_feasible(name: str) -> None:
    data = several_classes("exact", weighted=True)
    descent = data.descent(name, [1.0], tol=1e-6)
    descent.start_at(torch.randn(300, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    check_feasible(descent.state.alpha, data, [1.0], 1e-12)
    expected = data.descent(name, [1.0], tol=1e-6).run()
    np.testing.assert_allclose(descent.run().gap.dual, expected.gap.dual, rtol=1e-6)


def test_targets_that_are_no_classes_are_refused() -> None:
    data = several_classes("exact", weighted=False)
    y = data.signs(torch.float64, 1)
    two = y.clone()
    two[5] = 1.0
    with pytest.raises(InvalidData, match=r"y must be 1 in one of the 4 columns .* Give every row one class"):
        Problem(losses.Softmax(4), make_targets(two, 1.0))
    with pytest.raises(InvalidData, match="y must have 3 columns for each λ with Softmax"):
        Problem(losses.Softmax(3), make_targets(y, 1.0))


def _prepared(name: str, place: str, m: int | None, **settings: object) -> Descent:
    data = several_classes("exact", weighted=True)
    x, y, w = (v.float().to(place) for v in (data.base.x, data.signs(torch.float32, 2), data.base.c))
    lams = np.repeat([0.1, 1.0], data.k).tolist()
    loss, chosen = losses.get(name, classes=data.k), Settings(block_size=70, tol=0.0, **settings)  # type: ignore[arg-type]
    return prepare(x, y, loss=loss, lam=lams, weights=w, n_features=m, settings=chosen).descent


@pytest.mark.gpu
@names
@pytest.mark.parametrize("m", [300, None])
@pytest.mark.parametrize("momentum", [False, True], ids=["plain", "momentum"])
def test_a_gpu_descends_as_the_cpu_does(name: str, m: int | None, momentum: bool) -> None:
    gpu, cpu = (_prepared(name, place, m, max_epochs=6, momentum=momentum).run() for place in ("cuda", "cpu"))
    torch.testing.assert_close(gpu.gap.dual.cpu(), cpu.gap.dual, rtol=2e-2, atol=1e-3)
    assert gpu.relative_gap < 2 * cpu.relative_gap + 1e-3


@names
def test_the_gap_is_certified_for_the_dual_variables_that_are_returned(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32 every clamp moves the shares by rounding errors: none may follow the certificate."""
    certified = []

    def kept(state: object, problem: object, points: list[tuple[torch.Tensor, torch.Tensor]], *rest: object, **named):
        certified.append(points[0][0].clone())
        return certify_unrounded(state, problem, points, *rest, **named)

    monkeypatch.setattr(loop, "certify_unrounded", kept)
    data = several_classes("exact", False, n=60, k=4)
    report = data.descent(name, [1e-5], torch.float32, block_size=32, max_epochs=2, averaging=False).run()
    assert torch.equal(certified[-1], report.alpha)
