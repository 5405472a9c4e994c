"""Leave-one-out errors of kernel ridge regression on a sample of rows: a quick judge of encodings and weights.

With K the kernel matrix and A = (K + λI)⁻¹, the error of a row whose target was left out is (A y)ᵢ / Aᵢᵢ, so that one
inverse gives the errors of all rows. Classes are judged by the same squared loss, with targets 1 and −1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
GAUSSIAN, MATERN12, LAPLACIAN = "gaussian", "matern12", "laplacian"
SAMPLE_ROWS = 1_200  # at most; the cost of a step is cubic in these
MIN_SAMPLE_ROWS = 300
FULL_SAMPLE_SECONDS = 60.0  # the time limit of a fit that has so many; with less time the cost falls with the limit
BANDWIDTHS = (0.5, 1.0, 2.0)  # multiples of the median distance
PENALTIES = (0.01, 0.1, 1.0)  # λ, for a kernel with k(x, x) = 1 and targets of deviation 1
CONSTANT = 10.0  # is added to the kernel, in place of an intercept
MIN_SQUARE = 1e-12  # the gradient of a root is infinite at 0
STEPS = 40  # of the optimiser
FEW_ROWS, FEW_STEPS = 600, 15  # so many rows at most have so few steps: more would fit their noise
STEP_SIZE = 0.2  # of log weights; the optimiser takes about one such step in each input at a time
SPREAD_PENALTY = 0.01  # of the variance of log weights: inputs without influence keep the weight of the others
MIN_LOG_WEIGHT = -5.0  # relative to the largest weight; a smaller one changes no distance


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows and targets on which encodings and weights are judged."""

    rows: Array  # numbers of the rows
    y: Tensor  # (m, t), of deviation about 1


@dataclass(frozen=True, eq=False)
class Weighting:
    """The weights of the inputs for a kernel."""

    weights: Array  # (d,)
    error: float  # mean squared, left one out, with these weights


def sample_rows(seconds: float) -> int:
    """Return the number of rows of a sample, for a fit with a time limit."""
    share: float = min(1.0, seconds / FULL_SAMPLE_SECONDS) ** (1 / 3)
    return max(MIN_SAMPLE_ROWS, round(SAMPLE_ROWS * share))


def make_sample(y: Array, classes: int, seed: int, count: int = SAMPLE_ROWS) -> Sample:
    """Draw at most ``count`` rows."""
    rows = np.sort(np.random.RandomState(seed).permutation(len(y))[:count])
    return Sample(rows, coded_targets(y[rows], classes))


def coded_targets(y: Array, classes: int) -> Tensor:  # (m,) -> (m, t)
    """Return targets of mean 0 and deviation 1; with classes, 1 for the class of a column and −1 else."""
    if classes:
        signs = np.where(y[:, None] == np.arange(classes), 1.0, -1.0)
        return torch.from_numpy(signs[:, 1:] if classes == 2 else signs)
    deviation = y.std()
    return torch.from_numpy((y - y.mean()) / (deviation if deviation > 0 else 1.0))[:, None]


class LeaveOneOut(torch.autograd.Function):
    """The errors e = (A y) / diag(A) of A = M⁻¹, with a gradient that takes one product of matrices.

    With r = A y, a = diag(A) and the gradients ė of e, those of M are −(A ṙ) rᵀ − A diag(ȧ) A, where ṙ = ė / a and
    ȧ = −Σ ė r / a² over the columns of targets.
    """

    @staticmethod
    def forward(
        ctx: Any,
        matrix: Tensor,  # (m, m)
        y: Tensor,  # (m, t)
    ) -> Tensor:  # (m, t)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        inverse = torch.linalg.inv(matrix) if int(failed) else torch.cholesky_inverse(factor)
        solved = inverse @ y
        ctx.save_for_backward(inverse, solved)
        return solved / inverse.diagonal()[:, None]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        inverse, solved = ctx.saved_tensors
        (gradient,), diagonal = gradients, inverse.diagonal()
        of_solved = gradient / diagonal[:, None]
        of_diagonal = -(gradient * solved).sum(dim=1) / diagonal.square()
        return -(inverse @ of_solved) @ solved.T - (inverse * of_diagonal) @ inverse, None


def errors(
    k: Tensor,  # (m, m)
    y: Tensor,  # (m, t)
    lam: float | Tensor,
) -> Tensor:  # (m, t)
    """Return the error of each row when its own target is left out."""
    matrix = k + CONSTANT
    matrix.diagonal().add_(lam)
    wrong: Tensor = LeaveOneOut.apply(matrix, y)  # type: ignore[no-untyped-call]
    return wrong


def best_errors(x: Array, sample: Sample) -> Tensor:  # (m, d) -> (m, t)
    """Return the errors with the best of a few bandwidths and λ."""
    inputs = torch.from_numpy(x).double()
    distance = torch.cdist(inputs, inputs)
    median = float(distance.median()) or 1.0
    found = [
        errors(torch.exp(-distance / (factor * median)), sample.y, lam) for factor in BANDWIDTHS for lam in PENALTIES
    ]
    return min(found, key=lambda one: float(one.square().mean()))


def fit_input_weights(
    x: Array,  # (m, d)
    groups: Array,  # (d,): inputs of one column share a weight
    sample: Sample,
    kernel: str,
    out_of_time: Callable[[], bool],
) -> Weighting | None:
    """Minimise the leave-one-out error over the weight of each column, the bandwidth and λ.

    The result is None if no step was better than equal weights, or there was no time for one.
    """
    inputs, of_input = torch.from_numpy(x).double(), torch.from_numpy(groups)
    start = float(torch.pdist(inputs[:500], 1.0 if kernel == LAPLACIAN else 2.0).median()) or 1.0
    w = torch.zeros(int(groups.max()) + 1, dtype=torch.float64, requires_grad=True)
    log_sigma = torch.tensor(np.log(start), requires_grad=True)
    log_lam = torch.tensor(np.log(0.3), requires_grad=True)
    optimizer = torch.optim.Adam([w, log_sigma, log_lam], lr=STEP_SIZE)
    first = lowest = float("inf")
    best: Array | None = None
    for step in range((STEPS if len(x) > FEW_ROWS else FEW_STEPS) + 1):
        if out_of_time():
            break
        optimizer.zero_grad()
        k = _kernel(inputs * torch.exp(w)[of_input], kernel, log_sigma)
        loss = errors(k, sample.y, torch.exp(log_lam)).square().mean()
        value = float(loss.detach())
        first = value if step == 0 else first
        if value < lowest:
            lowest, best = value, w.detach().numpy().copy()
        (loss + SPREAD_PENALTY * w.var(correction=0)).backward()
        optimizer.step()
    if best is None or lowest >= first:
        return None
    return Weighting(np.exp(np.maximum(best - best.max(), MIN_LOG_WEIGHT))[groups], lowest)


def _kernel(x: Tensor, kernel: str, log_sigma: Tensor) -> Tensor:  # (m, d) -> (m, m)
    if kernel == LAPLACIAN:
        return torch.exp(-torch.cdist(x, x, p=1.0) / torch.exp(log_sigma))
    squares = x.square().sum(dim=1)
    distance = (squares[:, None] + squares - 2 * x @ x.T).clamp_min(MIN_SQUARE).sqrt()
    return torch.exp(-distance / torch.exp(log_sigma))
