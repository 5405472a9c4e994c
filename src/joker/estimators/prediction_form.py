"""What a fitted estimator computes from rows to predictions, as values that other programs can compute with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from joker.data import Scaling
from joker.models import Machine

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
    )


def _probabilities(model: Any) -> str | None:
    if getattr(model, "_offsets", None) is not None:
        return CALIBRATED
    if not model._loss().sigmoid:
        return None
    if len(model.classes_) == 2:
        return SIGMOID
    return NORMALISED_SIGMOIDS if model._slope is None else SOFTMAX
