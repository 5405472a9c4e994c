"""Model files with a right checksum and wrong content, as a faulty or hostile writer makes them."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import joker
from joker.errors import JokerError
from joker.models import files as model_files

Place = tuple[Any, ...]
SEALED = ("format", "version", "sha256")  # what the writer of a file adds
NAN, INFINITE = {"float": "nan"}, {"float": "inf"}
VALUES = (NAN, INFINITE, {"float": "-inf"}, -1, 0, 1, 0.0, -0.5, 5e-324, 1e-300, 1e300, 1e308, 10**30, 10**400)
WORDS = ("x", "", "gaussian", "\x1b[2J", None, True, False, [], {}, [1.0, 2.0], [[]], {"tuple": []}, {"dict": []})
BARE_NAN = float("nan")  # which is no JSON, but which Python reads


def write(path: Path, document: dict[str, Any], tensors: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a file with a right checksum, also if the document holds NaN."""
    dumps = json.dumps
    body = {name: value for name, value in document.items() if name not in SEALED}
    with monkeypatch.context() as patch:
        patch.setattr(model_files.json, "dumps", lambda value, **options: dumps(value, **options | {"allow_nan": True}))
        patch.setattr(model_files.os, "fsync", lambda _: None)  # many small files
        model_files.write(path, body, tensors, version=document["version"])


def loaded(path: Path) -> Any:
    """Return the model of a file, or None if it is refused with an error of joker that names it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return joker.load(path)
    except JokerError as error:
        # A file that names a kernel of the user is refused by what `load` must be given.
        assert path.name in str(error) or "Use joker.load(path" in str(error)  # noqa: PT017  # others fail the test
        return None


def leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    """The places of all numbers, texts and truth values in a document."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*place, key))
    else:
        yield place


def branches(value: Any, place: Place = ()) -> Iterator[Place]:
    """The places of all objects and lists in a document, without the document itself."""
    if isinstance(value, dict | list):
        if place:
            yield place
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from branches(item, (*place, key))


def value_at(document: Any, place: Place) -> Any:
    """Return a part of a document."""
    for key in place:
        document = document[key]
    return document


def changed(document: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """Return a copy with another value at a place."""
    whole = copy.deepcopy(document)
    value_at(whole, place[:-1])[place[-1]] = value
    return whole


def without(document: dict[str, Any], place: Place) -> dict[str, Any]:
    """Return a copy without an entry."""
    whole = copy.deepcopy(document)
    del value_at(whole, place[:-1])[place[-1]]
    return whole


class Mutations:
    """Random changes of one document and its tensors; the same seed gives the same ones."""

    def __init__(self, document: dict[str, Any], tensors: dict[str, Tensor], seed: int, left_out: tuple[str, ...] = ()):
        self.document, self.tensors, self.rng = document, tensors, np.random.default_rng(seed)
        left_out = (*SEALED, *left_out)
        # One place of each name is drawn first, so that the many numbers of an array do not hide the others.
        self.leaves = self._by_name(place for place in leaves(document) if not {*left_out} & {*place[:2]})
        self.branches = self._by_name(place for place in branches(document) if not {*left_out} & {*place[:2]})

    @staticmethod
    def _by_name(places: Iterator[Place]) -> list[list[Place]]:
        named: dict[Place, list[Place]] = {}
        for place in places:
            named.setdefault(tuple(key for key in place if isinstance(key, str)), []).append(place)
        return list(named.values())

    def _one_of(self, items: Any) -> Any:
        return items[self.rng.integers(len(items))]

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Tensor]]]:
        """Yield what was done, the document and the tensors."""
        while True:
            how = self._one_of(("value", "value", "value", "word", "word", "missing", "repeated", "swapped", "tensor"))
            if how == "tensor":
                yield self._with_wrong_tensor()
                continue
            places = self.leaves if how in ("value", "word") else self.branches
            place = self._one_of(self._one_of(places))
            if how in ("value", "word"):
                value = self._one_of((*VALUES, BARE_NAN) if how == "value" else WORDS)
                yield f"{place}: {value!r:.60}", changed(self.document, place, value), self.tensors
            elif how == "missing":
                key = self._one_of(list(leaves({name: 0 for name in dict.fromkeys(self._keys(place))})) or [()])
                yield f"without {(*place, *key)}", without(self.document, (*place, *key)), self.tensors
            elif how == "repeated":
                part = value_at(self.document, place)
                twice = [*part, *part] if isinstance(part, list) else [part, part]
                yield f"{place}: twice", changed(self.document, place, twice), self.tensors
            else:
                other = value_at(self.document, self._one_of(self._one_of(self.branches)))
                yield f"{place}: another part", changed(self.document, place, copy.deepcopy(other)), self.tensors

    def _keys(self, place: Place) -> list[Any]:
        part = value_at(self.document, place)
        return list(part if isinstance(part, dict) else range(len(part)))

    def _with_wrong_tensor(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        name = self._one_of([name for name in self.tensors if "witness." not in name])
        tensor = self.tensors[name]
        wrong = wrong_tensors(tensor)
        kind = self._one_of([*wrong, "none", "that of another"])
        if kind == "none":
            return f"without {name}", self.document, {key: one for key, one in self.tensors.items() if key != name}
        value = self._one_of(list(self.tensors.values())) if kind == "that of another" else wrong[kind]
        return f"{name}: {kind}", self.document, {**self.tensors, name: value}


def wrong_tensors(tensor: Tensor) -> dict[str, Tensor]:
    """Return tensors of another type or shape, or with impossible entries, by what is wrong."""
    nan, huge = tensor.clone(), tensor.clone()
    nan.view(-1)[0] = float("nan") if tensor.is_floating_point() else -7
    huge.view(-1)[-1] = torch.finfo(tensor.dtype).max / 2 if tensor.is_floating_point() else 2**31 - 1
    floating = tensor.is_floating_point()
    return {
        "nan": nan,
        "huge": huge,
        "longer": torch.cat([tensor, tensor]),
        "flat": tensor.reshape(-1)[:1],
        "empty": tensor[:0],
        "another type": tensor.round().long() if floating else tensor.double() + 0.5,
        "half": tensor.half() if floating else tensor.to(torch.int8),
    }
