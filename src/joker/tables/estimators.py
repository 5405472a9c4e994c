"""`JokerClassifier` and `JokerRegressor`: scikit-learn estimators for mixed-type tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from joker.errors import InvalidData, InvalidParameter
from joker.estimators import KernelClassifier, KernelRegressor, KernelRidge
from joker.estimators.classification import check_class_weight, weigh
from joker.estimators.docstrings import documented_with
from joker.estimators.scoring import unit_of_squares
from joker.losses import Loss
from joker.tables.candidates import FittedEnsemble
from joker.tables.estimator import AUTO, TableEstimator
from joker.tables.problem import TableProblem
from joker.tables.targets import class_codes, with_target

Array = NDArray[Any]
PARAMETERS = """
columns : mapping from str to str, or None
    The kinds of some columns, in place of the decision of the fit: ``"number"``, ``"category"``, ``"group"``,
    ``"date"``, ``"text"`` or ``"drop"``.
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
n_jobs : int or None
    The processes that fit trials, folds and members side by side: see `joker.tune`. The model is the same, bit for bit.
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
        The loss, in units of the scaled target: see `KernelRegressor`. ``"auto"`` is the squared loss. With
        ``"poisson"``, ``"gamma"`` or ``"tweedie"`` held-out rows judge by the deviance.

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
        unit = unit_of_squares(y)
        if unit != 1:
            return float(r2_score(y / unit, self.predict(X) / unit, sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    def predict(self, X: Any) -> Array:
        """Return the predicted number of each row."""
        return self._values(X)[:, 0]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:  # (n, 2)
        """Return the lower and the upper limit of an interval that covers the truth of new rows with this share.

        The limits are quantiles of the errors on held-out rows (split conformal prediction): the share holds on average
        over rows like those of the fit. Where errors of held-out rows depend on the inputs or on the prediction, they
        are divided by their scale at each row, and the width follows that scale.
        """
        check_is_fitted(self, "_ensemble")
        return self._with_errors(X, self._residuals.levels(coverage))

    def predict_quantiles(self, X: Any, quantiles: float | Sequence[float] = (0.1, 0.5, 0.9)) -> Array:  # (n, levels)
        """Return the numbers below which the truth of new rows is with these shares, a column for each.

        They are made as the limits of `predict_interval`: the interval of a coverage of 0.9 is between the quantiles of
        0.05 and 0.95. A higher quantile is never below a lower one.
        """
        check_is_fitted(self, "_ensemble")
        try:
            levels = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        except (TypeError, ValueError):
            levels = np.zeros(0)
        if levels.ndim != 1 or not levels.size or not ((levels > 0) & (levels < 1)).all():
            raise InvalidParameter(
                f"quantiles must be a number, or several, between 0 and 1, both excluded; got {quantiles!r}. "
                "Use (0.1, 0.5, 0.9)."
            )
        return self._with_errors(X, levels)

    def _with_errors(self, X: Any, levels: Array) -> Array:  # (n, k)
        """Return the predictions plus the quantiles of the errors at each row."""
        errors = self._residuals.quantiles(levels)

        def shifted(inputs: Any) -> Array:
            f = self._ensemble.values(inputs)[:, 0]
            if self._spread is None:
                return f[:, None] + errors
            encoding = self._ensemble.encodings[self._spread.encoding]
            x = inputs if encoding is None else encoding.transform(inputs)
            return f[:, None] + self._spread.quantiles(x, f, levels)

        return self._of_batches(X, shifted)

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
