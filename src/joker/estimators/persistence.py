"""Estimators in files: one safetensors file with a JSON document, and nothing in it that is run."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from joker.data import Schema
from joker.errors import InexactFeatures, InvalidFile, InvalidParameter, JokerError
from joker.estimators import resolve
from joker.estimators.base import KernelEstimator
from joker.estimators.classification import KernelClassifier, KernelLogistic, KernelSVC
from joker.estimators.lambda_path import Path
from joker.estimators.regression import (
    KernelHuber,
    KernelLp,
    KernelQuantile,
    KernelRegressor,
    KernelRidge,
    KernelSVR,
)
from joker.kernels import Kernel
from joker.losses import Loss
from joker.models.io import container, machines
from joker.models.io.container import Document
from joker.models.io.json_values import CustomObjects, decode, describe, encode, is_custom
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
# What a fit leaves behind, by its name in a file. An attribute that is not there is left out.
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
    "constant": "_constant",
    "one_output": "_ravel",
    "several_levels": "_several",
    "levels": "_levels",
}
# Errors that a document with sense in every byte but none as a whole may lead to.
SENSELESS = (JokerError, ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


def save(estimator: KernelEstimator, path: AnyPath, *, store_features: bool = False) -> None:
    """Write a fitted estimator to a file: see `KernelEstimator.save`."""
    check_is_fitted(estimator, "_machine")
    if type(estimator) is not ESTIMATORS.get(type(estimator).__name__):
        raise InvalidParameter(
            f"only estimators of joker can be saved, as a file holds no code; got {type(estimator).__name__}, a class "
            f"of your own. Use one of {', '.join(sorted(ESTIMATORS))}."
        )
    resolve.flag("store_features", store_features)
    _check_kernel(estimator)
    models = [estimator, *(estimator.path_.models if hasattr(estimator, "path_") else ())]
    packed, tensors = machines.pack([model._machine for model in models], store_features=store_features)
    settings = _settings(estimator)
    document = {
        "estimator": type(estimator).__name__,
        "written_by": {"joker": VERSION, "torch": str(torch.__version__)},
        "device": str(estimator._machine.constant.device),
        "needs": {name: describe(value) for name, value in settings.items() if is_custom(value)},
        "settings": {name: encode(value) for name, value in settings.items()},
        "fitted": _fitted(estimator),
        "machines": packed,
        **_path_document(estimator),
        **({"schema": estimator.schema_.to_json()} if hasattr(estimator, "schema_") else {}),
    }
    container.write(path, document, tensors, version=2 if np.ndim(estimator.bandwidth_) else 1)


def load(
    path: AnyPath,
    *,
    device: str | torch.device | None = None,
    kernel: Kernel | None = None,
    loss: Loss | None = None,
) -> Any:
    """Read an estimator that its method ``save`` wrote.

    Parameters
    ----------
    path : str or PathLike
        The file.
    device : str or torch.device, optional
        Where the estimator is to compute. Without it, where it did when it was saved if there is such a
        device here, else the CPU.
    kernel, loss : Kernel, Loss
        The kernel or loss that the estimator was made with, where it is one of your own: a file
        holds no code. An error says which is needed.

    Returns
    -------
    estimator
        As it was when it was saved, but for ``callbacks``, a function for ``early_stopping`` (True instead), what a
        warm start would go on from, and a ``random_state`` that is no number. On the same machine it predicts
        the same, bit for bit.

    Raises
    ------
    MissingFile
        If there is no such file.
    InvalidFile
        If the file is damaged, of another program, or of a newer joker.
    InvalidParameter
        If the device is not there, or ``kernel`` or ``loss`` do not suit the file.

    Examples
    --------
    >>> import numpy as np, joker
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = joker.KernelRidge(lam=0.01, bandwidth=1.0).fit(X, np.sin(X[:, 0]))
    >>> with TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "sine.joker")
    ...     again = joker.load(Path(folder) / "sine.joker")
    >>> bool(np.all(again.predict(X) == model.predict(X)))
    True
    """
    place = None if device is None else parse_device(device)
    document, tensors = container.read(path)
    with _sense_of(path):
        needs = {name: str(text) for name, text in document["needs"].items()}
    own = CustomObjects(kernel=_given("kernel", kernel, needs), loss=_given("loss", loss, needs))
    with _sense_of(path):
        estimator = _new(document, own)
        unpacked = machines.unpack(document["machines"], tensors, place or nearest_device(document["device"]), own)
        _restore(estimator, document, unpacked, own)
    if device is not None:
        estimator.device = device
    return estimator


def _check_kernel(estimator: KernelEstimator) -> None:
    """Refuse a kernel of the user's own that was changed after the fit: load would be given the wrong one."""
    kernel, given = machines.kernel_of(estimator._machine), estimator.kernel
    if not is_custom(kernel):
        return
    if not isinstance(given, Kernel) or describe(given.with_bandwidth(kernel.bandwidth)) != describe(kernel):
        raise InvalidParameter(
            f"kernel must be the one that the model was fitted with, {kernel!r}; got {given!r}. Fit again, or use "
            "set_params to put it back."
        )


def _settings(estimator: KernelEstimator) -> dict[str, Any]:
    """The constructor's parameters, as far as a file can keep them."""
    kept = {field.name: getattr(estimator, field.name) for field in fields(estimator) if field.init}
    kept.pop("callbacks", None)  # code
    if callable(kept["early_stopping"]):
        kept["early_stopping"] = True  # the function is code too
    if isinstance(kept["random_state"], np.random.RandomState):
        kept["random_state"] = None  # a stream, of which the fit has taken its part
    return kept


def _fitted(model: KernelEstimator) -> Document:
    found = vars(model)
    return {name: encode(found[attribute]) for name, attribute in FITTED.items() if attribute in found}


def _path_document(estimator: KernelEstimator) -> Document:
    if not hasattr(estimator, "path_"):
        return {}
    path, common = estimator.path_, _fitted(estimator)
    # What all models have in common is kept once: names of inputs may be many.
    models = [{name: value for name, value in _fitted(m).items() if value != common.get(name)} for m in path.models]
    return {"path": {"lam": encode(path.lam), "scores": encode(path.scores), "models": models}}


@contextmanager
def _sense_of(path: AnyPath) -> Iterator[None]:
    """Turn whatever an absurd document leads to into an error about the file."""
    try:
        yield
    except InexactFeatures:  # a warning that the user has made an error
        raise
    except SENSELESS as error:
        what = str(error) if isinstance(error, JokerError) else f"{type(error).__name__}: {error}"
        raise InvalidFile(
            f"{path} must hold a model that this joker ({VERSION}) can build, and does not: {what}. "
            "Upgrade joker if the file is of a newer one, or save the model again."
        ) from error


def _given(name: str, part: Any, needs: Mapping[str, str]) -> Any:
    """Return the part of the user's own that a file needs, once it is known to be the one."""
    if name not in needs:
        if part is not None:
            raise InvalidParameter(f"{name} must be left out, as the file needs none; got {part!r}. Leave it out.")
        return None
    if part is None or describe(part) != needs[name]:
        raise InvalidParameter(
            f"{name} must be the one that the model was made with, {needs[name]}, which is not joker's own: a file "
            f"holds no code; got {part!r}. Use joker.load(path, {name}={needs[name]})."
        )
    return part


def _new(document: Document, own: CustomObjects) -> KernelEstimator:
    name, settings = document["estimator"], document["settings"]
    if name not in ESTIMATORS:
        raise InvalidFile(f"the estimator {name!r} is not known")
    known = {field.name for field in fields(ESTIMATORS[name]) if field.init}
    if unknown := sorted(settings.keys() - known):
        raise InvalidFile(f"{name} has no parameter {', '.join(unknown)}")
    return ESTIMATORS[name](**{key: decode(value, own) for key, value in settings.items()})


def _restore(estimator: KernelEstimator, document: Document, machines: list[Machine], own: CustomObjects) -> None:
    """Put back what the fit had left behind."""
    # Keys that are not known are passed over, here and in the document at large: what a reader
    # must know to predict the same comes with a new version of the format, so the rest is comment.
    first, *others = machines
    if "schema" in document:
        estimator.schema_ = Schema.from_json(document["schema"])
    _become(estimator, document["fitted"], first, own)
    if "path" not in document:
        return
    path = document["path"]
    models = tuple(
        _become(copy.copy(estimator), fitted, machine, own)
        for fitted, machine in zip(path["models"], others, strict=True)
    )
    estimator.path_ = Path(decode(path["lam"], own), decode(path["scores"], own), models)
    if not len(estimator.path_.lam) == len(estimator.path_.scores) == len(models):
        raise InvalidFile("a path must have a λ and a score for each model")


def _become(model: KernelEstimator, fitted: Document, machine: Machine, own: CustomObjects) -> KernelEstimator:
    values = {FITTED[name]: decode(value, own) for name, value in fitted.items() if name in FITTED}
    model.__dict__.update(values, _machine=machine)
    _check(model, machine)
    return model


def _check(model: KernelEstimator, machine: Machine) -> None:
    """Refuse parts that do not fit one another."""
    inputs, t = model.n_features_in_, len(machine.constant)
    schema = getattr(model, "schema_", None)
    if schema is not None and schema.width != inputs:
        raise InvalidFile(f"the columns of the table must be the {inputs} inputs of the model; they are {schema.width}")
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", ())
    if machine.n_inputs != inputs or (names is not None and len(names) != inputs):
        raise InvalidFile(f"the model must have the {inputs} inputs it was fitted on; it has {machine.n_inputs}")
    if np.ndim(model.bandwidth_) and (np.shape(model.bandwidth_) != (inputs,) or not np.all(model.bandwidth_ > 0)):
        raise InvalidFile(f"there must be a positive bandwidth for each of {inputs} inputs; got {model.bandwidth_}")
    if np.shape(model._offset) != (t,) or not np.all(np.isfinite(model._offset)):
        raise InvalidFile(f"there must be a finite offset for each of {t} columns; got {model._offset}")
    if is_classifier(model) and t != (1 if len(classes) == 2 else len(classes)):
        raise InvalidFile(f"there must be a column for each class; got {t} columns and the classes {classes}")
    expected = len(model._levels) if getattr(model, "_several", False) else 1 if getattr(model, "_ravel", False) else t
    if t != expected:
        raise InvalidFile(f"there must be a column for each output or level, {expected}; got {t}")
