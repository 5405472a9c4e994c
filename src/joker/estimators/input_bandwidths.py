"""A bandwidth for each input: inputs are divided by theirs as rows are handed out, and the kernel has bandwidth 1."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from joker.data import Scaling
from joker.data.array_rows import as_array
from joker.errors import InvalidParameter
from joker.kernels import Kernel

LEAST = 1e-30  # an input divided by less leaves what float32 can hold
REMEDY = "Use an array such as np.ones(X.shape[1]), or one number for all inputs."


def bandwidth_of_inputs(bandwidth: Any, kernel: Kernel, d: int) -> NDArray[np.float64] | None:  # (d,)
    """Return the bandwidths of d inputs where each has its own; None where one number or rule is for all."""
    if isinstance(bandwidth, str | Real):
        return None
    try:
        widths = np.array(as_array(bandwidth), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(
            f"bandwidth must be a number, a rule or an array of numbers; got {bandwidth!r}. {REMEDY}"
        ) from error
    if not widths.ndim:
        return None
    _check(widths, kernel, d)
    return widths


def _check(widths: NDArray[np.float64], kernel: Kernel, d: int) -> None:
    if not kernel.has_bandwidth:
        raise InvalidParameter(
            f"bandwidth must be left out for the kernel {kernel.name!r}, which has none; got an array. "
            "Multiply the inputs by weights of your own instead, or use another kernel."
        )
    if widths.shape != (d,):
        raise InvalidParameter(
            f"bandwidth must have shape ({d},) where it is an array, one for each input; got {widths.shape}. {REMEDY}"
        )
    bad = np.flatnonzero(~(np.isfinite(widths) & (widths >= LEAST)))
    if len(bad):
        raise InvalidParameter(
            f"bandwidth must be positive finite numbers, of at least {LEAST:g}, where it is an array; found "
            f"{widths[bad[0]]:g} for input {bad[0]}. Use a large number for an input that should not count."
        )


def scaling_by(
    mean: NDArray[np.float64] | None,  # (d,)
    deviation: NDArray[np.float64] | None,  # (d,)
    bandwidth: Any,
) -> Scaling | None:
    """Return what inputs are moved by, and divided by: their deviation, their own bandwidth, or the product."""
    known = mean is not None and deviation is not None
    scaling = Scaling(torch.from_numpy(mean), torch.from_numpy(deviation)) if known else None
    return divided_by(scaling, bandwidth) if np.ndim(bandwidth) else scaling


def divided_by(
    scaling: Scaling | None,
    widths: NDArray[np.float64],  # (d,)
) -> Scaling:
    """Return a scaling whose inputs are divided by their bandwidths as well."""
    own = torch.from_numpy(widths)
    return Scaling(torch.zeros(len(own)), own) if scaling is None else Scaling(scaling.mean, scaling.deviation * own)
