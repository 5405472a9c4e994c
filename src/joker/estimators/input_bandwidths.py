"""A bandwidth for each input: inputs are divided by theirs as rows are read, and the kernel has bandwidth 1."""

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

MIN_BANDWIDTH = 1e-30  # an input divided by less may overflow float32
REMEDY = "Use an array such as np.ones(X.shape[1]), or one number for all inputs."


def bandwidth_of_inputs(bandwidth: Any, kernel: Kernel, d: int) -> NDArray[np.float64] | None:  # (d,)
    """Return the bandwidth of each of d inputs; None where one number or rule is for all inputs."""
    if isinstance(bandwidth, str | Real):
        return None
    try:
        bandwidths = np.array(as_array(bandwidth), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameter(
            f"bandwidth must be a number, a rule or an array of numbers; got {bandwidth!r}. {REMEDY}"
        ) from error
    if not bandwidths.ndim:
        return None
    _check(bandwidths, kernel, d)
    return bandwidths


def _check(bandwidths: NDArray[np.float64], kernel: Kernel, d: int) -> None:
    if not kernel.has_bandwidth:
        raise InvalidParameter(
            f"bandwidth must be left out for the kernel {kernel.name!r}, which has none; got an array. "
            "Multiply the inputs by weights of your own instead, or use another kernel."
        )
    if bandwidths.shape != (d,):
        raise InvalidParameter(
            f"bandwidth must have shape ({d},) where it is an array, one for each input; got {bandwidths.shape}. "
            f"{REMEDY}"
        )
    bad = np.flatnonzero(~(np.isfinite(bandwidths) & (bandwidths >= MIN_BANDWIDTH)))
    if len(bad):
        raise InvalidParameter(
            f"bandwidth must be positive finite numbers, of at least {MIN_BANDWIDTH:g}, where it is an array; found "
            f"{bandwidths[bad[0]]:g} for input {bad[0]}. Use a large number for an input that should not count."
        )


def scaling_by(
    mean: NDArray[np.float64] | None,  # (d,)
    deviation: NDArray[np.float64] | None,  # (d,)
    bandwidth: Any,
) -> Scaling | None:
    """Return what inputs are shifted by, and divided by: the deviation, the bandwidth of the input, or the product."""
    standardized = mean is not None and deviation is not None
    scaling = Scaling(torch.from_numpy(mean), torch.from_numpy(deviation)) if standardized else None
    return divided_by(scaling, bandwidth) if np.ndim(bandwidth) else scaling


def divided_by(
    scaling: Scaling | None,
    bandwidths: NDArray[np.float64],  # (d,)
) -> Scaling:
    """Return a scaling that divides each input by its bandwidth as well."""
    by = torch.from_numpy(bandwidths)
    return Scaling(torch.zeros(len(by)), by) if scaling is None else Scaling(scaling.mean, scaling.deviation * by)
