"""Feature maps as ONNX operations: ψ(x) θ for rows x of the graph and constant weights θ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.errors import InvalidParameter
from joker.export.graph import Graph
from joker.features import FeatureMap
from joker.features.fourier import Fourier, FourierPairs
from joker.features.identity import Identity
from joker.features.structured import Structured
from joker.features.tensor_sketch import TensorSketch

Weights = NDArray[np.float64]  # (m, t)


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


def _cosines(graph: Graph, x: str, frequencies: NDArray[Any], phase: NDArray[Any], weights: Weights, dtype: Any) -> str:
    angle = graph.op("MatMul", x, graph.constant(frequencies.astype(dtype), "frequencies"))
    angle = graph.op("Add", angle, graph.constant(phase.astype(dtype), "phase"))
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
            graph.op(
                "Add",
                graph.op("MatMul", x, graph.constant(part[:-1].astype(dtype), "sketch")),
                graph.constant(part[-1].astype(dtype)),
            )
            for part in (rows.real, rows.imag)
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
