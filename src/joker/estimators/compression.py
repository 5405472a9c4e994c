"""A copy of a fitted estimator whose exact kernel has fewer rows."""

from __future__ import annotations

import copy
import math
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from joker.errors import InvalidParameter
from joker.estimators import resolve
from joker.models import ExactMachine
from joker.models.compression import compress


def compressed(model: Any, n_rows: int | None, seed: int) -> Any:
    """Return the copy. Its probabilities and intervals are those of the settings that the model has."""
    check_is_fitted(model, "_machine")
    whole = isinstance(n_rows, Integral) and not isinstance(n_rows, bool)
    if n_rows is not None and not (whole and n_rows > 0):
        raise InvalidParameter(f"n_rows must be a positive whole number or None; got {n_rows!r}. Use e.g. n_rows=1000.")
    machine = model._machine
    if not isinstance(machine, ExactMachine):
        raise InvalidParameter(
            "compress needs a model with an exact kernel (n_features=None); this one has features. Fit it again with a "
            "smaller n_features instead."
        )
    if machine.precomputed:
        raise InvalidParameter(
            "compress needs the rows of the model; a precomputed kernel has none. Give the rows and a kernel to fit."
        )
    small, errors = compress(
        machine, None if n_rows is None else int(n_rows), seed, resolve.gram_room(machine.alpha.device)
    )
    new = copy.copy(model)
    for attribute in ("path_", "_warm"):
        vars(new).pop(attribute, None)
    new._set_machine(small, [model.lam_], 0, small.alpha.shape[1])
    shares = errors.cpu().numpy()
    new.compression_error_ = float(shares.max())
    if np.any(shares > 0):
        new.gap_ = math.inf
        new.stop_reason_ = (
            f"Compressed from {len(machine.x):,} rows to {len(small.x):,}: its predictions differ by "
            f"{new.compression_error_:.2g} of their standard deviation."
        )
    return new
