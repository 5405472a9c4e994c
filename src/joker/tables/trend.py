"""A linear trend of a target of numbers: it is fitted first, and a kernel learns what it leaves.

A kernel returns to its mean outside the training data, and a linear function goes on. Numbers are inputs of the trend
without soft-clipping, groups are numbers, and the ridge penalty has the smallest error on held-out rows. The
certificate of a member with a trend is that of its kernel machine, which is fitted to the residuals of the trend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.estimators import resolve
from joker.runtime.devices import one_blas_thread
from joker.tables.columns import DROP, GROUP, decide_kinds
from joker.tables.encoders import Z_SCORE, DateEncoder, NumberEncoder
from joker.tables.encoding import Encoding, fit_encoding, in_memory
from joker.tables.problem import TableProblem
from joker.tables.table import NUMBER, TEXT, RawTable, is_limited
from joker.tables.targets import Trend
from joker.tuning.splits import Split
from joker.tuning.validation import FOLDS

Array = NDArray[Any]
MIN_TREND_ROWS = 200
MIN_ROWS_OF_INPUT = 5  # rows for each input
MAX_TREND_INPUTS = 256  # the cost is quadratic in these
MAX_COMPARED_ROWS = 10_000  # that penalties are compared on
PENALTIES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # times the mean square of an input, for a mean of losses


@dataclass(frozen=True, eq=False)
class TrendInputs:
    """The inputs of trends: one encoding for all of them."""

    problem: TableProblem
    encoding: Encoding
    x: Array  # (n, d), of all rows
    splits: Sequence[Split]  # that penalties are compared on

    def of_fold(self, train: Array) -> TrendInputs:
        """Return the same, with an encoding of the training rows of a fold where others would look too easy."""
        problem = self.problem
        if not problem.validation.of_encodings:
            return self
        table, y = problem.inputs.some(train), problem.y[train]
        encoding, _ = fit_encoding(table, y, 0, kinds=self.encoding.kinds, scaling=Z_SCORE, seed=problem.seed)
        return replace(self, encoding=encoding, x=encoding.transform(problem.inputs))

    def penalised(self, y: Array) -> PenalisedTrend:  # (n,)
        """Choose the penalty of trends of a target on held-out rows."""
        errors = np.zeros(len(PENALTIES))
        left = np.full((len(PENALTIES), len(y)), np.nan)
        for one in self.splits:
            for j, (coefficients, intercept) in enumerate(self.solutions(y, one.train, PENALTIES)):
                left[j, one.held] = y[one.held] - self.x[one.held] @ coefficients - intercept
                errors[j] += float(np.sum(self._weights(one.held) * left[j, one.held] ** 2))
        best = int(np.argmin(errors))
        return PenalisedTrend(self, y, PENALTIES[best], left[best])

    def solutions(self, y: Array, rows: Array, penalties: Sequence[float]) -> list[tuple[Array, float]]:
        """Return the coefficients and the intercept of a ridge regression for each penalty."""
        x, target, w = self.x[rows].astype(np.float64), y[rows], self._weights(rows)
        total = w.sum()
        mean, centre = w @ x / total, float(w @ target / total)
        x -= mean
        with one_blas_thread():  # the last bits of a product depend on the number of threads
            values, vectors = np.linalg.eigh((x.T * w) @ x / total)
            product = vectors.T @ (x.T @ (w * (target - centre)) / total)
        scale = max(float(values.mean()), np.finfo(np.float64).tiny)
        solutions = [vectors @ (product / (np.maximum(values, 0.0) + penalty * scale)) for penalty in penalties]
        return [(one, centre - float(mean @ one)) for one in solutions]

    def _weights(self, rows: Array) -> Array:
        given = self.problem.given_weights(rows)
        return np.ones(len(rows)) if given is None else given.astype(np.float64)


@dataclass(frozen=True, eq=False)
class PenalisedTrend:
    """Trends of one target: their penalty, and the residuals of held-out rows."""

    inputs: TrendInputs
    y: Array  # (n,)
    penalty: float
    held_residuals: Array  # (n,), NaN of rows that no split holds out

    def fit(self, rows: Array, number: int = 0, inputs: TrendInputs | None = None) -> Trend:
        """Fit a trend to some rows; ``number`` is the index of the encoding."""
        inputs = inputs or self.inputs
        ((coefficients, intercept),) = inputs.solutions(self.y, rows, (self.penalty,))
        values, y = inputs.x[rows] @ coefficients + intercept, self.y[rows]
        # A row with a wrong input may have a value of the trend that is far from all targets.
        low, high = float(max(values.min(), y.min())), float(min(values.max(), y.max()))
        return Trend(number, coefficients, intercept, 2 * low - high, 2 * high - low)

    @cached_property
    def residuals(self) -> Array:  # (n,)
        """What trends leave; of held-out rows it is what a trend leaves that was fitted without them."""
        fitted = self.fit(np.arange(len(self.y))).values(self.inputs.x)
        return np.where(np.isnan(self.held_residuals), self.y - fitted, self.held_residuals)


def trend_inputs(problem: TableProblem) -> TrendInputs | None:
    """Return the inputs of trends; None where a trend makes no sense or would not be determined."""
    squared = not problem.classes and resolve.is_linear_system(problem.estimator)
    if not squared or not isinstance(problem.inputs, RawTable) or is_limited(problem.estimator.memory):
        return None
    n = len(problem.y)
    if n < MIN_TREND_ROWS:
        return None
    without = problem.validation.column
    kinds = decide_kinds(problem.inputs, problem.columns)
    kinds = [replace(kind, kind=NUMBER) if kind.kind == GROUP else kind for kind in kinds]
    kinds = [replace(kind, kind=DROP) if kind.name == without or kind.kind == TEXT else kind for kind in kinds]
    encoding, x = fit_encoding(problem.inputs, problem.y, 0, kinds=kinds, scaling=Z_SCORE, seed=problem.seed)
    numbers = any(isinstance(e, DateEncoder | NumberEncoder) for e in encoding.encoders)
    if not numbers or x.shape[1] > min(MAX_TREND_INPUTS, n // MIN_ROWS_OF_INPUT):
        return None
    x = in_memory(x)
    if not x.any():
        return None
    return TrendInputs(problem, encoding, x, _splits(problem))


def _splits(problem: TableProblem) -> list[Split]:
    """The splits that penalties are compared on, of some of the rows."""
    n, seed = len(problem.y), problem.seed
    splits = problem.validation.folds(problem.codes, FOLDS, FOLDS, seed)
    share = min(1.0, MAX_COMPARED_ROWS / n)
    random = np.random.RandomState(seed)

    def some(rows: Array) -> Array:
        return rows if share == 1 else np.sort(random.permutation(rows)[: max(1, round(share * len(rows)))])

    return [Split(some(one.train), some(one.held)) for one in splits]
