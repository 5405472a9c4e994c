"""The file of a fitted table model: the encodings and the members in one document, with the tensors of all members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from joker.errors import InvalidFile
from joker.estimators.calibration import Calibration
from joker.estimators.model_document import document_of
from joker.estimators.persistence import restore
from joker.models.io import container
from joker.models.io.container import Document
from joker.models.io.json_values import CustomObjects, decode, encode
from joker.models.io.reader import Tensors
from joker.runtime import VERSION
from joker.runtime.atomic_file import AnyPath
from joker.tables.blend import Blend, Member
from joker.tables.columns import ColumnKind
from joker.tables.encoders import DateEncoder, LevelEncoder, NumberEncoder, StatisticEncoder
from joker.tables.encoding import Encoding
from joker.tables.group_encoder import GroupEncoder
from joker.tables.intervals import Residuals
from joker.tables.targets import NumberTarget

FORMAT_VERSION = 3  # of the container: the first with table models
NOTHING = CustomObjects()
# Values of these classes are written as their name and their fields.
VALUES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Calibration,
        ColumnKind,
        DateEncoder,
        Encoding,
        GroupEncoder,
        LevelEncoder,
        NumberEncoder,
        NumberTarget,
        Residuals,
        StatisticEncoder,
    )
}
# The attributes of a fitted table model that are plain values, by their names in the document.
FITTED = {
    "inputs": "n_features_in_",
    "input_names": "feature_names_in_",
    "classes": "classes_",
    "target_name": "target_name_",
    "columns": "columns_",
    "members": "members_",
    "leaderboard": "leaderboard_",
    "held_out_score": "held_out_score_",
}


def save(model: Any, path: AnyPath) -> None:
    """Write a fitted table model to a file."""
    document, tensors = table_document(model)
    container.write(path, document, tensors, version=FORMAT_VERSION)


def table_document(model: Any) -> tuple[Document, Tensors]:
    """Return the document and the tensors of a fitted table model."""
    blend: Blend = model.blend
    members: list[Document] = []
    tensors: Tensors = {}
    for number, member in enumerate(blend.members):
        inner, of_member = document_of(member.model)
        tensors |= {f"{number}.{name}": tensor for name, tensor in of_member.items()}
        facts = {"encoding": member.encoding, "weight": member.weight, "model": inner}
        parts = {"target": member.target, "residuals": member.residuals}
        members.append({**facts, **{name: write(part) for name, part in parts.items()}})
    attributes = {name: getattr(model, attribute, None) for name, attribute in FITTED.items()}
    return {
        "estimator": type(model).__name__,
        "written_by": {"joker": VERSION, "torch": str(torch.__version__)},
        "device": members[0]["model"]["device"],
        "needs": {},
        "settings": {name: encode(value) for name, value in _settings(model).items()},
        "fitted": {name: _plain(value) for name, value in attributes.items() if value is not None},
        "encodings": [write(encoding) for encoding in blend.encodings],
        "members": members,
        "n_classes": blend.classes,
        "calibration": write(model.calibration),
        "residuals": write(model.residuals),
    }, tensors


def fill(model: Any, document: Document, tensors: Mapping[str, Tensor], device: torch.device | None) -> None:
    """Set the attributes of a model that `table_document` described."""
    members = []
    for number, facts in enumerate(document["members"]):
        prefix = f"{number}."
        own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        inner = restore(facts["model"], own, device, NOTHING)
        parts = (read(facts[name]) for name in ("target", "residuals"))
        members.append(Member(int(facts["encoding"]), inner, float(facts["weight"]), *parts))
    encodings = tuple(read(encoding) for encoding in document["encodings"])
    if not members or any(not 0 <= member.encoding < len(encodings) for member in members):
        raise InvalidFile("a table model must have members, each with an encoding")
    blend = Blend(encodings, tuple(members), int(document["n_classes"]))
    model.restore(blend, read(document["calibration"]), read(document["residuals"]))
    for name, value in document["fitted"].items():
        if name in FITTED:
            setattr(model, FITTED[name], decode(value, NOTHING))


def write(value: Any) -> Any:
    """Return a value as JSON: one of VALUES by its fields, anything else as `json_values` writes it."""
    if type(value).__name__ in VALUES:
        parts = {field.name: write(getattr(value, field.name)) for field in fields(value)}
        return {"value": [type(value).__name__, parts]}
    if isinstance(value, tuple) and any(type(item).__name__ in VALUES for item in value):
        return {"values": [write(item) for item in value]}
    return encode(value)


def read(document: Any) -> Any:
    """Return the value that `write` wrote."""
    if isinstance(document, dict) and set(document) == {"value"}:
        name, parts = document["value"]
        if name not in VALUES:
            raise InvalidFile(f"the value {name!r} is not known")
        return VALUES[name](**{key: read(part) for key, part in parts.items()})
    if isinstance(document, dict) and set(document) == {"values"}:
        return tuple(read(item) for item in document["values"])
    return decode(document, NOTHING)


def _plain(value: Any) -> Any:
    return encode(value.astype(str) if isinstance(value, np.ndarray) and value.dtype == object else value)


def _settings(model: Any) -> dict[str, Any]:
    """The parameters of the constructor that a file can hold."""
    settings = {field.name: getattr(model, field.name) for field in fields(model) if field.init}
    if callable(settings["scoring"]):
        settings["scoring"] = None  # a file holds no code
    if isinstance(settings["random_state"], np.random.RandomState):
        settings["random_state"] = None
    return settings
