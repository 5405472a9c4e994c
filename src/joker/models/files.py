"""Files of models: how every kind of model is saved and loaded.

A file has tensors and a JSON document in the safetensors format, with a checksum of every byte. The document is the
text under the key ``joker`` of the safetensors metadata. Its first three fields, ``format``, ``version`` and
``sha256``, and the definition of the checksum are the same in all versions of the format. So every joker can
distinguish a damaged file from a file of a newer version.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from joker.distributed import current
from joker.errors import InexactFeatures, InvalidFile, InvalidParameter, JokerError, MissingFile
from joker.kernels import Kernel
from joker.losses import Loss
from joker.models.packing import CustomObjects, Document, ModelReader, Tensors, encode, is_custom, stable_repr
from joker.runtime import VERSION as JOKER_VERSION
from joker.runtime import format_bytes, parse_device
from joker.runtime.files import AnyPath, parse_path, replace_file

FORMAT = "joker"
VERSION = 4  # the newest version; raised when an older reader would compute other predictions
KEY = "joker"  # of the safetensors metadata
PREFIX_BYTES = 8  # the length of the header, as an integer
MAX_HEADER_BYTES = 100_000_000  # the limit of safetensors
MAX_DEPTH = 100  # of lists and objects in one another; those of a model are about 20 deep
READ_BYTES = 2**20  # of one read while the checksum is computed
DTYPES = {  # by their names in safetensors
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
NO_CHECKSUM = "0" * 64  # takes the place of the checksum while it is computed
REMEDY = "Copy the file again from its source, or save the model again."

EXAMPLE = "model.joker"  # a file name, for messages
KERNEL_ESTIMATORS = (
    "Classifier", "Expectile", "Gamma", "Huber", "Logistic", "Lp", "OneClass", "PCA", "Poisson", "Quantile",
    "Regressor", "Ridge", "SVC", "SVR", "Transformer", "Tweedie",
)  # fmt: skip
# The classes that a file may hold, with their packages: the module ``files`` of a package has the ModelKind of its
# classes. They are named and not imported: an import would point up, and it would import scikit-learn.
PACKAGES = {
    **{f"Kernel{name}": "joker.estimators" for name in KERNEL_ESTIMATORS},
    "JokerClassifier": "joker.tables",
    "JokerRegressor": "joker.tables",
}
NOT_SAVED = {"callbacks", "n_jobs"}  # a file holds no code, and nothing of the computer
SAVED_FOR_FUNCTION = {"early_stopping": True, "scoring": None}  # what is saved for a function, which is code too
SPLITS = ("cv", "groups", "time")
# The errors that a document can cause whose bytes are intact and whose values contradict one another.
BAD_VALUE = (JokerError, ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Description:
    """What a kind of model adds to the document of a model, with the tensors."""

    version: int  # the lowest version of the format that can represent the model
    device: torch.device
    entries: Document
    tensors: Tensors


@dataclass(frozen=True)
class ModelKind:
    """How the models of one package are written and restored.

    ``describe(model, **options)`` returns what it adds to the document; ``restore(model, reader)`` sets in a new model
    what the fit had set.
    """

    describe: Callable[..., Description]
    restore: Callable[[Any, ModelReader], None]
    earlier: Mapping[str, Any] = field(default_factory=dict)  # parameters of files that are older than the parameters


def save(model: Any, path: AnyPath, **options: Any) -> None:
    """Write a fitted model to a file."""
    version, document, tensors = document_of(model, **options)
    write(path, document, tensors, version=version)


def load(
    path: AnyPath,
    *,
    device: str | torch.device | None = None,
    kernel: Kernel | None = None,
    loss: Loss | None = None,
) -> Any:
    """Read a model that its method ``save`` wrote: any estimator of joker.

    Parameters
    ----------
    path : str or PathLike
        The file.
    device : str or torch.device, optional
        Where the model computes. The default is the device it was saved on if this machine has it, else the CPU.
    kernel, loss : Kernel, Loss, optional
        The kernel or loss that the model was created with, if it is a class of your own: a file holds no code. An
        error says which is needed.

    Returns
    -------
    estimator
        The model as it was saved, with these exceptions: ``callbacks`` is None, a function for ``early_stopping``
        becomes True, ``cv``, ``groups`` and ``time`` that are not names or numbers become None, as does a
        ``random_state`` that is not a number, and the state of a warm start is lost. On the same machine the
        predictions are the same, bit for bit.

    Raises
    ------
    MissingFile
        If there is no such file.
    InvalidFile
        If the file is damaged, or was written by another program or by a newer joker.
    InvalidParameter
        If this machine does not have the device, or ``kernel`` or ``loss`` is not the one that the file needs.

    Examples
    --------
    >>> import numpy as np
    >>> import joker
    >>> from tempfile import TemporaryDirectory
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> model = joker.KernelRidge(lam=0.01, bandwidth=1.0).fit(X, np.sin(X[:, 0]))
    >>> with TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/sine.joker")
    ...     again = joker.load(f"{folder}/sine.joker")
    >>> bool(np.all(again.predict(X) == model.predict(X)))
    True
    """
    return load_with_document(path, device=device, kernel=kernel, loss=loss)[0]


def load_with_document(
    path: AnyPath, *, device: Any = None, kernel: Kernel | None = None, loss: Loss | None = None
) -> tuple[Any, Document]:
    """Read a model as `load` does; return it with the document of its file."""
    place = None if device is None else parse_device(device)
    document, tensors = read(path)
    with _errors_name_the_file(path):
        needs = {name: str(text) for name, text in document["needs"].items()}
    custom = CustomObjects(kernel=_given("kernel", kernel, needs), loss=_given("loss", loss, needs))
    with _errors_name_the_file(path):
        model = restore(ModelReader(document, tensors, custom, place))
    if device is not None:
        model.device = device
    return model, document


def document_of(model: Any, **options: Any) -> tuple[int, Document, Tensors]:
    """Return the version of the format, the document and the tensors from which `restore` builds the model."""
    found = _kind_of(type(model)).describe(model, **options)
    settings = _settings(model)
    document = {
        "estimator": type(model).__name__,
        "written_by": {"joker": JOKER_VERSION, "torch": str(torch.__version__)},
        "device": str(found.device),
        "needs": {name: stable_repr(value) for name, value in settings.items() if is_custom(value)},
        "settings": {name: encode(value) for name, value in settings.items()},
        **found.entries,
    }
    return found.version, document, found.tensors


def restore(reader: ModelReader) -> Any:
    """Return the model that `document_of` described."""
    name, settings = reader.document["estimator"], reader.document["settings"]
    if name not in PACKAGES:
        raise InvalidFile(f"the estimator {name!r} is not known")
    estimator, kind = _registered(name)
    known = {parameter.name for parameter in fields(estimator) if parameter.init}
    if unknown := sorted(settings.keys() - known):
        raise InvalidFile(f"{name} has no parameter {', '.join(unknown)}")
    earlier = {key: value for key, value in kind.earlier.items() if key in known}
    model = estimator(**earlier | {key: reader.decode(value) for key, value in settings.items()})
    kind.restore(model, reader)
    return model


def fitted_entries(model: Any, attributes: Mapping[str, str]) -> Document:
    """Return attributes that the fit has set, by their names in the document; a missing one is left out."""
    values = vars(model)
    return {name: encode(values[attribute]) for name, attribute in attributes.items() if attribute in values}


def _registered(name: str) -> tuple[Any, ModelKind]:
    package = PACKAGES[name]
    return getattr(import_module(package), name), import_module(f"{package}.files").KIND


def _kind_of(estimator: type) -> ModelKind:
    """Return how a class is written; refuse a class of the user: a file holds no code, so it could not be loaded."""
    registered = [_registered(base.__name__) for base in estimator.__mro__ if base.__name__ in PACKAGES]
    ours, kind = next((one for one in registered if one[0] in estimator.__mro__), (None, None))
    if kind is None or ours is not estimator:
        raise InvalidParameter(
            f"only estimators of joker can be saved, as a file holds no code; got {estimator.__name__}, a class of "
            f"your own. Use {'an estimator of joker' if ours is None else ours.__name__}."
        )
    return kind


def _settings(model: Any) -> dict[str, Any]:
    """The parameters of the constructor that a file can hold."""
    names = [parameter.name for parameter in fields(model) if parameter.init and parameter.name not in NOT_SAVED]
    settings = {name: getattr(model, name) for name in names}
    settings |= {name: saved for name, saved in SAVED_FOR_FUNCTION.items() if callable(settings.get(name))}
    # Of splits, only names of columns and numbers of folds: not the rows of a splitter or of an array.
    settings |= {name: None for name in SPLITS if name in settings and not isinstance(settings[name], str | int)}
    if isinstance(settings["random_state"], np.random.RandomState):
        settings["random_state"] = None  # the fit has advanced the generator, so that it would not repeat the fit
    return settings


def _given(name: str, part: Any, needs: Mapping[str, str]) -> Any:
    """Return the kernel or loss that the user gives, after checking that it is the one that the file needs."""
    if name not in needs:
        if part is not None:
            raise InvalidParameter(f"{name} must be left out, as the file needs none; got {part!r}. Leave it out.")
        return None
    if part is None or stable_repr(part) != needs[name]:
        raise InvalidParameter(
            f"{name} must be the one that the model was created with, {needs[name]}, which is a class of your own: a "
            f"file holds no code; got {part!r}. Use joker.load(path, {name}={needs[name]})."
        )
    return part


@contextmanager
def _errors_name_the_file(path: AnyPath) -> Iterator[None]:
    """Replace every error that the document causes by one that names the file."""
    try:
        yield
    except InexactFeatures:  # raised only where the user has turned warnings into errors
        raise
    except BAD_VALUE as error:
        what = str(error) if isinstance(error, JokerError) else f"{type(error).__name__}: {error}"
        raise InvalidFile(
            f"{path} must hold a model that this joker ({JOKER_VERSION}) can build, and does not: {what}. "
            "Upgrade joker if a newer version wrote the file, or save the model again."
        ) from error


def write(path: AnyPath, document: Mapping[str, Any], tensors: Mapping[str, Tensor], *, version: int = 1) -> None:
    """Write a file, or replace it in one step: a document of values that JSON can represent, and tensors on any device.

    ``version`` is the lowest version of the format that can represent the model: 2 has a bandwidth of each input, 3 a
    scale of the targets or a table.
    """
    text = json.dumps({"format": FORMAT, "version": version, "sha256": NO_CHECKSUM, **document}, allow_nan=False)
    if len(text) > MAX_HEADER_BYTES // 2:  # in the header the quotes of the text are escaped
        raise InvalidFile(
            f"the document of a model must take at most {format_bytes(MAX_HEADER_BYTES // 2)}; this one takes "
            f"{format_bytes(len(text))}, mostly names of inputs or records of epochs. Fit on an array without names."
        )
    if current().rank == 0:
        with replace_file(path, EXAMPLE) as file:
            _write(file, text, tensors)
    current().decide(True)  # the other processes wait for the file


def _write(file: IO[bytes], text: str, tensors: Mapping[str, Tensor]) -> None:
    """Write the header with the checksum of the whole file, and the tensors, those with the longest numbers first."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    ready = dict(sorted(ready.items(), key=lambda item: (-item[1].itemsize, item[0])))  # so each is aligned
    layout: Document = {"__metadata__": {KEY: text}}
    place = 0
    for name, tensor in ready.items():
        dtype = next(name for name, kind in DTYPES.items() if kind == tensor.dtype)
        layout[name] = {"dtype": dtype, "shape": [*tensor.shape], "data_offsets": [place, place + tensor.nbytes]}
        place += tensor.nbytes
    header = json.dumps(layout, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-len(header) % PREFIX_BYTES)
    header = len(header).to_bytes(PREFIX_BYTES, "little") + header
    checksum = hashlib.sha256(header)
    for tensor in ready.values():
        checksum.update(_bytes(tensor))
    # The first zeros are those of the checksum: all text of the user comes later.
    file.write(header.replace(NO_CHECKSUM.encode(), checksum.hexdigest().encode(), 1))
    for tensor in ready.values():
        file.write(_bytes(tensor))


def _bytes(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor in the memory of the CPU, which are not copied."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def read(path: AnyPath) -> tuple[Document, dict[str, Tensor]]:
    """Return the document and the tensors of a file, on the CPU."""
    source = parse_path(path, EXAMPLE)
    if source.exists() and not source.is_file():
        raise InvalidFile(f"path must name a file; {source} is not a file. Give the name of a file that save() wrote.")
    try:
        with source.open("rb") as file:  # one open file for all: another one may take its name meanwhile
            return _read(file, source)
    except FileNotFoundError as error:
        raise MissingFile(f"path must name a file; {source} does not exist. Check the name and the folder.") from error
    except OSError as error:
        raise InvalidFile(
            f"path must name a file that can be read; reading {source} failed: {error.strerror or error}. Check its "
            "permissions and its disk."
        ) from error


@dataclass(frozen=True)
class _StoredTensor:
    """What the header says of a tensor."""

    name: str
    dtype: str
    shape: Sequence[int]
    start: int  # of its bytes, counted from the end of the header
    stop: int


def _read(file: IO[bytes], source: Path) -> tuple[Document, dict[str, Tensor]]:
    """Return the document and the tensors, each byte of which is read once."""
    size, prefix = os.fstat(file.fileno()).st_size, file.read(PREFIX_BYTES)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < PREFIX_BYTES or length > min(size - PREFIX_BYTES, MAX_HEADER_BYTES):
        raise InvalidFile(_not_joker(source, "its first bytes are wrong, or its end is missing"))
    header = prefix + file.read(length)
    stored, document = _parse(header[PREFIX_BYTES:], source)
    extra = size - len(header) - (stored[-1].stop if stored else 0)
    if extra:
        raise InvalidFile(
            f"a file of joker must have the length that its header says; {source} is {format_bytes(abs(extra))} too "
            f"{'long' if extra > 0 else 'short'}. {REMEDY}"
        )
    sealed = str(document.get("sha256"))
    unsealed = header.replace(sealed.encode(), NO_CHECKSUM.encode(), 1) if re.fullmatch("[0-9a-f]{64}", sealed) else b""
    checksum = hashlib.sha256(unsealed)
    parts = [_read_bytes(file, one.stop - one.start, checksum) for one in stored]
    if checksum.hexdigest() != sealed:
        raise InvalidFile(f"the bytes of {source} must match its checksum; they do not, the file is damaged. {REMEDY}")
    version = document.get("version")
    if type(version) is not int:
        raise InvalidFile(_not_joker(source, "the version of its format is not a number"))
    if version > VERSION:
        raise InvalidFile(
            f"{source} was written by a newer joker (format {version}); this joker reads formats up to {VERSION}. "
            "Upgrade joker."
        )
    try:
        found = zip(stored, parts, strict=True)
        return document, {one.name: part.view(DTYPES[one.dtype]).view(torch.Size(one.shape)) for one, part in found}
    except (LookupError, RuntimeError, TypeError) as error:
        raise InvalidFile(_not_joker(source, "a tensor has another type or shape than its bytes")) from error


def _read_bytes(file: IO[bytes], count: int, checksum: Any) -> Tensor:  # (count,)
    """Return the next bytes; those that are missing are 0, which the checksum shows."""
    part = torch.zeros(count, dtype=torch.uint8)
    view = _bytes(part)
    for start in range(0, count, READ_BYTES):
        file.readinto(view[start : start + READ_BYTES])  # type: ignore[attr-defined]  # of an open file it exists
        checksum.update(view[start : start + READ_BYTES])
    return part


def _parse(header: bytes, source: Path) -> tuple[list[_StoredTensor], Document]:
    """Return what a header says of the tensors, in the order of their bytes, and the document."""
    try:
        layout = json.loads(header)
        document = json.loads(layout.pop("__metadata__")[KEY])
        stored = [_StoredTensor(name, one["dtype"], one["shape"], *one["data_offsets"]) for name, one in layout.items()]
        stored.sort(key=lambda one: (one.start, one.stop))
        edges = [0, *(edge for one in stored for edge in (one.start, one.stop))]
        whole = all(type(edge) is int for edge in edges) and edges == sorted(edges)
        whole = whole and edges[:-1:2] == edges[1::2]  # there are no gaps and nothing is read twice
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InvalidFile(_not_joker(source, "it has no document of joker")) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidFile(_not_joker(source, "its document is of another program"))
    if not whole:
        raise InvalidFile(_not_joker(source, "its tensors do not follow one another"))
    if not _is_flat(document):
        raise InvalidFile(_not_joker(source, f"its document has more than {MAX_DEPTH} lists or objects in one another"))
    return stored, document


def _is_flat(document: Document) -> bool:
    """Whether functions that call themselves for each level of a document can read what becomes of it."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        inner = (part.values() if isinstance(part, dict) else part for part in level)
        level = [one for parts in inner for one in parts if isinstance(one, dict | list)]
        if not level:
            return True
    return False


def _not_joker(source: Path, why: str) -> str:
    return f"path must name a file that save() wrote; {source} is not, or it is damaged: {why}. {REMEDY}"
