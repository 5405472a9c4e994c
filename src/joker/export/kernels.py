"""Kernels as ONNX operations: the matrix of k(x, z) for rows x of the graph and constant rows z."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from joker.errors import InvalidParameter
from joker.export.graph import BATCH, PREFIX, Graph, element_type
from joker.kernels import Cauchy, Gaussian, Kernel, Laplacian, Matern12, Matern32, Matern52, Polynomial
from joker.kernels.distance import SMALLEST_POWER

Array = NDArray[Any]
Rows = NDArray[np.float64]  # (n, d)


def kernel_matrix(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:  # (rows, n)
    """Return k(x, z) in ``dtype``, which is also the type of x."""
    if type(kernel) not in KERNELS:  # a class that is derived from one of these may be another function
        raise InvalidParameter(
            f"the kernel of an exported model must be one of joker; got {kernel!r}, a class of your own, which has no "
            "ONNX operations. Fit with a kernel of joker.kernels, or export a model with random features: they need "
            "no kernel."
        )
    return KERNELS[type(kernel)](graph, kernel, x, z, dtype)


def _squared_distance(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:  # (rows, n)
    """Return ‖x − z‖² / σ² by one matrix product, with the precautions of `joker.kernels.squared_distance`."""
    centre = z.mean(axis=0)
    scaled = (z - centre) / kernel.bandwidth
    shrink = 1 - (2 + math.sqrt(z.shape[1])) * float(np.finfo(dtype).eps)
    x = graph.op("Sub", x, graph.constant(centre.astype(dtype), "centre"))
    # One number for each input: ONNX Runtime merges a single factor with the product, and rounds it to float32.
    x = graph.op("Mul", x, graph.constant(np.full(z.shape[1], 1 / kernel.bandwidth, dtype)))
    norms = graph.op("ReduceSum", graph.op("Mul", x, x), graph.constant(np.array([1])), keepdims=1)
    norms = graph.op("Mul", norms, graph.constant(np.array(shrink, dtype)))
    fixed = (scaled.astype(dtype).astype(np.float64) ** 2).sum(axis=1) * shrink
    product = graph.op("MatMul", x, graph.constant((-2 * scaled.T).astype(dtype), "rows"))
    sums = graph.op("Add", graph.op("Add", product, graph.constant(fixed.astype(dtype))), norms)
    return graph.op("Max", sums, graph.constant(np.array(0, dtype)))


def _decay(graph: Graph, s: str, dtype: Any) -> str:
    """Return exp(−s), which is never a subnormal number."""
    least = SMALLEST_POWER * math.log(float(np.finfo(dtype).tiny))
    return graph.op("Exp", graph.op("Max", graph.op("Neg", s), graph.constant(np.array(least, dtype))))


def _scaled_root(graph: Graph, r2: str, factor: float, dtype: Any) -> str:
    return graph.op("Sqrt", graph.op("Mul", r2, graph.constant(np.array(factor, dtype))))


def _gaussian(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    r2 = _squared_distance(graph, kernel, x, z, dtype)
    return _decay(graph, graph.op("Mul", r2, graph.constant(np.array(0.5, dtype))), dtype)


def _cauchy(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    r2 = _squared_distance(graph, kernel, x, z, dtype)
    return graph.op("Reciprocal", graph.op("Add", r2, graph.constant(np.array(1, dtype))))


def _matern12(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    # As in joker, the distance is computed in float64: the square root multiplies rounding errors near 0.
    wide = x if dtype == np.float64 else graph.cast(x, np.float64)
    r = graph.op("Sqrt", _squared_distance(graph, kernel, wide, z, np.float64))
    return _decay(graph, r if dtype == np.float64 else graph.cast(r, dtype), dtype)


def _matern32(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    s = _scaled_root(graph, _squared_distance(graph, kernel, x, z, dtype), 3, dtype)
    return graph.op("Mul", graph.op("Add", s, graph.constant(np.array(1, dtype))), _decay(graph, s, dtype))


def _matern52(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    s = _scaled_root(graph, _squared_distance(graph, kernel, x, z, dtype), 5, dtype)
    third = graph.op("Mul", graph.op("Mul", s, s), graph.constant(np.array(1 / 3, dtype)))
    power = graph.op("Add", graph.op("Add", s, third), graph.constant(np.array(1, dtype)))
    return graph.op("Mul", power, _decay(graph, s, dtype))


def _laplacian(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    """Return exp(−‖x − z‖₁/σ), one input at a time: all differences at once would need d times the memory."""
    inverse = 1 / kernel.bandwidth
    columns = graph.op("Transpose", graph.op("Mul", x, graph.constant(np.array(inverse, dtype))), perm=[1, 0])
    fixed = graph.constant(np.ascontiguousarray((z * inverse).T.astype(dtype)), "rows")
    rows = graph.op("Shape", x, start=0, end=1)
    shape = graph.op("Concat", rows, graph.constant(np.array([len(z)])), axis=0)
    zeros = graph.op("Expand", graph.constant(np.zeros((1, 1), dtype)), shape)
    r = graph.op("Scan", zeros, columns, fixed, body=_one_input(dtype, len(z)), num_scan_inputs=2)
    return _decay(graph, r, dtype)


def _one_input(dtype: Any, n: int) -> Any:
    """The graph that adds |x_j − z_j| of one input j to the distances."""
    number = element_type(dtype)
    before, x, z, one, column, difference, size, after = (
        f"{PREFIX}{name}" for name in ("before", "x_j", "z_j", "one", "column", "difference", "size", "after")
    )
    nodes = [
        helper.make_node("Unsqueeze", [x, one], [column]),
        helper.make_node("Sub", [column, z], [difference]),
        helper.make_node("Abs", [difference], [size]),
        helper.make_node("Add", [before, size], [after]),
    ]
    inputs = [
        helper.make_tensor_value_info(before, number, [BATCH, n]),
        helper.make_tensor_value_info(x, number, [BATCH]),
        helper.make_tensor_value_info(z, number, [n]),
    ]
    outputs = [helper.make_tensor_value_info(after, number, [BATCH, n])]
    axis = helper.make_tensor(one, element_type(np.int64), [1], [1])
    return helper.make_graph(nodes, "one_input", inputs, outputs, [axis])


def _polynomial(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    assert isinstance(kernel, Polynomial)
    product = graph.op("MatMul", x, graph.constant((z.T / kernel.bandwidth**2).astype(dtype), "rows"))
    base = graph.op("Add", product, graph.constant(np.array(1, dtype)))
    return graph.op("Pow", base, graph.constant(np.array(kernel.degree, dtype)))


KERNELS: dict[type[Kernel], Callable[[Graph, Kernel, str, Rows, Any], str]] = {
    Cauchy: _cauchy,
    Gaussian: _gaussian,
    Laplacian: _laplacian,
    Matern12: _matern12,
    Matern32: _matern32,
    Matern52: _matern52,
    Polynomial: _polynomial,
}
