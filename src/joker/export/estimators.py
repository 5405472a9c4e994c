"""Kernel estimators as ONNX operations: from rows as a user passes them to predictions, classes and probabilities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from joker.errors import InvalidParameter
from joker.estimators.model import CALIBRATED, NORMALISED_SIGMOIDS, SIGMOID, PredictionForm, prediction_form
from joker.export.operations import Array, Graph, feature_sum, kernel_matrix
from joker.features.feature_map import FeaturesWithConstant
from joker.kernels import Kernel, Linear
from joker.kernels.kernel import KernelWithConstant
from joker.models import FeatureMachine
from joker.runtime import format_bytes

MAX_BYTES = 2**31 - 2**20  # of one file: the limit of the format of ONNX, with room for the graph


def _with_features(graph: Graph, machine: Any, x: str, dtype: Any) -> str:  # (rows, t)
    """Return f of the rows x, both in ``dtype``."""
    features, theta = machine.features, machine.theta.detach().cpu().double().numpy()
    constant = np.zeros(theta.shape[1])
    if isinstance(features, FeaturesWithConstant):
        features, theta, constant = features.inner, theta[:-1], theta[-1]
    check_size(features.n_inputs * features.n_features, dtype, "random features")
    f = feature_sum(graph, features, x, theta, dtype)
    return graph.op("Add", f, graph.constant(constant.astype(dtype), "intercept"))


def _exact(graph: Graph, machine: Any, x: str, dtype: Any) -> str:  # (rows, t)
    """Return f of the rows x, both in ``dtype``."""
    kernel: Kernel = machine.kernel
    alpha = machine.alpha.detach().cpu().double().numpy()
    constant = np.zeros(alpha.shape[1])
    if isinstance(kernel, KernelWithConstant):
        kernel, constant = kernel.inner, alpha.sum(axis=0)
    used = np.flatnonzero(np.any(alpha != 0, axis=1))  # a row with weight 0 changes no prediction
    used = used if len(used) else np.arange(1)
    check_size(len(used) * machine.n_inputs, dtype, "training rows")
    z = machine.x[slice(0, len(machine.x))].detach().cpu().double().numpy()[used]
    if type(kernel) is Linear:
        f = graph.op("MatMul", x, graph.constant((z.T @ alpha[used]).astype(dtype), "weights"))
    else:
        matrix = kernel_matrix(graph, kernel, x, z, dtype)
        f = graph.op("MatMul", matrix, graph.constant(alpha[used].astype(dtype), "alpha"))
    return graph.op("Add", f, graph.constant(constant.astype(dtype), "intercept"))


def check_size(numbers: int, dtype: Any, what: str) -> None:
    """Refuse constants that one file cannot hold."""
    nbytes = numbers * np.dtype(dtype).itemsize
    if nbytes > MAX_BYTES:
        raise InvalidParameter(
            f"an ONNX file must be smaller than 2 GiB; the {what} of this model take {format_bytes(nbytes)}. Use "
            "dtype='float32', or fit with fewer features or rows."
        )


INPUTS = "inputs"
TRANSFORMED = "transformed"
LABEL, DECISION, PROBABILITIES, PREDICTION = "label", "decision_function", "probabilities", "prediction"


def build(graph: Graph, model: Any, dtype: str, outer: Any) -> None:
    """Add the input, the operations and the outputs of a fitted kernel estimator to a graph."""
    form = prediction_form(model)
    if form.features_only:
        form = _as_sums(form)
    inner = inner_type(form, dtype)
    x = graph.add_input(INPUTS, outer, model.n_features_in_)
    x = x if inner == outer else graph.cast(x, inner)
    f = values(graph, form, x, inner)
    if form.classes is not None:
        _add_classes(graph, form, form.classes, f, outer)
        return
    if hasattr(model, "transform"):
        graph.add_output(TRANSFORMED, graph.cast(f, outer), outer, (len(form.offset),))
        return
    if form.one_class:
        _add_outliers(graph, f, outer)
        return
    if outer == np.float32 and form.dtype == np.float64 and form.machine.dtype == torch.float32:
        raise InvalidParameter(
            f"predictions must be representable in float32; their unit is {form.target_scale.max():g}, and their mean "
            f"{form.offset.max():g}. Use dtype='float64'."
        )
    f = graph.over_columns("Squeeze", f) if form.one_column else f
    graph.add_output(PREDICTION, graph.cast(f, outer), outer, () if form.one_column else (len(form.offset),))


def _as_sums(form: PredictionForm) -> PredictionForm:
    """Return the form whose predictions are the features themselves."""
    features = form.machine.features  # type: ignore[attr-defined]  # it has features
    m = features.n_features
    check_size(m * m, np.float64, "features")
    theta = torch.eye(m, dtype=form.machine.dtype)
    return replace(form, machine=FeatureMachine(features, theta), target_scale=np.ones(m), offset=np.zeros(m))


def inner_type(form: PredictionForm, dtype: str) -> Any:
    """The type of the computation of one kernel machine."""
    return np.dtype(str(form.machine.dtype).removeprefix("torch.") if dtype == "auto" else dtype).type


def values(graph: Graph, form: PredictionForm, x: str, dtype: Any) -> str:  # (rows, t)
    """Return predictions of unscaled inputs x in ``dtype``: in the unit of y, and of levels in their order."""
    if form.scaling is not None:
        mean = form.scaling.mean.double().cpu().numpy()
        factor = form.scaling.factor(torch.float64).cpu().numpy()
        x = graph.op("Sub", x, graph.constant(mean.astype(dtype), "mean"))
        x = graph.op("Mul", x, graph.constant(factor.astype(dtype), "factor"))
    decision = _with_features if isinstance(form.machine, FeatureMachine) else _exact
    f = decision(graph, form.machine, x, dtype)
    if np.any(form.target_scale != 1):
        f = graph.op("Mul", f, graph.constant(form.target_scale.astype(dtype), "target_scale"))
    if np.any(form.offset):
        f = graph.op("Add", f, graph.constant(form.offset.astype(dtype), "offset"))
    if form.exponential:
        limits = np.finfo(form.dtype if form.dtype == dtype else dtype)
        low, high = np.ceil(np.log(limits.tiny)), np.floor(np.log(limits.max))
        return graph.op("Exp", graph.op("Clip", f, graph.like(f, low), graph.like(f, high)))
    if form.ranks is None:
        return f
    levels = len(form.ranks)
    f = graph.op("TopK", f, graph.constant(np.array([levels])), outputs=2, axis=1, largest=0, sorted=1)
    return graph.op("Gather", f, graph.constant(form.ranks.astype(np.int64)), axis=1)


def _add_classes(graph: Graph, form: PredictionForm, classes: Array, f: str, outer: Any) -> None:
    """Make labels, decision values and probabilities outputs of the graph, in the type ``outer``."""
    probabilities = _probabilities(graph, form, f, len(classes))
    if len(classes) == 2:
        f = graph.over_columns("Squeeze", f)
        add_labels(graph, classes, graph.cast(graph.op("Greater", f, graph.like(f, 0.0)), np.int64))
        graph.add_output(DECISION, graph.cast(f, outer), outer, ())
    else:
        add_labels(graph, classes, graph.op("ArgMax", f, axis=1, keepdims=0))
        graph.add_output(DECISION, graph.cast(f, outer), outer, (len(classes),))
    if probabilities is not None:
        graph.add_output(PROBABILITIES, graph.cast(probabilities, outer), outer, (len(classes),))


def _add_outliers(graph: Graph, f: str, outer: Any) -> None:
    """Make the labels 1 and −1 and the decision values outputs of the graph."""
    f = graph.over_columns("Squeeze", f)
    inlier = graph.cast(graph.op("GreaterOrEqual", f, graph.like(f, 0.0)), np.int64)
    add_labels(graph, np.array([-1, 1]), inlier)
    graph.add_output(DECISION, graph.cast(f, outer), outer, ())


def add_labels(graph: Graph, classes: Array, code: str) -> None:
    """Make the classes with these numbers an output, in a type of ONNX: int64, float64, bool or text."""
    kinds = {"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}
    labels: Array = classes.astype(kinds.get(classes.dtype.kind, str))
    graph.add_output(LABEL, graph.op("Gather", graph.constant(labels, "classes"), code, axis=0), labels.dtype, ())


def _probabilities(graph: Graph, form: PredictionForm, f: str, classes: int) -> str | None:  # (rows, classes)
    if form.probabilities is None:
        return None
    if form.probabilities == SIGMOID:
        p = graph.op("Sigmoid", f)
        return graph.op("Concat", graph.op("Sub", graph.like(f, 1.0), p), p, axis=1)
    if form.probabilities == NORMALISED_SIGMOIDS:
        p = graph.op("Sigmoid", f)
        return graph.op("Div", p, graph.over_columns("ReduceSum", p, keepdims=1))
    slope = graph.like(f, form.slope / 2 if classes == 2 else form.slope)
    if form.probabilities == CALIBRATED:
        scores = graph.op("Concat", graph.op("Neg", f), f, axis=1) if classes == 2 else f
        scores = graph.op("Add", graph.op("Mul", scores, slope), graph.like(f, form.offsets))
        return graph.op("Softmax", scores, axis=1)
    return graph.op("Softmax", graph.op("Mul", f, slope), axis=1)
