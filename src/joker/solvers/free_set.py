r"""Conjugate gradients on the free set of a box, batched over columns.

Minimises, for each column on its own,

    g·s + ½ s·(K + diag h) s + kink (|x+s|₁ - |x|₁)   with   low ≤ x + s ≤ high.

A coordinate is *held* when it lies on a wall (an end of the box, or 0 where there is a
kink), else *free*. Each iteration does one of three things in each column:

- **conjugate gradients** over the free coordinates, as long as the step stays inside;
- where the step leaves the box, it is **projected**; the conjugate direction starts anew.
  If projecting it lost more than stopping at the first wall, a quarter of the step is
  tried, then the first wall is taken;
- where the held coordinates pull harder than the free ones, those that want to leave
  their wall are **released**: a step along the negative gradient of both.

The third rule, proportioning, and the first are Z. Dostál's (SIAM J. Optim. 7, 1997);
projecting the whole conjugate step identifies many walls at once. The objective never
rises. A kink is a wall at 0: within one orthant |x| is linear, so zeros are exact.

No decision depends on the host, save the early exits of :func:`joker.runtime.all_true`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from joker.runtime import all_true

PROPORTION = 1.0  # held coordinates are released when their pull exceeds this share of the free one
SHORTER = 0.25  # of a conjugate step whose projection lost too much


@dataclass(frozen=True)
class Box:
    """The walls of a problem: an interval for each coordinate and the weight of |x|."""

    low: Tensor  # (b, t)
    high: Tensor  # (b, t)
    kink: float = 0.0

    def face(self, x: Tensor, g: Tensor) -> Face:
        """Where ``x`` stands in the box and which way it may go, given the smooth gradient ``g``."""
        low, high, pull = self.low, self.high, g
        if self.kink:
            # At 0 only a gradient outside [-kink, kink] moves a coordinate, and only to its own side.
            pull = torch.where(x == 0, g - g.clamp(-self.kink, self.kink), g + self.kink * x.sign())
            low = torch.where((x > 0) | ((x == 0) & (pull <= 0)), low.clamp(min=0), low)
            high = torch.where((x < 0) | ((x == 0) & (pull >= 0)), high.clamp(max=0), high)
        held = (x <= low) | (x >= high)
        stuck = torch.where(pull < 0, x >= high, x <= low)  # pushed against a wall
        return Face(pull, low, high, held, pull.masked_fill(stuck, 0.0))

    def projected_gradient(self, x: Tensor, g: Tensor) -> Tensor:
        """The gradient without what pushes against a wall; 0 at the solution."""
        return self.face(x, g).gradient


@dataclass(frozen=True)
class Face:
    """One orthant of the box as seen from a point; every field is (b, t)."""

    pull: Tensor
    low: Tensor
    high: Tensor
    held: Tensor
    gradient: Tensor  # of coordinates that are free, or held and about to leave their wall


@dataclass(frozen=True)
class Minimum:
    """Where the search ended, with ``K s`` for the caller."""

    x: Tensor  # (b, t)
    Ks: Tensor  # (b, t)
    products: Tensor  # (t,) products K v used by each column


def minimise(
    K: Tensor,  # (b, b)
    h: Tensor,  # (b, t)
    g: Tensor,  # (b, t) smooth gradient at x
    x: Tensor,  # (b, t) inside the box
    box: Box,
    tolerance: Tensor,  # (t,) norm of the projected gradient to reach
    max_products: int,
) -> Minimum:
    """Minimise the quadratic model over the box, from ``x``."""
    Ks, p, q = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
    curvature = torch.ones_like(tolerance)
    fresh = torch.ones_like(tolerance, dtype=torch.bool)
    done = torch.zeros_like(fresh)
    products = torch.zeros_like(tolerance, dtype=torch.long)
    inverse = 1 / (K.diagonal()[:, None] + h)  # preconditioner: psi'' may differ by orders of magnitude
    smallest, tiny = torch.finfo(x.dtype).eps * K.diagonal().max(), torch.finfo(x.dtype).tiny

    for _ in range(max_products):
        face = box.face(x, g)
        done = done | (_dot(face.gradient, face.gradient).sqrt() <= tolerance) | (products >= max_products)
        if all_true(done):
            break

        # Direction: released coordinates join in, else conjugate to the last one, else the free gradient.
        scaled = face.gradient * inverse
        free = scaled.masked_fill(face.held, 0.0)
        pull, free_pull = _dot(scaled, face.gradient), _dot(free, face.gradient)
        freeing = pull - free_pull > PROPORTION**2 * free_pull
        along = torch.where(fresh, 0.0, _dot(free, q) / curvature)
        p = torch.where(freeing, scaled, (scaled - along * p).masked_fill(face.held, 0.0))
        p = torch.where(done, 0.0, p)  # then nothing below moves the column

        Kp = K @ p
        q = Kp + h * p
        curvature = torch.maximum(_dot(p, q), smallest * _dot(p, p)).clamp(min=tiny)
        fall = _dot(p, face.pull)
        step = fall / curvature
        goal = x - step * p
        target = torch.clamp(goal, face.low, face.high)
        fresh = (target != goal).any(0)
        products = products + (~done).long()
        Kd = -step * Kp
        if not all_true(~fresh):
            target, Kd, extra = _project(K, h, x, p, Kp, step, fall, curvature, face, target, fresh)
            products = products + extra
        d = target - x
        done = done | ~d.any(0)  # the step is below the last bit: nothing is left to gain
        g = g + Kd + h * d
        x, Ks = target, Ks + Kd
    return Minimum(x, Ks, products)


def _project(
    K: Tensor,
    h: Tensor,
    x: Tensor,
    p: Tensor,
    Kp: Tensor,
    step: Tensor,
    fall: Tensor,
    curvature: Tensor,
    face: Face,
    target: Tensor,
    leaves: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """For columns that leave the box: the projected step, a shorter one, or up to the first wall."""
    room = torch.where(p > 0, x - face.low, x - face.high) / torch.where(p == 0, 1.0, p)
    room = torch.where(p == 0, torch.inf, room)
    first = torch.minimum(room.amin(0), step)
    at_first = torch.where(room <= first, torch.where(p > 0, face.low, face.high), x - first * p)
    best, Kbest = torch.where(leaves, at_first, target), torch.where(leaves, -first, -step) * Kp
    change = first * (0.5 * first * curvature - fall)
    left, extra = leaves, torch.zeros_like(leaves, dtype=torch.long)
    for length in (1.0, SHORTER):
        trial = torch.clamp(x - length * step * p, face.low, face.high)
        d = trial - x
        Kd = K @ d
        trial_change = _dot(d, face.pull) + 0.5 * _dot(d, Kd + h * d)
        better = left & (trial_change <= change)
        best, Kbest = torch.where(better, trial, best), torch.where(better, Kd, Kbest)
        extra = extra + left.long()
        left = left & ~better & (SHORTER * step > first)
        if all_true(~left):
            break
    return best, Kbest, extra


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner product of each column, (t,)."""
    product: Tensor = torch.linalg.vecdot(a, b, dim=0)
    return product
