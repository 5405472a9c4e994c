"""Kernel estimators in files: what the fit has set, as a JSON document with the tensors of the machines, and back."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from joker.data import Schema
from joker.errors import InvalidFile, InvalidParameter
from joker.estimators import resolve
from joker.estimators.model import Path
from joker.estimators.regression import KernelQuantile
from joker.kernels import Kernel
from joker.models import Machine, packing
from joker.models.fields import FLAG, LABEL, NUMBER, RECORD, TEXT, WHOLE, Field, Fields
from joker.models.files import Description, ModelKind, fitted_entries
from joker.models.packing import Document, ModelReader, encode, is_custom, stable_repr
from joker.runtime.devices import nearest_device

# The attributes of a fitted estimator, by their names in the document. A missing attribute is left out.
FITTED = {
    "inputs": "n_features_in_",
    "input_names": "feature_names_in_",
    "classes": "classes_",
    "lam": "lam_",
    "epsilon": "epsilon_",
    "eigenvalues": "eigenvalues_",
    "residual_norms": "residual_norms_",
    "explained_variance_ratio": "explained_variance_ratio_",
    "kernel_error": "kernel_error_",
    "bandwidth": "bandwidth_",
    "intercept": "intercept_",
    "mean": "mean_",
    "scale": "scale_",
    "gap": "gap_",
    "n_iter": "n_iter_",
    "history": "history_",
    "stop_reason": "stop_reason_",
    "offset": "_offset",
    "target_scale": "_target_scale",
    "constant": "_constant",
    "probability_slope": "_slope",
    "probability_offsets": "_offsets",
    "one_output": "_ravel",
    "several_levels": "_several",
    "levels": "_levels",
}
# A deviation that is not 0 is at least the rounding error of the mean, so that the mean is at most 1e16 times as large.
MAX_MEAN = 1e20
MAX_KERNEL = 1e3  # the size of kernel values or features for which predictions must not overflow
MAX_CALIBRATION = 1e6  # of slopes and offsets; those of a fit are at most 150
EPOCH = Fields({"epoch": Field(NUMBER, low=0), "seconds": Field(NUMBER, low=0)}, others=Field(finite=False))
# What the values of a fit must be, by their names in the document. The sizes are t outputs, inputs and classes.
FITTED_VALUES = Fields(
    {
        "inputs": Field(WHOLE, low=1, size="inputs"),
        "input_names": Field(TEXT, ("inputs",), optional=True),
        "classes": Field(LABEL, ("classes",), optional=True, distinct=True),
        "lam": Field(NUMBER, ("t",), single=True, low=0, open=True, optional=True),  # one for each class with nu
        "epsilon": Field(NUMBER, optional=True, low=0),
        **{
            name: Field(NUMBER, ("t",), optional=True, low=0)
            for name in ("eigenvalues", "residual_norms", "explained_variance_ratio")
        },
        "kernel_error": Field(NUMBER, optional=True),
        "bandwidth": Field(NUMBER, ("inputs",), single=True, low=0, open=True),
        "intercept": Field(NUMBER, ("t",), single=True),
        "mean": Field(NUMBER, ("inputs",), optional=True),
        "scale": Field(NUMBER, ("inputs",), optional=True, low=0),
        "gap": Field(NUMBER, finite=False, optional=True),
        "n_iter": Field(WHOLE, low=0, optional=True),
        "history": Field(RECORD, (None,), list, record=EPOCH, optional=True),
        "stop_reason": Field(TEXT, optional=True),
        "offset": Field(NUMBER, ("t",)),
        "target_scale": Field(NUMBER, ("t",), low=0, open=True),
        "constant": Field(FLAG),
        "probability_slope": Field(NUMBER, optional=True, nullable=True, low=0, high=MAX_CALIBRATION, open=True),
        "probability_offsets": Field(
            NUMBER, ("classes",), optional=True, nullable=True, low=-MAX_CALIBRATION, high=MAX_CALIBRATION
        ),
        "one_output": Field(FLAG, optional=True),
        "several_levels": Field(FLAG, optional=True),
        "levels": Field(NUMBER, (None,), optional=True, low=0, high=1, open=True),
    },
    rules=(
        (
            "mean and scale of the inputs must be there both, or neither",
            lambda v: (v["mean"] is None) == (v["scale"] is None),
        ),
        (f"the mean of an input must be at most {MAX_MEAN:g} times its scale", lambda v: _mean_is_small(**v)),
        ("classifiers must have classes, others one output or several", lambda v: _fits_the_task(**v)),
        ("there must be a column of weights for each output, level or class", lambda v: _fits_the_columns(**v)),
        (
            "weights, target_scale, offset and probability_slope must be small enough for finite predictions",
            lambda v: bool(np.isfinite((v["probability_slope"] or 1.0) * largest_prediction(v["model"])).all()),
        ),
    ),
)
EARLIER = {"scale_target": False, "multi_class": "ovr"}  # what files had before these parameters existed


def _describe(estimator: Any, *, store_features: bool = False) -> Description:
    check_is_fitted(estimator, "_machine")
    resolve.flag("store_features", store_features)
    _check_kernel(estimator)
    models = [estimator, *(estimator.path_.models if hasattr(estimator, "path_") else ())]
    machines, tensors = packing.pack([model._machine for model in models], store_features=store_features)
    common = fitted_entries(estimator, FITTED)
    entries: Document = {"fitted": common, "machines": machines}
    if hasattr(estimator, "path_"):
        path = estimator.path_
        # Values that all models share are stored once: the names of the inputs may be many.
        of_models = (fitted_entries(model, FITTED) for model in path.models)
        different = [{name: value for name, value in one.items() if value != common.get(name)} for one in of_models]
        entries["path"] = {"lam": encode(path.lam), "scores": encode(path.scores), "models": different}
    if hasattr(estimator, "schema_"):
        entries["schema"] = estimator.schema_.to_json()
    return Description(_version(estimator), estimator._machine.constant.device, entries, tensors)


def _version(estimator: Any) -> int:
    """The lowest version of the format that can represent the model."""
    calibrated = len(getattr(estimator, "classes_", ())) > 2 and estimator._loss().sigmoid
    if np.any(estimator._target_scale != 1) or calibrated:
        return 3
    return 2 if np.ndim(estimator.bandwidth_) else 1


def _check_kernel(estimator: Any) -> None:
    """Refuse a kernel of the user's own that was replaced after the fit: load would be given the wrong one."""
    kernel, given = packing.kernel_of(estimator._machine), estimator.kernel
    if callable(given) and not isinstance(given, Kernel):
        raise InvalidParameter(
            f"a model whose kernel is a function cannot be saved, as a file holds no code; got kernel={given!r}. Use "
            "pickle, or write the kernel as a class derived from joker.kernels.Kernel, which joker.load is given again."
        )
    if not is_custom(kernel):
        return
    if not isinstance(given, Kernel) or stable_repr(given.with_bandwidth(kernel.bandwidth)) != stable_repr(kernel):
        raise InvalidParameter(
            f"kernel must be the one that the model was fitted with, {kernel!r}; got {given!r}. Fit again, or restore "
            "it with set_params."
        )


def _restore(estimator: Any, reader: ModelReader) -> None:
    document = reader.document
    device = reader.device or nearest_device(document["device"])
    first, *others = packing.unpack(reader.part("machines"), device)
    settings = copy.copy(estimator)
    settings.device = None  # this computer need not have the device
    settings.check_settings(first.n_inputs)
    if "schema" in document:
        estimator.schema_ = Schema.from_json(document["schema"])
    estimator._target_scale = np.ones(len(first.constant))  # these two are those of files of earlier versions
    if is_classifier(estimator):
        estimator._slope = None
    _set_fitted(estimator, reader.part("fitted"), first)
    if "path" not in document:
        return
    path = document["path"]
    models = tuple(
        _set_fitted(copy.copy(estimator), replace(reader, document=fitted), machine)
        for fitted, machine in zip(path["models"], others, strict=True)
    )
    estimator.path_ = Path(reader.decode(path["lam"]), reader.decode(path["scores"]), models)
    if not len(estimator.path_.lam) == len(estimator.path_.scores) == len(models):
        raise InvalidFile("a path must have a λ and a score for each model")


def _set_fitted(model: Any, reader: ModelReader, machine: Machine) -> Any:
    reader.set_fitted(model, FITTED)
    model._machine = machine
    model._restored()
    _check(model, machine)
    return model


def _check(model: Any, machine: Machine) -> None:
    """Refuse attributes that are impossible or contradict one another."""
    t = len(machine.constant)
    if machine.precomputed:
        _check_row_numbers(machine, model.n_features_in_)
    schema = getattr(model, "schema_", None)
    if schema is not None and schema.width != model.n_features_in_:
        raise InvalidFile(
            f"the columns of the table must be the {model.n_features_in_} inputs of the model; they are {schema.width}"
        )
    values = {name: getattr(model, attribute) for name, attribute in FITTED.items() if hasattr(model, attribute)}
    sizes = {"t": t} if machine.precomputed else {"t": t, "inputs": machine.n_inputs}
    FITTED_VALUES.check(type(model).__name__, values, sizes, model=model)


def _mean_is_small(mean: Any, scale: Any, **_: Any) -> bool:
    return mean is None or not np.any((scale > 0) & (np.abs(mean) > MAX_MEAN * scale))


def _fits_the_task(model: Any, classes: Any, one_output: Any, several_levels: Any, levels: Any, **v: Any) -> bool:
    if is_classifier(model):
        return classes is not None
    if hasattr(model, "transform"):
        return one_output is None
    if v["lam"] is None or one_output is None or np.ndim(v["intercept"]) != (0 if one_output else 1):
        return False
    return (several_levels is None) == (levels is None) == (not isinstance(model, KernelQuantile))


def _fits_the_columns(model: Any, classes: Any, one_output: Any, several_levels: Any, levels: Any, **_: Any) -> bool:
    t = len(model._machine.constant)
    if classes is not None:
        return t == (1 if len(classes) == 2 else len(classes))
    return t == len(levels) if several_levels else t == 1 or not one_output


def largest_prediction(model: Any) -> NDArray[np.float64]:  # (t,)
    """Return what predictions or decision values cannot exceed for usual kernel values; infinity if they overflow."""
    weights = model._machine.weights
    size = MAX_KERNEL * (1 + weights.abs().double().sum(0).cpu().numpy())  # (t,)
    size[size > torch.finfo(weights.dtype).max] = np.inf
    with np.errstate(over="ignore"):
        largest: NDArray[np.float64] = size * model._target_scale + np.abs(model._offset)
    return largest


def _check_row_numbers(machine: Any, columns: int) -> None:
    """Refuse training rows that are not numbers of columns of the kernel matrix."""
    numbers = machine.x[0 : len(machine.x)]
    whole = bool(((numbers >= 0) & (numbers < columns) & (numbers == numbers.round())).all())
    if machine.n_inputs != 1 or not whole:
        raise InvalidFile(f"the rows of a precomputed kernel must be numbers of its {columns} columns; they are not")


KIND = ModelKind(_describe, _restore, EARLIER)
