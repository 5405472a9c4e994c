"""Small problems of several classes, and a trusted convex solver for their dual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from solvers.problems import Small, small
from torch import Tensor

from joker import losses
from joker.data import make_targets
from joker.solvers import Descent, Problem, Settings

NAMES = tuple(losses.ROW_NAMES)


@dataclass(frozen=True)
class Classes:
    """Rows with a class each, and weights."""

    base: Small
    codes: Tensor  # (n,)
    k: int

    def signs(self, dtype: torch.dtype, repeats: int) -> Tensor:  # (n, k · repeats)
        one_hot = torch.where(self.codes[:, None] == torch.arange(self.k), 1.0, -1.0)
        return one_hot.to(dtype).repeat(1, repeats)

    def descent(self, name: str, lams: list[float], dtype: torch.dtype = torch.float64, **settings: object) -> Descent:
        weights = None if self.base.weights is None else self.base.weights.to(dtype)
        targets = make_targets(self.signs(dtype, len(lams)), np.repeat(lams, self.k).tolist(), weights)
        problem = Problem(losses.get(name, classes=self.k), targets)
        state = self.base.state(dtype, self.k * len(lams))
        return Descent(state, problem, Settings(**settings))  # type: ignore[arg-type]


def several_classes(mode: str, weighted: bool, n: int = 300, k: int = 4) -> Classes:
    """The rows of :func:`solvers.problems.small`; the classes are intervals of its target."""
    base = small("squared", {}, mode, weighted, n)
    limits = torch.quantile(base.y, torch.linspace(0, 1, k + 1, dtype=torch.float64)[1:-1])
    return Classes(base, torch.searchsorted(limits, base.y), k)


def optimum(name: str, data: Classes, lam: float) -> float:
    """Minimise the dual over the shares of the classes; written from the formulas and from nothing in joker."""
    cp = pytest.importorskip("cvxpy")
    c = (data.base.c / lam).numpy()
    keep = c > 0
    c, root = c[keep, None], data.base.root.numpy()[:, keep]
    own = np.eye(data.k)[data.codes.numpy()][keep]
    p = cp.Variable(own.shape, nonneg=True)
    alpha = cp.multiply(c, own - p)
    psi = -cp.sum(cp.multiply(c, cp.entr(p))) if name == "softmax" else cp.sum(cp.multiply(1 - own, alpha))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(root @ alpha) + psi), [cp.sum(p, axis=1) == 1])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-8, tol_gap_rel=1e-8, tol_feas=1e-8)
    return float(problem.value)


def check_feasible(alpha: Tensor, data: Classes, lams: list[float], rounding: float) -> None:
    """Check that α is in the set of a loss that couples the classes of a row."""
    k, y = data.k, data.signs(alpha.dtype, len(lams))
    c = (data.base.c[:, None] / torch.tensor(lams).repeat_interleave(k)).to(alpha)
    assert bool((alpha[y < 0] <= 0).all())
    assert bool((alpha <= (1 + rounding) * c)[y > 0].all())
    sums = alpha.unflatten(1, (-1, k)).sum(2)
    assert float((sums / c[:, ::k].clamp(min=1e-12)).abs().max()) <= rounding
    assert bool((alpha[data.base.c == 0] == 0).all())
