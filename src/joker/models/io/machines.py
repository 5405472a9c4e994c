"""Machines as a JSON document with tensors, and back.

Machines with the same rows or features, such as those of a path of λ, are saved together: their weights are columns of
one tensor.
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
from joker.models.io.json_values import CustomObjects, decode, encode
from joker.models.io.reader import ModelReader, Tensors
from joker.models.io.rows import pack_rows, unpack_rows
from joker.models.machine import ExactMachine, FeatureMachine, Machine


@dataclass(frozen=True)
class Coder:
    """How one kind of machine is written and read.

    ``pack(machine, store_features)`` returns the document and the tensors, without the weights; ``unpack(reader,
    weights, device)`` returns the machine; ``kernel(machine)`` returns the kernel that is needed to read the file.
    """

    machine: type[Machine]
    pack: Callable[[Any, bool], tuple[Document, Tensors]]
    unpack: Callable[[ModelReader, Tensor, torch.device], Machine]
    kernel: Callable[[Any], Any]  # None if no kernel is needed


def pack(machines: Sequence[Machine], *, store_features: bool = False) -> tuple[Document, Tensors]:
    """Return the document and the tensors from which `unpack` builds the machines.

    Parameters
    ----------
    machines : sequence of Machine
        Machines that differ in their weights only.
    store_features : bool
        Whether to save the tensors of a feature map even if its seed reproduces them exactly.
    """
    kind, coder = _coder(machines[0])
    _check_shared(machines)
    weights, columns = _join([machine.weights for machine in machines])
    if not bool(weights.isfinite().all()):
        raise InvalidData(
            "the weights of a model must be finite to be saved; they are not. Scale the inputs and fit again."
        )
    body, tensors = coder.pack(machines[0], store_features)
    document = {"kind": kind, "dtype": str(weights.dtype).removeprefix("torch."), "columns": columns, **body}
    return document, {coder.machine.weights_name: weights, **tensors}


def unpack(
    document: Document, tensors: Mapping[str, Tensor], device: torch.device, custom: CustomObjects
) -> list[Machine]:
    """Return the machines on ``device``, each with a copy of its weights."""
    reader = ModelReader(document, tensors, custom)
    coder = CODERS[document["kind"]]
    weights = reader.take(coder.machine.weights_name)
    if weights.dim() != 2 or not weights.numel():
        raise InvalidFile(f"the weights must be a matrix; they have shape {tuple(weights.shape)}")
    machine = coder.unpack(reader, weights, device)
    for start, stop in document["columns"]:
        if not 0 <= start < stop <= weights.shape[1]:
            raise InvalidFile(f"columns must be among the {weights.shape[1]} of the weights; got {start} to {stop}")
    return [machine.columns(start, stop) for start, stop in document["columns"]]


def kernel_of(machine: Machine) -> Any:
    """Return the kernel that is needed to read a file of the machine; None if none is needed."""
    return _coder(machine)[1].kernel(machine)


def _coder(machine: Machine) -> tuple[str, Coder]:
    return next((kind, coder) for kind, coder in CODERS.items() if isinstance(machine, coder.machine))


def _check_shared(machines: Sequence[Machine]) -> None:
    first, *others = machines
    shared = [field.name for field in fields(first) if field.name != first.weights_name]
    for other, name in ((other, name) for other in others for name in shared):
        if getattr(other, name, None) is not getattr(first, name):
            raise InvalidData(f"the models of a path may differ in their weights only; {name} differs. Fit it again.")


def _join(weights: Sequence[Tensor]) -> tuple[Tensor, list[list[int]]]:
    """Return the columns of all weights in one tensor, equal weights once, and the columns of each machine."""
    distinct: list[Tensor] = []
    starts, columns = [0], []
    for tensor in weights:
        place = next((i for i, other in enumerate(distinct) if torch.equal(other, tensor)), len(distinct))
        if place == len(distinct):
            distinct.append(tensor)
            starts.append(starts[-1] + tensor.shape[1])
        columns.append([starts[place], starts[place + 1]])
    return torch.cat(distinct, dim=1), columns


def _pack_exact(machine: ExactMachine, store_features: bool) -> tuple[Document, Tensors]:
    kernel = _exact_kernel(machine)
    document, tensors = pack_rows(machine.x)
    return {"constant": kernel is not machine.kernel, "kernel": encode(kernel), **document}, tensors


def _exact_kernel(machine: ExactMachine) -> Kernel:
    """Return the kernel without the constant of the intercept."""
    return machine.kernel.inner if isinstance(machine.kernel, WithConstant) else machine.kernel


def _unpack_exact(reader: ModelReader, alpha: Tensor, device: torch.device) -> Machine:
    kernel = decode(reader.document["kernel"], reader.custom)
    x = unpack_rows(reader, device)
    if len(x) != len(alpha):
        raise InvalidFile(f"there must be {len(alpha)} rows, one for each weight; there are {len(x)}")
    kernel = WithConstant(kernel) if reader.document["constant"] else kernel
    return ExactMachine(kernel, x, alpha.to(device))


def _pack_features(machine: FeatureMachine, store_features: bool) -> tuple[Document, Tensors]:
    return pack_map(machine.features, store_features)


def _drawn_kernel(machine: FeatureMachine) -> Any:
    origin = plain_map(machine.features).origin
    return None if origin is None else origin.kernel


def _unpack_features(reader: ModelReader, theta: Tensor, device: torch.device) -> Machine:
    features = unpack_map(reader, len(theta))
    return FeatureMachine(features.to(reader.dtype, device), theta.to(device))


CODERS = {
    "exact": Coder(ExactMachine, _pack_exact, _unpack_exact, _exact_kernel),
    "features": Coder(FeatureMachine, _pack_features, _unpack_features, _drawn_kernel),
}
