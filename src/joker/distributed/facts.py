"""What processes compare before they fit one model: facts in a form that can be sent, and their first difference."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

from joker.runtime import VERSION, chunks

VERSIONS = {"version of joker": VERSION, "version of torch": torch.__version__}
RTOL = 1e-6  # two processors may round a number that is computed differently
LISTED = 1_000  # numbers of an array that are compared one by one; of a longer one, some sums are
DEPTH = 6  # of objects in objects
GROUPS = 64  # sums over the rows, in each of which some columns are added up
MISSING = 0.5  # stands for NaN, which would hide all other numbers of a sum
SHOWN = 80  # characters of a value in a message


def encoded(value: object) -> torch.Tensor:  # (bytes,)
    """Return a value as JSON, which, unlike a pickle, cannot run code where it is read."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def decoded(buffer: torch.Tensor) -> Any:  # (bytes,)
    """Return the value that `encoded` has written."""
    return json.loads(bytes(buffer.tolist()))


@dataclass(frozen=True)
class Difference:
    """Where two descriptions first differ, and what each has there."""

    name: str
    first: str
    other: str


def described(value: Any, depth: int = DEPTH) -> Any:
    """Return what an object is, in numbers, text, lists and dictionaries, equal in processes with equal objects.

    Examples
    --------
    >>> from joker import kernels
    >>> from joker.distributed.facts import described
    >>> described({"kernel": kernels.Gaussian(2.0)})
    {'kernel': {'type': 'Gaussian', 'bandwidth': 2.0, 'precise': False}}
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, torch.Tensor | np.ndarray):
        return _described_array(value, depth)
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, torch.dtype | torch.device):
        return str(value)
    return _described_parts(value, depth)


def _described_parts(value: Any, depth: int) -> Any:
    kind, parts = type(value).__qualname__, {}
    if not depth:
        return kind
    if isinstance(value, Mapping):
        return {str(name): described(part, depth - 1) for name, part in value.items()}
    if isinstance(value, Set):
        return sorted(map(str, value))
    if isinstance(value, Sequence):
        return [described(part, depth - 1) for part in value]
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
    else:
        with suppress(TypeError):  # such as a RandomState, whose seeds rank 0 draws
            parts = vars(value)
    return {"type": kind, **{name: described(part, depth - 1) for name, part in parts.items()}}


def _described_array(value: torch.Tensor | np.ndarray[Any, Any], depth: int) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":  # NaT is the smallest whole number
        value = value.view(np.int64)
    if value.size <= LISTED if isinstance(value, np.ndarray) else value.numel() <= LISTED:
        return described(value.tolist(), depth)
    if isinstance(value, np.ndarray) and value.dtype.kind not in "biuf":
        value = np.array([zlib.crc32(str(one).encode()) for one in value.ravel()])
    values = torch.as_tensor(value).reshape(len(value), -1)
    if values.is_floating_point():
        values = values.nan_to_num(nan=MISSING)
    return {"shape": list(value.shape), "values": fingerprint(values)}


def fingerprint(values: Any, runs: Sequence[slice] | None = None) -> list[float]:  # (n, d)
    """Return sums that differ between different rows, and between different orders of rows or of columns.

    Every row and every column has its own factor. ``values`` is a tensor, or rows that are read in parts. ``runs`` are
    the rows that count, by default all.
    """
    n, d = values.shape
    total = None
    for run in runs or [slice(0, n)]:
        for at in chunks(run.stop - run.start, 2 * d):
            rows = values[run.start + at.start : run.start + at.stop].double()
            numbers = torch.arange(run.start + at.start + 1, run.start + at.stop + 1, device=rows.device)
            sums = numbers.double().cos() @ rows
            total = sums if total is None else total + sums
    assert total is not None
    weighted = total.cpu() * (math.sqrt(2) * torch.arange(1, d + 1, dtype=torch.float64)).cos()
    padded = torch.nn.functional.pad(weighted, (0, -d % min(GROUPS, d)))
    found: list[float] = padded.reshape(-1, min(GROUPS, d)).sum(0).tolist()
    return found


def first_difference(first: Any, other: Any, name: str = "") -> Difference | None:
    """Return where two descriptions differ; None where they agree up to rounding.

    Examples
    --------
    >>> from joker.distributed.facts import first_difference
    >>> first_difference({"kernel": {"bandwidth": 1.0}}, {"kernel": {"bandwidth": 2.0}}).name
    'kernel.bandwidth'
    """
    if isinstance(first, dict) and isinstance(other, dict):
        pairs = [(str(key), first.get(key), other.get(key)) for key in [*first, *(other.keys() - first.keys())]]
        prefix = f"{name}." if name else ""
    elif isinstance(first, list) and isinstance(other, list) and len(first) == len(other):
        pairs = [(f"{name}[{i}]", a, b) for i, (a, b) in enumerate(zip(first, other, strict=True))]
        prefix = ""
    else:
        return None if _same(first, other) else Difference(name, *_shown(first, other))
    found = (first_difference(a, b, prefix + key) for key, a, b in pairs)
    return next((difference for difference in found if difference), None)


def _same(first: Any, other: Any) -> bool:
    if isinstance(first, float) and isinstance(other, float):
        return math.isclose(first, other, rel_tol=RTOL) or (math.isnan(first) and math.isnan(other))
    return type(first) is type(other) and bool(first == other)


def _shown(first: Any, other: Any) -> tuple[str, str]:
    """Return both values in words, long ones from a little before the place where they begin to differ."""
    texts = repr(first), repr(other)
    if max(map(len, texts)) <= SHOWN:
        return texts
    start = next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, start - SHOWN // 4)
    a, b = (f"{'…' if start else ''}{text[start : start + SHOWN]}{'…' * (len(text) > start + SHOWN)}" for text in texts)
    return a, b
