"""The share ν of support vector machines, which takes the place of a threshold, of λ, or of ε."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from torch import Tensor

from joker.callbacks import Result
from joker.errors import InvalidData, InvalidParameter
from joker.estimators.resolve import Request
from joker.prepare import Training
from joker.solvers.nu import NuReport


def check_nu(nu: object) -> float:
    """Return the share ν."""
    number = isinstance(nu, Real) and not isinstance(nu, bool)
    if not number or not 0 < nu <= 1:  # type: ignore[operator]  # it is a number
        raise InvalidParameter(f"nu must be a number in (0, 1]; got {nu!r}. Use a value such as 0.1.")
    return float(nu)  # type: ignore[arg-type]


def check_with_nu(model: Any, request: Request) -> None:
    """Refuse parameters that a fit with ν cannot have, because it solves several problems."""
    check_nu(model.nu)
    given = {
        "lam": np.ndim(model.lam) > 0 and model.lam,
        "warm_start": bool(model.warm_start),
        "callbacks, early_stopping and verbose": bool(request.callbacks) and "some of them",
    }
    for name, value in given.items():
        if value:
            raise InvalidParameter(
                f"{name} must be left out where nu is set, or a single number for lam: such a fit solves several "
                f"problems, with a λ or ε each; got {value!r} and nu={model.nu!r}. Leave it out, or use nu=None."
            )


def result_of(training: Training, found: NuReport, divisor: Tensor | None = None) -> Result:  # (t,)
    """Return the machine of a ν-machine, with weights divided by ``divisor``, and its records."""
    report = found.report
    weights = training.weights((report.alpha, report.image))
    weights = weights if divisor is None else weights / divisor.to(weights)
    return Result(training.machine(weights), report.records[-1], report.records, report.reason.value)


def check_feasible(found: NuReport, nu: float, tol: float) -> None:
    """Refuse a ν that is so small that no λ has so few margin errors and support vectors."""
    if bool((found.rho > 0).all()) and not (found.unbounded and found.report.relative_gap > tol):
        return
    raise InvalidData(
        f"nu must be at least about {found.least_share:.2g} for these rows and this kernel; got nu={nu:g}: no λ has so "
        "few rows inside the margin or on the wrong side. Use a larger nu, a smaller bandwidth or more features."
    )
