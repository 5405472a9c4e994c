"""A preconditioner for kernel ridge regression: the kernel of all rows, approximated from a few of them.

With r landmarks R, K ≈ B Bᵀ for B = K[:, R] L⁻ᵀ and K[R, R] = L Lᵀ. A column of weights w and penalty λ has the system
(K + λ W⁻¹) α = y, and by Woodbury's formula

    (B Bᵀ + λ W⁻¹)⁻¹ v = W/λ (v - B (λ I + Bᵀ W B)⁻¹ Bᵀ W v).

A row of weight 0 stays at 0. All columns share B and Bᵀ W B; only the small inverse depends on λ.

The difference above cancels where B Bᵀ is large: its error in float32 is as large as the result where λ is small. Both
products with B are then computed in float64, with B itself in float32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from joker.data import Rows
from joker.runtime import generator, tiles
from joker.solvers.kernel_cache import KernelFunction

MOST, FEWEST = 2_000, 500  # landmarks
LEAST_ROWS_PER_LANDMARK = 4  # of few rows: the factor would cost as much as many products
VERY_FEW = 1_000  # rows, of which half are landmarks: their factor costs nothing
ROWS_PER_LANDMARK = 10  # more landmarks save products with K, whose cost grows faster than that of the factor
TILE = 512  # rows, on the CPU
WIDE_ROWS = 1_024  # rows of B that are converted to float64 at a time, at most
SMALL_LAMBDA = 30  # times the rounding error of the largest eigenvalue: a smaller λ needs float64
MORE_JITTER, MOST_JITTERS = 8.0, 16  # by how much jitter grows where a factor does not exist, and how often
JITTER = 10  # units in the last place of the trace that are added to K[R, R], so that its factor exists


def landmarks(n: int, room: int, itemsize: int) -> int:
    """Return the number of landmarks for n rows where ``room`` bytes are left; 0 where they hold too few."""
    most = n // 2 if n <= VERY_FEW else max(VERY_FEW // 2, n // LEAST_ROWS_PER_LANDMARK)
    wanted = min(MOST, max(FEWEST, n // ROWS_PER_LANDMARK), max(1, most))
    while wanted and nystrom_bytes(n, wanted, itemsize) > room:
        wanted = wanted * 3 // 4
    return wanted


def nystrom_bytes(n: int, r: int, itemsize: int) -> int:
    """Return the bytes that a preconditioner with r landmarks takes, and takes at most while it is made."""
    return itemsize * n * r + 8 * 4 * r * r


class Nystrom:
    """The inverse of B Bᵀ + λ W⁻¹ from r landmarks, for each column with its λ.

    The weights (n,) are 0 for rows that cannot move; ``budget`` are the bytes for a tile.
    """

    def __init__(
        self, kernel: KernelFunction, x: Rows, r: int, weights: Tensor, lam: Tensor, budget: int, seed: int
    ) -> None:
        n, device = len(x), x.device
        chosen = torch.multinomial(_positive(weights), r, generator=generator(seed, "landmarks")).sort().values
        z = x[chosen.to(x.index_device)]
        corner = kernel(z, z).to(torch.float64, copy=True)  # a kernel may return a view
        jitter = JITTER * torch.finfo(x.dtype).eps * corner.diagonal().sum()
        corner.diagonal().add_(jitter)
        inverse = torch.linalg.solve_triangular(
            factor(corner, 0.0), torch.eye(r, dtype=torch.float64, device=device), upper=False
        ).to(x.dtype)  # L⁻¹
        del corner
        self.B = torch.empty(n, r, dtype=x.dtype, device=device)
        gram = torch.zeros(r, r, dtype=torch.float64, device=device)

        def work(b: int) -> int:
            itemsize = x.dtype.itemsize
            return kernel.work_bytes(b, r, x.shape[1], itemsize) + b * x.row_bytes + 2 * b * r * itemsize

        # What the kernel does with the landmarks alone is repeated for each tile: a tile of few rows would waste it.
        room = max(budget if device.type == "cuda" else min(budget, work(TILE)), work(1))
        for tile in tiles(n, work, room, "the preconditioner"):
            part = torch.mm(kernel(x[tile], z), inverse.T, out=self.B[tile])
            gram += (part.T @ (part * weights[tile, None])).double()
        self.weights = weights[:, None]
        self.lam = lam
        # The largest eigenvalue is at most the trace.
        rounding = torch.finfo(x.dtype).eps * float(gram.diagonal().sum())
        self.wide = x.dtype != torch.float64 and float(lam.min()) < SMALL_LAMBDA * rounding
        self._solve = _solver(gram, lam.double())

    def __call__(self, v: Tensor) -> Tensor:  # (n, t)
        """Return the approximate inverse times v."""
        weighted = self.weights * v
        if not self.wide:
            small = self._solve((self.B.T @ weighted).double())
            return self.weights / self.lam * (v - self.B @ small.to(v.dtype))
        step = min(WIDE_ROWS, self.B.shape[1])  # no more memory than the preconditioner took while it was made
        tiles = [slice(i, i + step) for i in range(0, len(v), step)]
        product = v.new_zeros(self.B.shape[1], v.shape[1], dtype=torch.float64)
        for tile in tiles:
            product += self.B[tile].double().T @ weighted[tile].double()
        small = self._solve(product)
        for tile in tiles:
            weighted[tile] = v[tile].double() - self.B[tile].double() @ small
        return weighted.mul_(self.weights / self.lam)


def factor(matrix: Tensor, jitter: float) -> Tensor:  # (r, r), float64
    """Return the Cholesky factor of a matrix with ``jitter`` on its diagonal, which is added in place.

    Where rounding errors have made the matrix indefinite, more is added; where that does not help, the factor is that
    of its diagonal.
    """
    for _ in range(MOST_JITTERS):
        if jitter:
            matrix.diagonal().add_(jitter)
        found = torch.linalg.cholesky_ex(matrix)
        if not bool(found.info):
            root: Tensor = found.L
            return root
        del found
        step = torch.finfo(matrix.dtype).eps * len(matrix) * float(matrix.diagonal().abs().amax())
        jitter = MORE_JITTER * max(jitter, step)
    return torch.diag(matrix.diagonal().clamp(min=torch.finfo(matrix.dtype).tiny).sqrt())


def _solver(gram: Tensor, lam: Tensor) -> Callable[[Tensor], Tensor]:  # (r, r), (t,)
    """Return a function that multiplies a column by (λ I + gram)⁻¹ of its λ; several λ share the eigenvectors."""
    if len(lam.unique()) == 1:
        gram.diagonal().add_(lam[0])
        root = factor(gram, 0.0)
        return lambda u: torch.cholesky_solve(u, root)
    values, vectors = torch.linalg.eigh(gram)
    inverse = 1 / (values.clamp(min=0)[:, None] + lam)  # (r, t)
    return lambda u: vectors @ (inverse * (vectors.T @ u))


def _positive(weights: Tensor) -> Tensor:
    """Return 1 for rows that can move and 0 for the others, on the CPU; 1 for all if none can."""
    positive = (weights > 0).double().cpu()
    return positive if bool(positive.any()) else torch.ones_like(positive)
