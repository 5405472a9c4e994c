"""Feature maps in a file: the seed they are drawn from where that gives them exactly, else their tensors."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from joker import features
from joker.errors import InexactFeatures, InvalidFile
from joker.features import Draw, FeatureMap
from joker.features.fourier import Fourier, FourierPairs
from joker.features.identity import Identity
from joker.features.structured import Structured
from joker.features.tensor_sketch import TensorSketch
from joker.features.with_constant import WithConstant
from joker.models.io.container import Document
from joker.models.io.json_values import decode, encode
from joker.models.io.reader import Stored, Tensors

MAPS: dict[str, type[FeatureMap]] = {
    "fourier": Fourier,
    "fourier_pairs": FourierPairs,
    "structured": Structured,
    "identity": Identity,
    "tensor_sketch": TensorSketch,
}
WITNESSES = 256  # entries of each tensor that are kept, to tell another rounding from another draw
ROUNDING = 1000  # units in the last place by which two machines may round a draw differently


def pack_map(features: FeatureMap, store: bool) -> tuple[Document, Tensors]:
    """Return the document and the tensors that `unpack_map` makes the map of.

    Parameters
    ----------
    features : FeatureMap
        A map of the library, with a constant or without.
    store : bool
        Whether to keep the tensors even where the seed gives them exactly.
    """
    plain = plain_map(features)
    draw = None if store else _exact_draw(plain)
    document, tensors = _pack_tensors(plain) if draw is None else _pack_draw(draw, plain)
    return {"constant": plain is not features, **document}, tensors


def plain_map(features: FeatureMap) -> FeatureMap:
    """Return the map less the constant that stands for the intercept."""
    return features.inner if isinstance(features, WithConstant) else features


def unpack_map(stored: Stored, n_features: int) -> FeatureMap:
    """Return the map, on the CPU, of as many features as there are weights for."""
    constant = stored.document["constant"]
    plain = _unpack_draw(stored, n_features - constant) if "draw" in stored.document else _unpack_tensors(stored)
    # One call tells whether the tensors fit one another, before an accelerator has to find out.
    psi = plain(torch.zeros(1, plain.n_inputs, dtype=stored.dtype))
    if psi.shape != (1, n_features - constant) or not bool(psi.isfinite().all()):
        raise InvalidFile(f"there must be finite features for {n_features - constant} weights; got {tuple(psi.shape)}")
    return WithConstant(plain, stored.dtype.itemsize) if constant else plain


def _pack_tensors(plain: FeatureMap) -> tuple[Document, Tensors]:
    names = {kind: name for name, kind in MAPS.items()}
    numbers = {name: encode(value) for name, value in _numbers(plain).items()}
    return {"map": [names[type(plain)], numbers]}, {f"map.{name}": t for name, t in plain.tensors.items()}


def _unpack_tensors(stored: Stored) -> FeatureMap:
    name, numbers = stored.document["map"]
    tensors: dict[str, Any] = {
        key.removeprefix("map."): stored.take(key) for key in stored.tensors if key.startswith("map.")
    }
    return MAPS[name](**numbers, **tensors)


def _numbers(plain: FeatureMap) -> dict[str, Any]:
    """What a map consists of beside its tensors."""
    return {f.name: getattr(plain, f.name) for f in fields(plain) if f.name not in {"origin", *plain.tensors}}


def _exact_draw(plain: FeatureMap) -> Draw | None:
    """Return how the map was drawn, if that is shorter than its tensors and gives them bit for bit."""
    tensors = {name: tensor.cpu() for name, tensor in plain.tensors.items()}
    if plain.origin is None or all(tensor.numel() <= WITNESSES for tensor in tensors.values()):
        return None
    again = _redraw(plain.origin, _dtype_of(tensors))
    same = again.tensors.keys() == tensors.keys() and _numbers(again) == _numbers(plain)
    same = same and all(torch.equal(tensor, tensors[name]) for name, tensor in again.tensors.items())
    return plain.origin if same else None


def _dtype_of(tensors: Mapping[str, Tensor]) -> torch.dtype:
    return next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.float64)


def _redraw(draw: Draw, dtype: torch.dtype) -> FeatureMap:
    return features.draw(draw.kernel, draw.kind, draw.d, draw.m, draw.seed, dtype=dtype)


def _pack_draw(draw: Draw, plain: FeatureMap) -> tuple[Document, Tensors]:
    document = {
        "kernel": encode(draw.kernel),
        "kind": draw.kind,
        "inputs": draw.d,
        "features": draw.m,
        "seed": int(draw.seed),
        "sha256": _checksum(plain.tensors),
        "torch": str(torch.__version__),
    }
    return {"draw": document}, {f"witness.{name}": _witness(t) for name, t in plain.tensors.items()}


def _unpack_draw(stored: Stored, m: int) -> FeatureMap:
    document = stored.document["draw"]
    if document["features"] != m:  # before anything is drawn: a number alone could ask for any amount of memory
        raise InvalidFile(f"there must be {m} features, one for each weight; there are {document['features']}")
    kernel = decode(document["kernel"], stored.own)
    draw = Draw(kernel, document["kind"], document["inputs"], m, document["seed"])
    again = _redraw(draw, stored.dtype)
    if _checksum(again.tensors) != document["sha256"]:
        _compare(again, stored)
    return again


def _compare(again: FeatureMap, stored: Stored) -> None:
    """Refuse another draw; warn of the same draw with another rounding."""
    document = stored.document["draw"]
    if not all(_near(_witness(t), stored.take(f"witness.{name}")) for name, t in again.tensors.items()):
        raise InvalidFile(
            f"its random features must be drawn again from their seed, and here the seed {document['seed']} gives "
            f"others: the kernel is not the one it was, or this torch ({torch.__version__}) draws other numbers than "
            f"the one that wrote the file ({document['torch']}). Load it there and save(path, store_features=True)"
        )
    warnings.warn(
        InexactFeatures(
            "random features that are drawn again must be the same to the last bit for predictions to be; this "
            "processor or torch rounds them differently, and predictions will differ as little. "
            "Where that matters, save(path, store_features=True) keeps the features themselves."
        ),
        stacklevel=2,
    )


def _witness(tensor: Tensor) -> Tensor:  # (at most WITNESSES,)
    """Return entries from all over a tensor."""
    flat = tensor.reshape(-1)
    places = torch.linspace(0, len(flat) - 1, min(len(flat), WITNESSES), dtype=torch.float64).round().long()
    return flat[places.to(flat.device)]


def _near(ours: Tensor, theirs: Tensor) -> bool:
    if ours.shape != theirs.shape or not ours.is_floating_point():
        return torch.equal(ours, theirs)
    unit = torch.finfo(ours.dtype).eps
    size = theirs.abs() + theirs.abs().median()
    return bool(((ours - theirs).abs() <= ROUNDING * unit * size).all())


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of names, types, shapes and entries."""
    state = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].cpu().contiguous()
        state.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        state.update(tensor.numpy().data)
    return state.hexdigest()
