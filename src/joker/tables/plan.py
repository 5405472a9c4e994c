"""What a table estimator learns, and which rows the search and the held-out folds have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from joker.estimators.probabilities import fit_calibration
from joker.tables.ensemble import decision_values
from joker.tables.targets import NumberTarget, residual_quantiles
from joker.tuning.ard import GAUSSIAN, MATERN12
from joker.tuning.halving import TimeBudget
from joker.tuning.splits import Split, strata, stratified_splits

Array = NDArray[Any]
FOLDS = 5  # of cross-validation
MANY_ROWS = 6_000  # with more rows, one fold is held out
MIN_FOLD_ROWS = 30  # with fewer rows nothing is held out
SEARCH_ROWS = 10_000  # with more rows, the search has a sample of them
MIN_SEARCH_ROWS = 2_000  # the same in little time
FEW_ROWS = 5_000  # at most so many are searched together in any time: cross-validation is better than one sample
SEARCH_SECONDS = 60.0  # the least time in which a search has SEARCH_ROWS
HELD_OUT_ONE_IN = 10  # of many rows
MAX_HELD_OUT = 4_000
# The Laplacian is better on some sets and too slow on others: the axis "kernels" of benchmarks/search_ablations.py.
KERNELS_OF_MANY_ROWS = (GAUSSIAN, MATERN12)
# Shares of a time limit, and multiples of the time of a fit.
SHARE_OF_SEARCH = 0.3  # of the time, for the search on a sample of many rows; chosen by benchmarks/search_ablations.py
MIN_SHARE_FOR_ANOTHER = 0.25  # of the time: a further candidate is tried while so much is left
MIN_SHARE_OF_MANY_ROWS = 0.55  # the same for a search on a sample of many rows
GROUPS_SHARE = 0.05  # of the time: no further column of groups, or of codes, is tried after it
SCALING_SHARE = 0.1  # of the time: no further scaling of numbers is tried after it
FIRST_SHARE = 0.4  # of the time, for the first of several variants
FOLD_WEIGHTS_SHARE = 0.04  # of the time: for the weights of one fold
WEIGHTS_SHARE = 0.12  # of the time: for the weights of the inputs of one kernel
SEARCH_SHARE = 0.35  # of the time of an encoding: for its trials
FIT_SHARE = 0.35  # of the time of an encoding: for the fit after its trials
PROBE_SHARE = 0.1  # of the time of a fit: its speed is judged after it
MOST_TIMES = 5.0  # times its limit that a fit with random blocks may take until its model is usable
MOST_TIMES_OF_OTHERS = 2.0  # the same for other methods; random blocks then take their place
REFINING_SHARE = 0.3  # of the remaining time: for fits with another λ or bandwidth
FINAL_SHARE = 0.9  # of the remaining time: for the fits on more rows
MIN_TIMES_LEFT = 0.7  # times the longest fit so far: another candidate is fitted while so much time remains
MIN_TIMES_OF_ALL = 1.3  # the same for a fit on all rows: no held-out rows show whether it had enough time
CROSS_VALIDATION_SHARE = 0.6  # of the time of an encoding: for its fits on the folds
IMPORTANCE_SHARE = 0.1  # of max_time: for the importance of the columns


@dataclass(frozen=True, eq=False)
class TableProblem:
    """What is learnt: columns or a matrix, targets, and the settings of the fit."""

    inputs: Any  # a RawTable, a sparse matrix or rows of a store
    y: Array  # (n,) codes of classes, or numbers
    classes: int
    estimator: Any  # unfitted
    clock: TimeBudget
    seed: int
    scoring: Any = None
    columns: Mapping[str, str] | None = None
    class_weights: Array | None = None  # (n,), of the rows
    gpu: Any = None  # the device of a fit on many rows; None: that of the estimator

    def targets(self, target: NumberTarget | None) -> Array:  # (n,)
        """Return what a model is fitted to: codes of classes, or transformed numbers."""
        return self.y if target is None else target.encode(self.y)

    def values(self, model: Any, x: Any) -> Array:  # (n, d) -> (n, t)
        """Return decision values of all classes, or predictions on the scale of the fit."""
        if self.classes:
            return decision_values(model, x, self.classes)
        return np.asarray(model.predict(x))[:, None]

    def decoded(self, values: Array, rows: Array, target: NumberTarget | None) -> tuple[Array, Array | None]:
        """Return the values of held-out rows in the unit of y, and the quantiles of their residuals."""
        if target is None:
            return values, None
        residuals = residual_quantiles(target.encode(self.y)[rows] - values[:, 0])
        return target.decode(values[:, 0], residuals)[:, None], residuals

    def weights(self, rows: Array) -> Array | None:
        """Return the weights of some rows; None if all are equal."""
        return None if self.class_weights is None else self.class_weights[rows]

    def loss(self, rows: Array) -> Callable[[Array], float]:
        """Return the loss of values of some rows: the squared error, or the log loss of calibrated probabilities."""
        y = self.y[rows]
        if not self.classes:
            return lambda f: float(np.mean((f[:, 0] - y) ** 2))
        w = self.weights(rows)
        labels = np.arange(self.classes)
        return lambda f: log_loss(y, fit_calibration(f, y, w).probabilities(f), sample_weight=w, labels=labels)


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """The rows that members are searched on, and the folds that they are weighted on.

    With few rows, the search has all of them and folds are fitted again. With many rows, some are held out, the
    search has a sample of the others, and only the members that matter are fitted on all others.
    """

    folds: list[Split]
    rows: Array | None = None  # of the search; None: all
    share: float = 1.0  # of the time, for the search
    least_share: float = MIN_SHARE_FOR_ANOTHER  # of the time, that must be left for another candidate
    options: dict[str, Any] = field(default_factory=dict)  # of `joker.tune`

    @property
    def all_rows(self) -> bool:
        """Whether the search has all rows."""
        return self.rows is None


def make_search_plan(problem: TableProblem) -> SearchPlan:
    """Divide the rows."""
    n, most = len(problem.y), search_rows(problem.clock.limit)
    codes = strata(problem.y, problem.classes)
    if n <= max(most, FEW_ROWS):
        count = 0 if n < MIN_FOLD_ROWS else FOLDS if n <= MANY_ROWS else 1
        folds = stratified_splits(codes, FOLDS, count, problem.seed)
        return SearchPlan([f for f in folds if not problem.classes or len(np.unique(problem.y[f.train])) > 1])
    (fold,) = stratified_splits(codes, -(-n // min(n // HELD_OUT_ONE_IN, MAX_HELD_OUT)), 1, problem.seed)
    sample = np.sort(np.random.RandomState(problem.seed).permutation(fold.train)[:most])
    options = {} if sp.issparse(problem.inputs) else {"kernels": KERNELS_OF_MANY_ROWS}
    return SearchPlan([fold], sample, SHARE_OF_SEARCH, MIN_SHARE_OF_MANY_ROWS, options)


def search_rows(seconds: float) -> int:
    """Return the rows of a search of so many seconds."""
    return max(MIN_SEARCH_ROWS, min(SEARCH_ROWS, int(SEARCH_ROWS * seconds / SEARCH_SECONDS)))
