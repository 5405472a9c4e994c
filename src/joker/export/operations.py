"""A graph of ONNX operations that is built one node at a time, and kernels and feature maps as such operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from joker.errors import InvalidParameter
from joker.features import FeatureMap
from joker.features.dot_product import Identity, TensorSketch
from joker.features.fourier import Fourier, FourierPairs, Structured
from joker.kernels import Cauchy, Gaussian, Kernel, Laplacian, Matern12, Matern32, Matern52, Polynomial
from joker.kernels.kernel import SMALLEST_POWER

OPSET, ML_OPSET, IR_VERSION = 18, 3, 8  # ONNX Runtime 1.17 reads up to opset 20 and IR version 9
Array = NDArray[Any]
Rows = NDArray[np.float64]  # (n, d)
Weights = NDArray[np.float64]  # (m, t)
PREFIX = "joker/"  # of inner names, so that they differ from those of columns
BATCH = "rows"  # the name of the dimension that may have any size


class Graph:
    """Nodes, constants, inputs and outputs; a value of the graph is the name of its tensor."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._count = 0

    def _name(self, stem: str) -> str:
        """Return a new name."""
        self._count += 1
        return f"{PREFIX}{stem}_{self._count}"

    def op(self, kind: str, *arguments: str, domain: str = "", outputs: int = 1, **attributes: Any) -> str:
        """Add a node, and return its last output."""
        names = [self._name(kind) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, arguments, names, domain=domain, **attributes))
        return names[0]

    def constant(self, values: Any, stem: str = "constant") -> str:
        """Add a constant array, of numbers or of text."""
        array = np.asarray(values)
        name = self._name(stem)
        if array.dtype.kind in "UO":
            texts = [str(value).encode() for value in array.ravel()]
            self.constants.append(helper.make_tensor(name, TensorProto.STRING, array.shape, texts))
        else:
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def number(self, value: float, dtype: Any = np.float64) -> str:
        """Add a constant number."""
        return self.constant(np.array(value, dtype))

    def like(self, value: str, number: Any) -> str:
        """Add a constant in the type of a value."""
        return self.op("CastLike", self.constant(np.asarray(number, dtype=np.float64)), value)

    def over_columns(self, kind: str, value: str, **attributes: Any) -> str:
        """Add a node that works along the columns, such as a sum of each row."""
        return self.op(kind, value, self.constant(np.array([1])), **attributes)

    def cast(self, value: str, dtype: Any) -> str:
        """Return a value in another type."""
        return self.op("Cast", value, to=element_type(dtype))

    def cosine(self, angle: str, dtype: Any) -> str:
        """Return the cosine; in float64 as a sine, because ONNX Runtime 1.17 has no cosine of that type."""
        if np.dtype(dtype) == np.float32:
            return self.op("Cos", angle)
        return self.op("Sin", self.op("Add", angle, self.constant(np.array(np.pi / 2, dtype))))

    def add_input(self, name: str, dtype: Any, width: int) -> str:
        """Add an input of ``width`` columns and any number of rows."""
        self.inputs.append(helper.make_tensor_value_info(name, element_type(dtype), [BATCH, width]))
        return name

    def add_output(self, name: str, value: str, dtype: Any, shape: Sequence[int]) -> None:
        """Make a value an output, with any number of rows; ``shape`` is the shape of one row."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, element_type(dtype), [BATCH, *shape]))

    def model(self, title: str, version: str, metadata: dict[str, str], text: str) -> Any:
        """Return the checked model."""
        graph = helper.make_graph(self.nodes, title, self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(
            graph, producer_name="joker", producer_version=version, opset_imports=opsets, doc_string=text
        )
        model.ir_version = IR_VERSION
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model, full_check=True)
        return model


def element_type(dtype: Any) -> int:
    """The number of a NumPy type in ONNX; text is STRING."""
    kind = np.dtype(dtype)
    return int(TensorProto.STRING if kind.kind in "UO" else helper.np_dtype_to_tensor_dtype(kind))


def kernel_matrix(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:  # (rows, n)
    """Return k(x, z) in ``dtype``, which is also the type of x."""
    if type(kernel) not in KERNELS:  # a class that is derived from one of these may be another function
        own = "a matrix or a function" if kernel.external else "a class"
        raise InvalidParameter(
            f"the kernel of an exported model must be one of joker; got {kernel!r}, {own} of your own, which has no "
            "ONNX operations. Fit with a kernel of joker.kernels, or export a model with random features: they need "
            "no kernel."
        )
    return KERNELS[type(kernel)](graph, kernel, x, z, dtype)


def _squared_distance(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:  # (rows, n)
    """Return ‖x − z‖² / σ² by one matrix product, with the precautions of `joker.kernels.squared_distance`."""
    if dtype != np.float64 and getattr(kernel, "precise", False):
        wide = _squared_distance(graph, kernel, graph.cast(x, np.float64), z, np.float64)
        return graph.cast(wide, dtype)
    centre = z.mean(axis=0)
    scaled = (z - centre) / kernel.bandwidth
    shrink = 1 - (2 + math.sqrt(z.shape[1])) * float(np.finfo(dtype).eps)
    x = graph.op("Sub", x, graph.constant(centre.astype(dtype), "centre"))
    # One number for each input: ONNX Runtime merges a single factor with the product, and rounds it to float32.
    x = graph.op("Mul", x, graph.constant(np.full(z.shape[1], 1 / kernel.bandwidth, dtype)))
    norms = graph.over_columns("ReduceSum", graph.op("Mul", x, x), keepdims=1)
    norms = graph.op("Mul", norms, graph.number(shrink, dtype))
    fixed = (scaled.astype(dtype).astype(np.float64) ** 2).sum(axis=1) * shrink
    product = graph.op("MatMul", x, graph.constant((-2 * scaled.T).astype(dtype), "rows"))
    sums = graph.op("Add", graph.op("Add", product, graph.constant(fixed.astype(dtype))), norms)
    return graph.op("Max", sums, graph.number(0, dtype))


def _decay(graph: Graph, s: str, dtype: Any) -> str:
    """Return exp(−s), which is never a subnormal number."""
    least = SMALLEST_POWER * math.log(float(np.finfo(dtype).tiny))
    return graph.op("Exp", graph.op("Max", graph.op("Neg", s), graph.number(least, dtype)))


def _scaled_root(graph: Graph, r2: str, factor: float, dtype: Any) -> str:
    return graph.op("Sqrt", graph.op("Mul", r2, graph.number(factor, dtype)))


def _gaussian(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    r2 = _squared_distance(graph, kernel, x, z, dtype)
    return _decay(graph, graph.op("Mul", r2, graph.number(0.5, dtype)), dtype)


def _cauchy(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    r2 = _squared_distance(graph, kernel, x, z, dtype)
    return graph.op("Reciprocal", graph.op("Add", r2, graph.number(1, dtype)))


def _matern12(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    # As in joker, the distance is computed in float64: the square root multiplies rounding errors near 0.
    wide = x if dtype == np.float64 else graph.cast(x, np.float64)
    r = graph.op("Sqrt", _squared_distance(graph, kernel, wide, z, np.float64))
    return _decay(graph, r if dtype == np.float64 else graph.cast(r, dtype), dtype)


def _matern32(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    s = _scaled_root(graph, _squared_distance(graph, kernel, x, z, dtype), 3, dtype)
    return graph.op("Mul", graph.op("Add", s, graph.number(1, dtype)), _decay(graph, s, dtype))


def _matern52(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    s = _scaled_root(graph, _squared_distance(graph, kernel, x, z, dtype), 5, dtype)
    third = graph.op("Mul", graph.op("Mul", s, s), graph.number(1 / 3, dtype))
    power = graph.op("Add", graph.op("Add", s, third), graph.number(1, dtype))
    return graph.op("Mul", power, _decay(graph, s, dtype))


def _laplacian(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    """Return exp(−‖x − z‖₁/σ), one input at a time: all differences at once would need d times the memory."""
    inverse = 1 / kernel.bandwidth
    columns = graph.op("Transpose", graph.op("Mul", x, graph.number(inverse, dtype)), perm=[1, 0])
    fixed = graph.constant(np.ascontiguousarray((z * inverse).T.astype(dtype)), "rows")
    rows = graph.op("Shape", x, start=0, end=1)
    shape = graph.op("Concat", rows, graph.constant(np.array([len(z)])), axis=0)
    zeros = graph.op("Expand", graph.constant(np.zeros((1, 1), dtype)), shape)
    r = graph.op("Scan", zeros, columns, fixed, body=_one_input(dtype, len(z)), num_scan_inputs=2)
    return _decay(graph, r, dtype)


def _one_input(dtype: Any, n: int) -> Any:
    """The graph that adds |x_j − z_j| of one input j to the distances."""
    before, x, z, one, column, difference, size, after = (
        f"{PREFIX}{name}" for name in ("before", "x_j", "z_j", "one", "column", "difference", "size", "after")
    )
    steps = (
        ("Unsqueeze", [x, one], column),
        ("Sub", [column, z], difference),
        ("Abs", [difference], size),
        ("Add", [before, size], after),
    )
    nodes = [helper.make_node(kind, given, [result]) for kind, given, result in steps]
    shapes = {before: [BATCH, n], x: [BATCH], z: [n], after: [BATCH, n]}
    *inputs, output = (helper.make_tensor_value_info(name, element_type(dtype), s) for name, s in shapes.items())
    axis = helper.make_tensor(one, element_type(np.int64), [1], [1])
    return helper.make_graph(nodes, "one_input", inputs, [output], [axis])


def _polynomial(graph: Graph, kernel: Kernel, x: str, z: Rows, dtype: Any) -> str:
    assert isinstance(kernel, Polynomial)
    product = graph.op("MatMul", x, graph.constant((z.T / kernel.bandwidth**2).astype(dtype), "rows"))
    base = graph.op("Add", product, graph.number(1, dtype))
    return graph.op("Pow", base, graph.number(kernel.degree, dtype))


KERNELS: dict[type[Kernel], Callable[[Graph, Kernel, str, Rows, Any], str]] = {
    Cauchy: _cauchy,
    Gaussian: _gaussian,
    Laplacian: _laplacian,
    Matern12: _matern12,
    Matern32: _matern32,
    Matern52: _matern52,
    Polynomial: _polynomial,
}


def feature_sum(graph: Graph, features: FeatureMap, x: str, theta: Weights, dtype: Any) -> str:  # (rows, t)
    """Return ψ(x) θ in ``dtype``, which is also the type of x."""
    if type(features) not in FEATURES:
        raise InvalidParameter(
            f"the features of an exported model must be of a kind of joker; got {type(features).__name__}, which has "
            "no ONNX operations. Fit with features of joker.features."
        )
    return FEATURES[type(features)](graph, features, x, theta, dtype)


def _wide(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().double().numpy()


def _affine(graph: Graph, x: str, matrix: Array, offset: Array, dtype: Any, stem: str) -> str:
    product = graph.op("MatMul", x, graph.constant(matrix.astype(dtype), stem))
    return graph.op("Add", product, graph.constant(offset.astype(dtype)))


def _cosines(graph: Graph, x: str, frequencies: NDArray[Any], phase: NDArray[Any], weights: Weights, dtype: Any) -> str:
    angle = _affine(graph, x, frequencies, phase, dtype, "frequencies")
    return graph.op("MatMul", graph.cosine(angle, dtype), graph.constant(weights.astype(dtype), "theta"))


def _fourier(graph: Graph, features: Any, x: str, theta: Weights, dtype: Any) -> str:
    return _cosines(graph, x, _wide(features.weights), _wide(features.phase), features.scale * theta, dtype)


def _structured(graph: Graph, features: Any, x: str, theta: Weights, dtype: Any) -> str:
    """Return the sum with the frequencies as one matrix: ONNX has no Hadamard transform."""
    wide = features.to(torch.float64, "cpu")
    frequencies = wide.project(torch.eye(features.n_inputs, dtype=torch.float64)).numpy()
    return _cosines(graph, x, frequencies, wide.phase.numpy(), features.scale * theta, dtype)


def _pairs(graph: Graph, features: Any, x: str, theta: Weights, dtype: Any) -> str:
    angle = graph.op("MatMul", x, graph.constant(_wide(features.weights).astype(dtype), "frequencies"))
    cosines, sines = np.split((features.scale * theta).astype(dtype), 2)
    first = graph.op("MatMul", graph.cosine(angle, dtype), graph.constant(cosines, "theta"))
    return graph.op("Add", first, graph.op("MatMul", graph.op("Sin", angle), graph.constant(sines, "theta")))


def _identity(graph: Graph, features: Any, x: str, theta: Weights, dtype: Any) -> str:
    whole = np.zeros((features.n_inputs, theta.shape[1]))
    whole[features.first : features.last] = theta
    return graph.op("MatMul", x, graph.constant(whole.astype(dtype), "theta"))


def _tensor_sketch(graph: Graph, features: Any, x: str, theta: Weights, dtype: Any) -> str:
    """Return the sum in the space of Fourier coefficients, so that the graph needs no transform.

    The coefficients of a count sketch are a linear function of the row. The inverse transform and θ together are one
    too: by Parseval's theorem ⟨IFFT(P), θ⟩ is the real part of ⟨P, FFT(θ)⟩ divided by the number m of buckets.
    """
    m = features.width
    k = np.arange(m // 2 + 1)
    whole = np.zeros((m, theta.shape[1]))
    whole[features.first : features.last] = theta
    # A real signal has each coefficient twice, except the first, and the last if m is even.
    twice = np.where((k == 0) | (2 * k == m), 1.0, 2.0)
    weights = np.fft.rfft(whole, axis=0) * (twice / m)[:, None]
    real = imaginary = ""
    for buckets, signs in zip(features.buckets.cpu().numpy(), _wide(features.signs), strict=True):
        rows = signs[:, None] * np.exp(-2j * np.pi * k * buckets[:, None] / m)
        rows[:-1] /= features.bandwidth
        new_real, new_imaginary = (
            _affine(graph, x, part[:-1], part[-1], dtype, "sketch") for part in (rows.real, rows.imag)
        )
        if not real:
            real, imaginary = new_real, new_imaginary
            continue
        real, imaginary = (
            graph.op("Sub", graph.op("Mul", real, new_real), graph.op("Mul", imaginary, new_imaginary)),
            graph.op("Add", graph.op("Mul", real, new_imaginary), graph.op("Mul", imaginary, new_real)),
        )
    parts = ((real, weights.real), (imaginary, weights.imag))
    return graph.op("Add", *(graph.op("MatMul", p, graph.constant(w.astype(dtype), "theta")) for p, w in parts))


FEATURES: dict[type[FeatureMap], Callable[[Graph, Any, str, Weights, Any], str]] = {
    Fourier: _fourier,
    FourierPairs: _pairs,
    Identity: _identity,
    Structured: _structured,
    TensorSketch: _tensor_sketch,
}
