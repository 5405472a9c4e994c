"""Machines as tensors with a JSON document, and back.

Machines of the same rows or features, such as those of a path of λ, share what they have in common: their
weights are columns of one tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from joker.errors import InvalidData, InvalidFile
from joker.kernels import Kernel
from joker.kernels.with_constant import WithConstant
from joker.models.io.container import Document
from joker.models.io.feature_maps import pack_map, plain_map, unpack_map
from joker.models.io.json_values import Own, decode, encode
from joker.models.io.reader import Stored, Tensors
from joker.models.io.rows import pack_rows, unpack_rows
from joker.models.machine import ExactMachine, FeatureMachine, Machine


@dataclass(frozen=True)
class Coder:
    """How one kind of machine is kept.

    Parameters
    ----------
    machine : type
        Its class.
    weights : str
        The field of the machine, and the tensor of the file, that holds its weights.
    pack : callable
        ``pack(machine, store_features)``: the document and tensors of all but the weights.
    unpack : callable
        ``unpack(stored, weights, device)``: the machine.
    kernel : callable
        ``kernel(machine)``: the kernel without which the file cannot be read, if there is one.
    """

    machine: type[Machine]
    weights: str
    pack: Callable[[Any, bool], tuple[Document, Tensors]]
    unpack: Callable[[Stored, Tensor, torch.device], Machine]
    kernel: Callable[[Any], Any]


def pack(machines: Sequence[Machine], *, store_features: bool = False) -> tuple[Document, Tensors]:
    """Return the document and tensors that `unpack` makes the same machines of.

    Parameters
    ----------
    machines : sequence of Machine
        Machines that differ in nothing but their weights.
    store_features : bool
        Whether to keep the tensors of a feature map even where its seed gives them exactly.
    """
    kind, coder = _coder(machines[0])
    _check_shared(machines, coder.weights)
    weights, columns = _join([getattr(machine, coder.weights) for machine in machines])
    if not bool(weights.isfinite().all()):
        raise InvalidData(
            "the weights of a model to be saved must be finite; they are not. Scale the inputs, fit again."
        )
    body, tensors = coder.pack(machines[0], store_features)
    document = {"kind": kind, "dtype": str(weights.dtype).removeprefix("torch."), "columns": columns, **body}
    return document, {coder.weights: weights, **tensors}


def unpack(document: Document, tensors: Mapping[str, Tensor], device: torch.device, own: Own) -> list[Machine]:
    """Return the machines, on ``device``; each has its own copy of its weights."""
    stored = Stored(document, tensors, own)
    coder = CODERS[document["kind"]]
    weights = stored.take(coder.weights)
    if weights.dim() != 2 or not weights.numel():
        raise InvalidFile(f"the weights must be a matrix; they have the shape {tuple(weights.shape)}")
    machine = coder.unpack(stored, weights, device)
    return [machine.columns(*_within(weights, *columns)) for columns in document["columns"]]


def kernel_of(machine: Machine) -> Any:
    """Return the kernel without which a file of the machine cannot be read; None where there is none."""
    return _coder(machine)[1].kernel(machine)


def _coder(machine: Machine) -> tuple[str, Coder]:
    return next((kind, coder) for kind, coder in CODERS.items() if isinstance(machine, coder.machine))


def _check_shared(machines: Sequence[Machine], weights: str) -> None:
    first, *others = machines
    shared = [field.name for field in fields(first) if field.name != weights]
    for other, name in ((other, name) for other in others for name in shared):
        if getattr(other, name, None) is not getattr(first, name):
            raise InvalidData(f"the models of a path must differ in nothing but weights; {name} does. Fit it again.")


def _join(weights: Sequence[Tensor]) -> tuple[Tensor, list[list[int]]]:
    """Return all columns side by side, equal ones once, and where each machine has its own."""
    kept: list[Tensor] = []
    starts, columns = [0], []
    for given in weights:
        place = next((i for i, known in enumerate(kept) if torch.equal(known, given)), len(kept))
        if place == len(kept):
            kept.append(given)
            starts.append(starts[-1] + given.shape[1])
        columns.append([starts[place], starts[place + 1]])
    return torch.cat(kept, dim=1), columns


def _within(weights: Tensor, start: int, stop: int) -> tuple[int, int]:
    if not 0 <= start < stop <= weights.shape[1]:
        raise InvalidFile(f"columns must be among the {weights.shape[1]} of the weights; got {start} to {stop}")
    return start, stop


def _pack_exact(machine: ExactMachine, store_features: bool) -> tuple[Document, Tensors]:
    kernel = _exact_kernel(machine)
    document, tensors = pack_rows(machine.x)
    return {"constant": kernel is not machine.kernel, "kernel": encode(kernel), **document}, tensors


def _exact_kernel(machine: ExactMachine) -> Kernel:
    """The kernel less the constant that stands for the intercept."""
    return machine.kernel.inner if isinstance(machine.kernel, WithConstant) else machine.kernel


def _unpack_exact(stored: Stored, alpha: Tensor, device: torch.device) -> Machine:
    kernel = decode(stored.document["kernel"], stored.own)
    x = unpack_rows(stored, device)
    if len(x) != len(alpha):
        raise InvalidFile(f"there must be a row for each of {len(alpha)} weights; there are {len(x)}")
    kernel = WithConstant(kernel) if stored.document["constant"] else kernel
    return ExactMachine(kernel, x, alpha.to(device))


def _pack_features(machine: FeatureMachine, store_features: bool) -> tuple[Document, Tensors]:
    return pack_map(machine.features, store_features)


def _drawn_kernel(machine: FeatureMachine) -> Any:
    origin = plain_map(machine.features).origin
    return None if origin is None else origin.kernel


def _unpack_features(stored: Stored, theta: Tensor, device: torch.device) -> Machine:
    features = unpack_map(stored, len(theta))
    return FeatureMachine(features.to(stored.dtype, device), theta.to(device))


CODERS = {
    "exact": Coder(ExactMachine, "alpha", _pack_exact, _unpack_exact, _exact_kernel),
    "features": Coder(FeatureMachine, "theta", _pack_features, _unpack_features, _drawn_kernel),
}
