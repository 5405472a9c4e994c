"""Kernel estimators in files: what the fit has set, as a JSON document with the tensors of the machines, and back."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from joker.data import Schema
from joker.errors import InvalidFile, InvalidParameter
from joker.estimators import resolve
from joker.estimators.model import Path
from joker.kernels import Kernel
from joker.models import Machine, packing
from joker.models.files import Description, ModelKind, fitted_entries
from joker.models.packing import Document, ModelReader, encode, is_custom, stable_repr
from joker.runtime.devices import nearest_device

# The attributes of a fitted estimator, by their names in the document. A missing attribute is left out.
FITTED = {
    "inputs": "n_features_in_",
    "input_names": "feature_names_in_",
    "classes": "classes_",
    "lam": "lam_",
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
    _check(model, machine)
    return model


def _check(model: Any, machine: Machine) -> None:
    """Refuse attributes that contradict one another."""
    inputs, t = model.n_features_in_, len(machine.constant)
    schema = getattr(model, "schema_", None)
    if schema is not None and schema.width != inputs:
        raise InvalidFile(f"the columns of the table must be the {inputs} inputs of the model; they are {schema.width}")
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", ())
    if machine.precomputed:
        _check_row_numbers(machine, inputs)
    if (not machine.precomputed and machine.n_inputs != inputs) or (names is not None and len(names) != inputs):
        raise InvalidFile(f"the model must have the {inputs} inputs it was fitted on; it has {machine.n_inputs}")
    _check_numbers("bandwidth", model.bandwidth_, (inputs,) if np.ndim(model.bandwidth_) else (), positive=True)
    _check_numbers("lam", model.lam_, (), positive=True)
    _check_numbers("intercept", model.intercept_, (t,) if np.ndim(model.intercept_) else ())
    if hasattr(model, "mean_") != hasattr(model, "scale_"):
        raise InvalidFile("mean and scale of the inputs must be there both, or neither")
    if hasattr(model, "mean_"):
        _check_numbers("mean", model.mean_, (inputs,))
        _check_numbers("scale", model.scale_, (inputs,))
        if np.any(model.scale_ < 0):
            raise InvalidFile(f"the scale of an input must be at least 0; got {model.scale_.min()}")
        if np.any((model.scale_ > 0) & (np.abs(model.mean_) > MAX_MEAN * model.scale_)):
            raise InvalidFile(f"the mean of an input must be at most {MAX_MEAN:g} times its scale; it is larger")
    _check_numbers("offset", model._offset, (t,))
    _check_numbers("target_scale", model._target_scale, (t,), positive=True)
    size = machine.weights.abs().sum(0).double().cpu().numpy()  # (t,)
    with np.errstate(over="ignore"):
        if not np.isfinite(MAX_KERNEL * (1 + size) * model._target_scale).all():
            raise InvalidFile("target_scale must be small enough for finite predictions; the weights times it overflow")
    if not isinstance(getattr(model, "_ravel", False), bool) or not isinstance(getattr(model, "_several", False), bool):
        raise InvalidFile("one_output and several_levels must be truth values; found something else")
    slope = getattr(model, "_slope", None)
    if slope is not None and not (isinstance(slope, float) and 0 < slope < np.inf):
        raise InvalidFile(f"the slope of the probabilities must be a positive number; got {slope!r}")
    if (offsets := getattr(model, "_offsets", None)) is not None:
        _check_numbers("offsets of the probabilities", offsets, (len(classes),))
    if is_classifier(model) and t != (1 if len(classes) == 2 else len(classes)):
        raise InvalidFile(f"there must be a column for each class; got {t} columns and the classes {classes}")
    expected = len(model._levels) if getattr(model, "_several", False) else 1 if getattr(model, "_ravel", False) else t
    if t != expected:
        raise InvalidFile(f"there must be a column for each output or level, {expected}; got {t}")
    levels = np.atleast_1d(getattr(model, "_levels", 0.5))
    if levels.dtype.kind != "f" or not np.all((levels > 0) & (levels < 1)):
        raise InvalidFile(f"the levels of quantiles must be between 0 and 1; got {levels}")
    if len(set(np.asarray(classes).tolist())) != len(classes):
        raise InvalidFile(f"classes must be different; got {classes}")


def _check_row_numbers(machine: Any, columns: int) -> None:
    """Refuse training rows that are not numbers of columns of the kernel matrix."""
    numbers = machine.x[0 : len(machine.x)]
    whole = bool(((numbers >= 0) & (numbers < columns) & (numbers == numbers.round())).all())
    if machine.n_inputs != 1 or not whole:
        raise InvalidFile(f"the rows of a precomputed kernel must be numbers of its {columns} columns; they are not")


def _check_numbers(name: str, values: Any, shape: tuple[int, ...], *, positive: bool = False) -> None:
    """Refuse values that are not finite floating-point numbers of a shape."""
    numbers = np.asarray(values)
    right = numbers.dtype.kind == "f" and numbers.shape == shape and bool(np.isfinite(numbers).all())
    if not right or (positive and not (numbers > 0).all()):
        kind = "positive finite numbers" if positive else "finite numbers"
        raise InvalidFile(f"{name} must be {kind} of shape {shape}; got {values!r}")


KIND = ModelKind(_describe, _restore, EARLIER)
