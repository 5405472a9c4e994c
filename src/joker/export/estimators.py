"""Kernel estimators as ONNX operations: from rows as a user passes them to predictions, classes and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from joker.errors import InvalidParameter
from joker.estimators.prediction_form import CALIBRATED, NORMALISED_SIGMOIDS, SIGMOID, PredictionForm, prediction_form
from joker.export.graph import Array, Graph
from joker.export.machines import decision

INPUTS = "inputs"
LABEL, DECISION, PROBABILITIES, PREDICTION = "label", "decision_function", "probabilities", "prediction"


def build(graph: Graph, model: Any, dtype: str, outer: Any) -> None:
    """Add the input, the operations and the outputs of a fitted kernel estimator to a graph."""
    form = prediction_form(model)
    inner = inner_type(form, dtype)
    x = graph.add_input(INPUTS, outer, model.n_features_in_)
    x = x if inner == outer else graph.cast(x, inner)
    add_outputs(graph, form, values(graph, form, x, inner), outer)


def inner_type(form: PredictionForm, dtype: str) -> Any:
    """The type of the computation of one kernel machine."""
    return np.dtype(str(form.machine.dtype).removeprefix("torch.") if dtype == "auto" else dtype).type


def values(graph: Graph, form: PredictionForm, x: str, dtype: Any) -> str:  # (rows, t)
    """Return f in the unit of the targets, of unscaled inputs x in ``dtype``; quantile levels are sorted."""
    if form.scaling is not None:
        mean = form.scaling.mean.double().cpu().numpy()
        factor = form.scaling.factor(torch.float64).cpu().numpy()
        x = graph.op("Sub", x, graph.constant(mean.astype(dtype), "mean"))
        x = graph.op("Mul", x, graph.constant(factor.astype(dtype), "factor"))
    f = decision(graph, form.machine, x, dtype)
    if np.any(form.target_scale != 1):
        f = graph.op("Mul", f, graph.constant(form.target_scale.astype(dtype), "target_scale"))
    if np.any(form.offset):
        f = graph.op("Add", f, graph.constant(form.offset.astype(dtype), "offset"))
    if form.ranks is None:
        return f
    levels = len(form.ranks)
    f = graph.op("TopK", f, graph.constant(np.array([levels])), outputs=2, axis=1, largest=0, sorted=1)
    return graph.op("Gather", f, graph.constant(form.ranks.astype(np.int64)), axis=1)


def add_outputs(graph: Graph, form: PredictionForm, f: str, outer: Any) -> None:
    """Make the predictions outputs of the graph, in the type ``outer``."""
    if form.classes is None:
        _check_unit(form, outer)
        shape = () if form.one_column else (len(form.offset),)
        f = graph.op("Squeeze", f, graph.constant(np.array([1]))) if form.one_column else f
        graph.add_output(PREDICTION, graph.cast(f, outer), outer, shape)
        return
    two = len(form.classes) == 2
    probabilities = _probabilities(graph, form, f)
    code = (
        graph.cast(graph.op("Squeeze", _positive(graph, f), graph.constant(np.array([1]))), np.int64)
        if two
        else graph.op("ArgMax", f, axis=1, keepdims=0)
    )
    add_labels(graph, form.classes, code)
    flat = graph.op("Squeeze", f, graph.constant(np.array([1]))) if two else f
    graph.add_output(DECISION, graph.cast(flat, outer), outer, () if two else (len(form.classes),))
    if probabilities is not None:
        graph.add_output(PROBABILITIES, graph.cast(probabilities, outer), outer, (len(form.classes),))


def add_labels(graph: Graph, classes: Array, code: str) -> None:
    """Make the classes with these numbers an output."""
    labels = as_labels(classes)
    graph.add_output(LABEL, graph.op("Gather", graph.constant(labels, "classes"), code, axis=0), labels.dtype, ())


def as_labels(classes: Array) -> Array:
    """Classes in a type of ONNX: int64, float64, bool or text."""
    kinds = {"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}
    kind = classes.dtype.kind
    return classes.astype(kinds[kind]) if kind in kinds else classes.astype(str)


def _positive(graph: Graph, f: str) -> str:
    return graph.op("Greater", f, graph.op("CastLike", graph.constant(np.array(0.0)), f))


def _probabilities(graph: Graph, form: PredictionForm, f: str) -> str | None:  # (rows, classes)
    if form.probabilities is None:
        return None
    one = graph.op("CastLike", graph.constant(np.array(1.0)), f)
    if form.probabilities == SIGMOID:
        p = graph.op("Sigmoid", f)
        return graph.op("Concat", graph.op("Sub", one, p), p, axis=1)
    if form.probabilities == NORMALISED_SIGMOIDS:
        p = graph.op("Sigmoid", f)
        return graph.op("Div", p, graph.op("ReduceSum", p, graph.constant(np.array([1])), keepdims=1))
    two = len(form.classes) == 2 if form.classes is not None else False
    slope = graph.op("CastLike", graph.constant(np.array(form.slope / 2 if two else form.slope)), f)
    if form.probabilities == CALIBRATED:
        assert form.offsets is not None
        values = graph.op("Concat", graph.op("Neg", f), f, axis=1) if two else f
        offsets = graph.op("CastLike", graph.constant(np.asarray(form.offsets, dtype=np.float64)), f)
        return graph.op("Softmax", graph.op("Add", graph.op("Mul", values, slope), offsets), axis=1)
    return graph.op("Softmax", graph.op("Mul", f, slope), axis=1)


def _check_unit(form: PredictionForm, outer: Any) -> None:
    """Refuse targets that the type of the outputs cannot represent."""
    if np.dtype(outer) == np.float32 and form.dtype == np.float64 and form.machine.dtype == torch.float32:
        raise InvalidParameter(
            f"predictions must be representable in float32; their unit is {form.target_scale.max():g}, and their mean "
            f"{form.offset.max():g}. Use dtype='float64'."
        )
