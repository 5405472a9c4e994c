"""Conjugate gradients in a box on a CPU, column by column; :mod:`joker.solvers.block.box_cg` does the same on a GPU.

A block of some hundred rows makes every vector short: the search then spends its time on calls, not on numbers. NumPy
calls take a fraction of the time of torch calls, and with one column the decisions of an iteration are plain branches.
"""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import torch
from torch import Tensor

from joker.ops.block_constants import PROPORTION, SHORT_STEP
from joker.solvers.block.box import Box, Minimum
from joker.solvers.block.symmetric_product import SymmetricProduct, Vector


def minimise_columns(
    K: Tensor,  # (b, b)
    h: Tensor,  # (b, t)
    g: Tensor,  # (b, t) smooth gradient at a
    a: Tensor,  # (b, t) inside the box
    box: Box,
    tolerance: Tensor,  # (t,) norm of the projected gradient to reach
    max_products: int,
    patience: float = inf,
) -> Minimum:
    """Minimise the quadratic over the box, from ``a``; above ``patience`` products the tolerance grows with them."""
    low, high = (bound.expand_as(a) for bound in (box.low, box.high))
    times_K, diagonal = SymmetricProduct(K), K.diagonal().numpy()
    found = []
    for j, reach in enumerate(tolerance.tolist()):
        column = (v[:, j].contiguous().numpy() for v in (h, g, a, low, high))
        search = _Search(times_K, diagonal, box.kink, *column)
        reached = search.run(reach, max_products, patience)
        found.append((search.a, search.Ks, search.products, reached))
    points, images, products, done = zip(*found, strict=True)
    return Minimum(
        torch.from_numpy(np.stack(points, axis=1)),
        torch.from_numpy(np.stack(images, axis=1)),
        torch.tensor(products),
        torch.tensor(done),
    )


class _Search:
    """The point, its gradient, and K times the step so far."""

    def __init__(
        self,
        times_K: SymmetricProduct,
        diagonal: Vector,  # of K
        kink: float,
        h: Vector,
        g: Vector,
        a: Vector,
        low: Vector,
        high: Vector,
    ) -> None:
        self.times_K, self.kink, self.products = times_K, kink, 0
        self.h, self.g, self.a, self.low, self.high = h, g, a, low, high
        self.Ks = np.zeros_like(self.a)
        self.inverse = 1 / (diagonal + self.h)  # preconditioner: ψ″ may differ by orders of magnitude
        finfo = np.finfo(self.a.dtype)
        self.smallest, self.tiny, self.eps = float(finfo.eps * diagonal.max()), float(finfo.tiny), float(finfo.eps)
        self.none, self.all = self.a.dtype.type(0), self.a.dtype.type(inf)
        self._find_walls()

    def _times(self, p: Vector) -> Vector:
        self.products += 1
        return self.times_K(p)

    def _find_walls(self) -> None:
        """Find the walls of each coordinate, and which coordinates stand on one."""
        if self.kink:
            # At 0 only a gradient outside [-kink, kink] moves a coordinate, and only to its own side.
            self.side = np.where(self.a != 0, np.sign(self.a), -np.sign(self._beyond_kink()))
            self.near = np.where(self.side < 0, self.low, 0)
            self.far = np.where(self.side > 0, self.high, 0)
            self.zero = self.a == 0
        else:
            self.near, self.far = self.low, self.high
        on_low, on_high = self.a <= self.near, self.a >= self.far
        self.free = ~(on_low | on_high)
        # The gradient of a coordinate counts where it may move: bounds of 0 or infinity.
        self.least, self.most = np.where(on_high, self.none, -self.all), np.where(on_low, self.none, self.all)

    def _beyond_kink(self) -> Vector:
        """Return the gradient at 0: what of it lies outside [-kink, kink]."""
        beyond: Vector = self.g - np.minimum(np.maximum(self.g, -self.kink), self.kink)
        return beyond

    def _gradient(self) -> Vector:
        """Return the projected gradient: 0 for held coordinates that do not leave their wall, and at the solution."""
        g = self.g + self.kink * self.side if self.kink else self.g
        inside: Vector = np.minimum(np.maximum(g, self.least), self.most)
        return np.where(self.zero, self._beyond_kink(), inside) if self.kink else inside

    def run(self, tolerance: float, max_products: int, patience: float) -> bool:
        """Search until the tolerance is reached, and return True, or until the products are used up."""
        p = q = None
        curvature = 1.0
        while True:
            gradient = self._gradient()
            slack = max(1.0, self.products / patience)
            if sqrt(float(gradient @ gradient)) <= slack * tolerance:
                return True
            if self.products >= max_products:
                return False
            scaled = gradient * self.inverse
            free = scaled * self.free
            whole_norm, free_norm = float(scaled @ gradient), float(free @ gradient)
            release = whole_norm - free_norm > PROPORTION**2 * free_norm
            if release:
                p = scaled
                if self.kink:
                    self._find_walls()  # of the sides to which coordinates leave 0
            elif p is None or q is None:
                p = free
            else:
                p = (free - (float(free @ q) / curvature) * p) * self.free
            Kp = self._times(p)
            q = Kp + self.h * p
            curvature = max(float(p @ q), self.smallest * float(p @ p), self.tiny)
            slope = float(p @ gradient)
            length = slope / curvature
            goal = self.a - length * p
            new = np.minimum(np.maximum(goal, self.near), self.far)
            if np.array_equal(goal, new):
                Kd = Kp * -length
            else:
                new, Kd = self._project(p, Kp, length, slope, curvature, gradient)
                q = None  # the next direction is not conjugate to a projected step
            d = new - self.a
            if not d.any():  # the step is below the last bit: nothing is left to gain
                return True
            self.g = self.g + Kd + self.h * d
            self.a, self.Ks = new, self.Ks + Kd
            if q is None or release:
                self._find_walls()

    def _project(
        self, p: Vector, Kp: Vector, length: float, slope: float, curvature: float, gradient: Vector
    ) -> tuple[Vector, Vector]:
        """Return the projected step, a shorter one, or the one to the first wall, and K times it."""
        below, above = self.a - self.near + self.tiny, self.far - self.a + self.tiny
        with np.errstate(over="ignore"):
            speed = max(float((p / below).max()), float((p / -above).max()))
        first = min(1 / speed if speed > 0 else length, length)
        onto = 1 + 4 * self.eps  # else rounding may leave the coordinate an ulp off its wall
        change = first * (0.5 * first * curvature - slope)
        for share in (1.0, SHORT_STEP):
            trial = np.minimum(np.maximum(self.a - (share * length) * p, self.near), self.far)
            d = trial - self.a
            Kd = self._times(d)
            if float(d @ (0.5 * (Kd + self.h * d) + gradient)) <= change:
                return trial, Kd
            if SHORT_STEP * length <= first:
                break
        best = np.minimum(np.maximum(self.a - (first * onto) * p, self.near), self.far)
        return best, Kp * -first
