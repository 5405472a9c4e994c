"""Every loss against a trusted convex solver: objective, certificate and zeros."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from solvers import reference
from solvers.problems import CASES, LAMBDAS, Small, small
from torch import Tensor

from joker.solvers import Reason, Report

ids = pytest.mark.parametrize(("name", "parameters"), CASES, ids=str)
modes = pytest.mark.parametrize("mode", ["exact", "features"])
weightings = pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])


@cache
def _solved(name: str, parameters: tuple[tuple[str, float], ...], mode: str, weighted: bool, n: int, lam: float):
    problem = small(name, dict(parameters), mode, weighted, n)
    objective, alpha = reference.solve(
        name, dict(parameters), problem.root.numpy(), problem.y.numpy(), (problem.c / lam).numpy()
    )
    return objective, torch.from_numpy(alpha)


def _expected(name: str, parameters: dict[str, float], mode: str, weighted: bool, lams: list[float], n: int = 300):
    key = tuple(sorted(parameters.items()))
    pairs = [_solved(name, key, mode, weighted, n, lam) for lam in lams]
    return torch.tensor([objective for objective, _ in pairs]), torch.stack([alpha for _, alpha in pairs], dim=1)


def _check(report: Report, expected: Tensor, accuracy: float, tol: float) -> None:
    assert report.reason is Reason.TOLERANCE
    assert report.relative_gap <= tol
    assert float(report.gap.relative.min()) >= -1e-9
    np.testing.assert_allclose(report.gap.dual, expected, rtol=accuracy)


@ids
@modes
@weightings
def test_optimum(name: str, parameters: dict[str, float], mode: str, weighted: bool) -> None:
    problem = small(name, parameters, mode, weighted)
    expected, _ = _expected(name, parameters, mode, weighted, LAMBDAS)
    five = problem.descent(LAMBDAS, tol=1e-7).run()
    _check(five, expected, 1e-6, 1e-7)
    one = problem.descent(LAMBDAS[2:3], tol=1e-7).run()
    _check(one, expected[2:3], 1e-6, 1e-7)
    _check(problem.descent(LAMBDAS, torch.float32, tol=2e-3).run(), expected, 2e-3, 2e-3)
    _check(problem.descent(LAMBDAS[2:3], torch.float32, tol=2e-3).run(), expected[2:3], 2e-3, 2e-3)
    if weighted:
        assert bool((five.alpha[problem.c == 0] == 0).all())


@pytest.mark.parametrize(("name", "parameters"), [c for c in CASES if "epsilon" in c[1]], ids=str)
@modes
@weightings
def test_zeros_of_the_tube_are_exact(name: str, parameters: dict[str, float], mode: str, weighted: bool) -> None:
    """α itself need not be unique where K is singular; the predictions and with them the zeros are."""
    problem = small(name, parameters, mode, weighted)
    lams = LAMBDAS[1:4]
    _, alpha = _expected(name, parameters, mode, weighted, lams)
    residual = problem.y[:, None] - problem.root.T @ (problem.root @ alpha)
    report = problem.descent(lams, tol=1e-10).run()
    inside = residual.abs() < parameters["epsilon"] - 1e-3
    outside = (residual.abs() > parameters["epsilon"] + 1e-3) & (problem.c[:, None] > 0)
    assert bool(inside.any())
    assert bool(outside.any())
    assert bool((report.alpha[inside] == 0).all())
    assert bool((report.alpha[outside] != 0).all())


@pytest.mark.parametrize(
    ("name", "n", "mode"),
    [("squared_hinge", 2000, "features"), ("squared", 1200, "exact"), ("logistic", 700, "features")],
)
def test_larger_problems(name: str, n: int, mode: str) -> None:
    problem = small(name, {}, mode, weighted=True, n=n)
    expected, _ = _expected(name, {}, mode, True, [1.0], n)
    _check(problem.descent([1.0], block_size=n, tol=1e-7).run(), expected, 1e-6, 1e-7)


@ids
@modes
@pytest.mark.parametrize("momentum", [False, True], ids=["plain", "momentum"])
def test_many_blocks_reach_the_same_optimum(name: str, parameters: dict[str, float], mode: str, momentum: bool) -> None:
    problem = small(name, parameters, mode, weighted=True)
    expected, _ = _expected(name, parameters, mode, True, [8.0, 64.0])
    report = problem.descent([8.0, 64.0], block_size=64, max_epochs=400, tol=1e-3, momentum=momentum).run()
    assert report.reason is Reason.TOLERANCE
    np.testing.assert_allclose(report.gap.dual, expected, rtol=1e-3)


def test_the_reference_itself_on_a_problem_with_a_closed_form() -> None:
    problem: Small = small("squared", {}, "exact", weighted=False)
    K = problem.root.T @ problem.root
    alpha = torch.linalg.solve(K + 0.5 * torch.eye(len(K)), problem.y)
    objective, found = reference.solve(
        "squared", {}, problem.root.numpy(), problem.y.numpy(), (problem.c / 0.5).numpy()
    )
    np.testing.assert_allclose(objective, -0.5 * float(problem.y @ alpha), rtol=1e-7)
    np.testing.assert_allclose(found, alpha, atol=1e-5)
