"""Python values as JSON and back: numbers, arrays, names, and the kernels and losses of the library.

What JSON has no word for becomes an object of one key, which says what it is. Nothing in a
document is ever run or looked up outside the tables here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.errors import InvalidParameter, UnknownName
from joker.kernels import KERNELS, Kernel
from joker.losses import NAMES, InfimalConvolution, Loss, Scaled, Tube
from joker.runtime import parse_dtype

LOSSES: dict[str, type[Loss]] = {
    **NAMES,
    "tube": Tube,
    "scaled": Scaled,
    "infimal_convolution": InfimalConvolution,
}
_NUMPY_TYPE = re.compile(r"[<>|]([biu][1248]|f[248]|U\d{1,5}|O)")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Own:
    """The parts that a user has written: a file has no code, so that they are given again to load it."""

    kernel: Kernel | None = None
    loss: Loss | None = None


def encode(value: Any) -> Any:
    """Return what JSON can hold of a value, such that `decode` gives the value back."""
    if value is None or type(value) in (bool, str):
        return value
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            return write(value)
    if hasattr(value, "__array__"):  # a series of pandas, for one
        return _write_array(value)
    raise InvalidParameter(
        f"what a file keeps must be numbers, text, arrays, or kernels and losses; got {value!r} of type "
        f"{type(value).__name__}. Use set_params to put a plain value in its place."
    )


def decode(document: Any, own: Own) -> Any:
    """Return the value that `encode` wrote; parts of the user's own are taken from ``own``."""
    if isinstance(document, list):
        return [decode(item, own) for item in document]
    if not isinstance(document, dict):
        return document
    ((tag, written),) = document.items()
    return _READERS[tag](written, own)


def is_own(part: Any) -> bool:
    """Whether a value is a kernel or loss that only its user has the code of, in whole or in part."""
    if isinstance(part, tuple | list):
        return any(is_own(item) for item in part)
    if not isinstance(part, Kernel | Loss):
        return False
    known: set[type] = {*KERNELS.values(), *LOSSES.values()}
    return type(part) not in known or any(is_own(value) for value in _parameters(part).values())


def describe(part: Any) -> str:
    """Return how a part prints itself, less the place in memory of functions in it."""
    return _ADDRESS.sub("", repr(part))


def _parameters(part: Any) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part) if field.init}


def _write_float(value: Real) -> Any:
    number = float(value)
    return number if math.isfinite(number) else {"float": repr(number)}


def _write_array(value: Any) -> Any:
    array = np.asarray(value)
    kind = array.dtype.str
    text = all(type(item) is str for item in array.flat) if kind == "|O" else True
    if not _NUMPY_TYPE.fullmatch(kind) or not text:
        raise InvalidParameter(
            f"an array in a file must be of numbers or text; got one of {array.dtype}. Convert it first, for example "
            "with .astype(str)."
        )
    return {"array": {"type": kind, "values": encode(array.tolist())}}


def _read_array(written: Any, own: Own) -> NDArray[Any] | np.generic:
    if not _NUMPY_TYPE.fullmatch(written["type"]):
        raise UnknownName(f"the type of an array must be one of NumPy's for numbers or text; got {written['type']!r}.")
    array: NDArray[Any] = np.array(decode(written["values"], own), dtype=written["type"])
    return array[()] if array.ndim == 0 else array


def _write_tensor(value: Tensor) -> Any:
    return {"tensor": _write_array(value.detach().cpu().numpy())}


def _read_tensor(written: Any, own: Own) -> Tensor:
    return torch.from_numpy(np.asarray(decode(written, own)))


def _write_part(table: Mapping[str, type]) -> Callable[[Any], Any]:
    names = {kind: name for name, kind in table.items()}
    return lambda part: [names[type(part)], {name: encode(value) for name, value in _parameters(part).items()}]


def _read_part(table: Mapping[str, type]) -> Callable[[Any, Own], Any]:
    def read(written: Any, own: Own) -> Any:
        name, parameters = written
        if name not in table:
            raise UnknownName.among("a kernel or loss", name, table)
        return table[name](**{key: decode(value, own) for key, value in parameters.items()})

    return read


def _write_kernel(kernel: Kernel) -> Any:
    return {"own_kernel": kernel.bandwidth} if is_own(kernel) else {"kernel": _write_part(KERNELS)(kernel)}


def _write_loss(loss: Loss) -> Any:
    return {"own_loss": None} if is_own(loss) else {"loss": _write_part(LOSSES)(loss)}


def _read_own_kernel(bandwidth: float, own: Own) -> Kernel:
    kernel = _given(own.kernel)
    return kernel if kernel.bandwidth == bandwidth else kernel.with_bandwidth(bandwidth)


Part = TypeVar("Part")


def _given(part: Part | None) -> Part:
    if part is None:
        raise InvalidParameter("a kernel or loss that is not joker's must be given again to load its file.")
    return part


# In the order in which they are tried.
_WRITERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((np.generic, np.ndarray), _write_array),
    (Tensor, _write_tensor),
    (Integral, int),
    (Real, _write_float),
    (str, str.__str__),  # a subclass, which JSON does not tell from text
    (tuple, lambda value: {"tuple": [encode(item) for item in value]}),
    ((list, range), lambda value: [encode(item) for item in value]),
    (Mapping, lambda value: {"dict": [[encode(key), encode(item)] for key, item in value.items()]}),
    (torch.dtype, lambda value: {"dtype": str(value).removeprefix("torch.")}),
    (torch.device, lambda value: {"device": str(value)}),
    (Kernel, _write_kernel),
    (Loss, _write_loss),
)
_READERS: dict[str, Callable[[Any, Own], Any]] = {
    "float": lambda written, own: float(written),
    "array": _read_array,
    "tensor": _read_tensor,
    "tuple": lambda written, own: tuple(decode(item, own) for item in written),
    "dict": lambda written, own: {decode(key, own): decode(value, own) for key, value in written},
    "dtype": lambda written, own: parse_dtype(written),
    "device": lambda written, own: torch.device(written),
    "kernel": _read_part(KERNELS),
    "loss": _read_part(LOSSES),
    "own_kernel": _read_own_kernel,
    "own_loss": lambda written, own: _given(own.loss),
}
