"""Classifiers: any loss of the margin, one-vs-rest in one pass, or a loss of all classes together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MethodType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from joker import losses
from joker.data import Labels, Store, StoreRows
from joker.data.arrays import as_array, copied_bytes, device_of
from joker.errors import InvalidData, InvalidParameter, UnknownName
from joker.estimators import resolve
from joker.estimators.docstrings import documented
from joker.estimators.estimator import KernelEstimator
from joker.estimators.inputs import LabelledRows, TrainingSet, check_weights, classes_of, is_stored, labels_of_column
from joker.estimators.nu import check_feasible, check_with_nu, result_of
from joker.estimators.probabilities import (
    PROBABILITY_ENTRIES,
    Calibration,
    choose_slopes,
    fit_calibration,
    normalised_sigmoids,
    softmax,
    two_classes,
)
from joker.estimators.resolve import Request, get_loss
from joker.estimators.scoring import HeldOutScorer
from joker.losses import Loss, RowLoss
from joker.prepare import Training
from joker.runtime import chunks
from joker.solvers.nu import NuHinge, solve

ClassWeight = Mapping[Any, float] | str | None


class _WithProbabilities:
    """A method that exists with a logistic loss, or after a calibration; else its absence is explained."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: BaseClassifier | None, owner: type) -> Callable[..., Any]:
        if model is None:
            return self.method
        if not (model._loss().sigmoid or model.calibrate):
            raise AttributeError(
                f"predict_proba needs the logistic loss or the softmax; {owner.__name__} has another loss. Use "
                "calibrate=True, which chooses probabilities on held-out rows, or KernelLogistic."
            )
        return MethodType(self.method, model)


@dataclass(kw_only=True, eq=False, repr=False)
class BaseClassifier(ClassifierMixin, KernelEstimator):
    """The fit and the predictions of every classifier."""

    class_weight: ClassWeight = None
    calibrate: bool = False

    _slope: float | None = field(default=1.0, init=False)  # of the softmax; None in files of earlier versions
    _offsets: NDArray[Any] | None = field(default=None, init=False)  # of the softmax, after a calibration
    _task, _other_estimator, _targets_of = "classification", "KernelRegressor", staticmethod(classes_of)

    def _resolve(self) -> Request:
        check_class_weight(self.class_weight)
        resolve.flag("calibrate", self.calibrate)
        return super()._resolve()

    def _fit(self, request: Request, train: LabelledRows, held: LabelledRows | None, *, hold_out: bool) -> Self:
        X, y, sample_weight = train
        device = device_of(X, self.device)
        x, y = self._check_labelled(X, y)
        codes = self._learn_classes(y)
        w = weigh(self.class_weight, self.classes_, codes, check_weights(sample_weight, len(y)))
        scored = None
        if held is not None:
            Xv, yv = self._check_labelled(*held[:2], reset=False)
            scored = TrainingSet(Xv, self._signs(self._codes(yv)), check_weights(held[2], len(yv)))
        sample = TrainingSet(x, self._signs(codes), w, copied_bytes(X, x), label_bytes=self.classes_.itemsize)
        self._slope, self._offsets = 1.0, None
        request = replace(request, loss=self._loss_of_data(request.loss))
        self._solve(request, sample, scored, codes, device, hold_out=hold_out)
        if len(self.classes_) > 2 and request.loss.sigmoid and self._offsets is None:
            self._choose_slope(sample)
        self._remember(X)
        return self

    def _loss_of_data(self, loss: Loss) -> Loss:
        if not isinstance(loss, RowLoss):
            return loss
        k = len(getattr(self, "classes_", ())) or loss.classes
        return self._loss_of_two_classes(loss) if k == 2 else replace(loss, classes=k)

    def _loss_of_two_classes(self, loss: RowLoss) -> Loss:
        """Return the loss of the margin that takes the place of a loss of several classes."""
        return loss.two_classes

    def _check_labelled(self, X: Any, y: Any, **checks: Any) -> tuple[Any, Any]:
        """Check rows and their labels, which stay in a data frame if they are there."""
        labels = labels_of_column(y)
        if labels is None or is_stored(X):
            checked: tuple[Any, Any] = self._check_rows(X, check_labels(y), **checks)
            return checked
        x = self._check_rows(X, **checks)
        check_consistent_length(x, labels)
        return x, labels

    def _holds_out(self, request: Request) -> bool:
        return self.calibrate or super()._holds_out(request)

    def _check_held_out(self, sample: TrainingSet, strata: NDArray[Any] | None, share: float) -> None:
        """Refuse classes that the training rows and the held-out rows cannot both have."""
        # Only a calibration needs them. A store holds out its last rows, whatever their class.
        if not self.calibrate or strata is None or isinstance(sample.x, StoreRows):
            return
        remedy = "Give fit an eval_set, or leave out such rows."
        rows = np.bincount(strata, minlength=len(self.classes_))
        if rows.min() < 2:
            raise InvalidData(
                "every class must have at least two rows where rows are held out for calibrate=True; class "
                f"{self.classes_[rows.argmin()]!s} has one. {remedy}"
            )
        if (held := math.ceil(share * len(strata))) < len(self.classes_):
            raise InvalidData(
                f"the rows held out must be at least as many as the {len(self.classes_)} classes; they are {held}. "
                "Use a larger validation_fraction, or give fit an eval_set."
            )

    def _use_held_out(self, held: TrainingSet) -> None:
        """Calibrate the probabilities, of every model of a path, on held-out rows of positive weight."""
        if not self.calibrate:
            return
        held = held.of_positive_weight()
        most = max(1, PROBABILITY_ENTRIES // len(self.classes_))
        held = held if len(held.y) <= most else held.take(np.arange(most) * len(held.y) // most)
        codes = held.y.argmax(axis=1) if held.y.shape[1] > 1 else (held.y[:, 0] > 0).astype(np.intp)
        path = getattr(self, "path_", None)
        for model in (self,) if path is None else path.models:
            f = model._evaluate(model._machine, held.x).double().cpu().numpy()
            found = fit_calibration(_a_column_for_each_class(f), codes, held.w, wrong_rows=1.0)
            model._slope, model._offsets = found.slope, found.offsets
        if path is not None:
            self._slope, self._offsets = path.models[path.best]._slope, path.models[path.best]._offsets

    def _choose_slope(self, sample: TrainingSet) -> None:
        """Choose the slope of the probabilities, of every model of a path."""
        path = getattr(self, "path_", None)
        choose_slopes((self,) if path is None else path.models, sample)
        if path is not None:
            self._slope = path.models[path.best]._slope

    def _learn_classes(self, y: NDArray[Any] | Labels) -> NDArray[Any]:  # (n,)
        """Store the classes; return the index of the class of each row."""
        if isinstance(y, Labels):
            self.classes_ = y.classes
        else:
            check_classification_targets(y)
            self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise InvalidData(
                f"y must have at least two classes; got one class, {self.classes_.tolist()[0]!r}. Add rows."
            )
        return y.codes if isinstance(y, Labels) else codes_of(y, self.classes_)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy on rows; y may be omitted where X is a row store."""
        return float(super().score(X, X.y if y is None and isinstance(X, Store) else y, sample_weight))

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return f: of shape (n,) for two classes, positive for the second, else of shape (n, classes)."""
        f = self._decide(X)
        return f[:, 0] if len(self.classes_) == 2 else f

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X: the one with the largest decision function."""
        return self._results(X, self._classes_of)

    @_WithProbabilities
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of each class: the sigmoid of f, or for more than two classes a softmax.

        The softmax is that of f times a slope, which is chosen on training rows by an approximate leave-one-out
        estimate, because λ makes f too small for it. With ``calibrate=True`` the slope, and an offset for each class,
        are those with the smallest log loss on held-out rows.
        """
        return self._results(X, self._probabilities)

    def _signs(self, codes: NDArray[Any]) -> NDArray[np.int8]:  # (n, t)
        """Return 1 for the class of a column and −1 for the others."""
        classes = np.arange(len(self.classes_))
        columns = classes[1:] if len(classes) == 2 else classes
        return np.where(codes[:, None] == columns, np.int8(1), np.int8(-1))

    def _sample(self, X: Any, y: NDArray[Any], w: NDArray[np.float64] | None) -> TrainingSet:
        codes = self._codes(y)
        return TrainingSet(X, self._signs(codes), weigh(self.class_weight, self.classes_, codes, w))

    def _blank_targets(self, y: Any, device: torch.device) -> tuple[NDArray[Any], int]:
        labels = labels_of_column(y)
        classes = np.zeros(2) if y is None else np.unique(np.asarray(as_array(y))) if labels is None else labels.classes
        return np.ones((1, 1 if len(classes) <= 2 else len(classes)), dtype=np.int8), classes.itemsize

    def _decoded(self, y: NDArray[Any]) -> NDArray[Any]:
        return self._classes_of(y)  # the sign of its class is the largest of a row

    def _classes_of(self, f: NDArray[Any]) -> NDArray[Any]:  # (n, t)
        codes = (f[:, 0] > 0).astype(np.intp) if len(self.classes_) == 2 else f.argmax(axis=1)
        classes: NDArray[Any] = self.classes_[codes]
        return classes

    def _probabilities(self, f: NDArray[Any]) -> NDArray[Any]:  # (n, t) -> (n, classes)
        if self._offsets is not None and self._slope is not None:
            p = Calibration(self._slope, self._offsets).probabilities(_a_column_for_each_class(f))
            return p.astype(f.dtype)
        if f.shape[1] == 1:
            return two_classes(f)
        return normalised_sigmoids(f) if self._slope is None else softmax(f, self._slope)

    def _codes(self, y: NDArray[Any] | Labels) -> NDArray[Any]:
        if isinstance(y, Labels):
            codes: NDArray[Any] = self._codes(y.classes)[y.codes]
            return codes
        if len(unknown := np.setdiff1d(y, self.classes_)):
            raise InvalidData(
                f"y of eval_set must have classes of y only; found {unknown.tolist()[0]!r}. Leave such rows out."
            )
        return codes_of(y, self.classes_)


def _a_column_for_each_class(f: NDArray[Any]) -> NDArray[Any]:  # (n, t) -> (n, classes)
    return np.hstack([-f / 2, f / 2]) if f.shape[1] == 1 else f


def codes_of(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:  # (n,)
    """Return the index of each label among the sorted classes, in the smallest integer type."""
    codes = np.empty(len(y), dtype=np.min_scalar_type(len(classes)))
    for rows in chunks(len(y)):
        codes[rows] = np.searchsorted(classes, y[rows])
    return codes


def check_labels(y: Any) -> Any:
    """Return one column of labels. None is refused, as it cannot be sorted among classes."""
    if isinstance(y, Labels):
        return y
    labels = np.asarray(y)
    given: list[Any] = labels.tolist() if labels.dtype == object and labels.ndim == 1 else []
    if None in given:
        row = given.index(None)
        raise InvalidData(f"y must have a class for each row; found None in row {row}. Leave such rows out.")
    return column_or_1d(y, warn=True)


def check_class_weight(class_weight: object) -> None:
    """Raise an error if weights of classes are of no known form; which classes there are is not known here."""
    balanced = isinstance(class_weight, str) and class_weight == "balanced"
    if not balanced and not isinstance(class_weight, Mapping | None):
        raise InvalidParameter(
            f"class_weight must be a dictionary, 'balanced' or None; got {class_weight!r}. Use 'balanced'."
        )


def weigh(
    class_weight: ClassWeight, classes: NDArray[Any], codes: NDArray[Any], w: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:  # codes and w: (n,)
    """Return the weight of each row, its class's included."""
    if class_weight is None:
        return w
    if isinstance(class_weight, str):
        rows = np.bincount(codes, weights=w, minlength=len(classes)).astype(np.float64)
        factors = rows.sum() / (len(classes) * np.where(rows > 0, rows, 1))
    else:
        if unknown := sorted(set(class_weight) - set(classes.tolist()), key=str):
            raise InvalidParameter(
                f"class_weight must name classes of y; got {unknown[0]!r}, and the classes are {classes.tolist()}. "
                "Leave it out."
            )
        factors = np.array([class_weight.get(label, 1.0) for label in classes.tolist()], dtype=np.float64)
    factor: NDArray[np.float64] = factors[codes]
    return factor if w is None else factor * w


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(BaseClassifier):
    """Kernel classification with any loss of the margin, or of all classes.

    Minimises ``λ/2 ‖θ‖² + Σ w_i ℓ(y_i f(x_i))`` with ``y_i = ±1``, ``f(x) = ⟨θ, φ(x)⟩`` and
    ``⟨φ(x), φ(z)⟩ = k(x, z)``; for more than two classes, one-vs-rest. The losses ``"softmax"`` and
    ``"crammer_singer"`` have one problem for all classes instead, with ``ℓ(y_i, f_1(x_i), ..., f_k(x_i))``.

    Parameters
    ----------
    loss : str or Loss
        ``"squared_hinge"``, ``"hinge"``, ``"logistic"``, ``"softmax"``, ``"crammer_singer"``, or a loss of
        :mod:`joker.losses` or of your own. With two classes the softmax is the logistic loss, and ``"crammer_singer"``
        is the hinge. The number of classes is always that of y.
    %(classifier)s

    Notes
    -----
    λ is ``1/C`` of scikit-learn's SVC and LogisticRegression. ``predict_proba`` exists with the logistic loss, with
    the softmax, and with ``calibrate=True``.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(np.linalg.norm(X, axis=1) < 1, "inside", "outside")
    >>> model = KernelClassifier(loss="hinge", lam=0.1).fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]])
    array(['inside', 'outside'], dtype='<U7')
    """

    loss: str | Loss = "squared_hinge"

    def _named_loss(self) -> Loss:
        return get_loss(self.loss, self._task)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelSVC(BaseClassifier):
    """Support vector classification.

    Minimises ``λ/2 ‖θ‖² + Σ w_i ℓ(y_i f(x_i))`` with ``y_i = ±1``, where ``ℓ(u)`` is ``max(1 − u, 0)²/2``
    (squared hinge) or ``max(1 − u, 0)`` (hinge); for more than two classes, one-vs-rest, or all in one
    problem with ``max_j (1[j ≠ y] + f_j) − f_y`` (Crammer and Singer, 2001).

    Parameters
    ----------
    loss : {"squared_hinge", "hinge"}
        The loss of two classes, and of each one-vs-rest problem.
    multi_class : {"ovr", "crammer_singer"}
        What more than two classes are: one-vs-rest, a problem for each class, or one problem for all.
    nu : float, optional
        The share ν of the ν-SVC, in (0, 1], in place of ``lam``: an upper bound on the weight of the rows with a margin
        below 1, and a lower bound on that of the support vectors. It needs ``loss="hinge"`` and one-vs-rest. The fit
        finds the λ that has this share, ``lam_``; with more than two classes an array, with a λ for each.
    %(classifier)s

    Notes
    -----
    With the hinge, λ is ``1/C`` of scikit-learn's SVC and LinearSVC. LinearSVC's squared hinge lacks the
    ½: there ``λ = 1/(2C)``. SVC does not penalise its intercept, LinearSVC does as here.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelSVC
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.linalg.norm(X, axis=1) < 1
    >>> model = KernelSVC(lam=0.1).fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]])
    array([ True, False])
    """

    loss: str = "squared_hinge"
    multi_class: str = "ovr"
    nu: float | None = None

    def _resolve(self) -> Request:
        request = super()._resolve()
        if self.nu is None:
            return request
        check_with_nu(self, request)
        if self.loss != "hinge" or self.multi_class != "ovr":
            raise InvalidParameter(
                "nu needs loss='hinge' and multi_class='ovr'; got "
                f"loss={self.loss!r} and multi_class={self.multi_class!r}. Set both, or use lam in place of nu."
            )
        return replace(request, lams=[1.0])

    def _descend(self, request: Request, training: Training, sample: TrainingSet, judge: HeldOutScorer | None) -> None:
        if self.nu is None:
            super()._descend(request, training, sample, judge)
            return
        found = solve(training.descent, NuHinge(training.descent.problem.targets, self.nu))
        check_feasible(found, self.nu, self.tol)
        self._set_best(result_of(training, found, found.rho), request.lams, len(found.rho))
        lam: Any = float(found.rho) if len(found.rho) == 1 else found.rho.cpu().numpy()
        self.lam_ = lam

    def _named_loss(self) -> Loss:
        if self.loss not in ("squared_hinge", "hinge"):
            raise UnknownName.among("loss of KernelSVC", self.loss, ["hinge", "squared_hinge"])
        if self.multi_class not in ("ovr", "crammer_singer"):
            raise UnknownName.among("multi_class of KernelSVC", self.multi_class, ["ovr", "crammer_singer"])
        return losses.get(self.loss) if self.multi_class == "ovr" else losses.CrammerSinger()

    def _loss_of_two_classes(self, loss: RowLoss) -> Loss:
        return losses.get(self.loss)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class KernelLogistic(BaseClassifier):
    """Kernel logistic regression, with probabilities.

    Minimises ``λ/2 ‖θ‖² + Σ w_i log(1 + exp(−y_i f(x_i)))`` with ``y_i = ±1``; for more than two classes, the softmax
    loss ``log Σ_j exp(f_j) − f_y`` of all classes in one problem, or one-vs-rest.

    Parameters
    ----------
    multi_class : {"auto", "softmax", "ovr"}
        What more than two classes are: ``"softmax"`` is one problem for all classes, ``"ovr"`` one-vs-rest.
        ``"auto"`` is the softmax.
    %(classifier)s

    Notes
    -----
    λ is ``1/C`` of scikit-learn's LogisticRegression, which does not penalise its intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from joker import KernelLogistic
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.linalg.norm(X, axis=1) < 1
    >>> model = KernelLogistic(lam=0.1).fit(X, y)
    >>> bool(model.predict_proba([[0.0, 0.0]])[0, 1] > 0.9)
    True
    """

    multi_class: str = "auto"

    def _named_loss(self) -> Loss:
        if self.multi_class not in ("auto", "softmax", "ovr"):
            raise UnknownName.among("multi_class of KernelLogistic", self.multi_class, ["auto", "ovr", "softmax"])
        return losses.Logistic() if self.multi_class == "ovr" else losses.Softmax()
