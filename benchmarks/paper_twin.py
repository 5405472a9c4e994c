"""The block solver as printed in the paper (Algorithms 1 and 2), errors included, for comparison.

Algorithm 1 is a trust region; Algorithm 2 finds its step by truncated conjugate gradients.
Where the paper is ambiguous, or prints something that cannot have been run, :class:`Reading`
decides. Everything else is literal: the tolerance is absolute, one coordinate that leaves the
box ends conjugate gradients, the ratio is a difference of two objectives over a difference of
two models, the radius grows only if the clamped step touches it, and there is no test of
convergence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from joker.losses import Scaled

T_TR = 50  # trust-region iterations in a call: "in our implementation, T_TR <= 50"
ETA = 0.25  # acceptance threshold: the paper allows (0, 1/4]


@dataclass(frozen=True)
class Reading:
    """How ambiguities of the paper are read; the defaults favour the paper.

    Parameters
    ----------
    update_r2old : bool
        Algorithm 2 has no line ``r2old <- r2new``. Without it every step length uses the first residual, and conjugate
        gradients diverge after the first iteration. False is the printed version.
    keep_leaving_step : bool
        When a step leaves the box, Algorithm 2 returns s from before that step. If it was the first step, s is 0 and
        the solve never moves. The text says instead that s is projected back to the feasible region at the end,
        which is only useful for the step that left. False is the printed version.
    max_radius : float
        Delta_max, in units of c √b, which is half the diagonal of the box [-c, c]^b; the paper gives no value.
    tolerance : float
        Both epsilons: of ``r2new`` in Algorithm 2, and of touching the radius in Algorithm 1; the paper gives no value.
    max_cg : int
        A limit on the loop "while not converged". Conjugate gradients need at most one iteration per row; the text
        reports that 10 were enough.
    """

    update_r2old: bool = True
    keep_leaving_step: bool = True
    max_radius: float = 1.0
    tolerance: float = 1e-10
    max_cg: int = 512


PRINTED = Reading(update_r2old=False)  # with keep_leaving_step=False as well, most losses never leave 0
MENDED = Reading()
MENDED_SHORT = Reading(max_cg=10)


@dataclass(frozen=True)
class Point:
    """The state of the solve after a trust-region iteration."""

    x: Tensor  # (b, 1)
    g_bar: Tensor  # (b, 1) prediction at x
    J: float
    products: int = 0  # matrix-vector products K v of this iteration
    inside: tuple[float, ...] = ()  # J after each iteration of Algorithm 2 within this iteration


@dataclass(frozen=True)
class Subproblem:
    """The dual over one block: J(x) = f·(x-a) + ½ (x-a)·K(x-a) + Σ psi(x), up to a constant."""

    K: Tensor  # (b, b)
    f: Tensor  # (b, 1) prediction at a
    a: Tensor  # (b, 1)
    y: Tensor  # (b, 1)
    loss: Scaled

    def J(self, x: Tensor, g_bar: Tensor) -> float:
        """Return the objective, given the prediction ``g_bar`` at ``x``."""
        return float(((x - self.a) * 0.5 * (g_bar + self.f)).sum() + self.loss.psi(self.y, x).sum())

    def slope(self, x: Tensor) -> Tensor:
        """Return ∇f; at a kink of f the paper's appendix uses sign(x) as the derivative of |x| (0 at 0).

        The appendix prints sign(x) without its factor ε, which would solve the problem of ε = 1; the factor stands two
        lines above, so it is used here.
        """
        return self.loss.psi_slope(self.y, x) + self.loss.kink * x.sign()

    def curvature(self, x: Tensor) -> Tensor:
        """Return ∇²f; for the logistic loss capped at spacing(c)^-½, as in the paper's section on KLR."""
        h = self.loss.psi_curvature(self.y, x)
        return h.clamp(max=self._spacing() ** -0.5) if self.loss.barrier else h

    def box(self) -> tuple[Tensor, Tensor]:
        """Return τ^L and τ^U; for the logistic loss one spacing(c) inside the ends."""
        low, high = self.loss.box(self.y)
        inset = self._spacing() if self.loss.barrier else 0.0
        return low + inset, high - inset

    def start(self) -> Tensor:
        """Return the first point; the logistic loss cannot start at 0, so it gets joker's starting point."""
        low, high = self.box()
        return self.loss.psi_start(self.y, self.a, torch.zeros_like(self.a)).clamp(low, high)

    def scale(self) -> float:
        """Return c √b, the unit of the radius."""
        return float(self.loss.c) * len(self.y) ** 0.5

    def _spacing(self) -> float:
        """Return the distance from c to the next smaller number."""
        c = self.y.new_tensor(float(self.loss.c))
        return float(c - torch.nextafter(c, torch.zeros_like(c)))


def solve(problem: Subproblem, reading: Reading, max_products: int) -> Iterator[Point]:
    """Call Algorithm 1 until the matrix-vector products are used up or a call changes nothing."""
    x = problem.start()
    g_bar, used = problem.f + problem.K @ (x - problem.a), int(bool((x != problem.a).any()))
    point = Point(x, g_bar, problem.J(x, g_bar), used)
    yield point
    while used < max_products:
        before = point
        for point in trust_region(problem, before, reading):
            used += point.products
            yield point
            if used >= max_products:
                return
        if torch.equal(point.x, before.x):
            return


def trust_region(problem: Subproblem, point: Point, reading: Reading) -> Iterator[Point]:
    """Run Algorithm 1 from ``point``; yields the point after each iteration."""
    x, g_bar, J = point.x, point.g_bar, point.J
    largest = reading.max_radius * problem.scale()
    radius, (low, high) = largest / 4, problem.box()
    for _ in range(T_TR):
        g, h = g_bar + problem.slope(x), problem.curvature(x)
        path = steihaug(problem.K, h, g, radius, low - x, high - x, reading)
        s, Ks = path[-1]
        clamped, products = torch.maximum(torch.minimum(s, high - x), low - x), len(path)
        if not torch.equal(clamped, s):  # else K s is a sum of products that Algorithm 2 has computed
            s, Ks, products = clamped, problem.K @ clamped, products + 1
        J_new = problem.J(x + s, g_bar + Ks)
        inside = tuple(problem.J(x + part, g_bar + Kpart) for part, Kpart in path[:-1])
        model = -float((g * s).sum() + 0.5 * (s * (Ks + h * s)).sum())  # μ(0) - μ(s)
        rho = (J - J_new) / model if model else math.nan
        if rho < 0.5:
            radius = radius / 4
        elif rho > 0.75 and radius - float(s.norm()) < reading.tolerance:
            radius = min(2 * radius, largest)
        if rho > ETA:
            x, g_bar, J = x + s, g_bar + Ks, J_new
        yield Point(x, g_bar, J, products, inside)


def steihaug(
    K: Tensor,  # (b, b)
    h: Tensor,  # (b, 1)
    g: Tensor,  # (b, 1)
    radius: float,
    low: Tensor,  # (b, 1) bounds of s
    high: Tensor,  # (b, 1)
    reading: Reading,
) -> list[tuple[Tensor, Tensor]]:
    """Run Algorithm 2 without its last line, the clamping; returns s and K s after each iteration."""
    s, Ks, r = torch.zeros_like(g), torch.zeros_like(g), -g
    d, r2old = r, float((r * r).sum())
    path: list[tuple[Tensor, Tensor]] = []
    while len(path) < reading.max_cg:
        Kd = K @ d
        Qd = Kd + h * d
        omega = r2old / float((d * Qd).sum()) if r2old else 0.0  # the printed version divides 0 by 0
        s_next = s + omega * d
        if float(s_next.norm()) > radius:
            omega = _to_sphere(s, d, radius)
            return [*path, (s + omega * d, Ks + omega * Kd)]
        if bool(((s_next < low) | (s_next > high)).any()):
            return [*path, (s_next, Ks + omega * Kd) if reading.keep_leaving_step else (s, Ks)]
        s, Ks, r = s_next, Ks + omega * Kd, r - omega * Qd
        path.append((s, Ks))
        r2new = float((r * r).sum())
        if r2new <= reading.tolerance or math.isnan(r2new):  # the printed version never ends on a NaN
            break
        d = r + r2new / r2old * d
        if reading.update_r2old:
            r2old = r2new
    return path


def _to_sphere(s: Tensor, d: Tensor, radius: float) -> float:
    """Return the ω > 0 with ‖s + ω d‖ = radius."""
    a, b, c = (float((u * v).sum()) for u, v in ((d, d), (s, d), (s, s)))
    return (-b + (b * b + a * (radius * radius - c)) ** 0.5) / a
