"""Newton's method with a proximal term, in the space of the features or of a low-rank factor of the kernel matrix.

The dual problem is to minimise ½ ‖Gᵀα‖² + Σ ψ(α_i) + αᵀe, where G are the features of all rows, and e = 0. With the
exact kernel G is a pivoted Cholesky factor, and e = (K - G Gᵀ) α at the α of the last step: what the factor leaves out
is corrected from step to step.

A proximal term μ/2 ‖α - α⁰‖² makes α a function of the predictions, one row at a time, that is piecewise linear; then
θ = Gᵀα(Gθ + e) is an equation for θ whose derivative is I + Gᵀ D G, with D = 1 / (ψ'' + μ) for the rows that are at no
end of their box and at no kink, and 0 for all others. Newton's method with a line search solves it in a few steps. Then
α⁰ moves to α, and μ becomes smaller. Neither a large C nor nearly equal rows make it slow, which they do to blocks.

Where the features are sparse inputs, G is a sparse matrix, and conjugate gradients find the direction of a step from
the rows with D > 0, roughly. A line search in the constant alone, which needs no product, comes before each: rows that
reach an end of their box disturb it most. The gap is that of θ and α: Gᵀα is nearly θ, but has a much larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from joker.data import SparseRows
from joker.errors import InvalidParameter
from joker.losses import Scaled, scaled
from joker.runtime import chunks
from joker.solvers.feature_state import FeatureState
from joker.solvers.kernel_cache import KernelFunction
from joker.solvers.methods.method import AFTER_LAYOUT, Item, KernelMemory, Method, ProblemSize
from joker.solvers.methods.nystrom import factor
from joker.solvers.problem import Problem, Settings
from joker.solvers.state import ExactState, State

Point: TypeAlias = tuple[Tensor, Tensor, Tensor]  # θ (r,), Gθ (n,) and α (n,)

EPOCHS = 20  # that max_epochs="auto" allows; one or two are usually enough
WORK = 10**11  # rows times the square of the features, up to which Newton's method pays
RANK_WORK = 40  # the same with the exact kernel, times the square of the rows
LEAST_SCALE = 100.0  # the largest kernel value over the smallest λ / w, from which a low rank is made use of
MOST_COLUMNS = 32  # each column is solved on its own
MORE_RANK, EXTRA_RANK = 2, 16  # the rank of all rows is at most so many times that of a sample, and some more
SHRINK, LEAST_SHRINK = 0.6, 0.7  # of μ, when α⁰ moves: the most, and the least where the gap is nearly small enough
MOST_OUTER, MOST_NEWTON, MOST_TRIALS = 40, 60, 30
MOST_WORSE = 4  # values of μ in a row that do not lower the gap
FAR = 0.5  # a relative gap above which it may rise
EVERY = 5  # Newton steps, after which the gap is computed even if the residual is large
SOLVED = 0.3  # the share of the gap that is due to the residual of θ, at which α⁰ moves
LEAST_RESIDUAL = 1e-10  # of θ, relative to θ: no step makes it smaller
NEARLY = 2.0  # times the aim: the gap of θ and α below which the gap of α alone is computed
EXACT = 0.1  # the derivative of the objective at the end of a line search, as a share of that at its start
LEFT_OUT = 0.3  # of the tolerance, that predictions may lack before they are corrected
LEAST_TOL = 1e-6
LEAST_AIM = 1e-12  # float64 sums have such errors
AIM, SURE_AIM = 0.5, 0.9  # of the tolerance: the last step must not end just above it; and with features in float64
VECTORS = 24  # float64 numbers of a row
SPARSE_WORK = 1_000  # operations of dense matrices that take as long as those of a sparse Newton step on one entry
ENTRY_BYTES = 48  # of an entry of a sparse G, and of the same among the rows with D > 0
LEAST_MU = 0.25  # of the mean squared length of a row: the first μ with sparse inputs, or more
ROUGHLY = 0.3  # the residual of a direction relative to g
FEWER = 0.7  # of all rows: fewer with D > 0 are copied
MOST_PRODUCTS = 2_000  # of conjugate gradients
WHOLE_ROWS = 512  # rows up to which the kernel matrix is computed as a whole, and not a column at a time


class Factor(Protocol):
    """G, with its products."""

    least_mu: float  # of the first μ
    constants: int  # the last columns, which are ones, for a line search of their own
    own_theta: bool  # whether θ may differ from Gᵀα

    def apply(self, theta: Tensor, /) -> Tensor: ...  # (r,) -> (n,)
    def transposed(self, alpha: Tensor, /) -> Tensor: ...  # (n,) -> (r,)
    def direction(self, D: Tensor, g: Tensor, /) -> Tensor: ...  # (n,), (r,) -> (r,)


class DenseFactor:
    """G as a matrix in float64."""

    least_mu, constants, own_theta = 0.0, 0, False  # its directions are exact

    def __init__(self, G: Tensor) -> None:  # (n, r)
        self.G = G

    def apply(self, theta: Tensor, /) -> Tensor:
        return self.G @ theta

    def transposed(self, alpha: Tensor, /) -> Tensor:
        return self.G.T @ alpha

    def direction(self, D: Tensor, g: Tensor, /) -> Tensor:
        """Return -(I + Gᵀ D G)⁻¹ g."""
        r = self.G.shape[1]
        hessian = torch.eye(r, dtype=D.dtype, device=D.device)
        active = D.nonzero()[:, 0]
        for rows in chunks(len(active), r):
            part = self.G[active[rows]]
            hessian.addmm_(part.T, part * D[active[rows]][:, None])
        return -torch.cholesky_solve(g[:, None], factor(hessian, 0.0))[:, 0]


class SparseFactor:
    """G as a sparse matrix in float64: the inputs of all rows, and so many columns of ones.

    Examples
    --------
    >>> import torch
    >>> from joker.data import sparse_rows
    >>> from joker.solvers.methods.newton import SparseFactor
    >>> rows = sparse_rows(torch.tensor([0, 1, 2]), torch.tensor([2, 0]), torch.tensor([1.0, 5.0]), inputs=3)
    >>> SparseFactor(rows, constants=1).apply(torch.tensor([1.0, 1.0, 1.0, 0.5], dtype=torch.float64)).tolist()
    [1.5, 5.5]
    """

    own_theta = True

    def __init__(self, x: SparseRows, constants: int = 0) -> None:
        n, self.d = x.shape
        self.G, self.constants = x.matrix().astype(np.float64, copy=False), constants
        self.transpose = self.G.T
        squares = type(self.transpose)((self.G.data**2, self.G.indices, self.G.indptr), shape=(self.d, n)) @ np.ones(n)
        self.mean_squares = np.append(squares / n, np.ones(constants))
        self.least_mu = LEAST_MU * float(self.mean_squares.sum())

    def apply(self, theta: Tensor, /) -> Tensor:
        return torch.from_numpy(self.G @ theta[: self.d].numpy()).add_(theta[self.d :].sum())

    def transposed(self, alpha: Tensor, /) -> Tensor:
        return torch.cat([torch.from_numpy(self.transpose @ alpha.numpy()), alpha.sum().expand(self.constants)])

    def direction(self, D: Tensor, g: Tensor, share: float = ROUGHLY, /) -> Tensor:
        """Return -(I + Gᵀ D G)⁻¹ g, with a residual of at most so large a share of g.

        The preconditioner has roots of the diagonal of the matrix, were D the same for all rows: half as many products
        are needed as with the diagonal where some inputs are much more frequent, because these are correlated.
        """
        weights, G, d, b = D.numpy(), self.G, self.d, -g.numpy()
        divisor = np.sqrt(1 + self.mean_squares * weights.sum())
        active = weights.nonzero()[0]
        if len(active) < FEWER * len(weights):
            G, weights = G[active], weights[active]
        x, r, z, transpose = np.zeros_like(b), b.copy(), b / divisor, G.T
        p, rz, enough = z.copy(), r @ z, share**2 * (b @ b)
        for _ in range(MOST_PRODUCTS):
            if r @ r <= enough:
                break
            q, rows = p.copy(), weights * (G @ p[:d] + p[d:].sum())
            q[:d] += transpose @ rows
            q[d:] += rows.sum()
            step = rz / (p @ q)
            x += step * p
            r -= step * q
            np.divide(r, divisor, out=z)
            rz, before = r @ z, rz
            p *= rz / before
            p += z
        return torch.from_numpy(x)


def pivoted_cholesky(
    column: Callable[[int], Tensor], diagonal: Tensor, most: int, tol: float
) -> tuple[Tensor, float]:  # (n,) -> (n, r)
    """Return a factor G of at most ``most`` columns with K ≈ G Gᵀ, and the largest diagonal entry of K - G Gᵀ.

    ``column`` returns a column of K. The factor ends where that entry is at most ``tol``.

    Examples
    --------
    >>> import torch
    >>> from joker.solvers.methods.newton import pivoted_cholesky
    >>> x = torch.linspace(0, 1, 50, dtype=torch.float64)
    >>> K = torch.exp(-((x[:, None] - x) ** 2))
    >>> G, left = pivoted_cholesky(lambda j: K[j], K.diagonal(), 50, 1e-9)
    >>> G.shape[1] < 12 and left <= 1e-9
    True
    """
    left = diagonal.clone()
    rows = torch.empty(most, len(left), dtype=left.dtype, device=left.device)
    if not left.is_cuda:  # the same memory; a call of NumPy takes a third of the time of a call of torch
        return _pivot(lambda j: column(j).numpy(), left.numpy(), rows.numpy(), tol)
    return _pivot(column, left, rows, tol)


def _pivot(column: Callable[[int], Any], left: Any, rows: Any, tol: float) -> tuple[Tensor, float]:
    """Fill the rows of Gᵀ, in arrays of torch or of NumPy, and ``left``, the diagonal of what is left."""
    r = 0
    while r < len(rows):
        pivot = int(left.argmax())
        value = float(left[pivot])
        if value <= tol:
            break
        new = rows[r]
        new[:] = column(pivot)
        new -= rows[:r, pivot] @ rows[:r]
        new *= value**-0.5
        left -= new * new
        left[left < 0] = 0
        left[pivot] = 0
        r += 1
    return torch.as_tensor(rows[:r]).T, float(left.max())


def pivoted_cholesky_of(matrix: Tensor, most: int, tol: float) -> tuple[Tensor, float]:  # (n, n) -> (n, r)
    """Return what `pivoted_cholesky` returns for a whole matrix in host memory, by one call of LAPACK.

    Examples
    --------
    >>> import torch
    >>> from joker.solvers.methods.newton import pivoted_cholesky_of
    >>> x = torch.linspace(0, 1, 50, dtype=torch.float64)
    >>> K = torch.exp(-((x[:, None] - x) ** 2))
    >>> G, left = pivoted_cholesky_of(K, 50, 1e-9)
    >>> G.shape[1] < 12 and left <= 1e-9 and bool((G @ G.T - K).abs().max() < 1e-8)
    True
    """
    from scipy.linalg import get_lapack_funcs  # here, because `import joker` must not load scipy

    K = matrix.numpy()
    triangle, pivots, rank, _ = get_lapack_funcs("pstrf", dtype=K.dtype)(K.T, tol=tol, lower=1)
    rank = min(rank, most)
    G = np.empty((len(K), rank))
    G[pivots - 1] = np.tril(triangle[:, :rank])
    left = K.diagonal() - np.einsum("ij,ij->i", G, G)
    return torch.from_numpy(G), max(0.0, float(left.max(initial=0.0)))


def rank_tolerance(size: float, penalty: float, tol: float, n: int) -> float:
    """Return the diagonal of K that a factor may leave out: its part of predictions is then below the tolerance."""
    least: float = max(tol, LEAST_TOL) * penalty / n**0.5
    return max(1e-13 * size, LEFT_OUT * least)


def is_sparse(n: int, width: int, entries: int | None) -> bool:
    """Return whether n rows with so many entries, and columns of G, are faster as a sparse matrix."""
    return entries is not None and SPARSE_WORK * entries <= n * width**2


class Newton(Method):
    """Proximal Newton steps in the weights θ; a step of the solve is a whole run of them, for each column."""

    name = "newton"
    linear = False
    in_blocks = False
    long_epochs = False
    wide = True

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        super().__init__(state, problem, settings)
        self._factor: Factor | None = None
        self._matrix: Tensor | None = None  # the kernel matrix of few rows, in float64

    @classmethod
    def serves(cls, size: ProblemSize) -> bool:
        plain = not any(isinstance(bound, Tensor) for bound in (size.loss.lower, size.loss.upper, size.loss.kink))
        return size.loss.quadratic and size.loss.group == 1 and plain and size.processes == 1

    @classmethod
    def needs_rank(cls, size: ProblemSize, asked: bool) -> bool:
        return size.exact and not size.linear and cls.serves(size) and (asked or size.scale >= LEAST_SCALE)

    @classmethod
    def check(cls, size: ProblemSize) -> None:
        if not size.exact:
            return
        if size.rank is None:
            raise InvalidParameter(
                f"method={cls.name!r} needs features, or a kernel matrix of low rank; the rank is not low. "
                "Use method='auto'."
            )

    @classmethod
    def suits(cls, size: ProblemSize) -> bool:
        whole = size.to_the_end and not size.linear
        if not (cls.serves(size) and whole and size.columns <= MOST_COLUMNS):
            return False
        if size.exact and (size.rank is None or size.scale < LEAST_SCALE):
            return False
        return cls._pays(size) and cls._bytes(size) <= size.gram_room

    @classmethod
    def _pays(cls, size: ProblemSize) -> bool:
        """Return whether its work is little enough."""
        if size.exact:
            return (size.rank or 0) ** 2 <= RANK_WORK * size.rows
        if cls._sparse(size) and not size.on_gpu:
            return SPARSE_WORK * (size.entries or 0) <= WORK
        return size.rows * cls._width(size) ** 2 <= WORK

    @classmethod
    def _sparse(cls, size: ProblemSize) -> bool:
        """Return whether G is a sparse matrix."""
        return not size.on_gpu and is_sparse(size.rows, cls._width(size), size.entries)

    @classmethod
    def _width(cls, size: ProblemSize) -> int:
        """Return the columns of G, at most."""
        if size.n_features is not None:
            return size.n_features
        return min(size.rows, MORE_RANK * (size.rank or size.rows) + EXTRA_RANK)

    @classmethod
    def _bytes(cls, size: ProblemSize) -> int:
        r = cls._width(size)
        if cls._sparse(size):
            return ENTRY_BYTES * ((size.entries or 0) + size.rows) + 8 * VECTORS * (size.rows + r)
        return 8 * (2 * size.rows * r + 4 * r * r + VECTORS * size.rows)

    @classmethod
    def block_rows(cls, size: ProblemSize) -> int:
        return min(super().block_rows(size), max(1, size.rows - 1)) if size.block_size is None else size.block_size

    @classmethod
    def max_epochs(cls, size: ProblemSize) -> float:
        return EPOCHS

    @classmethod
    def memory(cls, size: ProblemSize, order_bytes: int) -> tuple[Item, ...]:
        return (Item("factor of the kernel, and the Hessian", cls._bytes(size), AFTER_LAYOUT),)

    @classmethod
    def kernel_memory(cls, size: ProblemSize, room: int) -> KernelMemory:
        return KernelMemory(0, cls._width(size), ())

    def step(self, number: int) -> None:
        G = self._factor = self._factor or self._make_factor()
        alpha = self.state.alpha.double()
        sure = isinstance(self.state, FeatureState) and alpha is self.state.alpha
        aim = max(LEAST_AIM, (SURE_AIM if sure else AIM) * self.settings.tol / 4**number)
        thetas = []
        for column in range(alpha.shape[1]):
            y, loss = self._column(column)
            a = loss.clamp(y, alpha[:, column])
            e = torch.zeros_like(a)
            if isinstance(self.state, ExactState):
                e = self.state.image[:, column].double() - G.apply(G.transposed(a))
            theta, _, alpha[:, column] = _Column(G, y, loss, e).solve(a, aim)
            thetas.append(theta)
        image = torch.stack(thetas, 1) if G.own_theta else None
        if self._matrix is not None and alpha is self.state.alpha:
            image = self._matrix @ alpha
        self.state.reset(alpha.to(self.state.alpha.dtype), image, fresh=True)

    def _column(self, column: int) -> tuple[Tensor, Scaled]:  # (n,)
        """Return the targets of a column, and its loss."""
        y, c = self.problem.targets.take(slice(0, len(self.state.alpha)))
        y, c = torch.broadcast_tensors(y, c)
        return y[:, column].double(), scaled(self.problem.loss, c[:, column].double())

    def _make_factor(self) -> Factor:
        x = self.state.x
        if isinstance(self.state, FeatureState):
            sparse = self.state.sparse_rows
            if sparse is not None and is_sparse(len(x), len(self.state.image), len(sparse.values)):
                return SparseFactor(sparse, self.state.features.constants or 0)
            G = torch.empty(len(x), len(self.state.image), dtype=torch.float64, device=x.device)
            for rows in chunks(len(x), G.shape[1]):
                G[rows] = self.state.features(x[rows])
            return DenseFactor(G)
        assert isinstance(self.state, ExactState)
        return DenseFactor(self._low_rank(self.state.kernel, x[slice(0, len(x))].double(), self.state.landmarks))

    def _low_rank(self, kernel: KernelFunction, x: Tensor, most: int) -> Tensor:  # (n, d) -> (n, r)
        diagonal = kernel.diag(x)
        penalty = 1 / float(self.problem.targets.take(slice(0, len(x)))[1].max())
        tol = rank_tolerance(float(diagonal.max()), penalty, self.settings.tol, len(x))
        if len(x) <= WHOLE_ROWS and not x.is_cuda:
            self._matrix = kernel(x, x)
            return pivoted_cholesky_of(self._matrix, most, tol)[0]
        return pivoted_cholesky(lambda j: kernel(x, x[j : j + 1])[:, 0], diagonal, most, tol)[0].contiguous()

    def release(self) -> None:
        self._factor = self._matrix = None


class _Column:
    """The problem of one column: G, targets, the loss with its factors, and the fixed part e of the predictions."""

    def __init__(self, G: Factor, y: Tensor, loss: Scaled, e: Tensor) -> None:
        self.G, self.y, self.loss, self.e = G, y, loss, e
        self.low, self.high = (bound.expand_as(y) for bound in loss.box(y))
        self.total, self.scale = 0.0, inf  # of the last call of `_difference`: what it returned, and what it divides by

    def solve(self, a: Tensor, aim: float) -> Point:
        """Return the point whose relative gap is at most ``aim``, or the best one found."""
        mu = self._first_mu()
        theta = self.G.transposed(a)
        best = point = theta, self.G.apply(theta), a
        least, worse = self._difference(theta, point)[1], 0
        for _ in range(MOST_OUTER):
            point, gap, shrink = self._newton(point, _Proximal(self, a, mu), aim)
            worse = 0 if gap < least or least > FAR else worse + 1
            best, least = (point, gap) if gap < least else (best, least)
            if least <= aim or worse == MOST_WORSE:
                break
            if shrink < 1:
                a, mu = point[2], mu * shrink
        return best

    def _first_mu(self) -> float:
        """Return 1 over the width of the widest box, or more; 0 without boxes. A row of weight 0 has the width 0."""
        width = self.high - self.low
        widest = float(width[width < 1e300].amax()) if bool((width < 1e300).any()) else 0.0
        return max(1 / widest, self.G.least_mu) if widest > 0 else 0.0

    def _newton(self, point: Point, problem: _Proximal, aim: float) -> tuple[Point, float, float]:
        """Return the solution, its gap and what μ shrinks by: 1 where the proximal problem is not solved."""
        point, shrink = (*point[:2], problem.alpha(point[1])), 1.0
        for number in range(1, MOST_NEWTON + 1):
            point = theta, f, a = self._shift(point, problem)
            image = self.G.transposed(a)
            g = theta - image
            residual, total, relative, gap = float(g.norm()), inf, inf, inf
            tiny = residual <= LEAST_RESIDUAL * float(theta.norm())
            # The difference is at least half the squared residual: it cannot be small enough before.
            enough = max(SOLVED * self.total, NEARLY * aim * self.scale)
            if tiny or residual**2 / 2 <= enough or number % EVERY == 0:
                total, relative = self._difference(image, point)
            if relative <= NEARLY * aim and (gap := self._gap(a, image, relative)) <= aim:
                break
            if tiny or (number > 1 and aim < relative and residual**2 / 2 <= SOLVED * total < inf):
                shrink = min(LEAST_SHRINK, max(SHRINK, (aim / max(relative, aim) / 4) ** 0.5))
                break
            direction = self.G.direction(problem.weights(f), g)
            moved = problem.search(point, direction, self.G.apply(direction))
            if moved is None or number == MOST_NEWTON:
                break  # rounding errors are larger than the decrease, or the steps are too many
            point = moved
        return point, self._gap(a, image, relative) if gap == inf else gap, shrink

    def _shift(self, point: Point, problem: _Proximal) -> Point:
        """Return the point with the least objective that other weights of the constant columns reach."""
        (theta, f, a), count = point, self.G.constants
        if not count:
            return point
        direction = torch.zeros_like(theta)
        direction[-count:] = (a.sum() - theta[-1]) / (1 + count * problem.weights(f).sum())
        return problem.search(point, direction, direction.sum().expand_as(f)) or point

    def _gap(self, a: Tensor, image: Tensor, relative: float) -> float:
        """Return the relative gap of α, whose image is Gᵀα; or ``relative``, that of α and another θ."""
        return relative if self.G.own_theta else self._difference(image, (image, self.G.apply(image), a))[1]

    def _difference(self, image: Tensor, point: Point) -> tuple[float, float]:
        """Return the primal objective of θ less the dual one of α, whose image is Gᵀα; and its share."""
        theta, f, a = point
        primal = float(self.loss.value(self.y, f + self.e).sum()) + float(theta @ theta) / 2
        dual = float(self.loss.psi(self.y, a).sum()) + float(image @ image) / 2 + float(a @ self.e)
        self.total, self.scale = primal + dual, max(abs(primal), abs(dual), torch.finfo(torch.float64).tiny)
        return self.total, self.total / self.scale


class _Proximal:
    """The problem of a column with the proximal term μ/2 ‖α - α⁰‖²: a quadratic function of α beside its kink."""

    def __init__(self, column: _Column, centre: Tensor, mu: float) -> None:
        loss, y = column.loss, column.y
        self.column = column
        self.inverse = torch.where(column.low < column.high, 1 / (loss.psi_curvature(y, centre) + mu), 0.0)
        self.kink = loss.kink * self.inverse
        self.base = centre - (loss.psi_slope(y, centre) + column.e) * self.inverse  # α where f = 0

    def free(self, f: Tensor) -> Tensor:
        """Return α as it were without its box, at predictions f + e."""
        free = torch.addcmul(self.base, f, self.inverse, value=-1.0)
        return free.sub_(torch.clamp(free, -self.kink, self.kink)) if self.column.loss.kink else free

    def alpha(self, f: Tensor) -> Tensor:
        return self.free(f).clamp_(self.column.low, self.column.high)

    def weights(self, f: Tensor) -> Tensor:
        """Return D."""
        free = self.free(f)
        inside = (free >= self.column.low) & (free <= self.column.high) & (free != 0 if self.column.loss.kink else True)
        return torch.where(inside, self.inverse, 0.0)

    def search(self, point: Point, direction: Tensor, along: Tensor) -> Point | None:
        """Return the point along a direction d at which the objective is nearly least; ``along`` is Gd.

        The derivative of the objective, θ·d - α·Gd, rises with the length of the step. None if it is not negative.
        """
        theta, f, a = point
        linear, square = float(theta @ direction), float(direction @ direction)
        low, high, at_high = 0.0, inf, inf
        first = at_low = linear - float(a @ along)
        if first >= 0:
            return None
        for _ in range(MOST_TRIALS):
            share = min(0.9, max(0.1, at_low / (at_low - at_high)))
            length = max(1.0, 2 * low) if high == inf else low + share * (high - low)
            moved = torch.add(f, along, alpha=length)
            a = self.alpha(moved)
            slope = linear + length * square - float(a @ along)
            if abs(slope) <= -EXACT * first:
                break
            below, above = ((length, slope), (high, at_high)) if slope < 0 else ((low, at_low), (length, slope))
            (low, at_low), (high, at_high) = below, above
        return torch.add(theta, direction, alpha=length), moved, a
