"""Machines, and the Python values around them, as a JSON document with tensors, and back."""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from joker import features
from joker.data import Rows, SparseRows, TensorRows, sparse_rows
from joker.errors import InexactFeatures, InvalidData, InvalidFile, InvalidParameter, UnknownName
from joker.features import Draw, FeatureMap
from joker.features.dot_product import Identity, TensorSketch
from joker.features.feature_map import FeaturesWithConstant
from joker.features.fourier import Fourier, FourierPairs, Structured
from joker.kernels import KERNELS, Kernel
from joker.kernels.kernel import KernelWithConstant
from joker.kernels.precomputed import PRECOMPUTED, Precomputed
from joker.losses import NAMES, ROW_NAMES, InfimalConvolution, Loss, Scaled, Tube
from joker.models.fields import Field, Fields, Rule, annotated
from joker.models.machine import ExactMachine, FeatureMachine, Machine
from joker.runtime import DEFAULT_BUDGET, chunks, parse_dtype

# Python values as JSON and back: numbers, arrays, text, the kernels and losses of the library, and other
# dataclasses.
#
# A value that JSON cannot represent becomes an object with one key, which names its type. No code in a document is
# run, and names are looked up in the tables of this module only.


Document = dict[str, Any]
Tensors = dict[str, Tensor]
INDEX_TYPES = (torch.int32, torch.int64)
STORED_KERNELS: dict[str, type[Kernel]] = {**KERNELS, PRECOMPUTED: Precomputed}
LOSSES: dict[str, type[Loss]] = {
    **NAMES,
    **ROW_NAMES,
    "tube": Tube,
    "scaled": Scaled,
    "infimal_convolution": InfimalConvolution,
}
_REGISTERED: dict[str, type] = {}  # dataclasses of other packages
_RECORDS: dict[str, Fields] = {}  # what their fields must be
_NUMPY_TYPE = re.compile(r"[<>|]([biu][1248]|f[248]|U\d{1,7}|O)")
MAX_TEXT_BYTES = 2**26  # of an array of text, which has room for the longest text in the place of each
MAX_SPREAD = 64  # bytes for each character, of a larger array
NARROW = 64  # characters; a wider type becomes as wide as the longest text
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class CustomObjects:
    """The kernel and the loss that the user has written: a file contains no code, so ``load`` must be given them."""

    kernel: Kernel | None = None
    loss: Loss | None = None


@dataclass(frozen=True)
class ModelReader:
    """A document with its tensors, and the kernel and loss of the user that it needs."""

    document: Document
    tensors: Mapping[str, Tensor]
    custom: CustomObjects = field(default_factory=CustomObjects)
    device: torch.device | None = None  # where the model shall compute; None is the device it was saved on

    @property
    def dtype(self) -> torch.dtype:
        """The type of all floating-point tensors of a machine."""
        return parse_dtype(self.document["dtype"])

    def part(self, name: str) -> Self:
        """Return a reader of one entry of the document."""
        return replace(self, document=self.document[name])

    def decode(self, value: Any) -> Any:
        """Return a value that `encode` wrote."""
        return decode(value, self.custom)

    def take(self, name: str, *, index: bool = False) -> Tensor:
        """Return a tensor; raise InvalidFile if it has the wrong type or entries that are not finite.

        With ``index`` it must hold whole numbers, else numbers of the type of the machine.
        """
        if name not in self.tensors:
            raise InvalidFile(f"there must be a tensor {name!r}; there is none")
        tensor = self.tensors[name]
        if index and tensor.dtype not in INDEX_TYPES:
            raise InvalidFile(f"the tensor {name!r} must hold whole numbers; it is {tensor.dtype}")
        if not index and tensor.dtype != self.dtype:
            raise InvalidFile(f"the tensor {name!r} must be {self.dtype}; it is {tensor.dtype}")
        if not bool(tensor.isfinite().all()):
            raise InvalidFile(f"the tensor {name!r} must be finite; it holds NaN or infinite entries")
        return tensor

    def set_fitted(self, model: Any, attributes: Mapping[str, str]) -> None:
        """Set the attributes that `fitted_entries` wrote; unknown entries are ignored.

        An entry that changes predictions comes with a new version of the format, which this joker refuses.
        """
        for name, value in self.document.items():
            if name in attributes:
                setattr(model, attributes[name], self.decode(value))


def register(one: type, *rules: Rule, **described: Field) -> None:
    """Let values of a dataclass be written, as its name and its fields, and be checked when they are read.

    A field that is not described here is checked by its annotation, if that is a number, text, a truth value or a tuple
    of them. All others must be finite.
    """
    _REGISTERED[one.__name__] = one
    plain = {field.name: annotated(field.type) for field in fields(one)}
    _RECORDS[one.__name__] = Fields(plain | described, rules)


def encode(value: Any) -> Any:
    """Return a value as JSON can represent it; `decode` returns the value again."""
    if value is None or type(value) in (bool, str):
        return value
    if _is_registered(value):
        return {"value": _write_part(_REGISTERED, value)}
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
    of_library: set[type] = {*STORED_KERNELS.values(), *LOSSES.values()}
    return type(part) not in of_library or any(is_custom(value) for value in _parameters(part).values())


def stable_repr(part: Any) -> str:
    """Return ``repr(part)`` without the memory addresses of functions."""
    return _ADDRESS.sub("", repr(part))


def _parameters(part: Any) -> dict[str, Any]:
    """Return the parameters of a kernel or loss; options that have their default value are left out."""
    shown = {field.name: getattr(part, field.name) for field in fields(part) if field.init}
    defaults = {field.name: field.default for field in fields(part) if field.kw_only}
    return {name: value for name, value in shown.items() if name not in defaults or value != defaults[name]}


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
    if array.dtype.kind == "U" and not _are_even(array.ravel().tolist()):
        kind = "|O"
    return {"array": {"type": kind, "values": encode(array.tolist())}}


def _read_array(written: Any, custom: CustomObjects) -> NDArray[Any] | np.generic:
    if not _NUMPY_TYPE.fullmatch(written["type"]):
        raise UnknownName(f"the type of an array must be a NumPy type of numbers or text; got {written['type']!r}.")
    dtype, values = written["type"], decode(written["values"], custom)
    if "U" in dtype:
        dtype = _narrow(dtype, np.array(values, dtype=object).ravel().tolist())
    array: NDArray[Any] = np.array(values, dtype=dtype)
    return array[()] if array.ndim == 0 else array


def _narrow(dtype: str, texts: Sequence[Any]) -> str:
    """Return a type that is wide enough: a small file may name a wide one, or have one long text and many short."""
    if not _are_even(texts):
        raise InvalidFile(
            f"{len(texts):,} texts in an array must have similar lengths, as each takes the room of the longest"
        )
    width = int(dtype[2:])
    return (
        dtype
        if width <= NARROW
        else f"{dtype[:2]}{min(width, max((len(str(text)) for text in texts), default=1) or 1)}"
    )


def _are_even(texts: Sequence[Any]) -> bool:
    """Whether an array of texts is small, or takes little more room than the texts."""
    lengths = [len(str(text)) for text in texts]
    return 4 * len(texts) * max(lengths, default=0) <= max(MAX_TEXT_BYTES, MAX_SPREAD * sum(lengths))


def _is_registered(value: Any) -> bool:
    return _REGISTERED.get(type(value).__name__) is type(value)


def _write_part(table: Mapping[str, type], part: Any) -> list[Any]:
    name = next(name for name, kind in table.items() if kind is type(part))
    return [name, {key: encode(value) for key, value in _parameters(part).items()}]


def _read_part(what: str, table: Mapping[str, type]) -> Callable[[Any, CustomObjects], Any]:
    def read(written: Any, custom: CustomObjects) -> Any:
        name, parameters = written
        if name not in table:
            raise UnknownName.among(what, name, table)
        part = table[name](**{key: decode(value, custom) for key, value in parameters.items()})
        if table is _REGISTERED:
            _RECORDS[name].check(name, vars(part))
        return part

    return read


def _write_tuple(value: tuple[Any, ...]) -> Any:
    return {"values" if any(map(_is_registered, value)) else "tuple": [encode(item) for item in value]}


def _read_tuple(written: Any, custom: CustomObjects) -> tuple[Any, ...]:
    return tuple(decode(item, custom) for item in written)


def _write_kernel(kernel: Kernel) -> Any:
    return {"own_kernel": kernel.bandwidth} if is_custom(kernel) else {"kernel": _write_part(STORED_KERNELS, kernel)}


def _read_own_kernel(bandwidth: float, custom: CustomObjects) -> Kernel:
    kernel: Kernel = _required(custom.kernel)
    return kernel if kernel.bandwidth == bandwidth else kernel.with_bandwidth(bandwidth)


def _required(part: Any) -> Any:
    if part is None:
        raise InvalidParameter("a kernel or loss that is not part of joker must be given again to load its file.")
    return part


# The first entry whose type matches is used.
_WRITERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((np.generic, np.ndarray), _write_array),
    (Tensor, lambda value: {"tensor": _write_array(value.detach().cpu().numpy())}),
    (Integral, int),
    (Real, _write_float),
    (str, str.__str__),  # a subclass of str
    (tuple, _write_tuple),
    ((list, range), lambda value: [encode(item) for item in value]),
    (Mapping, lambda value: {"dict": [[encode(key), encode(item)] for key, item in value.items()]}),
    (torch.dtype, lambda value: {"dtype": str(value).removeprefix("torch.")}),
    (torch.device, lambda value: {"device": str(value)}),
    (Kernel, _write_kernel),
    (Loss, lambda one: {"own_loss": None} if is_custom(one) else {"loss": _write_part(LOSSES, one)}),
)
_READERS: dict[str, Callable[[Any, CustomObjects], Any]] = {
    "float": lambda written, custom: float(written),
    "array": _read_array,
    "tensor": lambda written, custom: torch.from_numpy(np.asarray(decode(written, custom))),
    "tuple": _read_tuple,
    "values": _read_tuple,  # with a registered dataclass
    "dict": lambda written, custom: {decode(key, custom): decode(value, custom) for key, value in written},
    "dtype": lambda written, custom: parse_dtype(written),
    "device": lambda written, custom: torch.device(written),
    "kernel": _read_part("a kernel or loss", STORED_KERNELS),
    "loss": _read_part("a kernel or loss", LOSSES),
    "value": _read_part("a value", _REGISTERED),
    "own_kernel": _read_own_kernel,
    "own_loss": lambda written, custom: _required(custom.loss),
}


MAPS: dict[str, type[FeatureMap]] = {
    "fourier": Fourier,
    "fourier_pairs": FourierPairs,
    "structured": Structured,
    "identity": Identity,
    "tensor_sketch": TensorSketch,
}
# The shapes of tensors that follow from other tensors, by the kind of the map.
SHAPES: dict[str, Callable[[Any], dict[str, tuple[int, ...]]]] = {
    "fourier": lambda inner: {"phase": (inner.n_features,)},
    "structured": lambda inner: {"phase": (inner.n_features,), "signs": (len(inner.signs), 3, inner.signs.shape[-1])},
    "tensor_sketch": lambda inner: {"buckets": tuple(inner.signs.shape)},
}
INDEX_TENSORS = {"buckets"}  # those that hold whole numbers
MAX_DRAWN = 2**31  # numbers of a feature map that is drawn again: a small file must not take all memory
MAX_DEGREE = 1_000  # of a polynomial kernel whose features are drawn again
MAX_AT_ZERO = 1e6  # of a feature of the row 0, which is at most √2 for the kernels of joker
MAX_SHARE = 1e-6  # of the largest floating-point number, that an entry of a feature map may be
SAMPLE_ENTRIES = 256  # of each tensor that are saved, to distinguish another rounding from another draw
MAX_ROUNDING = 1000  # units in the last place by which two computers may round a draw differently


def pack(
    machines: Sequence[ExactMachine | FeatureMachine], *, store_features: bool = False
) -> tuple[Document, Tensors]:
    """Return the document and the tensors from which `unpack` builds machines that differ in their weights only.

    With ``store_features`` the tensors of a feature map are saved even if its seed reproduces them exactly.
    """
    _check_shared(machines)
    first = machines[0]
    weights, columns = _join([machine.weights for machine in machines])
    if not bool(weights.isfinite().all()):
        raise InvalidData(
            "the weights of a model must be finite to be saved; they are not. Scale the inputs and fit again."
        )
    if isinstance(first, ExactMachine):
        kind, (body, tensors) = "exact", _pack_exact(first)
    else:
        kind, (body, tensors) = "features", _pack_features(first, store_features)
    document = {"kind": kind, "dtype": str(weights.dtype).removeprefix("torch."), "columns": columns, **body}
    return document, {first.weights_name: weights, **tensors}


def unpack(reader: ModelReader, device: torch.device) -> list[Machine]:
    """Return the machines on ``device``, each with a copy of its weights."""
    unpack_one, name = UNPACKED[reader.document["kind"]]
    columns, weights = reader.document["columns"], reader.take(name)
    if weights.dim() != 2 or not weights.numel():
        raise InvalidFile(f"the weights must be a matrix; they have shape {tuple(weights.shape)}")
    machine = unpack_one(reader, weights, device)
    ranges = sorted({(start, stop) for start, stop in columns})
    edges = [0, *(edge for one in ranges for edge in one)]
    if edges[::2] != [*edges[1::2], weights.shape[1]] or not all(start < stop for start, stop in ranges):
        raise InvalidFile(
            f"the columns of the models must be the {weights.shape[1]} of the weights, each once, or those of another "
            f"model again; got {columns}"
        )
    machines = {one: machine.columns(*one) for one in ranges}  # models with equal weights share them
    return [machines[start, stop] for start, stop in columns]


def kernel_of(machine: ExactMachine | FeatureMachine) -> Any:
    """Return the kernel that is needed to read a file of the machine; None if none is needed."""
    if isinstance(machine, ExactMachine):
        return _exact_kernel(machine)
    origin = _without_constant(machine.features).origin
    return None if origin is None else origin.kernel


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


def _pack_exact(machine: ExactMachine) -> tuple[Document, Tensors]:
    kernel, rows = _exact_kernel(machine), machine.x
    document = {"constant": kernel is not machine.kernel, "kernel": encode(kernel)}
    if not isinstance(rows, SparseRows):
        return document, {"rows": rows[0 : len(rows)]}
    parts = {"rows.starts": rows.starts, "rows.columns": rows.columns, "rows.values": rows.values}
    return {**document, "sparse_inputs": rows.inputs}, parts


def _exact_kernel(machine: ExactMachine) -> Kernel:
    """Return the kernel without the constant of the intercept."""
    return machine.kernel.inner if isinstance(machine.kernel, KernelWithConstant) else machine.kernel


def _unpack_exact(reader: ModelReader, alpha: Tensor, device: torch.device) -> Machine:
    kernel = reader.decode(reader.document["kernel"])
    x = _unpack_rows(reader, device)
    if len(x) != len(alpha):
        raise InvalidFile(f"there must be {len(alpha)} rows, one for each weight; there are {len(x)}")
    kernel = KernelWithConstant(kernel) if reader.document["constant"] else kernel
    machine = ExactMachine(kernel, x, alpha.to(device))
    _check_largest_row(machine)
    return machine


def _check_largest_row(machine: ExactMachine) -> None:
    """Refuse rows that are so large that kernel values overflow: those of the largest row do first."""
    x = machine.x
    if machine.precomputed or x.shape[1] * machine.dtype.itemsize > DEFAULT_BUDGET:  # a few bytes say a sparse shape
        return
    largest = int(torch.cat([x[part].abs().amax(1) for part in chunks(*x.shape)]).argmax())
    row = TensorRows(x[largest : largest + 1], checked=True)
    if not all(bool(f.isfinite().all()) for _, f in machine.stream(row)):
        raise InvalidFile(
            "the entries of rows must be small enough for finite kernel values; the largest are too large"
        )


def _unpack_rows(reader: ModelReader, device: torch.device) -> Rows:
    """Return the rows on ``device``."""
    if "sparse_inputs" in reader.document:
        starts, columns = (reader.take(f"rows.{part}", index=True).to(device) for part in ("starts", "columns"))
        values = reader.take("rows.values").to(device)
        if not (columns.shape == values.shape == (int(starts[-1]),)):
            raise InvalidFile(
                f"there must be a column and a value for each of {int(starts[-1])} entries; got {tuple(columns.shape)} "
                f"and {tuple(values.shape)}"
            )
        return sparse_rows(starts, columns, values, reader.document["sparse_inputs"], "rows")
    x = reader.take("rows")
    if x.dim() != 2:
        raise InvalidFile(f"rows must have two dimensions; they have shape {tuple(x.shape)}")
    return TensorRows(x.to(device), checked=True)


def _unpack_features(reader: ModelReader, theta: Tensor, device: torch.device) -> Machine:
    """Return the machine, whose map is built on the CPU and must have one feature for each weight."""
    constant = reader.document["constant"]
    m = len(theta) - constant
    inner = _unpack_draw(reader, m) if "draw" in reader.document else _unpack_tensors(reader)
    # One call on the CPU checks that the shapes of the tensors agree, before they are moved to a GPU.
    psi = inner(torch.zeros(1, inner.n_inputs, dtype=reader.dtype))
    if psi.shape != (1, m) or psi.dtype != reader.dtype or not bool((psi.abs() < MAX_AT_ZERO).all()):
        raise InvalidFile(
            f"there must be {m} finite features, one for each weight, each smaller than {MAX_AT_ZERO:g} at 0; got "
            f"{tuple(psi.shape)}"
        )
    feature_map = FeaturesWithConstant(inner, reader.dtype.itemsize) if constant else inner
    return FeatureMachine(feature_map.to(reader.dtype, device), theta.to(device))


def _pack_features(machine: FeatureMachine, store_features: bool) -> tuple[Document, Tensors]:
    inner = _without_constant(machine.features)
    draw = None if store_features else _exact_draw(inner)
    document, tensors = _pack_tensors(inner) if draw is None else _pack_draw(draw, inner)
    return {"constant": inner is not machine.features, **document}, tensors


def _without_constant(features: FeatureMap) -> FeatureMap:
    """Return the map without the constant feature of the intercept."""
    return features.inner if isinstance(features, FeaturesWithConstant) else features


def _pack_tensors(inner: FeatureMap) -> tuple[Document, Tensors]:
    names = {kind: name for name, kind in MAPS.items()}
    numbers = {name: encode(value) for name, value in _numbers(inner).items()}
    return {"map": [names[type(inner)], numbers]}, {f"map.{name}": t for name, t in inner.tensors.items()}


def _unpack_tensors(reader: ModelReader) -> FeatureMap:
    name, numbers = reader.document["map"]
    tensors: dict[str, Any] = {
        key.removeprefix("map."): reader.take(key, index=key.removeprefix("map.") in INDEX_TENSORS)
        for key in reader.tensors
        if key.startswith("map.")
    }
    for key, tensor in tensors.items():
        if tensor.is_floating_point() and bool((tensor.abs() > MAX_SHARE * torch.finfo(tensor.dtype).max).any()):
            raise InvalidFile(f"the entries of the tensor 'map.{key}' must be small enough for finite features")
    inner = MAPS[name](**numbers, **tensors)
    for key, shape in SHAPES.get(name, lambda _: {})(inner).items():
        if tuple(tensors[key].shape) != shape:
            raise InvalidFile(f"the tensor 'map.{key}' must have shape {shape}; it has {tuple(tensors[key].shape)}")
    return inner


def _numbers(inner: FeatureMap) -> dict[str, Any]:
    """Return the fields of a map that are not tensors."""
    return {f.name: getattr(inner, f.name) for f in fields(inner) if f.name not in {"origin", *inner.tensors}}


def _exact_draw(inner: FeatureMap) -> Draw | None:
    """Return how the map was drawn, if this is smaller than its tensors and reproduces them bit for bit."""
    tensors = {name: tensor.cpu() for name, tensor in inner.tensors.items()}
    if inner.origin is None or all(tensor.numel() <= SAMPLE_ENTRIES for tensor in tensors.values()):
        return None
    dtype = next((tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()), torch.float64)
    redrawn = _redraw(inner.origin, dtype)
    same = redrawn.tensors.keys() == tensors.keys() and _numbers(redrawn) == _numbers(inner)
    same = same and all(torch.equal(tensor, tensors[name]) for name, tensor in redrawn.tensors.items())
    return inner.origin if same else None


def _redraw(draw: Draw, dtype: torch.dtype) -> FeatureMap:
    return features.draw(draw.kernel, draw.kind, draw.d, draw.m, draw.seed, dtype=dtype)


def _pack_draw(draw: Draw, inner: FeatureMap) -> tuple[Document, Tensors]:
    document = {
        "kernel": encode(draw.kernel),
        "kind": draw.kind,
        "inputs": draw.d,
        "features": draw.m,
        "seed": int(draw.seed),
        "sha256": _checksum(inner.tensors),
        "torch": str(torch.__version__),
    }
    return {"draw": document}, {f"witness.{name}": _sample(t) for name, t in inner.tensors.items()}


def _unpack_draw(reader: ModelReader, m: int) -> FeatureMap:
    document = reader.document["draw"]
    if document["features"] != m:  # checked before drawing, which could take any amount of memory
        raise InvalidFile(f"there must be {m} features, one for each weight; there are {document['features']}")
    kernel = reader.decode(document["kernel"])
    numbers = document["inputs"] * max(m, getattr(kernel, "degree", 1))
    if numbers > MAX_DRAWN or getattr(kernel, "degree", 1) > MAX_DEGREE:
        raise InvalidFile(f"features must have at most {MAX_DRAWN} numbers; these have {numbers}")
    draw = Draw(kernel, document["kind"], document["inputs"], m, document["seed"])
    redrawn = _redraw(draw, reader.dtype)
    if _checksum(redrawn.tensors) != document["sha256"]:
        _compare(redrawn, reader)
    return redrawn


def _compare(redrawn: FeatureMap, reader: ModelReader) -> None:
    """Raise InvalidFile for another draw; warn if the same draw is rounded differently."""
    document = reader.document["draw"]
    saved = {
        name: reader.take(f"witness.{name}", index=not t.is_floating_point()) for name, t in redrawn.tensors.items()
    }
    if not all(_near(_sample(t), saved[name]) for name, t in redrawn.tensors.items()):
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


UNPACKED = {  # by the kind in a document: the reader, and the tensor with the weights
    "exact": (_unpack_exact, ExactMachine.weights_name),
    "features": (_unpack_features, FeatureMachine.weights_name),
}
