"""Fitted machines as ONNX operations: from scaled inputs to f."""

from __future__ import annotations

from typing import Any

import numpy as np

from joker.errors import InvalidParameter
from joker.export.features import feature_sum
from joker.export.graph import Graph
from joker.export.kernels import kernel_matrix
from joker.features.with_constant import WithConstant as FeaturesWithConstant
from joker.kernels import Kernel, Linear
from joker.kernels.with_constant import WithConstant as KernelWithConstant
from joker.models import ExactMachine, FeatureMachine, Machine
from joker.runtime import format_bytes

MAX_BYTES = 2**31 - 2**20  # of one file: the limit of the format of ONNX, with room for the graph


def decision(graph: Graph, machine: Machine, x: str, dtype: Any) -> str:  # (rows, t)
    """Return f of the rows x, both in ``dtype``."""
    if isinstance(machine, FeatureMachine):
        return _with_features(graph, machine, x, dtype)
    assert isinstance(machine, ExactMachine)
    return _exact(graph, machine, x, dtype)


def _with_features(graph: Graph, machine: FeatureMachine, x: str, dtype: Any) -> str:
    features, theta = machine.features, machine.theta.detach().cpu().double().numpy()
    constant = np.zeros(theta.shape[1])
    if isinstance(features, FeaturesWithConstant):
        features, theta, constant = features.inner, theta[:-1], theta[-1]
    check_size(features.n_inputs * features.n_features, dtype, "random features")
    f = feature_sum(graph, features, x, theta, dtype)
    return graph.op("Add", f, graph.constant(constant.astype(dtype), "intercept"))


def _exact(graph: Graph, machine: ExactMachine, x: str, dtype: Any) -> str:
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
