"""Models in files: their columns, and the facts that the program prints about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from joker.cli import table_models
from joker.data import Schema, Source, open_source
from joker.errors import InvalidData, InvalidParameter
from joker.runtime import format_bytes

if TYPE_CHECKING:
    from joker.estimators.base import KernelEstimator

LOSS_SETTINGS = ("loss", "delta", "epsilon", "p", "quantile")


def open_model(path: Path, *, device: str | None = None, memory: str | None = None) -> KernelEstimator:
    """Read a model that computes on ``device`` and in at most ``memory``."""
    from joker.tables import load  # imports scikit-learn, which is slow and which --help does not need

    model: KernelEstimator = load(path, device=device)
    return model if memory is None else model.set_params(memory=memory)


def open_like_training(data: Path, model: KernelEstimator, target: str | None, **table_format: Any) -> Source:
    """Open a table with the columns that the model was fitted on."""
    schema = schema_of(model)
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # the schema checks the names; batches are arrays without names
    source = open_source(data, target=target, schema=schema, **table_format)
    if source.schema.width != model.n_features_in_:
        raise InvalidData(
            f"{data}: the table must have the {model.n_features_in_} inputs that the model was fitted on, which have "
            f"no names; it has {source.schema.width}. Leave out the others."
        )
    return source


def schema_of(model: KernelEstimator) -> Schema | None:
    """The columns of the table that the model was fitted on; None if they had no names."""
    schema: Schema | None = getattr(model, "schema_", None)
    if schema is not None:
        return schema
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else Schema.numbers([str(name) for name in names])


def outputs(model: KernelEstimator, proba: bool) -> tuple[list[str], Callable[[Any], list[Any]]]:
    """The names of the predicted columns, and the function that computes them for a batch of rows."""
    if not proba:
        return _names(model), lambda x: _columns(model.predict(x))
    if not hasattr(model, "predict_proba"):
        raise InvalidParameter(
            f"--proba needs a model of the loss logistic, which has probabilities; this is a {title(model)}. "
            "Leave --proba out, or fit with --loss logistic or --calibrate."
        )
    return table_models.probability_outputs(model)


def title(model: KernelEstimator) -> str:
    """The class and the loss of a model."""
    loss = getattr(model, "loss", None)
    return f"{type(model).__name__} ({loss})" if isinstance(loss, str) else type(model).__name__


def facts_of(model: KernelEstimator, path: Path | None, *, as_json: bool = False) -> dict[str, Any]:
    """The facts about a model that the program prints."""
    if table_models.is_table_model(model):
        return table_models.facts_of(model, path, as_json=as_json)
    schema, classes = schema_of(model), getattr(model, "classes_", None)
    return {
        "model": None if path is None else str(path),
        "estimator": type(model).__name__,
        **_parameters(model),
        "kernel": str(model.kernel),
        "bandwidth": model.bandwidth_,
        "lam": model.lam_,
        "features": np.shape(model.coef_)[-1] if hasattr(model, "coef_") else "exact",
        "inputs": model.n_features_in_,
        "columns": None if schema is None else list(schema.names),
        "target": None if schema is None else schema.target,
        "classes": None if classes is None else classes.tolist(),
        "standardized": hasattr(model, "mean_"),
        "epochs": model.history_[-1]["epoch"],
        "seconds": model.history_[-1]["seconds"],
        "gap": model.gap_,
        "scores_held_out": _path(model),
        "ended": str(model.stop_reason_),
        "size": None if path is None else format_bytes(path.stat().st_size),
    }


def _parameters(model: KernelEstimator) -> dict[str, Any]:
    """The loss and those of its parameters that are set."""
    values = {field.name: getattr(model, field.name) for field in fields(model) if field.name in LOSS_SETTINGS}
    return {name: value for name, value in values.items() if value is not None}


def _path(model: KernelEstimator) -> dict[str, float] | None:
    """The score of each λ on held-out rows; higher is better."""
    if not hasattr(model, "path_"):
        return None
    return {f"{lam:g}": float(score) for lam, score in zip(model.path_.lam, model.path_.scores, strict=True)}


def _names(model: KernelEstimator) -> list[str]:
    levels: Any = getattr(model, "quantile", None)
    if np.ndim(levels):
        return [f"prediction={level:g}" for level in levels]
    outputs = 1 if hasattr(model, "classes_") else np.size(model.intercept_)
    return ["prediction"] if outputs == 1 else [f"prediction{j}" for j in range(outputs)]


def _columns(predicted: Any) -> list[Any]:
    return [predicted] if predicted.ndim == 1 else list(predicted.T)
