"""Python values as JSON and back: numbers, arrays, text, and the kernels and losses of the library.

A value that JSON cannot represent becomes an object with one key, which names its type. No code in a document is run,
and names are looked up in the tables of this module only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker.errors import InvalidParameter, UnknownName
from joker.kernels import KERNELS, Kernel
from joker.losses import NAMES, ROW_NAMES, InfimalConvolution, Loss, Scaled, Tube
from joker.runtime import parse_dtype

LOSSES: dict[str, type[Loss]] = {
    **NAMES,
    **ROW_NAMES,
    "tube": Tube,
    "scaled": Scaled,
    "infimal_convolution": InfimalConvolution,
}
_NUMPY_TYPE = re.compile(r"[<>|]([biu][1248]|f[248]|U\d{1,5}|O)")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class CustomObjects:
    """The kernel and the loss that the user has written: a file contains no code, so ``load`` must be given them."""

    kernel: Kernel | None = None
    loss: Loss | None = None


def encode(value: Any) -> Any:
    """Return a value as JSON can represent it; `decode` returns the value again."""
    if value is None or type(value) in (bool, str):
        return value
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            return write(value)
    if hasattr(value, "__array__"):  # for example a Series of pandas
        return _write_array(value)
    raise InvalidParameter(
        f"values in a file must be numbers, text, arrays, kernels or losses; got {value!r} of type "
        f"{type(value).__name__}. Use set_params to replace it by such a value."
    )


def decode(document: Any, custom: CustomObjects) -> Any:
    """Return the value that `encode` wrote; kernels and losses of the user are taken from ``custom``."""
    if isinstance(document, list):
        return [decode(item, custom) for item in document]
    if not isinstance(document, dict):
        return document
    ((tag, written),) = document.items()
    return _READERS[tag](written, custom)


def is_custom(part: Any) -> bool:
    """Return whether a value is a kernel or loss that the user has written, or contains one."""
    if isinstance(part, tuple | list):
        return any(is_custom(item) for item in part)
    if not isinstance(part, Kernel | Loss):
        return False
    of_library: set[type] = {*KERNELS.values(), *LOSSES.values()}
    return type(part) not in of_library or any(is_custom(value) for value in _parameters(part).values())


def describe(part: Any) -> str:
    """Return ``repr(part)`` without the memory addresses of functions."""
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
            f"an array in a file must contain numbers or text; got the type {array.dtype}. Convert it first, for "
            "example with .astype(str)."
        )
    return {"array": {"type": kind, "values": encode(array.tolist())}}


def _read_array(written: Any, custom: CustomObjects) -> NDArray[Any] | np.generic:
    if not _NUMPY_TYPE.fullmatch(written["type"]):
        raise UnknownName(f"the type of an array must be a NumPy type of numbers or text; got {written['type']!r}.")
    array: NDArray[Any] = np.array(decode(written["values"], custom), dtype=written["type"])
    return array[()] if array.ndim == 0 else array


def _write_tensor(value: Tensor) -> Any:
    return {"tensor": _write_array(value.detach().cpu().numpy())}


def _read_tensor(written: Any, custom: CustomObjects) -> Tensor:
    return torch.from_numpy(np.asarray(decode(written, custom)))


def _write_part(table: Mapping[str, type]) -> Callable[[Any], Any]:
    names = {kind: name for name, kind in table.items()}
    return lambda part: [names[type(part)], {name: encode(value) for name, value in _parameters(part).items()}]


def _read_part(table: Mapping[str, type]) -> Callable[[Any, CustomObjects], Any]:
    def read(written: Any, custom: CustomObjects) -> Any:
        name, parameters = written
        if name not in table:
            raise UnknownName.among("a kernel or loss", name, table)
        return table[name](**{key: decode(value, custom) for key, value in parameters.items()})

    return read


def _write_kernel(kernel: Kernel) -> Any:
    return {"own_kernel": kernel.bandwidth} if is_custom(kernel) else {"kernel": _write_part(KERNELS)(kernel)}


def _write_loss(loss: Loss) -> Any:
    return {"own_loss": None} if is_custom(loss) else {"loss": _write_part(LOSSES)(loss)}


def _read_own_kernel(bandwidth: float, custom: CustomObjects) -> Kernel:
    kernel: Kernel = _given(custom.kernel)
    return kernel if kernel.bandwidth == bandwidth else kernel.with_bandwidth(bandwidth)


def _given(part: Any) -> Any:
    if part is None:
        raise InvalidParameter("a kernel or loss that is not part of joker must be given again to load its file.")
    return part


# The first entry whose type matches is used.
_WRITERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((np.generic, np.ndarray), _write_array),
    (Tensor, _write_tensor),
    (Integral, int),
    (Real, _write_float),
    (str, str.__str__),  # a subclass of str
    (tuple, lambda value: {"tuple": [encode(item) for item in value]}),
    ((list, range), lambda value: [encode(item) for item in value]),
    (Mapping, lambda value: {"dict": [[encode(key), encode(item)] for key, item in value.items()]}),
    (torch.dtype, lambda value: {"dtype": str(value).removeprefix("torch.")}),
    (torch.device, lambda value: {"device": str(value)}),
    (Kernel, _write_kernel),
    (Loss, _write_loss),
)
_READERS: dict[str, Callable[[Any, CustomObjects], Any]] = {
    "float": lambda written, custom: float(written),
    "array": _read_array,
    "tensor": _read_tensor,
    "tuple": lambda written, custom: tuple(decode(item, custom) for item in written),
    "dict": lambda written, custom: {decode(key, custom): decode(value, custom) for key, value in written},
    "dtype": lambda written, custom: parse_dtype(written),
    "device": lambda written, custom: torch.device(written),
    "kernel": _read_part(KERNELS),
    "loss": _read_part(LOSSES),
    "own_kernel": _read_own_kernel,
    "own_loss": lambda written, custom: _given(custom.loss),
}
