"""A trusted convex solver on the dual, written from the table of conjugates and from nothing in joker."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def solve(name: str, parameters: dict[str, float], root: Array, y: Array, c: Array) -> tuple[float, Array]:
    """Minimise ½‖root α‖² + Σ ψ_i(α_i), where root has rootᵀ root = K; return J and α."""
    keep = c > 0
    c, y, root = c[keep], y[keep], root[:, keep]
    a = cp.Variable(len(y))
    psi, box = _dual(name, parameters, a, y, c)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(root @ a) + psi), box)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    alpha = np.zeros(len(keep))
    alpha[keep] = a.value
    return float(problem.value), alpha


def _dual(
    name: str, parameters: dict[str, float], a: cp.Variable, y: Array, c: Array
) -> tuple[cp.Expression, list[cp.Constraint]]:
    square = 0.5 * cp.sum(cp.multiply(1 / c, cp.square(a)))
    linear = -(y @ a)
    margin = cp.multiply(y, a)
    if name == "squared":
        return square + linear, []
    if name == "huber":
        return square + linear, [cp.abs(a) <= parameters["delta"] * c]
    if name == "absolute":
        return linear, [cp.abs(a) <= c]
    if name == "epsilon_insensitive":
        return linear + parameters["epsilon"] * cp.norm1(a), [cp.abs(a) <= c]
    if name == "squared_epsilon_insensitive":
        return square + linear + parameters["epsilon"] * cp.norm1(a), []
    if name == "quantile":
        return linear, [a <= parameters["quantile"] * c, a >= (parameters["quantile"] - 1) * c]
    if name == "lp":
        q = parameters["p"] / (parameters["p"] - 1)
        return cp.sum(cp.multiply(c ** (1 - q) / q, cp.power(cp.abs(a), q))) + linear, []
    if name == "hinge":
        return linear, [margin >= 0, margin <= c]
    if name == "squared_hinge":
        return square + linear, [margin >= 0]
    assert name == "logistic"
    share = cp.multiply(1 / c, margin)
    return -cp.sum(cp.multiply(c, cp.entr(share) + cp.entr(1 - share))), []
