"""Table models as ONNX operations: the encoding of columns, the members, and the mean of their predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.errors import InvalidParameter
from joker.estimators.prediction_form import prediction_form
from joker.export.estimators import DECISION, INPUTS, LABEL, PREDICTION, PROBABILITIES, add_labels, inner_type, values
from joker.export.graph import Graph
from joker.export.normal_scores import normal_scores
from joker.tables.blend import LOWEST, Member
from joker.tables.columns import CATEGORY, DROP, GROUP
from joker.tables.encoders import (
    CLIP,
    PERIODS,
    QUANTILE,
    QUANTILE_RANGE,
    Z_SCORE,
    DateEncoder,
    LevelEncoder,
    NumberEncoder,
    StatisticEncoder,
)
from joker.tables.encoding import Encoding
from joker.tables.frames import DATE, MISSING_WORDS, TEXT, RawColumn
from joker.tables.group_encoder import GroupEncoder
from joker.tables.targets import CUBE_ROOT, IDENTITY, LOG, MAX_EXPONENT, NumberTarget

OUTPUTS = {DECISION, LABEL, PREDICTION, PROBABILITIES}
UNKNOWN = "\0"  # a text that is no level
NO_GROUP = -(2.0**62)  # is no group: those are smaller than 2⁵³


def build(graph: Graph, model: Any, dtype: str, outer: Any) -> None:
    """Add the inputs, the operations and the outputs of a fitted table model to a graph."""
    blend = model.blend
    encodings = _inputs(graph, model, outer)
    total = ""
    for member in blend.members:
        value = _member(graph, member, encodings[member.encoding], blend.classes, dtype)
        value = graph.op("Mul", value, _number(graph, member.weight))
        total = graph.op("Add", total, value) if total else value
    if not blend.classes:
        flat = graph.op("Squeeze", total, graph.constant(np.array([1])))
        graph.add_output(PREDICTION, graph.cast(flat, outer), outer, ())
        return
    calibration = model.calibration
    scores = graph.op("Mul", total, _number(graph, calibration.slope))
    scores = graph.op("Add", scores, graph.constant(np.asarray(calibration.offsets, dtype=np.float64)))
    p = graph.op("Softmax", scores, axis=1)
    add_labels(graph, model.classes_, graph.op("ArgMax", p, axis=1, keepdims=0))
    two = blend.classes == 2
    f = total
    if two:
        halves = graph.constant(np.array([[-0.5], [0.5]]))
        f = graph.op("Squeeze", graph.op("MatMul", f, halves), graph.constant(np.array([1])))
    graph.add_output(DECISION, graph.cast(f, outer), outer, () if two else (blend.classes,))
    graph.add_output(PROBABILITIES, graph.cast(p, outer), outer, (blend.classes,))


def _number(graph: Graph, value: float) -> str:
    return graph.constant(np.array(value, dtype=np.float64))


def _matrix_of(graph: Graph, encoding: Encoding, columns: dict[str, str]) -> str:  # (rows, d), float32
    """Return the encoded inputs of a table, as `Encoding.transform` does."""
    used = [kind for kind in encoding.kinds if kind.kind != DROP]
    parts = [
        _encoded(graph, encoder, columns[kind.name]) for kind, encoder in zip(used, encoding.encoders, strict=True)
    ]
    joined = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)
    x = graph.cast(joined, np.float32)
    if encoding.weights is None:
        return x
    return graph.op("Mul", x, graph.constant(np.asarray(encoding.weights, dtype=np.float32), "weights"))


def _inputs(graph: Graph, model: Any, outer: Any) -> list[str]:
    """Add the inputs of the graph, and return the encoded inputs of each encoding."""
    encodings = model.blend.encodings
    if encodings[0] is None:
        return [graph.add_input(INPUTS, outer, model.n_features_in_)]
    if clash := sorted(OUTPUTS & {kind.name for encoding in encodings for kind in encoding.kinds}):
        raise InvalidParameter(
            f"a column must not have the name of an output of the exported model; got {clash[0]!r}. Rename the column, "
            "and fit again."
        )
    columns: dict[str, str] = {}
    for kind in (kind for encoding in encodings for kind in encoding.kinds if kind.kind != DROP):
        if kind.name not in columns:
            columns[kind.name] = _column(graph, kind.name, kind.kind, outer)
    if not columns:
        raise InvalidParameter(
            "an exported model must have an input; all columns of the table of this model were left out, so that it "
            "predicts a constant. Fit on columns that vary."
        )
    return [_matrix_of(graph, encoding, columns) for encoding in encodings]


def _column(graph: Graph, name: str, kind: str, outer: Any) -> str:  # (rows, 1), float64 or text
    if kind == CATEGORY:
        return graph.add_input(name, np.str_, 1)
    dtype = np.float64 if kind in (DATE, GROUP) else outer  # float32 rounds large identifiers
    value = graph.add_input(name, dtype, 1)
    return value if dtype == np.float64 else graph.cast(value, np.float64)


def _encoded(graph: Graph, encoder: Any, column: str) -> str:  # (rows, k), float64
    if isinstance(encoder, NumberEncoder):
        return _number_inputs(graph, encoder, column)
    if isinstance(encoder, GroupEncoder):
        return _group_inputs(graph, encoder, column)
    if isinstance(encoder, DateEncoder):
        return _date_inputs(graph, encoder, column)
    return _category_inputs(graph, encoder, column)


def _number_inputs(graph: Graph, encoder: NumberEncoder, column: str) -> str:
    missing = graph.op("IsNaN", column)
    present = graph.op("Where", missing, _number(graph, encoder.fill), column)
    scaled = graph.op("Sub", _scaled(graph, encoder, present), _number(graph, encoder.mean))
    scaled = graph.op("Div", scaled, _number(graph, encoder.deviation))
    scaled = graph.op("Where", missing, _number(graph, 0.0), scaled)
    return _with_indicator(graph, [scaled], missing, encoder.indicator)


def _group_inputs(graph: Graph, encoder: GroupEncoder, column: str) -> str:
    """Return the number, if it is an input, and the code of the group; other values have the last code."""
    groups = np.asarray(encoder.groups)
    table = encoder.codes(np.append(groups, np.nan))
    # A cast to whole numbers is not defined for NaN, and would give a fraction the code of another group.
    whole = graph.op("Equal", graph.op("Floor", column), column)
    number = graph.cast(graph.op("Where", whole, column, _number(graph, NO_GROUP)), np.int64)
    code = graph.op(
        "LabelEncoder",
        number,
        domain="ai.onnx.ml",
        keys_int64s=groups.astype(np.int64).tolist(),
        values_int64s=list(range(len(groups))),
        default_int64=len(groups),
    )
    flat = graph.op("Squeeze", code, graph.constant(np.array([1])))
    codes = graph.op("Gather", graph.constant(table, "codes"), flat, axis=0)
    if encoder.number is None:
        return codes
    return graph.op("Concat", _number_inputs(graph, encoder.number, column), codes, axis=1)


def _with_indicator(graph: Graph, parts: list[str], missing: str, indicator: float) -> str:
    if indicator:
        parts = [*parts, graph.op("Mul", graph.cast(missing, np.float64), _number(graph, indicator))]
    return parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)


def _scaled(graph: Graph, encoder: NumberEncoder, value: str) -> str:
    if encoder.method == QUANTILE:
        return normal_scores(graph, _share_below(graph, np.asarray(encoder.points, dtype=np.float64), value))
    scaled = graph.op("Div", graph.op("Sub", value, _number(graph, encoder.centre)), _number(graph, encoder.scale))
    if encoder.method == Z_SCORE:
        return scaled
    part = graph.op("Div", scaled, _number(graph, CLIP))
    length = graph.op("Sqrt", graph.op("Add", graph.op("Mul", part, part), _number(graph, 1.0)))
    return graph.op("Div", scaled, length)


def _share_below(graph: Graph, points: NDArray[np.float64], value: str) -> str:
    """The share of training rows below a value, between the limits of quantile scaling."""
    levels = np.linspace(0, 1, len(points))
    low = _interpolated(graph, points, levels, value)
    mirrored = _interpolated(graph, -points[::-1], levels, graph.op("Neg", value))
    both = graph.op("Add", graph.op("Sub", low, mirrored), _number(graph, 1.0))
    share = graph.op("Mul", both, _number(graph, 0.5))
    share = graph.op("Max", share, _number(graph, QUANTILE_RANGE))
    return graph.op("Min", share, _number(graph, 1 - QUANTILE_RANGE))


def _interpolated(graph: Graph, points: NDArray[np.float64], levels: NDArray[np.float64], value: str) -> str:
    """Return what ``numpy.interp(value, points, levels)`` returns."""
    value = graph.op("Max", value, _number(graph, float(points[0])))
    value = graph.op("Min", value, _number(graph, float(points[-1])))
    below = graph.op("LessOrEqual", graph.constant(points, "points"), value)  # (rows, points)
    place = graph.op("ReduceSum", graph.cast(below, np.int64), graph.constant(np.array([1])), keepdims=1)
    place = graph.op("Sub", place, graph.constant(np.array(1)))
    steps = np.diff(points)
    slopes = np.append(np.divide(np.diff(levels), steps, out=np.zeros_like(steps), where=steps > 0), 0.0)
    start, slope, level = (graph.op("Gather", graph.constant(v), place, axis=0) for v in (points, slopes, levels))
    return graph.op("Add", level, graph.op("Mul", slope, graph.op("Sub", value, start)))


def _date_inputs(graph: Graph, encoder: DateEncoder, days: str) -> str:
    missing = graph.op("IsNaN", days)
    days = graph.op("Where", missing, _number(graph, encoder.mean), days)
    parts = [graph.op("Div", graph.op("Sub", days, _number(graph, encoder.mean)), _number(graph, encoder.deviation))]
    for part in encoder.parts[1:]:
        turns = graph.op("Div", days, _number(graph, PERIODS[part]))
        angle = graph.op("Mul", graph.op("Sub", turns, graph.op("Floor", turns)), _number(graph, 2 * np.pi))
        points = (graph.cosine(angle, np.float64), graph.op("Sin", angle))
        parts += [graph.op("Where", missing, _number(graph, 0.0), point) for point in points]
    return _with_indicator(graph, parts, missing, encoder.indicator)


def _category_inputs(graph: Graph, encoder: LevelEncoder | StatisticEncoder, column: str) -> str:
    """Return the row of a table of inputs that each level has; the encoder itself computes the table."""
    levels = list(encoder.levels)
    texts = np.empty(len(levels) + 2, dtype=object)
    texts[:] = [*levels, None, UNKNOWN]
    table = encoder.transform(RawColumn(encoder.name, TEXT, texts))
    words = sorted({form for word in MISSING_WORDS for form in (word, word.upper(), word.title())} - set(levels))
    code = graph.op(
        "LabelEncoder",
        column,
        domain="ai.onnx.ml",
        keys_strings=[*levels, *words],
        values_int64s=[*range(len(levels)), *[len(levels)] * len(words)],
        default_int64=len(levels) + 1,
    )
    flat = graph.op("Squeeze", code, graph.constant(np.array([1])))
    return graph.op("Gather", graph.constant(table.astype(np.float64), "levels"), flat, axis=0)


def _member(graph: Graph, member: Member, x: str, classes: int, dtype: str) -> str:  # (rows, t), float64
    """Return the predictions of one kernel model, as `Member.values` does."""
    form = prediction_form(member.model)
    f = values(graph, form, graph.cast(x, inner := inner_type(form, dtype)), inner)
    f = graph.cast(f, np.float64)
    if member.target is not None:
        return _decoded(graph, member.target, member.residuals, f)
    assert form.classes is not None
    known = np.asarray(form.classes, dtype=np.intp)
    places = np.zeros((len(known), classes))
    places[np.arange(len(known)), known] = 1.0
    if len(known) == 2:
        places = np.array([[-1.0, 1.0]]) @ places
    others = np.where(np.isin(np.arange(classes), known), 0.0, LOWEST)
    return graph.op("Add", graph.op("MatMul", f, graph.constant(places)), graph.constant(others))


def _decoded(graph: Graph, target: NumberTarget, residuals: Any, f: str) -> str:
    """Return predictions in the unit of the target, as `NumberTarget.decode` does."""
    if target.form != IDENTITY and residuals is not None:
        f = graph.op("Add", f, graph.constant(np.asarray(residuals, dtype=np.float64)[None]))
    f = graph.op("Add", graph.op("Mul", f, _number(graph, target.deviation)), _number(graph, target.mean))
    if target.form == IDENTITY:
        return f
    assert target.form in (LOG, CUBE_ROOT)
    if target.form == LOG:
        f = graph.op("Exp", graph.op("Min", f, _number(graph, MAX_EXPONENT)))
    else:
        f = graph.op("Mul", graph.op("Mul", f, f), f)
    low, high = target.limits
    f = graph.op("Min", graph.op("Max", f, _number(graph, low)), _number(graph, high))
    return graph.op("ReduceMean", f, graph.constant(np.array([1])), keepdims=1)
