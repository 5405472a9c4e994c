"""The file of a fitted estimator as it is written: tensors, and a JSON document with everything else."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from joker.errors import InvalidParameter
from joker.estimators import resolve
from joker.kernels import Kernel
from joker.models.io import container, machines
from joker.models.io.container import Document
from joker.models.io.json_values import describe, encode, is_custom
from joker.models.io.reader import Tensors
from joker.runtime import VERSION
from joker.runtime.atomic_file import AnyPath

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


def save(estimator: Any, path: AnyPath, *, store_features: bool = False) -> None:
    """Write a fitted estimator to a file: see `KernelEstimator.save`."""
    document, tensors = document_of(estimator, store_features=store_features)
    container.write(path, document, tensors, version=_version(estimator))


def document_of(estimator: Any, *, store_features: bool = False) -> tuple[Document, Tensors]:
    """Return the document and the tensors of a fitted estimator, from which `persistence.restore` builds it."""
    check_is_fitted(estimator, "_machine")
    _check_class(type(estimator))
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
    return document, tensors


def _version(estimator: Any) -> int:
    """The lowest version of the format that can represent the model."""
    calibrated = len(getattr(estimator, "classes_", ())) > 2 and estimator._loss().sigmoid
    if np.any(estimator._target_scale != 1) or calibrated:
        return 3
    return 2 if np.ndim(estimator.bandwidth_) else 1


def _check_class(kind: type) -> None:
    """Refuse a class of the user's own: a file holds no code, so that it could not be loaded."""
    ours = next(base for base in kind.__mro__ if base.__module__.startswith(f"{__package__}."))
    if ours is not kind:
        raise InvalidParameter(
            f"only estimators of joker can be saved, as a file holds no code; got {kind.__name__}, a class of your "
            f"own. Use {ours.__name__}."
        )


def _check_kernel(estimator: Any) -> None:
    """Refuse a kernel of the user's own that was replaced after the fit: load would be given the wrong one."""
    kernel, given = machines.kernel_of(estimator._machine), estimator.kernel
    if not is_custom(kernel):
        return
    if not isinstance(given, Kernel) or describe(given.with_bandwidth(kernel.bandwidth)) != describe(kernel):
        raise InvalidParameter(
            f"kernel must be the one that the model was fitted with, {kernel!r}; got {given!r}. Fit again, or restore "
            "it with set_params."
        )


def _settings(estimator: Any) -> dict[str, Any]:
    """The parameters of the constructor that a file can hold."""
    settings = {field.name: getattr(estimator, field.name) for field in fields(estimator) if field.init}
    settings.pop("callbacks", None)  # a file holds no code
    if callable(settings["early_stopping"]):
        settings["early_stopping"] = True  # the function is code too
    if isinstance(settings["random_state"], np.random.RandomState):
        settings["random_state"] = None  # the fit has advanced the generator, so that it would not repeat the fit
    return settings


def _fitted(model: Any) -> Document:
    attributes = vars(model)
    return {name: encode(attributes[attribute]) for name, attribute in FITTED.items() if attribute in attributes}


def _path_document(estimator: Any) -> Document:
    if not hasattr(estimator, "path_"):
        return {}
    path, common = estimator.path_, _fitted(estimator)
    # Values that all models share are stored once: the names of the inputs may be many.
    models = [{name: value for name, value in _fitted(m).items() if value != common.get(name)} for m in path.models]
    return {"path": {"lam": encode(path.lam), "scores": encode(path.scores), "models": models}}
