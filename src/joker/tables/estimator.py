"""What the classifier and the regressor of tables share: parameters, checks, the fit and its results."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from joker.distributed import current
from joker.errors import BudgetTooSmall, InvalidData, InvalidParameter
from joker.estimators import resolve
from joker.estimators.card import model_card
from joker.estimators.estimator import CheckedParameters
from joker.estimators.foreign_names import TABLE_PARAMETERS
from joker.estimators.inputs import check_weights
from joker.estimators.model import check_processes
from joker.estimators.probabilities import Calibration
from joker.estimators.scoring import check_scorer
from joker.models.files import save
from joker.runtime import gpus, parse_device
from joker.runtime.devices import one_thread
from joker.runtime.warning_filters import ignoring
from joker.tables.candidates import FittedEnsemble
from joker.tables.encoding import in_memory
from joker.tables.ensemble import Ensemble, Residuals, make_residuals
from joker.tables.optimism import find_optimism
from joker.tables.parsing import parse_text
from joker.tables.plan import DEFAULT_EFFORT, SearchPlan, check_effort
from joker.tables.problem import TableProblem, validation_of
from joker.tables.refit import fit_table, plan_of
from joker.tables.report import TableView, column_facts, held_out_error, member_facts, print_summary, progress_of
from joker.tables.search import Encodings
from joker.tables.spread import Spread, spread_of
from joker.tables.table import MIN_LEFT, RawTable, as_batches, refuse_budget
from joker.tables.targets import as_fitted_on, as_inputs, labelled_inputs, shape_of
from joker.tables.trend import trend_inputs
from joker.tuning.halving import TimeBudget
from joker.tuning.processes import workers_for
from joker.tuning.trials import trials_on
from joker.tuning.tune import DEFAULT_KERNELS, least_budget

Array = NDArray[Any]
AUTO = "auto"
BATCH_ROWS = 2**16  # rows that are encoded and predicted at a time


@contextmanager
def _calm() -> Iterator[None]:
    """Compute on one thread for each operation, so that results do not depend on the number of threads.

    Tiles of rows still have a thread each. Held-out rows judge a fit that ends before its tolerance: it needs no
    warning.
    """
    with (
        one_thread(),
        ignoring("The number of unique classes"),  # of many classes, one at a time
        ignoring("Mean of empty slice"),  # a class that only held-out rows have
        ignoring(category=ConvergenceWarning),
    ):
        yield


def _of_rows(given: Any, kept: Array) -> Any:
    """Return the groups or times of the rows that have a target, or the name of a column."""
    if given is None or isinstance(given, str):
        return given
    values = np.asarray(given)
    return values[kept] if values.shape == kept.shape else values


@dataclass(kw_only=True, eq=False, repr=False)
class TableEstimator(CheckedParameters, TableView, BaseEstimator):
    """The parameters and the fit that the classifier and the regressor share."""

    columns: Mapping[str, str] | None = None
    effort: int = DEFAULT_EFFORT
    max_time: float | None = None
    cv: Any = None
    groups: Any = None
    time: Any = None
    scoring: Any = None
    n_features: int | str | None = AUTO
    device: str | torch.device | None = AUTO
    memory: int | str = AUTO
    n_jobs: int | None = None
    verbose: int = 0
    random_state: int | np.random.RandomState | None = None

    _task: ClassVar[str]
    _foreign = TABLE_PARAMETERS

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model with its encoding to one file, which `joker.load` reads.

        The file is safetensors with a JSON document and holds no code.
        """
        check_is_fitted(self, "_ensemble")
        save(self, path)

    def card(self, scores: Mapping[str, float] | None = None) -> str:
        """Return a model card in Markdown: the columns, the members, the settings, the scores and the environment.

        Parameters
        ----------
        scores : mapping from str to float, optional
            Scores of your own, such as ``{"score on new rows": 0.93}``, which the model card lists too.
        """
        check_is_fitted(self, "_ensemble")
        return model_card(self, scores)

    @property
    def ensemble(self) -> Ensemble:
        """The weighted mean of kernel models that makes the predictions."""
        check_is_fitted(self, "_ensemble")
        return self._ensemble

    @property
    def calibration(self) -> Calibration | None:
        """From decision values to probabilities; None for numbers."""
        check_is_fitted(self, "_ensemble")
        return self._calibration

    @property
    def residuals(self) -> Residuals:
        """The distribution of the errors on held-out rows."""
        check_is_fitted(self, "_ensemble")
        return self._residuals

    @property
    def spread(self) -> Spread | None:
        """The scale of the errors at a row, by which ``residuals`` are divided; None if it is 1 for all rows."""
        check_is_fitted(self, "_ensemble")
        return self._spread

    def restore(
        self,
        ensemble: Ensemble,
        calibration: Calibration | None,
        residuals: Residuals,
        spread: Spread | None = None,
    ) -> None:
        """Make a model from the parts of a fitted one, which a file contains."""
        self._ensemble, self._calibration, self._residuals, self._spread = ensemble, calibration, residuals, spread

    def plan(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, time: Any = None) -> SearchPlan:
        """Return the work of a fit without fitting: searches and fits in their order, with an estimate of seconds.

        ``print`` shows it as a table, with what the fit of one kernel model holds in memory. The columns are encoded
        for it.
        """
        with _calm():
            problem = self._problem(X, y, sample_weight, groups, time)
            encodings = Encodings(problem)
            memory = problem.estimator.plan(in_memory(encodings.x), problem.y)
            plan = plan_of(check_effort(self.effort), encodings, trend_inputs(problem) is not None)
            return replace(plan, memory=memory)

    @property
    def feature_importances_(self) -> Array:
        """The importance of each column of the table, of sum 1: the share in the loss when the column is shuffled.

        It is measured on held-out rows. Where the time limit ended the fit before that, or where no rows are held out,
        it is the share of the column in the squared correlations of the inputs with the target.
        """
        check_is_fitted(self, "_ensemble")
        return np.array([row["importance"] or 0.0 for row in self.columns_])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = False
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        *,
        groups: Any = None,
        time: Any = None,
    ) -> Self:
        """Fit a table: a frame of pandas, polars or pyarrow, an array, a list of dicts, a sparse matrix or a row store.

        Parameters
        ----------
        X : table
            Rows of any columns. Names of columns are used at prediction, in any order. The path of a file of delimited
            text, Parquet or Arrow is read whole.
        y : array of shape (n,), or str
            The class of each row, or the number to predict. Rows without one are left out, with a warning. A name is
            that of a column of X, which is then no input.
        sample_weight : array of shape (n,), optional
            The weight of each row in the fits, the choice of settings, the calibration and the scores.
        eval_set : None
            There is none: rows are held out by the fit. Use ``cv``, ``groups`` or ``time`` to say which.
        groups, time : str or array of shape (n,), optional
            These replace the parameters of the same names.
        """
        if eval_set is not None:
            raise InvalidParameter(
                f"{type(self).__name__} holds out rows of X itself, and takes no eval_set. Add these rows to X and y, "
                "and say which rows are held out with cv, groups or time."
            )
        clock = TimeBudget(self._limit())
        effort = check_effort(self.effort)
        problem = replace(self._problem(X, y, sample_weight, groups, time, reset=True), clock=clock)
        workers = workers_for(self.n_jobs, self.memory, problem.gpu)
        with _calm(), trials_on(workers), progress_of(self) as progress:
            fitted = self._fit_in_budget(problem, effort, progress)
            self._keep(fitted, problem)
        if self.optimism_ is not None:
            warnings.warn(f"{type(self).__name__}: {self.optimism_}", UserWarning, stacklevel=2)
        if self.stopped_by_time_:
            warnings.warn(
                f"max_time={clock.limit:g} ended the fit before the work of effort={effort} was done: the model is the "
                "best one so far, and another run may give another one. Use a longer time or a smaller effort.",
                UserWarning,
                stacklevel=2,
            )
        if self.verbose:
            print_summary(self)
        return self

    def _fit_in_budget(
        self, problem: TableProblem, effort: int, progress: Callable[[int, int, str], None]
    ) -> FittedEnsemble:
        """Fit the members; an error for a budget names one that is enough for all of them, on all rows."""
        try:
            return fit_table(problem, effort, progress)
        except BudgetTooSmall:
            budget, inputs = resolve.budget(self.memory), problem.inputs
            if budget is None or not isinstance(inputs, RawTable):
                raise
            x = in_memory(Encodings(problem).x)
            least = max(
                MIN_LEFT, *(least_budget(problem.estimator, x, problem.y, kernel) for kernel in DEFAULT_KERNELS)
            )
            refuse_budget(budget, inputs, x.shape[1], least)

    def _problem(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, time: Any, *, reset: bool = False
    ) -> TableProblem:
        """Check all that a fit is given."""
        inputs, codes, classes, kept = self._checked(X, y)
        if reset:
            self._check_width(inputs, reset=True)
            columns = inputs.columns if isinstance(inputs, RawTable) else ()
            check_processes(self, targets=codes, table={column.name: column.values for column in columns})
            self._name_target(y)
        seed = current().decide(int(check_random_state(self.random_state).randint(2**31 - 1)))
        weights = check_weights(sample_weight, len(kept))
        weights = None if weights is None else weights[kept]
        groups, time = (self.groups if groups is None else groups), (self.time if time is None else time)
        groups, time = (_of_rows(given, kept) for given in (groups, time))
        return TableProblem(
            inputs,
            codes,
            classes,
            self._estimator(),
            seed,
            scoring=self._checked_scoring(),
            columns=self.columns,
            sample_weight=weights,
            row_weights=self._row_weights(codes, weights),
            validation=validation_of(inputs, codes, classes, self.cv, groups, time),
            gpu=self._gpu(),
        )

    def _checked_scoring(self) -> Any:
        if self.scoring is not None:
            check_scorer(self, self.scoring)
        return self.scoring

    def _checked(self, X: Any, y: Any) -> tuple[Any, Array, int, Array]:
        """Return inputs, targets, the number of classes (0 for numbers) and the rows that have a target."""
        inputs, labels, kept = labelled_inputs(X, y, type(self).__name__, numbers=self._task == "regression")
        if isinstance(inputs, RawTable):
            inputs = parse_text(inputs, self.columns)
        return inputs, *self._encode_target(labels), kept

    def _encode_target(self, labels: Array) -> tuple[Array, int]:
        raise NotImplementedError

    def _estimator(self) -> Any:
        raise NotImplementedError

    def _row_weights(self, codes: Array, given: Array | None) -> Array | None:
        return given

    def _settings(self) -> dict[str, Any]:
        device = None if self._is_auto_device() else self.device
        return {"n_features": self.n_features, "device": device, "memory": self.memory}

    def _is_auto_device(self) -> bool:
        return isinstance(self.device, str) and self.device == AUTO

    def _gpu(self) -> Any:
        """The GPU of a fit on many rows. The search has few rows, for which a CPU needs no compiled kernels."""
        if self._is_auto_device():
            return "cuda" if gpus() else None
        return self.device if parse_device(self.device).type == "cuda" else None

    def _limit(self) -> float:
        """The seconds after which the fit ends with the best model so far."""
        if self.max_time is None:
            return math.inf
        if not isinstance(self.max_time, Real) or isinstance(self.max_time, bool) or not self.max_time >= 0:
            raise InvalidParameter(
                f"max_time must be a number of seconds of at least 0, or None; got {self.max_time!r}. Use 60, or "
                "effort for a smaller or larger search."
            )
        return float(self.max_time)

    def _check_width(self, inputs: Any, *, reset: bool) -> None:
        """Store or compare the number and the names of the columns."""
        width = shape_of(inputs)[1]
        if reset:
            self.n_features_in_ = width
            if isinstance(inputs, RawTable) and inputs.named:
                self.feature_names_in_ = np.array(inputs.names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        named = isinstance(inputs, RawTable) and inputs.named and hasattr(self, "feature_names_in_")
        if width != self.n_features_in_ and not named:
            raise InvalidData(
                f"X has {width} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input. Give the columns of the training table."
            )

    def _name_target(self, y: Any) -> None:
        """Store the name of the column of targets, if y is one."""
        if isinstance(y, str):
            self.target_name_ = y
        elif hasattr(self, "target_name_"):
            del self.target_name_

    def _keep(self, fitted: FittedEnsemble, problem: TableProblem) -> None:
        """Store what predictions and reports need."""
        errors = (make_residuals(fitted.residuals), None) if problem.classes else spread_of(fitted, problem)
        self.restore(fitted.ensemble, fitted.calibration, *errors)
        self.leaderboard_, self.plan_ = fitted.leaderboard, fitted.plan
        self.held_out_score_ = self._held_out_score(fitted, problem)
        self.held_out_error_ = held_out_error(fitted, problem, self._row_scores)
        self.held_out_losses_ = fitted.losses
        self.splits_ = str(problem.validation) if fitted.first_held.size else "no row is held out"
        self.members_ = [member_facts(member) for member in fitted.ensemble.members]
        self.columns_ = column_facts(fitted, problem, self._losses)
        best = fitted.ensemble.members[0]
        encoding, goal = fitted.ensemble.encodings[best.encoding], fitted.kept[0].goal
        trends = None if goal is None else goal.trends
        self.optimism_ = find_optimism(problem, encoding, best.model, best.target, trends)
        self.stopped_by_time_ = problem.clock.stopped
        self.seconds_ = problem.clock.spent

    def _held_out_score(self, fitted: FittedEnsemble, problem: TableProblem) -> float | None:
        raise NotImplementedError

    def _row_scores(self, fitted: FittedEnsemble, problem: TableProblem) -> Array:
        """The part of each held-out row in the score."""
        raise NotImplementedError

    def _losses(self, values: Array, y: Array) -> Array:
        """The loss of each row, for the importance of columns."""
        raise NotImplementedError

    def _values(self, X: Any) -> Array:  # (n, t)
        return self._of_batches(X, self.ensemble.values)

    def _of_batches(self, X: Any, compute: Callable[[Any], Array]) -> Array:
        """Return what a function computes of the checked inputs, some rows at a time."""
        check_is_fitted(self, "_ensemble")
        inputs = as_inputs(X)
        self._check_width(inputs, reset=False)
        if not shape_of(inputs)[0]:
            raise InvalidData(
                f"found array with 0 sample(s) (shape=(0, {self.n_features_in_})) while a minimum of 1 is required. "
                "Give at least one row."
            )
        inputs = as_fitted_on(inputs, as_table=self._ensemble.encodings[0] is not None)
        with one_thread():
            if not isinstance(inputs, RawTable):
                return compute(inputs)
            return np.concatenate([compute(batch) for batch in as_batches(inputs, BATCH_ROWS)])
