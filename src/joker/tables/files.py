"""Table models in files: the encodings and the ensemble in one document, with the tensors of all members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from joker.errors import InvalidFile
from joker.estimators.estimator import KernelEstimator
from joker.estimators.probabilities import Calibration
from joker.models.files import Description, ModelKind, document_of, restore
from joker.models.packing import Document, ModelReader, Tensors, encode, register
from joker.tables.columns import ColumnKind
from joker.tables.encoders import DateEncoder, GroupEncoder, LevelEncoder, NumberEncoder, StatisticEncoder
from joker.tables.encoding import Encoding
from joker.tables.ensemble import Ensemble, EnsembleMember, Residuals
from joker.tables.targets import NumberTarget

VERSION = 3  # of the format: the first with table models
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
}


def _describe(model: Any) -> Description:
    ensemble: Ensemble = model.ensemble
    members: list[Document] = []
    tensors: Tensors = {}
    for number, member in enumerate(ensemble.members):
        _, inner, of_member = document_of(member.model)
        tensors |= {f"{number}.{name}": tensor for name, tensor in of_member.items()}
        parts = {"target": encode(member.target), "residuals": encode(member.residuals)}
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
    return Description(VERSION, torch.device(members[0]["model"]["device"]), entries, tensors)


def _restore(model: Any, reader: ModelReader) -> None:
    document = reader.document
    encodings = tuple(reader.decode(encoding) for encoding in document["encodings"])
    members = tuple(_restore_member(number, reader) for number in range(len(document["members"])))
    if not members or any(not 0 <= member.encoding < len(encodings) for member in members):
        raise InvalidFile("a table model must have members, each with an encoding")
    ensemble = Ensemble(encodings, members, int(document["n_classes"]))
    model.restore(ensemble, reader.decode(document["calibration"]), reader.decode(document["residuals"]))
    model.held_out_score_ = None  # a fit without held-out rows has none
    reader.part("fitted").set_fitted(model, FITTED)


def _restore_member(number: int, reader: ModelReader) -> EnsembleMember:
    entry, prefix = reader.document["members"][number], f"{number}."
    tensors = {name.removeprefix(prefix): t for name, t in reader.tensors.items() if name.startswith(prefix)}
    inner = restore(replace(reader, document=entry["model"], tensors=tensors))
    if not isinstance(inner, KernelEstimator):
        raise InvalidFile(f"the members of a table model must be kernel estimators; got {type(inner).__name__}")
    target, residuals = (reader.decode(entry[name]) for name in ("target", "residuals"))
    return EnsembleMember(int(entry["encoding"]), inner, float(entry["weight"]), target, residuals)


def _encode_attribute(value: Any) -> Any:
    """Return a value as JSON; names and classes of any type become text."""
    return encode(value.astype(str) if isinstance(value, np.ndarray) and value.dtype == object else value)


# The names of these classes and of their fields are in files: they must stay.
register(Calibration, ColumnKind, Encoding, NumberTarget, Residuals)
register(DateEncoder, GroupEncoder, LevelEncoder, NumberEncoder, StatisticEncoder)
KIND = ModelKind(_describe, _restore)
