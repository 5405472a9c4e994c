"""Models in files, as the program sees them: their columns, and what there is to tell of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joker.data import Schema, Source, open_source
from joker.errors import InvalidData, InvalidParameter
from joker.models import FeatureMachine
from joker.runtime import format_bytes

if TYPE_CHECKING:
    from joker.estimators.base import KernelEstimator

OF_A_LOSS = ("loss", "delta", "epsilon", "p", "quantile")


def open_model(path: Path, *, device: str | None = None, memory: str | None = None) -> KernelEstimator:
    """Read a model; it computes where and in as much memory as is told."""
    from joker.estimators import load  # scikit-learn takes its time, and --help has no need of it

    model: KernelEstimator = load(path, device=device)
    return model if memory is None else model.set_params(memory=memory)


def open_like_training(data: Path, model: KernelEstimator, target: str | None, **layout: Any) -> Source:
    """Open a table with the columns that the model was fitted on."""
    schema = schema_of(model)
    model.__dict__.pop("feature_names_in_", None)  # the schema sees to them, and batches are arrays
    source = open_source(data, target=target, schema=schema, **layout)
    if source.schema.width != model.n_features_in_:
        raise InvalidData(
            f"{data}: the model must be given the {model.n_features_in_} inputs it was fitted on, which have no names; "
            f"the table has {source.schema.width}. Leave out the others."
        )
    return source


def schema_of(model: KernelEstimator) -> Schema | None:
    """The columns of the table that the model was fitted on; None where they had no names."""
    schema: Schema | None = getattr(model, "schema_", None)
    if schema is not None:
        return schema
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else Schema.numbers([str(name) for name in names])


def outputs(model: KernelEstimator, proba: bool) -> tuple[list[str], Callable[[Any], list[Any]]]:
    """Names of the columns that are predicted, and what gives them for a batch of rows."""
    if not proba:
        return _names(model), lambda x: _columns(model.predict(x))
    if not hasattr(model, "predict_proba"):
        raise InvalidParameter(
            f"--proba must go with a model of the loss logistic, which has probabilities; this is a {title(model)}. "
            "Leave --proba out, or fit with --loss logistic."
        )
    names = ["prediction", *(f"probability={label}" for label in model.classes_.tolist())]

    def both(x: Any) -> list[Any]:
        p = model.predict_proba(x)
        return [model.classes_[p.argmax(axis=1)], *p.T]

    return names, both


def title(model: KernelEstimator) -> str:
    """What a model is called: its class and its loss."""
    loss = getattr(model, "loss", None)
    return f"{type(model).__name__} ({loss})" if isinstance(loss, str) else type(model).__name__


def facts_of(model: KernelEstimator, path: Path | None) -> dict[str, Any]:
    """What there is to tell of a model."""
    schema, machine, classes = schema_of(model), model._machine, getattr(model, "classes_", None)
    return {
        "model": None if path is None else str(path),
        "estimator": type(model).__name__,
        **_parameters(model),
        "kernel": str(model.kernel),
        "bandwidth": model.bandwidth_,
        "lam": model.lam_,
        "features": len(machine.theta) - model._constant if isinstance(machine, FeatureMachine) else "exact",
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
    """The loss and its parameters, those that are set."""
    found = {field.name: getattr(model, field.name) for field in fields(model) if field.name in OF_A_LOSS}
    return {name: value for name, value in found.items() if value is not None}


def _path(model: KernelEstimator) -> dict[str, float] | None:
    """How each λ did on held-out rows; higher is better."""
    if not hasattr(model, "path_"):
        return None
    return {f"{lam:g}": float(score) for lam, score in zip(model.path_.lam, model.path_.scores, strict=True)}


def _names(model: KernelEstimator) -> list[str]:
    if getattr(model, "_several", False):
        return [f"prediction={level:g}" for level in model._levels]
    t = 1 if getattr(model, "_ravel", True) else len(model._offset)
    return ["prediction"] if t == 1 else [f"prediction{j}" for j in range(t)]


def _columns(predicted: Any) -> list[Any]:
    return [predicted] if predicted.ndim == 1 else list(predicted.T)
