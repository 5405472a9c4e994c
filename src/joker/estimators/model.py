"""What a fit leaves in an estimator: a machine, the scale of inputs and targets, and from them the predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Self

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from joker.data import Rows, Scaling
from joker.data.arrays import FLOATS, INPUT_DTYPES, arrays_of, as_array, copied_bytes, numbered_rows, rows_of
from joker.distributed import current
from joker.distributed.facts import VERSIONS
from joker.errors import EdgeOfPath, InvalidData
from joker.estimators import resolve
from joker.estimators.inputs import (
    TrainingSet,
    check_kernel_matrix,
    check_stored,
    columns_by_name,
    is_stored,
    naming_columns,
)
from joker.estimators.resolve import scaling_by
from joker.kernels import Kernel
from joker.kernels.precomputed import PRECOMPUTED, KernelOfArrays
from joker.losses import Loss
from joker.models import ExactMachine, FeatureMachine, Machine
from joker.planning import Plan
from joker.planning.plan import plan_estimator_predict
from joker.prepare import Training
from joker.runtime import chunks, enough_memory
from joker.solvers.checkpoint import fingerprint_of_rows
from joker.solvers.report import conclusion

UNIT_MARGIN = 1e6  # predictions that are so many deviations away from the mean of y must be representable


class FittedModel(BaseEstimator):
    """The part of an estimator that predicts; `KernelEstimator` adds the parameters and the fit."""

    kernel: str | Kernel | KernelOfArrays
    memory: int | str
    tol: float
    history_: list[dict[str, Any]]
    gap_: float
    stop_reason_: str
    n_features_in_: int
    bandwidth_: float | NDArray[np.float64]
    plan_: Plan
    _machine: Machine
    _constant: bool  # whether the machine has an intercept
    _offset: NDArray[np.float64]  # (t,), what is added to predictions
    _target_scale: NDArray[np.float64]  # (t,), what predictions are multiplied by before that
    # Rows and their prediction function, (n, t), which was computed before; used for that very object of rows only.
    _predicted: tuple[Any, NDArray[Any]] | None

    @property
    def dual_coef_(self) -> NDArray[Any]:
        """α, one weight for each training row."""
        check_is_fitted(self)
        if not isinstance(self._machine, ExactMachine):
            raise AttributeError("dual_coef_ exists with the exact kernel (n_features=None) only; see coef_.")
        return self._shaped(self._in_units_of_y(self._machine.alpha))

    @property
    def coef_(self) -> NDArray[Any]:
        """θ, one weight for each feature."""
        check_is_fitted(self)
        if not isinstance(self._machine, FeatureMachine):
            raise AttributeError("coef_ exists with features (n_features an int) only; see dual_coef_.")
        theta = self._machine.theta[:-1] if self._constant else self._machine.theta
        return self._shaped(self._in_units_of_y(theta)).T

    @property
    def conclusion_(self) -> str:
        """What the gap and the last epoch say about the fit, in words."""
        check_is_fitted(self)
        return conclusion(self.gap_, self.tol, self._last_fall, self.stop_reason_)

    @property
    def _last_fall(self) -> float | None:
        """The share by which the objective fell in the last epoch; None after one epoch."""
        if len(self.history_) < 2:
            return None
        before, after = (entry["primal"] for entry in self.history_[-2:])
        return (before - after) / before if before > 0 else None

    @property
    def _precomputed(self) -> bool:
        """Whether X is a kernel matrix."""
        return isinstance(self.kernel, str) and self.kernel == PRECOMPUTED

    def _check_rows(self, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
        """Check arrays, sparse matrices, frames, tensors or rows of stores as scikit-learn does."""
        if self._precomputed:
            return check_kernel_matrix(self, X, y, **checks)
        if is_stored(X):
            return check_stored(self, X, y, **checks)
        if not checks.get("reset", True):
            if isinstance(y, str) and self._needs_no_check(X):
                return X
            X = columns_by_name(self, X)
        with naming_columns(X):
            return validate_data(self, as_array(X), as_array(y), dtype=INPUT_DTYPES, accept_sparse="csr", **checks)

    def _needs_no_check(self, X: Any) -> bool:
        """Whether scikit-learn would return X itself: its checks take longer than the prediction of one row."""
        if type(X) is not np.ndarray or X.ndim != 2 or X.dtype not in FLOATS or not len(X):
            return False
        if X.shape[1] != self.n_features_in_ or hasattr(self, "feature_names_in_"):
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(np.sum(X)))  # a sum with NaN or infinity is not finite

    def _shaped(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Return (n, t) columns in the shape that a user expects."""
        return columns

    def _in_units_of_y(self, weights: Tensor) -> NDArray[Any]:  # (k, t)
        """Return α or θ for the targets as the user passed them."""
        scaled: NDArray[Any] = weights.cpu().numpy().astype(self._result_dtype) * self._target_scale
        return scaled.astype(self._result_dtype)

    @property
    def _result_dtype(self) -> np.dtype[Any]:
        """The type of predictions: that of the machine, or float64 where it cannot represent the unit of y."""
        dtype = np.dtype(str(self._machine.dtype).removeprefix("torch."))
        limits = np.finfo(dtype)
        largest = np.abs(self._offset).max() + UNIT_MARGIN * self._target_scale.max()
        fits = largest < limits.max and self._target_scale.min() > UNIT_MARGIN * limits.tiny
        return dtype if fits else np.dtype(np.float64)

    @property
    def _scaling(self) -> Scaling | None:
        """What inputs are shifted and divided by; None where they are used as they are."""
        mean, deviation, bandwidth = (getattr(self, name, None) for name in ("mean_", "scale_", "bandwidth_"))
        return scaling_by(mean, deviation, bandwidth)

    @property
    def entries_of_row(self) -> int:
        """The products of inputs that the prediction of a row takes."""
        return int(self._machine.weights.shape[0]) * self._machine.n_inputs

    def _set_machine(self, machine: Machine, lams: list[float], i: int, t: int) -> Self:
        """Predict with the t columns of the i-th λ of a machine."""
        self._machine = machine.columns(i * t, (i + 1) * t)
        self.lam_ = lams[i]
        constant = self._machine.constant.double().cpu().numpy() if self._constant else np.zeros(t)
        self.intercept_ = self._shaped((constant * self._target_scale + self._offset)[None])[0]
        return self

    def _restored(self) -> None:
        """Set what a fit would have set and a file does not have."""

    def _loss(self) -> Loss:
        """Return the loss of the parameters, for the classes of y once these are known."""
        return self._loss_of_data(self._named_loss())

    def _named_loss(self) -> Loss:
        """Return the loss that the parameters name."""
        raise NotImplementedError

    def _loss_of_data(self, loss: Loss) -> Loss:
        """Return the loss for the targets of the fit, which may decide its number of classes."""
        return loss

    def _loss_of_columns(self, loss: Loss, repeats: int, place: torch.device) -> Loss:
        """Return the loss of all columns: those of one λ, whose loss is ``loss``, ``repeats`` times."""
        return loss

    def _sample(self, X: Any, y: NDArray[Any], w: NDArray[np.float64] | None) -> TrainingSet:
        """Return checked rows, targets and weights as a fitted estimator encodes and weights them."""
        raise NotImplementedError

    def _decoded(self, y: NDArray[Any]) -> NDArray[Any]:  # (n, t)
        """Return encoded targets as the user passed them."""
        raise NotImplementedError

    def _encoded(self, y: NDArray[Any]) -> NDArray[Any]:  # (n, t)
        """Return targets on the scale of the fit."""
        encoded: NDArray[Any] = (y - self._offset) / self._target_scale
        return encoded

    def _columns(self, y: NDArray[Any], repeats: int, like: Tensor | Rows) -> Tensor:
        """Return the targets of all columns, or the one column that all share; signs stay in int8."""
        if y.dtype == np.int8:
            columns = torch.from_numpy(y).to(like.device)
        else:
            columns = torch.empty(y.shape, dtype=like.dtype)
            for rows in chunks(*y.shape):
                columns[rows] = torch.from_numpy(self._encoded(y[rows]))
            columns = columns.to(like.device)
        return columns if columns.shape[1] == 1 else columns.repeat(1, repeats)

    def _evaluate(self, machine: Machine, x: Any) -> Tensor:  # (n, t)
        machine, x = bound(machine, x)
        return machine.predict(self._rows(x, machine), resolve.memory(self.memory, machine.constant.device))

    def _rows(self, x: Any, machine: Machine, host: bool = False) -> Rows:
        """Return checked rows as the machine reads them."""
        return rows_of(x, machine.dtype, machine.constant.device, copy=False, scaling=self._scaling, host=host)

    def _decide(self, X: Any) -> NDArray[Any]:  # (n, t)
        """Return the prediction function of each column, of rows as a user passes them."""
        return self._results(X, lambda f: f)

    def _results(self, X: Any, decode: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        """Return ``decode`` of the prediction function, (n, t), of rows as a user passes them, tile by tile."""
        check_is_fitted(self)
        if self._predicted is not None and self._predicted[0] is X:
            return decode(self._predicted[1].copy())
        x = self._check_rows(X, reset=False)
        copied = copied_bytes(X, x)
        machine, x = bound(self._machine, x)
        one = decode(np.zeros((1, len(machine.constant)), dtype=self._result_dtype))
        budget, scratch = resolve.budget(self.memory), resolve.memory(self.memory, machine.constant.device)
        plan = plan_estimator_predict(
            machine, x, one, copied=copied, scaling=self._scaling, budget=budget, scratch=scratch
        )
        result = np.empty((x.shape[0], *one.shape[1:]), dtype=one.dtype)
        with enough_memory(machine.constant.device):
            for tile, part in machine.stream(self._rows(x, machine, plan.host), plan.scratch):
                f = part.cpu().numpy().astype(self._result_dtype, copy=False)
                f *= self._target_scale
                f += self._offset
                check_predictions(f, tile.start)
                result[tile] = decode(f)
        return result


def check_predictions(f: NDArray[Any], first: int) -> None:  # (n, t), of rows from this one
    """Raise InvalidData instead of returning a prediction that is not finite."""
    if not np.isfinite(f).all():
        row = first + int(np.argmin(np.isfinite(f).all(axis=1)))
        raise InvalidData(
            f"predictions must be finite; that of row {row} is not: its inputs are too large for the kernel of this "
            "model, or the fit has found no finite weights. Check the unit of the inputs, and the report of the fit."
        )


def bound(machine: Machine, x: Any) -> tuple[Machine, Any]:
    """Return a machine and the rows that it reads: of a precomputed kernel, the matrix x and its row numbers."""
    if not machine.precomputed:
        return machine, x
    matrix, numbers = numbered_rows(x)
    return machine.reading(matrix), numbers


SIGMOID, SOFTMAX, NORMALISED_SIGMOIDS = "sigmoid", "softmax", "normalised sigmoids"
CALIBRATED = "calibrated"  # a softmax with a slope and offsets; two classes have the values -f/2 and f/2


@dataclass(frozen=True, eq=False)
class PredictionForm:
    """The steps of a prediction: scaled inputs, the machine, the unit of the targets, and classes or sorted levels."""

    machine: Machine
    scaling: Scaling | None  # of the inputs
    target_scale: NDArray[np.float64]  # (t,), what f is multiplied by
    offset: NDArray[np.float64]  # (t,), what is added to f then
    dtype: np.dtype[Any]  # of predictions
    one_column: bool  # whether predictions have the shape (n,)
    classes: NDArray[Any] | None  # None for numbers
    probabilities: str | None  # SIGMOID, SOFTMAX, NORMALISED_SIGMOIDS, CALIBRATED or None
    slope: float  # of the softmax
    offsets: NDArray[np.float64] | None  # (classes,), of a calibrated softmax
    ranks: NDArray[np.intp] | None  # the rank of each quantile level; None if predictions are not sorted
    one_class: bool  # whether the label is 1 where f is at least 0, and else −1
    exponential: bool  # whether f is the logarithm of the prediction
    features_only: bool  # whether the features of the machine are the result, and its weights are not used


def prediction_form(model: Any) -> PredictionForm:
    """Return the steps of the predictions of a fitted estimator."""
    check_is_fitted(model, "_machine")
    classes = getattr(model, "classes_", None)
    several = getattr(model, "_several", False)
    return PredictionForm(
        machine=model._machine,
        scaling=model._scaling,
        target_scale=np.asarray(model._target_scale, dtype=np.float64),
        offset=np.asarray(model._offset, dtype=np.float64),
        dtype=model._result_dtype,
        one_column=bool(getattr(model, "_ravel", False)) and not several,
        classes=classes,
        probabilities=None if classes is None else _probabilities(model),
        slope=float(getattr(model, "_slope", None) or 1.0),
        offsets=getattr(model, "_offsets", None),
        ranks=np.argsort(np.argsort(model._levels, kind="stable")) if several else None,
        one_class=bool(getattr(model, "_one_class", False)),
        exponential=getattr(model, "_log_link", None) is not None,
        features_only=bool(getattr(model, "_features_only", False)),
    )


def _probabilities(model: Any) -> str | None:
    if getattr(model, "_offsets", None) is not None:
        return CALIBRATED
    if not model._loss().sigmoid:
        return None
    if len(model.classes_) == 2:
        return SIGMOID
    return NORMALISED_SIGMOIDS if model._slope is None else SOFTMAX


@dataclass(frozen=True, eq=False)
class Path:
    """Every model of a path of λ.

    Attributes
    ----------
    lam : ndarray of shape (L,)
        The values of λ, in the order given.
    scores : ndarray of shape (L,)
        The scores on the held-out rows; higher is better. They are minus the mean loss (of the scaled targets, for a
        regressor), unless ``early_stopping`` names a scorer, and NaN without held-out rows.
    models : tuple of L estimators
        A fitted estimator for each λ.
    """

    lam: NDArray[np.float64]
    scores: NDArray[np.float64]
    models: tuple[Any, ...] = field(repr=False)

    @property
    def best(self) -> int:
        """The index of the best score; of equal scores, that with the largest λ."""
        scores = np.nan_to_num(self.scores, nan=-np.inf)
        return int(max(range(len(self.lam)), key=lambda i: (scores[i], self.lam[i])))

    def warn_at_the_edge(self) -> None:
        """Warn if the best of at least three λ is the smallest or the largest."""
        if len(set(self.lam)) < 3 or not np.isfinite(self.scores).all():
            return
        best = float(self.lam[self.best])
        for edge, word, next_one in ((self.lam.min(), "smallest", 0.1), (self.lam.max(), "largest", 10.0)):
            if best == edge:
                warnings.warn(
                    f"lam_ is the {word} value of lam, {best:g}: it has the best score on the held-out rows, and one "
                    f"outside the path may have a better score. Extend lam, for example by {next_one * best:g}.",
                    EdgeOfPath,
                    stacklevel=2,
                )

    def predict(self, X: Any) -> list[NDArray[Any]]:
        """Return the predictions of each model."""
        return [model.predict(X) for model in self.models]


ALPHA_NEEDS = {"rows", "kernel or features", "dtype"}  # α of another problem is useless where these differ


@dataclass(frozen=True, eq=False)
class ProblemHashes:
    """Hashes that identify a problem, to the last bit."""

    rows: str
    targets: str
    kernel: Kernel

    @classmethod
    def of(
        cls, sample: TrainingSet, lams: list[float], target_scale: NDArray[np.float64], training: Training
    ) -> ProblemHashes:
        """Return the hashes of a problem, whose targets are divided by ``target_scale``."""
        targets = joblib.hash((sample.y, sample.w, lams, target_scale))
        return cls(joblib.hash(arrays_of(sample.x)), targets, training.kernel.reading(None))


@dataclass(frozen=True, eq=False)
class WarmStart:
    """The end of a fit."""

    seed: int
    hashes: ProblemHashes
    state: dict[str, Any]

    def continue_in(self, training: Training, hashes: ProblemHashes) -> None:
        """Continue in a training of the same problem; start at α in one of the same rows and kernel."""
        descent = training.descent
        if (hashes.rows, hashes.kernel) != (self.hashes.rows, self.hashes.kernel):
            return
        differing = set(descent.differing(self.state))
        if not differing and hashes.targets == self.hashes.targets:
            descent.load_state_dict(self.state)
            limits = descent.settings.max_epochs + descent.epoch, descent.settings.max_time + descent.seconds
            descent.settings = replace(descent.settings, max_epochs=limits[0], max_time=limits[1])
        elif not differing & ALPHA_NEEDS:
            descent.start_at(self.state["state"]["alpha"])


# Parameters that need not be the same in all processes: what is reported, and the GPU, which each has to itself.
OWN_PARAMETERS = {"callbacks", "verbose", "device"}


def check_processes(model: BaseEstimator, **facts: Any) -> None:
    """Raise ProcessesDiffer in every process if the estimators of two of them, or further facts, are not the same."""
    if current().size == 1:
        return
    given = {name: value for name, value in model.get_params(deep=False).items() if name not in OWN_PARAMETERS}
    acting = [type(one).__name__ for one in getattr(model, "callbacks", None) or () if one.copies or one.needs_score]
    learnt = {"classes": getattr(model, "classes_", None), "columns of X": getattr(model, "feature_names_in_", None)}
    kind = {"estimator": type(model).__name__, "callbacks that change the fit": acting}
    current().check_equal({**VERSIONS, **kind, **given, **learnt, **facts})


def check_held_out(held: TrainingSet) -> None:
    """Raise ProcessesDiffer in every process if two of them score on other rows."""
    if current().size == 1:
        return
    x = rows_of(held.x, torch.float64, torch.device("cpu"), copy=False)
    facts = {"shape": x.shape, "values of X": fingerprint_of_rows(x), "targets": held.y, "weights": held.w}
    current().check_equal({f"held-out rows: {name}": value for name, value in facts.items()})


def seed_of(random_state: int | np.random.RandomState | None, before: WarmStart | None) -> int:
    """Return the seed of a fit, that of rank 0; without one, a fit that continues another has its seed."""
    if before is not None and not isinstance(random_state, Integral):
        return before.seed
    return current().decide(int(check_random_state(random_state).randint(2**31 - 1)))
