"""Leave-one-out errors of kernel ridge regression on a sample of rows: a quick judge of encodings and weights.

With K the kernel matrix and A = (K + λI)⁻¹, the error of a row whose target was left out is (A y)ᵢ / Aᵢᵢ, so that one
inverse gives the errors of all rows. Classes are judged by the same squared loss, with targets 1 and −1. Weights of
inputs are fitted to many samples, each of other rows: those of one sample would fit its noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
STEP_SIZE = 0.2  # of log weights, at first; the optimiser takes about one such step in each input at a time
BETA1, BETA2, ADAM_EPS = 0.9, 0.999, 1e-8
FIRST_LAMBDA, MIN_LAMBDA = 0.3, 1e-3  # while weights are fitted; float32 does not resolve a smaller one
# Of the variance of log weights, as a share of the loss: inputs without influence keep the weight of the others.
SPREAD_PENALTY = 0.01
MIN_LOG_WEIGHT = -5.0  # relative to the largest weight; a smaller one changes no distance


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows and targets on which encodings and weights are judged."""

    rows: Array  # numbers of the rows
    y: Tensor  # (m, t), of deviation about 1
    groups: Array | None = None  # (n,), of all rows of the table, if samples have whole groups


def sample_rows(seconds: float) -> int:
    """Return the number of rows of a sample, for a fit with a time limit."""
    share: float = min(1.0, seconds / FULL_SAMPLE_SECONDS) ** (1 / 3)
    return max(MIN_SAMPLE_ROWS, round(SAMPLE_ROWS * share))


def make_sample(y: Array, classes: int, seed: int, count: int = SAMPLE_ROWS) -> Sample:
    """Draw at most ``count`` rows."""
    rows = np.sort(np.random.RandomState(seed).permutation(len(y))[:count])
    return Sample(rows, coded_targets(y[rows], classes))


def pieces(rows: Array, count: int, seed: int) -> Iterator[Array]:  # (count,)
    """Draw ``count`` of some rows, for ever: each row once, then each a second time, and so on."""
    random = np.random.RandomState(seed)
    left = rows[:0]
    while True:
        left = left if len(left) >= count else random.permutation(rows)
        yield left[:count]
        left = left[count:]


def coded_targets(y: Array, classes: int) -> Tensor:  # (m,) -> (m, t)
    """Return targets of mean 0 and deviation 1; with classes, 1 for the class of a column and −1 else."""
    if classes:
        signs = np.where(y[:, None] == np.arange(classes), 1.0, -1.0)
        return torch.from_numpy(signs[:, 1:] if classes == 2 else signs)
    deviation = y.std()
    return torch.from_numpy((y - y.mean()) / (deviation if deviation > 0 else 1.0))[:, None]


class LeaveOneOut(torch.autograd.Function):
    """The errors e = (A y) / diag(A) of A = (M + c 11ᵀ)⁻¹, with a gradient that takes one product of matrices.

    With r = A y, a = diag(A) and the gradients ė of e, those of M are −(A ṙ) rᵀ − A diag(ȧ) A, where ṙ = ė / a and
    ȧ = −Σ ė r / a² over the columns of targets. The constant c is left out of the matrix that is inverted, since it
    would leave float32 few digits for the rest.
    """

    @staticmethod
    def forward(
        ctx: Any,
        matrix: Tensor,  # (m, m)
        y: Tensor,  # (m, t)
    ) -> Tensor:  # (m, t)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        inverse = torch.linalg.inv_ex(matrix).inverse if int(failed) else torch.cholesky_inverse(factor)
        sums = inverse.sum(dim=1)
        inverse.addr_(sums, sums, alpha=-1 / (1 / CONSTANT + float(sums.sum())))
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
    matrix = k.clone()
    matrix.diagonal().add_(lam)
    wrong: Tensor = LeaveOneOut.apply(matrix, y)  # type: ignore[no-untyped-call]
    return wrong


def best_errors(x: Array, sample: Sample) -> Tensor:  # (m, d) -> (m, t)
    """Return the errors with the best of a few bandwidths and λ."""
    inputs, y = torch.from_numpy(x).float(), sample.y.float()
    distance = torch.cdist(inputs, inputs)
    median = float(distance.median()) or 1.0
    found = [errors(torch.exp(-distance / (factor * median)), y, lam) for factor in BANDWIDTHS for lam in PENALTIES]
    return min(found, key=lambda one: float(one.square().mean())).double()


def best_error(x: Array, sample: Sample) -> float:  # (m, d)
    """Return the mean square of `best_errors`."""
    return float(best_errors(x, sample).square().mean())


class Adam:
    """Adam with its usual constants. The one of torch imports a compiler first, which takes a second."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters, self.steps = parameters, 0
        self.means = [torch.zeros_like(p) for p in parameters]
        self.squares = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self, size: float) -> None:
        """Change the parameters by about ``size`` each, and forget their gradients."""
        self.steps += 1
        for p, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            assert p.grad is not None
            mean.lerp_(p.grad, 1 - BETA1)
            square.lerp_(p.grad.square(), 1 - BETA2)
            deviation = (square / (1 - BETA2**self.steps)).sqrt() + ADAM_EPS
            p.sub_(size / (1 - BETA1**self.steps) * mean / deviation)
            p.grad = None


def fit_input_weights(
    x: Array,  # (n, d)
    groups: Array,  # (d,): inputs of one column share a weight
    samples: Iterable[Sample],
    kernel: str,
    out_of_time: Callable[[], bool],
) -> Array | None:  # (d,)
    """Minimise the leave-one-out error over the weight of each column, the bandwidth and λ; None: no time for a step.

    Every step has the next sample, and is a little shorter than the last one.
    """
    of_input = torch.from_numpy(groups)
    w = torch.zeros(int(groups.max()) + 1, dtype=torch.float32, requires_grad=True)
    log_sigma = torch.zeros((), dtype=torch.float32, requires_grad=True)
    log_lam = torch.full((), np.log(FIRST_LAMBDA), dtype=torch.float32, requires_grad=True)
    optimizer = Adam([w, log_sigma, log_lam])
    start = None
    for step, sample in zip(range(STEPS), samples, strict=False):
        if out_of_time():
            break
        inputs = torch.from_numpy(x[sample.rows]).float()
        if start is None:
            start = float(torch.pdist(inputs[:500], 1.0 if kernel == LAPLACIAN else 2.0).median()) or 1.0
        k = _kernel(inputs * torch.exp(w)[of_input], kernel, start * torch.exp(log_sigma))
        loss = errors(k, sample.y.float(), torch.exp(log_lam)).square().mean()
        if not bool(loss.isfinite()):  # a singular matrix
            continue
        ((1 + SPREAD_PENALTY * w.var(correction=0)) * loss).backward()
        optimizer.step(STEP_SIZE * (1 - step / STEPS))
        with torch.no_grad():
            log_lam.clamp_(min=float(np.log(MIN_LAMBDA)))
    if start is None:
        return None
    logs = w.detach().double().numpy()
    found: Array = np.exp(np.maximum(logs - logs.max(), MIN_LOG_WEIGHT))[groups]
    return found


def _kernel(x: Tensor, kernel: str, sigma: Tensor) -> Tensor:  # (m, d) -> (m, m)
    if kernel == LAPLACIAN:
        return torch.exp(-torch.cdist(x, x, p=1.0) / sigma)
    squares = x.square().sum(dim=1)
    distance = (squares[:, None] + squares - 2 * x @ x.T).clamp_min(MIN_SQUARE).sqrt()
    return torch.exp(-distance / sigma)
