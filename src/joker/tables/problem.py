"""What a table estimator learns, and which rows the search and the held-out folds have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from joker.estimators.calibration import fit_calibration, log_loss
from joker.tables.blend import decision_values
from joker.tables.leave_one_out import GAUSSIAN, MATERN12
from joker.tables.search import Clock
from joker.tables.targets import NumberTarget, residual_quantiles
from joker.tables.validation import Fold, hold_out, make_folds, strata

Array = NDArray[Any]
MIN_FOLD_ROWS = 30  # with fewer rows nothing is held out
SEARCH_ROWS = 10_000  # with more rows, the search has a sample of them
MIN_SEARCH_ROWS = 2_000  # the same in little time
FEW_ROWS = 5_000  # at most so many are searched together in any time: folds of them say more than one sample
SEARCH_SECONDS = 60.0  # the least time in which a search has SEARCH_ROWS
SHARE_OF_SEARCH = 0.3  # of the time, for the search on a sample of many rows; chosen by benchmarks/search_ablations.py
HELD_OUT_ONE_IN = 10  # of many rows
MAX_HELD_OUT = 4_000
# The Laplacian is better on some sets and too slow on others: the axis "kernels" of benchmarks/search_ablations.py.
KERNELS_OF_MANY_ROWS = (GAUSSIAN, MATERN12)
MIN_SHARE_FOR_ANOTHER = 0.25  # of the time: a further candidate is tried while so much is left


@dataclass(frozen=True, eq=False)
class Problem:
    """What is learnt: columns or a matrix, targets, and the settings of the fit."""

    inputs: Any  # a RawTable, a sparse matrix or rows of a store
    y: Array  # (n,) codes of classes, or numbers
    classes: int
    estimator: Any  # unfitted
    clock: Clock
    seed: int
    scoring: Any = None
    columns: Mapping[str, str] | None = None
    class_weights: Array | None = None  # (n,), of the rows
    gpu: Any = None  # the device of a fit on many rows; None: that of the estimator

    def targets(self, form: NumberTarget | None) -> Array:  # (n,)
        """Return what a model is fitted to: codes of classes, or numbers in a form."""
        return self.y if form is None else form.encode(self.y)

    def values(self, model: Any, x: Any) -> Array:  # (n, d) -> (n, t)
        """Return decision values of all classes, or predictions on the scale of the fit."""
        if self.classes:
            return decision_values(model, x, self.classes)
        return np.asarray(model.predict(x))[:, None]

    def decoded(self, values: Array, rows: Array, form: NumberTarget | None) -> tuple[Array, Array | None]:
        """Return the values of held-out rows in the unit of y, and the quantiles of their residuals."""
        if form is None:
            return values, None
        residuals = residual_quantiles(form.encode(self.y)[rows] - values[:, 0])
        return form.decode(values[:, 0], residuals)[:, None], residuals

    def weights(self, rows: Array) -> Array | None:
        """Return the weights of some rows; None if all are equal."""
        return None if self.class_weights is None else self.class_weights[rows]

    def loss(self, rows: Array) -> Callable[[Array], float]:
        """Return the loss of values of some rows: the squared error, or the log loss of calibrated probabilities."""
        y = self.y[rows]
        if not self.classes:
            return lambda f: float(np.mean((f[:, 0] - y) ** 2))
        w = self.weights(rows)
        return lambda f: log_loss(fit_calibration(f, y, w).probabilities(f), y, w)


@dataclass(frozen=True, eq=False)
class Layout:
    """The rows that members are searched on, and the folds that they are weighted on.

    With few rows, the search has all of them and folds are fitted again. With many rows, some are held out, the
    search has a sample of the others, and only the members that matter are fitted on all others.
    """

    folds: list[Fold]
    rows: Array | None = None  # of the search; None: all
    share: float = 1.0  # of the time, for the search
    least_share: float = MIN_SHARE_FOR_ANOTHER  # of the time, that must be left for another candidate
    options: dict[str, Any] = field(default_factory=dict)  # of `joker.tune`

    @property
    def all_rows(self) -> bool:
        """Whether the search has all rows."""
        return self.rows is None


def make_layout(problem: Problem) -> Layout:
    """Divide the rows."""
    n, most = len(problem.y), search_rows(problem.clock.limit)
    codes = strata(problem.y, problem.classes)
    if n <= max(most, FEW_ROWS):
        folds = make_folds(codes, problem.seed) if n >= MIN_FOLD_ROWS else []
        return Layout([f for f in folds if not problem.classes or len(np.unique(problem.y[f.train])) > 1])
    fold = hold_out(codes, min(n // HELD_OUT_ONE_IN, MAX_HELD_OUT), problem.seed)
    sample = np.sort(np.random.RandomState(problem.seed).permutation(fold.train)[:most])
    options = {} if sp.issparse(problem.inputs) else {"kernels": KERNELS_OF_MANY_ROWS}
    return Layout([fold], sample, SHARE_OF_SEARCH, 0.55, options)


def search_rows(seconds: float) -> int:
    """Return the rows of a search of so many seconds."""
    return max(MIN_SEARCH_ROWS, min(SEARCH_ROWS, int(SEARCH_ROWS * seconds / SEARCH_SECONDS)))
