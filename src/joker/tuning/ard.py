"""Automatic relevance determination (ARD): feature weights with a small leave-one-out error of kernel ridge regression.

With K the kernel matrix and A = (K + λI)⁻¹, the leave-one-out error of row i is (A y)ᵢ / Aᵢᵢ, so that one inverse gives
the errors of all rows. Classes have the same squared loss, with targets 1 and −1. Weights are fitted to many samples,
each of other rows: those of one sample would overfit. The errors also compare encodings of tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.errors import InvalidParameter
from joker.kernels.kernel import absolute_distance

Array = NDArray[Any]
GAUSSIAN, MATERN12, LAPLACIAN = "gaussian", "matern12", "laplacian"
AUTO = "auto"
POWERS = (0.0, 0.5, 1.0)  # of the feature weights, that a search tries; the power 0 gives equal weights
MIN_ARD_ROWS = 500  # fewer rows do not determine a dozen weights
MAX_AUTO_INPUTS = 128  # with more inputs, "auto" fits no weights
MAX_AUTO_COLUMNS = 16  # the same for more classes or outputs
MAX_INPUTS = 1_024  # that relevance=True accepts
SEARCH_SAMPLE_ROWS = 600  # of a step in a search; 300 have larger errors, 1,200 take five times as long
SAMPLE_ROWS = 1_200  # of a step for a table, at most; its cost is cubic in these
MIN_SAMPLE_ROWS = 300
FULL_SAMPLE_SECONDS = 60.0  # the time limit of a fit that has so many; with less time the cost falls with the limit
BANDWIDTHS = (0.5, 1.0, 2.0)  # multiples of the median distance
# λ, for a kernel with k(x, x) = 1 and targets of deviation 1; each bandwidth is tried with the first one.
PENALTIES = (0.1, 0.01, 1.0)
CONSTANT = 10.0  # is added to the kernel, in place of an intercept
MIN_SQUARE = 1e-12  # the gradient of a root is infinite at 0
STEPS = 40  # of the optimiser
STEP_SIZE = 0.2  # of log weights, at first; the optimiser takes about one such step in each input at a time
LATER_STEPS, LATER_STEP_SIZE = 15, 0.1  # the same of a fit that begins where another one has ended
BETA1, BETA2, ADAM_EPS = 0.9, 0.999, 1e-8
FIRST_LAMBDA, MIN_LAMBDA = 0.3, 1e-3  # while weights are fitted; float32 does not resolve a smaller one
# Of the variance of log weights, as a share of the loss: inputs without influence keep the weight of the others.
SPREAD_PENALTY = 0.01
MIN_LOG_WEIGHT = -5.0  # relative to the largest weight; a smaller one changes no distance
MEDIAN_ROWS = 500
MATRICES = 8  # of a step that are in memory at a time


@dataclass(frozen=True, eq=False)
class FeatureWeights:
    """The ARD weights of the training rows of each split; the largest of a split is 1."""

    splits: Array  # (splits, d)

    def power(self, power: float, split: int | None = None) -> Array:  # (d,)
        """Return a power of the weights of one split, or of their geometric mean, whose largest is 1 again."""
        weights = np.exp(np.log(self.splits).mean(axis=0)) if split is None else self.splits[split]
        scaled: Array = (weights / weights.max()) ** power
        return scaled


def powers_to_try(relevance: object, d: int, rows: int, columns: int, free_bandwidths: bool) -> tuple[float, ...]:
    """Return the powers that may be tried, the first one first, for rows of d inputs and so many classes or outputs.

    ``free_bandwidths`` says whether the search chooses the bandwidths.
    """
    if isinstance(relevance, bool | np.bool_):
        if relevance and d > MAX_INPUTS:
            raise InvalidParameter(
                f"relevance=True needs at most {MAX_INPUTS:,} inputs, as each has a weight of its own; got {d:,}. "
                "Use relevance=False, or leave out inputs."
            )
        return POWERS[1:] if relevance else POWERS[:1]
    if relevance != AUTO:
        raise InvalidParameter(f"relevance must be 'auto', True or False; got {relevance!r}. Leave it out for 'auto'.")
    small = 1 < d <= MAX_AUTO_INPUTS and rows >= MIN_ARD_ROWS and columns <= MAX_AUTO_COLUMNS
    return POWERS if small and free_bandwidths else POWERS[:1]


def search_sample_rows(rows: int, memory: int) -> int:
    """Return the rows of a step in a search: at most half of the rows, and as many as ``memory`` bytes allow."""
    return max(2, min(SEARCH_SAMPLE_ROWS, rows // 2, math.isqrt(memory // (4 * MATRICES))))


@dataclass(frozen=True, eq=False)
class ArdSample:
    """Rows and targets of leave-one-out errors."""

    rows: Array  # numbers of the rows
    y: Tensor  # (m, t), of deviation about 1
    groups: Array | None = None  # (n,), of all rows of the table, if samples have whole groups
    w: Array | None = None  # (m,), positive


def sample_rows(seconds: float) -> int:
    """Return the number of rows of a sample, for a fit with a time limit."""
    share: float = min(1.0, seconds / FULL_SAMPLE_SECONDS) ** (1 / 3)
    return max(MIN_SAMPLE_ROWS, round(SAMPLE_ROWS * share))


def make_sample(y: Array, classes: int, seed: int, count: int = SAMPLE_ROWS) -> ArdSample:
    """Draw at most ``count`` rows."""
    rows = np.sort(np.random.RandomState(seed).permutation(len(y))[:count])
    return ArdSample(rows, coded_targets(y[rows], classes))


def minibatches(rows: Array, count: int, seed: int) -> Iterator[Array]:  # (count,)
    """Draw ``count`` of some rows, for ever: each row once, then each a second time, and so on."""
    random = np.random.RandomState(seed)
    left = rows[:0]
    while True:
        left = left if len(left) >= count else random.permutation(rows)
        yield left[:count]
        left = left[count:]


def ard_samples(batches: Iterable[Array], y: Array, classes: int, w: Array | None = None) -> Iterator[ArdSample]:
    """Yield batches of rows with their targets and weights."""
    return (ArdSample(rows, coded_targets(y[rows], classes), w=None if w is None else w[rows]) for rows in batches)


def coded_targets(y: Array, classes: int) -> Tensor:  # (m,) or (m, t) -> (m, t)
    """Return targets of mean 0 and deviation 1; with classes, 1 for the class of a column and −1 else."""
    if classes:
        signs = np.where(y[:, None] == np.arange(classes), 1.0, -1.0)
        return torch.from_numpy(signs[:, 1:] if classes == 2 else signs)
    columns = y.reshape(len(y), -1).astype(np.float64)
    deviation = columns.std(axis=0)
    return torch.from_numpy((columns - columns.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


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


def loo_errors(
    k: Tensor,  # (m, m)
    y: Tensor,  # (m, t)
    lam: float | Tensor,  # or (m,)
) -> Tensor:  # (m, t)
    """Return the leave-one-out error of each row; a λ for each row is λ divided by the weight of the row."""
    matrix = k.clone()
    matrix.diagonal().add_(lam)
    wrong: Tensor = LeaveOneOut.apply(matrix, y)  # type: ignore[no-untyped-call]
    return wrong


def best_loo_errors(x: Array, sample: ArdSample) -> Tensor:  # (m, d) -> (m, t)
    """Return the leave-one-out errors with the best of a few bandwidths, and with it of a few λ."""
    inputs, y = torch.from_numpy(x).float(), sample.y.float()
    w = torch.ones(1) if sample.w is None else torch.from_numpy(sample.w).float()
    distance = torch.cdist(inputs, inputs)
    median = float(distance.median()) or 1.0
    kernels = [torch.exp(-distance / (factor * median)) for factor in BANDWIDTHS]
    first, *others = PENALTIES

    def mean_square(one: tuple[Tensor, Tensor]) -> float:
        return float((w[:, None] * one[0].square()).mean())

    found = [(loo_errors(k, y, first / w), k) for k in kernels]
    best = min(found, key=mean_square)
    found = [best, *((loo_errors(best[1], y, lam / w), best[1]) for lam in others)]
    return min(found, key=mean_square)[0].double()


def loo_mean_square(x: Array, sample: ArdSample) -> float:  # (m, d)
    """Return the mean square of `best_loo_errors`."""
    return float(best_loo_errors(x, sample).square().mean())


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


@dataclass(frozen=True, eq=False)
class ArdFit:
    """The end of a fit of feature weights, where another one may begin, also one with another kernel."""

    log_weights: Tensor  # (columns,)
    share: float  # the bandwidth, as a share of the median distance of weighted rows
    log_lam: float

    def weights(self, groups: Array) -> Array:  # (d,) -> (d,)
        """Return the weight of each input; the largest is 1."""
        logs = self.log_weights.double().numpy()
        found: Array = np.exp(np.maximum(logs - logs.max(), MIN_LOG_WEIGHT))[groups]
        return found


def fit_ard(
    x: Array,  # (n, d)
    groups: Array,  # (d,): inputs of one column share a weight
    samples: Iterable[ArdSample],
    kernel: str,
    out_of_time: Callable[[], bool],
    begin: ArdFit | None = None,
    *,
    device: str = "cpu",
) -> ArdFit | None:
    """Minimise the leave-one-out error over feature weights, bandwidth and λ; None: no time for a step.

    Every step has the next sample, and is a little shorter than the last one. A fit that begins with another one, which
    had samples of fewer rows, has fewer and shorter steps.
    """
    of_input = torch.from_numpy(groups).to(device)
    first = ArdFit(torch.zeros(int(groups.max()) + 1), 1.0, float(np.log(FIRST_LAMBDA))) if begin is None else begin
    log_weights = first.log_weights.clone().to(device).requires_grad_()
    log_sigma = torch.zeros((), dtype=torch.float32, device=device, requires_grad=True)
    log_lam = torch.full((), first.log_lam, dtype=torch.float32, device=device, requires_grad=True)
    optimizer = Adam([log_weights, log_sigma, log_lam])
    start, weighted = None, torch.zeros(0)
    steps, size = (STEPS, STEP_SIZE) if begin is None else (LATER_STEPS, LATER_STEP_SIZE)
    for step, sample in zip(range(steps), samples, strict=False):
        if out_of_time():
            break
        weighted = torch.from_numpy(x[sample.rows]).float().to(device) * torch.exp(log_weights)[of_input]
        if start is None:
            start = first.share * _median(weighted, kernel)
        k = _kernel(weighted, kernel, start * torch.exp(log_sigma))
        w = torch.ones(1) if sample.w is None else torch.from_numpy(sample.w / sample.w.mean()).float()
        w = w.to(device)
        wrong = loo_errors(k, sample.y.float().to(device), torch.exp(log_lam) / w)
        loss = (w[:, None] * wrong.square()).mean()
        if not bool(loss.isfinite()):  # a singular matrix
            continue
        ((1 + SPREAD_PENALTY * log_weights.var(correction=0)) * loss).backward()
        optimizer.step(size * (1 - step / steps))
        with torch.no_grad():
            log_lam.clamp_(min=float(np.log(MIN_LAMBDA)))
    if start is None:
        return begin
    share = start * torch.exp(log_sigma).item() / _median(weighted, kernel)
    return ArdFit(log_weights.detach().cpu(), share, log_lam.item())


def _median(x: Tensor, kernel: str) -> float:  # (m, d)
    """Return the median distance of some rows, or 1 where it is 0."""
    return float(torch.pdist(x[:MEDIAN_ROWS].detach(), 1.0 if kernel == LAPLACIAN else 2.0).median()) or 1.0


def _kernel(x: Tensor, kernel: str, sigma: Tensor) -> Tensor:  # (m, d) -> (m, m)
    if kernel == LAPLACIAN:
        return torch.exp(-absolute_distance(x, x) / sigma)
    squares = x.square().sum(dim=1)
    distance = (squares[:, None] + squares - 2 * x @ x.T).clamp_min(MIN_SQUARE).sqrt()
    return torch.exp(-distance / sigma)
