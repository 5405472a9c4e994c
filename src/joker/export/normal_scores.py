"""The inverse of the normal distribution function as ONNX operations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from joker.export.graph import Graph

# Rational approximations of algorithm AS 241 (Wichura, 1988), with an error below 1e-15: near the middle in
# 0.180625 − (p − ½)², and in the tails in √(−log p) − 1.6. Coefficients of the highest power come first.
MIDDLE = 0.425
TAIL_START = 1.6
MIDDLE_ABOVE = (
    2509.0809287301226727,
    33430.575583588128105,
    67265.770927008700853,
    45921.953931549871457,
    13731.693765509461125,
    1971.5909503065514427,
    133.14166789178437745,
    3.387132872796366608,
)
MIDDLE_BELOW = (
    5226.495278852854561,
    28729.085735721942674,
    39307.89580009271061,
    21213.794301586595867,
    5394.1960214247511077,
    687.1870074920579083,
    42.313330701600911252,
    1.0,
)
TAIL_ABOVE = (
    7.7454501427834140764e-4,
    0.0227238449892691845833,
    0.24178072517745061177,
    1.27045825245236838258,
    3.64784832476320460504,
    5.7694972214606914055,
    4.6303378461565452959,
    1.42343711074968357734,
)
TAIL_BELOW = (
    1.05075007164441684324e-9,
    5.475938084995344946e-4,
    0.0151986665636164571966,
    0.14810397642748007459,
    0.68976733498510000455,
    1.6763848301838038494,
    2.05319162663775882187,
    1.0,
)


def normal_scores(graph: Graph, p: str) -> str:
    """Return the z with Φ(z) = p, for p in float64 between 1e-10 and 1 − 1e-10."""
    q = graph.op("Sub", p, _number(graph, 0.5))
    r = graph.op("Sub", _number(graph, MIDDLE**2), graph.op("Mul", q, q))
    near = graph.op("Mul", q, _ratio(graph, r, MIDDLE_ABOVE, MIDDLE_BELOW))
    least = graph.op("Min", p, graph.op("Sub", _number(graph, 1.0), p))
    root = graph.op("Sqrt", graph.op("Neg", graph.op("Log", least)))
    far = _ratio(graph, graph.op("Sub", root, _number(graph, TAIL_START)), TAIL_ABOVE, TAIL_BELOW)
    is_near = graph.op("LessOrEqual", graph.op("Abs", q), _number(graph, MIDDLE))
    return graph.op("Where", is_near, near, graph.op("Mul", far, graph.op("Sign", q)))


def _number(graph: Graph, value: float) -> str:
    return graph.constant(np.array(value))


def _ratio(graph: Graph, r: str, above: Sequence[float], below: Sequence[float]) -> str:
    return graph.op("Div", _polynomial(graph, r, above), _polynomial(graph, r, below))


def _polynomial(graph: Graph, r: str, coefficients: Sequence[float]) -> str:
    first, *others = coefficients
    value = _number(graph, first)
    for coefficient in others:
        value = graph.op("Add", graph.op("Mul", value, r), _number(graph, coefficient))
    return value
