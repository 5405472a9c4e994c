"""Models from files: table models, and all other estimators of joker."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from joker import estimators
from joker.errors import InvalidFile, InvalidParameter
from joker.estimators.persistence import errors_name_the_file
from joker.kernels import Kernel
from joker.losses import Loss
from joker.models.io import container
from joker.models.io.json_values import CustomObjects, decode
from joker.runtime import parse_device
from joker.runtime.atomic_file import AnyPath
from joker.tables.estimators import JokerClassifier, JokerRegressor
from joker.tables.table_document import fill

TABLE_ESTIMATORS = {kind.__name__: kind for kind in (JokerClassifier, JokerRegressor)}


def load(
    path: AnyPath,
    *,
    device: str | torch.device | None = None,
    kernel: Kernel | None = None,
    loss: Loss | None = None,
) -> Any:
    """Read a model that its method ``save`` wrote: see `joker.estimators.load`, which describes the parameters.

    Also reads `JokerClassifier` and `JokerRegressor`, with the encoding of their tables.
    """
    place = None if device is None else parse_device(device)
    document, tensors = container.read(path)
    kind = TABLE_ESTIMATORS.get(str(document.get("estimator")))
    if kind is None:
        return estimators.load(path, device=device, kernel=kernel, loss=loss)
    if kernel is not None or loss is not None:
        raise InvalidParameter("kernel and loss must be left out, as the file of a table model needs none.")
    with errors_name_the_file(path):
        settings = document["settings"]
        if unknown := sorted(settings.keys() - {field.name for field in fields(kind) if field.init}):
            raise InvalidFile(f"{kind.__name__} has no parameter {', '.join(unknown)}")
        model = kind(**{name: decode(value, CustomObjects()) for name, value in settings.items()})
        fill(model, document, tensors, place)
    if device is not None:
        model.device = device
    return model
