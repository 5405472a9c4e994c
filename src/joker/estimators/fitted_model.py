"""What a fit leaves in an estimator: a machine, the scale of inputs and targets, and from them the predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from joker.data import Rows, Scaling
from joker.data.array_rows import INPUT_DTYPES, as_array, copied_bytes, rows_of
from joker.estimators import resolve
from joker.estimators.input_bandwidths import scaling_by
from joker.estimators.scoring import Predicted
from joker.estimators.store_inputs import check_stored, columns_by_name, is_stored
from joker.estimators.wrong_values import naming_columns
from joker.models import ExactMachine, FeatureMachine, Machine
from joker.planning.estimator_plan import plan_estimator_predict
from joker.runtime import enough_memory
from joker.solvers.report import conclusion

UNIT_MARGIN = 1e6  # predictions that are so many deviations away from the mean of y must be representable


class FittedModel(BaseEstimator):
    """The part of an estimator that predicts; `KernelEstimator` adds the parameters and the fit."""

    memory: int | str
    tol: float
    history_: list[dict[str, Any]]
    gap_: float
    stop_reason_: str
    _machine: Machine
    _constant: bool  # whether the machine has an intercept
    _offset: NDArray[np.float64]  # (t,), what is added to predictions
    _target_scale: NDArray[np.float64]  # (t,), what predictions are multiplied by before that
    _predicted: Predicted | None

    @property
    def dual_coef_(self) -> NDArray[Any]:
        """α, one weight for each training row."""
        check_is_fitted(self)
        if not isinstance(self._machine, ExactMachine):
            raise AttributeError("dual_coef_ exists with the kernel itself (n_features=None) only; see coef_.")
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

    def _check_rows(self, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
        """Check arrays, sparse matrices, frames, tensors or rows of stores as scikit-learn does."""
        if is_stored(X):
            return check_stored(self, X, y, **checks)
        if not checks.get("reset", True):
            X = columns_by_name(self, X)
        with naming_columns(X):
            return validate_data(self, as_array(X), as_array(y), dtype=INPUT_DTYPES, accept_sparse="csr", **checks)

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

    def _take(self, machine: Machine, lams: list[float], i: int, t: int) -> Self:
        """Predict with the t columns of the i-th λ of a machine."""
        self._machine = machine.columns(i * t, (i + 1) * t)
        self.lam_ = lams[i]
        constant = self._machine.constant.double().cpu().numpy() if self._constant else np.zeros(t)
        self.intercept_ = self._shaped((constant * self._target_scale + self._offset)[None])[0]
        return self

    def _evaluate(self, machine: Machine, x: Any) -> Tensor:  # (n, t)
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
        if self._predicted is not None and self._predicted.rows is X:
            return decode(self._predicted.values.copy())
        x = self._check_rows(X, reset=False)
        machine = self._machine
        one = decode(np.zeros((1, len(machine.constant)), dtype=self._result_dtype))
        budget, scratch = resolve.budget(self.memory), resolve.memory(self.memory, machine.constant.device)
        plan = plan_estimator_predict(
            machine, x, one, copied=copied_bytes(X, x), scaling=self._scaling, budget=budget, scratch=scratch
        )
        result = np.empty((x.shape[0], *one.shape[1:]), dtype=one.dtype)
        with enough_memory(machine.constant.device):
            for tile, part in machine.stream(self._rows(x, machine, plan.host), plan.scratch):
                f = part.cpu().numpy().astype(self._result_dtype, copy=False)
                f *= self._target_scale
                f += self._offset
                result[tile] = decode(f)
        return result
