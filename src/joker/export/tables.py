"""Table models as ONNX operations: the encoding of columns, the members, and the mean of their predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from joker.data.readers.text import MISSING_WORDS
from joker.errors import InvalidParameter
from joker.estimators.model import prediction_form
from joker.export.estimators import DECISION, INPUTS, LABEL, PREDICTION, PROBABILITIES, add_labels, inner_type, values
from joker.export.operations import Graph
from joker.tables.columns import CATEGORY, DROP, GROUP
from joker.tables.encoders import (
    CLIP,
    PERIODS,
    QUANTILE,
    QUANTILE_RANGE,
    Z_SCORE,
    DateEncoder,
    GroupEncoder,
    LevelEncoder,
    NumberEncoder,
    StatisticEncoder,
)
from joker.tables.encoding import Encoding
from joker.tables.ensemble import LOWEST, EnsembleMember
from joker.tables.steps import SteppedNumberEncoder
from joker.tables.table import DATE, TEXT, RawColumn
from joker.tables.targets import CUBE_ROOT, IDENTITY, LOG, MAX_EXPONENT, NumberTarget, Trend
from joker.tables.text import TextEncoder

# Rational approximations of algorithm AS 241 (Wichura, 1988), with an error below 1e-15: near the middle in
# 0.180625 − (p − ½)², and in the tails in √(−log p) − 1.6. The coefficients of the numerator and of the denominator
# stand side by side, those of the highest power first.
MIDDLE = 0.425
TAIL_START = 1.6
MIDDLE_RATIO = (
    (2509.0809287301226727, 5226.495278852854561),
    (33430.575583588128105, 28729.085735721942674),
    (67265.770927008700853, 39307.89580009271061),
    (45921.953931549871457, 21213.794301586595867),
    (13731.693765509461125, 5394.1960214247511077),
    (1971.5909503065514427, 687.1870074920579083),
    (133.14166789178437745, 42.313330701600911252),
    (3.387132872796366608, 1.0),
)
TAIL_RATIO = (
    (7.7454501427834140764e-4, 1.05075007164441684324e-9),
    (0.0227238449892691845833, 5.475938084995344946e-4),
    (0.24178072517745061177, 0.0151986665636164571966),
    (1.27045825245236838258, 0.14810397642748007459),
    (3.64784832476320460504, 0.68976733498510000455),
    (5.7694972214606914055, 1.6763848301838038494),
    (4.6303378461565452959, 2.05319162663775882187),
    (1.42343711074968357734, 1.0),
)


def normal_scores(graph: Graph, p: str) -> str:
    """Return the z with Φ(z) = p, for p in float64 between 1e-10 and 1 − 1e-10."""
    q = graph.op("Sub", p, graph.number(0.5))
    r = graph.op("Sub", graph.number(MIDDLE**2), graph.op("Mul", q, q))
    near = graph.op("Mul", q, _ratio(graph, r, MIDDLE_RATIO))
    least = graph.op("Min", p, graph.op("Sub", graph.number(1.0), p))
    root = graph.op("Sqrt", graph.op("Neg", graph.op("Log", least)))
    far = _ratio(graph, graph.op("Sub", root, graph.number(TAIL_START)), TAIL_RATIO)
    is_near = graph.op("LessOrEqual", graph.op("Abs", q), graph.number(MIDDLE))
    return graph.op("Where", is_near, near, graph.op("Mul", far, graph.op("Sign", q)))


def _ratio(graph: Graph, r: str, coefficients: Sequence[tuple[float, float]]) -> str:
    """Return the quotient of two polynomials in r."""
    above, below = map(graph.number, coefficients[0])
    for numerator, denominator in coefficients[1:]:
        above = graph.op("Add", graph.op("Mul", above, r), graph.number(numerator))
        below = graph.op("Add", graph.op("Mul", below, r), graph.number(denominator))
    return graph.op("Div", above, below)


OUTPUTS = {DECISION, LABEL, PREDICTION, PROBABILITIES}
UNKNOWN = "\0"  # a text that is no level
NO_GROUP = -(2.0**62)  # is no group: those are smaller than 2⁵³


def build(graph: Graph, model: Any, dtype: str, outer: Any) -> None:
    """Add the inputs, the operations and the outputs of a fitted table model to a graph."""
    ensemble = model.ensemble
    encodings = _inputs(graph, model, outer)
    total = ""
    for member in ensemble.members:
        trend = None if member.trend is None else _trend(graph, member.trend, encodings[member.trend.encoding])
        value = _member(graph, member, encodings[member.encoding], trend, ensemble.classes, dtype)
        value = graph.op("Mul", value, graph.number(member.weight))
        total = graph.op("Add", total, value) if total else value
    if not ensemble.classes:
        flat = graph.over_columns("Squeeze", total)
        graph.add_output(PREDICTION, graph.cast(flat, outer), outer, ())
        return
    calibration = model.calibration
    scores = graph.op("Mul", total, graph.number(calibration.slope))
    scores = graph.op("Add", scores, graph.constant(np.asarray(calibration.offsets, dtype=np.float64)))
    p = graph.op("Softmax", scores, axis=1)
    add_labels(graph, model.classes_, graph.op("ArgMax", p, axis=1, keepdims=0))
    two = ensemble.classes == 2
    f = total
    if two:
        halves = graph.constant(np.array([[-0.5], [0.5]]))
        f = graph.over_columns("Squeeze", graph.op("MatMul", f, halves))
    graph.add_output(DECISION, graph.cast(f, outer), outer, () if two else (ensemble.classes,))
    graph.add_output(PROBABILITIES, graph.cast(p, outer), outer, (ensemble.classes,))


def _matrix_of(graph: Graph, encoding: Encoding, columns: dict[str, str]) -> str:  # (rows, d), float32
    """Return the encoded inputs of a table, as `Encoding.transform` does."""
    used = [kind for kind in encoding.kinds if kind.kind != DROP]
    parts = [
        ENCODERS[type(encoder)](graph, encoder, columns[kind.name])
        for kind, encoder in zip(used, encoding.encoders, strict=True)
    ]
    joined = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)
    x = graph.cast(joined, np.float32)
    if encoding.weights is None:
        return x
    return graph.op("Mul", x, graph.constant(np.asarray(encoding.weights, dtype=np.float32), "weights"))


def _inputs(graph: Graph, model: Any, outer: Any) -> list[str]:
    """Add the inputs of the graph, and return the encoded inputs of each encoding."""
    encodings = model.ensemble.encodings
    if encodings[0] is None:
        return [graph.add_input(INPUTS, outer, model.n_features_in_)]
    if clash := sorted(OUTPUTS & {kind.name for encoding in encodings for kind in encoding.kinds}):
        raise InvalidParameter(
            f"a column must not have the name of an output of the exported model; got {clash[0]!r}. Rename the column, "
            "and fit again."
        )
    if any(not kind.name and kind.kind != DROP for encoding in encodings for kind in encoding.kinds):
        raise InvalidParameter(
            "a column of an exported model must have a name, under which it is an input; the name of one is empty. "
            "Rename the column, and fit again."
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
    if kind in (CATEGORY, TEXT):
        return graph.add_input(name, np.str_, 1)
    dtype = np.float64 if kind in (DATE, GROUP) else outer  # float32 rounds large identifiers
    value = graph.add_input(name, dtype, 1)
    return value if dtype == np.float64 else graph.cast(value, np.float64)


def _number_inputs(graph: Graph, encoder: NumberEncoder, column: str) -> str:
    missing = graph.op("IsNaN", column)
    present = graph.op("Where", missing, graph.number(encoder.fill), column)
    scaled = graph.op("Sub", _scaled(graph, encoder, present), graph.number(encoder.mean))
    scaled = graph.op("Div", scaled, graph.number(encoder.deviation))
    scaled = graph.op("Where", missing, graph.number(0.0), scaled)
    return _with_indicator(graph, [scaled], missing, encoder.indicator)


def _group_inputs(graph: Graph, encoder: GroupEncoder, column: str) -> str:
    """Return the number, if it is an input, and the code of the group; other values have the last code."""
    groups = np.asarray(encoder.groups)
    table = encoder.codes(np.append(groups, np.nan))
    # A cast to whole numbers is not defined for NaN, and would give a fraction the code of another group.
    whole = graph.op("Equal", graph.op("Floor", column), column)
    number = graph.cast(graph.op("Where", whole, column, graph.number(NO_GROUP)), np.int64)
    keys = {"keys_int64s": groups.astype(np.int64).tolist(), "values_int64s": list(range(len(groups)))}
    codes = _row_of_table(graph, number, table, default_int64=len(groups), **keys)
    if encoder.number is None:
        return codes
    return graph.op("Concat", _number_inputs(graph, encoder.number, column), codes, axis=1)


def _with_indicator(graph: Graph, parts: list[str], missing: str, indicator: float) -> str:
    if indicator:
        parts = [*parts, graph.op("Mul", graph.cast(missing, np.float64), graph.number(indicator))]
    return parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)


def _scaled(graph: Graph, encoder: NumberEncoder, value: str) -> str:
    if encoder.method == QUANTILE:
        return normal_scores(graph, _share_below(graph, np.asarray(encoder.points, dtype=np.float64), value))
    scaled = graph.op("Div", graph.op("Sub", value, graph.number(encoder.centre)), graph.number(encoder.scale))
    if encoder.method == Z_SCORE:
        return scaled
    part = graph.op("Div", scaled, graph.number(CLIP))
    length = graph.op("Sqrt", graph.op("Add", graph.op("Mul", part, part), graph.number(1.0)))
    return graph.op("Div", scaled, length)


def _share_below(graph: Graph, points: NDArray[np.float64], value: str) -> str:
    """The share of training rows below a value, between the limits of quantile scaling."""
    levels = np.linspace(0, 1, len(points))
    low = _interpolated(graph, points, levels, value)
    mirrored = _interpolated(graph, -points[::-1], levels, graph.op("Neg", value))
    both = graph.op("Add", graph.op("Sub", low, mirrored), graph.number(1.0))
    share = graph.op("Mul", both, graph.number(0.5))
    share = graph.op("Max", share, graph.number(QUANTILE_RANGE))
    return graph.op("Min", share, graph.number(1 - QUANTILE_RANGE))


def _interpolated(graph: Graph, points: NDArray[np.float64], levels: NDArray[np.float64], value: str) -> str:
    """Return what ``numpy.interp(value, points, levels)`` returns."""
    value = graph.op("Max", value, graph.number(float(points[0])))
    value = graph.op("Min", value, graph.number(float(points[-1])))
    below = graph.op("LessOrEqual", graph.constant(points, "points"), value)  # (rows, points)
    place = graph.over_columns("ReduceSum", graph.cast(below, np.int64), keepdims=1)
    place = graph.op("Sub", place, graph.constant(np.array(1)))
    steps = np.diff(points)
    slopes = np.append(np.divide(np.diff(levels), steps, out=np.zeros_like(steps), where=steps > 0), 0.0)
    start, slope, level = (graph.op("Gather", graph.constant(v), place, axis=0) for v in (points, slopes, levels))
    return graph.op("Add", level, graph.op("Mul", slope, graph.op("Sub", value, start)))


def _date_inputs(graph: Graph, encoder: DateEncoder, days: str) -> str:
    missing = graph.op("IsNaN", days)
    days = graph.op("Where", missing, graph.number(encoder.mean), days)
    parts = [graph.op("Div", graph.op("Sub", days, graph.number(encoder.mean)), graph.number(encoder.deviation))]
    for part in encoder.parts[1:]:
        turns = graph.op("Div", days, graph.number(PERIODS[part]))
        angle = graph.op("Mul", graph.op("Sub", turns, graph.op("Floor", turns)), graph.number(2 * np.pi))
        points = (graph.cosine(angle, np.float64), graph.op("Sin", angle))
        parts += [graph.op("Where", missing, graph.number(0.0), point) for point in points]
    return _with_indicator(graph, parts, missing, encoder.indicator)


def _category_inputs(graph: Graph, encoder: LevelEncoder | StatisticEncoder, column: str) -> str:
    """Return the row of a table of inputs that each level has; the encoder itself computes the table."""
    levels = list(encoder.levels)
    texts = np.empty(len(levels) + 2, dtype=object)
    texts[:] = [*levels, None, UNKNOWN]
    table = encoder.transform(RawColumn(encoder.name, TEXT, texts))
    words = sorted({form for word in MISSING_WORDS for form in (word, word.upper(), word.title())} - set(levels))
    numbers = [*range(len(levels)), *[len(levels)] * len(words)]
    keys = {"keys_strings": [*levels, *words], "values_int64s": numbers}
    return _row_of_table(graph, column, table.astype(np.float64), default_int64=len(levels) + 1, **keys)


def _stepped_inputs(graph: Graph, encoder: SteppedNumberEncoder, column: str) -> str:
    """Return the number, and whether it is greater than each of some edges."""
    present = graph.op("Where", graph.op("IsNaN", column), graph.number(encoder.number.fill), column)
    above = graph.op("Greater", present, graph.constant(np.asarray(encoder.edges, dtype=np.float64)[None], "edges"))
    steps = graph.op("Mul", graph.cast(above, np.float64), graph.number(encoder.size))
    return graph.op("Concat", _number_inputs(graph, encoder.number, column), steps, axis=1)


def _text_inputs(graph: Graph, encoder: TextEncoder, column: str) -> str:
    raise InvalidParameter(
        f"ONNX has no hash of character n-grams; column {encoder.name!r} is text. Fit without it, with "
        f"columns={{{encoder.name!r}: 'drop'}}, or predict with joker."
    )


def _row_of_table(graph: Graph, keys: str, table: NDArray[Any], **codes: Any) -> str:
    """Return the row of a table that each key has; ``codes`` are attributes of LabelEncoder, from keys to rows."""
    code = graph.op("LabelEncoder", keys, domain="ai.onnx.ml", **codes)
    return graph.op("Gather", graph.constant(table, "table"), graph.over_columns("Squeeze", code), axis=0)


ENCODERS: dict[type, Callable[[Graph, Any, str], str]] = {  # (rows, k), float64
    NumberEncoder: _number_inputs,
    GroupEncoder: _group_inputs,
    DateEncoder: _date_inputs,
    LevelEncoder: _category_inputs,
    StatisticEncoder: _category_inputs,
    SteppedNumberEncoder: _stepped_inputs,
    TextEncoder: _text_inputs,
}


def _trend(graph: Graph, trend: Trend, x: str) -> str:  # (rows, 1), float64
    """Return the linear trend that a kernel model is added to, as `Trend.values` does."""
    f = graph.op("MatMul", graph.cast(x, np.float64), graph.constant(trend.coefficients[:, None], "coefficients"))
    f = graph.op("Add", f, graph.number(trend.intercept))
    return graph.op("Min", graph.op("Max", f, graph.number(trend.low)), graph.number(trend.high))


def _member(
    graph: Graph, member: EnsembleMember, x: str, trend: str | None, classes: int, dtype: str
) -> str:  # (rows, t), float64
    """Return the predictions of one kernel model, as `Member.values` does."""
    form = prediction_form(member.model)
    f = values(graph, form, graph.cast(x, inner := inner_type(form, dtype)), inner)
    f = graph.cast(f, np.float64)
    f = f if trend is None else graph.op("Add", f, trend)
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
    f = graph.op("Add", graph.op("Mul", f, graph.number(target.deviation)), graph.number(target.mean))
    if target.form == IDENTITY:
        return f
    assert target.form in (LOG, CUBE_ROOT)
    if target.form == LOG:
        f = graph.op("Exp", graph.op("Min", f, graph.number(MAX_EXPONENT)))
    else:
        f = graph.op("Mul", graph.op("Mul", f, f), f)
    low, high = target.limits
    f = graph.op("Min", graph.op("Max", f, graph.number(low)), graph.number(high))
    return graph.over_columns("ReduceMean", f, keepdims=1)
