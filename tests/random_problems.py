"""Random problems of every loss, kernel, precision, weight and scale, and their gaps by an independent computation.

    python tests/random_problems.py --count 2000                      # float32 and float64 on the CPU
    python tests/random_problems.py --count 500 --device cuda         # with mixed precision too
    python tests/random_problems.py --count 500 --estimators          # estimators with their own precision and method

The reference uses NumPy in float64, and in more digits where those are too few: its own distances (differences, no
products), losses and conjugates. It reads nothing of a fit but the dual variables α, which it moves into their box, and
computes the primal objective from them. Every column, or group of columns, must have a true gap of at most its own.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from scipy.special import logsumexp, xlogy

import joker
from joker import kernels, losses
from joker.solvers import Descent

REGRESSION = (
    "squared", "huber", "absolute", "epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "lp",
)  # fmt: skip
BINARY = ("hinge", "logistic", "squared_hinge")
MULTICLASS = ("softmax", "crammer_singer")
LOG_MEANS = {
    "poisson": 1.0,
    "gamma": 2.0,
    "tweedie": 1.4,
}  # losses of the log of the mean, and the power of the variance
LATER = (*LOG_MEANS, "expectile")  # not among those of `LOSSES`, so that a seed stands for the same problem as before
LOSSES = (*REGRESSION, *BINARY, *MULTICLASS)
KERNELS = ("gaussian", "laplacian", "matern12", "matern32", "matern52", "cauchy", "polynomial", "linear")
STATIONARY = KERNELS[:6]
SHAPES = ("normal", "clusters", "heavy", "duplicates", "far", "grid")
METHODS = ("auto", "auto", "random_blocks", "greedy_blocks", "column_blocks")
LEAST_ROWS, MOST_ROWS, MOST_ROWS_OF_CLASSES = 20, 1_200, 150
EPSILON = 0.1
EXCESS = 1.01  # times the reported gap, that the true gap may be at most
SMALLEST = 1e-9  # a relative gap that is a rounding error of float64 sums


@dataclass(frozen=True)
class RandomProblem:
    """The data and settings of one problem; the seed tells everything."""

    x: Any  # (n, d)
    y: Any  # (n, t)
    lams: Any  # (t,)
    weights: Any  # (n,) or None
    loss: str
    parameters: dict[str, Any]  # of the loss
    kernel: str
    degree: int
    bandwidth: float
    intercept: bool
    dtype: torch.dtype
    n_features: int | None
    settings: dict[str, Any] = field(default_factory=dict)
    mixed: bool = False
    name: str = ""

    @classmethod
    def draw(
        cls,
        seed: int,
        device: str = "cpu",
        most_rows: int = MOST_ROWS,
        least_rows: int = LEAST_ROWS,
        among: tuple[str, ...] = LOSSES,
    ) -> RandomProblem:
        """Return the problem with this seed, of so many rows; with classes, of at most ``MOST_ROWS_OF_CLASSES``."""
        rng = np.random.default_rng([seed, 18])
        n, d = int(np.exp(rng.uniform(np.log(least_rows), np.log(most_rows)))), int(rng.integers(1, 7))
        extreme = rng.random() < 0.3  # a narrow bandwidth, small λ, a large polynomial
        loss, kernel = among[rng.integers(len(among))], KERNELS[rng.integers(len(KERNELS))]
        n = min(n, MOST_ROWS_OF_CLASSES) if loss in MULTICLASS else n
        shape = "clusters" if extreme and rng.random() < 0.5 else SHAPES[rng.integers(len(SHAPES))]
        x = _inputs(rng, shape, n, d).astype(np.float32).astype(np.float64)
        y, lams, parameters = _targets(rng, loss, x, (-6, -2) if extreme else (-5, 2))
        middle = np.median(np.linalg.norm(x[:100, None] - x[None, 100:200], axis=2)) if n > 100 else 1.0
        bandwidth = float(max(middle, 1e-6) * 10 ** (rng.uniform(-3.5, -1) if extreme else rng.uniform(-2, 2)))
        dtype = torch.float32 if rng.random() < 0.7 else torch.float64
        featured = kernel != "matern12" and rng.random() < 0.25
        method = METHODS[rng.integers(len(METHODS))]
        if featured or (method == "column_blocks" and loss in (*MULTICLASS, *LATER, "logistic", "lp")):
            method = "random_blocks" if method == "random_blocks" else "auto"
        if kernel == "polynomial" and not extreme:
            bandwidth = max(bandwidth, 0.1 * middle)
        return cls(
            x=x,
            y=y.astype(np.float32).astype(np.float64),
            lams=lams,
            weights=_weights(rng, n),
            loss=loss,
            parameters=parameters,
            kernel=kernel,
            degree=int(rng.integers(2, 6)),
            bandwidth=bandwidth,
            intercept=bool(rng.random() < 0.5),
            dtype=dtype,
            n_features=None if not featured else d if kernel == "linear" else int(rng.integers(10, 200)),
            settings={
                "method": method, "averaging": bool(rng.random() < 0.7),
                "momentum": method == "random_blocks" and bool(rng.random() < 0.5),
                "block_size": int(rng.choice([64, 256, 2_000])),
            },
            mixed=device == "cuda" and dtype == torch.float32 and bool(rng.random() < 0.7),
            name=f"seed {seed}: {loss} {parameters}, {kernel} {bandwidth:.3g}, λ {np.round(lams, 7)}, {shape}, "
            f"n = {n}, d = {d}, {dtype}, {method}",
        )  # fmt: skip

    @property
    def group(self) -> int:
        """The columns that the loss couples."""
        return int(self.parameters.get("classes", 1))

    @property
    def named_kernel(self) -> Any:
        """joker's kernel."""
        if self.kernel == "polynomial":
            return kernels.Polynomial(bandwidth=self.bandwidth, degree=self.degree)
        return kernels.get(self.kernel).with_bandwidth(self.bandwidth)

    def training(self, device: str, **settings: Any) -> Any:
        """Return joker's training."""
        chosen = joker.Settings(**{"max_epochs": 5 if self.loss in MULTICLASS else 12, **self.settings, **settings})
        x, y = (torch.tensor(part, dtype=self.dtype, device=device) for part in (self.x, self.y))
        weights = None if self.weights is None else torch.tensor(self.weights, dtype=self.dtype, device=device)
        return joker.prepare(
            x, y, loss=losses.get(self.loss, **self.parameters), lam=self.lams.tolist(), weights=weights,
            kernel=self.named_kernel, n_features=self.n_features, intercept=self.intercept, mixed=self.mixed,
            settings=chosen,
        )  # fmt: skip

    def features(self, training: Any) -> Any:
        """Return the features of all rows in float64."""
        return training.features.to(torch.float64, torch.device("cpu"))(torch.tensor(self.x)).numpy()

    def reference(self, training: Any, dtype: Any = np.float64) -> Reference:
        """Return the problem for the reference, with the kernel of the formula, or of the features that were drawn."""
        weights = np.ones(len(self.x)) if self.weights is None else self.weights.astype(np.float64)
        c = (weights[:, None] / self.lams).astype(dtype)
        matrix = None
        if training.features is not None:
            matrix = self.features(training).astype(dtype)
        else:
            matrix = kernel_matrix(self.kernel, self.bandwidth, self.x, self.degree, dtype) + dtype(self.intercept)
        return Reference(self.loss, self.parameters, self.y.astype(dtype), c, matrix, training.features is not None)

    def solved(self, device: str, max_time: float = inf) -> list[Any]:
        """Return the dual variables of solves in float64 to a small gap: any dual point bounds the optimum."""
        precise = replace(self, dtype=torch.float64, mixed=False)
        settings = {"max_epochs": 100, "tol": 1e-9, "momentum": False, "block_size": 256, "max_time": max_time}
        found = []
        for method in ("newton", "auto"):
            with suppress(joker.errors.InvalidParameter):
                found.append(precise.training(device, method=method, **settings).run()[1].alpha.cpu().numpy())
        return found


def _inputs(rng: np.random.Generator, shape: str, n: int, d: int) -> Any:
    if shape == "clusters":
        spread = 10 ** rng.uniform(-4, -1)
        return rng.normal(size=(20, d))[rng.integers(20, size=n)] + spread * rng.normal(size=(n, d))
    if shape == "heavy":
        return rng.standard_t(1.5, size=(n, d))
    if shape == "duplicates":
        return rng.normal(size=(max(2, n // 3), d))[rng.integers(max(2, n // 3), size=n)]
    if shape == "far":
        return rng.normal(size=(n, d)) + 100
    if shape == "grid":
        return rng.integers(5, size=(n, d)).astype(np.float64)
    return rng.normal(size=(n, d))


def _targets(rng: np.random.Generator, loss: str, x: Any, exponents: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return y (n, t), λ (t,) and the parameters of the loss."""
    n, columns = len(x), int(rng.choice([1, 1, 1, 2, 4]))
    parameters: dict[str, Any] = {}
    f = np.sin(3 * x[:, :1] / max(np.std(x[:, 0]), 1e-12)) + 0.3 * rng.normal(size=(n, columns))
    if loss in MULTICLASS:
        k, paths = int(rng.integers(2, 6)), int(rng.choice([1, 2]))
        number = np.clip(np.floor((f[:, 0] + 1.5) / 3 * k), 0, k - 1).astype(int)
        y = np.tile(np.where(np.arange(k) == number[:, None], 1.0, -1.0), paths)
        return y, np.repeat(10 ** rng.uniform(*exponents, size=paths), k), {"classes": k}
    lams = 10 ** rng.uniform(*exponents, size=columns)  # a λ for each column
    if rng.random() < 0.5:
        f = np.repeat(f[:, :1], columns, axis=1)  # a path
    if loss in BINARY:
        return np.where(f > 0, 1.0, -1.0), lams, parameters
    if loss == "quantile":
        parameters = {"quantile": float(rng.uniform(0.05, 0.95))}
    if loss == "lp":
        parameters = {"p": float(rng.choice([1.2, 1.5, 2.5]))}
    if loss == "expectile":
        parameters = {"expectile": float(rng.uniform(0.05, 0.95))}
    if loss in LOG_MEANS:
        mean = np.exp(1.5 * f)
        drawn = {"poisson": lambda: rng.poisson(mean), "gamma": lambda: rng.gamma(2, mean / 2) + 1e-6}
        zeros = rng.random(mean.shape) < 0.4
        y = drawn.get(loss, lambda: np.where(zeros, 0, rng.gamma(2, mean)))()
        return y.astype(float), lams, {"power": LOG_MEANS[loss]} if loss == "tweedie" else {}
    if loss == "huber":
        parameters = {"delta": float(10 ** rng.uniform(-1, 1))}
    return f * 10 ** rng.uniform(-1, 1), lams, parameters


def _weights(rng: np.random.Generator, n: int) -> Any:
    kind = rng.random()
    if kind < 0.6:
        return None
    if kind < 0.7:
        return np.full(n, 10 ** rng.uniform(-3, 5), dtype=np.float32)
    weights = (10 ** rng.uniform(-3, 3, size=n)).astype(np.float32)
    if kind > 0.9:
        weights[rng.random(n) < 0.2] = 0
    return weights


def kernel_matrix(name: str, sigma: float, x: Any, degree: int = 3, dtype: Any = np.float64) -> Any:
    """Return the kernel matrix of some rows."""
    x = x.astype(dtype)
    if name in ("linear", "polynomial"):
        products = np.add.reduce([np.multiply.outer(column, column) for column in x.T])
        return products if name == "linear" else (products / dtype(sigma) ** 2 + 1) ** degree
    if name == "laplacian":
        return np.exp(-np.add.reduce([np.abs(np.subtract.outer(column, column)) for column in x.T]) / dtype(sigma))
    squares = np.add.reduce([np.subtract.outer(column, column) ** 2 for column in x.T]) / dtype(sigma) ** 2
    if name == "gaussian":
        return np.exp(-squares / 2)
    if name == "cauchy":
        return 1 / (1 + squares)
    r = np.sqrt(squares * {"matern12": 1, "matern32": 3, "matern52": 5}[name])
    return {"matern12": 1, "matern32": 1 + r, "matern52": 1 + r + r**2 / 3}[name] * np.exp(-r)


@dataclass(frozen=True)
class Reference:
    """A problem with its kernel matrix, or with features, in NumPy."""

    loss: str
    parameters: dict[str, Any]
    y: Any  # (n, t)
    c: Any  # (n, t): w / λ
    matrix: Any  # (n, n), or features (n, m)
    featured: bool = False

    @property
    def group(self) -> int:
        """The columns that the loss couples."""
        return int(self.parameters.get("classes", 1))

    def predictions(self, alpha: Any) -> Any:
        """Return K α."""
        return self.matrix @ (self.matrix.T @ alpha) if self.featured else self.matrix @ alpha

    def gaps(self, alpha: Any, others: Any = (), theta: Any = None) -> Any:  # (t / group,)
        """Return the true relative gaps of α, or of the weights θ of features.

        The dual point is α in its box; where one of ``others`` has a better dual value, that counts.
        """
        alpha = alpha.astype(self.y.dtype)
        theta = self.matrix.T @ alpha if theta is None and self.featured else theta
        f = self.matrix @ theta if self.featured else self.predictions(alpha)
        square = theta * theta if self.featured else alpha * f
        primal = self._total(self.value(f)) + self._total(square) / 2
        found = np.full(len(primal), np.inf)
        for point in [alpha, *(other.astype(self.y.dtype) for other in others)]:
            inside = self.inside(point)
            own = f if point is alpha and not self.featured and np.array_equal(inside, point) else None
            own = self.predictions(inside) if own is None else own
            psi = self.conjugate(inside)
            dual = self._total(psi) + self._total(inside * own) / 2
            terms = primal + dual
            if point is alpha and own is f:  # the terms cancel row by row
                terms = self._total(self.value(f) + psi + inside * f)
            size = np.maximum(np.abs(primal), np.abs(dual)).clip(np.finfo(float).tiny)
            with np.errstate(invalid="ignore"):  # exponentials of a point that is far from the solution
                found = np.fmin(found, terms / size)
        return found.astype(np.float64)

    def inside(self, alpha: Any) -> Any:
        """Return the point of the box that is near α."""
        y, c = self.y, self.c
        if self.loss in MULTICLASS:
            p = self._shares(alpha).clip(0)
            p /= p.sum(2, keepdims=True).clip(np.finfo(float).tiny)
            own = self._grouped(y) > 0
            return (np.repeat(self._grouped(c)[:, :, :1], self.group, 2) * (own - p)).reshape(y.shape)
        q = self.parameters.get("quantile", 0.5)
        delta = self.parameters.get("delta", 1.0)
        low, high = {
            "hinge": (0 * c, c), "logistic": (0 * c, c), "squared_hinge": (0 * c, np.inf),
            "huber": (-delta * c, delta * c), "absolute": (-c, c),
            "epsilon_insensitive": (-c, c), "quantile": ((q - 1) * c, q * c), "poisson": (-np.inf, c * y),
            "gamma": (-c, np.inf), "tweedie": (-np.inf, np.where(y > 0, np.inf, 0)),
        }.get(self.loss, (-np.inf, np.inf))  # fmt: skip
        sign = y if self.loss in BINARY else 1.0
        moved = np.clip(alpha * sign, low, high) * sign
        return np.where(c > 0, moved, 0)

    def value(self, f: Any) -> Any:
        """Return c ℓ(y, f); of a group, in its first column."""
        y, c = self.y, self.c
        if self.loss in MULTICLASS:
            return self._value_of_classes(f)
        if self.loss in LOG_MEANS:
            return c * half_deviance(y, f, LOG_MEANS[self.loss])
        level = self.parameters.get("expectile", 0.5)
        u, margin, p = y - f, y * f, self.parameters.get("p", 2.0)
        q, delta = self.parameters.get("quantile", 0.5), self.parameters.get("delta", 1.0)
        beyond = np.maximum(np.abs(u) - EPSILON, 0)
        return (
            c
            * {
                "squared": lambda: u**2 / 2,
                "huber": lambda: np.where(np.abs(u) <= delta, u**2 / 2, delta * (np.abs(u) - delta / 2)),
                "absolute": lambda: np.abs(u),
                "epsilon_insensitive": lambda: beyond,
                "squared_epsilon_insensitive": lambda: beyond**2 / 2,
                "quantile": lambda: np.maximum(q * u, (q - 1) * u),
                "lp": lambda: np.abs(u) ** p / p,
                "expectile": lambda: np.where(u < 0, 1 - level, level) * u**2,
                "hinge": lambda: np.maximum(1 - margin, 0),
                "squared_hinge": lambda: np.maximum(1 - margin, 0) ** 2 / 2,
                "logistic": lambda: np.logaddexp(0, -margin),
            }[self.loss]()
        )

    def conjugate(self, a: Any) -> Any:
        """Return ψ(α); of a group, in its first column where it does not separate."""
        y, c = self.y, self.c
        if self.loss == "softmax":
            p = self._shares(a).clip(0, 1)
            return (self._grouped(c) * xlogy(p.astype(float), p.astype(float))).reshape(y.shape)
        if self.loss == "crammer_singer":
            return np.where(y < 0, a, 0)
        safe, p = np.where(c > 0, c, 1), self.parameters.get("p", 2.0)
        if self.loss in LOG_MEANS:
            return c * _deviance_conjugate(y, a / safe, LOG_MEANS[self.loss])
        level = self.parameters.get("expectile", 0.5)
        share = np.where(c > 0, np.abs(a) / safe, 0)
        entropy = share.clip(0, 1).astype(float)
        return {
            "squared": lambda: c * share**2 / 2 - a * y,
            "huber": lambda: c * share**2 / 2 - a * y,
            "absolute": lambda: -a * y,
            "epsilon_insensitive": lambda: EPSILON * np.abs(a) - a * y,
            "squared_epsilon_insensitive": lambda: c * share**2 / 2 + EPSILON * np.abs(a) - a * y,
            "quantile": lambda: -a * y,
            "lp": lambda: c * share ** (p / (p - 1)) * (p - 1) / p - a * y,
            "expectile": lambda: c * share**2 / 4 / np.where(a < 0, 1 - level, level) - a * y,
            "hinge": lambda: -np.abs(a),
            "squared_hinge": lambda: c * share**2 / 2 - np.abs(a),
            "logistic": lambda: c * (xlogy(entropy, entropy) + xlogy(1 - entropy, 1 - entropy)),
        }[self.loss]()

    def _value_of_classes(self, f: Any) -> Any:
        own, f = self._grouped(self.y) > 0, self._grouped(f)
        largest = logsumexp(f.astype(float), axis=2) if self.loss == "softmax" else (f + ~own).max(2)
        result = np.zeros_like(f)
        result[:, :, 0] = self._grouped(self.c)[:, :, 0] * (largest - np.where(own, f, 0).sum(2))
        return result.reshape(self.y.shape)

    def _shares(self, a: Any) -> Any:  # (n, t / k, k)
        c, own = self._grouped(self.c), self._grouped(self.y) > 0
        return np.where(c > 0, own - self._grouped(a) / np.where(c > 0, c, 1), own)

    def _grouped(self, values: Any) -> Any:
        return np.broadcast_to(values, self.y.shape).reshape(len(self.y), -1, self.group)

    def _total(self, rows: Any) -> Any:  # (n or m, t) -> (t / group,)
        return rows.sum(0).reshape(-1, self.group).sum(1)


def half_deviance(y: Any, f: Any, p: float) -> Any:
    """Return half the deviance of y and the mean exp(f)."""
    logarithm = np.log(np.where(y > 0, y, 1))
    with np.errstate(over="ignore", invalid="ignore"):
        if p == 1:
            return np.exp(f) - y * f + y * logarithm - y
        if p == 2:
            return y * np.exp(-f) + f - logarithm - 1
        r, s = p - 1, 2 - p
        return np.where(y > 0, y * np.exp(-r * f), 0) / r + np.exp(s * f) / s - np.where(y > 0, y, 0) ** s / (r * s)


def _deviance_conjugate(y: Any, a: Any, p: float) -> Any:
    """Return the supremum over f of -a f minus half the deviance, whose slope is found by bisection."""
    low, high = np.full_like(a, -300.0), np.full_like(a, 300.0)
    for _ in range(200):
        middle = (low + high) / 2
        with np.errstate(over="ignore", invalid="ignore"):
            slope = np.exp((2 - p) * middle) - np.where(y > 0, y * np.exp((1 - p) * middle), 0) + a
        low, high = np.where(slope < 0, middle, low), np.where(slope < 0, high, middle)
    return -a * low - half_deviance(y, low, p)


def relative_gap(loss: str, y: Any, c: Any, alpha: Any, matrix: Any, **parameters: Any) -> float:
    """Return the relative gap of a dual point of one column, whose factors are c = w / λ."""
    column = Reference(loss, parameters, y[:, None], np.broadcast_to(c, y.shape)[:, None], matrix)
    return float(column.gaps(alpha[:, None])[0])


class Outcome(NamedTuple):
    """How a problem ended."""

    name: str
    reported: Any  # (t / group,)
    true: Any
    reason: str
    own: Any = None  # the true gaps with the dual value of α, where a better one was computed

    @property
    def wrong(self) -> bool:
        """Whether a true gap exceeds the reported one; an infinite one claims nothing."""
        held = (self.true <= np.maximum(EXCESS * self.reported, self.reported + SMALLEST)) | np.isposinf(self.reported)
        return bool((~held).any())


def outcome(seed: int, device: str = "cpu", most_rows: int = MOST_ROWS, among: tuple[str, ...] = LOSSES) -> Outcome:
    """Solve the problem with this seed; return its gaps."""
    return outcome_of(RandomProblem.draw(seed, device, most_rows, among=among), device)


def outcome_of(problem: RandomProblem, device: str = "cpu", **settings: Any) -> Outcome:
    """Solve a problem; return its gaps."""
    try:
        training = problem.training(device, **settings)
        points: list[Any] = []
        descent = training.descent
        _, report = training.run(lambda record: points.extend([descent.point[0].clone(), descent.state.alpha.clone()]))
    except joker.errors.JokerError as error:
        return _refused(problem, error)
    return judged(problem, training, report, device, points, settings.get("max_time", inf))


def _refused(problem: RandomProblem, error: Exception) -> Outcome:
    return Outcome(problem.name, np.zeros(1), np.zeros(1), f"refused: {type(error).__name__}")


def judged(
    problem: RandomProblem, training: Any, report: Any, device: str = "cpu", earlier: Any = (), max_time: float = inf
) -> Outcome:
    """Return the gaps of a solve; what is doubtful in float64 is computed with more digits, and with the best bound."""
    reported = report.gap.relative.nan_to_num(torch.inf).cpu().numpy().reshape(-1, problem.group)[:, 0]
    alpha = report.alpha.double().cpu().numpy()
    reference = problem.reference(training)
    found = Outcome(problem.name, reported, reference.gaps(alpha), report.reason.name)
    if not found.wrong:
        return found
    if training.features is None:
        reference = problem.reference(training, np.longdouble)
        found = found._replace(true=reference.gaps(alpha))
        if not found.wrong:
            return found
    # The gap that is reported may have the dual value of an earlier point, which is a bound as well.
    others = [*problem.solved(device, max_time), *(point.double().cpu().numpy() for point in earlier)]
    found = found._replace(true=reference.gaps(alpha, others), own=found.true)
    if not found.wrong or training.features is None:
        return found
    theta = report.image.double().cpu().numpy()  # with features the model is θ, which need not be that of α
    return found._replace(true=reference.gaps(alpha, others, theta))


ESTIMATORS = {
    "squared": joker.KernelRidge, "huber": joker.KernelHuber, "epsilon_insensitive": joker.KernelSVR,
    "quantile": joker.KernelQuantile, "lp": joker.KernelLp, "hinge": joker.KernelSVC, "logistic": joker.KernelLogistic,
}  # fmt: skip


def estimator_outcome(
    seed: int, most_rows: int = 2_500, least_rows: int = LEAST_ROWS, max_time: float = inf
) -> Outcome:
    """Fit the estimator of the problem with this seed, with precision and method "auto"; return its gaps."""
    problem = RandomProblem.draw(seed, most_rows=most_rows, least_rows=least_rows)
    names = list(ESTIMATORS)
    if problem.loss not in ESTIMATORS:
        rng = np.random.default_rng(seed)
        loss = names[int(rng.integers(len(names)))]
        y, lams, parameters = _targets(rng, loss, problem.x, (-5, 1))
        problem = replace(problem, loss=loss, y=y.astype(np.float32).astype(float), lams=lams, parameters=parameters)
    problem = replace(
        problem, y=problem.y[:, :1], lams=problem.lams[:1], name=f"{problem.name} as {problem.loss}, estimator"
    )
    if len(np.unique(problem.y)) < 2:
        return Outcome(problem.name, np.zeros(1), np.zeros(1), "one class")
    own = {"loss": "hinge"} if problem.loss == "hinge" else dict(problem.parameters)
    if problem.loss not in BINARY:
        own["scale_target"] = False
    model = ESTIMATORS[problem.loss](
        lam=float(problem.lams[0]), kernel=problem.named_kernel, n_features=problem.n_features, standardize=False,
        fit_intercept=problem.intercept, random_state=seed, max_time=max_time, **own,
    )  # fmt: skip
    runs: list[Any] = []
    run = Descent.run

    def kept(descent: Any, *arguments: Any, **named: Any) -> Any:
        runs.append((descent, run(descent, *arguments, **named)))
        return runs[-1][1]

    dtype = np.float32 if problem.dtype == torch.float32 else np.float64
    try:
        with patch.object(Descent, "run", kept):
            model.fit(problem.x.astype(dtype), problem.y[:, 0], sample_weight=problem.weights)
    except joker.errors.JokerError as error:
        return _refused(problem, error)
    (descent, report), *_ = runs
    y = problem.y if problem.loss not in BINARY else descent.problem.targets.y.double().numpy()  # classes in any order
    problem = replace(problem, y=y - (0 if problem.loss in BINARY else model._offset))
    training = joker.Training(descent, problem.named_kernel, getattr(descent.state, "features", None))
    return judged(problem, training, report, max_time=max_time)


def main() -> None:
    """Solve problems and print those whose gap is wrong, and the shares of ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first problem")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="fewer than so many")
    parser.add_argument("--estimators", action="store_true", help="fit estimators")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    ends: Counter[str] = Counter()
    losses_seen: Counter[str] = Counter()
    wrong = 0
    started = time.perf_counter()
    for seed in range(options.first, options.first + options.count):
        found = (
            estimator_outcome(seed, options.rows) if options.estimators else outcome(seed, options.device, options.rows)
        )
        ends[found.reason] += 1
        losses_seen[found.name.split()[2]] += 1
        if found.wrong:
            wrong += 1
            print(f"{found.name}: reported {found.reported}, true {found.true}, {found.reason}", flush=True)  # noqa: T201
        if seed % 100 == 99:
            print(f"{seed + 1}: {wrong} wrong, {dict(ends)}, {time.perf_counter() - started:.0f} s", flush=True)  # noqa: T201
    print(f"{options.count} problems, wrong: {wrong}; ends: {dict(ends)}; losses: {dict(losses_seen)}")  # noqa: T201


if __name__ == "__main__":
    main()
