"""Conjugate gradients on the free coordinates of a box, batched over columns.

Minimises, for each column on its own,

    g·s + ½ s·(K + diag h) s + kink (|a+s|₁ - |a|₁)   with   low ≤ a + s ≤ high.

Each iteration does one of three things in each column:

- **conjugate gradients** over the free coordinates, as long as the step stays inside;
- where the step leaves the box, it is **projected**, and the next direction is not conjugate to it. If the projected
  step decreases the objective less than stopping at the first wall does, a quarter of the step is tried, then the
  step to the first wall is taken;
- where the gradient of the held coordinates is larger than that of the free ones, those that would leave their wall are
  **released**: a step along the negative gradient of both.

The third rule, proportioning, and the first are Z. Dostál's (SIAM J. Optim. 7, 1997); projecting the whole conjugate
step finds many active walls at once. The objective never rises.

:class:`BoxCg` passes columns that need many iterations to :class:`joker.solvers.block.box_cg.Admm`, which moves them
near their minimum, and finishes them from there.

Masks are numbers 0 and 1, and conditions are limits of a clamp, where they can be: torch operations on truth values
are slower on a CPU. Inside, a column is a row in memory, for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.ops.block_constants import BOX_TOLERANCE, PROPORTION, RELAXATION, SHORT_STEP
from joker.solvers.block.model import BlockProblem, Box, Face, Minimum, Model, Strategy, TrialStep, row_dot

Vector = NDArray[Any]  # (b,)
# A search among at least so many coordinates goes on among those that may move, where their share is small. They are
# counted from time to time.
MANY, FEW, COUNTED_EVERY = 256, 0.5, 8
MOST_ROWS = 2_048  # a product with a larger matrix is left to torch, which shares it among its threads


class SymmetricProduct:
    """The product of a symmetric matrix with vectors; call it inside `joker.runtime.devices.one_blas_thread`.

    Up to `MOST_ROWS` rows, the entries on one side of the diagonal are used for both sides.
    """

    def __init__(self, K: Tensor) -> None:  # (b, b), in host memory
        from scipy.linalg import get_blas_funcs  # here, because `import joker` must not load scipy

        self.whole = K
        # The same memory in the order of Fortran, which BLAS does not copy.
        self.K = np.ascontiguousarray(K.numpy()).T if len(K) <= MOST_ROWS else None
        self.symv = get_blas_funcs("symv", dtype=K.numpy().dtype)

    def __call__(self, v: Vector) -> Vector:
        """Return K v."""
        found = torch.mv(self.whole, torch.from_numpy(v)).numpy() if self.K is None else self.symv(1.0, self.K, v)
        product: Vector = found
        return product


# Conjugate gradients in a box on a CPU, column by column; :mod:`joker.solvers.block.box_cg` does the same on a GPU.
#
# A block of some hundred rows makes every vector short: the search then spends its time on calls, not on numbers.
# NumPy calls take a fraction of the time of torch calls, and with one column the decisions of an iteration are
# plain branches.


def minimise_columns(
    K: Tensor, h: Tensor, g: Tensor, a: Tensor, box: Box, tolerance: Tensor, max_products: int, patience: float
) -> Minimum:
    """Do what `box_conjugate_gradients` does, of tensors in host memory."""
    low, high = (bound.expand_as(a) for bound in (box.low, box.high))
    times_K, diagonal = SymmetricProduct(K), K.diagonal().numpy()
    found = []
    for j, reach in enumerate(tolerance.tolist()):
        column = (v[:, j].contiguous().numpy() for v in (h, g, a, low, high))
        search = _Search(times_K, diagonal, box.kink, *column)
        reached = search.run(reach, max_products, patience, FEW if len(K) >= MANY else 0.0)
        while reached is None:
            reached = search.run_movable(K.numpy(), reach, max_products, patience)
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

    def __init__(self, times_K: SymmetricProduct, diagonal: Vector, kink: float, *column: Vector) -> None:
        self.times_K, self.kink, self.products = times_K, kink, 0
        self.h, self.g, self.a, self.low, self.high = column
        self.Ks = np.zeros_like(self.a)
        self.flat = not self.h.any()  # products with a curvature of 0 are left out
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
        zero: Vector | None = None
        if self.kink:
            # At 0 only a gradient outside [-kink, kink] moves a coordinate, and only to its own side.
            zero = self.a == 0
            beyond = self.g - np.minimum(np.maximum(self.g, -self.kink), self.kink)
            side = np.where(zero, -np.sign(beyond), np.sign(self.a))
            self.near, self.far = np.where(side < 0, self.low, 0), np.where(side > 0, self.high, 0)
            shift = -self.kink * side
            self.dead_low, self.dead_high = np.where(zero, -self.kink, shift), np.where(zero, self.kink, shift)
        else:
            self.near, self.far = self.low, self.high
        on_low, on_high = self.a <= self.near, self.a >= self.far
        self.free = (~(on_low | on_high)).astype(self.a.dtype)
        # The gradient of a coordinate counts where it may move: bounds of 0 or infinity.
        self.least, self.most = np.where(on_high, self.none, -self.all), np.where(on_low, self.none, self.all)
        if zero is not None:
            self.least[zero], self.most[zero] = -self.all, self.all

    def _gradient(self) -> Vector:
        """Return the projected gradient: 0 for held coordinates that do not leave their wall, and at the solution.

        The slope of the kink is subtracted; at 0 it is any number of [-kink, kink], the nearest to the gradient.
        """
        g = self.g - np.minimum(np.maximum(self.g, self.dead_low), self.dead_high) if self.kink else self.g
        inside: Vector = np.minimum(np.maximum(g, self.least), self.most)
        return inside

    def run_movable(self, K: Vector, tolerance: float, max_products: int, patience: float) -> bool | None:  # K (b, b)
        """Do what `run` does among the coordinates that may move now, then find those that may move after it."""
        rows = self._movable().nonzero()[0]
        column = (v[rows] for v in (self.h, self.g, self.a, self.low, self.high))
        product = SymmetricProduct(torch.from_numpy(K[np.ix_(rows, rows)]))
        part = _Search(product, K.diagonal()[rows], self.kink, *column)
        part.products = self.products
        part.run(tolerance, max_products, patience)
        d = np.zeros_like(self.a)
        d[rows] = part.a - self.a[rows]
        self.products = part.products
        Kd = self._times(d)
        self.g, self.Ks = self.g + Kd + self.h * d, self.Ks + Kd
        self.a = self.a.copy()
        self.a[rows] = part.a
        self._find_walls()
        return self.run(tolerance, max_products, patience, FEW if d.any() else 0.0)

    def _movable(self) -> NDArray[np.bool_]:
        """Return the coordinates inside their box, and those that leave a wall."""
        found: NDArray[np.bool_] = (self.free != 0) | (self._gradient() != 0)
        return found

    def run(self, tolerance: float, max_products: int, patience: float, few: float = 0.0) -> bool | None:
        """Search until the tolerance is reached, and return True, or until the products are used up.

        None is returned before, where the share of coordinates that may move is below ``few``.
        """
        p = q = None
        curvature = 1.0
        number = 0
        while True:
            gradient = self._gradient()
            slack = max(1.0, self.products / patience)
            if sqrt(float(gradient @ gradient)) <= slack * tolerance:
                return True
            if self.products >= max_products:
                return False
            if few and number % COUNTED_EVERY == 0 and np.count_nonzero(self._movable()) < few * len(self.a):
                return None
            number += 1
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
            q = Kp if self.flat else Kp + self.h * p
            curvature = max(float(p @ q), self.smallest * float(p @ p), self.tiny)
            slope = float(p @ gradient)
            length = slope / curvature
            goal = self.a - length * p
            new = np.minimum(np.maximum(goal, self.near), self.far)
            if not (goal != new).any():
                Kd = Kp * -length
            else:
                new, Kd = self._project(p, Kp, length, slope, curvature, gradient)
                q = None  # the next direction is not conjugate to a projected step
            d = new - self.a
            if not d.any():  # the step is below the last bit: nothing is left to gain
                return True
            self.g = self.g + Kd
            if not self.flat:
                self.g += self.h * d
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
            if float(d @ (0.5 * (Kd if self.flat else Kd + self.h * d) + gradient)) <= change:
                return trial, Kd
            if SHORT_STEP * length <= first:
                break
        best = np.minimum(np.maximum(self.a - (first * onto) * p, self.near), self.far)
        return best, Kp * -first


# ADMM: a point near the minimum of a box problem, whatever its conditioning.
#
# For the problem of :mod:`joker.solvers.block.box_cg`,
#
#     g·s + ½ s·(K + diag h) s + kink (|a+s|₁ - |a|₁)   with   low ≤ a + s ≤ high,
#
# the step has two copies: p of the term with K, and s of the rest, which separates into coordinates. The
# alternating direction method of multipliers (S. Boyd et al., Found. Trends Mach. Learn. 3, 2011) makes them agree,
#
#     p ← (K + ρI)⁻¹ (ρ (s - u) - g)
#     v ← u + 1.6 p - 0.6 s
#     s ← the minimum over the box of  ½ h s² + kink |a+s| + ½ ρ (s - v)²,      u ← v - s,
#
# and needs one inverse for all columns. Conjugate gradients restart at every wall, and without curvature h they
# converge slowly along the small eigenvalues of K; here neither matters.


ADMM_STEPS = 24  # iterations of one call
SMALLEST_RHO = 1e-3  # as a share of the mean of K's diagonal: with less, an inverse in float32 loses its accuracy


@dataclass(frozen=True)
class Admm:
    """ADMM for the box problems of one kernel matrix."""

    K: Tensor  # (b, b)

    @cached_property
    def rho(self) -> Tensor:  # ()
        """The penalty ρ: the geometric mean of the eigenvalues of K, estimated from every second row.

        So half of the eigenvalues are larger than the weight of the tie between the two copies, half are smaller.
        """
        scale = self.K.diagonal().mean()
        pivots = _factor(self.K[::2, ::2], torch.finfo(self.K.dtype).eps * len(self.K) * scale).diagonal()
        return torch.maximum((2 * pivots.log().mean()).exp().nan_to_num(nan=0.0), SMALLEST_RHO * scale)

    @cached_property
    def inverse(self) -> Tensor:  # (b, b)
        """(K + ρI)⁻¹."""
        return shifted_inverse(self.K, self.rho)

    def approach(self, h: Tensor, g: Tensor, a: Tensor, box: Box) -> Minimum:  # (b, t)
        """Return a point near the minimum, never worse than ``a`` in the box, where ``g`` is the smooth gradient."""
        h, g, a, box = h.T.contiguous(), g.T.contiguous(), a.T.contiguous(), box.T
        rho, low, high = self.rho, box.low - a, box.high - a
        kept, threshold = rho / (rho + h), box.kink / (rho + h)
        s, u = torch.zeros_like(a), (box.face(a, g).gradient - g) / rho
        pull, inverse = g @ self.inverse, rho * self.inverse
        for _ in range(ADMM_STEPS):
            p = torch.addmm(pull, s - u, inverse, beta=-1)
            v = torch.lerp(s, p, RELAXATION).add_(u)
            s = kept * v
            if box.kink:
                s = s.add_(a)
                s = s.sub_(torch.clamp(s, -threshold, threshold)).sub_(a)
            s = torch.clamp(s, low, high)
            u = v.sub_(s)
        Ks = s @ self.K
        new = box.clamp(a + s)
        change = (s * (g + 0.5 * (Ks + h * s)) + box.kink * (new.abs() - a.abs())).sum(1, keepdim=True)
        better = change < 0
        products = torch.full_like(change[:, 0], ADMM_STEPS + 1, dtype=torch.long)
        a, Ks = torch.where(better, new, a), torch.where(better, Ks, 0.0)
        return Minimum(a.T, Ks.T, products, torch.zeros_like(better[:, 0]))


def shifted_inverse(K: Tensor, rho: Tensor) -> Tensor:  # (b, b)
    """Return (K + ρI)⁻¹."""
    return torch.cholesky_inverse(_factor(K, rho))


def _factor(K: Tensor, ridge: Tensor) -> Tensor:
    factor: Tensor = torch.linalg.cholesky_ex(K + ridge * torch.eye(len(K), dtype=K.dtype, device=K.device))[0]
    return factor


# Matrix-vector products of each column before ADMM, whose inverse costs as much as many products. All columns share
# the inverse, so each of t columns gets 1 / t² as many. Chosen by measurement with blocks of REFERENCE_ROWS rows.
SINGLE_PRODUCTS = 192  # for one column
SHARED_PRODUCTS = 96  # for several columns, divided by the square of their number
KINKED_PRODUCTS = 32  # the same with a kink: a wall in the middle of the box interrupts conjugate directions often
FEWEST_PRODUCTS = 6
REFERENCE_ROWS = 512  # the inverse of a larger block costs proportionally more products


@dataclass(frozen=True)
class BoxCg(Strategy):
    """Conjugate gradients in box and trust region, then ADMM and conjugate gradients for columns that need many."""

    tolerance_share = BOX_TOLERANCE

    @staticmethod
    def suits(problem: BlockProblem) -> bool:
        return True

    @cached_property
    def admm(self) -> Admm:
        """One inverse for all models of the block."""
        return Admm(self.problem.K)

    def step(self, model: Model) -> TrialStep:
        found = self._minimise(model)
        slack = (found.products / self.problem.patience).clamp(min=1)
        return TrialStep(self.problem.box.clamp(found.a) - model.a, found.Ks, found.products, slack)

    def _minimise(self, model: Model) -> Minimum:
        h, g, a, box, tolerance = model.h, model.g, model.a, model.region, model.tolerance
        limit, patience = self.problem.max_products, self.problem.patience
        if not a.is_cuda:
            return minimise_columns(self.problem.K, h, g, a, box, tolerance, limit, patience)
        few = _products_before_admm(len(a), a.shape[1], kinked=box.kink != 0)
        if limit <= few + ADMM_STEPS:
            return box_conjugate_gradients(self.problem.K, h, g, a, box, tolerance, limit, patience)
        first = box_conjugate_gradients(self.problem.K, h, g, a, box, tolerance, few, patience)
        if bool(first.reached.all()):
            return first
        left = (~first.reached).nonzero()[:, 0]
        h, g, a = h[:, left], (g + first.Ks + h * (first.a - a))[:, left], first.a[:, left]
        box, tolerance, limit = box.columns(left), tolerance[left], limit - few - ADMM_STEPS
        near = self.admm.approach(h, g, a, box)
        g = g + near.Ks + h * (near.a - a)
        last = box_conjugate_gradients(self.problem.K, h, g, near.a, box, tolerance, limit, patience)
        return Minimum(
            first.a.index_copy(1, left, last.a),
            first.Ks.index_add(1, left, near.Ks + last.Ks),
            first.products.index_add(0, left, near.products + last.products),
            first.reached.index_copy(0, left, last.reached),
        )


def _products_before_admm(b: int, t: int, *, kinked: bool) -> int:
    products = KINKED_PRODUCTS if kinked else SINGLE_PRODUCTS if t == 1 else SHARED_PRODUCTS
    return max(FEWEST_PRODUCTS, products // t**2) * max(REFERENCE_ROWS, b) // REFERENCE_ROWS


def box_conjugate_gradients(
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
    h, g, a, box, tolerance = h.T.contiguous(), g.T.contiguous(), a.T.contiguous(), box.T, tolerance[:, None]
    Ks, p, q = torch.zeros_like(a), torch.zeros_like(a), torch.zeros_like(a)
    curvature = torch.ones_like(tolerance)
    conjugate = torch.zeros_like(tolerance)  # 1 where the next direction is to be conjugate to the last
    reached = torch.zeros_like(tolerance, dtype=torch.bool)
    products = torch.zeros_like(tolerance, dtype=torch.long)
    inverse = 1 / (K.diagonal() + h)  # preconditioner: ψ″ may differ by orders of magnitude
    smallest, tiny = torch.finfo(a.dtype).eps * K.diagonal().max(), torch.finfo(a.dtype).tiny

    for _ in range(max_products):
        face = box.face(a, g)
        slack = (products / patience).clamp_(min=1)
        reached = reached | (row_dot(face.gradient, face.gradient) <= (slack * tolerance).square_())
        done = reached | (products >= max_products)
        if bool(done.all()):
            break

        # The direction is the gradient of all coordinates where some are released, else that of the free ones,
        # conjugate to the last direction where that was not projected.
        scaled, inside = face.gradient * inverse, face.free
        free = scaled * inside
        whole_norm, free_norm = row_dot(scaled, face.gradient), row_dot(free, face.gradient)
        release = (whole_norm - free_norm > PROPORTION**2 * free_norm).to(a)
        along = row_dot(free, q).mul_(conjugate * (1 - release)).div_(curvature)
        p = torch.addcmul(scaled, along, p, value=-1).mul_(torch.maximum(inside, release))
        p = p.mul_((~done).to(a))  # then nothing below moves the column

        Kp = p @ K
        q = torch.addcmul(Kp, h, p)
        curvature = torch.maximum(row_dot(p, q), smallest * row_dot(p, p)).clamp_(min=tiny)
        slope = row_dot(p, face.gradient)
        length = slope / curvature
        goal = torch.addcmul(a, length, p, value=-1)
        new = torch.clamp(goal, face.low, face.high)
        leaves = _largest(goal.sub_(new)) > 0
        products = products + (~done).long()
        Kd = Kp * -length
        if bool(leaves.any()):
            inner = _project(K, h, a, p, Kp, length, slope, curvature, face, leaves)
            new, Kd = torch.where(leaves, inner.a, new), torch.where(leaves, inner.Ks, Kd)
            products = products + inner.products
        d = new - a
        reached = reached | (~done & (_largest(d) == 0))  # the step is below the last bit: nothing is left to gain
        g = torch.addcmul(g + Kd, h, d)
        a, Ks, conjugate = new, Ks + Kd, (~leaves).to(a)
    return Minimum(a.T.contiguous(), Ks.T.contiguous(), products[:, 0], reached[:, 0])


def _project(
    K: Tensor, h: Tensor, a: Tensor, p: Tensor, Kp: Tensor, length: Tensor, slope: Tensor, curvature: Tensor,
    face: Face, leaves: Tensor,
) -> Minimum:  # fmt: skip
    """For columns that leave the box: the projected step, a shorter one, or the one to the first wall."""
    first = torch.minimum(face.reach(p), length)
    onto = 1 + 4 * torch.finfo(a.dtype).eps  # else rounding may leave the coordinate an ulp off its wall
    best = torch.clamp(torch.addcmul(a, first * onto, p, value=-1), face.low, face.high)
    Kbest = Kp * -first
    change = first * (0.5 * first * curvature - slope)
    left, products = leaves, torch.zeros_like(leaves, dtype=torch.long)
    for share in (1.0, SHORT_STEP):
        trial = torch.clamp(torch.addcmul(a, share * length, p, value=-1), face.low, face.high)
        d = trial - a
        Kd = d @ K
        trial_change = row_dot(d, torch.addcmul(Kd, h, d).mul_(0.5).add_(face.gradient))
        better = left & (trial_change <= change)
        best, Kbest = torch.where(better, trial, best), torch.where(better, Kd, Kbest)
        products = products + left.long()
        left = left & ~better & (SHORT_STEP * length > first)
        if not bool(left.any()):
            break
    return Minimum(best, Kbest, products, ~leaves)


def _largest(u: Tensor) -> Tensor:  # (t, 1)
    """Largest absolute value of each row."""
    norm: Tensor = torch.linalg.vector_norm(u, torch.inf, dim=1, keepdim=True)
    return norm
