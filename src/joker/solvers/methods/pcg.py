"""Preconditioned conjugate gradients (PCG) for the squared loss, with the exact kernel and with features.

With the exact kernel the linear system is (K + diag h) α = y, for all columns at once.

The preconditioner is a Nyström approximation of K (:mod:`joker.solvers.methods.nystrom`), with as many landmarks as
the memory allows. A step is one product with K. The residual is computed from α and its image in each step, so that
it is the residual of what is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from joker.distributed import current
from joker.errors import InvalidParameter
from joker.ops.gram import features_gram
from joker.runtime import chunks, tile_bytes, tiles
from joker.solvers.feature_state import FeatureState
from joker.solvers.kernel_cache import cache_bytes, cached_rows, sum_bytes
from joker.solvers.methods.method import AFTER_LAYOUT, Item, KernelMemory, Method, ProblemSize, exact_epochs
from joker.solvers.methods.nystrom import Nystrom, factor, landmarks, nystrom_bytes
from joker.solvers.problem import Problem, Settings
from joker.solvers.state import ExactState, SavedTensors, State

CG_VECTORS = 6  # (n, t) matrices: residual, direction, its image, the preconditioned residual, and temporary ones


class _Direction(SavedTensors):
    """The direction of the last step, and the squared norm of the residual that it belongs to."""

    saved = ("p", "norm")

    def __init__(self, state: State) -> None:
        self.p = torch.zeros_like(state.alpha)
        self.norm = torch.zeros_like(state.alpha[0], dtype=torch.float64)


class Pcg(Method):
    """What conjugate gradients with the exact kernel and with features have in common."""

    name = "conjugate_gradients"
    linear = True
    in_blocks = False
    long_epochs = False

    @classmethod
    def check(cls, size: ProblemSize) -> None:
        if not (size.linear and (size.exact or size.one_penalty)):
            raise InvalidParameter(
                f"method={cls.name!r} needs the squared loss, and one λ with features; got "
                f"{size.loss!r}{'' if size.exact else ' with features'}. Use method='auto'."
            )


class KernelPcg(Pcg):
    """PCG with the exact kernel and a Nyström preconditioner; an epoch is one product with K."""

    exact = True
    whole_products = True
    keeps_kernel = True

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        assert isinstance(state, ExactState)
        super().__init__(state, problem, settings)
        self.exact_state = state
        self.direction = _Direction(state)
        self._inverse: Callable[[Tensor], Tensor] | None = None

    @classmethod
    def max_epochs(cls, size: ProblemSize) -> float:
        return exact_epochs(size.rows)

    @classmethod
    def memory(cls, size: ProblemSize, order_bytes: int) -> tuple[Item, ...]:
        return (Item("direction and residual", CG_VECTORS * size.alpha_bytes, AFTER_LAYOUT),)

    @classmethod
    def saved_bytes(cls, size: ProblemSize) -> int:
        return size.alpha_bytes

    @classmethod
    def kernel_memory(cls, size: ProblemSize, room: int) -> KernelMemory:
        n, itemsize = size.rows, size.itemsize
        chosen = landmarks(n, room // 2, itemsize)
        taken = nystrom_bytes(n, chosen, itemsize)
        items = [Item("preconditioner", taken, AFTER_LAYOUT)]
        if size.on_gpu or size.kernel_in_memory:
            return KernelMemory(0, chosen, tuple(items))
        sums, block = sum_bytes(n, size.columns), min(cls.block_rows(size), n)
        rows = cached_rows(n, block, room - taken - sums, itemsize, n)
        rows = min(rows, -(-n // current().size))  # processes share the cached rows
        items.append(Item("kernel cache", cache_bytes(n, rows, itemsize) + (sums if rows else 0), AFTER_LAYOUT))
        return KernelMemory(rows, chosen, tuple(items))

    def step(self, number: int) -> None:
        inverse = self._inverse = self._inverse or self._preconditioner()
        r, h = self._residual()
        z = inverse(r)
        norm = column_dot(r, z)
        last, p = self.direction.norm, self.direction.p
        keep = torch.where(last > 0, norm / last, 0.0).to(p.dtype)
        p.mul_(keep).add_(z)
        del z
        image = self.state.image_of(p)
        curvature = column_dot(p, image) + column_dot(p, h * p)
        length = torch.where(curvature > 0, column_dot(p, r) / curvature, 0.0).to(p.dtype)
        self.state.move(length * p, image.mul_(length))
        self.direction.norm.copy_(norm)

    def _residual(self) -> tuple[Tensor, Tensor]:  # (n, t), (n, t)
        """Return the negative gradient of the dual objective, and the curvature h of ψ; 0 and 1 for fixed rows."""
        alpha, f = self.state.alpha, self.state.image
        r, h = torch.empty_like(alpha), torch.empty_like(alpha)
        for rows in chunks(len(alpha), 4 * alpha.shape[1]):
            y, loss = self.problem.take(rows)
            low, high = loss.box(y)
            a = alpha[rows]
            r[rows] = torch.where(low < high, -f[rows] - loss.psi_slope(y, a), 0.0)
            h[rows] = torch.where(low < high, loss.psi_curvature(y, a), 1.0)
        return r, h

    def _preconditioner(self) -> Callable[[Tensor], Tensor]:
        targets, state = self.problem.targets, self.exact_state
        one_weight = targets.weights is None or targets.weights.shape[1] == 1
        if state.landmarks and one_weight:
            weights = torch.ones_like(state.alpha[:, 0]) if targets.weights is None else targets.weights[:, 0]
            curvature = self.problem.loss.curvature(torch.zeros_like(targets.lam))
            lam = (targets.lam * curvature).expand(state.alpha.shape[1])
            return Nystrom(state.kernel, state.x, state.landmarks, weights, lam, state.budget, self.settings.seed)
        inverse = 1 / (state.diagonal() + self._residual()[1])
        return lambda r: r * inverse

    def release(self) -> None:
        self._inverse = None

    def restarted(self) -> None:
        self.direction = _Direction(self.state)

    def parts(self) -> dict[str, SavedTensors]:
        return {"direction": self.direction}


def column_dot(u: Tensor, v: Tensor) -> Tensor:  # (t,)
    """Return the inner product of each column, in float64."""
    total = torch.zeros(u.shape[1], dtype=torch.float64, device=u.device)
    for rows in chunks(len(u), 4 * u.shape[1]):
        total += (u[rows].double() * v[rows].double()).sum(0)
    return total


# Conjugate gradients for a squared loss with features, preconditioned by the Gram matrix ΨᵀWΨ.
#
# With θ = the weights of the features, the problem is A θ = ΨᵀC y for A = I + ΨᵀCΨ and C = W/λ. One pass over the
# rows computes the Gram matrix, in float32 or less, and its Cholesky factor is so good an approximation of A that a
# few more passes solve the system. At the weights θ the dual point is α = C (y - Ψθ), and the residual is r = Ψᵀα -
# θ. A step has two passes: one along its direction, and one that computes α and its image anew, because sums of
# steps would lose the digits in which a small r differs from the large numbers of the start. For the same reason θ
# and sums are float64.


GRAM_EPOCHS = 50  # that max_epochs="auto" allows: a few passes are usually enough
GRAM_WORK, GPU_GRAM_WORK = 2 * 10**12, 10**15  # entries of features times their number, up to which a Gram matrix pays
GRAM_VECTORS = 12  # (m, t) and (n, t) matrices beside the state, some in float64
JITTER = 1.0  # added to the diagonal before it is factorised, in units of the rounding error of the Gram matrix


def gram_bytes(m: int, itemsize: int) -> int:
    """Return the bytes of the Gram matrix of m features, and of the matrices that are added to it or factorised."""
    return 5 * itemsize * m * m


class _Progress(SavedTensors):
    """The weights, their residual, the last direction and the squared norm of the residual that it belongs to."""

    saved = ("theta", "r", "p", "norm")

    def __init__(self, state: State) -> None:
        self.theta = state.image.to(torch.float64, copy=True)
        self.r, self.p = torch.zeros_like(self.theta), torch.zeros_like(self.theta)
        self.norm = torch.zeros_like(state.image[0], dtype=torch.float64)


class NormalEquationsPcg(Pcg):
    """PCG on the normal equations, in the weights of the features; an epoch is one step."""

    exact = False
    tiles_of_a_step = 2  # one in float32 and one in float64

    def __init__(self, state: State, problem: Problem, settings: Settings) -> None:
        assert isinstance(state, FeatureState)
        super().__init__(state, problem, settings)
        self.feature_state = state
        self.progress = _Progress(state)
        self._factor: Tensor | None = None

    @classmethod
    def check(cls, size: ProblemSize) -> None:
        super().check(size)
        if size.processes > 1:
            raise InvalidParameter(
                f"method={cls.name!r} with features must be used by one process, because no process has all "
                f"features; got {size.processes} processes. Use method='auto'."
            )

    @classmethod
    def suits(cls, size: ProblemSize) -> bool:
        m = size.n_features or 0
        pays = size.rows * m**2 <= (GPU_GRAM_WORK if size.on_gpu else GRAM_WORK)
        fits = gram_bytes(m, size.itemsize) <= size.gram_room
        return super().suits(size) and size.one_penalty and pays and fits and size.processes == 1

    @classmethod
    def max_epochs(cls, size: ProblemSize) -> float:
        return GRAM_EPOCHS

    @classmethod
    def memory(cls, size: ProblemSize, order_bytes: int) -> tuple[Item, ...]:
        vectors = GRAM_VECTORS * (size.image_bytes + size.alpha_bytes)
        return (
            Item("direction and residual", vectors, AFTER_LAYOUT),
            Item("Gram matrix of the features", gram_bytes(size.n_features or 0, size.itemsize), AFTER_LAYOUT),
        )

    @classmethod
    def saved_bytes(cls, size: ProblemSize) -> int:
        return 2 * size.image_bytes

    def step(self, number: int) -> None:
        progress = self.progress
        self._factor = self._factorise() if self._factor is None else self._factor
        if number == 0:
            self._evaluate()
        r = progress.r
        z = torch.cholesky_solve(r, self._factor)
        norm = (r * z).sum(0)
        p = progress.p.mul_(torch.where(progress.norm > 0, norm / progress.norm, 0.0)).add_(z)
        curvature = (p * (p + self._product(p))).sum(0)
        progress.theta += torch.where(curvature > 0, (p * r).sum(0) / curvature, 0.0) * p
        progress.norm.copy_(norm)
        self._evaluate()

    def _evaluate(self) -> None:
        """Set the state to α = C (y - Ψθ) of the weights, and its image."""
        theta = self.progress.theta
        alpha, image = torch.empty_like(self.state.alpha), torch.zeros_like(theta)
        for tile, psi in self._tiles():
            (target, c), wide = self._terms(tile), psi.double()
            alpha[tile] = (c * (target - wide @ theta)).to(alpha.dtype)
            image += wide.T @ alpha[tile].double()
        self.progress.r.copy_(image - theta)
        self.state.reset(alpha, image.to(alpha.dtype))

    def _product(self, p: Tensor) -> Tensor:  # (m, t) -> (m, t)
        """Return ΨᵀC Ψ p."""
        product = torch.zeros_like(p)
        for tile, psi in self._tiles():
            wide = psi.double()
            product += wide.T @ (self._terms(tile)[1] * (wide @ p))
        return product

    def _terms(self, rows: slice) -> tuple[Tensor, Tensor]:  # (b, t), (b, t)
        """Return the target and the diagonal of C of some rows, in float64: α = C (target - f) is optimal for f.

        They follow from the loss, which may be any quadratic one; C is 0 for rows of weight 0.
        """
        y, loss = self.problem.take(rows, torch.float64)
        zero = torch.zeros_like(y)
        low, high = loss.box(y)
        curvature = torch.where(low < high, loss.psi_curvature(y, zero), torch.inf)
        return -loss.psi_slope(y, zero), 1 / curvature

    def _tiles(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the features of all rows, a tile at a time."""
        state = self.feature_state
        numbers = 2 * state.features.n_features  # the features and a copy
        row_bytes = state.features.work_bytes(1) + state.image.element_size() * numbers + state.x.row_bytes
        budget = max(tile_bytes(state.tile_budget // 2, state.x.device), min(row_bytes, state.budget))
        for tile in tiles(len(state.x), row_bytes, budget, "features"):
            yield tile, state.features(state.x[tile])

    def _factorise(self) -> Tensor:  # (m, m)
        """Return the Cholesky factor of I + ΨᵀCΨ for the first column, with more diagonal where it needs that."""
        state = self.feature_state
        gram = state.image.new_zeros(len(state.image), len(state.image))
        for tile, psi in self._tiles():
            # A copy: the features of a linear kernel are the rows themselves.
            gram += features_gram(psi * self._terms(tile)[1][:, :1].sqrt().to(psi.dtype))
        gram.diagonal().add_(1.0)
        # A factor that barely exists has pivots that are rounding errors, and its inverse would be useless.
        jitter = JITTER * torch.finfo(gram.dtype).eps * len(gram) ** 0.5 * gram.diagonal().mean()
        return factor(gram.double(), float(jitter))

    def release(self) -> None:
        self._factor = None

    def restarted(self) -> None:
        self.progress = _Progress(self.state)

    def parts(self) -> dict[str, SavedTensors]:
        return {"gram": self.progress}
