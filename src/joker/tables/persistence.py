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
        becomes True, a ``random_state`` that is not a number becomes None, and the state of a warm start is lost. On
        the same machine the predictions are the same, bit for bit.

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
