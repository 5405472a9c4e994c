"""Feature maps in a file: as the seed that they are drawn from if it reproduces them exactly, else as tensors."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
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
from joker.models.io.reader import ModelReader, Tensors

MAPS: dict[str, type[FeatureMap]] = {
    "fourier": Fourier,
    "fourier_pairs": FourierPairs,
    "structured": Structured,
    "identity": Identity,
    "tensor_sketch": TensorSketch,
}
# The shapes of the tensors that follow from the others, by the kind of the map.
SHAPES: dict[str, Callable[[Any], dict[str, tuple[int, ...]]]] = {
    "fourier": lambda plain: {"phase": (plain.n_features,)},
    "fourier_pairs": lambda plain: {},
    "structured": lambda plain: {"phase": (plain.n_features,), "signs": (len(plain.signs), 3, plain.signs.shape[-1])},
    "identity": lambda plain: {},
    "tensor_sketch": lambda plain: {"buckets": tuple(plain.signs.shape)},
}
INDEX_TENSORS = {"buckets"}  # those that hold whole numbers
MAX_DRAWN = 2**31  # numbers of a feature map that is drawn again: a small file must not take all memory
MAX_DEGREE = 1_000  # of a polynomial kernel whose features are drawn again
MAX_AT_ZERO = 1e6  # of a feature of the row 0, which is at most √2 for the kernels of joker
SAMPLE_ENTRIES = 256  # of each tensor that are saved, to distinguish another rounding from another draw
MAX_ROUNDING = 1000  # units in the last place by which two computers may round a draw differently


def pack_map(features: FeatureMap, store: bool) -> tuple[Document, Tensors]:
    """Return the document and the tensors from which `unpack_map` builds the map.

    Parameters
    ----------
    features : FeatureMap
        A map of the library, with or without a constant.
    store : bool
        Whether to save the tensors even if the seed reproduces them exactly.
    """
    plain = plain_map(features)
    draw = None if store else _exact_draw(plain)
    document, tensors = _pack_tensors(plain) if draw is None else _pack_draw(draw, plain)
    return {"constant": plain is not features, **document}, tensors


def plain_map(features: FeatureMap) -> FeatureMap:
    """Return the map without the constant feature of the intercept."""
    return features.inner if isinstance(features, WithConstant) else features


def unpack_map(reader: ModelReader, n_features: int) -> FeatureMap:
    """Return the map on the CPU; it must have one feature for each weight."""
    constant = reader.document["constant"]
    plain = _unpack_draw(reader, n_features - constant) if "draw" in reader.document else _unpack_tensors(reader)
    # One call on the CPU checks that the shapes of the tensors agree, before they are moved to a GPU.
    psi = plain(torch.zeros(1, plain.n_inputs, dtype=reader.dtype))
    shape = (1, n_features - constant)
    if psi.shape != shape or psi.dtype != reader.dtype or not bool((psi.abs() < MAX_AT_ZERO).all()):
        raise InvalidFile(
            f"there must be {n_features - constant} finite features, one for each weight, each smaller than "
            f"{MAX_AT_ZERO:g} at 0; got {tuple(psi.shape)}"
        )
    return WithConstant(plain, reader.dtype.itemsize) if constant else plain


def _pack_tensors(plain: FeatureMap) -> tuple[Document, Tensors]:
    names = {kind: name for name, kind in MAPS.items()}
    numbers = {name: encode(value) for name, value in _numbers(plain).items()}
    return {"map": [names[type(plain)], numbers]}, {f"map.{name}": t for name, t in plain.tensors.items()}


def _unpack_tensors(reader: ModelReader) -> FeatureMap:
    name, numbers = reader.document["map"]
    tensors: dict[str, Any] = {
        key.removeprefix("map."): reader.take(key, index=key.removeprefix("map.") in INDEX_TENSORS)
        for key in reader.tensors
        if key.startswith("map.")
    }
    plain = MAPS[name](**numbers, **tensors)
    for key, shape in SHAPES[name](plain).items():
        if tuple(tensors[key].shape) != shape:
            raise InvalidFile(f"the tensor 'map.{key}' must have shape {shape}; it has {tuple(tensors[key].shape)}")
    return plain


def _numbers(plain: FeatureMap) -> dict[str, Any]:
    """Return the fields of a map that are not tensors."""
    return {f.name: getattr(plain, f.name) for f in fields(plain) if f.name not in {"origin", *plain.tensors}}


def _exact_draw(plain: FeatureMap) -> Draw | None:
    """Return how the map was drawn, if this is smaller than its tensors and reproduces them bit for bit."""
    tensors = {name: tensor.cpu() for name, tensor in plain.tensors.items()}
    if plain.origin is None or all(tensor.numel() <= SAMPLE_ENTRIES for tensor in tensors.values()):
        return None
    dtype = next((tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()), torch.float64)
    again = _redraw(plain.origin, dtype)
    same = again.tensors.keys() == tensors.keys() and _numbers(again) == _numbers(plain)
    same = same and all(torch.equal(tensor, tensors[name]) for name, tensor in again.tensors.items())
    return plain.origin if same else None


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
    return {"draw": document}, {f"witness.{name}": _sample(t) for name, t in plain.tensors.items()}


def _unpack_draw(reader: ModelReader, m: int) -> FeatureMap:
    document = reader.document["draw"]
    if document["features"] != m:  # checked before drawing, which could take any amount of memory
        raise InvalidFile(f"there must be {m} features, one for each weight; there are {document['features']}")
    kernel = decode(document["kernel"], reader.custom)
    numbers = document["inputs"] * max(m, getattr(kernel, "degree", 1))
    if numbers > MAX_DRAWN or getattr(kernel, "degree", 1) > MAX_DEGREE:
        raise InvalidFile(f"features must have at most {MAX_DRAWN} numbers; these have {numbers}")
    draw = Draw(kernel, document["kind"], document["inputs"], m, document["seed"])
    again = _redraw(draw, reader.dtype)
    if _checksum(again.tensors) != document["sha256"]:
        _compare(again, reader)
    return again


def _compare(again: FeatureMap, reader: ModelReader) -> None:
    """Raise InvalidFile for another draw; warn if the same draw is rounded differently."""
    document = reader.document["draw"]
    saved = {name: reader.take(f"witness.{name}", index=not t.is_floating_point()) for name, t in again.tensors.items()}
    if not all(_near(_sample(t), saved[name]) for name, t in again.tensors.items()):
        raise InvalidFile(
            f"its random features must be the same when they are drawn again; here the seed {document['seed']} gives "
            f"others: the kernel is another one, or this torch ({torch.__version__}) draws other numbers than the one "
            f"that wrote the file ({document['torch']}). Load it there and save(path, store_features=True)"
        )
    warnings.warn(
        InexactFeatures(
            "random features must be the same to the last bit when they are drawn again; this processor or torch "
            "rounds them differently, so predictions differ in their last digits. If that matters, use "
            "save(path, store_features=True), which saves the features themselves."
        ),
        stacklevel=2,
    )


def _sample(tensor: Tensor) -> Tensor:  # (at most SAMPLE_ENTRIES,)
    """Return entries at equal distances in a tensor."""
    flat = tensor.reshape(-1)
    places = torch.linspace(0, len(flat) - 1, min(len(flat), SAMPLE_ENTRIES), dtype=torch.float64).round().long()
    return flat[places.to(flat.device)]


def _near(drawn: Tensor, saved: Tensor) -> bool:
    if drawn.shape != saved.shape or not drawn.is_floating_point():
        return torch.equal(drawn, saved)
    unit = torch.finfo(drawn.dtype).eps
    size = saved.abs() + saved.abs().median()
    return bool(((drawn - saved).abs() <= MAX_ROUNDING * unit * size).all())


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of the names, types, shapes and entries of tensors."""
    state = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].cpu().contiguous()
        state.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        state.update(tensor.numpy().data)
    return state.hexdigest()
