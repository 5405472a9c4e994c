"""Random problems of every loss, kernel, precision, weight and scale, and their gaps by an independent computation.

    python tests/random_problems.py --count 2000                      # float32 and float64 on the CPU
    python tests/random_problems.py --count 500 --device cuda         # with mixed precision too

The reference uses NumPy in float64: its own distances (differences, no products), losses and conjugates. It reads
nothing of a fit but the dual variables α, and computes the primal objective from them.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import cdist
from scipy.special import xlogy

import joker
from joker import kernels

LOSSES = ("squared", "huber", "absolute", "epsilon_insensitive", "hinge", "logistic", "squared_hinge")
KERNELS = ("gaussian", "laplacian", "matern52", "polynomial", "linear")
SHAPES = ("normal", "clusters", "heavy", "duplicates", "far", "grid")
MOST_ROWS = 1_200
EXCESS = 1.01  # times the reported gap, that the true gap may be at most
SMALLEST = 1e-9  # a relative gap that is a rounding error of float64 sums


@dataclass(frozen=True)
class RandomProblem:
    """The data and settings of one problem; the seed tells everything."""

    x: Any  # (n, d)
    y: Any  # (n,)
    weights: Any  # (n,) or None
    loss: str
    kernel: str
    bandwidth: float
    lam: float
    intercept: bool
    dtype: torch.dtype
    n_features: int | None
    mixed: bool
    name: str

    @classmethod
    def draw(cls, seed: int, device: str = "cpu", most_rows: int = MOST_ROWS) -> RandomProblem:
        """Return the problem with this seed, of at most so many rows."""
        rng = np.random.default_rng([seed, 17])
        n, d = int(rng.integers(20, most_rows)), int(rng.integers(1, 7))
        shape = SHAPES[rng.integers(len(SHAPES))]
        x = _inputs(rng, shape, n, d)
        loss, kernel = LOSSES[rng.integers(len(LOSSES))], KERNELS[rng.integers(len(KERNELS))]
        f = np.sin(3 * x[:, 0] / max(np.std(x[:, 0]), 1e-12)) + 0.3 * rng.normal(size=n)
        y = (
            np.where(f > 0, 1.0, -1.0)
            if loss in ("hinge", "logistic", "squared_hinge")
            else f * 10 ** rng.uniform(-1, 1)
        )
        distances = cdist(x[:200], x[:200], "cityblock" if kernel == "laplacian" else "euclidean")
        middle = np.median(distances[np.triu_indices_from(distances, 1)])
        bandwidth = float(max(middle, 1e-6) * 10 ** rng.uniform(-2, 1))
        dtype = torch.float32 if rng.random() < 0.7 else torch.float64
        lam = float(10 ** rng.uniform(-5, 2))
        return cls(
            x=x.astype(np.float32).astype(np.float64),
            y=y.astype(np.float32).astype(np.float64),
            weights=(10 ** rng.uniform(-3, 3, size=n)).astype(np.float32) if rng.random() < 0.3 else None,
            loss=loss,
            kernel=kernel,
            bandwidth=bandwidth,
            lam=lam,
            intercept=bool(rng.random() < 0.5),
            dtype=dtype,
            n_features=int(rng.integers(10, 200)) if kernel == "gaussian" and rng.random() < 0.4 else None,
            mixed=device == "cuda" and dtype == torch.float32 and bool(rng.random() < 0.7),
            name=f"seed {seed}: {loss}, {kernel} {bandwidth:.3g}, λ = {lam:.2g}, {shape}, n = {n}, d = {d}, {dtype}",
        )

    def training(self, device: str, settings: Any = None) -> Any:
        """Return joker's training."""
        settings = settings or joker.Settings(block_size=256, max_epochs=30)
        x, y = (torch.tensor(part, dtype=self.dtype, device=device) for part in (self.x, self.y))
        weights = None if self.weights is None else torch.tensor(self.weights, dtype=self.dtype, device=device)
        return joker.prepare(
            x, y, loss=self.loss, lam=self.lam, weights=weights, kernel=kernels.get(self.kernel),
            bandwidth=self.bandwidth, n_features=self.n_features, intercept=self.intercept, mixed=self.mixed,
            settings=settings,
        )  # fmt: skip

    def matrix(self, training: Any) -> Any:
        """Return the kernel matrix in float64: of the formula, or of the features that were drawn."""
        if training.features is not None:
            psi = self.features(training)
            return psi @ psi.T
        return kernel_matrix(self.kernel, self.bandwidth, self.x) + float(self.intercept)

    def gap(self, alpha: Any, matrix: Any, other: Any = None) -> float:
        """Return the true relative gap of α, with the dual value of another point where that is better."""
        weights = 1.0 if self.weights is None else self.weights.astype(np.float64)
        c = weights / self.lam * np.ones_like(self.y)
        others = () if other is None else ((other, matrix @ other),)
        return relative_gap(self.loss, self.y, c, alpha, matrix @ alpha, others)

    def gap_of_weights(self, theta: Any, alpha: Any, training: Any) -> float:
        """Return the true relative gap of the weights θ of features, with the dual value of α."""
        psi = self.features(training)
        weights = 1.0 if self.weights is None else self.weights.astype(np.float64)
        c = weights / self.lam * np.ones_like(self.y)
        own, f = psi.T @ alpha, psi @ theta
        dual = objectives(self.loss, self.y, c, alpha, psi @ own)[1]
        losses = objectives(self.loss, self.y, c, 0 * alpha, f)[0]
        primal = losses + theta @ theta / 2
        return (primal + dual) / max(abs(primal), abs(dual))

    def features(self, training: Any) -> Any:
        """Return the features of all rows in float64."""
        return training.features.to(torch.float64, torch.device("cpu"))(torch.tensor(self.x)).numpy()

    def solved(self, device: str) -> Any:
        """Return the dual variables of a solve in float64 to a small gap: any dual point bounds the optimum."""
        precise = replace(self, dtype=torch.float64, mixed=False)
        settings = joker.Settings(block_size=256, max_epochs=300, tol=1e-9, seed=0)
        return precise.training(device, settings).run()[1].alpha[:, 0].cpu().numpy()


def _inputs(rng: np.random.Generator, shape: str, n: int, d: int) -> Any:
    if shape == "clusters":
        return rng.normal(size=(20, d))[rng.integers(20, size=n)] + 0.01 * rng.normal(size=(n, d))
    if shape == "heavy":
        return rng.standard_t(1.5, size=(n, d))
    if shape == "duplicates":
        return rng.normal(size=(max(2, n // 3), d))[rng.integers(max(2, n // 3), size=n)]
    if shape == "far":
        return rng.normal(size=(n, d)) + 100
    if shape == "grid":
        return rng.integers(5, size=(n, d)).astype(np.float64)
    return rng.normal(size=(n, d))


def kernel_matrix(name: str, sigma: float, x: Any) -> Any:
    """Return the kernel matrix of some rows."""
    if name == "linear":
        return x @ x.T
    if name == "polynomial":
        return (x @ x.T / sigma**2 + 1) ** 3
    if name == "laplacian":
        return np.exp(-cdist(x, x, "cityblock") / sigma)
    r = cdist(x, x) / sigma
    if name == "gaussian":
        return np.exp(-(r**2) / 2)
    r = np.sqrt(5) * r
    return (1 + r + r**2 / 3) * np.exp(-r)


def relative_gap(loss: str, y: Any, c: Any, alpha: Any, f: Any, others: Any = ()) -> float:
    """Return (P + J) / max(|P|, |J|) of a dual point in the box, for factors c = w / λ.

    Of ``others``, dual points with their predictions, the best J counts.
    """
    primal, dual, terms = objectives(loss, y, c, alpha, f)
    scale = max(abs(primal), abs(dual), np.finfo(np.float64).tiny)
    best = min((objectives(loss, y, c, *other)[1] for other in others), default=np.inf)
    return min(terms, primal + best) / scale


def objectives(loss: str, y: Any, c: Any, alpha: Any, f: Any) -> tuple[float, float, float]:
    """Return P, J and their sum, whose terms cancel row by row."""
    u, margin, epsilon = y - f, y * f, 0.1
    a = alpha * y  # of losses of the margin
    low, high = {
        "hinge": (0, c), "logistic": (0, c), "squared_hinge": (0, np.inf), "huber": (-c, c), "absolute": (-c, c),
        "epsilon_insensitive": (-c, c), "squared": (-np.inf, np.inf),
    }[loss]  # fmt: skip
    inside = np.clip(a if loss in ("hinge", "logistic", "squared_hinge") else alpha, low, high)
    share = inside / c
    value, psi = {
        "squared": lambda: (u**2 / 2, c * share**2 / 2 - inside * y),
        "huber": lambda: (np.where(np.abs(u) <= 1, u**2 / 2, np.abs(u) - 0.5), c * share**2 / 2 - inside * y),
        "absolute": lambda: (np.abs(u), -inside * y),
        "epsilon_insensitive": lambda: (np.maximum(np.abs(u) - epsilon, 0), epsilon * np.abs(inside) - inside * y),
        "hinge": lambda: (np.maximum(1 - margin, 0), -inside),
        "squared_hinge": lambda: (np.maximum(1 - margin, 0) ** 2 / 2, c * share**2 / 2 - inside),
        "logistic": lambda: (np.logaddexp(0, -margin), c * (xlogy(share, share) + xlogy(1 - share, 1 - share))),
    }[loss]()
    square = float(alpha @ f) / 2
    primal, dual = float((c * value).sum()) + square, float(psi.sum()) + square
    return primal, dual, float((c * value + psi + alpha * f).sum())


@dataclass(frozen=True)
class Outcome:
    """How a problem ended."""

    name: str
    reported: float
    true: float
    reason: str

    @property
    def wrong(self) -> bool:
        """Whether the true gap exceeds the reported one."""
        return self.true > max(EXCESS * self.reported, self.reported + SMALLEST)


def outcome(seed: int, device: str = "cpu", most_rows: int = MOST_ROWS) -> Outcome:
    """Solve the problem with this seed; return its gaps."""
    problem = RandomProblem.draw(seed, device, most_rows)
    try:
        training = problem.training(device)
        _, report = training.run()
    except joker.errors.JokerError as error:
        return Outcome(problem.name, 0.0, 0.0, f"refused: {type(error).__name__}")
    alpha, matrix = report.alpha[:, 0].double().cpu().numpy(), problem.matrix(training)
    found = Outcome(problem.name, float(report.relative_gap), problem.gap(alpha, matrix), report.reason.name)
    if not found.wrong:
        return found
    # The gap that is reported may have the dual value of an earlier point, which is a bound as well.
    found = replace(found, true=problem.gap(alpha, matrix, problem.solved(device)))
    if not found.wrong or training.features is None:
        return found
    # With features the model is θ, which need not be that of α.
    return replace(found, true=problem.gap_of_weights(report.image[:, 0].double().cpu().numpy(), alpha, training))


def main() -> None:
    """Solve problems and print those whose gap is wrong, and the shares of ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first problem")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ends: Counter[str] = Counter()
    wrong = 0
    for seed in range(options.first, options.first + options.count):
        found = outcome(seed, options.device)
        ends[found.reason] += 1
        if found.wrong:
            wrong += 1
            print(f"{found.name}: reported {found.reported:.3g}, true {found.true:.3g}, {found.reason}", flush=True)  # noqa: T201
    print(f"{options.count} problems, wrong: {wrong}; ends: {dict(ends)}")  # noqa: T201


if __name__ == "__main__":
    main()
