"""Table models in files: the encodings and the ensemble in one document, with the tensors of all members."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier

from joker.errors import InvalidFile
from joker.estimators.deviance import KernelGamma
from joker.estimators.estimator import KernelEstimator
from joker.estimators.files import MAX_CALIBRATION, largest_prediction
from joker.estimators.probabilities import Calibration
from joker.models.fields import FLAG, LABEL, NUMBER, PART, RECORD, TEXT, WHOLE, Field, Fields
from joker.models.files import Description, ModelKind, document_of, restore
from joker.models.packing import Document, ModelReader, Tensors, encode, register
from joker.tables.columns import CATEGORY, DROP, GROUP, ColumnKind
from joker.tables.encoders import (
    PERIODS,
    QUANTILE,
    SCALINGS,
    DateEncoder,
    GroupEncoder,
    LevelEncoder,
    NumberEncoder,
    StatisticEncoder,
)
from joker.tables.encoding import Encoding
from joker.tables.ensemble import Ensemble, EnsembleMember, Residuals
from joker.tables.parsing import parser
from joker.tables.spread import Spread
from joker.tables.steps import SteppedNumberEncoder
from joker.tables.table import BOOLEAN, DATE
from joker.tables.table import NUMBER as NUMBER_COLUMN
from joker.tables.table import TEXT as TEXT_COLUMN
from joker.tables.targets import CUBE_ROOT, IDENTITY, LOG, NumberTarget, Trend
from joker.tables.text import BUCKETS, TextEncoder

VERSION = 3  # of the format: the first with table models
NEWER_VERSION = 4  # the first with a scale of errors, linear trends and these encoders
NEW_ENCODERS = (SteppedNumberEncoder, TextEncoder)
# The attributes of a fitted table model, by their names in the document.
FITTED = {
    "inputs": "n_features_in_",
    "input_names": "feature_names_in_",
    "classes": "classes_",
    "target_name": "target_name_",
    "columns": "columns_",
    "members": "members_",
    "leaderboard": "leaderboard_",
    "held_out_score": "held_out_score_",
    "held_out_error": "held_out_error_",
    "splits": "splits_",
    "seconds": "seconds_",
    "stopped_by_time": "stopped_by_time_",
}


def _describe(model: Any) -> Description:
    ensemble: Ensemble = model.ensemble
    members: list[Document] = []
    tensors: Tensors = {}
    for number, member in enumerate(ensemble.members):
        _, inner, of_member = document_of(member.model)
        tensors |= {f"{number}.{name}": tensor for name, tensor in of_member.items()}
        parts = {name: encode(getattr(member, name)) for name in ("target", "residuals", "trend")}
        members.append({"encoding": member.encoding, "weight": member.weight, "model": inner, **parts})
    attributes = {name: getattr(model, attribute, None) for name, attribute in FITTED.items()}
    entries = {
        "fitted": {name: _encode_attribute(value) for name, value in attributes.items() if value is not None},
        "encodings": [encode(encoding) for encoding in ensemble.encodings],
        "members": members,
        "n_classes": ensemble.classes,
        "calibration": encode(model.calibration),
        "residuals": encode(model.residuals),
    }
    if model.spread is not None:
        _, inner, of_model = document_of(model.spread.model)
        tensors |= {f"{SPREAD}{name}": tensor for name, tensor in of_model.items()}
        entries["spread"] = {
            "model": inner,
            **{name: encode(getattr(model.spread, name)) for name in SPREAD_FIELDS.fields},
        }
    encoders = [encoder for one in ensemble.encodings if one is not None for encoder in one.encoders]
    newer = model.spread is not None or any(member.trend for member in ensemble.members)
    newer = newer or any(isinstance(one, NEW_ENCODERS) for one in encoders)
    version = NEWER_VERSION if newer else VERSION
    return Description(version, torch.device(members[0]["model"]["device"]), entries, tensors)


def _restore(model: Any, reader: ModelReader) -> None:
    document = reader.document
    entries = {name: reader.decode(document[name]) for name in ("encodings", "n_classes", "calibration", "residuals")}
    entries["spread"] = spread = _restore_spread(reader) if "spread" in document else None
    entries["members"] = tuple(_restore_member(number, reader) for number in range(len(document["members"])))
    encodings = tuple(entries["encodings"])
    ensemble = Ensemble(encodings, entries["members"], entries["n_classes"])
    model.restore(ensemble, entries["calibration"], entries["residuals"], spread)
    model.held_out_score_ = None  # a fit without held-out rows has none
    if model.max_time == "auto":  # of earlier versions, whose searches depended on the clock
        model.max_time = None
    reader.part("fitted").set_fitted(model, FITTED)
    attributes = {name: getattr(model, attribute) for name, attribute in FITTED.items() if hasattr(model, attribute)}
    if is_classifier(model) == (attributes.get("classes") is None):
        raise InvalidFile("a classifier must have classes, and a regressor none")
    sizes = {"classes": len(attributes["classes"])} if is_classifier(model) else {"classes": 0}
    name = type(model).__name__
    FITTED_VALUES.check(name, attributes, sizes)
    PARTS.check(name, entries, sizes, is_classifier=is_classifier(model), width=model.n_features_in_)


def _restore_inner(reader: ModelReader, document: Document, prefix: str) -> KernelEstimator:
    tensors = {name.removeprefix(prefix): t for name, t in reader.tensors.items() if name.startswith(prefix)}
    inner = restore(replace(reader, document=document, tensors=tensors))
    if not isinstance(inner, KernelEstimator):
        raise InvalidFile(f"the members of a table model must be kernel estimators; got {type(inner).__name__}")
    return inner


def _restore_spread(reader: ModelReader) -> Spread:
    entry = reader.document["spread"]
    inner = _restore_inner(reader, entry["model"], SPREAD)
    values = {name: reader.decode(entry[name]) for name in SPREAD_FIELDS.fields}
    SPREAD_FIELDS.check("spread", values)
    if not isinstance(inner, KernelGamma) or np.ndim(inner.intercept_):
        raise InvalidFile(f"the scale of errors must be a gamma regressor of one output; got {type(inner).__name__}")
    return Spread(model=inner, **values)


def _restore_member(number: int, reader: ModelReader) -> EnsembleMember:
    entry = reader.document["members"][number]
    inner = _restore_inner(reader, entry["model"], f"{number}.")
    values = {name: reader.decode(entry.get(name) if name == "trend" else entry[name]) for name in MEMBER.fields}
    MEMBER.check(f"member {number}", values)
    return EnsembleMember(model=inner, **values)


def _spread_reads_the_encoding(v: Mapping[str, Any]) -> bool:
    """Whether the scale of errors has the inputs of an encoding, and the prediction."""
    spread: Spread | None = v["spread"]
    if spread is None:
        return True
    if v["is_classifier"] or spread.encoding >= len(v["encodings"]):
        return False
    encoding = v["encodings"][spread.encoding]
    inputs = (v["width"] if encoding is None else encoding.width) if spread.inputs else 0
    return bool(spread.model.n_features_in_ == inputs + 1)


def _members_fit_the_task(v: Mapping[str, Any]) -> bool:
    """Whether classifiers have codes of the classes, and regressors have targets."""
    if any(
        is_classifier(one.model) != v["is_classifier"] or (one.target is None) != v["is_classifier"]
        for one in v["members"]
    ):
        return False
    if v["is_classifier"] and any(one.trend for one in v["members"]):
        return False
    if any(np.ndim(one.model.intercept_) for one in v["members"] if not v["is_classifier"]):  # several outputs
        return False
    codes = [np.asarray(one.model.classes_) for one in v["members"] if v["is_classifier"]]
    return all(one.dtype.kind in "iu" and one.min() >= 0 and one.max() < v["n_classes"] for one in codes)


def _members_read_the_encodings(v: Mapping[str, Any]) -> bool:
    """Whether each member has the inputs of one of the encodings, all of which are of the same columns."""
    encodings = v["encodings"]
    if not v["members"] or any(one.encoding >= len(encodings) for one in v["members"]):
        return False
    if None in encodings:  # inputs are used as they are
        plain = {*encodings} == {None} and not any(one.trend for one in v["members"])
        return plain and {one.model.n_features_in_ for one in v["members"]} == {v["width"]}
    trends = [one.trend for one in v["members"] if one.trend]
    if any(one.encoding >= len(encodings) or len(one.coefficients) != encodings[one.encoding].width for one in trends):
        return False
    columns = [[kind.name for kind in encoding.kinds] for encoding in encodings]
    widths = all(one.model.n_features_in_ == encodings[one.encoding].width for one in v["members"])
    return widths and all(one == columns[0] and len(one) == v["width"] for one in columns)


def _predictions_are_finite(v: Mapping[str, Any]) -> bool:
    """Whether the mean of the largest predictions of the members, in the unit of the target, is a finite number."""
    total = 0.0
    for member in v["members"]:
        largest, target = float(largest_prediction(member.model).max()), member.target
        if member.trend is not None:
            largest += max(abs(member.trend.low), abs(member.trend.high))
        if target is not None:
            spread = 0.0 if member.residuals is None else float(np.abs(member.residuals).max())
            largest = (largest + spread) * target.deviation + abs(target.mean)
        total += largest * (v["calibration"].slope if v["calibration"] else 1.0)
    return math.isfinite(total)


def _encode_attribute(value: Any) -> Any:
    """Return a value as JSON; names and classes of any type become text."""
    return encode(value.astype(str) if isinstance(value, np.ndarray) and value.dtype == object else value)


# What the values of a file must be. A field of a model that has no description here must be finite.
LARGEST = 1e30  # of factors and scaled values, which are float32 in a kernel machine
COLUMN = Fields(
    {
        "name": Field(TEXT),
        "kind": Field(TEXT),
        "encoding": Field(TEXT),
        "width": Field(WHOLE, low=0),
        "importance": Field(NUMBER, nullable=True),
    }
)
TRIAL = Fields(
    {"stage": Field(WHOLE), "weights": Field(TEXT), "loss": Field(NUMBER, finite=False)}, others=Field(finite=False)
)
FITTED_VALUES = Fields(
    {
        "inputs": Field(WHOLE, low=1, size="inputs"),
        "input_names": Field(TEXT, ("inputs",), optional=True),
        "classes": Field(LABEL, ("classes",), optional=True, distinct=True),
        "target_name": Field(TEXT, optional=True),
        "columns": Field(RECORD, (None,), list, record=COLUMN),
        "members": Field(RECORD, (None,), list, record=Fields(others=Field(finite=False))),
        "leaderboard": Field(RECORD, (None,), list, record=TRIAL),
        "held_out_score": Field(NUMBER, nullable=True),
        "held_out_error": Field(NUMBER, nullable=True, optional=True, low=0),
        "splits": Field(TEXT, optional=True),
        "seconds": Field(NUMBER, optional=True, low=0),
        "stopped_by_time": Field(FLAG, optional=True),
    },
    rules=(("there must be facts of all columns, or of none", lambda v: len(v["columns"]) in (0, v["inputs"])),),
)
MEMBER = Fields(
    {
        "encoding": Field(WHOLE, low=0),
        "weight": Field(NUMBER, low=0, high=1),
        "target": Field(PART, of=(NumberTarget,), nullable=True),
        "residuals": Field(NUMBER, (None,), nullable=True, low=-LARGEST, high=LARGEST),
        "trend": Field(PART, of=(Trend,), nullable=True),
    }
)
SPREAD = "spread."  # before the names of its tensors
SPREAD_FIELDS = Fields(
    {
        "encoding": Field(WHOLE, low=0),
        "inputs": Field(FLAG),
        "centre": Field(NUMBER),
        "width": Field(NUMBER, low=0, open=True),
        "weight": Field(NUMBER, low=0, high=LARGEST),
        "low": Field(NUMBER, low=0, open=True),
        "high": Field(NUMBER, low=0, open=True),
        "knots": Field(NUMBER, ("thirds",), ascending=True),
        "thirds": Field(PART, ("thirds",), tuple, of=(Residuals,)),
    },
    rules=(
        ("low must be at most high", lambda v: v["low"] <= v["high"]),
        (
            "there must be errors of each third",
            lambda v: len(v["thirds"]) > 0 and all(third.rows for third in v["thirds"]),
        ),
    ),
)
PARTS = Fields(
    {
        "encodings": Field(PART, (None,), list, of=(Encoding, type(None))),
        "members": Field(PART, (None,), tuple, of=(EnsembleMember,)),
        "n_classes": Field(WHOLE, size="classes"),
        "calibration": Field(PART, of=(Calibration,), nullable=True),
        "residuals": Field(PART, of=(Residuals,)),
        "spread": Field(PART, of=(Spread,), nullable=True),
    },
    rules=(
        ("the scale of errors must have the inputs of an encoding, in a regressor", _spread_reads_the_encoding),
        ("there must be two classes at least, or none", lambda v: v["n_classes"] > 1 or not v["is_classifier"]),
        (
            "classes must have a calibration with an offset for each, and numbers none",
            lambda v: _calibration_fits(v["calibration"], v["n_classes"]),
        ),
        (
            "the weights of the members must be 1 in all",
            lambda v: math.isclose(sum(m.weight for m in v["members"]), 1, abs_tol=1e-6),
        ),
        ("members must be classifiers of the classes, or regressors with a target", _members_fit_the_task),
        (
            "each member must have the inputs of its encoding, and encodings the columns of the model",
            _members_read_the_encodings,
        ),
        ("weights, slopes and deviations must be small enough for finite predictions", _predictions_are_finite),
    ),
)


def _calibration_fits(calibration: Calibration | None, n_classes: int) -> bool:
    return calibration is None if n_classes == 0 else calibration is not None and len(calibration.offsets) == n_classes


# The names of these classes and of their fields are in files: they must stay.
FACTOR = Field(NUMBER, low=0, high=LARGEST)
SCALE = Field(NUMBER, low=0, open=True)
LEVELS = Field(TEXT, ("levels",), tuple, distinct=True)
SCALED = Field(NUMBER, ("levels", "t"), low=-LARGEST, high=LARGEST)
NULLABLE_NUMBER = Field(PART, of=(NumberEncoder,), nullable=True)
ENCODERS = (
    DateEncoder,
    GroupEncoder,
    LevelEncoder,
    NumberEncoder,
    StatisticEncoder,
    SteppedNumberEncoder,
    TextEncoder,
)
OF_NUMBERS = (NumberEncoder, SteppedNumberEncoder)
ENCODERS_OF = {
    CATEGORY: (LevelEncoder, StatisticEncoder),
    DATE: (DateEncoder,),
    GROUP: (GroupEncoder,),
    TEXT_COLUMN: (TextEncoder,),
}  # else a number
register(
    Calibration,
    slope=Field(NUMBER, low=0, high=MAX_CALIBRATION, open=True),
    offsets=Field(NUMBER, (None,), low=-MAX_CALIBRATION, high=MAX_CALIBRATION),
)
register(
    ColumnKind,
    ("the text format must be known", lambda v: not v["writing"] or callable(parser(v["writing"]))),
    kind=Field(TEXT, among=(NUMBER_COLUMN, BOOLEAN, CATEGORY, GROUP, DATE, TEXT_COLUMN, DROP)),
    code_size=FACTOR,
)
register(
    NumberTarget,
    ("low must be at most high", lambda v: v["low"] <= v["high"]),
    (
        "limits of predictions must be finite",
        lambda v: v["form"] == IDENTITY or math.isfinite(2 * (v["high"] - v["low"])),
    ),
    form=Field(TEXT, among=(IDENTITY, LOG, CUBE_ROOT)),
    deviation=SCALE,
)
register(
    Trend,
    ("low must be at most high", lambda v: v["low"] <= v["high"]),
    encoding=Field(WHOLE, low=0),
    coefficients=Field(NUMBER, (None,), low=-LARGEST, high=LARGEST),
    low=Field(NUMBER, low=-LARGEST, high=LARGEST),
    high=Field(NUMBER, low=-LARGEST, high=LARGEST),
)
register(
    Residuals,
    (
        "there must be no more points than rows, and none without rows",
        lambda v: (v["rows"] > 0) == (len(v["points"]) > 0) and len(v["points"]) <= v["rows"],
    ),
    rows=Field(WHOLE, low=0),
    points=Field(NUMBER, (None,), ascending=True),
)
register(
    NumberEncoder,
    (
        "quantile scaling must have at least two points, and others none",
        lambda v: len(v["points"]) > 1 if v["method"] == QUANTILE else not v["points"],
    ),
    method=Field(TEXT, among=SCALINGS),
    scale=SCALE,
    deviation=SCALE,
    points=Field(NUMBER, (None,), tuple, ascending=True),
    indicator=FACTOR,
)
register(LevelEncoder, levels=LEVELS, factor=FACTOR)
register(
    StatisticEncoder,
    levels=LEVELS,
    values=SCALED,
    default=replace(SCALED, shape=("t",)),
    frequent=Field(PART, of=(LevelEncoder,), nullable=True),
)
register(
    DateEncoder,
    ("the first part must be the trend", lambda v: v["parts"][:1] == ("trend",) and "trend" not in v["parts"][1:]),
    deviation=SCALE,
    parts=Field(TEXT, (None,), tuple, distinct=True, among=("trend", *PERIODS)),
    indicator=FACTOR,
)
register(
    GroupEncoder,
    ("there must be a group", lambda v: len(v["groups"]) > 0),
    groups=Field(NUMBER, (None,), tuple, ascending=True, distinct=True),
    size=FACTOR,
    number=NULLABLE_NUMBER,
)
register(
    SteppedNumberEncoder,
    ("the number must be that of the column", lambda v: v["number"].name == v["name"]),
    number=Field(PART, of=(NumberEncoder,)),
    edges=Field(NUMBER, (None,), tuple, ascending=True, distinct=True),
    size=FACTOR,
)
register(
    TextEncoder,
    ("the functions must be vectors and regressions", lambda v: v["vectors"] <= len(v["offset"])),
    idf=Field(NUMBER, (BUCKETS,), low=0, high=LARGEST),
    table=Field(NUMBER, (BUCKETS, "k"), low=-LARGEST, high=LARGEST),
    offset=Field(NUMBER, ("k",), low=-LARGEST, high=LARGEST),
    vectors=Field(WHOLE, low=0),
)
register(
    Encoding,
    (
        "there must be an encoder of its kind for each column that is not left out",
        lambda v: _encoders_fit(v["kinds"], v["encoders"]),
    ),
    (
        "there must be a weight for each input",
        lambda v: v["weights"] is None or len(v["weights"]) == Encoding(**v).width,
    ),
    kinds=Field(PART, (None,), tuple, of=(ColumnKind,)),
    encoders=Field(PART, (None,), tuple, of=ENCODERS),
    weights=Field(NUMBER, (None,), nullable=True, low=0, high=LARGEST),
)


def _encoders_fit(kinds: Sequence[ColumnKind], encoders: Sequence[Any]) -> bool:
    kept = [kind for kind in kinds if kind.kind != DROP]
    return len(kept) == len(encoders) and all(
        encoder.name == kind.name and isinstance(encoder, ENCODERS_OF.get(kind.kind, OF_NUMBERS))
        for kind, encoder in zip(kept, encoders, strict=True)
    )


KIND = ModelKind(_describe, _restore)
