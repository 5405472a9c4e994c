"""Estimators from files: one safetensors file with a JSON document, and no code."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier
from torch import Tensor

from joker.data import Schema
from joker.errors import InexactFeatures, InvalidFile, InvalidParameter, JokerError
from joker.estimators.base import KernelEstimator
from joker.estimators.classification import KernelClassifier, KernelLogistic, KernelSVC
from joker.estimators.lambda_path import Path
from joker.estimators.model_document import FITTED
from joker.estimators.regression import KernelHuber, KernelLp, KernelQuantile, KernelRegressor, KernelRidge, KernelSVR
from joker.kernels import Kernel
from joker.losses import Loss
from joker.models.io import container, machines
from joker.models.io.container import Document
from joker.models.io.json_values import CustomObjects, decode, describe
from joker.models.machine import Machine
from joker.runtime import VERSION, nearest_device, parse_device
from joker.runtime.atomic_file import AnyPath

ESTIMATORS: dict[str, type[KernelEstimator]] = {
    estimator.__name__: estimator
    for estimator in (
        KernelClassifier,
        KernelHuber,
        KernelLogistic,
        KernelLp,
        KernelQuantile,
        KernelRegressor,
        KernelRidge,
        KernelSVC,
        KernelSVR,
    )
}
# A deviation that is not 0 is at least the rounding error of the mean, so that the mean is at most 1e16 times as large.
MAX_MEAN = 1e20
MAX_KERNEL = 1e3  # the size of kernel values or features for which predictions must not overflow
# The errors that a document can cause whose bytes are intact and whose values contradict one another.
BAD_VALUE = (
    JokerError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


def load(
    path: AnyPath,
    *,
    device: str | torch.device | None = None,
    kernel: Kernel | None = None,
    loss: Loss | None = None,
) -> Any:
    """Read an estimator of this package, but no table model: see `joker.load`, which describes the parameters."""
    place = None if device is None else parse_device(device)
    document, tensors = container.read(path)
    with errors_name_the_file(path):
        needs = {name: str(text) for name, text in document["needs"].items()}
    own = CustomObjects(kernel=_given("kernel", kernel, needs), loss=_given("loss", loss, needs))
    with errors_name_the_file(path):
        estimator = restore(document, tensors, place, own)
    if device is not None:
        estimator.device = device
    return estimator


def restore(
    document: Document, tensors: Mapping[str, Tensor], device: torch.device | None, own: CustomObjects
) -> KernelEstimator:
    """Return the estimator that `document_of` described, on ``device`` or on that of the document."""
    estimator = _new(document, own)
    unpacked = machines.unpack(document["machines"], tensors, device or nearest_device(document["device"]), own)
    _restore(estimator, document, unpacked, own)
    return estimator


@contextmanager
def errors_name_the_file(path: AnyPath) -> Iterator[None]:
    """Replace every error that the document causes by one that names the file."""
    try:
        yield
    except InexactFeatures:  # raised only where the user has turned warnings into errors
        raise
    except BAD_VALUE as error:
        what = str(error) if isinstance(error, JokerError) else f"{type(error).__name__}: {error}"
        raise InvalidFile(
            f"{path} must hold a model that this joker ({VERSION}) can build, and does not: {what}. "
            "Upgrade joker if a newer version wrote the file, or save the model again."
        ) from error


def _given(name: str, part: Any, needs: Mapping[str, str]) -> Any:
    """Return the kernel or loss that the user gives, after checking that it is the one that the file needs."""
    if name not in needs:
        if part is not None:
            raise InvalidParameter(f"{name} must be left out, as the file needs none; got {part!r}. Leave it out.")
        return None
    if part is None or describe(part) != needs[name]:
        raise InvalidParameter(
            f"{name} must be the one that the model was created with, {needs[name]}, which is a class of your own: a "
            f"file holds no code; got {part!r}. Use joker.load(path, {name}={needs[name]})."
        )
    return part


def _new(document: Document, own: CustomObjects) -> KernelEstimator:
    name, settings = document["estimator"], document["settings"]
    if name not in ESTIMATORS:
        raise InvalidFile(f"the estimator {name!r} is not known")
    known = {field.name for field in fields(ESTIMATORS[name]) if field.init}
    if unknown := sorted(settings.keys() - known):
        raise InvalidFile(f"{name} has no parameter {', '.join(unknown)}")
    given = {key: decode(value, own) for key, value in settings.items()}
    if "scale_target" in known:
        given.setdefault("scale_target", False)  # files of earlier versions
    if "multi_class" in known:
        given.setdefault("multi_class", "ovr")  # these had nothing else
    return ESTIMATORS[name](**given)


def _restore(estimator: KernelEstimator, document: Document, machines: list[Machine], own: CustomObjects) -> None:
    """Restore the attributes that the fit had set."""
    # Unknown keys are ignored here and in the whole document. A key that changes predictions comes with a new version
    # of the format, which this joker refuses.
    first, *others = machines
    settings = copy.copy(estimator)
    settings.device = None  # this machine need not have the device
    settings.check_settings(first.n_inputs)
    if "schema" in document:
        estimator.schema_ = Schema.from_json(document["schema"])
    estimator._target_scale = np.ones(len(first.constant))  # these two are those of files of earlier versions
    if is_classifier(estimator):
        estimator._slope = None
    _set_fitted(estimator, document["fitted"], first, own)
    if "path" not in document:
        return
    path = document["path"]
    models = tuple(
        _set_fitted(copy.copy(estimator), fitted, machine, own)
        for fitted, machine in zip(path["models"], others, strict=True)
    )
    estimator.path_ = Path(decode(path["lam"], own), decode(path["scores"], own), models)
    if not len(estimator.path_.lam) == len(estimator.path_.scores) == len(models):
        raise InvalidFile("a path must have a λ and a score for each model")


def _set_fitted(model: KernelEstimator, fitted: Document, machine: Machine, own: CustomObjects) -> KernelEstimator:
    for name, value in fitted.items():
        if name in FITTED:
            setattr(model, FITTED[name], decode(value, own))
    model._machine = machine
    _check(model, machine)
    return model


def _check(model: KernelEstimator, machine: Machine) -> None:
    """Refuse attributes that contradict one another."""
    inputs, t = model.n_features_in_, len(machine.constant)
    schema = getattr(model, "schema_", None)
    if schema is not None and schema.width != inputs:
        raise InvalidFile(f"the columns of the table must be the {inputs} inputs of the model; they are {schema.width}")
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", ())
    if machine.n_inputs != inputs or (names is not None and len(names) != inputs):
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
    size = getattr(machine, machine.weights_name).abs().sum(0).double().cpu().numpy()  # (t,)
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


def _check_numbers(name: str, values: Any, shape: tuple[int, ...], *, positive: bool = False) -> None:
    """Refuse values that are not finite floating-point numbers of a shape."""
    numbers = np.asarray(values)
    right = numbers.dtype.kind == "f" and numbers.shape == shape and bool(np.isfinite(numbers).all())
    if not right or (positive and not (numbers > 0).all()):
        kind = "positive finite numbers" if positive else "finite numbers"
        raise InvalidFile(f"{name} must be {kind} of shape {shape}; got {values!r}")
