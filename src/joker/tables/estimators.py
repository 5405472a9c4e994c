"""`JokerClassifier` and `JokerRegressor`: scikit-learn estimators for mixed-type tables."""

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
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from joker.distributed import current
from joker.errors import BudgetTooSmall, InvalidData, InvalidParameter
from joker.estimators import KernelClassifier, KernelRegressor, KernelRidge, resolve
from joker.estimators.card import model_card
from joker.estimators.classification import check_class_weight, weigh
from joker.estimators.docstrings import documented_with
from joker.estimators.estimator import CheckedParameters
from joker.estimators.foreign_names import TABLE_PARAMETERS
from joker.estimators.inputs import check_weights
from joker.estimators.model import check_processes
from joker.estimators.probabilities import Calibration
from joker.estimators.scoring import check_scorer
from joker.losses import Loss
from joker.models.files import save
from joker.runtime import gpus, parse_device
from joker.runtime.devices import one_thread
from joker.runtime.warning_filters import ignoring
from joker.tables.columns import DROP
from joker.tables.ensemble import Ensemble, Residuals, make_residuals
from joker.tables.optimism import find_optimism
from joker.tables.parsing import parse_text
from joker.tables.plan import DEFAULT_EFFORT, SearchPlan, check_effort
from joker.tables.problem import TableProblem, validation_of
from joker.tables.refit import FittedEnsemble, fit_table, plan_of
from joker.tables.report import MAX_ROWS, TableView, column_associations, column_importances, print_summary, progress_of
from joker.tables.search import Encodings
from joker.tables.table import MIN_LEFT, RawTable, as_batches, refuse_budget
from joker.tables.targets import as_fitted_on, as_inputs, class_codes, labelled_inputs, shape_of, with_target
from joker.tuning.halving import TimeBudget
from joker.tuning.tune import DEFAULT_KERNELS

Array = NDArray[Any]
AUTO = "auto"
BATCH_ROWS = 2**16  # rows that are encoded and predicted at a time
MOST_LAMBDAS = 5  # of a trial, at most


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

    def restore(self, ensemble: Ensemble, calibration: Calibration | None, residuals: Residuals) -> None:
        """Make a model from the parts of a fitted one, which a file contains."""
        self._ensemble, self._calibration, self._residuals = ensemble, calibration, residuals

    def plan(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, time: Any = None) -> SearchPlan:
        """Return the work of a fit without fitting: searches and fits in their order, with an estimate of seconds.

        ``print`` shows it as a table, with what the fit of one kernel model holds in memory. The columns are encoded
        for it.
        """
        with _calm():
            problem = self._problem(X, y, sample_weight, groups, time)
            encodings = Encodings(problem)
            memory = problem.estimator.plan(encodings.x, problem.y)
            return replace(plan_of(check_effort(self.effort), encodings), memory=memory)

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
        with _calm(), progress_of(self) as progress:
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
            x = Encodings(problem).x
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
        self.restore(fitted.ensemble, fitted.calibration, make_residuals(fitted.residuals))
        self.leaderboard_, self.plan_ = fitted.leaderboard, fitted.plan
        self.held_out_score_ = self._held_out_score(fitted, problem)
        self.held_out_error_ = self._standard_error(fitted, problem)
        self.held_out_losses_ = fitted.losses
        self.splits_ = str(problem.validation) if fitted.first_held.size else "no row is held out"
        self.members_ = [_member_facts(member) for member in fitted.ensemble.members]
        self.columns_ = self._column_facts(fitted, problem)
        best = fitted.ensemble.members[0]
        self.optimism_ = find_optimism(problem, fitted.ensemble.encodings[best.encoding], best.model, best.target)
        self.stopped_by_time_ = problem.clock.stopped
        self.seconds_ = problem.clock.spent

    def _held_out_score(self, fitted: FittedEnsemble, problem: TableProblem) -> float | None:
        raise NotImplementedError

    def _row_scores(self, fitted: FittedEnsemble, problem: TableProblem) -> Array:
        """The part of each held-out row in the score."""
        raise NotImplementedError

    def _standard_error(self, fitted: FittedEnsemble, problem: TableProblem) -> float | None:
        """The standard error of the held-out score; rows of a group, or of a time, count as one."""
        if len(fitted.held_rows) < 2:
            return None
        scores, groups = self._row_scores(fitted, problem), problem.validation.blocks()
        if groups is None:
            return float(scores.std(ddof=1) / len(scores) ** 0.5)
        _, of_row = np.unique(groups[fitted.held_rows], return_inverse=True)
        sums = np.bincount(of_row.ravel(), weights=scores - scores.mean())
        return float(np.sqrt(np.sum(sums**2)) / len(scores))

    def _losses(self, values: Array, y: Array) -> Array:
        """The loss of each row, for the importance of columns."""
        raise NotImplementedError

    def _column_facts(self, fitted: FittedEnsemble, problem: TableProblem) -> list[dict[str, Any]]:
        encoding = fitted.ensemble.encodings[0]
        if encoding is None:
            return []
        used = [kind.name for kind in encoding.kinds if kind.kind != DROP]
        associations = column_associations(encoding, problem.inputs, problem.y, problem.classes)
        importances = None
        if fitted.held_ensemble is not None:
            ensemble, held = fitted.held_ensemble, fitted.first_held
            rows = held[:: max(1, len(held) // MAX_ROWS)][:MAX_ROWS]
            importances = column_importances(
                problem.inputs.some(rows),
                used,
                lambda table, some: self._losses(ensemble.values(table), problem.y[rows[some]]),
                associations,
                ensemble.entries_of_row,
                problem.seed,
                problem.clock.is_over,
            )
        return encoding.facts((associations if importances is None else importances).tolist())

    def _values(self, X: Any) -> Array:  # (n, t)
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
                return self._ensemble.values(inputs)
            return np.concatenate([self._ensemble.values(batch) for batch in as_batches(inputs, BATCH_ROWS)])


def least_budget(estimator: Any, x: Array, y: Array, kernel: str) -> int:
    """Return the bytes that are enough for each fit of a search with a kernel on some of the rows, or all."""
    model = clone(estimator).set_params(kernel=kernel, lam=[1.0] * MOST_LAMBDAS, memory=1)
    try:
        model.plan(x, y)
    except BudgetTooSmall as error:
        return error.least or 0
    return 0


def _member_facts(member: Any) -> dict[str, Any]:
    model = member.model
    return {
        "weight": member.weight,
        "encoding": member.encoding,
        "kernel": str(model.kernel),
        "lam": model.lam_,
        "bandwidth": float(np.min(model.bandwidth_)),
        "gap": model.gap_,
        **({"target": member.target.form} if member.target is not None else {}),
    }


PARAMETERS = """
columns : mapping from str to str, or None
    The kinds of some columns, in place of the decision of the fit: ``"number"``, ``"category"``, ``"group"``,
    ``"date"`` or ``"drop"``.
scoring : str, callable or None
    The scorer of scikit-learn that `joker.tune` chooses settings by; by default the loss decides.
effort : int
    How much is searched, from 1 to 5. ``print(model.plan(X, y))`` shows the work, with an estimate of seconds. The same
    data, seed and effort give the same model.
max_time : float or None
    Seconds after which the fit ends with the best model so far, with a warning: a brake. What is searched does not
    depend on the clock.
cv : int, splitter or iterable, optional
    The splits whose held-out rows judge the models, as in scikit-learn. By default rows are held out at random.
groups : str or array of shape (n,), optional
    A column, or the group of each row, such as a person. Whole groups are held out, so that scores and intervals are
    those of new groups; a column that is named is not an input.
time : str or array of shape (n,), optional
    A column of dates or numbers, or the time of each row. The latest fifth of the rows is held out.
n_features : int, None or "auto"
    The number of random features of each kernel model: see `KernelRidge`. ``"auto"`` is the exact kernel, and 4,000
    features (60,000 on a GPU) where more than 50,000 rows are fitted.
device : str, torch.device or "auto"
    Where to compute. ``"auto"`` is the CPU for the search, and a CUDA GPU, if there is one, for a fit on many rows.
memory : int, str or "auto"
    The memory that the fit may take in addition to X and y, such as ``"500MB"``. One member is then fitted,
    without ARD. ``"auto"`` limits only the temporary memory of each kernel model.
random_state : int, RandomState or None
    The seed of samples, folds and features. A fit that is ended by ``max_time`` may not be repeatable.
verbose : int
    1 shows the step of the plan while the model is fitted, and a summary at the end.
"""
ATTRIBUTES = """
columns_ : list of dict
    What was decided for each column: ``name``, ``kind``, ``encoding``, ``width`` (its number of inputs) and
    ``importance``. ``pandas.DataFrame(model.columns_)`` shows it as a table.
members_ : list of dict
    The kernel models whose weighted mean predicts.
leaderboard_ : list of dict
    Every trial of the search.
feature_importances_ : ndarray of shape (columns,)
    The importance of each column, of sum 1.
plan_ : SearchPlan
    The work that was planned.
splits_ : str
    Which rows were held out.
held_out_error_ : float or None
    The standard error of ``held_out_score_``; the rows of a group count as one.
held_out_losses_ : dict
    The loss of held-out rows after the steps of each effort: it never increases.
optimism_ : object or None
    A column of groups or times under whose split the score is clearly lower; it is warned of.
stopped_by_time_ : bool
    Whether ``max_time`` has ended the fit.
seconds_ : float
    The time of the fit.
"""
documented = documented_with({"parameters": PARAMETERS, "attributes": ATTRIBUTES})


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class JokerClassifier(ClassifierMixin, TableEstimator):
    """Classification of tabular data of mixed types, with words, categories, dates and missing values.

    Columns are encoded by their kind, `joker.tune` searches kernels, bandwidths and λ on several encodings, and the
    weighted mean of the best models is calibrated on held-out rows. See docs/tables.md.

    Parameters
    ----------
    %(parameters)s
    class_weight : mapping, "balanced" or None
        A factor for the weight of each class, as in `KernelClassifier`.

    Attributes
    ----------
    %(attributes)s
    held_out_score_ : float or None
        The accuracy of the weighted mean on rows that its members were not trained on.
    classes_ : ndarray
        The classes, sorted.

    Examples
    --------
    >>> import joker
    >>> rows = [{"size": s, "colour": c} for s in range(10) for c in ("red", "blue", None)]
    >>> y = ["large" if row["size"] > 4 else "small" for row in rows]
    >>> model = joker.JokerClassifier(effort=1, random_state=0).fit(rows, y)
    >>> model.predict([{"size": 9, "colour": "green"}, {"size": 1, "colour": "red"}])
    array(['large', 'small'], dtype='<U5')
    """

    class_weight: Mapping[Any, float] | str | None = None

    _task: ClassVar[str] = "classification"

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on rows; y may be the name of a column of X, as in `fit`."""
        X, y = with_target(X, y, numbers=False)
        return float(super().score(X, y, sample_weight))

    def decision_function(self, X: Any) -> Array:
        """Return the mean decision value: of shape (n,) for two classes, else of shape (n, classes)."""
        check_is_fitted(self, "_ensemble")
        f = self._values(X)
        return (f[:, 1] - f[:, 0]) / 2 if len(self.classes_) == 2 else f

    def predict_proba(self, X: Any) -> Array:  # (n, classes)
        """Return the probability of each class, calibrated on held-out rows."""
        values = self._values(X)
        assert self._calibration is not None
        return self._calibration.probabilities(values)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each row."""
        check_is_fitted(self, "_ensemble")
        found: Array = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found

    def _encode_target(self, labels: Array) -> tuple[Array, int]:
        self.classes_, codes = class_codes(labels)
        return codes, len(self.classes_)

    def _row_weights(self, codes: Array, given: Array | None) -> Array | None:
        return weigh(self._code_weights(), np.arange(len(self.classes_)), codes, given)

    def _estimator(self) -> Any:
        return KernelClassifier(class_weight=self._code_weights(), standardize=False, **self._settings())

    def _code_weights(self) -> Any:
        """The weights of classes, by their codes."""
        check_class_weight(self.class_weight)
        weights: Any = self.class_weight
        if isinstance(weights, Mapping):
            places = {label: code for code, label in enumerate(self.classes_.tolist())}
            if unknown := sorted(set(weights) - set(places), key=str):
                raise InvalidParameter(
                    f"class_weight must name classes of y; got {unknown[0]!r}, and the classes are "
                    f"{self.classes_.tolist()}. Leave it out."
                )
            weights = {places[label]: weight for label, weight in weights.items()}
        return weights

    def _held_out_score(self, fitted: FittedEnsemble, problem: TableProblem) -> float | None:
        if not len(fitted.held_rows):
            return None
        assert fitted.calibration is not None
        return float(np.average(self._row_scores(fitted, problem), weights=problem.given_weights(fitted.held_rows)))

    def _row_scores(self, fitted: FittedEnsemble, problem: TableProblem) -> Array:
        assert fitted.calibration is not None
        p = fitted.calibration.probabilities(fitted.held_predictions)
        return np.asarray(problem.y[fitted.held_rows] == p.argmax(axis=1), dtype=np.float64)

    def _losses(self, values: Array, y: Array) -> Array:
        assert self._calibration is not None
        p = self._calibration.probabilities(values)
        return -np.log(np.maximum(p[np.arange(len(p)), y], 1e-15))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class JokerRegressor(RegressorMixin, TableEstimator):
    """Regression on tabular data of mixed types, with words, categories, dates and missing values.

    Columns are encoded by their kind, the target is scaled (and its logarithm or cube root is tried if it is
    heavy-tailed), `joker.tune` searches kernels, bandwidths and λ on several encodings, and the weighted mean of the
    best models predicts. See docs/tables.md.

    Parameters
    ----------
    %(parameters)s
    loss : str or Loss
        The loss, in units of the scaled target: see `KernelRegressor`. ``"auto"`` is the squared loss.

    Attributes
    ----------
    %(attributes)s
    held_out_score_ : float or None
        The R² of the weighted mean on rows that its members were not trained on.

    Examples
    --------
    >>> import joker
    >>> rows = [{"size": s, "colour": c} for s in range(20) for c in ("red", "blue")]
    >>> y = [2.0 * row["size"] + (row["colour"] == "red") for row in rows]
    >>> model = joker.JokerRegressor(effort=1, random_state=0).fit(rows, y)
    >>> bool(abs(model.predict([{"size": 10, "colour": "red"}])[0] - 21) < 1)
    True
    """

    loss: str | Loss = AUTO

    _task: ClassVar[str] = "regression"

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R² on rows; y may be the name of a column of X, as in `fit`."""
        X, y = with_target(X, y, numbers=True)
        return float(super().score(X, y, sample_weight))

    def predict(self, X: Any) -> Array:
        """Return the predicted number of each row."""
        return self._values(X)[:, 0]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:  # (n, 2)
        """Return the lower and the upper limit of an interval that covers the truth of new rows with this share.

        The limits are quantiles of the errors on held-out rows (split conformal prediction): the share holds on average
        over rows like those of the fit.
        """
        check_is_fitted(self, "_ensemble")
        low, high = self._residuals.limits(coverage)
        f = self.predict(X)
        return np.column_stack([f + low, f + high])

    def _encode_target(self, labels: Array) -> tuple[Array, int]:
        try:
            numbers = labels.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidData(
                "y must be numbers for regression; it has values that are not. Use JokerClassifier for classes."
            ) from error
        return numbers, 0

    def _estimator(self) -> Any:
        if isinstance(self.loss, str) and self.loss == AUTO:
            return KernelRidge(standardize=False, **self._settings())
        return KernelRegressor(loss=self.loss, standardize=False, **self._settings())

    def _held_out_score(self, fitted: FittedEnsemble, problem: TableProblem) -> float | None:
        if len(fitted.held_rows) < 2:
            return None
        rows = fitted.held_rows
        weights = problem.given_weights(rows)
        return float(r2_score(problem.y[rows], fitted.held_predictions[:, 0], sample_weight=weights))

    def _row_scores(self, fitted: FittedEnsemble, problem: TableProblem) -> Array:
        y = problem.y[fitted.held_rows]
        return np.asarray(1 - (y - fitted.held_predictions[:, 0]) ** 2 / (y.var() or 1.0))

    def _losses(self, values: Array, y: Array) -> Array:
        return (values[:, 0] - y) ** 2
