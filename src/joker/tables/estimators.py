"""`JokerClassifier` and `JokerRegressor`: scikit-learn estimators for mixed-type tables."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from joker.distributed import current
from joker.errors import InvalidData, InvalidParameter
from joker.estimators import KernelClassifier, KernelRegressor, KernelRidge
from joker.estimators.card import model_card
from joker.estimators.classification import check_class_weight, weigh
from joker.estimators.docstrings import documented_with
from joker.estimators.probabilities import Calibration
from joker.losses import Loss
from joker.models.files import save
from joker.planning import Plan
from joker.runtime import gpus, parse_device
from joker.tables.columns import DROP
from joker.tables.encoding import fit_encoding
from joker.tables.ensemble import MAX_ROWS, Ensemble, Residuals, TableView, column_importances, make_residuals
from joker.tables.parsing import parse_text
from joker.tables.plan import IMPORTANCE_SHARE, TableProblem
from joker.tables.refit import FittedEnsemble, fit_table
from joker.tables.search import decided_kinds
from joker.tables.table import RawTable, as_batches
from joker.tables.targets import as_fitted_on, as_inputs, class_codes, labelled_inputs, shape_of
from joker.tuning.halving import TimeBudget

Array = NDArray[Any]
AUTO = "auto"
BASE_SECONDS = 60.0  # the default of max_time: this, and SECONDS_PER_ROW for each row, at most MAX_SECONDS
SECONDS_PER_ROW = 1e-3
MAX_SECONDS = 600.0
BATCH_ROWS = 2**16  # rows that are encoded and predicted at a time


@dataclass(kw_only=True, eq=False, repr=False)
class TableEstimator(TableView, BaseEstimator):
    """The parameters and the fit that the classifier and the regressor share."""

    columns: Mapping[str, str] | None = None
    scoring: Any = None
    max_time: float | str = AUTO
    n_features: int | str | None = AUTO
    device: str | torch.device | None = AUTO
    memory: int | str = AUTO
    random_state: int | np.random.RandomState | None = None

    _task: ClassVar[str]

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

    def plan(self, X: Any, y: Any) -> Plan:
        """Return what the fit of one kernel model on the encoded table holds in memory, without fitting it."""
        inputs, codes, classes = self._checked(X, y)
        estimator = self._estimator()
        if not isinstance(inputs, RawTable):
            return estimator.plan(inputs, codes)  # type: ignore[no-any-return]
        problem = TableProblem(
            inputs, codes, classes, estimator, TimeBudget(self._limit(X)), seed=0, columns=self.columns
        )
        _, x = fit_encoding(inputs, codes, classes, kinds=decided_kinds(problem))
        return estimator.plan(x, codes)  # type: ignore[no-any-return]

    @property
    def feature_importances_(self) -> Array:
        """The importance of each column of the table, of sum 1: the share in the loss when the column is shuffled.

        It is measured on held-out rows, or is NaN where the time limit ended the fit before that.
        """
        check_is_fitted(self, "_ensemble")
        return np.array([np.nan if row["importance"] is None else row["importance"] for row in self.columns_])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = False
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a table: a frame of pandas, polars or pyarrow, an array, a list of dicts, a sparse matrix or a row store.

        Parameters
        ----------
        X : table
            Rows of any columns. Names of columns are used at prediction, in any order.
        y : array of shape (n,)
            The class of each row, or the number to predict. Rows without one are left out, with a warning.
        """
        clock = TimeBudget(self._limit(X))
        inputs, codes, classes = self._checked(X, y)
        self._check_width(inputs, reset=True)
        seed = current().decide(int(check_random_state(self.random_state).randint(2**31 - 1)))
        settings = self.scoring, self.columns, self._row_weights(codes), self._gpu()
        problem = TableProblem(inputs, codes, classes, self._estimator(), clock, seed, *settings)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes")  # of many classes, one at a time
            warnings.filterwarnings("ignore", "Mean of empty slice")  # a class that only held-out rows have
            warnings.simplefilter("ignore", ConvergenceWarning)  # held-out rows judge a fit that ends by its time limit
            fitted = fit_table(problem)
        self._keep(fitted, problem)
        return self

    def _checked(self, X: Any, y: Any) -> tuple[Any, Array, int]:
        """Return inputs, targets and the number of classes (0 for numbers), without rows that have no target."""
        inputs, labels = labelled_inputs(X, y, type(self).__name__, numbers=self._task == "regression")
        if isinstance(inputs, RawTable):
            inputs = parse_text(inputs, self.columns)
        return inputs, *self._encode_target(labels)

    def _encode_target(self, labels: Array) -> tuple[Array, int]:
        raise NotImplementedError

    def _estimator(self) -> Any:
        raise NotImplementedError

    def _row_weights(self, codes: Array) -> Array | None:
        return None

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

    def _limit(self, X: Any) -> float:
        """The seconds that the fit may take."""
        if isinstance(self.max_time, str) and self.max_time == AUTO:
            rows = X.shape[0] if hasattr(X, "shape") else len(X)
            return min(BASE_SECONDS + SECONDS_PER_ROW * rows, MAX_SECONDS)
        if not isinstance(self.max_time, Real) or isinstance(self.max_time, bool) or not self.max_time >= 0:
            raise InvalidParameter(
                f"max_time must be a number of seconds of at least 0, or 'auto'; got {self.max_time!r}. Use 60."
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

    def _keep(self, fitted: FittedEnsemble, problem: TableProblem) -> None:
        """Store what predictions and reports need."""
        self.restore(fitted.ensemble, fitted.calibration, make_residuals(fitted.residuals))
        self.leaderboard_ = fitted.leaderboard
        self.held_out_score_ = self._held_out_score(fitted, problem)
        self.members_ = [_member_facts(member) for member in fitted.ensemble.members]
        self.columns_ = self._column_facts(fitted, problem)

    def _held_out_score(self, fitted: FittedEnsemble, problem: TableProblem) -> float | None:
        raise NotImplementedError

    def _losses(self, values: Array, y: Array) -> Array:
        """The loss of each row, for the importance of columns."""
        raise NotImplementedError

    def _column_facts(self, fitted: FittedEnsemble, problem: TableProblem) -> list[dict[str, Any]]:
        encoding = fitted.ensemble.encodings[0]
        if encoding is None:
            return []
        kinds = encoding.kinds
        used = [kind.name for kind in kinds if kind.kind != DROP]
        importances = None
        if fitted.held_ensemble is not None:
            rows = fitted.first_held[:: max(1, len(fitted.first_held) // MAX_ROWS)][:MAX_ROWS]
            ensemble, y = fitted.held_ensemble, problem.y[rows]
            importances = column_importances(
                problem.inputs.some(rows),
                used,
                lambda table: self._losses(ensemble.values(table), y),
                problem.seed,
                problem.clock.after(IMPORTANCE_SHARE),
            )
        return encoding.facts(None if importances is None else importances.tolist())

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
        if not isinstance(inputs, RawTable):
            return self._ensemble.values(inputs)
        return np.concatenate([self._ensemble.values(batch) for batch in as_batches(inputs, BATCH_ROWS)])


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
max_time : float or "auto"
    Seconds that the fit may take, approximately. ``"auto"`` is 60 s and a further millisecond for each row, at most
    600 s.
n_features : int, None or "auto"
    The number of random features of each kernel model: see `KernelRidge`. ``"auto"`` is the exact kernel, and 4,000
    features (60,000 on a GPU) where more than 50,000 rows are fitted.
device : str, torch.device or "auto"
    Where to compute. ``"auto"`` is the CPU for the search, and a CUDA GPU, if there is one, for a fit on many rows.
memory : int, str or "auto"
    The memory that the fit may take in addition to X and y, such as ``"500MB"``. One member is then fitted,
    without ARD. ``"auto"`` limits only the temporary memory of each kernel model.
random_state : int, RandomState or None
    The seed of samples, folds and features. A fit that ends by its time limit may not be repeatable.
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
    >>> model = joker.JokerClassifier(max_time=5, random_state=0).fit(rows, y)
    >>> model.predict([{"size": 9, "colour": "green"}, {"size": 1, "colour": "red"}])
    array(['large', 'small'], dtype='<U5')
    """

    class_weight: Mapping[Any, float] | str | None = None

    _task: ClassVar[str] = "classification"

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

    def _row_weights(self, codes: Array) -> Array | None:
        return weigh(self._code_weights(), np.arange(len(self.classes_)), codes, None)

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
        p = fitted.calibration.probabilities(fitted.held_predictions)
        return float(accuracy_score(problem.y[fitted.held_rows], p.argmax(axis=1)))

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
    >>> model = joker.JokerRegressor(max_time=5, random_state=0).fit(rows, y)
    >>> bool(abs(model.predict([{"size": 10, "colour": "red"}])[0] - 21) < 1)
    True
    """

    loss: str | Loss = AUTO

    _task: ClassVar[str] = "regression"

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
        return float(r2_score(problem.y[fitted.held_rows], fitted.held_predictions[:, 0]))

    def _losses(self, values: Array, y: Array) -> Array:
        return (values[:, 0] - y) ** 2
