"""A trusted convex solver on the dual, written from the table of conjugates and from nothing in joker."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def solve(name: str, parameters: dict[str, float], root: Array, y: Array, c: Array) -> tuple[float, Array]:
    """Minimise ½‖root α‖² + Σ ψ_i(α_i), where root has rootᵀ root = K; return J and α."""
    keep = c > 0
    c, y, root = c[keep], y[keep], root[:, keep]
    u = cp.Variable(len(y))  # a / c, which is of the order of 1 for every weight and penalty
    psi, box = _dual(name, parameters, u, y, c)
    problem = cp.Problem(cp.Minimize(0.5 * _square_norm(root * c, u) + psi), box)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-8, tol_gap_rel=1e-8, tol_feas=1e-8)
    alpha = np.zeros(len(keep))
    alpha[keep] = c * u.value
    return float(problem.value), alpha


def _square_norm(root: Array, u: Any) -> Any:
    """‖root u‖², written so that the solver factorises the smaller of two matrices."""
    features, rows = root.shape
    if 4 * features < rows:
        return cp.sum_squares(root @ u)
    return cp.quad_form(u, cp.psd_wrap(root.T @ root))


def _dual(name: str, parameters: dict[str, float], u: Any, y: Array, c: Array) -> tuple[Any, list[Any]]:
    """Σ c ψ(u) and the box of u."""
    square = 0.5 * cp.sum(cp.multiply(c, cp.square(u)))
    linear = -((c * y) @ u)
    margin = cp.multiply(y, u)
    if name == "squared":
        return square + linear, []
    if name == "huber":
        return square + linear, [cp.abs(u) <= parameters["delta"]]
    if name == "absolute":
        return linear, [cp.abs(u) <= 1]
    if name == "epsilon_insensitive":
        return linear + parameters["epsilon"] * (c @ cp.abs(u)), [cp.abs(u) <= 1]
    if name == "squared_epsilon_insensitive":
        return square + linear + parameters["epsilon"] * (c @ cp.abs(u)), []
    if name == "quantile":
        return linear, [u <= parameters["quantile"], u >= parameters["quantile"] - 1]
    if name == "lp":
        q = parameters["p"] / (parameters["p"] - 1)
        return c @ cp.power(cp.abs(u), q) / q + linear, []
    if name == "hinge":
        return linear, [margin >= 0, margin <= 1]
    if name == "squared_hinge":
        return square + linear, [margin >= 0]
    assert name == "logistic"
    return -(c @ (cp.entr(margin) + cp.entr(1 - margin))), []
